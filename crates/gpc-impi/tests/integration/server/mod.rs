//! The server as a state machine: its outputs, its checks and limits, and the end of a session.

mod checks;
mod driven;
mod examples;
mod interleavings;
mod limits;
mod orders;
mod table;
mod vanishing;
