//! Checks of links made by the peering machine: after all faults both ends agree and nothing waits.

use gpc_trees::Id;

use super::Linked;
use super::step::Place;
use crate::check::Violation;
use crate::world::World;
use chained_gpc::link::Phase;
use chained_gpc::wire::Budget;

const NAME: &str = "links";

/// Largest number of violations kept; the first ones show the cause.
const WRONG_MAX: usize = 32;

impl World {
    pub(super) fn blame(&mut self, id: Id, wrong: Option<String>) {
        let Some(what) = wrong else { return };
        let at_ns = self.now;
        let wrong = &mut self.linked().wrong;
        if wrong.len() < WRONG_MAX {
            wrong.push(Violation { checker: NAME, at_ns, what: format!("id {id} {what}") });
        }
    }

    /// Checks after all faults and greetings: both ends of each link agree, and nothing waits or is held.
    pub(crate) fn links_are_settled(&mut self) {
        let Some(linked) = &mut self.linked else { return };
        let ids = 0..linked.processes.len() as Id;
        let wrong: Vec<(Id, String)> =
            ids.flat_map(|id| linked.left_at(id).into_iter().map(move |what| (id, what))).collect();
        wrong.into_iter().for_each(|(id, what)| self.blame(id, Some(what)));
    }
}

impl Linked {
    /// What the links of a process still hold or wait for.
    fn left_at(&mut self, id: Id) -> Vec<String> {
        let Some(process) = &mut self.processes[id as usize] else { return Vec::new() };
        let links = &mut process.links;
        links.prune_streaming();
        links.send_windows();
        let mut left = Vec::new();
        let mut holds = |count: usize, what: &str| {
            if count > 0 {
                left.push(format!("still has {count} {what}"));
            }
        };
        holds(links.pending.len(), "peers that messages wait for, without a link");
        holds(
            process.queued.values().filter(|queued| queued.missing().is_some()).count(),
            "peers to send to",
        );
        holds(links.arrivals.len(), "inputs for its chain");
        holds(links.window_grants.len(), "links whose peers wait for a window");
        holds(usize::from(links.is_streaming()), "links on which long messages leave");
        holds(usize::from(links.deadlines.next().is_some()), "deadlines of connections");
        holds(links.peering.half_open().count(), "connections that await a hello");
        holds(usize::from(links.peering.has_waiting_runs()), "runs that wait for a link to end");
        let used: u64 = process.memory.iter().map(Budget::used).sum();
        holds(used as usize, "bytes of its links' memory");
        let places: Vec<Place> = links.table.values().map(|connection| connection.place).collect();
        left.extend(places.into_iter().flat_map(|place| self.left_on(id, place)));
        left
    }

    /// What a connection still holds, and how its ends differ.
    fn left_on(&self, id: Id, place: Place) -> Vec<String> {
        let (pipe, side) = place;
        let ends = &self.pipes[pipe as usize].ends;
        let (peer, key) = (ends[1 - side].id, ends[side].key);
        let mut left = Vec::new();
        let Some(link) = self.existing(id).zip(key).and_then(|(it, key)| it.links.table.link(key)) else {
            return vec![format!("has lost its end of connection {pipe} to {peer}")];
        };
        if link.phase != Phase::Up(peer) || self.place_up(id, peer) != Some(place) {
            left.push(format!("still has connection {pipe} to {peer}, which is no link: {:?}", link.phase));
            return left;
        }
        if self.place_up(peer, id) != Some((pipe, 1 - side)) {
            let there = self.place_up(peer, id).map(|(pipe, _)| pipe);
            left.push(format!("has connection {pipe} for its link to {peer}, which has {there:?}"));
            return left;
        }
        if !link.outbox.is_idle() {
            left.push(format!("still has something to write to {peer}"));
        }
        if !link.inbox.is_idle() {
            left.push(format!("still awaits the rest of what {peer} has begun to send"));
        }
        if link.request_deadline.is_some() || link.deadline.is_some() {
            left.push(format!("has a deadline for {peer}, of which nothing is arriving"));
        }
        if link.unacknowledged >= link.ackmark() {
            left.push(format!("has not acknowledged {} requests of {peer}", link.unacknowledged));
        }
        // Of what is not acknowledged both ends know, and nothing is on its way.
        let granted = ends[1 - side].rules.credit();
        if u64::from(link.outbox.credit()) != granted {
            left.push(format!(
                "has credit for {} requests to {peer}, and was given {granted}",
                link.outbox.credit()
            ));
        }
        let other = self.existing(peer).zip(ends[1 - side].key);
        if let Some(there) = other.and_then(|(it, key)| it.links.table.link(key))
            && granted + u64::from(there.unacknowledged) != u64::from(there.hiwater())
        {
            let (known, all) = (there.unacknowledged, there.hiwater());
            left.push(format!(
                "has credit for {granted} requests to {peer}, which counts {known} of {all} as used"
            ));
        }
        if let Some(name) = ends[side].given.missing() {
            left.push(format!("has not got {name:?}, which {peer} has sent on a link that still stands"));
        }
        left
    }
}
