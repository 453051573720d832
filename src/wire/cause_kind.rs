//! What kind of failure a cause tells of: a set of numbers that grows (docs/wire.md, "RESPONSE").
//!
//! A number keeps its meaning for ever, and one that this version does not know is kept as it is: a node passes it on to its parent, and the caller gets it.

use std::fmt;

/// Makes the set from one table, so that no list of it can lack a kind.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident = $number:literal $name:literal;)+) => {
        /// What kind of failure it was: what a program matches on, where [`Stage`](super::Stage) says when it happened and the message says it to people.
        ///
        /// The set grows; each kind has a fixed [number](Self::number), which is what goes over the wire, and a [name](Self::name) for output that programs read. A kind that this version does not know arrives as
        /// [`Other`](Self::Other). Whether an id has executed the call, its [status](super::Status) says, not the kind.
        ///
        /// ```
        /// use chained_gpc::{Cause, CauseKind, Stage};
        ///
        /// /// Whether the same call may succeed a little later.
        /// fn may_pass(cause: &Cause) -> bool {
        ///     match cause.kind {
        ///         CauseKind::Busy | CauseKind::NoMemory => true,
        ///         CauseKind::Unreachable | CauseKind::LinkLost | CauseKind::LostIncarnation => true,
        ///         // What the application's function says of itself, by a number of its own.
        ///         CauseKind::Failed => cause.code == 11,
        ///         _ => false,
        ///     }
        /// }
        ///
        /// let cause = Cause::new(5, Stage::Func, CauseKind::Failed, "no lease yet").with_code(11);
        /// assert!(may_pass(&cause));
        /// assert_eq!(cause.to_string(), "id 5 failed at stage func (failed, code 11): no lease yet");
        /// assert_eq!(CauseKind::TimeLimit.name(), "time-limit");
        /// assert_eq!(CauseKind::from_number(60_000).to_string(), "kind-60000");
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum CauseKind {
            $($(#[$doc])+ $kind,)+
            /// A kind that this version does not know, as the id that failed named it.
            Other(OtherKind),
        }

        impl CauseKind {
            /// All kinds that this version knows, by their numbers.
            pub const KNOWN: &[CauseKind] = &[$(CauseKind::$kind),+];

            /// The kind of a number; one that is not known is kept.
            pub fn from_number(number: u16) -> CauseKind {
                match number {
                    $($number => CauseKind::$kind,)+
                    _ => CauseKind::Other(OtherKind(number)),
                }
            }

            /// Its number, here, on the wire and in other languages.
            pub fn number(self) -> u16 {
                match self {
                    $(CauseKind::$kind => $number,)+
                    CauseKind::Other(OtherKind(number)) => number,
                }
            }

            /// Its name in output: lower case, words joined by hyphens. It never changes; that of a kind that is not known is `other`.
            pub fn name(self) -> &'static str {
                match self {
                    $(CauseKind::$kind => $name,)+
                    CauseKind::Other(_) => "other",
                }
            }
        }
    };
}

kinds! {
    /// A function returned an error. The cause has its message, and its code if it [gave one](crate::WithCode).
    Failed = 1 "failed";
    /// A function panicked.
    Panicked = 2 "panicked";
    /// A function that answers later dropped its token without an answer.
    NoAnswer = 3 "no-answer";
    /// The call's time limit passed. The id is the one that was waited for.
    TimeLimit = 4 "time-limit";
    /// The caller gave the call up.
    Cancelled = 5 "cancelled";
    /// No link to the id could be made: no address is known for it, nobody listens there, or it refused the connection.
    Unreachable = 6 "unreachable";
    /// The link to the id was lost: its process ended, it sent no heartbeat, or it broke the protocol.
    LinkLost = 7 "link-lost";
    /// Another run of the id has taken the place of the one that was called, or may have: what an earlier run has executed nobody knows.
    LostIncarnation = 8 "lost-incarnation";
    /// The id has no function of this name.
    UnknownFunction = 9 "unknown-function";
    /// The function is of another kind than the call needs, such as a callback where a func is called.
    WrongFunction = 10 "wrong-function";
    /// The id has no tree of this name.
    UnknownTree = 11 "unknown-tree";
    /// The tree does not fit the ids of the call, or its split made no tree of them.
    BadTree = 12 "bad-tree";
    /// The id has no executor of the name that the function is to run on.
    UnknownExecutor = 13 "unknown-executor";
    /// The id has as many calls in flight as it takes, or cannot run any more at the moment.
    Busy = 14 "busy";
    /// Something is longer, or there are more of it, than a limit allows: a header, data, a reply, children.
    OverLimit = 15 "over-limit";
    /// What the id may hold in memory for its peers is used up.
    NoMemory = 16 "no-memory";
    /// The id is shutting down, and takes no more calls.
    ShuttingDown = 17 "shutting-down";
    /// Another parent has sent the request, too: each id has one parent in a call. The id refused it; or, at stage link, its children answer to the other one, since it was given up.
    SecondParent = 18 "second-parent";
    /// The call has ended at this id, which does not have its answer any more.
    AlreadyEnded = 19 "already-ended";
    /// The other side may not be linked with or called: it belongs to another user, or lacks a right.
    NotAuthorised = 20 "not-authorised";
    /// The request does not make sense, such as one whose list of ids begins with another id.
    BadRequest = 21 "bad-request";
    /// The reply is not one to this request.
    BadReply = 22 "bad-reply";
    /// A function would have waited at its own node for a call that needs the worker, or the thread, which waits. Over several nodes such a wait ends as a [time limit](Self::TimeLimit).
    Deadlock = 23 "deadlock";
}

/// The number of a [`CauseKind`] that this version does not know. Only [`CauseKind::from_number`] makes one, so that no kind has two forms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OtherKind(u16);

impl OtherKind {
    /// As on the wire.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CauseKind {
    /// The name; of a kind that is not known, its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CauseKind::Other(OtherKind(number)) => write!(f, "kind-{number}"),
            known => f.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_kind_has_one_number_and_one_name() {
        for number in 0..=u16::MAX {
            assert_eq!(CauseKind::from_number(number).number(), number);
        }
        let names: BTreeSet<&str> = CauseKind::KNOWN.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), CauseKind::KNOWN.len());
        assert!(!names.contains("other"));
        let known = |number: &u16| !matches!(CauseKind::from_number(*number), CauseKind::Other(_));
        let numbers: Vec<u16> = (0..=u16::MAX).filter(known).collect();
        assert_eq!(numbers, CauseKind::KNOWN.iter().map(|kind| kind.number()).collect::<Vec<_>>());
        assert!(!numbers.contains(&0), "zero is what somebody forgot to say");
    }
}
