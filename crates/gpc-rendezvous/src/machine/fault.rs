//! Faults: why a service rejects a request, or why a rendezvous ends incomplete. Each kind has its own code and number,
//! whose meaning never changes.
//!
//! Source: WS Rendezvous has three faults (capacity reached, rank taken, resource unknown). The others cover cases in
//! which its implementation hung.

use std::fmt;

/// Longest message of a fault, bytes. A longer message is truncated.
pub const MESSAGE_MAX: usize = 512;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $number:literal $code:literal,)+) => {
        /// Kind of a fault.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum FaultKind {
            $($(#[doc = $doc])+ $kind = $number,)+
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind),+];

            /// Code of the kind, for programs and people: lower-case words joined by `-`.
            pub fn code(self) -> &'static str {
                match self { $(FaultKind::$kind => $code),+ }
            }
        }
    };
}

kinds! {
    /// The capacity is 0: the resource would reject every registrant and never complete.
    CapacityZero = 1 "capacity-zero",
    /// The capacity is over the service's limit.
    CapacityOver = 2 "capacity-over",
    /// The level is outside 1 to the service's limit, or does not fit the parent's level.
    LevelOutOfRange = 3 "level-out-of-range",
    /// The lifetime is 0 or over the service's limit.
    LifetimeOutOfRange = 4 "lifetime-out-of-range",
    /// All ranks of the resource are taken.
    CapacityReached = 5 "capacity-reached",
    /// Another registrant has this rank.
    RankTaken = 6 "rank-taken",
    /// The rank is not below the capacity.
    RankOutOfRange = 7 "rank-out-of-range",
    /// The data are longer than the service's limit.
    DataTooLong = 8 "data-too-long",
    /// The data are not level-n data of the level below the resource's.
    Malformed = 9 "malformed-data",
    /// The token has registered already, with other data or another rank.
    TokenReused = 10 "token-reused",
    /// No registrant has this token and this rank.
    NotRegistered = 11 "not-registered",
    /// The rendezvous is complete: registrants can no longer withdraw.
    Complete = 12 "already-complete",
    /// The service has no such resource.
    UnknownResource = 13 "unknown-resource",
    /// The resource was destroyed on request.
    Destroyed = 14 "destroyed",
    /// The resource's lifetime has passed.
    Expired = 15 "expired",
    /// The job that the resource belonged to has ended.
    JobEnded = 16 "job-ended",
    /// A controlling task was lost; the fault names it.
    ControllerLost = 17 "controller-lost",
    /// Another task controls this unit already.
    ControllerTaken = 18 "controller-taken",
    /// The parent resource rejected this unit, or its service was unreachable.
    AboveFailed = 19 "above-failed",
    /// The service is at one of its limits; the message names the limit.
    ServiceFull = 20 "service-full",
    /// The request is invalid; the message names the part.
    BadRequest = 21 "bad-request",
    /// The token of the service is missing or wrong.
    Unauthorized = 22 "unauthorized",
    /// The service cannot write its store, or is ending.
    Unavailable = 23 "unavailable",
}

impl FaultKind {
    /// Number of the kind, used between nodes.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<FaultKind> {
        Self::ALL.iter().copied().find(|kind| kind.number() == number)
    }

    /// The kind with this code.
    pub fn from_code(code: &str) -> Option<FaultKind> {
        Self::ALL.iter().copied().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A fault: its kind, and a message with the cause and a remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Message, at most [`MESSAGE_MAX`] bytes. It may contain text from tasks.
    pub message: String,
    /// Rank that the fault concerns.
    pub rank: Option<u64>,
    /// Name of the controlling task that the fault concerns, as given by the task.
    pub task: Option<String>,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        Fault { kind, message, rank: None, task: None }
    }

    /// The same fault, with the rank that it concerns.
    #[must_use]
    pub fn of_rank(self, rank: u64) -> Fault {
        Fault { rank: Some(rank), ..self }
    }

    /// The same fault, with the name of the controlling task that it concerns.
    #[must_use]
    pub fn of_task(self, task: impl Into<String>) -> Fault {
        Fault { task: Some(task.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_code_and_a_number_of_its_own() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_code(kind.code()), Some(*kind));
            assert_eq!(FaultKind::from_number(kind.number()), Some(*kind));
        }
        assert_eq!(FaultKind::from_number(0), None);
    }

    #[test]
    fn a_message_is_cut_between_letters() {
        let fault = Fault::new(FaultKind::BadRequest, "ö".repeat(MESSAGE_MAX));
        assert_eq!(fault.message, "ö".repeat(MESSAGE_MAX / 2));
    }
}
