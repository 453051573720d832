//! What tests of the machine have in common: a plain driver, and a store that is a few maps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod driven;
pub(crate) mod maps;
