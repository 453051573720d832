//! Checks of links made by the peering machine: the link events of a chain are true and in order. After all faults both
//! ends agree and nothing waits.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::pipe::of_key;
use crate::check::Violation;
use crate::world::World;

const NAME: &str = "links";

/// Largest number of violations kept; the first ones show the cause.
const WRONG_MAX: usize = 32;

/// Links that a chain knows, each with the run of its peer.
#[derive(Default, Debug)]
pub(super) struct Told(BTreeMap<Id, u64>);

impl Told {
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

    /// Checks a message of the peer's run `begun` before its delivery. Returns what is wrong.
    pub(super) fn comes(&self, peer: Id, begun: u64) -> Option<String> {
        match self.0.get(&peer) {
            Some(told) if *told == begun => None,
            Some(told) => {
                Some(format!("hears the run of {peer} that began at {begun} on a link with that of {told}"))
            }
            None => Some(format!("hears {peer}, and was told of no link to it")),
        }
    }
}

impl World {
    pub(super) fn blame(&mut self, id: Id, wrong: Option<String>) {
        let Some(what) = wrong else { return };
        let at_ns = self.now;
        let wrong = &mut self.linked().wrong;
        if wrong.len() < WRONG_MAX {
            wrong.push(Violation { checker: NAME, at_ns, what: format!("id {id} {what}") });
        }
    }

    /// Checks after all faults and greetings: both ends of each link agree, and nothing waits.
    pub(crate) fn links_are_settled(&mut self) {
        let Some(linked) = &self.linked else { return };
        let mut wrong = Vec::new();
        for (id, process) in (0..).zip(&linked.processes) {
            let Some(process) = process else { continue };
            for (peer, _) in process.peering.all_up() {
                let [here, there] =
                    [(id, peer), (peer, id)].map(|(a, b)| linked.up(a, b).map(|key| of_key(key).0));
                if here != there {
                    wrong.push((
                        id,
                        format!("has connection {here:?} for its link to {peer}, which has {there:?}"),
                    ));
                }
            }
            if let Some((peer, _)) = process.pending.first_key_value() {
                wrong.push((id, format!("still has something to send to {peer}, without a link")));
            }
            if process.peering.half_open().next().is_some() || process.peering.holds_any() {
                wrong.push((id, "still awaits a hello, or whether a link answers".to_owned()));
            }
        }
        wrong.into_iter().for_each(|(id, what)| self.blame(id, Some(what)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_hears_of_one_link_after_the_other_and_the_truth() {
        let mut told = Told::default();
        assert!(told.comes(3, 7).is_some(), "before the link");
        assert_eq!(told.up(3, 7, 7), None);
        assert_eq!(told.comes(3, 7), None);
        assert!(told.comes(3, 8).is_some(), "of another run");
        assert!(told.up(3, 8, 8).is_some(), "the first is not lost");
        assert_eq!(told.lost(3, false), None);
        assert!(told.up(3, 8, 9).is_some(), "with another run than is said");
        assert!(told.lost(3, true).is_some(), "it was up");
        assert_eq!(told.lost(3, true), None);
    }
}
