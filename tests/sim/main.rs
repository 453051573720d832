//! The simulator: its worlds, its faults and whether its checkers bite.

mod checkers;
mod exhaustive;
mod faults;
mod history;
mod limits;
mod rising;
mod statuses;
mod worlds;
