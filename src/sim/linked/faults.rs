//! Faults that strike connections.

use gpc_trees::Id;

use super::pipe::of_key;
use crate::sim::faults::Fault;
use crate::sim::happen::NOTICED_LATENCIES;
use crate::sim::world::World;

impl World {
    /// One of the connections breaks, a link or one that is still to become one; one of this id's links, if it has any. Each end learns of it in its own time.
    pub(in crate::sim) fn break_connection(&mut self, hard: bool, of: Option<Id>) {
        let Some(linked) = &self.linked else { return };
        let peers = of.map(|id| linked.peers_of(id)).unwrap_or_default();
        let place = self.random.below(linked.intact.len() as u64) as usize;
        let own = of.zip(self.random.pick(&peers).copied());
        let own = own.and_then(|(id, peer)| linked.up(id, peer)).map(|key| of_key(key).0);
        let Some(pipe) = own.or_else(|| linked.intact.at(place).map(|(.., pipe)| pipe)) else { return };
        if self.pipe(pipe).is_broken() {
            return;
        }
        let (a, b) = self.pipe(pipe).between();
        let mishaps = self.mishaps.as_mut();
        let again = mishaps.map(|mishaps| mishaps.again(&mut self.random, a, b)).unwrap_or_default();
        self.inject(if again.is_empty() { Fault::Link } else { Fault::Duplicate }, &[a, b]);
        self.break_pipe(pipe, hard, [true, true]);
        self.come_again(a, b, again);
    }

    /// A connection breaks, and those of its ends learn of it some time from now that are told.
    fn break_pipe(&mut self, pipe: u32, hard: bool, told: [bool; 2]) {
        self.forget_intact(pipe);
        self.pipe(pipe).break_up(hard);
        let (a, b) = self.pipe(pipe).between();
        let latest = self.hosts.cost(a, b).latency_ns * NOTICED_LATENCIES;
        for (side, _) in told.into_iter().enumerate().filter(|(_, told)| *told) {
            let at = self.now + 1 + self.random.below(latest.max(1));
            self.tell_end(pipe, side, at);
        }
    }

    /// A process ends, and with it its ends of all connections. `hard` if what it has sent last is lost with it.
    pub(in crate::sim) fn end_connections(&mut self, id: Id, hard: bool) {
        let Some(process) = self.linked().processes[id as usize].take() else { return };
        for key in process.open {
            let (pipe, side) = of_key(key);
            self.pipe(pipe).ends[side].open = false;
            if !self.pipe(pipe).is_broken() {
                self.break_pipe(pipe, hard, [side == 1, side == 0]);
            }
        }
    }
}
