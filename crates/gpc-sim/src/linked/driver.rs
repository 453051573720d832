//! Driver of each process's links. It acts as `runtime::connections` and `runtime::greeting`, with simulated
//! connections instead of sockets.

use gpc_trees::Id;

use super::given::{GivenMessages, Kind};
use super::{Process, Refusal};
use crate::check::Observation;
use crate::event::Event;
use crate::faults::Fault;
use crate::world::World;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{LinkKey, NewLink, State};
use chained_gpc::link::{LinksOutput, Loss};

impl World {
    /// The links of a process.
    pub(super) fn process(&mut self, id: Id) -> &mut Process {
        let (run, incarnation) = (self.hosts.run(id), self.hosts.incarnation(id));
        self.linked().process(id, run, incarnation)
    }

    /// Carries out the outputs of a process's links.
    pub(super) fn settle_links(&mut self, id: Id) {
        // This loop ends: every connection ends once, and its outputs are bounded.
        while let Some(output) = self.process(id).links.poll() {
            self.carry_out_for(id, output);
        }
        self.linked().touch(id);
    }

    fn carry_out_for(&mut self, id: Id, output: LinksOutput) {
        let now = self.time();
        match output {
            LinksOutput::Open { peer } => {
                let process = self.process(id);
                let needed = process.queued.get(&peer).is_some_and(GivenMessages::needs_link);
                let absent = process.links.peering.state(peer) == State::Absent;
                let wrong = format!("connects to {peer} though nothing needs it, or a second time");
                self.blame(id, (!needed || !absent).then_some(wrong));
                self.connect(id, peer);
            }
            LinksOutput::Close { key } => self.discard(id, key),
            LinksOutput::CloseAfterWriting { key } => {
                self.write(id, key);
                self.discard(id, key);
            }
            LinksOutput::Prepare(new_link) => self.establish(id, *new_link),
            LinksOutput::Rejected { key, why } => self.refuses(id, key, &why),
            LinksOutput::Up { .. } | LinksOutput::Pause { .. } => {}
            LinksOutput::Lost { peer, loss, why, .. } => {
                self.trace.say(self.now, format_args!("the link of {id} to {peer} is gone, {loss:?}: {why}"));
                if loss == Loss::Broken {
                    self.linked().touch(id);
                }
            }
            LinksOutput::PongReceived { key, peer } => {
                let place = self.process(id).place(key);
                let ends_at = place.map_or(0, |place| self.linked().end(place).ends_at);
                // A PONG that is followed by the end of the link does not count as an answer.
                if ends_at > self.now {
                    self.process(id).links.confirm_alive(now, peer);
                }
            }
        }
    }

    /// Schedules the next deadline of a process's links.
    pub(super) fn await_deadline(&mut self, id: Id) {
        let process = self.process(id);
        let next = process.links.next_deadline().map(Time::as_nanos);
        if let Some(at) = next.filter(|at| process.due.is_none_or(|before| *at < before)) {
            process.due = Some(at);
            let run = process.run;
            self.queue.push(at.max(self.now), Event::Due { id, run });
        }
    }

    /// A connection becomes a link: sends the queued messages.
    fn establish(&mut self, id: Id, link: NewLink) {
        let NewLink { key, hello, accepted, proof, .. } = link;
        let (now, at) = (self.time(), self.now);
        let (peer, generation) = (hello.from, hello.generation);
        let Some(place) = self.process(id).place(key) else { return };
        let ((pipe, side), by) = (place, if accepted { peer } else { id });
        if self.linked().settings.refusal == Refusal::AfterGreeting && self.refuses_now(peer, id) {
            self.inject(Fault::Refused, &[id, peer]);
            return self.process(id).links.fail_setup(now, key, peer, "no memory for its session");
        }
        self.trace.say(
            self.now,
            format_args!("{id} has connection {pipe}, which {by} has opened, for its link to {peer}, generation {generation}"),
        );
        let process = self.process(id);
        let greeting = process.links.table.link(key).map_or(0, |link| link.outbox.queued());
        process.last_links.insert(peer, place);
        let queued = process.queued.remove(&peer).unwrap_or_default().take();
        let end = self.linked().end((pipe, 1 - side));
        end.rules.begin(greeting, hello.hiwater);
        for mut message in queued {
            message.waited_until(at);
            match message.kind() {
                Kind::Ping | Kind::Pong => end.given.push_beat(message, end.rules.beats(), end.rules.asks()),
                _ => end.given.push(message),
            }
        }
        self.process(id).links.establish(now, key, &hello, proof);
        // More than the greeting may have been read before.
        self.schedule_event(at, pipe, side, super::step::ConnectionEvent::Bytes(Vec::new()));
    }

    /// Time at which an event of a resumed process happens: after everything that arrived on its links meanwhile,
    /// perhaps the end of a link. The events of later functions happen after it.
    pub(crate) fn behind_what_has_come(&mut self, event: &Event) -> Option<u64> {
        let (Event::Ran { id, .. } | Event::Answered { id, .. }) = event else { return None };
        let back_at = self.linked.as_ref().and(self.mishaps.as_ref())?.timing.back_at(*id)?;
        let (now, busy_until) = (self.now, self.hosts.busy_until(*id));
        let process = self.process(*id);
        if now == back_at + 1 && busy_until > now {
            process.caught_up = busy_until + 1;
        }
        (now < process.caught_up).then_some(process.caught_up)
    }

    /// Handles the deadlines of a process's links.
    pub(crate) fn links_are_due(&mut self, id: Id, run: u32) {
        let now = self.time();
        if self.hosts.is_up(id) && self.hosts.run(id) == run {
            self.process(id).due = None;
            self.process(id).links.tick(now);
            self.settle_links(id);
        }
    }

    /// A node drops the link to a silent peer by itself.
    pub(crate) fn abandon_link(&mut self, id: Id, peer: Id) {
        let now = self.time();
        let process = self.process(id);
        process.queued.remove(&peer);
        process.announced.lost(peer, false);
        let state = process.links.peering.state(peer);
        let key = if let State::Up(key) | State::Connecting(key) = state { Some(key) } else { None };
        let place = key.and_then(|key| self.process(id).place(key));
        if let Some((pipe, _)) = place
            && !self.pipe(pipe).is_broken()
        {
            self.inject(Fault::Link, &[id, peer]);
        }
        self.process(id).links.abandon(now, peer);
        self.settle_links(id);
        if let (Some(place), State::Up(_)) = (place, state) {
            self.owns_up_to_a_late_end(place);
        }
        self.observe(&Observation::LinkEnded { at: id, peer, unreached: false });
    }

    /// A request of this peer has been consumed.
    pub(crate) fn consumed_on_link(&mut self, id: Id, from: Id) {
        self.process(id).links.consume_request(from);
        self.linked().touch(id);
    }

    /// The links of a process give back memory that they need no more, as those of an idle node.
    pub(crate) fn links_release_memory(&mut self, id: Id) {
        for connection in self.process(id).links.table.values_mut() {
            connection.link.inbox.release_spare_memory();
            connection.link.outbox.release_spare_memory();
        }
    }

    /// Removes a connection from the table of a process, and closes its end.
    pub(super) fn discard(&mut self, id: Id, key: LinkKey) {
        if let Some(connection) = self.process(id).links.remove(key) {
            self.close(connection.place);
        }
    }
}
