//! The machine, by what it answers: registration, waiting, lives, limits, levels, restarts; and beside a plain model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ends;
mod limits;
mod lives;
mod model;
mod registering;
mod restarts;
#[path = "../support/mod.rs"]
mod support;
mod units;
mod waiting;
