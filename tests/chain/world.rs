//! A small deterministic world: nodes, links between them, jobs, virtual time. A seed draws the next event; time
//! advances only when no other event is left. The rules of every step are asserted here, so every test checks them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Input, Job, JobResult, Node, Output, Outputs, Reply, Start, Time, Work};
use chained_gpc::wire::message::{Merging, SubtreeReply};
use chained_gpc::wire::{CallId, CauseKind, Failure, Message, Reason, Report, Stage, Status};
use gpc_trees::{Group, Id, IdList};

/// Behaviour of a function at an id; it replies unless the plan has an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Fail,
    Unknown,
    /// Replies later. func uses its token twice, unless a callback awaits an answer for which the second use would be
    /// taken: the second one must not count.
    Defer,
    /// The reply is given before func returns.
    DeferEarly,
    DropToken,
    /// Ends only after everything else has.
    Hang,
}

/// An action of an application, or a fault.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Start(u64, Box<Start>),
    GiveUp(Id, u64),
    /// The link between two ids breaks; messages in flight on it are lost.
    Lose(Id, Id),
    /// Its process dies. Messages that it has sent may still arrive.
    Kill(Id),
    /// A new process starts with the id of one that has died.
    Restart(Id),
    /// Its process is stopped: it reads and sends nothing, and its links stay up.
    Pause(Id),
    Resume(Id),
}

/// An observation; the world keeps them in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Func(Id),
    Callback(Id, Id),
    Request(Id, Id),
    Response(Id, Id),
    Cancel(Id, Id),
    Release(Id, Id),
    Moved(Id, Id),
    Finished(Id),
}

/// A request that was sent, to check its route.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    pub(crate) call: CallId,
    pub(crate) from: Id,
    pub(crate) skipped: u32,
    pub(crate) ids: IdList,
}

/// An item in flight from one id to another.
enum Parcel {
    Message(Message),
    Lost { unreached: bool },
}

pub(crate) type Outcome = Result<Option<SubtreeReply>, Failure>;

#[derive(Default)]
pub(crate) struct World {
    pub(crate) nodes: BTreeMap<Id, Node>,
    pub(crate) now: u64,
    pub(crate) plan: BTreeMap<(Id, Stage), Act>,
    pub(crate) seen: Vec<(CallId, Seen)>,
    pub(crate) finished: BTreeMap<u64, (CallId, Outcome)>,
    /// Reports of partial calls that ended well.
    pub(crate) reports: BTreeMap<u64, Report>,
    /// What the children of the roots have answered, by ticket: checked when the call ends.
    child_replies: BTreeMap<u64, Vec<(Group, SubtreeReply, Option<Report>)>>,
    /// Start and end of each call.
    pub(crate) begun: BTreeMap<u64, u64>,
    pub(crate) ended: BTreeMap<u64, u64>,
    pub(crate) routes: Vec<Routed>,
    /// Sender and receiver of each PING.
    pub(crate) pings: Vec<(Id, Id)>,
    pub(crate) abandoned: Vec<(Id, Id)>,
    paused: BTreeSet<Id>,
    /// Configuration of the nodes; the id and the data of its run are filled in.
    config: Option<Config>,
    runs: u64,
    pub(crate) steps: usize,
    /// Events that happen before the step of this number.
    pub(crate) timed: Vec<(usize, Event)>,
    pub(crate) events: Vec<Event>,
    links: BTreeMap<(Id, Id), VecDeque<Parcel>>,
    /// Sender and receiver of a lost link whose sender does not know that yet.
    broken: BTreeSet<(Id, Id)>,
    jobs: Vec<(Id, Job)>,
    hanging: Vec<(Id, CallId)>,
    answers: Vec<(Id, CallId, Result<Reply, Box<Reason>>)>,
    running: BTreeSet<(Id, CallId)>,
    /// Receiver and sender: requests delivered whose credit has not come back.
    pub(crate) owed: BTreeMap<(Id, Id), u32>,
    seed: u64,
}

/// A callback that merges replies as they arrive, registered so at every id; any other merges them in list order.
pub(crate) const COMMUTATIVE: u64 = 10;

fn merging(callback: Option<u64>) -> Merging {
    match callback {
        Some(COMMUTATIVE) => Merging::AsTheyCome,
        _ => Merging::InListOrder,
    }
}

/// Fills in what an id knows of its registered functions.
fn registered(mut input: Input) -> Input {
    match &mut input {
        Input::Start { start, .. } => {
            start.merging = merging(start.callback);
            start.follow = true;
        }
        Input::Message { message: Message::Request(request), .. } => {
            let request = Arc::make_mut(request);
            request.local.merging = merging(request.callback);
        }
        _ => {}
    }
    input
}

pub(crate) fn own_reply(id: Id) -> Reply {
    Reply {
        header: format!("h{id} ").into_bytes(),
        data: format!("{id} ").into_bytes(),
        ..Default::default()
    }
}

impl World {
    pub(crate) fn new(ids: impl IntoIterator<Item = Id>, seed: u64, workers: usize) -> World {
        World::with(ids, seed, Config { workers, ..Config::new(0, 1000) })
    }

    pub(crate) fn with(ids: impl IntoIterator<Item = Id>, seed: u64, config: Config) -> World {
        let node = |id| (id, Node::new(Config { me: id, ..config.clone() }));
        let nodes = ids.into_iter().map(node).collect();
        World { nodes, seed, config: Some(config), ..World::default() }
    }

    pub(crate) fn plan(mut self, id: Id, stage: Stage, act: Act) -> World {
        self.plan.insert((id, stage), act);
        self
    }

    /// Runs one call until the world is quiet; returns its outcome.
    #[expect(clippy::result_large_err, reason = "few calls fail, and a test waits for none")]
    pub(crate) fn call(&mut self, start: Start) -> Outcome {
        self.events.push(Event::Start(1, start.into()));
        self.run();
        self.finished.remove(&1).expect("the call has ended").1
    }

    fn draw(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }

    /// Runs the world to its end, then asserts that no node holds any state.
    pub(crate) fn run(&mut self) {
        while self.step() || self.pass_time() || self.end_a_hanging_job() {}
        for (id, node) in &self.nodes {
            let left = (node.calls(), node.retained_answers(), node.jobs_running(), node.next_deadline());
            assert_eq!(left, (0, 0, 0, None), "calls, kept answers, jobs and deadline left at id {id}");
        }
        assert!(self.owed.values().all(|&owed| owed == 0), "requests never consumed: {:?}", self.owed);
    }

    /// Runs the world as far as possible while some processes are stopped.
    pub(crate) fn settle(&mut self) {
        while self.step() || self.pass_time() {}
    }

    /// Handles one event, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        while let Some(place) = self.timed.iter().position(|(step, _)| *step <= self.steps) {
            let (_, event) = self.timed.remove(place);
            self.happen(event);
        }
        let awake = |link: &&(Id, Id)| !self.paused.contains(&link.1);
        let busy = self.links.iter().filter(|(_, queue)| !queue.is_empty()).map(|(link, _)| link);
        let ready: Vec<(Id, Id)> = busy.filter(awake).copied().collect();
        let awake = |place: &usize| !self.paused.contains(&self.jobs[*place].0);
        let runnable: Vec<usize> = (0..self.jobs.len()).filter(awake).collect();
        let (links, jobs, answers) = (ready.len(), runnable.len(), self.answers.len());
        let total = links + jobs + answers + self.events.len();
        if total == 0 {
            return false;
        }
        self.now += 1000;
        match self.draw(total) {
            at if at < links => self.deliver(ready[at]),
            at if at < links + jobs => {
                let (id, job) = self.jobs.swap_remove(runnable[at - links]);
                self.execute(id, job);
            }
            at if at < links + jobs + answers => {
                let (id, call, _) = self.answers[at - links - jobs];
                let first = self.answers.iter().position(|answer| (answer.0, answer.1) == (id, call));
                let (_, _, result) = self.answers.remove(first.expect("there is one at least"));
                self.input(id, Input::Answered { call, result });
            }
            at => {
                let event = self.events.remove(at - links - jobs - answers);
                self.happen(event);
            }
        }
        true
    }

    fn deliver(&mut self, (from, to): (Id, Id)) {
        let parcel = self
            .links
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
            .expect("chosen among those with parcels");
        match parcel {
            Parcel::Message(message) => {
                if let Message::Request(_) = message {
                    *self.owed.entry((to, from)).or_default() += 1;
                }
                self.input(to, Input::Message { from, message });
            }
            Parcel::Lost { unreached } => {
                self.broken.remove(&(to, from));
                self.owed.remove(&(to, from));
                self.input(
                    to,
                    Input::LinkLost { peer: from, kind: CauseKind::LinkLost, why: "lost".into(), unreached },
                );
            }
        }
    }

    fn execute(&mut self, id: Id, job: Job) {
        let call = job.call;
        let stage = if let Work::Func = job.work { Stage::Func } else { Stage::Callback };
        let reply = match job.work {
            Work::Func | Work::More(_) => own_reply(id),
            Work::Callback { child, mut own, .. } => {
                own.header.extend_from_slice(&child.header.to_bytes());
                own.data.extend_from_slice(&child.data.to_bytes());
                own
            }
        };
        let result = match self.plan.get(&(id, stage)) {
            None => JobResult::Replied(reply),
            Some(Act::Fail) => JobResult::Failed(format!("{stage} fails at {id}").into()),
            Some(Act::Unknown) => refused(CauseKind::UnknownFunction, format!("no such {stage}")),
            Some(Act::Hang) => return self.hanging.push((id, call)),
            Some(Act::DropToken) => {
                self.answers.push((id, call, Err(dropped())));
                JobResult::Deferred
            }
            Some(Act::Defer) => {
                self.answers.push((id, call, Ok(reply)));
                if stage == Stage::Func && !self.callback_defers(id) {
                    self.answers.push((id, call, Ok(Reply::default())));
                }
                JobResult::Deferred
            }
            Some(Act::DeferEarly) => {
                self.input(id, Input::Answered { call, result: Ok(reply) });
                self.input(id, Input::Answered { call, result: Err(dropped()) });
                JobResult::Deferred
            }
        };
        self.ran(id, call, result);
    }

    /// Whether a callback of this id keeps a token. An answer names only its call, so no other answer may come then.
    fn callback_defers(&self, id: Id) -> bool {
        matches!(self.plan.get(&(id, Stage::Callback)), Some(Act::Defer | Act::DeferEarly | Act::DropToken))
    }

    fn ran(&mut self, id: Id, call: CallId, result: JobResult) {
        self.running.remove(&(id, call));
        self.input(id, Input::Ran { call, result });
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Start(ticket, start) => {
                self.begun.insert(ticket, self.now);
                let root = start.ids.first().expect("a call has a root");
                self.input(root, Input::Start { ticket, start });
            }
            Event::GiveUp(root, ticket) => self.input(root, Input::GiveUp { ticket }),
            Event::Lose(a, b) => {
                for (from, to) in [(a, b), (b, a)] {
                    let queue = self.links.entry((from, to)).or_default();
                    queue.retain(|parcel| matches!(parcel, Parcel::Lost { .. }));
                    queue.push_back(Parcel::Lost { unreached: false });
                    self.broken.insert((to, from));
                }
            }
            Event::Kill(id) => self.kill(id),
            Event::Restart(id) => self.restart(id),
            Event::Pause(id) => {
                self.paused.insert(id);
            }
            Event::Resume(id) => {
                self.paused.remove(&id);
            }
        }
    }

    fn kill(&mut self, id: Id) {
        if self.nodes.remove(&id).is_none() {
            return;
        }
        let last_words_arrive = self.draw(2) == 0;
        // A link ends with the process at either end, and a later run of this id starts without links. It reads no
        // message to this run, not even the last messages of an id that died before.
        self.links.retain(|(_, to), _| *to != id);
        self.broken.retain(|(from, _)| *from != id);
        for peer in self.nodes.keys().copied().collect::<Vec<_>>() {
            let queue = self.links.entry((id, peer)).or_default();
            if !last_words_arrive {
                queue.retain(|parcel| matches!(parcel, Parcel::Lost { .. }));
            }
            queue.push_back(Parcel::Lost { unreached: false });
            self.broken.insert((peer, id));
        }
        self.jobs.retain(|(at, _)| *at != id);
        self.hanging.retain(|(at, _)| *at != id);
        self.answers.retain(|(at, _, _)| *at != id);
        self.running.retain(|(at, _)| *at != id);
        self.owed.retain(|(at, _), _| *at != id);
        self.paused.remove(&id);
    }

    fn restart(&mut self, id: Id) {
        if self.nodes.contains_key(&id) {
            return;
        }
        self.runs += 1;
        let config = self.config.clone().expect("a world has a config");
        let (incarnation, started) = (config.incarnation + 1_000_000 * self.runs, Time::from_nanos(self.now));
        let mut node = Node::new(Config { me: id, incarnation, started, ..config });
        node.input(started, Input::Tick, &mut Outputs::new());
        self.nodes.insert(id, node);
    }

    /// One side closes a link; the other side learns of it.
    fn abandon(&mut self, id: Id, peer: Id) {
        self.abandoned.push((id, peer));
        self.links.remove(&(peer, id));
        self.owed.remove(&(id, peer));
        let queue = self.links.entry((id, peer)).or_default();
        queue.clear();
        queue.push_back(Parcel::Lost { unreached: false });
        self.broken.insert((peer, id));
    }

    /// Gives one input, then checks and carries out the outputs.
    pub(crate) fn input(&mut self, id: Id, input: Input) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut outputs = Outputs::new();
        node.input(Time::from_nanos(self.now), registered(input), &mut outputs);
        assert!(node.jobs_running() <= node.config().workers);
        for output in outputs {
            self.carry_out(id, output);
        }
    }

    fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Send { to, message } => {
                let (call, seen) = match &message {
                    Message::Request(request) => (request.call, Seen::Request(id, to)),
                    Message::Response(response) => (response.call, Seen::Response(id, to)),
                    Message::Cancel(call) => (*call, Seen::Cancel(id, to)),
                    Message::Release(call) => (*call, Seen::Release(id, to)),
                    Message::Moved(call) => (*call, Seen::Moved(id, to)),
                    Message::Ping => {
                        self.pings.push((id, to));
                        return self.post(id, to, message);
                    }
                    Message::Pong | Message::Stragglers(_) | Message::Pause(_) => {
                        return self.post(id, to, message);
                    }
                };
                if let Message::Request(request) = &message {
                    let (skipped, ids) = (request.skipped, request.ids.clone());
                    self.routes.push(Routed { call, from: id, skipped, ids });
                }
                self.seen.push((call, seen));
                self.post(id, to, message);
            }
            Output::Abandon { peer } => self.abandon(id, peer),
            Output::Stopped(_) => {}
            Output::Run(job) => {
                let seen = match &job.work {
                    Work::Func | Work::More(_) => Seen::Func(id),
                    Work::Callback { from, .. } => Seen::Callback(id, *from),
                };
                self.seen.push((job.call, seen));
                assert!(self.running.insert((id, job.call)), "two jobs of one call at id {id}");
                self.jobs.push((id, job));
            }
            Output::Consumed { from } => {
                let owed = self.owed.entry((id, from)).or_default();
                *owed = owed.checked_sub(1).expect("a credit for a request of this link");
            }
            Output::ChildReply { ticket, group, reply, report } => {
                assert!(!self.finished.contains_key(&ticket), "a reply of a call that has ended");
                let report = report.map(|report| *report);
                self.child_replies.entry(ticket).or_default().push((group, reply, report));
            }
            Output::Finished { ticket, call, result, report } => {
                self.check_child_replies(ticket, &result, report.as_deref());
                self.ended.insert(ticket, self.now);
                self.reports.extend(report.map(|report| (ticket, *report)));
                self.seen.push((call, Seen::Finished(id)));
                let result = result.map_err(|failure| *failure);
                assert!(self.finished.insert(ticket, (call, result)).is_none(), "a call ends once");
            }
        }
    }

    /// Each id is reported once, as the outcome has it; without losses, all but the root are.
    fn check_child_replies(
        &mut self,
        ticket: u64,
        result: &Result<Option<SubtreeReply>, Box<Failure>>,
        report: Option<&Report>,
    ) {
        let mut children = self.child_replies.remove(&ticket).unwrap_or_default();
        children.sort_by_key(|(group, ..)| group.start);
        let apart = |pair: &[(Group, SubtreeReply, Option<Report>)]| {
            pair[0].0.start + pair[0].0.len <= pair[1].0.start
        };
        assert!(children.windows(2).all(apart), "an id is reported twice: {children:?}");
        let Ok(Some(_)) = result else { return };
        for (group, reply, of_child) in &children {
            let (Some(of_child), Some(report)) = (of_child, report) else {
                assert!(of_child.is_none() && report.is_none() && !reply.is_empty());
                continue;
            };
            assert_eq!(of_child.coverage.len(), u64::from(group.len));
            let place =
                |(status, at): (Status, u32)| report.coverage.statuses().nth(at as usize) == Some(status);
            assert!(of_child.coverage.statuses().zip(group.start..).all(place), "{of_child:?} in {report:?}");
        }
    }

    /// Sends a message, if the link is up and its end is alive.
    fn post(&mut self, id: Id, to: Id, message: Message) {
        if self.broken.contains(&(id, to)) {
            return;
        }
        if self.nodes.contains_key(&to) {
            return self.links.entry((id, to)).or_default().push_back(Parcel::Message(message));
        }
        self.links.entry((to, id)).or_default().push_back(Parcel::Lost { unreached: true });
        self.broken.insert((id, to));
    }

    /// Advances time to the next deadline of any node.
    pub(crate) fn pass_time(&mut self) -> bool {
        let awake = self.nodes.iter().filter(|(id, _)| !self.paused.contains(id));
        let soonest = awake.filter_map(|(id, node)| Some((node.next_deadline()?, *id))).min();
        let Some((at, id)) = soonest else { return false };
        self.now = self.now.max(at.as_nanos());
        self.input(id, Input::Tick);
        let next = self.nodes[&id].next_deadline();
        assert!(
            next.is_none_or(|next| next.as_nanos() > self.now),
            "a deadline that has passed is left at id {id}"
        );
        true
    }

    pub(crate) fn end_a_hanging_job(&mut self) -> bool {
        let Some((id, call)) = self.hanging.pop() else { return false };
        self.ran(id, call, JobResult::Replied(own_reply(id)));
        true
    }

    /// All observations, in order.
    pub(crate) fn log(&self) -> Vec<Seen> {
        self.seen.iter().map(|(_, seen)| seen.clone()).collect()
    }

    /// Ids that executed func, once for each execution, sorted.
    pub(crate) fn executed(&self, call: CallId) -> Vec<Id> {
        let func = |(at, seen): &(CallId, Seen)| match seen {
            Seen::Func(id) if *at == call => Some(*id),
            _ => None,
        };
        let mut ids: Vec<Id> = self.seen.iter().filter_map(func).collect();
        ids.sort_unstable();
        ids
    }
}

/// A limit that no test reaches by accident.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

fn refused(kind: CauseKind, message: String) -> JobResult {
    JobResult::Refused(Box::new(Reason::new(kind, message)))
}

/// The runtime's reason for a dropped token.
fn dropped() -> Box<Reason> {
    Box::new(Reason::new(CauseKind::NoAnswer, "dropped"))
}
