//! The command as users run it: calls over real processes, and what remains after processes and calls end in every way.
//!
//! Nothing is timed: every wait is for a condition (a line of output, a state in /proc), and its limit passes only if
//! something is broken.

#![cfg(target_os = "linux")]

mod bench;
mod bulk;
mod calls;
mod copy;
mod crowd;
mod deaths;
mod hosts;
mod idle;
mod jobs;
mod joined;
mod memory;
mod replies;
mod size;
pub(crate) mod support;
mod top;
mod traced;
