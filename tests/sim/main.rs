//! The simulator: its worlds, its faults and whether its checkers bite.

mod checkers;
mod exhaustive;
mod faults;
mod rising;
mod worlds;
