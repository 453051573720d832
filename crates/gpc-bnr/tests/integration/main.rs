//! Tests of groups but for the supervisor, which adopts processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod documents;
mod domain;
mod pmi;
mod worlds;
