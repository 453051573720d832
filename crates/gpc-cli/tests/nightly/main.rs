//! Tests that take a minute or more each, for `.ci/nightly`: slow wires, and a thousand processes.
#![cfg(all(feature = "bnr", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crowd;
#[allow(dead_code, reason = "shared with the tests of calls over processes")]
#[path = "../integration/processes/support.rs"]
mod processes;
mod scale;
mod slow;
#[allow(dead_code, reason = "shared with the tests of `gpc run`")]
#[path = "../integration/run/support.rs"]
mod support;
