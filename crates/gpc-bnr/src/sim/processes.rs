//! Processes of a world: start, end, kill, and requests.

use std::sync::Arc;

use chained_gpc::trees::Id;

use super::events::Event;
use super::programs::{Program, is_probe};
use super::seen::Seen;
use super::time::MS;
use super::world::{Life, TOOL, World};
use crate::domain::Input;
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};
use crate::request::Client;
use crate::spec::Layout;
use crate::start_error::StartError;

/// The system's error for a missing program.
const NO_PROGRAM: i32 = 2;

impl World {
    pub(super) fn check(&mut self, id: Id, layout: &Layout) {
        let group = layout.group;
        let may_fail = self.config.not_started > 0 && !is_probe(layout);
        let fails = may_fail && self.random.chance(1, self.config.not_started);
        let failed = match layout.ranks_on(id).next().filter(|_| fails) {
            Some(rank) => vec![(vec![rank], no_program())],
            None => Vec::new(),
        };
        if fails {
            self.unfit.insert((group, layout.size()));
        }
        let at = self.now + self.moment();
        self.push_at(id, at, |run| Event::Checked(id, run, group, failed));
    }

    pub(super) fn start(&mut self, id: Id, layout: Arc<Layout>) {
        let ranks: Vec<Rank> = layout.ranks_on(id).collect();
        let group = layout.group;
        self.programs.know(&layout);
        if self.unfit.contains(&(group, layout.size())) {
            self.see(Seen::Left(format!("{group} is started, though a node cannot start its part")));
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.part.iter_mut().for_each(|part| drop(part.starting.insert(group, (ranks.len(), Vec::new()))));
        for rank in ranks {
            let member = Member { group, rank };
            let before = self.lives.insert(member, (id, Life::Starts));
            if before.is_some() {
                self.see(Seen::Left(format!("{member} is started twice")));
            }
            let fails = self.config.not_started > 0
                && !self.programs.is_probe(group)
                && self.random.chance(1, self.config.not_started);
            let started = if fails { Err(no_program()) } else { Ok(1000 + rank) };
            let at = self.now + self.moment();
            self.push(at, Event::Runs(member, started));
        }
        self.see(Seen::Started { layout });
    }

    pub(super) fn runs(&mut self, member: Member, started: Result<u32, StartError>) {
        let Some((id, life)) = self.lives.get_mut(&member) else { return };
        let id = *id;
        if *life != Life::Starts {
            return;
        }
        match started {
            Ok(_) => {
                *life = Life::Runs;
                let client = Client::Process(member);
                self.see(Seen::Runs { member });
                self.programs.begin(client);
                let at = self.now + self.moment();
                self.push(at, Event::Acts(client));
                let dies = self.config.deaths > 0 && !self.programs.is_probe(member.group);
                if dies && self.random.chance(1, self.config.deaths) {
                    // Often before all processes of the group are started.
                    let most = if self.random.chance(1, 2) { 30 } else { 3_000 };
                    let at = self.now + self.random.below(most * MS);
                    let exit = self.an_exit();
                    self.push(at, Event::Dies(member, exit));
                }
            }
            Err(_) => {
                *life = Life::Over;
                self.see(Seen::Over { member, exit: Exit::Never });
            }
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(part) = &mut node.part else { return };
        let Some((expected, known)) = part.starting.get_mut(&member.group) else { return };
        known.push((member.rank, started));
        if known.len() == *expected {
            let run = node.run;
            // Deaths in the meantime may be reported first.
            let at = self.now + self.moment();
            self.push(at, Event::Started(id, run, member.group));
        }
    }

    pub(super) fn started(&mut self, id: Id, group: GroupId) {
        let part = self.nodes.get_mut(&id).and_then(|node| node.part.as_mut());
        if let Some((_, mut ranks)) = part.and_then(|part| part.starting.remove(&group)) {
            ranks.sort_unstable_by_key(|(rank, _)| *rank);
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
        // If the node is paused, it learns of the exit later.
        let Some(run) = self.nodes.get(&id).map(|node| node.run) else { return };
        // The link may close before or after the exit is reported.
        if self.random.chance(1, 2) {
            self.see(Seen::Gone { client });
            self.input(id, Input::Gone(client));
            self.input(id, Input::Ended { member, exit });
        } else {
            self.input(id, Input::Ended { member, exit });
            let at = self.now + self.moment();
            self.push(at, Event::Gone(id, run, client));
        }
    }

    /// All processes of a group at a node end; then the group is empty there.
    pub(super) fn killed(&mut self, id: Id, group: GroupId, signal: u8) {
        let here = self.lives.iter().filter(|(member, (at, _))| member.group == group && *at == id);
        let here: Vec<(Member, Life)> = here.map(|(member, (_, life))| (*member, *life)).collect();
        let Some(node) = self.nodes.get(&id) else { return };
        let (run, part) = (node.run, node.part.as_ref());
        let starts = here.iter().any(|(_, life)| *life == Life::Starts)
            || part.is_some_and(|part| part.starting.contains_key(&group));
        for (member, _) in here.iter().filter(|(_, life)| *life == Life::Runs) {
            self.dies(*member, Exit::Signal(signal));
        }
        if starts {
            // The supervisor carries out orders in sequence, so the kill waits for the start.
            let at = self.now + self.moment();
            return self.push(at, Event::Killed(id, run, group, signal));
        }
        self.input(id, Input::Emptied(group));
    }

    /// A node's part has ended, and its supervisor kills the remaining processes.
    pub(super) fn processes_end_with(&mut self, id: Id) {
        let left = self.lives.iter().filter(|(_, (at, life))| *at == id && *life != Life::Over);
        let left: Vec<Member> = left.map(|(member, _)| *member).collect();
        for member in left {
            if let Some((_, life)) = self.lives.get_mut(&member) {
                *life = Life::Over;
            }
            self.programs.over(Client::Process(member));
            self.see(Seen::Over { member, exit: Exit::Signal(9) });
        }
        if id == self.head() {
            self.programs.over(TOOL);
        }
    }

    pub(super) fn acts(&mut self, client: Client) {
        let Some(id) = self.node_of(client) else { return };
        if self.nodes.get(&id).is_none_or(|node| !node.up || node.part.is_none()) {
            return;
        }
        for asked in self.programs.next(client) {
            let (serial, request) = match asked {
                Program::Asks(serial, request) => (serial, request),
                Program::Ends(exit) => {
                    if let Client::Process(member) = client {
                        let at = self.now + self.moment();
                        self.push(at, Event::Dies(member, exit));
                    }
                    continue;
                }
                Program::Waits(millis) => {
                    self.push(self.now + millis * MS, Event::Acts(client));
                    continue;
                }
            };
            self.see(Seen::Asked { client, serial, request: request.clone() });
            self.asking = Some((client, serial));
            self.input(id, Input::Request { client, serial, request });
            self.asking = None;
        }
    }
}

fn no_program() -> StartError {
    StartError::new(NO_PROGRAM, StartError::NOT_FOUND, "there is no such program")
}
