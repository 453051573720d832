//! How processes end.

use std::fmt;

use chained_gpc::trees::Id;

use crate::names::Member;

/// How a process has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Exit {
    /// By itself, with this status.
    Code(u8),
    /// By this signal.
    Signal(u8),
    /// By the kernel, since its control group, or the machine, was out of memory.
    OutOfMemory,
    /// With its node, so that nobody saw how.
    Node(Id),
    /// It was never started: its group could not be.
    Never,
}

/// A process that has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Death {
    /// Which process.
    pub member: Member,
    /// How.
    pub exit: Exit,
    /// Whether it had said goodbye: it has finalized, or has never said that it takes part. Who has not, and ends, leaves others waiting.
    pub finalized: bool,
}

impl Death {
    /// Whether nothing is wrong with it: status 0, and it had said goodbye.
    pub fn is_clean(&self) -> bool {
        self.exit == Exit::Code(0) && self.finalized
    }
}

impl Exit {
    /// The exit status by which a shell would show it.
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
