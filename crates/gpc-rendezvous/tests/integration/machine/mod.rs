//! Tests of the state machine's answers: registration, waits, liveness, limits, levels, restarts; and a comparison with
//! a simple model.

mod ends;
mod limits;
mod liveness;
mod model;
mod registering;
mod restarts;
mod undone;
mod units;
mod waiting;
