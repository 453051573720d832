//! The event loop: one thread that owns the chain's state and the links.
//!
//! A turn takes in what has happened (connections, bytes, results of functions, commands of the application, time), gives each to the chain as one input,
//! carries out every output, and writes what was queued on each link in one gather write.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::{Id, Tree};
use mio::{Events, Poll, Token};
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
use super::reading::{Readiness, Surroundings};
use super::wait::{Look, Wait, Waiting};
use crate::chain::{Input, Node, Output, Outputs, Time};
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Message};

/// The token of the waker.
pub(super) const WAKER: Token = Token(0);

/// Events taken from the system in one turn.
pub(super) const EVENTS: usize = 1024;

/// Commands and results taken in one turn, before the links get theirs.
const MAIL_BUDGET: usize = 1024;

/// Longest sleep: a turn now and then costs nothing, and bounds what a lost wake-up could cost.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// How long the memory of long data is kept for the next ones: longer than most callers take between two calls.
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
    events: Events,
    waiting: Waiting,
    /// Whether the last turn began with something to do: then more may come soon.
    active: bool,
    /// When the system last had something to say.
    busy_until: Time,
    /// Room for what comes in on the links; empty between turns.
    arrivals: Vec<Arrival>,
    /// Inputs that carrying out outputs has brought about.
    inputs: VecDeque<Input>,
    /// What the chain asks for; empty between its inputs.
    outputs: Outputs,
    calls: HashMap<u64, Arc<Completion>, QuickHash>,
    ending: Ending,
}

/// What the links need to know of the rest, while they are borrowed.
struct NodeSurroundings<'a> {
    node: &'a Node,
    functions: &'a Functions,
}

impl Surroundings for NodeSurroundings<'_> {
    fn tree(&self, id: u32) -> Option<Tree> {
        self.functions.tree_by_id(id)
    }

    fn awaits(&self, child: Id, call: CallId) -> bool {
        self.node.awaits(child, call)
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }

    fn streams(&self, func: u32) -> bool {
        self.functions.streams(func)
    }
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
            events: Events::with_capacity(EVENTS),
            waiting: Waiting::new(wait),
            active: false,
            busy_until: Time::default(),
            arrivals: Vec::new(),
            inputs: VecDeque::new(),
            outputs: Outputs::new(),
            calls: HashMap::default(),
            ending: Ending::No,
        }
    }

    /// Turns until the node has ended.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while self.ending != Ending::Ended {
            self.turn(SLEEP_MAX)?;
        }
        Ok(())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ending == Ending::Ended
    }

    /// One turn; sleeps at most `limit` when nothing is there to do.
    pub(super) fn turn(&mut self, limit: Duration) -> io::Result<()> {
        self.wait(self.sleep(limit))?;
        let now = self.clock.now();
        self.serve_links(now);
        self.serve_mail(now);
        self.links.check_deadlines(now);
        self.take_in(now);
        if self.node.next_deadline().is_some_and(|at| at <= now) {
            self.apply(now, Input::Tick);
        }
        self.links.flush();
        self.take_in(now);
        self.end_if_due(now);
        self.release_memory(now);
        Ok(())
    }

    /// Gives the memory of the last long data back when nothing has come for a while.
    fn release_memory(&mut self, now: Time) {
        // Whoever drives a node without a pause looks for things that do not come.
        if !self.events.is_empty() {
            self.busy_until = now;
        } else if self.links.spare.is_held() && now.since(self.busy_until) >= SPARE_LIMIT {
            self.links.spare.release();
        }
    }

    /// Waits until something comes, at most so long: looks for it a while if that pays, then sleeps.
    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        if limit.is_zero() {
            self.active = true;
            return self.look(limit);
        }
        let begun = self.clock.now();
        if self.active && self.waiting.looks() && self.look_for_a_while(begun, limit)? {
            return Ok(());
        }
        self.mailbox.sleeping();
        // What came just before sees no sleeper to wake.
        let limit = if self.has_mail() { Duration::ZERO } else { limit };
        let slept = self.look(limit);
        self.mailbox.awake();
        self.active = self.has_come();
        if self.active {
            self.waiting.woken(self.clock.now().since(begun));
        }
        slept
    }

    /// Looks without sleeping; says whether something came.
    fn look_for_a_while(&mut self, begun: Time, limit: Duration) -> io::Result<bool> {
        // Ends: the time passes.
        loop {
            self.look(Duration::ZERO)?;
            if self.has_come() {
                self.waiting.found();
                return Ok(true);
            }
            let all = self.clock.now().since(begun);
            match self.waiting.found_nothing(all) {
                _ if all >= limit => return Ok(false),
                Look::Enough => return Ok(false),
                Look::Again => std::hint::spin_loop(),
                Look::AgainAfterOthers => std::thread::yield_now(),
            }
        }
    }

    /// Asks the system what has happened, and waits at most so long for something.
    fn look(&mut self, limit: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(limit)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            done => done,
        }
    }

    fn has_come(&self) -> bool {
        !self.events.is_empty() || self.has_mail()
    }

    fn has_mail(&self) -> bool {
        !self.slots.commands.is_empty() || !self.slots.results.is_empty()
    }

    /// How long there is nothing to do.
    fn sleep(&self, limit: Duration) -> Duration {
        if self.links.is_busy() || self.has_mail() {
            return Duration::ZERO;
        }
        let ending = match self.ending {
            Ending::Finishing(at) | Ending::Draining(at) => Some(at),
            Ending::No | Ending::Ended => None,
        };
        let limit = if self.links.spare.is_held() { limit.min(SPARE_LIMIT) } else { limit };
        let deadlines = [self.node.next_deadline(), self.links.next_deadline(), ending];
        let Some(next) = deadlines.into_iter().flatten().min() else { return limit };
        let left = next.since(self.clock.now());
        // The system counts milliseconds and may round down: a little later is in time, a little earlier is a turn for nothing.
        left.checked_add(Duration::from_micros(999)).unwrap_or(left).min(limit)
    }

    fn serve_links(&mut self, now: Time) {
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            match event.token() {
                WAKER => {}
                LISTENER => self.links.accept(now),
                Token(key) => {
                    let around = NodeSurroundings { node: &self.node, functions: &self.functions };
                    self.links.ready(now, LinkKey(key), Readiness::from(event), &around);
                    self.take_in(now);
                }
            }
        }
        self.events = events;
        let around = NodeSurroundings { node: &self.node, functions: &self.functions };
        self.links.read_rest(now, &around);
        self.take_in(now);
    }

    /// Gives the chain what has come in on the links.
    fn take_in(&mut self, now: Time) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.links.swap_arrivals(&mut arrivals);
        for arrival in arrivals.drain(..) {
            let input = match arrival {
                Arrival::Message { from, message } => Input::Message { from, message },
                Arrival::DataArrived(call) => Input::DataArrived(call),
                Arrival::Heard(peer) => Input::Heard(peer),
                Arrival::Lost { peer, why, unreached } => {
                    let unreached = self.links.forget_since(peer) && unreached;
                    Input::LinkLost { peer, why, unreached }
                }
            };
            self.apply(now, input);
        }
        self.arrivals = arrivals;
    }

    fn serve_mail(&mut self, now: Time) {
        for _ in 0..MAIL_BUDGET {
            let Ok(input) = self.slots.results.try_recv() else { break };
            self.apply(now, input);
        }
        for _ in 0..MAIL_BUDGET {
            let Ok(command) = self.slots.commands.try_recv() else { break };
            self.command(now, command);
        }
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Start { completion, .. } if self.ending != Ending::No => completion.complete(None),
            Command::Start { ticket, start, completion } => {
                self.calls.insert(ticket, completion);
                self.apply(now, Input::Start { ticket, start: *start });
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
    fn apply(&mut self, now: Time, input: Input) {
        let mut next = Some(input);
        // Ends: every input brings a call on, and a call has finitely many steps.
        while let Some(input) = next.take().or_else(|| self.inputs.pop_front()) {
            self.node.input(now, input, &mut self.outputs);
            while let Some(output) = self.outputs.pop_front() {
                self.carry_out(now, output);
            }
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
            Output::Run(job) => self.inputs.extend(self.executor.run(job)),
            Output::Consumed { from } => self.links.consumed(from),
            Output::Abandon { peer } => self.links.abandon(peer),
            Output::Finished { ticket, call, result, report } => {
                debug!(%call, done = result.is_ok(), "call ended");
                if let Some(completion) = self.calls.remove(&ticket) {
                    completion.complete(Some(result.map(|reply| Success { reply, report })));
                }
            }
        }
    }

    /// Moves the end of the node on.
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
        for command in self.slots.commands.try_iter() {
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
            builder.listener(listener).polled().unwrap()
        })
    }

    fn drive(nodes: &mut [PolledNode], handle: &mut CallHandle) -> bool {
        // More turns than any call takes, fewer than a hang.
        (0..1_000_000).any(|_| {
            nodes.iter_mut().for_each(|node| node.progress(Duration::ZERO).unwrap());
            handle.test().is_some()
        })
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
        assert!(node.sleep(SLEEP_MAX) <= SPARE_LIMIT, "somebody must look when it is time");
        node.events = Events::with_capacity(1);
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
        for link in [LinkKind::Tcp, LinkKind::Unix] {
            let mut nodes = pair(&functions, link);
            for data in [0, 3 << 20] {
                let call = Call::new(func).ids(0..2).data(vec![1; data]);
                let mut handle = nodes[0].call(call).unwrap();
                assert!(drive(&mut nodes, &mut handle), "the call hangs");
            }
            for node in &mut nodes {
                let sleeps = |node: &PolledNode| node.event_loop().sleep(SLEEP_MAX) == SLEEP_MAX;
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
