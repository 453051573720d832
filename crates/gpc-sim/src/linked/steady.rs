//! What holds for the links of a process after each turn: nothing waits for an event that does not come.

use gpc_trees::Id;

use super::Process;
use super::connection::Connection;
use crate::world::World;
use chained_gpc::link::Phase;
use chained_gpc::link::peering::LinkKey;

impl World {
    /// Checks the links of a process after its turn.
    pub(super) fn links_are_steady(&mut self, id: Id) {
        let process = self.process(id);
        let unwritten = process.links.table.values_mut().find_map(unwritten);
        let wrong = process.links.table.iter().filter_map(|(key, it)| process.wrong_with(key, it));
        let wrong: Vec<String> = wrong.chain(process.wrong_deadline()).chain(unwritten).collect();
        wrong.into_iter().for_each(|what| self.blame(id, Some(what)));
    }
}

/// Describes what may leave on a connection, and is neither written nor marked to be.
fn unwritten(Connection { link, blocked, .. }: &mut Connection) -> Option<String> {
    let Phase::Up(peer) = link.phase else { return None };
    let waits = !*blocked && !link.is_dirty && link.outbox.prepare();
    waits.then(|| format!("has bytes for {peer} that its driver does not write"))
}

impl Process {
    /// Returns the rule that a connection violates, in words.
    fn wrong_with(&self, key: LinkKey, connection: &Connection) -> Option<String> {
        let link = &connection.link;
        if let Phase::Up(peer) = link.phase
            && link.inbox.owes_window()
            && !self.links.window_grants.contains(&key)
        {
            return Some(format!("lets {peer} wait for a window"));
        }
        // The deadline of a link may be sooner than that of any request that is left, but not later.
        let (expected, set) = (link.inbox.next_deadline(), link.request_deadline);
        (set.is_some() != expected.is_some() || set > expected).then(|| {
            format!("awaits the rest of requests until {set:?}, and it must have come by {expected:?}")
        })
    }

    /// Returns the rule that the soonest deadline of an id's connections violates, in words.
    fn wrong_deadline(&self) -> Option<String> {
        let due = self.links.deadlines.next();
        let all = self.links.table.values().flat_map(|connection| {
            [connection.link.deadline, connection.link.request_deadline].into_iter().flatten()
        });
        let soonest = all.min();
        (due != soonest)
            .then(|| format!("has {due:?} for the next deadline of a connection; it is {soonest:?}"))
    }
}
