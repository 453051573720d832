//! The surroundings of the chain's nodes: links, running functions and time. It does for the chain what a driver does.
//!
//! A link delivers in order, and loses what is under way when it breaks. Each side learns of the loss by itself, behind
//! the messages that were sent to it before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use chained_gpc::chain::{
    Config, Heartbeat, Input as Happened, Job, JobResult, Node, Output, Outputs, Reply, Start, Time, Work,
};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingReply};
use chained_gpc::wire::{Body, BodyWriter, CallId, CauseKind, Failure, Message, Report, Request, Response};
use gpc_trees::{Id, Limits};

use super::super::input::Input;

/// An item under way from one id to another: a message with the time it was sent, or the loss of the link.
pub(super) enum Parcel {
    Message(Message, u64),
    Lost { unreached: bool },
}

/// The data of a request or a reply that reach the receiver piece by piece.
pub(super) struct Arriving {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) call: CallId,
    pub(super) source: StreamingData,
    /// Of a reply: how its receiver takes it.
    pub(super) reply: Option<ForReply>,
    pub(super) writer: BodyWriter,
    pub(super) read: u64,
}

/// The receiver of a reply whose data are under way.
pub(super) enum ForReply {
    /// The receiver has the head, and forwards the data as they arrive.
    PassedOn,
    /// The receiver gets the reply once it is whole.
    Whole { head: StreamingReply },
}

/// The end of a call.
pub(super) struct Ended {
    pub(super) call: CallId,
    pub(super) result: Result<Option<SubtreeReply>, Failure>,
    pub(super) report: Option<Report>,
}

/// A call that a node was told to start.
pub(super) struct Started {
    pub(super) root: Id,
    pub(super) start: Start,
    pub(super) begun: Time,
    pub(super) ended: Option<Ended>,
    /// Whether the root has died, so that the call has no caller any more.
    pub(super) dead: bool,
}

/// A func that was executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Executed {
    pub(super) call: CallId,
    pub(super) at: Id,
    pub(super) run: u64,
}

/// A deferred answer of a function.
#[derive(Clone, Debug)]
pub(super) struct Later {
    pub(super) at: Id,
    pub(super) call: CallId,
    pub(super) reply: Reply,
    /// Whether the function is a callback.
    pub(super) merges: bool,
}

/// The nodes and everything around them.
pub(super) struct World {
    pub(super) nodes: BTreeMap<Id, Node>,
    pub(super) n: u32,
    config: Config,
    pub(super) now: u64,
    pub(super) links: BTreeMap<(Id, Id), VecDeque<Parcel>>,
    /// Sender and receiver of each link that is lost without the sender knowing it yet.
    broken: BTreeSet<(Id, Id)>,
    pub(super) jobs: Vec<(Id, Job)>,
    /// Answers still due from functions that have deferred them.
    pub(super) deferred: Vec<Later>,
    pub(super) arriving: Vec<Arriving>,
    /// Number of requests delivered and not yet consumed, by receiver and sender.
    pub(super) owed: BTreeMap<(Id, Id), u32>,
    pub(super) calls: Vec<Started>,
    pub(super) executed: Vec<Executed>,
    /// Number of restarts of each id.
    runs: BTreeMap<Id, u64>,
    /// Whether no message was changed or forged.
    pub(super) honest: bool,
    /// Total time for which requests were under way.
    pub(super) under_way: Duration,
}

impl Arriving {
    /// Whether these are the data of the given request, or of the given response.
    fn is(&self, from: Id, to: Id, call: CallId, of_response: bool) -> bool {
        (self.from, self.to, self.call, self.reply.is_some()) == (from, to, call, of_response)
    }
}

/// Maximum number of ticks of a node at one moment. Each tick handles a part of the waiting requests, and ends a
/// thousand calls.
const TICKS_MAX: usize = 10_000;

/// Maximum time that requests may be under way if an id is to know for certain whether an earlier run of it received
/// one of them: the restart margin of a node.
pub(super) const PROMPT: Duration = Duration::from_secs(1);

/// Returns the reply of a function at an id.
pub(super) fn reply(id: Id) -> Reply {
    Reply {
        header: format!("h{id} ").into_bytes(),
        data: format!("{id} ").into_bytes(),
        ..Default::default()
    }
}

impl World {
    pub(super) fn new(input: &mut Input<'_>) -> World {
        let (n, built) = (1 + input.byte() as u32 % 8, input.byte());
        let mut config = Config::new(0, 1000);
        config.workers = 1 + usize::from(built & 3) % 3;
        config.heartbeat = (built & 4 != 0).then(|| Heartbeat::dead_after(Duration::from_secs(1)));
        config.calls_max = if built & 8 != 0 { 2 } else { config.calls_max };
        config.reply_max = if built & 16 != 0 { 24 } else { config.reply_max };
        config.data_max = if built & 32 != 0 { 4 } else { config.data_max };
        // A forged list may be long; these limits bound its cost.
        config.trees = Limits { fan_out: 64, ..config.trees };
        config.adopted_max = 64;
        // Older than any margin, so only a restarted node is young.
        let now = 10_000_000_000;
        let node = |id| (id, Node::new(Config { me: id, ..config.clone() }));
        World {
            nodes: (0..n).map(node).collect(),
            n,
            config,
            now,
            links: BTreeMap::new(),
            broken: BTreeSet::new(),
            jobs: Vec::new(),
            deferred: Vec::new(),
            arriving: Vec::new(),
            owed: BTreeMap::new(),
            calls: Vec::new(),
            executed: Vec::new(),
            runs: BTreeMap::new(),
            honest: true,
            under_way: Duration::ZERO,
        }
    }

    pub(super) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    pub(super) fn run_of(&self, id: Id) -> u64 {
        self.runs.get(&id).copied().unwrap_or_default()
    }

    /// Returns the links that have something to deliver.
    pub(super) fn busy(&self) -> Vec<(Id, Id)> {
        self.links.iter().filter(|(_, queue)| !queue.is_empty()).map(|(link, _)| *link).collect()
    }

    pub(super) fn start(&mut self, root: Id, start: Start) {
        if !self.nodes.contains_key(&root) {
            return;
        }
        let (ticket, begun) = (self.calls.len() as u64, self.time());
        self.calls.push(Started { root, start: start.clone(), begun, ended: None, dead: false });
        self.input(root, Happened::Start { ticket, start: start.into() });
    }

    /// Gives a node one input, and carries out its outputs.
    pub(super) fn input(&mut self, id: Id, happened: Happened) {
        let now = self.time();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut outputs = Outputs::new();
        node.input(now, happened, &mut outputs);
        assert!(node.jobs_running() <= node.config().workers && node.calls() <= node.config().calls_max);
        assert!(node.retained_answers() <= node.config().calls_max);
        outputs.into_iter().for_each(|output| self.carry_out(id, output));
    }

    fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Send { to, message } => {
                assert_ne!(id, to, "a message to oneself");
                self.post(id, to, message);
            }
            Output::Abandon { peer } => self.cut(id, peer, false),
            // A job ends when the input says so, even if its result is no longer wanted.
            Output::Stopped(_) => {}
            Output::Run(job) => {
                let call = job.call;
                let data = job.request.data.bytes().expect("a job has its data");
                let own = |byte: &u8| Id::from(*byte) == id;
                let has_own = job.request.parts.is_none() || data.iter().all(own);
                assert!(!self.honest || has_own, "id {id} has the part of another id: {data:?}");
                assert!(
                    !self.jobs.iter().any(|(at, job)| (*at, job.call) == (id, call)),
                    "two jobs of {call}"
                );
                match job.work {
                    Work::Func => self.executed.push(Executed { call, at: id, run: self.run_of(id) }),
                    Work::More(_) => {}
                    // The func has answered. An answer names only its call, so if this callback defers, a second answer
                    // of the func would count as the callback's.
                    Work::Callback { .. } => {
                        self.deferred.retain(|later| (later.at, later.call) != (id, call))
                    }
                }
                self.jobs.push((id, job));
            }
            Output::Consumed { from } => {
                let owed = self.owed.get_mut(&(id, from)).expect("a request came from it");
                *owed = owed.checked_sub(1).expect("a credit for each request");
            }
            Output::ChildReply { ticket, group, .. } => {
                let started = &self.calls[ticket as usize];
                assert!(started.ended.is_none() && group.len > 0, "a reply of a call that has ended");
                assert!(group.start + group.len <= started.start.ids.len(), "{group:?} is behind the list");
            }
            Output::Finished { ticket, call, result, report } => {
                let started = &mut self.calls[ticket as usize];
                assert!(!started.dead && started.ended.is_none() && started.root == id, "{call} ends twice");
                let (result, report) = (result.map_err(|failure| *failure), report.map(|report| *report));
                started.ended = Some(Ended { call, result, report });
            }
        }
    }

    /// Sends a message if the link is up. If the receiver is dead, the sender learns that it was unreached.
    fn post(&mut self, id: Id, to: Id, message: Message) {
        if self.broken.contains(&(id, to)) {
            return;
        }
        if self.nodes.contains_key(&to) {
            let parcel = Parcel::Message(message, self.now);
            return self.links.entry((id, to)).or_default().push_back(parcel);
        }
        self.links.entry((to, id)).or_default().push_back(Parcel::Lost { unreached: true });
        self.broken.insert((id, to));
    }

    /// Delivers the next item on a link. If `slow`, the data of a request follow piece by piece.
    pub(super) fn deliver(&mut self, (from, to): (Id, Id), slow: bool) {
        match self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
            None => {}
            Some(Parcel::Message(message, sent)) => self.message(from, to, message, sent, slow),
            Some(Parcel::Lost { unreached }) => {
                self.broken.remove(&(to, from));
                self.owed.remove(&(to, from));
                self.input(
                    to,
                    Happened::LinkLost {
                        peer: from,
                        kind: CauseKind::LinkLost,
                        why: "lost".into(),
                        unreached,
                    },
                );
            }
        }
    }

    fn message(&mut self, from: Id, to: Id, message: Message, sent: u64, slow: bool) {
        match message {
            Message::Request(request) => {
                let mut request = Request::clone(&request);
                let call = request.call;
                if self.arriving.iter().any(|body| body.is(from, to, call, false)) {
                    // A second request for a call whose first request is still arriving breaks the protocol.
                    return self.lose(from, to);
                }
                self.under_way += Duration::from_nanos(self.now - sent);
                *self.owed.entry((to, from)).or_default() += 1;
                if slow || request.body().bytes().is_none() {
                    let (body, writer) = Body::arriving(request.body().len());
                    let source = request.body().clone().into();
                    request.set_body(body);
                    if writer.missing() > 0 {
                        let reply = None;
                        self.arriving.push(Arriving { from, to, call, source, reply, writer, read: 0 });
                    }
                }
                self.input(to, Happened::Message { from, message: Message::Request(request.into()) });
            }
            Message::Cancel(call) => {
                // A cancel ends the rest of a request, and a reply in the other direction.
                self.arriving
                    .retain(|body| !body.is(from, to, call, false) && !body.is(to, from, call, true));
                self.input(to, Happened::Message { from, message });
            }
            Message::Response(response) => self.response(from, to, response, slow),
            message => self.input(to, Happened::Message { from, message }),
        }
    }

    /// Delivers a response. The data of a reply follow its head if `slow`, or if the sender has not got them all yet.
    fn response(&mut self, from: Id, to: Id, response: Response, slow: bool) {
        let call = response.call;
        let under_way = self.arriving.iter().any(|body| body.is(from, to, call, true));
        let failed = matches!(response.answer, Answer::Failed(_));
        if under_way && !failed {
            // A second response for a call whose first response is still arriving breaks the protocol.
            return self.lose(from, to);
        }
        self.arriving.retain(|body| !body.is(from, to, call, true));
        let Some(node) = self.nodes.get(&to) else { return };
        let arriving = match response.answer {
            Answer::Reply(reply) if slow && !reply.data.is_empty() => {
                let mut data = StreamingData::default();
                data.push_arrived(&reply.data);
                StreamingReply { level: reply.level, header: reply.header, data }
            }
            Answer::Arriving(reply) => *reply,
            answer => {
                let message = Message::Response(Response { call, answer });
                return self.input(to, Happened::Message { from, message });
            }
        };
        if !node.awaits(from, call) || arriving.len() > node.config().reply_max {
            return;
        }
        let (body, writer) = Body::arriving(arriving.data.len());
        let head = StreamingReply { data: StreamingData::from(body), ..arriving.clone() };
        let passes_on = node.passes_on(from, call);
        let reply = if passes_on { ForReply::PassedOn } else { ForReply::Whole { head: head.clone() } };
        let (source, reply) = (arriving.data, Some(reply));
        self.arriving.push(Arriving { from, to, call, source, reply, writer, read: 0 });
        if passes_on {
            let message = Message::Response(Response { call, answer: Answer::Arriving(Box::new(head)) });
            self.input(to, Happened::Message { from, message });
        }
    }

    /// Delivers more data of a request or a reply, as far as the sender has them; returns whether there were any.
    pub(super) fn feed(&mut self, index: usize, most: usize) -> bool {
        let Some(body) = self.arriving.get_mut(index) else { return false };
        let piece = body.source.read(body.read, most);
        body.read += piece.len() as u64;
        assert_eq!(body.writer.push(&piece), piece.len(), "no more than was announced");
        let (from, to, call) = (body.from, body.to, body.call);
        if body.writer.missing() == 0 {
            let happened = match self.arriving.remove(index).reply {
                None => Happened::DataArrived(call),
                Some(ForReply::PassedOn) => Happened::ReplyArrived { from, call },
                Some(ForReply::Whole { head }) => {
                    let answer = Answer::Reply(head.whole().expect("all has come"));
                    Happened::Message { from, message: Message::Response(Response { call, answer }) }
                }
            };
            self.input(to, happened);
        } else if !piece.is_empty() {
            self.input(to, Happened::Heartbeat(from));
        }
        !piece.is_empty()
    }

    /// Returns the reply that the function of a job makes.
    pub(super) fn made(&self, index: usize) -> Reply {
        let (id, job) = &self.jobs[index];
        match &job.work {
            Work::Func | Work::More(_) => reply(*id),
            Work::Callback { child, own, .. } => {
                let mut own = own.clone();
                own.header.extend_from_slice(&child.header.to_bytes());
                own.data.extend_from_slice(&child.data.to_bytes());
                own
            }
        }
    }

    /// Ends the function of a job.
    pub(super) fn end_job(&mut self, index: usize, result: impl FnOnce(Reply) -> JobResult) {
        let reply = self.made(index);
        let (at, job) = self.jobs.remove(index);
        let result = result(reply.clone());
        let call = job.call;
        if let JobResult::Deferred = result {
            let merges = matches!(job.work, Work::Callback { .. });
            self.deferred.push(Later { at, call, reply, merges });
        }
        self.input(at, Happened::Ran { call, result });
    }

    /// Breaks the link between two ids, and drops what is under way on it.
    pub(super) fn lose(&mut self, a: Id, b: Id) {
        self.cut(a, b, true);
        self.cut(b, a, true);
    }

    /// Ends a link at the side of `id`: drops the data arriving from `peer` and the messages sent to it, and tells
    /// `peer` that the link is lost. If `hears` is false, `id` has cut the link itself: what `peer` sent is dropped
    /// too, and `id` is not told.
    fn cut(&mut self, id: Id, peer: Id, hears: bool) {
        self.arriving.retain(|body| (body.from, body.to) != (peer, id));
        if !hears {
            self.links.remove(&(peer, id));
            self.owed.remove(&(id, peer));
        }
        let queue = self.links.entry((id, peer)).or_default();
        queue.retain(|parcel| hears && matches!(parcel, Parcel::Lost { .. }));
        queue.push_back(Parcel::Lost { unreached: false });
        self.broken.insert((peer, id));
    }

    /// Kills a process. If `last_words_arrive`, the messages it has sent still arrive.
    pub(super) fn kill(&mut self, id: Id, last_words_arrive: bool) {
        if self.nodes.remove(&id).is_none() {
            return;
        }
        // A link ends with the process at either end, and a later run of this id starts without links. So it receives
        // nothing that was sent to this run, not even the last messages of a process that died before.
        self.links.retain(|(_, to), _| *to != id);
        self.broken.retain(|(from, _)| *from != id);
        for peer in self.nodes.keys().copied().collect::<Vec<Id>>() {
            let queue = self.links.entry((id, peer)).or_default();
            queue.retain(|parcel| last_words_arrive || matches!(parcel, Parcel::Lost { .. }));
            queue.push_back(Parcel::Lost { unreached: false });
            self.broken.insert((peer, id));
        }
        self.jobs.retain(|(at, _)| *at != id);
        self.deferred.retain(|later| later.at != id);
        self.arriving.retain(|body| body.to != id && body.from != id);
        self.owed.retain(|(at, _), _| *at != id);
        self.calls
            .iter_mut()
            .filter(|call| call.root == id)
            .for_each(|call| call.dead = call.ended.is_none());
    }

    /// Starts a process with the id of one that has died.
    pub(super) fn restart(&mut self, id: Id) {
        if self.nodes.contains_key(&id) {
            return;
        }
        let run = self.runs.entry(id).or_default();
        *run += 1;
        let incarnation = 1000 + 1_000_000 * *run;
        let mut node = Node::new(Config {
            me: id,
            incarnation,
            started: Time::from_nanos(self.now),
            ..self.config.clone()
        });
        node.input(Time::from_nanos(self.now), Happened::Tick, &mut Outputs::new());
        self.nodes.insert(id, node);
    }

    /// Advances the time, and ticks every node that is due until it has no more work. Then no call may be over its
    /// limit by more than the time for reports.
    pub(super) fn pass(&mut self, until: u64) {
        self.now = self.now.max(until);
        let due = |node: &Node| node.next_deadline().is_some_and(|at| at.as_nanos() <= self.now);
        let due: Vec<Id> = self.nodes.iter().filter(|(_, node)| due(node)).map(|(id, _)| *id).collect();
        for id in due {
            let is_due = |world: &Self| {
                world.nodes[&id]
                    .next_deadline()
                    .is_some_and(|next| next <= world.time() && world.now < u64::MAX)
            };
            let ended = (0..TICKS_MAX).any(|_| {
                self.input(id, Happened::Tick);
                !is_due(self)
            });
            assert!(ended, "a deadline that has passed is left at id {id}");
        }
        for (ticket, call) in
            self.calls.iter().enumerate().filter(|(_, call)| call.ended.is_none() && !call.dead)
        {
            let limit = call.start.limit;
            let reports = limit / 100 + Duration::from_millis(100);
            let end = call.begun.plus(limit.saturating_add(reports));
            assert!(end > self.time(), "call {ticket} is over its limit");
        }
    }

    /// Returns the earliest deadline of all nodes.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.nodes.values().filter_map(|node| Some(node.next_deadline()?.as_nanos())).min()
    }

    /// Delivers everything under way, ends every function, and lets time pass until no node waits for it.
    pub(super) fn rest(&mut self) {
        // Each round doubles the step, so few rounds reach the end of time.
        for round in 0..64 {
            self.settle();
            let Some(deadline) = self.deadline() else { return };
            self.pass(deadline.max(self.now.saturating_add(1_000_000 << round)));
        }
        panic!("a node still waits at {:?}: {:?}", self.time(), self.nodes);
    }

    /// Runs everything that can happen without time passing.
    fn settle(&mut self) {
        // A call takes some tens of messages over eight ids.
        for _ in 0..1_000_000 {
            let feed = (0..self.arriving.len()).any(|index| self.feed(index, usize::MAX));
            if let Some(&link) = self.busy().first() {
                self.deliver(link, false);
            } else if !self.jobs.is_empty() {
                self.end_job(0, JobResult::Replied);
            } else if let Some(Later { at, call, reply, .. }) = self.deferred.pop() {
                self.input(at, Happened::Answered { call, result: Ok(reply) });
            } else if !feed {
                return;
            }
        }
        panic!("messages without end");
    }
}
