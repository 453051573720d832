//! Steps of a world in which processes end at planned events.

use gpc_trees::{Id, IdList};

use super::check::{Carries, Plan};
use super::crash::Crash;
use super::event::Event;
use super::faults::{FaultSet, Mishaps, Times};
use super::inject::QUIET_NS;
use super::scenario::{REPLY_BYTES, Scenario};
use super::time::BEGIN;
use super::world::World;

impl World {
    /// Plans one call over all ids, during which these processes end.
    pub(super) fn plan_crashes(&mut self, crashes: &[Crash]) {
        let Scenario { n, tree, partial, .. } = self.scenario.clone();
        let reply_bytes = self.scenario.reply_bytes.unwrap_or(REPLY_BYTES);
        let (took, limit_ns) = self.expected();
        let times = Times { from: BEGIN, span: took, limit_max: limit_ns, dead_after: [took; 2] };
        let (mishaps, _) = Mishaps::draw(&mut self.random, FaultSet::NONE, n, times);
        // As `gpc call` starts them: every process is too young to have had an earlier run.
        self.begin_lately(took);
        let ids = IdList::range(0..n);
        let all: Vec<Id> = ids.iter().collect();
        let acts = mishaps.acts(&mut self.random, &all, limit_ns).funcs;
        let plan = Plan {
            ids,
            tree,
            partial,
            watch: self.random.chance(1, 8),
            reply_wanted: reply_bytes > 0 && self.random.chance(3, 4),
            callback: self.random.chance(1, 2),
            forward_first: self.random.chance(1, 3),
            data_bytes: self.scenario.data_bytes.unwrap_or(0),
            limit_ns,
            reply_bytes: reply_bytes.max(4),
            carries: Carries { header_bytes: 5, reply_header_bytes: 3, ..Carries::default() },
        };
        let index = self.calls.add(plan, false);
        self.calls.all[index].acts = acts;
        self.queue.push(self.now, Event::Start(index));
        if crashes.len() < 2 {
            self.settled_at(mishaps.end + limit_ns * 3 + QUIET_NS);
        }
        self.mishaps = Some(mishaps);
        self.crashes.planned = crashes.to_vec();
        self.crashes.planned.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Ends the processes whose crashes are due.
    pub(super) fn crash_those_due(&mut self) {
        while let Some(Crash { id, .. }) =
            self.crashes.planned.pop_if(|crash| crash.event <= self.counts.events)
        {
            if self.hosts.is_up(id) {
                self.crash(id);
            }
        }
    }

    /// Records that an id takes part in the current event.
    pub(super) fn took_part(&mut self, id: Id) {
        let part = (self.counts.events, id);
        if let Some(parts) =
            self.crashes.parts.as_mut().filter(|parts| !parts.over && parts.seen.last() != Some(&part))
        {
            parts.seen.push(part);
        }
    }

    /// Stops recording: later events were not planned.
    pub(super) fn planned_is_over(&mut self) {
        self.crashes.parts.iter_mut().for_each(|parts| parts.over = true);
    }
}
