//! How processes end: exit status, signal, or loss of the node.

use std::fmt;

use chained_gpc::trees::Id;

use crate::names::Member;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Exit {
    /// It exited with this status.
    Code(u8),
    /// This signal killed it.
    Signal(u8),
    /// The kernel killed it, since its control group or the machine was out of memory.
    OutOfMemory,
    /// Its node was lost, so its exit is unknown.
    Node(Id),
    /// It was never started, since its group could not be.
    Never,
}

/// A process that has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Death {
    /// The process.
    pub member: Member,
    /// How it ended.
    pub exit: Exit,
    /// Whether it finalized or never initialized. A process that initializes and ends without finalizing leaves other
    /// members waiting.
    pub finalized: bool,
}

impl Death {
    /// Whether the death is no failure: status 0 and `finalized`.
    pub fn is_clean(&self) -> bool {
        self.exit == Exit::Code(0) && self.finalized
    }
}

impl Exit {
    /// The exit status that a shell shows for it.
    pub fn status(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128_u8.saturating_add(signal),
            Exit::OutOfMemory => 128 + 9,
            Exit::Node(_) | Exit::Never => 1,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "ended with status {code}"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}"),
            Exit::OutOfMemory => f.write_str("was killed by the kernel for want of memory (signal 9)"),
            Exit::Node(id) => write!(f, "was lost with node {id}"),
            Exit::Never => f.write_str("was never started"),
        }
    }
}
