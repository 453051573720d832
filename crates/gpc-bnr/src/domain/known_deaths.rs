//! Deaths that this node has learned, and the receivers of their notices.

use std::collections::BTreeMap;

use super::events::CallNumber;
use crate::exit::Death;
use crate::names::{GroupId, Rank};
use crate::request::Client;
use crate::roster::Span;

/// The deaths of all groups.
#[derive(Default, Debug)]
pub(super) struct Deaths {
    /// Known deaths of all groups, including groups without processes here.
    pub(super) known: BTreeMap<GroupId, GroupDeaths>,
    /// Deaths that are yet to be passed on.
    pub(super) undelivered: UndeliveredDeaths,
    /// Local clients that receive notices, by the group of the dead: of the ranks in these spans.
    pub(super) subscribers: BTreeMap<GroupId, BTreeMap<Client, Vec<Span>>>,
}

/// Deaths that this node has not passed on yet: those of its own processes to the head, and at the head those of all
/// nodes to all others. Bounded by the number of processes.
#[derive(Default, Debug)]
pub(super) struct UndeliveredDeaths {
    pub(super) waiting: Vec<Death>,
    /// The call that delivers deaths; `waiting` has the next ones.
    pub(super) in_flight: Option<CallNumber>,
    /// Number of deaths learned here. Each death gets the next number, which orders deaths across groups.
    pub(super) count: u64,
}

/// Known deaths of a group, in the order in which this node learned of them. The first one is the cause.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct GroupDeaths {
    deaths: Vec<(u64, Death)>,
    places: BTreeMap<Rank, usize>,
}

impl GroupDeaths {
    /// Adds a death with its number among all deaths learned here. Returns whether it is new.
    pub(super) fn insert(&mut self, number: u64, death: Death) -> bool {
        let place = self.deaths.len();
        let news = *self.places.entry(death.member.rank).or_insert(place) == place;
        if news {
            self.deaths.push((number, death));
        }
        news
    }

    pub(super) fn get(&self, rank: Rank) -> Option<&Death> {
        self.numbered(rank).map(|(_, death)| death)
    }

    /// The death of a rank, and its number among all deaths learned here.
    pub(super) fn numbered(&self, rank: Rank) -> Option<&(u64, Death)> {
        self.places.get(&rank).and_then(|place| self.deaths.get(*place))
    }

    /// The deaths of a span of ranks, each with its number.
    pub(super) fn numbered_in(&self, span: &Span) -> Vec<(u64, Death)> {
        if (span.count as usize) < self.deaths.len() {
            return span.ranks().filter_map(|rank| self.numbered(rank)).copied().collect();
        }
        self.deaths.iter().filter(|(_, death)| span.contains(death.member)).copied().collect()
    }

    pub(super) fn has(&self, rank: Rank) -> bool {
        self.places.contains_key(&rank)
    }

    pub(super) fn len(&self) -> usize {
        self.deaths.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Death> {
        self.deaths.iter().map(|(_, death)| death)
    }
}
