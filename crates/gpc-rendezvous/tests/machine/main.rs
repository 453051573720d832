//! Tests of the state machine's answers: registration, waits, liveness, limits, levels, restarts; and a comparison with
//! a simple model.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ends;
mod limits;
mod liveness;
mod model;
mod registering;
mod restarts;
#[path = "../support/mod.rs"]
mod support;
mod undone;
mod units;
mod waiting;
