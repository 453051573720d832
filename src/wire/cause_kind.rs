//! The kind of a failure: an extensible set of numbers (docs/wire.md, "RESPONSE").
//!
//! A number never changes its meaning. A node passes a number that it does not know on to its parent unchanged, and the
//! caller receives it.

use std::fmt;

/// One table defines the whole set, so every list of kinds is complete.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident = $number:literal $name:literal;)+) => {
        /// Kind of a failure, for a program to match on. The [`Stage`](super::Stage) is where it happened, and the
        /// message is for people.
        ///
        /// The set grows. Each kind has a fixed [number](Self::number), which is sent over the wire, and a
        /// [name](Self::name) for machine-readable output. A kind that this version does not know arrives as
        /// [`Other`](Self::Other). The kind does not tell whether an id executed the call: its [status](super::Status)
        /// does.
        ///
        /// ```
        /// use chained_gpc::{Cause, CauseKind, Stage};
        ///
        /// /// Whether the same call may succeed a little later.
        /// fn may_pass(cause: &Cause) -> bool {
        ///     match cause.kind {
        ///         CauseKind::Busy | CauseKind::NoMemory => true,
        ///         CauseKind::Unreachable | CauseKind::LinkLost | CauseKind::LostIncarnation => true,
        ///         // The application's function sets a code of its own.
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
            /// A kind that this version does not know, with the number that the failed id sent.
            Other(OtherKind),
        }

        impl CauseKind {
            /// All kinds that this version knows, in order of their numbers.
            pub const KNOWN: &[CauseKind] = &[$(CauseKind::$kind),+];

            /// The kind with this number; an unknown number is preserved.
            pub fn from_number(number: u16) -> CauseKind {
                match number {
                    $($number => CauseKind::$kind,)+
                    _ => CauseKind::Other(OtherKind(number)),
                }
            }

            /// Number of the kind, in Rust, on the wire and in other languages.
            pub fn number(self) -> u16 {
                match self {
                    $(CauseKind::$kind => $number,)+
                    CauseKind::Other(OtherKind(number)) => number,
                }
            }

            /// Name of the kind in output: lower case, words joined by hyphens. A name never changes; an unknown kind
            /// is named `other`.
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
    /// A function returned an error. The cause has its message, and its code if it [set one](crate::WithCode).
    Failed = 1 "failed";
    /// A function panicked.
    Panicked = 2 "panicked";
    /// A function deferred its reply, then dropped its token without answering.
    NoAnswer = 3 "no-answer";
    /// The call's time limit passed. The cause names the id that was waited for.
    TimeLimit = 4 "time-limit";
    /// The caller cancelled the call.
    Cancelled = 5 "cancelled";
    /// No link to the id could be opened: it has no known address, no process listens there, or it refused the
    /// connection.
    Unreachable = 6 "unreachable";
    /// The link to the id was lost: its process ended, it sent no heartbeat, or it broke the protocol.
    LinkLost = 7 "link-lost";
    /// Another run of the id has replaced the called one, or may have. What the earlier run executed is unknown.
    LostIncarnation = 8 "lost-incarnation";
    /// The id has no function of this name.
    UnknownFunction = 9 "unknown-function";
    /// The function is of another kind than the call needs, such as a callback where a func is called.
    WrongFunction = 10 "wrong-function";
    /// The id has no tree of this name.
    UnknownTree = 11 "unknown-tree";
    /// The tree does not fit the ids of the call, or its split does not form a tree of them.
    BadTree = 12 "bad-tree";
    /// The id has no executor of the name that the function requires.
    UnknownExecutor = 13 "unknown-executor";
    /// The id has reached its limit of calls in flight, or cannot run more at the moment.
    Busy = 14 "busy";
    /// A header, data, a reply or the number of children exceeds a limit.
    OverLimit = 15 "over-limit";
    /// The memory that the id reserves for its peers is used up.
    NoMemory = 16 "no-memory";
    /// The id is shutting down and takes no more calls.
    ShuttingDown = 17 "shutting-down";
    /// Another parent has sent the request too, and each id has one parent in a call. Either the id refused the second
    /// request, or, at stage link, the id was given up and its children answer to the other parent.
    SecondParent = 18 "second-parent";
    /// The call has ended at this id, and its answer is no longer retained.
    AlreadyEnded = 19 "already-ended";
    /// The other side may not be linked with or called: it belongs to another user, or lacks a permission.
    NotAuthorised = 20 "not-authorised";
    /// The request is invalid, for example because its list of ids begins with another id.
    BadRequest = 21 "bad-request";
    /// The reply does not fit this request.
    BadReply = 22 "bad-reply";
    /// A function would have waited at its own node for a call that needs the waiting worker or thread. Across several
    /// nodes such a wait ends as a [time limit](Self::TimeLimit).
    Deadlock = 23 "deadlock";
}

/// Number of a [`CauseKind`] that this version does not know. Only [`CauseKind::from_number`] creates one, so each kind
/// has one representation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OtherKind(u16);

impl OtherKind {
    /// The number, as on the wire.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CauseKind {
    /// Prints the name, or the number of an unknown kind.
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
