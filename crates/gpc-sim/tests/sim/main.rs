//! Tests of the simulator: its worlds, its faults and its checkers.

mod blame;
mod checkers;
mod doubt;
mod exhaustive;
mod faults;
mod history;
mod jobs;
mod limits;
mod observed;
mod own_part;
mod parents;
mod refusals;
mod reports;
mod retained;
mod silence;
mod statuses;
mod streaming;
mod worlds;
