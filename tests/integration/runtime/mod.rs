//! Tests of the runtime over real sockets, from outside: whole calls, and peers that misbehave.
//!
//! No test sleeps to win a race, and none measures time. Every wait has a limit far above what any machine needs, so a
//! hang is a failure.

mod access;
mod announcing;
mod arriving_replies;
mod at_rest;
mod callers;
mod calls;
mod common;
mod contexts;
mod credit;
mod data;
mod errors;
mod events;
mod extents;
mod fair;
mod flood;
mod foreign;
mod handle;
mod host;
mod hostile;
mod incarnations;
mod jobs;
mod many;
mod meeting;
mod membership;
mod membership_model;
mod memory;
mod named;
mod partial;
mod parts;
mod pauses;
mod peers;
mod polled;
mod raw;
mod recorder;
mod reductions;
mod replies;
mod rings;
mod scatter;
mod secrets;
mod shutdown;
mod streaming;
mod traces;
mod trees;
mod users;
mod workers;
