//! Nodes whose calls arrive at once and in order, unless a test delays them. Processes start when ordered to, and end
//! when the test ends them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;
use gpc_bnr::domain::{CallNumber, Domain, Input, Output, Serial, Settings, Token};
use gpc_bnr::names::{GroupId, Member, Rank};
use gpc_bnr::order::{Order, Report};
use gpc_bnr::request::{Answer, Client, Pair, Request};
use gpc_bnr::{
    Death, Exit, Fault, FaultKind, Layout, Limits, Mpi, OnDeath, PmixNeed, Spec, StartError, StartFailure,
};

pub(crate) const TOOL: Client = Client::Tool(0);
const NAME: &str = "0123456789abcdef";

struct Flight {
    ids: Vec<Id>,
    replies: BTreeMap<Id, Report>,
    /// When its time limit passes.
    due: Duration,
}

impl Flight {
    /// The reports of all ids. Those that are missing are late.
    fn ended(mut self) -> Vec<(Id, Result<Report, Fault>)> {
        let late = |id| Fault::at(id, FaultKind::TimedOut, format!("node {id} is late"));
        let report = |id| (id, self.replies.remove(&id).ok_or_else(|| late(id)));
        self.ids.into_iter().map(report).collect()
    }
}

/// Calls that have not ended, and the orders that nodes have yet to answer.
#[derive(Default)]
struct Transit {
    flights: BTreeMap<(Id, CallNumber), Flight>,
    tokens: BTreeMap<(Id, Token), (Id, CallNumber)>,
    next_token: Token,
}

pub(crate) struct Nodes {
    pub(crate) now: Duration,
    domains: BTreeMap<Id, Domain>,
    inputs: VecDeque<(Id, Input)>,
    transit: Transit,
    serial: Serial,
    answers: BTreeMap<(Client, Serial), Result<Answer, Fault>>,
    pub(crate) notices: Vec<(Client, Death)>,
    pub(crate) started: Vec<Arc<Layout>>,
    pub(crate) kills: Vec<(Id, GroupId, Option<Duration>)>,
    /// Groups that a process has killed.
    pub(crate) killed: Vec<(GroupId, Member, usize)>,
    pub(crate) spawned: Vec<(GroupId, u32)>,
    pub(crate) ended: Vec<Id>,
    /// Number of calls that nodes have made.
    pub(crate) calls: usize,
    /// Ranks whose start fails, and the error.
    pub(crate) broken: BTreeMap<Rank, i32>,
    /// Ranks whose check fails, and the error.
    pub(crate) unfit: BTreeMap<Rank, i32>,
    /// Ranks that a node reports in place of its own.
    pub(crate) lies: Option<Vec<Rank>>,
    /// The nodes that have begun, and their hosts, as the head reports them.
    pub(crate) begun: Vec<(Id, String)>,
    /// The free ports that nodes find at a check.
    pub(crate) ports: BTreeMap<Id, u16>,
    /// What nodes find at a check about the need of PMIx.
    pub(crate) pmix: PmixNeed,
    /// The MPI of the programs on a node.
    pub(crate) mpis: BTreeMap<Id, Mpi>,
    /// Questions to the PMIx servers of nodes.
    pub(crate) fetches: Vec<(Id, u64, Member)>,
    /// Failed starts that the head has reported.
    pub(crate) failures: Vec<StartFailure>,
    /// Selects orders that are delayed until the test delivers them.
    pub(crate) holds: fn(&Order) -> bool,
    held: Vec<(Id, CallNumber, Id, Arc<Order>)>,
}

impl Nodes {
    pub(crate) fn new(ids: &[Id], limits: Limits) -> Nodes {
        Nodes::named(ids, limits, |id| format!("host{id}.example"))
    }

    /// Nodes on hosts with these names.
    pub(crate) fn named(ids: &[Id], limits: Limits, host: impl Fn(Id) -> String) -> Nodes {
        let domain = |id: Id| {
            let host = host(id);
            let settings = Settings {
                me: id,
                nodes: ids.to_vec(),
                runs: true,
                name: NAME.into(),
                limits,
                slots: BTreeMap::new(),
                addresses: ids.iter().map(|id| (*id, format!("10.0.0.{id}"))).collect(),
                host,
                dead_after: None,
            };
            (id, Domain::new(settings, Duration::ZERO))
        };
        let mut nodes = Nodes {
            now: Duration::ZERO,
            domains: ids.iter().map(|id| domain(*id)).collect(),
            inputs: VecDeque::new(),
            transit: Transit::default(),
            serial: 0,
            answers: BTreeMap::new(),
            notices: Vec::new(),
            started: Vec::new(),
            kills: Vec::new(),
            killed: Vec::new(),
            spawned: Vec::new(),
            ended: Vec::new(),
            calls: 0,
            broken: BTreeMap::new(),
            unfit: BTreeMap::new(),
            lies: None,
            begun: Vec::new(),
            ports: BTreeMap::new(),
            pmix: PmixNeed::No,
            mpis: BTreeMap::new(),
            fetches: Vec::new(),
            failures: Vec::new(),
            holds: |_| false,
            held: Vec::new(),
        };
        ids.iter().for_each(|id| nodes.inputs.push_back((*id, Input::Time)));
        nodes.settle();
        nodes
    }

    pub(crate) fn one() -> Nodes {
        Nodes::new(&[7], Limits::default())
    }

    pub(crate) fn input(&mut self, id: Id, input: Input) {
        self.inputs.push_back((id, input));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((id, input)) = self.inputs.pop_front() {
            let Some(domain) = self.domains.get_mut(&id) else { continue };
            domain.handle(input, self.now);
            while let Some(output) = self.domains.get_mut(&id).and_then(Domain::next_output) {
                self.carry_out(id, output);
            }
        }
    }

    fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Answer { client, serial, answer } => {
                let before = self.answers.insert((client, serial), answer);
                assert!(before.is_none(), "{client:?} is answered twice");
            }
            Output::Notice { client, death } => self.notices.push((client, death)),
            Output::Call { call, ids, order, limit, .. } => {
                self.calls += 1;
                let due = self.now.saturating_add(limit);
                let flight = Flight { ids: ids.clone(), replies: BTreeMap::new(), due };
                self.transit.flights.insert((id, call), flight);
                for to in ids {
                    if (self.holds)(&order) {
                        self.held.push((id, call, to, order.clone()));
                    } else {
                        self.deliver(id, call, to, &order);
                    }
                }
            }
            Output::Cancel(call) => drop(self.transit.flights.remove(&(id, call))),
            Output::Report { token, report } => self.report(id, token, report),
            Output::Fetch { number, member } => self.fetches.push((id, number, member)),
            Output::Check(layout) => {
                let unfit = layout.ranks_on(id).filter_map(|rank| Some((rank, *self.unfit.get(&rank)?)));
                let mut failed: Vec<_> = unfit.map(|(rank, errno)| (vec![rank], error(errno))).collect();
                if let (Some(lies), [first, ..]) = (&self.lies, &mut failed[..]) {
                    first.0.clone_from(lies);
                    failed.truncate(1);
                }
                let port = self.ports.get(&id).copied();
                let (group, pmix, mpi) = (layout.group, self.pmix, self.mpis.get(&id).cloned());
                self.inputs.push_back((id, Input::Checked { group, failed, port, pmix, mpi }));
            }
            Output::Start(layout) => {
                let ranks: Vec<Rank> = layout.ranks_on(id).collect();
                let one = |rank: Rank| {
                    (rank, self.broken.get(&rank).map_or(Ok(100 + rank), |errno| Err(error(*errno))))
                };
                let ranks = ranks.into_iter().map(one).collect();
                self.inputs.push_back((id, Input::Started { group: layout.group, ranks }));
                self.started.push(layout);
            }
            Output::Kill { group, grace } => self.kills.push((id, group, grace)),
            Output::End => self.ended.push(id),
            Output::NotStarted(failure) => self.failures.push(failure),
            Output::Spawned { group, count } => self.spawned.push((group, count)),
            Output::Killed { group, by, dead } => self.killed.push((group, by, dead)),
            Output::Begun(hosts) => self.begun.extend(hosts),
            Output::Signal(..) | Output::Forgotten(_) | Output::Aborted { .. } | Output::Warning(_) => {}
        }
    }

    fn deliver(&mut self, root: Id, call: CallNumber, to: Id, order: &Arc<Order>) {
        self.transit.next_token += 1;
        self.transit.tokens.insert((to, self.transit.next_token), (root, call));
        self.inputs
            .push_back((to, Input::Order { token: self.transit.next_token, root, order: (**order).clone() }));
    }

    fn report(&mut self, id: Id, token: Token, report: Report) {
        let Some((root, call)) = self.transit.tokens.remove(&(id, token)) else { return };
        let Some(flight) = self.transit.flights.get_mut(&(root, call)) else { return };
        flight.replies.insert(id, report);
        if flight.replies.len() == flight.ids.len()
            && let Some(flight) = self.transit.flights.remove(&(root, call))
        {
            self.inputs.push_back((root, Input::Called { call, reports: flight.ended() }));
        }
    }

    /// The senders and receivers of the delayed orders.
    pub(crate) fn delayed(&self) -> Vec<(Id, Id)> {
        self.held.iter().map(|(from, _, to, _)| (*from, *to)).collect()
    }

    /// Delivers the delayed orders.
    pub(crate) fn let_go(&mut self) {
        self.holds = |_| false;
        let ids: Vec<Id> = self.domains.keys().copied().collect();
        ids.into_iter().for_each(|id| self.let_go_at(id));
    }

    /// Delivers the delayed orders of one node.
    pub(crate) fn let_go_at(&mut self, id: Id) {
        let here = self.held.extract_if(.., |(_, _, to, _)| *to == id);
        for (root, call, to, order) in here.collect::<Vec<_>>() {
            self.deliver(root, call, to, &order);
        }
        self.settle();
    }

    /// Lets time pass: calls whose limit has passed end.
    pub(crate) fn after(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        let over = self.transit.flights.extract_if(.., |_, flight| flight.due <= now);
        for ((root, call), flight) in over.collect::<Vec<_>>() {
            self.inputs.push_back((root, Input::Called { call, reports: flight.ended() }));
        }
        self.settle();
        let ids: Vec<Id> = self.domains.keys().copied().collect();
        ids.into_iter().for_each(|id| self.input(id, Input::Time));
    }

    fn node_of(&self, client: Client) -> Id {
        match client {
            Client::Tool(_) => self.head(),
            Client::Process(member) => {
                let layout = self.started.iter().rfind(|layout| layout.group == member.group);
                layout.and_then(|layout| layout.node_of(member.rank)).unwrap()
            }
        }
    }

    fn head(&self) -> Id {
        *self.domains.keys().next().unwrap()
    }

    /// Sends a request; the answer may arrive later.
    pub(crate) fn asks(&mut self, client: Client, request: Request) -> Serial {
        self.serial += 1;
        let serial = self.serial;
        self.input(self.node_of(client), Input::Request { client, serial, request });
        serial
    }

    /// The answer, if there is one.
    pub(crate) fn answer(&self, client: Client, serial: Serial) -> Option<Result<Answer, Fault>> {
        self.answers.get(&(client, serial)).cloned()
    }

    /// Sends a request, and expects the answer at once.
    pub(crate) fn ask(&mut self, client: Client, request: Request) -> Result<Answer, Fault> {
        let serial = self.asks(client, request.clone());
        self.answer(client, serial).unwrap_or_else(|| panic!("{request:?} is not answered"))
    }

    /// Sends a request, and expects a refusal.
    pub(crate) fn refused(&mut self, client: Client, request: Request) -> Fault {
        self.ask(client, request).unwrap_err()
    }

    /// Spawns a group with this many processes.
    pub(crate) fn group(&mut self, count: u32, on_death: OnDeath) -> GroupId {
        match self.ask(TOOL, spawn(count, on_death)) {
            Ok(Answer::Spawned { group, errors, .. }) => {
                assert!(errors.iter().all(|error| *error == 0));
                group
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn ends(&mut self, member: Member, exit: Exit) {
        let id = self.node_of(Client::Process(member));
        self.input(id, Input::Ended { member, exit });
    }

    /// Removes a node; the head reports its loss to the others.
    pub(crate) fn loses(&mut self, lost: Id) {
        self.domains.remove(&lost);
        let head = self.head();
        let others: Vec<Id> = self.domains.keys().copied().filter(|id| *id != head).collect();
        // Their reports are not needed.
        others
            .into_iter()
            .for_each(|id| self.deliver(head, CallNumber::MAX, id, &Arc::new(Order::Lost(vec![lost]))));
        self.settle();
    }

    /// Removes a node; the calls of the head to it show its loss.
    pub(crate) fn head_loses(&mut self, lost: Id) {
        self.domains.remove(&lost);
        let head = self.head();
        let calls = self.transit.flights.extract_if(.., |(root, _), flight| {
            *root == head && flight.ids.contains(&lost) && !flight.replies.contains_key(&lost)
        });
        for ((root, call), flight) in calls.collect::<Vec<_>>() {
            let mut reports = flight.ended();
            for (_, report) in reports.iter_mut().filter(|(id, _)| *id == lost) {
                *report = Err(Fault::at(lost, FaultKind::NodeLost, "the node is lost"));
            }
            self.inputs.push_back((root, Input::Called { call, reports }));
        }
        self.settle();
    }

    /// Removes the head: its calls end at the other nodes.
    pub(crate) fn head_is_lost(&mut self) {
        let head = self.head();
        self.domains.remove(&head);
        let tokens: Vec<(Id, Token)> =
            self.transit.tokens.iter().filter(|(_, (root, _))| *root == head).map(|(key, _)| *key).collect();
        for (id, token) in tokens {
            self.transit.tokens.remove(&(id, token));
            self.input(id, Input::Cancelled(token));
        }
    }

    /// Number of things of a kind that a node holds.
    pub(crate) fn held(&self, id: Id, kind: &str) -> usize {
        let held = self.domains[&id].held();
        held.iter().find(|(of, _)| *of == kind).unwrap_or_else(|| panic!("nothing is called {kind}")).1
    }

    /// Completes all pending kills.
    pub(crate) fn kill_all(&mut self) {
        for (id, group, _) in std::mem::take(&mut self.kills) {
            self.input(id, Input::Emptied(group));
        }
    }
}

fn error(errno: i32) -> StartError {
    StartError::new(errno, StartError::NOT_EXECUTED, "it cannot be started")
}

pub(crate) fn spec(count: u32) -> Spec {
    Spec { count, program: b"./a".to_vec(), ..Spec::default() }
}

pub(crate) fn spawn(count: u32, on_death: OnDeath) -> Request {
    Request::SpawnMultiple {
        specs: vec![spec(count)],
        preputs: Vec::new(),
        on_death,
        input: gpc_bnr::Readers::None,
    }
}

pub(crate) fn member(group: GroupId, rank: Rank) -> Member {
    Member { group, rank }
}

pub(crate) fn process(group: GroupId, rank: Rank) -> Client {
    Client::Process(member(group, rank))
}

pub(crate) fn own(group: GroupId) -> String {
    format!("kvs_{NAME}_{}", group.0)
}

pub(crate) fn pair(key: &str, value: &str) -> Pair {
    Pair { key: key.into(), value: value.into() }
}

pub(crate) fn put(database: &str, key: &str, value: &str) -> Request {
    Request::Put { database: database.into(), pair: pair(key, value), advice: None }
}

pub(crate) fn get(database: &str, key: &str) -> Request {
    Request::Get { database: database.into(), key: key.into() }
}

/// Checks the kind of a fault and a part of its message.
pub(crate) fn says(fault: &Fault, kind: FaultKind, text: &str) {
    assert_eq!(fault.kind, kind, "{fault}");
    assert!(fault.message.contains(text), "{fault} does not say {text}");
}
