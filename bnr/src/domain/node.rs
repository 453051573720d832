//! The machine: its state, its inputs and outputs, and what local clients ask.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::group::Group;
use super::head::Head;
use super::meeting::{Key, Line};
use super::store::Store;
use super::watch::{RENEWED, Watch};
use super::{CallNumber, Input, Output, Serial, Settings, Token};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Rank, Set};
use crate::order::{Epoch, Order, Purpose, Report};
use crate::request::{Answer, Client, Pair, Request};

/// Who is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ReplyTo {
    /// A client of this node.
    Client(Client, Serial),
    /// Another node, for a client of its own.
    Token(Token),
    /// A meeting that this node coordinates.
    Meeting(Key, Epoch),
    /// A client that subscribes, with the status of the group.
    Subscriber(Client, Serial, GroupId),
    /// A client that puts into a database that this node has not heard of, with the names of all.
    Putting(Client, Serial, String, Pair),
    /// Nobody.
    Nobody,
}

/// What a call is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Flight {
    Nothing,
    AtHead(ReplyTo),
    Find(Client, Serial, String, Vec<u8>),
    List(Client, Serial, String),
    Start(GroupId, ReplyTo),
    Kill(ReplyTo),
    Died(Vec<Death>),
    Collect(Key, Epoch),
    /// To the coordinator of a meeting; without it the meeting fails here.
    Coordinator(Key, Epoch),
    Begin,
    Watch,
}

/// One node of a domain.
#[derive(Debug)]
pub struct Domain {
    pub(super) settings: Settings,
    pub(super) now: Duration,
    pub(super) outputs: VecDeque<Output>,
    pub(super) calls: BTreeMap<CallNumber, Flight>,
    next_call: CallNumber,
    /// Those whose processes are here, and at the head all whose processes run.
    pub(super) groups: BTreeMap<GroupId, Group>,
    /// Merged groups that this node has heard of, and of which they were made.
    pub(super) merged: BTreeMap<GroupId, (GroupId, GroupId)>,
    pub(super) lines: BTreeMap<Key, Line>,
    pub(super) store: Store,
    pub(super) subscribers: BTreeMap<(GroupId, Client), BTreeSet<Rank>>,
    /// Deaths that are still to be told to the other nodes, and whether some are on their way.
    pub(super) dying: Vec<Death>,
    pub(super) telling: bool,
    /// When they are told again, since a call could not be made.
    pub(super) tell_again: Option<Duration>,
    pub(super) lost: BTreeSet<Id>,
    pub(super) head: Option<Head>,
    pub(super) watch: Watch,
    /// How many requests of each client are not answered.
    asked: BTreeMap<Client, usize>,
    /// At the head: requests that came before the other nodes had begun.
    early: VecDeque<(Client, Serial, Request)>,
}

impl Domain {
    /// A node of a domain; the head begins it at the others.
    pub fn new(settings: Settings, now: Duration) -> Domain {
        let leads = settings.nodes.first() == Some(&settings.me);
        let mut domain = Domain {
            now,
            outputs: VecDeque::new(),
            calls: BTreeMap::new(),
            next_call: 0,
            groups: BTreeMap::new(),
            merged: BTreeMap::new(),
            lines: BTreeMap::new(),
            store: Store::new(settings.limits),
            subscribers: BTreeMap::new(),
            dying: Vec::new(),
            telling: false,
            tell_again: None,
            lost: BTreeSet::new(),
            head: leads.then(Head::default),
            watch: Watch::default(),
            asked: BTreeMap::new(),
            early: VecDeque::new(),
            settings,
        };
        domain.begin_elsewhere();
        domain
    }

    /// Takes an input. Drain all outputs after it.
    pub fn handle(&mut self, input: Input, now: Duration) {
        self.now = self.now.max(now);
        match input {
            Input::Request { client, serial, request } => self.requested(client, serial, request),
            Input::Gone(client) => self.gone(client),
            Input::Order { token, root, order } => self.ordered(token, root, order),
            Input::Cancelled(token) => self.cancelled(token),
            Input::Called { call, reports } => self.called(call, &reports),
            Input::Started { group, ranks } => self.started(group, &ranks),
            Input::Ended { member, exit } => self.ended(member, exit),
            Input::Emptied(group) => self.emptied(group),
            Input::Time => {}
        }
        self.time();
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When something happens by itself: give it [`Input::Time`] then.
    pub fn deadline(&self) -> Option<Duration> {
        let meetings = self.lines.values().filter_map(Line::deadline);
        meetings.chain(self.watch.deadline()).chain(self.tell_again).min()
    }

    /// The groups whose processes run, as far as this node knows.
    pub fn running(&self) -> Vec<GroupId> {
        self.groups.iter().filter(|(_, group)| !group.is_over()).map(|(id, _)| *id).collect()
    }

    /// The node of the process that reads standard input; none before it is known.
    pub fn reader(&self) -> Option<Id> {
        let reads = self.groups.values().find(|group| group.layout.input);
        reads.and_then(|group| group.layout.node_of(0))
    }

    fn time(&mut self) {
        self.expire_meetings();
        self.expire_watch();
        if self.tell_again.is_some_and(|again| again <= self.now) {
            self.tell_again = None;
            self.tell_deaths();
        }
    }

    pub(super) fn is_head(&self) -> bool {
        self.head.is_some()
    }

    pub(super) fn head_id(&self) -> Id {
        // The list has one node at least: the one that reads this.
        self.settings.nodes.first().copied().unwrap_or(self.settings.me)
    }

    /// The other nodes that are not known to be lost.
    pub(super) fn others(&self) -> Vec<Id> {
        let others = self.settings.nodes.iter().filter(|id| **id != self.settings.me);
        others.filter(|id| !self.lost.contains(id)).copied().collect()
    }

    pub(super) fn call(&mut self, ids: Vec<Id>, order: Order, partial: bool, flight: Flight) -> CallNumber {
        self.call_within(ids, order, partial, self.settings.limits.ask, flight)
    }

    pub(super) fn call_within(
        &mut self,
        ids: Vec<Id>,
        order: Order,
        partial: bool,
        limit: Duration,
        flight: Flight,
    ) -> CallNumber {
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, flight);
        self.outputs.push_back(Output::Call { call, ids, order: Arc::new(order), partial, limit });
        call
    }

    pub(super) fn report(&mut self, token: Token, report: Report) {
        self.outputs.push_back(Output::Report { token, report });
    }

    pub(super) fn answer(&mut self, client: Client, serial: Serial, answer: Result<Answer, Fault>) {
        if let Some(asked) = self.asked.get_mut(&client) {
            *asked = asked.saturating_sub(1);
        }
        self.outputs.push_back(Output::Answer { client, serial, answer });
    }

    /// Hands an answer to whoever waits for it.
    pub(super) fn settle(&mut self, to: ReplyTo, answer: Result<Answer, Fault>) {
        match to {
            ReplyTo::Client(client, serial) => self.answer(client, serial, answer),
            ReplyTo::Token(token) => self.report(token, Report::Answer(answer)),
            ReplyTo::Meeting(key, epoch) => self.met(&key, epoch, answer),
            ReplyTo::Subscriber(client, serial, group) => self.subscribe(client, serial, group, answer),
            ReplyTo::Putting(client, serial, database, pair) => {
                let known = match answer {
                    Ok(Answer::Names(names)) => names.contains(&database),
                    Ok(_) => false,
                    Err(fault) => return self.answer(client, serial, Err(fault)),
                };
                if known {
                    self.store.create(&database);
                }
                let put = if known { self.put(client, &database, pair) } else { Err(no_database(&database)) };
                self.answer(client, serial, put);
            }
            ReplyTo::Nobody => {}
        }
    }

    fn gone(&mut self, client: Client) {
        self.asked.remove(&client);
        self.subscribers.retain(|(_, subscriber), _| *subscriber != client);
    }

    fn requested(&mut self, client: Client, serial: Serial, request: Request) {
        if self.is_head() && self.watch.is_beginning() {
            self.early.push_back((client, serial, request));
            return;
        }
        let asked = self.asked.entry(client).or_default();
        *asked += 1;
        if *asked > self.settings.limits.waiting {
            let message = format!(
                "{} requests of this process wait already: wait for some of them",
                self.settings.limits.waiting
            );
            return self.answer(client, serial, Err(Fault::new(FaultKind::TooLarge, message)));
        }
        self.serve(client, serial, request);
    }

    /// The other nodes have begun.
    pub(super) fn serve_early(&mut self) {
        for (client, serial, request) in std::mem::take(&mut self.early) {
            self.requested(client, serial, request);
        }
    }

    fn serve(&mut self, client: Client, serial: Serial, request: Request) {
        let to = ReplyTo::Client(client, serial);
        let done = |done: Result<Answer, Fault>| done;
        let now = match request {
            Request::Init => done(self.init(client)),
            Request::Finalize => done(self.finalize(client)),
            Request::Put { database, pair, .. } if self.store.has(&database) => {
                done(self.put(client, &database, pair))
            }
            Request::Put { database, pair, .. } => {
                let to = ReplyTo::Putting(client, serial, database, pair);
                return self.ask_head(client, Request::Databases, to);
            }
            Request::Get { database, key } => return self.get(client, serial, database, key),
            Request::Iterate(database) => return self.list(client, serial, database),
            Request::Fence { over, limit, tag } => {
                return self.enter(client, serial, over, tag, Purpose::Fence, limit);
            }
            Request::Open { over, limit } => {
                return self.enter(client, serial, over, Vec::new(), Purpose::Open, limit);
            }
            Request::Close { over, group, limit } => {
                return self.enter(client, serial, over, Vec::new(), Purpose::Close(group), limit);
            }
            Request::Merge { first, second, limit } => {
                let over = self.union(first, second);
                return self.enter(client, serial, over, Vec::new(), Purpose::Merge(first, second), limit);
            }
            Request::Size(group) if self.groups.contains_key(&group) => done(Ok(Answer::Number(
                self.groups.get(&group).map_or(0, |group| group.layout.size()).into(),
            ))),
            Request::Subscribe(group) => {
                let to = ReplyTo::Subscriber(client, serial, group);
                return self.ask_head(client, Request::Status(group), to);
            }
            Request::Abort { code, message } => return self.abort(client, code, message),
            request => return self.ask_head(client, request, to),
        };
        self.answer(client, serial, now);
    }

    /// Has the head answer.
    pub(super) fn ask_head(&mut self, client: Client, request: Request, to: ReplyTo) {
        if self.is_head() {
            return self.at_head(client, request, to);
        }
        let head = vec![self.head_id()];
        // A group takes as long to start, and to be killed, as its processes need.
        let limit = self.settings.limits.fence;
        self.call_within(head, Order::AtHead { client, request }, false, limit, Flight::AtHead(to));
    }

    fn process(&mut self, client: Client) -> Result<(Member, &mut Group), Fault> {
        let Client::Process(member) = client else {
            let message = "who asks is no process of a group: start it by `gpc run`";
            return Err(Fault::new(FaultKind::NotMember, message));
        };
        let group = self.groups.get_mut(&member.group).filter(|group| group.here.contains_key(&member.rank));
        group.map(|group| (member, group)).ok_or_else(|| {
            Fault::new(FaultKind::NoMember, format!("{member} is no process that runs on this node"))
        })
    }

    fn init(&mut self, client: Client) -> Result<Answer, Fault> {
        let me = self.settings.me;
        let (member, group) = self.process(client)?;
        if let Some(process) = group.here.get_mut(&member.rank) {
            (process.inited, process.finalized) = (true, false);
        }
        Ok(Answer::Identity(group.identity(member.rank, me)))
    }

    fn finalize(&mut self, client: Client) -> Result<Answer, Fault> {
        let (member, group) = self.process(client)?;
        if let Some(process) = group.here.get_mut(&member.rank) {
            process.finalized = true;
        }
        Ok(Answer::Done)
    }

    fn abort(&mut self, client: Client, code: u8, message: String) {
        if let Client::Process(member) = client {
            let request = Request::Abort { code, message };
            let _ = member;
            self.ask_head(client, request, ReplyTo::Nobody);
        }
    }

    fn put(&mut self, client: Client, database: &str, pair: Pair) -> Result<Answer, Fault> {
        self.store.put(database, pair.clone())?;
        if let Client::Process(member) = client
            && let Some(group) = self.groups.get_mut(&member.group)
            && let Some(process) = group.here.get_mut(&member.rank)
        {
            process.fresh.push_back(crate::order::Entry { database: database.into(), pair });
        }
        Ok(Answer::Done)
    }

    fn get(&mut self, client: Client, serial: Serial, database: String, key: Vec<u8>) {
        let found = self.store.get(&database, &key).cloned();
        let others = self.others();
        match found {
            Some(value) => self.answer(client, serial, Ok(Answer::Value(value))),
            None if others.is_empty() => self.missing(client, serial, &database, &key),
            None => {
                let order = Order::Find { database: database.clone(), key: key.clone() };
                self.call(others, order, true, Flight::Find(client, serial, database, key));
            }
        }
    }

    fn missing(&mut self, client: Client, serial: Serial, database: &str, key: &[u8]) {
        let key = String::from_utf8_lossy(key);
        let message = format!("the database {database} has no key `{}`", chained_gpc::Shown(&key));
        self.answer(client, serial, Err(Fault::new(FaultKind::NotFound, message)));
    }

    fn list(&mut self, client: Client, serial: Serial, database: String) {
        let others = self.others();
        if others.is_empty() {
            return self.listed(client, serial, &database, &[]);
        }
        self.call(others, Order::List(database.clone()), true, Flight::List(client, serial, database));
    }

    /// What the other nodes have, under what this one has.
    fn listed(
        &mut self,
        client: Client,
        serial: Serial,
        name: &str,
        reports: &[(Id, Result<Report, Fault>)],
    ) {
        let mut all = BTreeMap::new();
        for (_, report) in reports {
            if let Ok(Report::Pairs(pairs)) = report {
                all.extend(pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())));
            }
        }
        all.extend(self.store.pairs(name).into_iter().map(|pair| (pair.key, pair.value)));
        if all.is_empty() && !self.store.has(name) {
            let known = self.head.as_ref().is_some_and(|head| head.databases.contains(name));
            if !known {
                return self.answer(client, serial, Err(no_database(name)));
            }
        }
        let pairs = all.into_iter().map(|(key, value)| Pair { key, value }).collect();
        self.answer(client, serial, Ok(Answer::Pairs(pairs)));
    }

    /// A call has ended.
    fn called(&mut self, call: CallNumber, reports: &[(Id, Result<Report, Fault>)]) {
        let Some(flight) = self.calls.remove(&call) else { return };
        match flight {
            Flight::Nothing => {}
            Flight::AtHead(to) => {
                let answer = match reports.first() {
                    Some((_, Ok(Report::Answer(answer)))) => answer.clone(),
                    Some((_, Err(fault))) => Err(fault.clone()),
                    _ => Err(Fault::new(FaultKind::System, "the head answers what makes no sense")),
                };
                self.settle(to, answer);
            }
            Flight::Find(client, serial, database, key) => {
                let mut found = reports.iter().filter_map(|(_, report)| match report {
                    Ok(Report::Found(Some(value))) => Some(value.clone()),
                    _ => None,
                });
                match found.next() {
                    Some(value) => self.answer(client, serial, Ok(Answer::Value(value))),
                    None => self.missing(client, serial, &database, &key),
                }
            }
            Flight::List(client, serial, database) => self.listed(client, serial, &database, reports),
            Flight::Start(group, to) => self.all_started(group, to, reports),
            Flight::Kill(to) => self.settle(to, Ok(Answer::Done)),
            Flight::Died(deaths) => self.told_deaths(deaths, reports),
            Flight::Collect(key, epoch) => self.collected(&key, epoch, reports),
            Flight::Coordinator(key, epoch) => {
                if let Some((_, Err(fault))) = reports.first() {
                    self.fail_here(&key, epoch, fault);
                }
            }
            Flight::Begin => self.begun(reports),
            Flight::Watch => self.watched(reports),
        }
    }

    /// Another node orders, or this one in a call of its own.
    fn ordered(&mut self, token: Token, root: Id, order: Order) {
        let done = match order {
            Order::Begin { .. } => Report::Done,
            Order::Watch => return self.watch.stands(token),
            Order::Enter { meeting, purpose } => {
                self.coordinate(&(Key::of(&meeting), meeting.epoch), purpose);
                Report::Done
            }
            Order::Collect { meeting, purpose } => return self.collect(token, meeting, purpose),
            Order::Release { meeting, deaths, outcome } => {
                deaths.into_iter().for_each(|death| self.learn(death, false));
                self.released(meeting, outcome);
                Report::Done
            }
            Order::Fail { meeting, fault } => {
                let (key, epoch) = (Key::of(&meeting), meeting.epoch);
                self.fail(&key, epoch, fault);
                Report::Done
            }
            Order::Start(layout) => return self.start(token, layout),
            Order::Kill(group) => return self.kill(group, Some(token)),
            Order::Signal(group, signal) => {
                self.outputs.push_back(Output::Signal(group, signal));
                Report::Done
            }
            Order::Forget(group) => {
                self.forget(group);
                Report::Done
            }
            Order::Died(deaths) => {
                deaths.into_iter().for_each(|death| self.learn(death, false));
                Report::Done
            }
            Order::Lost(ids) => {
                ids.into_iter().for_each(|id| self.learn_lost(id));
                Report::Done
            }
            Order::Find { database, key } => Report::Found(self.store.get(&database, &key).cloned()),
            Order::List(database) => Report::Pairs(self.store.pairs(&database)),
            Order::Destroyed(database) => {
                self.store.destroy(&database);
                Report::Done
            }
            Order::AtHead { client, request } => {
                if self.is_head() {
                    return self.at_head(client, request, ReplyTo::Token(token));
                }
                let message =
                    format!("node {root} asks this node as the head of the domain, which it is not");
                Report::Answer(Err(Fault::new(FaultKind::BadRequest, message)))
            }
            Order::Status(_) => Report::Groups(Vec::new()),
            Order::End => Report::Done,
        };
        self.report(token, done);
    }

    fn cancelled(&mut self, token: Token) {
        self.watch.cancelled(token, self.now + self.settings.limits.ask.min(RENEWED));
        for line in self.lines.values_mut() {
            line.cancelled(token);
        }
        for group in self.groups.values_mut() {
            group.waits.retain(|wait| *wait != token);
            if group.starting == Some(token) {
                group.starting = None;
            }
        }
    }

    /// All processes of two groups.
    fn union(&self, first: GroupId, second: GroupId) -> Set {
        Set::Groups([first, second].into_iter().flat_map(|group| self.parts(group)).collect())
    }

    /// The groups whose processes a group has: itself, or those it was merged of.
    pub(super) fn parts(&self, group: GroupId) -> Vec<GroupId> {
        let mut parts = Vec::new();
        let mut open = vec![group];
        // Ends: a group is made of groups with smaller numbers.
        while let Some(group) = open.pop() {
            match self.merged.get(&group) {
                Some((first, second)) => open.extend([*second, *first]),
                None => parts.push(group),
            }
        }
        parts
    }
}

pub(super) fn no_database(name: &str) -> Fault {
    let message = format!("there is no database `{}` in this domain", chained_gpc::Shown(name));
    Fault::new(FaultKind::NoDatabase, message)
}
