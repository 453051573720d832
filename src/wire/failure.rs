//! Why a call failed: the first cause, and what is known of every id.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 2 and 3: any failure at any stage goes to the parent. Beyond the source, the first cause travels along.

use std::fmt;

use gpc_trees::Id;

use super::{CauseKind, Coverage, Shown};

/// Longest message of a cause on the wire, bytes: a sentence or two with names in it; longer ones are cut there.
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

/// Why something went wrong at an id: what a [`Cause`] says beyond the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// What kind of failure it was.
    pub kind: CauseKind,
    /// The application's number; 0 where it gave none.
    pub code: i64,
    /// In words.
    pub message: String,
}

impl Reason {
    /// A reason without a code.
    pub fn new(kind: CauseKind, message: impl Into<String>) -> Reason {
        Reason { kind, code: 0, message: message.into() }
    }
}

/// Words alone are those of a function that failed.
impl From<&str> for Reason {
    fn from(message: &str) -> Reason {
        Reason::new(CauseKind::Failed, message)
    }
}

/// Words alone are those of a function that failed.
impl From<String> for Reason {
    fn from(message: String) -> Reason {
        Reason::new(CauseKind::Failed, message)
    }
}

/// What results carry: a pointer, so that those that are good are not longer for the others.
impl From<&str> for Box<Reason> {
    fn from(message: &str) -> Box<Reason> {
        Box::new(message.into())
    }
}

/// What results carry: a pointer, so that those that are good are not longer for the others.
impl From<String> for Box<Reason> {
    fn from(message: String) -> Box<Reason> {
        Box::new(message.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.message).fmt(f)
    }
}

/// The first cause of a failure: which id, at which stage, what kind of failure, and what it said. It travels up to the caller unchanged.
///
/// A program matches on [`kind`](Self::kind) and on [`code`](Self::code); the message is for people and may change.
///
/// ```
/// use chained_gpc::{Call, CauseKind, Functions, LinkKind, LocalNodes, Stage, WithCode};
///
/// let functions = Functions::new();
/// let withdraw = functions.func("withdraw", |request, _| match request.me() {
///     2 => Err(WithCode::new(402, "the account is empty").into()),
///     _ => Ok(()),
/// })?;
/// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
/// let error = nodes.root().call(Call::new(withdraw).ids(0..3))?.wait().unwrap_err();
/// let cause = error.cause().expect("the call got under way");
/// assert_eq!((cause.id, cause.stage), (2, Stage::Func));
/// assert_eq!((cause.kind, cause.code), (CauseKind::Failed, 402));
/// assert_eq!(cause.message, "the account is empty");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Cause {
    /// The id that failed.
    pub id: Id,
    /// Where in the call.
    pub stage: Stage,
    /// What kind of failure it was.
    pub kind: CauseKind,
    /// The application's number, if its function [gave one](crate::WithCode): 0 means none, as an exit status of 0 means no error.
    pub code: i64,
    /// In words, as the id said it: to print it, print the cause, or the message as [`Shown`].
    pub message: String,
}

impl Cause {
    /// A cause without a code; a message over [`MESSAGE_MAX`] bytes is cut at a character.
    pub fn new(id: Id, stage: Stage, kind: CauseKind, message: impl Into<String>) -> Cause {
        Cause::of(id, stage, Reason::new(kind, message))
    }

    /// What went wrong at an id; a message over [`MESSAGE_MAX`] bytes is cut at a character.
    pub fn of(id: Id, stage: Stage, reason: Reason) -> Cause {
        let Reason { kind, code, mut message } = reason;
        if message.len() > MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        }
        Cause { id, stage, kind, code, message }
    }

    /// The same with the application's number.
    pub fn with_code(self, code: i64) -> Cause {
        Cause { code, ..self }
    }
}

impl fmt::Display for Cause {
    /// On one line: what the id said is escaped and bounded, since it may come from anybody. What the stage and the words say already is not said again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cause { id, stage, kind, code, message } = self;
        write!(f, "id {id} failed at stage {stage}")?;
        match (kind, code) {
            (CauseKind::Failed | CauseKind::Cancelled, 0) => {}
            (kind, 0) => write!(f, " ({kind})")?,
            (kind, code) => write!(f, " ({kind}, code {code})")?,
        }
        write!(f, ": {}", Shown(message))
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
