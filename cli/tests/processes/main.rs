//! The command as its users run it: calls over real processes, and what is left when processes and calls are ended in every way.
//!
//! Nothing is timed: every wait is for a condition (a line of output, a state in /proc), and its limit only passes where something is broken.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod bulk;
mod calls;
mod crowd;
mod deaths;
mod hosts;
mod idle;
mod jobs;
mod joined;
mod memory;
mod replies;
mod size;
mod support;
