//! Processes of a world: how they start, end, are killed, and ask.

use std::sync::Arc;

use chained_gpc::trees::Id;
use gpc_bnr::domain::Input;
use gpc_bnr::names::{GroupId, Member, Rank};
use gpc_bnr::request::Client;
use gpc_bnr::{Exit, Layout};

use super::{Event, Life, MILLI, Seen, TOOL, World};
use crate::programs::Program;

impl World {
    pub(super) fn start(&mut self, id: Id, layout: Arc<Layout>) {
        let ranks: Vec<Rank> = layout.ranks_on(id).collect();
        let group = layout.group;
        self.programs.know(&layout);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.starting.insert(group, (ranks.len(), Vec::new()));
        }
        for rank in ranks {
            let member = Member { group, rank };
            let before = self.lives.insert(member, (id, Life::Starts));
            assert!(before.is_none(), "{member} is started twice");
            let started = match self.rng.one_in(self.config.not_started) {
                true => Err(2),
                false => Ok(1000 + rank),
            };
            let delay = self.delay();
            self.after(delay, Event::Runs { member, started });
        }
        self.see(Seen::Started { layout });
    }

    pub(super) fn runs(&mut self, member: Member, started: Result<u32, i32>) {
        let Some((id, life)) = self.lives.get_mut(&member) else { return };
        let id = *id;
        if !self.nodes[&id].up {
            return;
        }
        match started {
            Ok(_) => {
                *life = Life::Runs;
                let client = Client::Process(member);
                self.see(Seen::Runs { member });
                self.programs.begin(client);
                let delay = self.delay();
                self.after(delay, Event::Acts { client });
                if self.rng.one_in(self.config.deaths) {
                    let at = self.rng.below(3_000 * MILLI);
                    let exit = self.an_exit();
                    self.after(at, Event::Dies { member, exit });
                }
            }
            Err(_) => {
                *life = Life::Over;
                self.see(Seen::Over { member, exit: Exit::Never });
            }
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some((expected, known)) = node.starting.get_mut(&member.group) else { return };
        known.push((member.rank, started));
        if known.len() == *expected {
            // What has ended meanwhile may be told before.
            let delay = self.delay();
            self.after(delay, Event::Started { id, group: member.group });
        }
    }

    pub(super) fn an_exit(&mut self) -> Exit {
        match self.rng.below(4) {
            0 => Exit::Code(0),
            1 => Exit::Code(7),
            _ => Exit::Signal(11),
        }
    }

    pub(super) fn started(&mut self, id: Id, group: GroupId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if let Some((_, mut ranks)) = node.starting.remove(&group) {
            ranks.sort_unstable();
            self.input(id, Input::Started { group, ranks });
        }
    }

    pub(super) fn dies(&mut self, member: Member, exit: Exit) {
        let Some((id, life)) = self.lives.get_mut(&member) else { return };
        let id = *id;
        if *life != Life::Runs {
            return;
        }
        *life = Life::Over;
        let client = Client::Process(member);
        self.programs.over(client);
        self.see(Seen::Over { member, exit });
        // The link ends before or after.
        if self.rng.one_in(2) {
            self.see(Seen::Gone { client });
            self.input(id, Input::Gone(client));
            self.input(id, Input::Ended { member, exit });
        } else {
            self.input(id, Input::Ended { member, exit });
            let delay = self.delay();
            self.after(delay, Event::Gone { client, id });
        }
    }

    /// All processes of a group at a node end, and then none is left.
    pub(super) fn killed(&mut self, id: Id, group: GroupId, signal: u8) {
        if !self.nodes[&id].up {
            return;
        }
        let here = self.lives.iter().filter(|(member, (at, _))| member.group == group && *at == id);
        let here: Vec<(Member, Life)> = here.map(|(member, (_, life))| (*member, *life)).collect();
        let starts = here.iter().any(|(_, life)| *life == Life::Starts)
            || self.nodes[&id].starting.contains_key(&group);
        for (member, _) in here.iter().filter(|(_, life)| *life == Life::Runs) {
            self.dies(*member, Exit::Signal(signal));
        }
        if starts {
            // The keeper does what it is told in its order.
            let delay = self.delay();
            return self.after(delay, Event::Killed { id, group, signal });
        }
        self.input(id, Input::Emptied(group));
    }

    pub(super) fn acts(&mut self, client: Client) {
        let Some(id) = self.node_of(client) else { return };
        let (node, head) = (&self.nodes[&id], self.head());
        if !node.up || node.ended && client != TOOL {
            return;
        }
        for asked in self.programs.next(client) {
            let (serial, request) = match asked {
                Program::Asks(serial, request) => (serial, request),
                Program::Ends(exit) => {
                    if let Client::Process(member) = client {
                        let delay = self.delay();
                        self.after(delay, Event::Dies { member, exit });
                    }
                    continue;
                }
                Program::Waits(millis) => {
                    self.after(millis * MILLI, Event::Acts { client });
                    continue;
                }
            };
            self.see(Seen::Asked { client, serial, request: request.clone() });
            self.asking = Some((client, serial));
            let id = self.node_of(client).unwrap_or(head);
            self.input(id, Input::Request { client, serial, request });
            self.asking = None;
        }
    }
}
