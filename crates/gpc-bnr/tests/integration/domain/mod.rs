//! Tests of one node of a domain, and of a few nodes, step by step: answers and outputs.

mod databases;
mod derived;
mod groups;
mod limits;
mod meetings;
mod nodes;
mod pmix;
mod soft;
