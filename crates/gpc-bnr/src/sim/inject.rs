//! Injects the faults of a world.

use std::collections::BTreeSet;

use chained_gpc::trees::Id;

use super::events::Event;
use super::faults::Fault;
use super::seen::Seen;
use super::time::MS;
use super::world::World;
use crate::exit::Exit;
use crate::names::Member;

/// A node that stands still for less answers a query within a second, whatever else delays it.
const TELLS: u64 = 600 * MS;

impl World {
    /// Injects a fault, if it is possible now.
    pub(super) fn act(&mut self, fault: Fault) {
        if self.lasting.calm {
            return;
        }
        let done = match fault {
            Fault::Crash => self.some_node().map(|id| self.crash(id)),
            Fault::Restart => self.some_node().map(|id| {
                self.crash(id);
                let at = self.now + self.random.below(400 * MS) + 1;
                self.push(at, Event::Begins(id));
            }),
            Fault::Head => self.is_up(self.head()).then(|| self.crash(self.head())),
            Fault::Pause => {
                let most = self.config.dead_after / 8;
                self.some_up().map(|id| self.pause(id, most))
            }
            Fault::Stall => {
                let most = self.config.dead_after * 3;
                self.some_up().map(|id| self.pause(id, most))
            }
            Fault::Link => self.break_a_link(),
            Fault::Cut => self.cut_some(),
            Fault::Refuse => self.refuse_some(),
            Fault::Late => self.two().map(|(from, to)| {
                let until = self.now + self.random.below(3_000 * MS);
                self.lasting.late.insert((from, to), until);
            }),
            Fault::Busy => self.some_up().map(|id| {
                let until = self.now + self.random.below(2_000 * MS);
                self.disturbed(&[id]);
                self.lasting.busy.insert(id, until);
            }),
            Fault::Die => self.some_process().map(|member| {
                let exit = self.an_exit();
                self.dies(member, exit);
            }),
            Fault::End => self.is_awake(self.head()).then(|| self.end_domain()),
        };
        if done.is_some() {
            self.say(format_args!("-- {fault}"));
            *self.totals.injected.entry(fault).or_default() += 1;
        }
    }

    fn is_awake(&self, id: Id) -> bool {
        self.is_up(id) && !self.is_paused(id)
    }

    fn some_up(&mut self) -> Option<Id> {
        let up: Vec<Id> =
            self.ids().into_iter().filter(|id| self.is_up(*id) && !self.is_paused(*id)).collect();
        self.random.pick(&up).copied()
    }

    /// A node that is up, other than the head.
    fn some_node(&mut self) -> Option<Id> {
        let head = self.head();
        let up: Vec<Id> = self.ids().into_iter().filter(|id| *id != head && self.is_up(*id)).collect();
        self.random.pick(&up).copied()
    }

    fn two(&mut self) -> Option<(Id, Id)> {
        let one = self.some_up()?;
        let others: Vec<Id> = self.ids().into_iter().filter(|id| *id != one).collect();
        Some((one, *self.random.pick(&others)?))
    }

    /// A process at a node that notices its end at once.
    fn some_process(&mut self) -> Option<Member> {
        let mut running = self.running_members();
        running.retain(|member| self.lives.get(member).is_some_and(|(id, _)| self.is_awake(*id)));
        self.random.pick(&running).copied()
    }

    pub(super) fn an_exit(&mut self) -> Exit {
        match self.random.below(4) {
            0 => Exit::Code(0),
            1 => Exit::Code(7),
            _ => Exit::Signal(11),
        }
    }

    fn pause(&mut self, id: Id, most: u64) {
        let length = self.random.below(most) + MS;
        self.stands_still(id, length);
        let until = self.now + length;
        self.nodes.get_mut(&id).into_iter().for_each(|node| node.paused = until);
    }

    /// Adds to the total time for which a node has not answered. A node that is silent for long is given up, or does
    /// not tell in time which members have come.
    fn stands_still(&mut self, id: Id, length: u64) {
        if self.lasting.add_silence(id, length) > (self.config.dead_after / 3).min(TELLS) {
            self.disturbed(&[id]);
        }
    }

    fn break_a_link(&mut self) -> Option<()> {
        let up = self.links.up();
        let (a, b) = *self.random.pick(&up)?;
        let epoch = self.links.break_up(a, b)?;
        self.disturbed(&[a, b]);
        self.tell_loss(a, b, epoch);
        self.tell_loss(b, a, epoch);
        Some(())
    }

    fn cut_some(&mut self) -> Option<()> {
        let ids = self.ids();
        let apart: BTreeSet<Id> = ids.iter().copied().filter(|_| self.random.chance(1, 2)).collect();
        if apart.is_empty() || apart.len() == ids.len() {
            return None;
        }
        let most =
            if self.random.chance(1, 3) { self.config.dead_after / 8 } else { self.config.dead_after * 3 };
        let length = self.random.below(most) + MS;
        ids.into_iter().for_each(|id| self.stands_still(id, length));
        self.lasting.cut = Some((apart, self.now + length));
        Some(())
    }

    fn refuse_some(&mut self) -> Option<()> {
        let (a, b) = self.two()?;
        let until = self.now + self.random.below(3 * self.config.dead_after);
        self.disturbed(&[a, b]);
        self.lasting.refused.insert((a.min(b), a.max(b)), until);
        // Otherwise an existing link would be used.
        if self.random.chance(1, 2)
            && let Some(epoch) = self.links.break_up(a, b)
        {
            self.tell_loss(a, b, epoch);
            self.tell_loss(b, a, epoch);
        }
        Some(())
    }

    /// From now on other nodes may declare these nodes lost.
    pub(super) fn disturbed(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.see(Seen::Disturbed(*id)));
    }
}
