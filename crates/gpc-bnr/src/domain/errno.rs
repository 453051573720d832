//! Error numbers of Linux that a domain reports for processes that were not started.

/// The system's error for an operation that was cancelled: `ECANCELED` of Linux.
pub(super) const CANCELLED: i32 = 125;

/// The system's errors for nodes that do not report what they started: `EIO`, `ETIMEDOUT`, `EHOSTUNREACH` of Linux.
pub(super) const IO: i32 = 5;
pub(super) const TIMED_OUT: i32 = 110;
pub(super) const UNREACHABLE: i32 = 113;
