//! Faults that can happen in a world of calls, and sets of them.

mod links;
mod mishap;
mod plan;
mod repeats;
mod themes;
mod timing;

pub(super) use links::{Fate, Links, Passage, Receipt};
pub(super) use mishap::{Act, Acts, Mishap, Timed};
pub(super) use plan::{Mishaps, Times};
pub(super) use repeats::Repeat;
pub(super) use themes::{LONG_REPLY_STREAM, some_of, themes};

use std::fmt;
use std::str::FromStr;

use crate::worlds::faults;

faults! {
    /// A process ends.
    Crash = "crash",
    /// A process ends, and a new one starts with the same id.
    Restart = "restart",
    /// A process pauses for a while.
    Pause = "pause",
    /// A process is slow for a while.
    Slow = "slow",
    /// A link breaks.
    Link = "link",
    /// Some ids cannot reach the others for a while.
    Partition = "partition",
    /// Messages are delayed; each link keeps their order.
    Delay = "delay",
    /// Messages of a link that broke arrive again on the next one, in any order.
    Duplicate = "duplicate",
    /// func fails.
    Fail = "fail",
    /// func panics, which its executor reports as a failure.
    Panic = "panic",
    /// func takes very long.
    Hang = "hang",
    /// func keeps its token and answers twice.
    Twice = "twice",
    /// callback fails.
    Callback = "callback",
    /// A parent ends after forwarding a request and before the response.
    Orphan = "orphan",
    /// A request arrives a second time, from an id that is not the parent.
    SecondParent = "second-parent",
    /// The caller gives up the call.
    GiveUp = "give-up",
    /// All processes start shortly before the calls, and one of them restarts at once.
    Fresh = "fresh",
    /// A process pauses after announcing the length to its peers; it keeps to it or stays away longer.
    Announced = "announced-pause",
    /// A live process refuses connections for a while, from one other id or from all. If links are real: its host, the
    /// network, or one end after the greeting; or the other id does not have it among its peers.
    Refused = "refused",
    /// A process takes no more calls and ends a while later, with a goodbye on links that are real; perhaps a new one
    /// starts.
    Close = "close",
    /// Nodes have low limits of calls, data, replies and adopted children.
    Limits = "limits",
    /// Cancels, releases, answers and MOVED messages arrive from ids that have no part in the call, and so do invalid
    /// requests.
    Forged = "forged",
    /// An answer is malformed: a reply that is not level-n data, a coverage of more or fewer ids than were asked, or
    /// another kind of answer.
    Malformed = "malformed",
    /// Calls have limits for the replies of an id, which functions exceed; or an id sends a reply that exceeds them.
    LongReply = "long-reply",
}

/// A set of faults. Text form: `none`, `all`, or names separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultSet(u32);

impl FaultSet {
    /// The empty set.
    pub const NONE: FaultSet = FaultSet(0);
    /// Every fault.
    pub const ALL: FaultSet = FaultSet((1 << Fault::ALL.len()) - 1);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set contains a fault.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    /// Whether the set contains any of several faults.
    pub fn has_any(self, faults: &[Fault]) -> bool {
        faults.iter().any(|fault| self.has(*fault))
    }

    /// The union of two sets.
    pub fn union(self, other: FaultSet) -> FaultSet {
        FaultSet(self.0 | other.0)
    }

    /// Adds a fault.
    pub fn insert(&mut self, fault: Fault) {
        self.0 |= 1 << fault as u32;
    }

    fn names(self) -> String {
        let names: Vec<&str> = self.iter().map(Fault::name).collect();
        names.join(",")
    }

    /// Iterates over the faults of the set.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }
}

impl FromIterator<Fault> for FaultSet {
    fn from_iter<T: IntoIterator<Item = Fault>>(faults: T) -> FaultSet {
        let mut set = FaultSet::NONE;
        faults.into_iter().for_each(|fault| set.insert(fault));
        set
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FaultSet::NONE => f.write_str("none"),
            FaultSet::ALL => f.write_str("all"),
            some => f.write_str(&some.names()),
        }
    }
}

/// A set of faults that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no fault: write all, none, or some of {names} with commas between them", names = FaultSet::ALL.names())]
pub struct FaultSetError(String);

impl FromStr for FaultSet {
    type Err = FaultSetError;

    fn from_str(text: &str) -> Result<FaultSet, FaultSetError> {
        let fault = |name: &str| {
            let name = name.trim();
            let known = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            known.ok_or_else(|| FaultSetError(name.chars().take(40).collect()))
        };
        match text {
            "all" => Ok(FaultSet::ALL),
            "none" => Ok(FaultSet::NONE),
            _ => text.split(',').map(fault).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_as_it_is_printed() {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(place, fault as usize);
            assert_eq!(fault.to_string().parse::<FaultSet>().unwrap().iter().collect::<Vec<_>>(), [fault]);
        }
        assert_eq!(FaultSet::ALL.to_string().parse(), Ok(FaultSet::ALL));
        assert_eq!("none".parse(), Ok(FaultSet::NONE));
        assert_eq!(FaultSet::ALL.names().parse(), Ok(FaultSet::ALL));
        let pair: FaultSet = "crash, second-parent".parse().unwrap();
        assert_eq!(pair.to_string(), "crash,second-parent");
        assert!("crash,rain".parse::<FaultSet>().unwrap_err().to_string().starts_with("`rain` is no fault"));
    }
}
