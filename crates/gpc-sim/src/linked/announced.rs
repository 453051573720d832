//! The links that a chain knows: checks that the events about them are true and in order.

use std::collections::BTreeMap;

use gpc_trees::Id;

/// Links that a chain knows, each with the run of its peer.
#[derive(Default, Debug)]
pub(super) struct AnnouncedLinks(BTreeMap<Id, u64>);

impl AnnouncedLinks {
    /// Checks the report of a link with a run of a peer: `incarnation` as reported, `begun` as it is. Returns what is
    /// wrong.
    pub(super) fn up(&mut self, peer: Id, incarnation: u64, begun: u64) -> Option<String> {
        let before = self.0.insert(peer, begun);
        if before.is_some() {
            return Some(format!("is told of a link to {peer}, and not that the one before is lost"));
        }
        (incarnation != begun).then(|| {
            format!("is told of a link with the run of {peer} that began at {incarnation}; it is with that of {begun}")
        })
    }

    /// Checks the report that a link to a peer is lost or cannot be opened. Returns what is wrong.
    pub(super) fn lost(&mut self, peer: Id, unreached: bool) -> Option<String> {
        let stood = self.0.remove(&peer).is_some();
        (stood && unreached)
            .then(|| format!("is told that {peer} was never reached, and there was a link to it"))
    }

    /// A link is gone, and nothing that its chain needs to know with it.
    pub(super) fn ended(&mut self, peer: Id) {
        self.0.remove(&peer);
    }

    /// Checks a message of the peer's run `begun` before its delivery. Returns what is wrong.
    pub(super) fn comes(&self, peer: Id, begun: u64) -> Option<String> {
        match self.0.get(&peer) {
            Some(known) if *known == begun => None,
            Some(known) => {
                Some(format!("hears the run of {peer} that began at {begun} on a link with that of {known}"))
            }
            None => Some(format!("hears {peer}, and was told of no link to it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_hears_of_one_link_after_the_other_and_the_truth() {
        let mut announced = AnnouncedLinks::default();
        assert!(announced.comes(3, 7).is_some(), "before the link");
        assert_eq!(announced.up(3, 7, 7), None);
        assert_eq!(announced.comes(3, 7), None);
        assert!(announced.comes(3, 8).is_some(), "of another run");
        assert!(announced.up(3, 8, 8).is_some(), "the first is not lost");
        assert_eq!(announced.lost(3, false), None);
        assert!(announced.up(3, 8, 9).is_some(), "with another run than is said");
        assert!(announced.lost(3, true).is_some(), "it was up");
        assert_eq!(announced.lost(3, true), None);
    }
}
