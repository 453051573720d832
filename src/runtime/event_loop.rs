//! The event loop: one thread that owns the chain's state and the links.
//!
//! One turn waits for events, reads links, takes results and commands, handles deadlines, and writes. Each event
//! becomes one input of the chain, and each output of the chain is carried out. The frames queued on a link leave in
//! one gather write.

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
use super::loop_state::{Idle, OwnCalls, Polling, Turn, UNBOUNDED};
use super::mailbox::{Mailbox, Slots};
use super::readiness::Readiness;
use super::shared_state::SharedState;
use super::short_jobs::ShortJobs;
use super::wait::Wait;
use crate::branch_hint::{likely, unlikely};
use crate::chain::{Input, Node, Output, Outputs, RootReply, Time, sooner};
use crate::link::peering::LinkKey;
use crate::link::{Arrival, FIRST as FIRST_LINK, LostLink, UnsentRequests};
use crate::transport::ConnectionEvent;
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Failure, Message, Report};

/// Token of the waker.
pub(super) const WAKER: Token = Token(0);

/// Token of the control link. It precedes the tokens of links.
const CONTROL_LINK: Token = Token(2);

/// Maximum number of commands and of results per turn, before links are served.
pub(super) const MAIL_BUDGET: usize = 1024;

/// Queued calls for each child from which on they are sent before the caller takes another outcome. With 64 calls in
/// flight, two processes then take three quarters of the time. With many children the cores are busy anyway, and an
/// extra turn only costs.
const CALLS_PER_CHILD: usize = 16;

/// Longest sleep. It bounds the delay that a lost wake-up causes, and one turn in ten seconds costs nothing.
pub(super) const SLEEP_MAX: Duration = Duration::from_secs(10);

/// Time limit for writing the last frames when the node ends.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Life cycle of an event loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoopState {
    /// Accepts calls.
    Running,
    /// Rejects new calls. Calls in flight have until this time to end.
    Finishing(Time),
    /// Writes the last frames, until this time.
    Draining(Time),
    /// Has ended.
    Ended,
}

/// The run-time state of one node.
pub(super) struct EventLoop {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    pub(super) alarm: Alarm,
    pub(super) node: Node,
    pub(super) connections: Connections,
    /// State shared with callers and functions.
    pub(super) shared: Arc<SharedState>,
    pub(super) executor: Executor,
    pub(super) short: ShortJobs,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slots: Slots,
    pub(super) polling: Polling,
    pub(super) turn: Turn,
    pub(super) idle: Idle,
    /// Inputs that follow from outputs of the chain.
    pub(super) inputs: VecDeque<Input>,
    /// Outputs of the chain; empty between its inputs.
    pub(super) outputs: Outputs,
    pub(super) calls: OwnCalls,
    state: LoopState,
    /// The node ends when the other end of this link is closed. Bytes on it are never read.
    control_link: Option<UnixStream>,
}

/// Parts of an event loop, made by the builder.
pub(super) struct Parts {
    pub(super) poll: Poll,
    pub(super) node: Node,
    pub(super) connections: Connections,
    pub(super) shared: Arc<SharedState>,
    pub(super) executor: Executor,
    pub(super) slots: Slots,
    pub(super) wait: Wait,
    pub(super) trims: bool,
}

impl EventLoop {
    pub(super) fn new(parts: Parts) -> io::Result<EventLoop> {
        let Parts { poll, node, connections, shared, executor, slots, wait, trims } = parts;
        let (mailbox, clock) = (shared.mailbox.clone(), Clock::since(shared.begun));
        let alarm = Alarm::new(poll.registry())?;
        Ok(EventLoop {
            poll,
            clock,
            alarm,
            node,
            connections,
            shared,
            executor,
            short: ShortJobs::default(),
            mailbox,
            slots,
            polling: Polling::new(wait),
            turn: Turn::default(),
            idle: Idle { busy_until: Time::default(), trims },
            inputs: VecDeque::new(),
            outputs: Outputs::new(),
            calls: OwnCalls::default(),
            state: LoopState::Running,
            control_link: None,
        })
    }

    /// Makes the node end, without a goodbye to peers, when the other end of this link is closed.
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

    /// Whether `waiting` queued calls should be sent before the caller takes another outcome. A caller that keeps many
    /// calls in flight and takes their outcomes one by one would leave its children without work.
    pub(super) fn is_worth_a_turn(&self, waiting: usize) -> bool {
        self.calls.children > 0
            && waiting >= CALLS_PER_CHILD * self.calls.children
            && waiting >= self.calls.completions.len()
    }

    /// Queues calls that the driver has started.
    pub(super) fn take_started(&mut self, started: &mut VecDeque<Command>) {
        match self.calls.started.is_empty() {
            true => std::mem::swap(&mut self.calls.started, started),
            false => self.calls.started.append(started),
        }
    }

    /// Number of [queued](Self::take_started) calls that have not started.
    pub(super) fn starting(&self) -> usize {
        self.calls.started.len()
    }

    /// Reads the clock.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == LoopState::Ended
    }

    /// Takes one turn. Sleeps up to `limit` if there is no work. The turn ends after about `budget` items. Returns the
    /// number of items handled.
    #[inline(always)]
    pub(super) fn turn(&mut self, limit: Duration, budget: usize) -> io::Result<usize> {
        (self.turn.done, self.turn.budget) = (0, budget);
        self.wait(limit)?;
        self.connections.turn += 1;
        self.connections.proofs_before = self.connections.links.peering.proofs();
        self.polling.expects_more = false;
        self.serve_links();
        self.turn.budget = budget;
        self.serve_mail();
        if unlikely(self.turn.is_due) {
            self.check_deadlines();
        }
        self.write();
        if unlikely(self.connections.is_short()) {
            self.make_room();
        }
        if unlikely(self.state != LoopState::Running) {
            self.end_if_due();
        }
        if unlikely(self.holds_memory()) {
            self.release_memory(self.clock.time());
        }
        self.turn.is_due = false;
        self.publish();
        Ok(self.turn.done)
    }

    /// Times the last function, counts the ended calls, and writes the queued frames of all links.
    #[inline(always)]
    pub(super) fn write(&mut self) {
        self.node.turn_ends(|| self.clock.reading());
        self.connections.flush(&self.clock);
        self.deliver_arrivals();
    }

    /// Updates the gauges of the metrics.
    #[inline]
    fn publish(&self) {
        let metrics = &self.connections.traffic.metrics;
        metrics.calls.set(self.node.calls() as u64);
        let running = self.node.jobs_running();
        metrics.running.set(running as u64);
        // The first short request begins right after this turn.
        let short = self.short.waiting.len().saturating_sub(usize::from(self.short.running.is_none()));
        // A function waits only while others run.
        let waiting = if running == 0 { 0 } else { self.node.functions_waiting() };
        metrics.waiting.set((waiting + short) as u64);
    }

    /// Closes idle links, since descriptors are short.
    #[cold]
    fn make_room(&mut self) {
        let now = self.clock.time();
        let involved = self.connections.may_find_room(now).then(|| self.node.involved());
        self.connections.make_room(now, involved.as_ref());
        self.deliver_arrivals();
    }

    /// Whether epoll has reported an event other than the alarm.
    pub(super) fn has_events(&self) -> bool {
        match &self.polling.events {
            Some(events) => events.iter().any(|event| event.token() != ALARM),
            None => false,
        }
    }

    pub(super) fn has_mail(&self) -> bool {
        self.mailbox.may_have_items()
    }

    /// Whether there is work.
    pub(super) fn is_busy(&self) -> bool {
        let functions = self.executor.has_leader_job() || !self.short.waiting.is_empty();
        self.connections.is_busy() || self.has_mail() || !self.calls.started.is_empty() || functions
    }

    /// The next deadline of the chain, the connections, idle memory, or the end of the node.
    #[inline(always)]
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let state = match self.state {
            LoopState::Finishing(at) | LoopState::Draining(at) => Some(at),
            LoopState::Running | LoopState::Ended => None,
        };
        let memory = match unlikely(self.holds_memory()) {
            true => Some(self.memory_until()),
            false => None,
        };
        sooner(sooner(self.node.next_deadline(), memory), sooner(self.connections.next_deadline(), state))
    }

    /// Returns whether a deadline has passed. If not, sets the alarm for the next deadline, at the latest after
    /// [`SLEEP_MAX`].
    #[inline(always)]
    pub(super) fn set_alarm_unless_due(&mut self) -> io::Result<bool> {
        let deadline = self.next_deadline();
        if likely(self.alarm.expires_by(deadline)) {
            Ok(false)
        } else {
            self.reset_alarm_unless_due(deadline)
        }
    }

    #[cold]
    fn reset_alarm_unless_due(&mut self, deadline: Option<Time>) -> io::Result<bool> {
        let now = self.clock.time();
        // The alarm could expire only in the next turn of the driver.
        self.turn.is_due = deadline.is_some_and(|at| at <= now);
        if self.turn.is_due {
            return Ok(true);
        }
        let latest = now.plus(SLEEP_MAX);
        self.alarm.set(now, deadline.map_or(latest, |at| at.min(latest)))?;
        Ok(false)
    }

    /// Handles expired deadlines.
    #[cold]
    fn check_deadlines(&mut self) {
        self.turn.done += 1;
        // The time of the turn may precede the poll that reported the alarm.
        let now = self.clock.now();
        self.connections.check_deadlines(now);
        self.deliver_arrivals();
        if self.node.next_deadline().is_some_and(|at| at <= now) {
            self.apply(Input::Tick);
        }
    }

    #[inline(always)]
    fn serve_links(&mut self) {
        if unlikely(self.turn.budget != UNBOUNDED) {
            self.begin_bounded();
        }
        let Some(events) = self.polling.events.take() else { return };
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
            self.deliver_arrivals();
        }
        self.polling.events = Some(events);
        if unlikely(self.connections.has_rings()) {
            self.read_rings();
        }
        if unlikely(!self.connections.unread.is_empty()) {
            self.read_more();
        }
        self.deliver_arrivals();
    }

    /// Handles events of the listener, the control link, the alarm and the waker.
    #[cold]
    fn serve_other(&mut self, event: &Event) {
        match event.token() {
            LISTENER => self.connections.accept(self.clock.time()),
            CONTROL_LINK if event.is_read_closed() || event.is_error() => self.state = LoopState::Ended,
            ALARM => {
                self.alarm.note_expired();
                self.turn.is_due = true;
            }
            _ => {}
        }
    }

    /// Reads the rings that have bytes, and continues to write to rings that have room.
    fn read_rings(&mut self) {
        // Terminates: reading one link adds no other to the polled rings. A ring that moves to an index that was
        // already checked is read in the next turn.
        for place in 0.. {
            match self.connections.poll_ring(place) {
                None => return,
                Some((_, false)) => {}
                Some((key, true)) => {
                    self.read_link(key, false);
                    self.deliver_arrivals();
                }
            }
        }
    }

    /// Delivers the queued arrivals of links to the chain. A call on the fast path causes none.
    #[inline]
    pub(super) fn deliver_arrivals(&mut self) {
        if unlikely(!self.connections.links.arrivals.is_empty()) {
            self.deliver_all_arrivals();
        }
    }

    #[inline(never)]
    fn deliver_all_arrivals(&mut self) {
        // Terminates: an arrival causes a finite number of others, and no link is read meanwhile.
        while let Some(arrival) = self.connections.links.arrivals.pop_front() {
            self.turn.done += 1;
            let input = match arrival {
                Arrival::Input(input) => input,
                Arrival::Lost(LostLink { unsent: Some(unsent), peer, .. })
                    if self.can_resend(peer, &unsent) =>
                {
                    self.connections.resend(self.clock.time(), peer, unsent);
                    continue;
                }
                Arrival::Lost(LostLink { peer, kind, why, unreached, .. }) => {
                    let unreached = self.connections.links.drop_pending(peer) && unreached;
                    self.calls.reasons.note(peer, &why);
                    Input::LinkLost { peer, kind, why, unreached }
                }
            };
            self.apply(input);
        }
    }

    /// Whether a lost link was used only for requests of which no byte has left. The next link sends them, and no call
    /// fails.
    #[cold]
    fn can_resend(&self, peer: Id, unsent: &UnsentRequests) -> bool {
        self.connections.links.may_open(peer)
            && self.node.is_involved_only_in(peer, &self.connections.links.unsent_calls(peer, unsent))
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

    /// Cold path, kept out of line.
    #[inline(never)]
    fn open_mail(&mut self) {
        if unlikely(self.connections.accepting.host.is_some()) {
            self.serve_host();
        }
        for _ in 0..self.share() {
            let Ok(input) = self.slots.results.try_recv() else { break };
            self.turn.done += 1;
            self.executor.handle_result(&input);
            match input {
                Input::Follow { ticket } => self.follow(ticket),
                Input::GiveUp { ticket } => self.give_up(ticket),
                input => self.apply(input),
            }
        }
        // Commands about calls that are still to be started follow their start.
        if self.calls.started.is_empty() {
            for _ in 0..self.share() {
                let Ok(command) = self.slots.commands.try_recv() else { break };
                self.turn.done += 1;
                self.command(command);
            }
            self.mailbox.wake_waiting_tasks();
        }
        if !self.slots.results.is_empty() || !self.slots.commands.is_empty() {
            self.mailbox.keep();
        }
    }

    /// Handles the events of links over the network of the program.
    #[inline(never)]
    fn serve_host(&mut self) {
        let Some(host) = self.connections.accepting.host.clone() else { return };
        host.send_ends();
        self.connections.accept_from_host(self.clock.time());
        for ConnectionEvent { token, readable, writable, ended } in host.take_events() {
            let key = LinkKey(token);
            let readiness = Readiness { readable, writable, closed: ended };
            if self.connections.ready(&self.clock, key, readiness) {
                self.read_link(key, ended);
            }
            self.deliver_arrivals();
        }
    }

    fn command(&mut self, command: Command) {
        if !matches!(command, Command::Start { .. }) {
            // The command may concern one of the calls that are still to be started.
            self.process_waiting_starts();
        }
        match command {
            Command::Start { completion, .. } if self.state != LoopState::Running => {
                completion.complete(None)
            }
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
                // The receiver may be gone.
                let _ = answer.send(needs);
            }
            // The dropped sender reports the end of the node.
            Command::OpenLinks { .. } if self.state != LoopState::Running => {}
            Command::OpenLinks { ids, answer } => {
                // The receiver may be gone.
                let _ = answer.send(self.open_links(&ids));
            }
            Command::Learn(_) | Command::LearnAll(_) | Command::Forget(_)
                if self.state != LoopState::Running => {}
            Command::Learn(peer) => {
                self.connections.learn(self.clock.time(), *peer);
                // The chain processes lost links before it sends new messages to the peer.
                self.deliver_arrivals();
            }
            Command::LearnAll(peers) => {
                let now = self.clock.time();
                peers.into_iter().for_each(|peer| self.connections.learn(now, peer));
                self.deliver_arrivals();
            }
            Command::Forget(id) => {
                self.connections.forget(self.clock.time(), id);
                self.calls.reasons.0.remove(&id);
                self.deliver_arrivals();
            }
            Command::Change { change, answer } => self.change(*change, answer),
            // The receiver may be gone.
            Command::Members { answer } => drop(answer.send(self.connections.members())),
            Command::Recorder { answer } => (answer.0)(self.recording()),
            // The receiver may be gone.
            Command::Progress { ticket, answer } => drop(answer.send(self.progress(ticket))),
            // The receiver may be gone.
            #[cfg(feature = "snapshot")]
            Command::Snapshot { answer } => drop(answer.send(self.snapshot())),
            Command::Listen(listener) => self.connections.listen(listener),
            Command::Shutdown { limit } => {
                if self.state == LoopState::Running {
                    self.node.close();
                    self.state = LoopState::Finishing(self.clock.time().plus(limit));
                }
            }
        }
    }

    /// Delivers the replies of a call to its caller as they arrive.
    #[cold]
    fn follow(&mut self, ticket: u64) {
        self.process_waiting_starts();
        if self.node.has_started(ticket) {
            self.apply(Input::Follow { ticket });
        } else if self.calls.completions.get(ticket).is_some() {
            self.calls.to_follow.push(ticket);
        }
    }

    /// Follows the calls that the chain did not know when their callers asked to follow them.
    #[cold]
    pub(super) fn follow_started(&mut self) {
        for ticket in std::mem::take(&mut self.calls.to_follow) {
            self.follow(ticket);
        }
    }

    /// Passes one input to the chain, carries out its outputs, and continues with the inputs that follow. First it ends
    /// the timing of the last function on the fast path, which must exclude the next function.
    pub(super) fn apply(&mut self, input: Input) {
        self.node.times_last(|| self.clock.reading());
        self.node.input(self.clock.time(), input, &mut self.outputs);
        self.settle();
    }

    /// Carries out the outputs of the chain, and continues with the inputs that follow.
    #[inline]
    pub(super) fn settle(&mut self) {
        if unlikely(!self.outputs.is_empty() | !self.inputs.is_empty()) {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        // Terminates: each input advances a call, and a call has a finite number of steps.
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
                    self.connections.links.end_request(to, *call);
                }
                self.connections.send(self.clock.time(), to, message);
            }
            Output::Run(job) => {
                if let Some(ran) = self.executor.run(job) {
                    // The function ran on this thread for an unknown time.
                    self.clock.invalidate();
                    self.inputs.push_back(ran);
                }
            }
            Output::Stopped(call) => self.executor.stop(call),
            Output::Consumed { from } => self.connections.links.consume_request(from),
            Output::Abandon { peer } => self.connections.abandon(self.clock.time(), peer),
            Output::ChildReply { ticket, group, reply, report } => {
                if let Some(completion) = self.calls.completions.get(ticket) {
                    completion.child_answered(SubtreeAnswer { group, reply, report });
                }
            }
            Output::Finished { ticket, call, result, report } => {
                self.finish(ticket, call, result.map(|reply| reply.map(RootReply::Aggregated)), report);
            }
        }
    }

    /// Completes a call that was started here.
    pub(super) fn finish(
        &mut self,
        ticket: u64,
        call: CallId,
        result: Result<Option<RootReply>, Box<Failure>>,
        report: Option<Box<Report>>,
    ) {
        debug!(%call, done = result.is_ok(), "call ended");
        if let Some(completion) = self.calls.completions.remove(ticket) {
            completion.complete(Some(result.map(|reply| Success { reply, report })));
        }
    }

    /// Whether no call is in flight or queued.
    fn is_idle(&self) -> bool {
        self.node.calls() == 0 && self.short.waiting.is_empty()
    }

    /// Advances the end of the node.
    #[cold]
    fn end_if_due(&mut self) {
        let now = self.clock.time();
        if let LoopState::Finishing(until) = self.state
            && (until <= now || (self.is_idle() && self.connections.is_drained()))
        {
            self.connections.links.send_goodbyes("the node was shut down");
            self.connections.flush(&self.clock);
            self.state = LoopState::Draining(now.plus(DRAIN_LIMIT));
        }
        if let LoopState::Draining(until) = self.state
            && (until <= now || self.connections.is_drained())
        {
            self.state = LoopState::Ended;
        }
    }
}

impl Drop for EventLoop {
    /// Completes all waiting calls: the node has ended.
    fn drop(&mut self) {
        self.mailbox.close();
        self.node.turn_ends(|| self.clock.reading());
        self.connections.accepting.host.iter().for_each(|host| host.end());
        for completion in std::mem::take(&mut self.calls.completions).into_entries() {
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
