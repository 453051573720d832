//! Tests of the trees.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod adoption;
mod built_in;
mod host_groups;
mod hosts;
mod ids;
mod loggp;
mod names;
mod refusals;
mod user_trees;
