//! Failures of a call: the first cause, and the known state of every id.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 2 and 3: any failure at any stage goes to the parent.
//! Beyond the source, the first cause travels with it.

use std::fmt;

use gpc_trees::Id;

use super::shown::SHOWN_MAX;
use super::{CauseKind, Coverage, Shown, Straggler};

/// Maximum length of a cause's message on the wire, in bytes: one or two sentences that contain names. Longer messages
/// are cut.
pub const MESSAGE_MAX: usize = 1024;

/// Maximum length of a cause's detail in bytes: its length is one byte on the wire.
pub const DETAIL_MAX: usize = u8::MAX as usize;

const _: () = assert!(SHOWN_MAX == 2 * MESSAGE_MAX, "a cause is shown whole, with local text");

/// The stage of a call at which an id failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// Receive and queue the request.
    Setup = 1,
    /// Execute func.
    Func = 2,
    /// Send the request to the children.
    Forward = 3,
    /// Merge a child's reply.
    Callback = 4,
    /// Send or await a reply.
    Reply = 5,
    /// The connection to the id.
    Link = 6,
    /// The caller cancelled the call.
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

/// Why an id failed: a [`Cause`] without the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// Kind of failure.
    pub kind: CauseKind,
    /// The application's error code; 0 if it set none.
    pub code: i64,
    /// Message for people.
    pub message: String,
    /// Bytes for programs; usually none.
    pub detail: Vec<u8>,
}

impl Reason {
    /// Returns a reason without a code and a detail.
    pub fn new(kind: CauseKind, message: impl Into<String>) -> Reason {
        Reason { kind, code: 0, message: message.into(), detail: Vec::new() }
    }
}

/// A bare message is the error of a function that failed.
impl From<&str> for Reason {
    fn from(message: &str) -> Reason {
        Reason::new(CauseKind::Failed, message)
    }
}

/// A bare message is the error of a function that failed.
impl From<String> for Reason {
    fn from(message: String) -> Reason {
        Reason::new(CauseKind::Failed, message)
    }
}

/// Results carry a boxed reason: the pointer keeps successful results small.
impl From<&str> for Box<Reason> {
    fn from(message: &str) -> Box<Reason> {
        Box::new(message.into())
    }
}

/// Results carry a boxed reason: the pointer keeps successful results small.
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

/// The first cause of a failure: the id, the stage, the kind of failure, and the id's message. It travels up to the
/// caller unchanged.
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
    /// Stage of the call at which the id failed.
    pub stage: Stage,
    /// Kind of failure.
    pub kind: CauseKind,
    /// The application's error code, if its function [set one](crate::WithCode). 0 means no code, as exit status 0
    /// means no error.
    pub code: i64,
    /// Message of the id, unescaped. To print it, print the cause, or wrap the message in [`Shown`].
    pub message: String,
    /// Bytes of the application, if its function [gave some](crate::WithCode::detail); at most [`DETAIL_MAX`].
    pub detail: Vec<u8>,
    /// At a time limit: the id that the call waited for, what it did, and for how long. It may be below the id that
    /// failed, as last reported with heartbeats.
    pub straggler: Option<Box<Straggler>>,
}

impl Cause {
    /// Returns a cause without a code. A message over [`MESSAGE_MAX`] bytes is cut at a character boundary.
    pub fn new(id: Id, stage: Stage, kind: CauseKind, message: impl Into<String>) -> Cause {
        Cause::of(id, stage, Reason::new(kind, message))
    }

    /// Returns the cause for a reason at an id and stage. A message over [`MESSAGE_MAX`] bytes is cut at a character
    /// boundary. A detail over [`DETAIL_MAX`] bytes is left out, since a part of it means nothing.
    pub fn of(id: Id, stage: Stage, reason: Reason) -> Cause {
        let Reason { kind, code, mut message, mut detail } = reason;
        if message.len() > MESSAGE_MAX {
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        }
        if detail.len() > DETAIL_MAX {
            detail = Vec::new();
        }
        Cause { id, stage, kind, code, message, detail, straggler: None }
    }

    /// Returns the cause with this application code.
    pub fn with_code(self, code: i64) -> Cause {
        Cause { code, ..self }
    }
}

impl fmt::Display for Cause {
    /// Prints one line. The message may come from any peer, so it is escaped and bounded. The kind is left out where
    /// the stage and the message already give it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cause { id, stage, kind, code, message, straggler, .. } = self;
        write!(f, "id {id} failed at stage {stage}")?;
        match (kind, code) {
            (CauseKind::Failed | CauseKind::Cancelled, 0) => {}
            (kind, 0) => write!(f, " ({kind})")?,
            (kind, code) => write!(f, " ({kind}, code {code})")?,
        }
        write!(f, ": {}", Shown(message))?;
        straggler.as_ref().map_or(Ok(()), |straggler| write!(f, ": {straggler}"))
    }
}

/// A failed call: the first cause, and the state of each id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The first error.
    pub cause: Cause,
    /// Known state of the called ids, in tree order.
    pub coverage: Coverage,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_a_number_and_a_name() {
        let stages: Vec<Stage> = (0..=255).filter_map(Stage::from_wire).collect();
        assert!(stages.iter().map(|stage| *stage as u8).eq(1..=7));
        let names = ["setup", "func", "forward", "callback", "reply", "link", "cancelled"];
        assert!(stages.iter().map(|stage| stage.to_string()).eq(names));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = |text: String| Cause::new(3, Stage::Func, CauseKind::Failed, text).message;
        assert_eq!(message("x".repeat(MESSAGE_MAX)).len(), MESSAGE_MAX);
        assert_eq!(message("x".repeat(MESSAGE_MAX + 1)).len(), MESSAGE_MAX);
        assert_eq!(message(format!("x{}", "ü".repeat(MESSAGE_MAX))).len(), MESSAGE_MAX - 1);
    }

    #[test]
    fn a_long_detail_is_left_out() {
        let detail = |len| {
            let reason = Reason { detail: vec![1; len], ..Reason::from("no") };
            Cause::of(3, Stage::Func, reason).detail.len()
        };
        assert_eq!([0, DETAIL_MAX, DETAIL_MAX + 1].map(detail), [0, DETAIL_MAX, 0]);
    }

    #[test]
    fn a_cause_is_one_line_with_what_its_message_does_not_say() {
        let cause = |kind, code| Cause::new(3, Stage::Func, kind, "no\nway").with_code(code).to_string();
        assert_eq!(cause(CauseKind::Failed, 0), r"id 3 failed at stage func: no\nway");
        assert_eq!(cause(CauseKind::Cancelled, 0), r"id 3 failed at stage func: no\nway");
        let busy = CauseKind::Busy;
        assert_eq!(cause(busy, 0), format!(r"id 3 failed at stage func ({busy}): no\nway"));
        assert_eq!(
            cause(CauseKind::Failed, -7),
            format!(r"id 3 failed at stage func ({}, code -7): no\nway", CauseKind::Failed)
        );
    }
}
