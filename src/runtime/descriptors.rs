//! The limits of file descriptors: each link needs a descriptor, and any process that reaches the node can hold as many
//! as there are.

use std::collections::BTreeSet;
use std::io;

use gpc_trees::Id;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::chain::Time;

/// Descriptors that a node and its process need beside links, with a margin for files and the memory of rings.
const OWN: u64 = 16;

/// One in this many descriptors is reserved for ids among the peers.
const RESERVED_PART: u64 = 8;

/// Minimum number of strangers' links, even if the process may have hardly any descriptors.
const LEAST: u64 = 4;

/// The limits of the number of links, and the state of a shortage.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The limit of the process.
    pub(super) limit: u64,
    /// Number of links from which on strangers' links are closed for new ones.
    pub(super) soft_max: usize,
    /// Number of links from which on accepting pauses until links have been closed, if possible.
    pub(super) hard_max: usize,
    /// Whether links are to be closed at the end of the turn.
    pub(super) is_short: bool,
    /// Whether the system itself had no descriptor left.
    pub(super) is_exhausted: bool,
    /// No search for idle links before this time, since the last one found none.
    pub(super) full_until: Option<Time>,
    /// Peers to connect to once a descriptor is free.
    pub(super) waiting: BTreeSet<Id>,
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        let waiting = BTreeSet::new();
        let mut descriptors = Descriptors {
            limit: 0,
            soft_max: 0,
            hard_max: 0,
            is_short: false,
            is_exhausted: false,
            full_until: None,
            waiting,
        };
        descriptors.learn();
        descriptors
    }

    /// Reads the current limit of the process.
    pub(super) fn learn(&mut self) {
        self.divide(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
    }

    /// Divides this number of descriptors.
    fn divide(&mut self, limit: u64) {
        let reserve = OWN + limit / RESERVED_PART;
        let links = |count: u64| usize::try_from(count.max(LEAST)).unwrap_or(usize::MAX);
        self.limit = limit;
        self.soft_max = links(limit.saturating_sub(reserve));
        self.hard_max = links(limit.saturating_sub(reserve / 2));
    }
}

/// Whether the system, or the process, has no descriptor left.
pub(super) fn are_short(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|short| code == Some(short.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_descriptors_is_kept_for_peers_and_another_for_the_process() {
        let mut descriptors = Descriptors::new();
        let few = |limit| {
            descriptors.divide(limit);
            (descriptors.soft_max, descriptors.hard_max)
        };
        assert_eq!([1024, 64, 20, 0].map(few), [(880, 952), (40, 52), (4, 11), (4, 4)]);
    }

    #[test]
    fn only_a_lack_of_descriptors_is_a_shortage() {
        let short = |errno: Errno| are_short(&errno.into());
        assert_eq!(
            [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS].map(short),
            [true, true, false, false]
        );
    }
}
