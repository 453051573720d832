//! Tests of one node of a domain, and of a few nodes, step by step: answers and outputs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod databases;
mod groups;
mod limits;
mod meetings;
mod nodes;
