//! The event loop: one thread that owns the chain's state and the links.
//!
//! A turn takes in what has happened (connections, bytes, results of functions, commands of the application, time),
//! gives each to the chain as one input, carries out every output, and writes what was queued on each link in one
//! gather write.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;
use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Poll, Token};
use tracing::debug;

use super::alarm::{ALARM, Alarm};
use super::clock::Clock;
use super::command::Command;
use super::completion::{SubtreeAnswer, Success};
use super::connections::{Connections, LISTENER};
use super::executor::Executor;
use super::loop_state::{Idle, Looking, OwnCalls, Turn, UNBOUNDED};
use super::mailbox::{Mailbox, Slots};
use super::readiness::Readiness;
use super::short_jobs::ShortJobs;
use super::side::Side;
use super::wait::Wait;
use crate::chain::{Input, Node, Output, Outputs, RootReply, Time, sooner};
use crate::hint::{likely, unlikely};
use crate::link::peering::LinkKey;
use crate::link::{Arrival, FIRST as FIRST_LINK, Lost, UnsentRequests};
use crate::transport::Told;
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Failure, Message, Report};

/// The token of the waker.
pub(super) const WAKER: Token = Token(0);

/// The token of the link whose end is the node's end: behind the waker's and the listener's, before those of links.
const CONTROL_LINK: Token = Token(2);

/// Commands and results taken in one turn, before the links get theirs.
pub(super) const MAIL_BUDGET: usize = 1024;

/// Calls for each child, from which on a write and a waking cost less than children that have nothing to do. With 64 in
/// flight two processes take three quarters of the time for it; where there are many children, who keep the cores busy
/// as it is, it would only cost.
const CALLS_PER_CHILD: usize = 16;

/// Longest sleep: a turn now and then costs nothing, and bounds what a lost wake-up could cost.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(10);

/// How long the last frames may take to be written when the node ends.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// How a node ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// It does not.
    No,
    /// It takes no more calls, and waits for those in flight until then.
    Finishing(Time),
    /// Its last frames are being written, until then.
    Draining(Time),
    /// It has.
    Ended,
}

/// Everything that one node is at run time.
pub(super) struct EventLoop {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    pub(super) alarm: Alarm,
    pub(super) node: Node,
    pub(super) connections: Connections,
    /// What callers and functions share with the loop.
    pub(super) side: Arc<Side>,
    pub(super) executor: Executor,
    pub(super) short: ShortJobs,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slots: Slots,
    pub(super) looking: Looking,
    pub(super) turn: Turn,
    pub(super) idle: Idle,
    /// Inputs that carrying out outputs has brought about.
    pub(super) inputs: VecDeque<Input>,
    /// What the chain asks for; empty between its inputs.
    pub(super) outputs: Outputs,
    pub(super) calls: OwnCalls,
    ending: Ending,
    /// The node ends when the other end of this is closed. Nothing is read from it.
    control_link: Option<UnixStream>,
}

/// The parts of an event loop, as the builder makes them.
pub(super) struct Parts {
    pub(super) poll: Poll,
    pub(super) node: Node,
    pub(super) connections: Connections,
    pub(super) side: Arc<Side>,
    pub(super) executor: Executor,
    pub(super) slots: Slots,
    pub(super) wait: Wait,
    pub(super) trims: bool,
}

impl EventLoop {
    pub(super) fn new(parts: Parts) -> io::Result<EventLoop> {
        let Parts { poll, node, connections, side, executor, slots, wait, trims } = parts;
        let (mailbox, clock) = (side.mailbox.clone(), Clock::since(side.begun));
        let alarm = Alarm::new(poll.registry())?;
        Ok(EventLoop {
            poll,
            clock,
            alarm,
            node,
            connections,
            side,
            executor,
            short: ShortJobs::default(),
            mailbox,
            slots,
            looking: Looking::new(wait),
            turn: Turn::default(),
            idle: Idle { busy_until: Time::default(), trims },
            inputs: VecDeque::new(),
            outputs: Outputs::new(),
            calls: OwnCalls::default(),
            ending: Ending::No,
            control_link: None,
        })
    }

    /// Ends the node, without a word to anybody, when the other end of this link is closed.
    pub(super) fn end_with_control_link(
        &mut self,
        control_link: std::os::unix::net::UnixStream,
    ) -> io::Result<()> {
        let mut control_link = UnixStream::from_std(control_link);
        self.poll.registry().register(&mut control_link, CONTROL_LINK, Interest::READABLE)?;
        self.control_link = Some(control_link);
        Ok(())
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn has_control_link(&self) -> bool {
        self.control_link.is_some()
    }

    /// Whether so many calls wait to leave that the children had better have them now, though the caller finds that a
    /// call has ended: who keeps many in flight and takes their outcomes one by one would else let the children wait
    /// until all are taken, and they him after that.
    pub(super) fn is_worth_a_turn(&self, waiting: usize) -> bool {
        self.calls.children > 0
            && waiting >= CALLS_PER_CHILD * self.calls.children
            && waiting >= self.calls.completions.len()
    }

    /// Takes calls that whoever drives the loop has started.
    pub(super) fn take_started(&mut self, started: &mut VecDeque<Command>) {
        match self.calls.started.is_empty() {
            true => std::mem::swap(&mut self.calls.started, started),
            false => self.calls.started.append(started),
        }
    }

    /// Calls that are still to be started of those that [were](Self::take_started).
    pub(super) fn starting(&self) -> usize {
        self.calls.started.len()
    }

    /// What time it is.
    pub(super) fn ask_time(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ending == Ending::Ended
    }

    /// One turn, however long ago the last one was; sleeps at most `limit` when nothing is there to do. Ends when about
    /// `budget` things are done; says how many were.
    #[inline(always)]
    pub(super) fn turn(&mut self, limit: Duration, budget: usize) -> io::Result<usize> {
        (self.turn.done, self.turn.budget) = (0, budget);
        self.wait(limit)?;
        self.connections.turn += 1;
        self.connections.proofs_before = self.connections.links.peering.proofs();
        self.looking.awaits_more = false;
        self.serve_links();
        self.turn.budget = budget;
        self.serve_mail();
        if unlikely(self.turn.rang) {
            self.check_deadlines();
        }
        self.connections.flush(&self.clock);
        self.take_in();
        if unlikely(self.connections.is_short()) {
            self.make_room();
        }
        if unlikely(self.ending != Ending::No) {
            self.end_if_due();
        }
        if unlikely(self.holds_memory()) {
            self.release_memory(self.clock.time());
        }
        self.turn.rang = false;
        self.publish();
        Ok(self.turn.done)
    }

    /// Publishes what the node holds, for metrics.
    #[inline]
    fn publish(&self) {
        let metrics = &self.connections.traffic.metrics;
        metrics.calls.set(self.node.calls() as u64);
        metrics.running.set(self.node.jobs_running() as u64);
        metrics.waiting.set((self.node.functions_waiting() + self.short.waiting.len()) as u64);
    }

    /// Descriptors are short: links that nobody uses are closed.
    #[cold]
    fn make_room(&mut self) {
        let now = self.clock.time();
        let involved = self.connections.may_find_room(now).then(|| self.node.involved());
        self.connections.make_room(now, involved.as_ref());
        self.take_in();
    }

    /// Whether the system has said anything but that time has passed.
    pub(super) fn has_events(&self) -> bool {
        match &self.looking.events {
            Some(events) => events.iter().any(|event| event.token() != ALARM),
            None => false,
        }
    }

    pub(super) fn has_mail(&self) -> bool {
        self.mailbox.has_come()
    }

    /// Whether there is something to do at once.
    pub(super) fn is_busy(&self) -> bool {
        let functions = self.executor.has_due() || !self.short.waiting.is_empty();
        self.connections.is_busy() || self.has_mail() || !self.calls.started.is_empty() || functions
    }

    /// When something is to be done though nothing comes.
    #[inline(always)]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let ending = match self.ending {
            Ending::Finishing(at) | Ending::Draining(at) => Some(at),
            Ending::No | Ending::Ended => None,
        };
        let memory = match unlikely(self.holds_memory()) {
            true => Some(self.memory_until()),
            false => None,
        };
        sooner(sooner(self.node.next_deadline(), memory), sooner(self.connections.next_deadline(), ending))
    }

    /// Whether something is due. If not, sees to it that the node is woken for its next deadline, and now and then
    /// without one.
    #[inline(always)]
    pub(super) fn set_alarm_unless_due(&mut self) -> io::Result<bool> {
        let deadline = self.next_deadline();
        if likely(self.alarm.rings_by(deadline)) {
            Ok(false)
        } else {
            self.set_alarm_unless_due_anew(deadline)
        }
    }

    #[cold]
    fn set_alarm_unless_due_anew(&mut self, deadline: Option<Time>) -> io::Result<bool> {
        let now = self.clock.time();
        // To wait for the alarm, whoever drives the node would have to come back for it.
        self.turn.rang = deadline.is_some_and(|at| at <= now);
        if self.turn.rang {
            return Ok(true);
        }
        let latest = now.plus(SLEEP_MAX);
        self.alarm.set(now, deadline.map_or(latest, |at| at.min(latest)))?;
        Ok(false)
    }

    /// Does what is due.
    #[cold]
    fn check_deadlines(&mut self) {
        self.turn.done += 1;
        // The turn's time may be from before a look that saw the alarm.
        let now = self.clock.now();
        self.connections.check_deadlines(now);
        self.take_in();
        if self.node.next_deadline().is_some_and(|at| at <= now) {
            self.apply(Input::Tick);
        }
    }

    #[inline(always)]
    fn serve_links(&mut self) {
        if unlikely(self.turn.budget != UNBOUNDED) {
            self.begin_bounded();
        }
        let Some(events) = self.looking.events.take() else { return };
        for event in &events {
            let Token(key) = event.token();
            if unlikely(key < FIRST_LINK) {
                self.serve_other(event);
                continue;
            }
            let (key, readiness) = (LinkKey(key), Readiness::from(event));
            if likely(self.connections.ready(&self.clock, key, readiness)) {
                self.read_link(key, readiness.closed);
            }
            self.take_in();
        }
        self.looking.events = Some(events);
        if unlikely(self.connections.has_rings()) {
            self.read_rings();
        }
        if unlikely(!self.connections.unread.is_empty()) {
            self.read_more();
        }
        self.take_in();
    }

    /// What the system says of anything but a link.
    #[cold]
    fn serve_other(&mut self, event: &Event) {
        match event.token() {
            LISTENER => self.connections.accept(self.clock.time()),
            CONTROL_LINK if event.is_read_closed() || event.is_error() => self.ending = Ending::Ended,
            ALARM => {
                self.alarm.rang();
                self.turn.rang = true;
            }
            _ => {}
        }
    }

    /// Reads from the rings in which something has come, and goes on writing where room was made.
    fn read_rings(&mut self) {
        // Bounded: reading a link watches no other. What moves to a place that was looked at before is found in the
        // next turn.
        for place in 0.. {
            match self.connections.look_at_ring(place) {
                None => return,
                Some((_, false)) => {}
                Some((key, true)) => {
                    self.read_link(key, false);
                    self.take_in();
                }
            }
        }
    }

    /// Gives the chain what has come in on the links, which for calls on the fast path is nothing.
    #[inline]
    pub(super) fn take_in(&mut self) {
        if unlikely(!self.connections.links.arrivals.is_empty()) {
            self.take_in_arrivals();
        }
    }

    #[inline(never)]
    fn take_in_arrivals(&mut self) {
        // Ends: what an arrival brings about is finite, and nothing is read meanwhile.
        while let Some(arrival) = self.connections.links.arrivals.pop_front() {
            self.turn.done += 1;
            let input = match arrival {
                Arrival::Input(input) => input,
                Arrival::Lost(Lost { unsent: Some(unsent), peer, .. })
                    if self.loses_nothing(peer, &unsent) =>
                {
                    self.connections.resend(self.clock.time(), peer, unsent);
                    continue;
                }
                Arrival::Lost(Lost { peer, kind, why, unreached, .. }) => {
                    let unreached = self.connections.links.forget_since(peer) && unreached;
                    self.calls.reasons.note(peer, &why);
                    Input::LinkLost { peer, kind, why, unreached }
                }
            };
            self.apply(input);
        }
    }

    /// Whether all that a lost link was used for are requests of which no byte has left: then they wait for the next
    /// link, and no call need fail.
    #[cold]
    fn loses_nothing(&self, peer: Id, unsent: &UnsentRequests) -> bool {
        self.connections.links.may_open(peer)
            && self.node.is_involved_only_in(peer, &self.connections.links.calls_unsent(peer, unsent))
    }

    fn serve_mail(&mut self) {
        if unlikely(!self.calls.started.is_empty()) {
            self.start_calls();
        }
        if unlikely(self.mailbox.open()) {
            self.open_mail();
        }
    }

    #[inline(never)]
    fn start_calls(&mut self) {
        for _ in 0..self.share() {
            let Some(command) = self.calls.started.pop_front() else { break };
            self.turn.done += 1;
            self.command(command);
        }
    }

    /// Beside the way that most turns take, as are others of this file: where many processes share a core, each line of
    /// code that lies between two that run costs.
    #[inline(never)]
    fn open_mail(&mut self) {
        if unlikely(self.connections.accepting.host.is_some()) {
            self.serve_host();
        }
        for _ in 0..self.share() {
            let Ok(input) = self.slots.results.try_recv() else { break };
            self.turn.done += 1;
            self.executor.heed(&input);
            match input {
                Input::Follow { ticket } => self.follow(ticket),
                input => self.apply(input),
            }
        }
        // What is asked of calls that are still to be started comes behind them.
        if self.calls.started.is_empty() {
            for _ in 0..self.share() {
                let Ok(command) = self.slots.commands.try_recv() else { break };
                self.turn.done += 1;
                self.command(command);
            }
            self.mailbox.made_room();
        }
        if !self.slots.results.is_empty() || !self.slots.commands.is_empty() {
            self.mailbox.keep();
        }
    }

    /// Takes what the program has delivered for links over its own network.
    #[inline(never)]
    fn serve_host(&mut self) {
        let Some(host) = self.connections.accepting.host.clone() else { return };
        host.say_farewells();
        self.connections.accept_from_host(self.clock.time());
        for Told { token, readable, writable, ended } in host.news() {
            let key = LinkKey(token);
            let readiness = Readiness { readable, writable, closed: ended };
            if self.connections.ready(&self.clock, key, readiness) {
                self.read_link(key, ended);
            }
            self.take_in();
        }
    }

    fn command(&mut self, command: Command) {
        if !matches!(command, Command::Start { .. }) {
            // It may be about one of them.
            self.take_in_starts();
        }
        match command {
            Command::Start { completion, .. } if self.ending != Ending::No => completion.complete(None),
            Command::Start { start, completion, .. } if completion.is_given_up() => {
                completion.complete(Some(Err(self.node.given_up(&start))));
            }
            Command::Start { ticket, mut start, completion } => {
                start.follow = completion.is_followed();
                self.calls.completions.insert(ticket, completion);
                self.start(ticket, start);
            }
            Command::NeedsWorkers { tickets, answer } => {
                let needs = tickets.iter().map(|ticket| self.node.needs_workers(*ticket)).collect();
                // Nobody may wait any more.
                let _ = answer.send(needs);
            }
            // Whoever asks hears that the node has ended from the sender that is dropped.
            Command::Meet { .. } if self.ending != Ending::No => {}
            Command::Meet { ids, answer } => {
                // Nobody may wait any more.
                let _ = answer.send(self.meet(&ids));
            }
            Command::Learn(_) | Command::LearnAll(_) | Command::Forget(_) if self.ending != Ending::No => {}
            Command::Learn(peer) => {
                self.connections.learn(self.clock.time(), peer);
                // The chain hears of what that has lost before anything new goes to the peer.
                self.take_in();
            }
            Command::LearnAll(peers) => {
                let now = self.clock.time();
                peers.into_iter().for_each(|peer| self.connections.learn(now, peer));
                self.take_in();
            }
            Command::Forget(id) => {
                self.connections.forget(self.clock.time(), id);
                self.calls.reasons.0.remove(&id);
                self.take_in();
            }
            Command::Change { change, answer } => self.change(change, answer),
            // Nobody may wait any more.
            Command::Members { answer } => drop(answer.send(self.connections.members())),
            Command::Recorder { answer } => (answer.0)(self.recording()),
            // Nobody may wait any more.
            Command::Progress { ticket, answer } => drop(answer.send(self.progress(ticket))),
            // Nobody may wait any more.
            #[cfg(feature = "snapshot")]
            Command::Snapshot { answer } => drop(answer.send(self.snapshot())),
            Command::Listen(listener) => self.connections.listen(listener),
            Command::Shutdown { limit } => {
                if self.ending == Ending::No {
                    self.node.close();
                    self.ending = Ending::Finishing(self.clock.time().plus(limit));
                }
            }
        }
    }

    /// The caller takes the replies of a call as they arrive.
    #[cold]
    fn follow(&mut self, ticket: u64) {
        self.take_in_starts();
        if self.node.has_started(ticket) {
            self.apply(Input::Follow { ticket });
        } else if self.calls.completions.contains_key(&ticket) {
            self.calls.to_follow.push(ticket);
        }
    }

    /// Continues with the calls that the chain did not know when their callers wanted to follow them.
    #[cold]
    pub(super) fn follow_started(&mut self) {
        for ticket in std::mem::take(&mut self.calls.to_follow) {
            self.follow(ticket);
        }
    }

    /// Gives the chain one input, carries out all its outputs, and goes on with what these bring about.
    pub(super) fn apply(&mut self, input: Input) {
        self.node.input(self.clock.time(), input, &mut self.outputs);
        self.settle();
    }

    /// Carries out what the chain asks for, and goes on with what that brings about.
    #[inline]
    pub(super) fn settle(&mut self) {
        if unlikely(!self.outputs.is_empty() | !self.inputs.is_empty()) {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        // Ends: every input brings a call on, and a call has finitely many steps.
        loop {
            while let Some(output) = self.outputs.pop_front() {
                self.carry_out(output);
            }
            let Some(input) = self.inputs.pop_front() else { return };
            self.node.input(self.clock.time(), input, &mut self.outputs);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => {
                if let Message::Response(Response { call, answer: Answer::Failed(_) | Answer::Partial(_) }) =
                    &message
                {
                    self.connections.links.request_ended(to, *call);
                }
                self.connections.send(self.clock.time(), to, message);
            }
            Output::Run(job) => {
                if let Some(ran) = self.executor.run(job) {
                    // It has run in here, for however long.
                    self.clock.go_on();
                    self.inputs.push_back(ran);
                }
            }
            Output::Stopped(call) => self.executor.stop(call),
            Output::Consumed { from } => self.connections.links.consumed(from),
            Output::Abandon { peer } => self.connections.abandon(self.clock.time(), peer),
            Output::ChildReply { ticket, group, reply, report } => {
                if let Some(completion) = self.calls.completions.get(&ticket) {
                    completion.child_answered(SubtreeAnswer { group, reply, report });
                }
            }
            Output::Finished { ticket, call, result, report } => {
                self.finish(ticket, call, result.map(|reply| reply.map(RootReply::Aggregated)), report);
            }
        }
    }

    /// A call that was started here has ended.
    pub(super) fn finish(
        &mut self,
        ticket: u64,
        call: CallId,
        result: Result<Option<RootReply>, Box<Failure>>,
        report: Option<Box<Report>>,
    ) {
        debug!(%call, done = result.is_ok(), "call ended");
        if let Some(completion) = self.calls.completions.remove(&ticket) {
            completion.complete(Some(result.map(|reply| Success { reply, report })));
        }
    }

    /// Whether no call is in flight here, or is about to be.
    fn is_idle(&self) -> bool {
        self.node.calls() == 0 && self.short.waiting.is_empty()
    }

    /// Moves the end of the node on.
    #[cold]
    fn end_if_due(&mut self) {
        let now = self.clock.time();
        if let Ending::Finishing(until) = self.ending
            && (until <= now || (self.is_idle() && self.connections.is_drained()))
        {
            self.connections.links.goodbye("the node was shut down");
            self.connections.flush(&self.clock);
            self.ending = Ending::Draining(now.plus(DRAIN_LIMIT));
        }
        if let Ending::Draining(until) = self.ending
            && (until <= now || self.connections.is_drained())
        {
            self.ending = Ending::Ended;
        }
    }
}

impl Drop for EventLoop {
    /// Whoever still waits is told that the node has ended.
    fn drop(&mut self) {
        self.mailbox.close();
        self.connections.accepting.host.iter().for_each(|host| host.end());
        for completion in std::mem::take(&mut self.calls.completions).into_values() {
            completion.complete(None);
        }
        for command in self.calls.started.drain(..).chain(self.slots.commands.try_iter()) {
            if let Command::Start { completion, .. } = command {
                completion.complete(None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
