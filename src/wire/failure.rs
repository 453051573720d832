//! Why a call failed: the first cause, and what is known of every id.
//!
//! Source: chained-gpc.md, "Exceptions" 2 and 3: any failure at any stage goes to the parent. Beyond the source, the first cause travels along.

use std::fmt;

use gpc_trees::Id;

use super::{Coverage, Shown};

/// Longest message of a cause on the wire, bytes: a sentence or two with names in it; a function's novel is cut there.
pub const MESSAGE_MAX: usize = 1024;

/// The stage of a call at which an id failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// Receiving and queueing the request.
    Setup = 1,
    /// Executing func.
    Func = 2,
    /// Sending the request on to the children.
    Forward = 3,
    /// Merging a child's reply.
    Callback = 4,
    /// Giving or awaiting a reply.
    Reply = 5,
    /// The connection to the id.
    Link = 6,
    /// The caller gave the call up.
    Cancelled = 7,
}

impl Stage {
    /// The stage with this number on the wire.
    pub fn from_wire(byte: u8) -> Option<Stage> {
        use Stage::*;
        [Setup, Func, Forward, Callback, Reply, Link, Cancelled]
            .into_iter()
            .find(|stage| *stage as u8 == byte)
    }

    /// The stage's name in output.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Setup => "setup",
            Stage::Func => "func",
            Stage::Forward => "forward",
            Stage::Callback => "callback",
            Stage::Reply => "reply",
            Stage::Link => "link",
            Stage::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first cause of a failure: which id, at which stage, what it said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The id that failed.
    pub id: Id,
    /// Where in the call.
    pub stage: Stage,
    /// In words, as the id said it: to print it, print the cause, or the message as [`Shown`].
    pub message: String,
}

impl Cause {
    /// A cause; a message over [`MESSAGE_MAX`] bytes is cut at a character.
    pub fn new(id: Id, stage: Stage, message: impl Into<String>) -> Cause {
        let mut message = message.into();
        if message.len() > MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        }
        Cause { id, stage, message }
    }
}

impl fmt::Display for Cause {
    /// On one line: what the id said is escaped and bounded, since it may come from anybody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id {} failed at stage {}: {}", self.id, self.stage, Shown(&self.message))
    }
}

/// A call that failed: the first cause, and what became of each id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What went wrong first.
    pub cause: Cause,
    /// What is known of the ids asked, in tree order.
    pub coverage: Coverage,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for Failure {}
