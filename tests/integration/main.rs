//! Tests of the library from outside, but for the state machine of calls (`tests/chain`): the wire, links, bootstrap,
//! and nodes over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_bytes;
mod bootstrap;
mod kubernetes;
mod level_vectors;
mod link_halves;
mod members;
mod other_noise;
mod passing;
mod proof_bytes;
mod rule;
mod runtime;
mod short_frames;
mod streaming_replies;
mod wire_bytes;
mod wire_support;
