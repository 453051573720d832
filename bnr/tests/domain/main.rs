//! One node of a domain, and a few, step by step: what is answered, and what is done.
#![allow(clippy::unwrap_used, reason = "tests")]

mod databases;
mod groups;
mod limits;
mod meetings;
mod nodes;
