//! Calls that roots make between the planned ones, in some runs with faults.

use gpc_trees::{Id, IdList};

use super::world::World;
use chained_gpc::chain::{Input, Output, Start, Time};

/// Gaps between two calls of a root. After such a gap a call lies one word of bits further in the window of completed
/// calls, or at its far end. Or it lies at the same place one window later.
const BETWEEN: [u32; 5] = [63, 127, 1023, 4095, 4095];

/// Ticket of the calls in the gaps; no planned call has it.
const TICKET: u64 = u64::MAX;

impl World {
    /// Sometimes has a root make calls over no ids. Each is refused at once, and uses up a call number.
    pub(super) fn calls_others(&mut self, root: Id) {
        let history = &mut self.profile.history;
        if !history.calls_others || history.random.chance(1, 2) {
            return;
        }
        let Some(&count) = history.random.pick(&BETWEEN) else { return };
        for _ in 0..count {
            let now = Time::from_nanos(self.now);
            let start = Start { ids: IdList::range(0..0), ..Start::new(0) };
            let mut outputs = std::mem::take(&mut self.buffers.outputs);
            let Some(node) = self.node(root) else { return };
            node.input(now, Input::Start { ticket: TICKET, start: start.into() }, &mut outputs);
            self.buffers.outputs = outputs;
            // The first input also makes the outputs of expired timers.
            while let Some(output) = self.buffers.outputs.pop_front() {
                if !matches!(output, Output::Finished { ticket: TICKET, .. }) {
                    self.carry_out(root, output);
                }
            }
        }
        self.hosts.at(root).started += count;
        self.settle(root);
    }
}
