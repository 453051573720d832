//! The event loop: one thread that owns the chain's state and the links.
//!
//! A turn takes in what has happened (connections, bytes, results of functions, commands of the application, time), gives each to the chain as one input,
//! carries out every output, and writes what was queued on each link in one gather write.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use tracing::debug;

use super::clock::Clock;
use super::command::Command;
use super::completion::{Completion, Success};
use super::executor::Executor;
use super::functions::Functions;
use super::links::{Arrival, LISTENER, Links};
use super::mailbox::{Mailbox, Slots};
use super::peer::LinkKey;
use super::quick_hash::QuickHash;
use super::reading::Readiness;
use super::wait::{Wait, Waiting};
use crate::chain::{Input, Node, Output, Outputs, RootReply, Time, sooner};
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Failure, Message, Report};

/// The token of the waker.
pub(super) const WAKER: Token = Token(0);

/// The token of the link whose end is the node's end: behind the waker's and the listener's, before those of links.
const KEEPER: Token = Token(2);

/// Events taken from the system in one turn.
pub(super) const EVENTS: usize = 1024;

/// Commands and results taken in one turn, before the links get theirs.
const MAIL_BUDGET: usize = 1024;

/// Calls for each child, from which on a write and a waking cost less than children that have nothing to do. With 64 in flight two processes take three quarters of the
/// time for it; where there are many children, who keep the cores busy as it is, it would only cost.
const CALLS_PER_CHILD: usize = 16;

/// Longest sleep: a turn now and then costs nothing, and bounds what a lost wake-up could cost.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// How long the memory of long data, and of many replies, is kept for the next ones: longer than most callers take between two calls.
const SPARE_LIMIT: Duration = Duration::from_secs(1);

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
    pub(super) node: Node,
    pub(super) links: Links,
    pub(super) functions: Functions,
    pub(super) executor: Executor,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slots: Slots,
    /// What the system has said; taken out while it is carried out.
    pub(super) events: Option<Events>,
    pub(super) waiting: Waiting,
    /// When this turn began: what it does, it does at that time.
    pub(super) now: Time,
    /// When the system was last asked for events by one who looks at rings too.
    pub(super) asked: Time,
    /// How long after that it is to be asked again.
    pub(super) ask_every: Duration,
    /// The last short answer that came in this turn was not its call's last.
    pub(super) awaits_more: bool,
    /// Whether the last turn began with something to do: then more may come soon.
    pub(super) active: bool,
    /// When the system last had something to say.
    busy_until: Time,
    /// Inputs that carrying out outputs has brought about.
    inputs: VecDeque<Input>,
    /// What the chain asks for; empty between its inputs.
    pub(super) outputs: Outputs,
    /// Room for the ids of a call that starts.
    pub(super) ids_room: Vec<u8>,
    /// How many children the last call went to that was started on the spot.
    pub(super) children: usize,
    /// Calls to start that did not come by mail.
    started: VecDeque<Command>,
    calls: HashMap<u64, Arc<Completion>, QuickHash>,
    ending: Ending,
    /// The node ends when the other end of this is closed. Nothing is read from it.
    keeper: Option<UnixStream>,
}

/// The parts of an event loop, as the builder makes them.
pub(super) struct Parts {
    pub(super) poll: Poll,
    pub(super) node: Node,
    pub(super) links: Links,
    pub(super) functions: Functions,
    pub(super) executor: Executor,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slots: Slots,
    pub(super) wait: Wait,
}

impl EventLoop {
    pub(super) fn new(parts: Parts) -> EventLoop {
        let Parts { poll, node, links, functions, executor, mailbox, slots, wait } = parts;
        EventLoop {
            poll,
            clock: Clock::new(),
            node,
            links,
            functions,
            executor,
            mailbox,
            slots,
            events: Some(Events::with_capacity(EVENTS)),
            waiting: Waiting::new(wait),
            now: Time::default(),
            asked: Time::default(),
            ask_every: Duration::ZERO,
            awaits_more: false,
            active: false,
            busy_until: Time::default(),
            inputs: VecDeque::new(),
            outputs: Outputs::new(),
            ids_room: Vec::new(),
            children: 0,
            started: VecDeque::new(),
            calls: HashMap::default(),
            ending: Ending::No,
            keeper: None,
        }
    }

    /// Ends the node, without a word to anybody, when the other end of this link is closed.
    pub(super) fn end_with(&mut self, keeper: std::os::unix::net::UnixStream) -> io::Result<()> {
        let mut keeper = UnixStream::from_std(keeper);
        self.poll.registry().register(&mut keeper, KEEPER, Interest::READABLE)?;
        self.keeper = Some(keeper);
        Ok(())
    }

    /// Turns until the node has ended.
    pub(super) fn run(&mut self) -> io::Result<()> {
        self.now = self.clock.now();
        while self.ending != Ending::Ended {
            self.turn(SLEEP_MAX)?;
        }
        Ok(())
    }

    /// Whether so many calls wait to leave that the children had better have them now, though the caller finds that a call has ended: who keeps many
    /// in flight and takes their outcomes one by one would else let the children wait until all are taken, and they him after that.
    pub(super) fn is_worth_a_turn(&self, waiting: usize) -> bool {
        self.children > 0 && waiting >= CALLS_PER_CHILD * self.children && waiting >= self.calls.len()
    }

    /// Takes calls that whoever drives the loop has started.
    pub(super) fn take_started(&mut self, started: &mut VecDeque<Command>) {
        match self.started.is_empty() {
            true => std::mem::swap(&mut self.started, started),
            false => self.started.append(started),
        }
    }

    /// Calls that are still to be started of those that [were](Self::take_started).
    pub(super) fn starting(&self) -> usize {
        self.started.len()
    }

    /// What time it is.
    pub(super) fn ask_time(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ending == Ending::Ended
    }

    /// One turn, however long ago the last one was; sleeps at most `limit` when nothing is there to do.
    pub(super) fn turn(&mut self, limit: Duration) -> io::Result<()> {
        self.wait(limit)?;
        let now = self.now;
        self.awaits_more = false;
        self.serve_links(now);
        self.serve_mail(now);
        self.links.check_deadlines(now);
        self.take_in(now);
        if self.node.next_deadline().is_some_and(|at| at <= now) {
            self.apply(now, Input::Tick);
        }
        self.links.flush();
        self.take_in(now);
        if self.ending != Ending::No {
            self.end_if_due(now);
        }
        self.release_memory(now);
        Ok(())
    }

    /// Whether there is memory that an idle node gives back.
    fn holds_memory(&self) -> bool {
        self.links.spare.is_held() || self.node.holds_room()
    }

    /// Gives the memory of the last long data back, and of many replies, when nothing has come for a while.
    fn release_memory(&mut self, now: Time) {
        // Whoever drives a node without a pause looks for things that do not come.
        if std::mem::take(&mut self.links.has_read) || self.has_events() {
            self.busy_until = now;
        } else if self.holds_memory() && now.since(self.busy_until) >= SPARE_LIMIT {
            self.links.spare.release();
            self.node.release_room();
        }
    }

    pub(super) fn has_events(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_empty())
    }

    pub(super) fn has_mail(&self) -> bool {
        self.mailbox.has_come()
    }

    /// Whether there is something to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.links.is_busy() || self.has_mail() || !self.started.is_empty()
    }

    /// When something is to be done though nothing comes.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let ending = match self.ending {
            Ending::Finishing(at) | Ending::Draining(at) => Some(at),
            Ending::No | Ending::Ended => None,
        };
        sooner(self.node.next_deadline(), sooner(self.links.next_deadline(), ending))
    }

    /// How long there is nothing to do, with this deadline, if nothing comes.
    pub(super) fn rest(&self, deadline: Option<Time>, limit: Duration) -> Duration {
        let limit = if self.holds_memory() { limit.min(SPARE_LIMIT) } else { limit };
        let Some(next) = deadline else { return limit };
        let left = next.since(self.now);
        // The system counts milliseconds and may round down: a little later is in time, a little earlier is a turn for nothing.
        left.checked_add(Duration::from_micros(999)).unwrap_or(left).min(limit)
    }

    fn serve_links(&mut self, now: Time) {
        let Some(events) = self.events.take() else { return };
        for event in &events {
            match event.token() {
                WAKER => {}
                LISTENER => self.links.accept(now),
                KEEPER => {
                    if event.is_read_closed() || event.is_error() {
                        self.ending = Ending::Ended;
                    }
                }
                Token(key) => {
                    let (key, readiness) = (LinkKey(key), Readiness::from(event));
                    if self.links.ready(key, readiness) {
                        self.read_link(now, key, readiness.closed);
                    }
                    self.take_in(now);
                }
            }
        }
        self.events = Some(events);
        self.read_rings(now);
        // What had more than one turn allows.
        for key in std::mem::take(&mut self.links.unread) {
            self.read_link(now, key, true);
        }
        self.take_in(now);
    }

    /// Reads from the rings in which something has come, and goes on writing where room was made.
    fn read_rings(&mut self, now: Time) {
        // Bounded: reading a link watches no other. What moves to a place that was looked at before is found in the next turn.
        for place in 0.. {
            match self.links.look_at_ring(place) {
                None => return,
                Some((_, false)) => {}
                Some((key, true)) => {
                    self.read_link(now, key, false);
                }
            }
        }
    }

    /// Gives the chain what has come in on the links.
    pub(super) fn take_in(&mut self, now: Time) {
        // Ends: what an arrival brings about is finite, and nothing is read meanwhile.
        while let Some(arrival) = self.links.arrivals.pop_front() {
            let input = match arrival {
                Arrival::Message { from, message } => Input::Message { from, message },
                Arrival::DataArrived(call) => Input::DataArrived(call),
                Arrival::ReplyArrived { from, call } => Input::ReplyArrived { from, call },
                Arrival::Heard(peer) => Input::Heard(peer),
                Arrival::Lost { peer, why, unreached } => {
                    let unreached = self.links.forget_since(peer) && unreached;
                    Input::LinkLost { peer, why, unreached }
                }
            };
            self.apply(now, input);
        }
    }

    fn serve_mail(&mut self, now: Time) {
        for _ in 0..MAIL_BUDGET {
            let Some(command) = self.started.pop_front() else { break };
            self.command(now, command);
        }
        if self.mailbox.open() {
            self.open_mail(now);
        }
    }

    /// Beside the way that most turns take, as are others of this file: where many processes share a core, each line of code that lies between two that run costs.
    #[inline(never)]
    fn open_mail(&mut self, now: Time) {
        for _ in 0..MAIL_BUDGET {
            let Ok(input) = self.slots.results.try_recv() else { break };
            self.apply(now, input);
        }
        // What is asked of calls that are still to be started comes behind them.
        if self.started.is_empty() {
            for _ in 0..MAIL_BUDGET {
                let Ok(command) = self.slots.commands.try_recv() else { break };
                self.command(now, command);
            }
        }
        if !self.slots.results.is_empty() || !self.slots.commands.is_empty() {
            self.mailbox.keep();
        }
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Start { completion, .. } if self.ending != Ending::No => completion.complete(None),
            Command::Start { ticket, start, completion } => {
                self.calls.insert(ticket, completion);
                self.start(now, ticket, start);
            }
            Command::GiveUp { ticket } => self.apply(now, Input::GiveUp { ticket }),
            Command::Shutdown { limit } => {
                if self.ending == Ending::No {
                    self.node.close();
                    self.ending = Ending::Finishing(now.plus(limit));
                }
            }
        }
    }

    /// Gives the chain one input, carries out all its outputs, and goes on with what these bring about.
    pub(super) fn apply(&mut self, now: Time, input: Input) {
        self.node.input(now, input, &mut self.outputs);
        self.settle(now);
    }

    /// Carries out what the chain asks for, and goes on with what that brings about.
    pub(super) fn settle(&mut self, now: Time) {
        // Ends: every input brings a call on, and a call has finitely many steps.
        loop {
            while let Some(output) = self.outputs.pop_front() {
                self.carry_out(now, output);
            }
            let Some(input) = self.inputs.pop_front() else { return };
            self.node.input(now, input, &mut self.outputs);
        }
    }

    fn carry_out(&mut self, now: Time, output: Output) {
        match output {
            Output::Send { to, message } => {
                if let Message::Response(Response { call, answer: Answer::Failed(_) | Answer::Partial(_) }) =
                    &message
                {
                    self.links.request_ended(to, *call);
                }
                self.links.send(now, to, message);
            }
            Output::Run(job) => {
                if let Some(ran) = self.executor.run(job) {
                    self.inputs.push_back(ran);
                }
            }
            Output::Consumed { from } => self.links.consumed(from),
            Output::Abandon { peer } => self.links.abandon(peer),
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
        if let Some(completion) = self.calls.remove(&ticket) {
            completion.complete(Some(result.map(|reply| Success { reply, report })));
        }
    }

    /// Moves the end of the node on.
    #[cold]
    fn end_if_due(&mut self, now: Time) {
        if let Ending::Finishing(until) = self.ending
            && (until <= now || (self.node.calls() == 0 && self.links.is_drained()))
        {
            self.links.goodbye("the node was shut down");
            self.links.flush();
            self.ending = Ending::Draining(now.plus(DRAIN_LIMIT));
        }
        if let Ending::Draining(until) = self.ending
            && (until <= now || self.links.is_drained())
        {
            self.ending = Ending::Ended;
        }
    }
}

impl Drop for EventLoop {
    /// Whoever still waits is told that the node has ended.
    fn drop(&mut self) {
        self.mailbox.close();
        for completion in std::mem::take(&mut self.calls).into_values() {
            completion.complete(None);
        }
        for command in self.started.drain(..).chain(self.slots.commands.try_iter()) {
            if let Command::Start { completion, .. } = command {
                completion.complete(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Call, CallHandle, LinkKind, Listener, Node, Peers, PolledNode};

    fn pair(functions: &Functions, link: LinkKind) -> [PolledNode; 2] {
        let listeners = [0, 1].map(|id| Listener::bind(&link.fresh_address(id)).unwrap());
        let addresses = listeners.iter().map(|listener| listener.address().unwrap());
        let peers: Peers = (0..).zip(addresses).collect();
        let mut ids = 0..;
        listeners.map(|listener| {
            let builder = Node::builder(ids.next().unwrap()).functions(functions).peers(peers.clone());
            builder.listener(listener).link(link).polled().unwrap()
        })
    }

    fn drive(nodes: &mut [PolledNode], handle: &mut CallHandle) -> bool {
        // More turns than any call takes, fewer than a hang.
        (0..1_000_000).any(|_| {
            nodes.iter_mut().for_each(|node| node.progress(Duration::ZERO).unwrap());
            handle.test().is_some()
        })
    }

    /// While both sides look, nothing but memory passes between them: the calls go through though the system is never asked what has come.
    #[test]
    fn a_hop_through_rings_needs_no_call_of_the_system_while_both_look() {
        let functions = Functions::new();
        let func = functions.inline_func("nothing", |_, _| Ok(())).unwrap();
        let mut nodes = pair(&functions, LinkKind::Shm);
        let call = |nodes: &mut [PolledNode; 2], data| {
            let mut handle = nodes[0].call(Call::new(func).ids(0..2).data(vec![1; data])).unwrap();
            assert!(drive(nodes, &mut handle), "the call hangs");
        };
        call(&mut nodes, 0);
        for node in &mut nodes {
            assert!(node.event_loop().links.has_rings());
            node.event_loop_mut().asked = Time::from_nanos(u64::MAX);
        }
        for data in [0, 64, 3 << 20] {
            call(&mut nodes, data);
        }
    }

    /// Of a node that got long data once, 64 MiB would never come back.
    #[test]
    fn memory_for_long_data_is_given_back_when_nothing_comes() {
        let functions = Functions::new();
        let func = functions.func("nothing", |_, _| Ok(())).unwrap();
        let mut nodes = pair(&functions, LinkKind::Unix);
        let mut handle = nodes[0].call(Call::new(func).ids(0..2).data(vec![1; 5 << 20])).unwrap();
        assert!(drive(&mut nodes, &mut handle), "the call hangs");
        let node = nodes[1].event_loop_mut();
        assert!(node.links.spare.is_held(), "the next call is to use it");
        assert!(node.rest(None, SLEEP_MAX) <= SPARE_LIMIT, "somebody must look when it is time");
        node.events = None;
        let soon = node.busy_until.plus(SPARE_LIMIT / 2);
        node.release_memory(soon);
        assert!(node.links.spare.is_held());
        let late = node.busy_until.plus(SPARE_LIMIT);
        node.release_memory(late);
        assert!(!node.links.spare.is_held());
    }

    /// A node with nothing to do must sleep, not turn: thousands of them share a machine with the work.
    #[test]
    fn an_idle_node_sleeps_as_long_as_it_may() {
        let functions = Functions::new();
        let func = functions.func("nothing", |_, _| Ok(())).unwrap();
        for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
            let mut nodes = pair(&functions, link);
            for data in [0, 3 << 20] {
                let call = Call::new(func).ids(0..2).data(vec![1; data]);
                let mut handle = nodes[0].call(call).unwrap();
                assert!(drive(&mut nodes, &mut handle), "the call hangs");
            }
            for node in &mut nodes {
                let sleeps = |node: &PolledNode| {
                    let node = node.event_loop();
                    !node.is_busy() && node.rest(node.next_deadline(), SLEEP_MAX) == SLEEP_MAX
                };
                let settled = (0..1000).any(|_| {
                    let idle = sleeps(node);
                    node.progress(Duration::ZERO).unwrap();
                    idle && sleeps(node)
                });
                assert!(settled, "{node:?} is never idle over {link:?}");
            }
        }
    }
}
