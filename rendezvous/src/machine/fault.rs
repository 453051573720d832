//! What a service refuses, and why a rendezvous ends without being complete: each kind has a code and a number of its own, which never change their meaning.
//!
//! Source: WS Rendezvous has three faults (capacity reached, rank taken, resource unknown); the others are what its implementation left to hang.

use std::fmt;

/// Longest message of a fault, bytes; what is longer is cut.
pub const MESSAGE_MAX: usize = 512;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $number:literal $code:literal,)+) => {
        /// What kind of fault it is.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum FaultKind {
            $($(#[doc = $doc])+ $kind = $number,)+
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind),+];

            /// Its code: words of lower case joined by `-`, for programs and for people.
            pub fn code(self) -> &'static str {
                match self { $(FaultKind::$kind => $code),+ }
            }
        }
    };
}

kinds! {
    /// A resource of capacity 0 would refuse every registrant and never be complete.
    CapacityZero = 1 "capacity-zero",
    /// The capacity is over the service's limit.
    CapacityOver = 2 "capacity-over",
    /// The level is none that a resource can have: from 1 to the service's limit.
    LevelOutOfRange = 3 "level-out-of-range",
    /// The lifetime is 0 or over the service's limit.
    LifetimeOutOfRange = 4 "lifetime-out-of-range",
    /// As many have registered as the capacity says.
    CapacityReached = 5 "capacity-reached",
    /// Another registrant has this rank.
    RankTaken = 6 "rank-taken",
    /// There is no such rank: ranks are below the capacity.
    RankOutOfRange = 7 "rank-out-of-range",
    /// The data are longer than the service's limit.
    DataTooLong = 8 "data-too-long",
    /// The data are not level-n data of the level below the resource's.
    Malformed = 9 "malformed-data",
    /// The token has registered already, with other data or another rank.
    TokenReused = 10 "token-reused",
    /// Nobody with this token has this rank.
    NotRegistered = 11 "not-registered",
    /// The rendezvous is complete: nobody can withdraw any more.
    Complete = 12 "already-complete",
    /// The service knows no such resource.
    UnknownResource = 13 "unknown-resource",
    /// The resource was destroyed on request.
    Destroyed = 14 "destroyed",
    /// The resource's lifetime has passed.
    Expired = 15 "expired",
    /// The job has ended that the resource belonged to.
    JobEnded = 16 "job-ended",
    /// A controlling task was lost; the fault names it.
    ControllerLost = 17 "controller-lost",
    /// Another task controls this unit already.
    ControllerTaken = 18 "controller-taken",
    /// The rendezvous above refused this unit, or could not be reached.
    AboveFailed = 19 "above-failed",
    /// The service holds as much as it may; it says what.
    ServiceFull = 20 "service-full",
    /// The request makes no sense; the fault says what of it.
    BadRequest = 21 "bad-request",
    /// The token of the service is missing or wrong.
    Unauthorized = 22 "unauthorized",
    /// The service cannot keep what it is told to keep, or is ending.
    Unavailable = 23 "unavailable",
}

impl FaultKind {
    /// Its number, which travels between nodes.
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

/// A fault: what kind, what happened, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// In words, at most [`MESSAGE_MAX`] bytes. What tasks have said may be in it.
    pub message: String,
    /// The rank that it is about.
    pub rank: Option<u64>,
    /// The controlling task that it is about, as it has named itself.
    pub task: Option<String>,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        Fault { kind, message, rank: None, task: None }
    }

    /// The same, about a rank.
    #[must_use]
    pub fn of_rank(self, rank: u64) -> Fault {
        Fault { rank: Some(rank), ..self }
    }

    /// The same, about a controlling task.
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
