//! Nodes of a domain in virtual time: calls that are delayed, cancelled and lost with nodes, processes that start and end, and whoever asks.

mod processes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;
use gpc_bnr::domain::{CallNumber, Domain, Input, Output, Serial, Settings, Token};
use gpc_bnr::names::{GroupId, Member, Rank};
use gpc_bnr::order::{Order, Report};
use gpc_bnr::request::{Answer, Client, Request};
use gpc_bnr::{Death, Exit, Fault, FaultKind, Layout, Limits};

use crate::programs::Programs;
use crate::rng::Rng;

/// What may go wrong in a world: each is one time in so many, 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) nodes: u64,
    /// Whether the head runs processes.
    pub(crate) head_runs: bool,
    /// Nodes that crash, but for the head.
    pub(crate) crashes: u64,
    pub(crate) head_crashes: bool,
    /// Calls that fail though nobody is lost.
    pub(crate) glitches: u64,
    /// Processes that cannot be started.
    pub(crate) not_started: u64,
    /// Processes that end where they should go on.
    pub(crate) deaths: u64,
    /// Collective requests with a short limit.
    pub(crate) short_limits: u64,
    /// Collective requests for something else than the others want.
    pub(crate) mismatches: u64,
    /// Requests beside the programs: kills, names, databases.
    pub(crate) noise: u64,
    /// Messages that take long.
    pub(crate) late: u64,
    /// How many rounds programs have beside the first ones.
    pub(crate) rounds: u64,
}

/// What was seen from outside, in its order.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Asked {
        client: Client,
        serial: Serial,
        request: Request,
    },
    /// `at_once`: in the same turn as it was asked.
    Answered {
        client: Client,
        serial: Serial,
        answer: Result<Answer, Fault>,
        at_once: bool,
    },
    Noticed {
        client: Client,
        death: Death,
    },
    Started {
        layout: Arc<Layout>,
    },
    /// A process is there.
    Runs {
        member: Member,
    },
    /// A process has ended, or could not be started.
    Over {
        member: Member,
        exit: Exit,
    },
    /// Nobody reads at a client's end any more.
    Gone {
        client: Client,
    },
    Crashed(Id),
    /// The head was told to end the domain.
    Ends,
    Ended(Id),
}

/// When something happens, and its number among all.
type When = (u64, u64);

#[derive(Clone, Debug)]
enum Event {
    Deliver { root: Id, call: CallNumber, id: Id, order: Arc<Order> },
    Replied { root: Id, call: CallNumber, id: Id, report: Result<Report, Fault> },
    Stray { root: Id, id: Id, order: Arc<Order> },
    Limit { root: Id, call: CallNumber },
    Cancelled { id: Id, token: Token },
    Runs { member: Member, started: Result<u32, i32> },
    Started { id: Id, group: GroupId },
    Dies { member: Member, exit: Exit },
    Gone { client: Client, id: Id },
    Killed { id: Id, group: GroupId, signal: u8 },
    Acts { client: Client },
    Wakes { id: Id },
    Crashes { id: Id },
    Ends,
}

/// Process numbers, or errors.
type Ranks = Vec<(Rank, Result<u32, i32>)>;

struct Node {
    domain: Domain,
    up: bool,
    ended: bool,
    next_token: Token,
    wake: Option<Duration>,
    /// What it starts, and what is known of that.
    starting: BTreeMap<GroupId, (usize, Ranks)>,
}

struct Flight {
    ids: Vec<Id>,
    partial: bool,
    replies: BTreeMap<Id, Result<Report, Fault>>,
    tokens: BTreeMap<Id, Token>,
    order: Arc<Order>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Starts,
    Runs,
    Over,
}

pub(crate) struct World {
    config: Config,
    rng: Rng,
    now: u64,
    events: BTreeMap<When, Event>,
    count: u64,
    nodes: BTreeMap<Id, Node>,
    flights: BTreeMap<(Id, CallNumber), Flight>,
    tokens: BTreeMap<(Id, Token), (Id, CallNumber)>,
    lives: BTreeMap<Member, (Id, Life)>,
    programs: Programs,
    pub(crate) seen: Vec<Seen>,
    /// When, in microseconds.
    pub(crate) times: Vec<u64>,
    /// What each call was for, of all that were made.
    pub(crate) orders: BTreeMap<String, u64>,
    asking: Option<(Client, Serial)>,
    ends_asked: bool,
}

/// The client that begins everything.
pub(crate) const TOOL: Client = Client::Tool(0);

const MILLI: u64 = 1_000;

/// More than any world needs.
const EVENTS_MAX: usize = 400_000;

impl World {
    pub(crate) fn new(config: Config) -> World {
        let mut rng = Rng::new(config.seed);
        let ids: Vec<Id> = (0..config.nodes).map(|place| (place * 7 % 23 + 3) as Id).collect();
        let mut limits = Limits::default();
        limits.ask = Duration::from_secs(5);
        limits.fence = Duration::from_secs(60);
        limits.grace = Duration::from_secs(1);
        let programs = Programs::new(config, rng.next());
        let mut world = World {
            config,
            rng,
            now: 0,
            events: BTreeMap::new(),
            count: 0,
            nodes: BTreeMap::new(),
            flights: BTreeMap::new(),
            tokens: BTreeMap::new(),
            lives: BTreeMap::new(),
            programs,
            seen: Vec::new(),
            times: Vec::new(),
            orders: BTreeMap::new(),
            asking: None,
            ends_asked: false,
        };
        for &id in &ids {
            let settings = Settings {
                me: id,
                nodes: ids.clone(),
                runs: config.head_runs || ids.len() == 1,
                name: "0123456789abcdef".into(),
                limits,
            };
            let domain = Domain::new(settings, Duration::ZERO);
            let node =
                Node { domain, up: true, ended: false, next_token: 0, wake: None, starting: BTreeMap::new() };
            world.nodes.insert(id, node);
        }
        for &id in &ids {
            world.drain(id);
        }
        world.plan_end(&ids);
        world.programs.begin(TOOL);
        world.after(1, Event::Acts { client: TOOL });
        world
    }

    fn plan_end(&mut self, ids: &[Id]) {
        let span = 8_000 * MILLI;
        for &id in &ids[1..] {
            if self.rng.one_in(self.config.crashes) {
                let at = self.rng.below(span / 2);
                self.after(at, Event::Crashes { id });
            }
        }
        if self.config.head_crashes {
            let at = self.rng.below(span);
            self.after(at, Event::Crashes { id: ids[0] });
        }
        // Long after all programs have ended, mostly.
        let at = if self.rng.one_in(6) { self.rng.below(span) } else { 400_000 * MILLI };
        self.after(at, Event::Ends);
    }

    /// What was asked, and answered.
    pub(crate) fn answers(&self) -> Vec<(&Request, &Result<Answer, Fault>)> {
        let mut asked = BTreeMap::new();
        let mut answers = Vec::new();
        for seen in &self.seen {
            match seen {
                Seen::Asked { client, serial, request } => drop(asked.insert((*client, *serial), request)),
                Seen::Answered { client, serial, answer, .. } => {
                    answers.extend(asked.get(&(*client, *serial)).map(|request| (*request, answer)));
                }
                _ => {}
            }
        }
        answers
    }

    fn see(&mut self, seen: Seen) {
        self.seen.push(seen);
        self.times.push(self.now);
    }

    fn head(&self) -> Id {
        3
    }

    fn after(&mut self, micros: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + micros, self.count), event);
    }

    /// Some time that a message takes: mostly short, now and then long.
    fn delay(&mut self) -> u64 {
        let most = if self.rng.one_in(self.config.late) { 400 * MILLI } else { 5 * MILLI };
        self.rng.below(most) + 1
    }

    /// Runs until nothing happens any more.
    ///
    /// # Errors
    /// That never comes.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        for _ in 0..EVENTS_MAX {
            let Some(((at, _), event)) = self.events.pop_first() else { return self.check_rest() };
            self.now = at;
            self.happen(event);
        }
        Err("things happen for ever".into())
    }

    /// What is left when nothing happens any more.
    fn check_rest(&self) -> Result<(), String> {
        for (id, node) in self.nodes.iter().filter(|(_, node)| node.up) {
            if !node.ended {
                return Err(format!("node {id} has not ended"));
            }
            if !node.domain.is_idle() {
                return Err(format!("node {id} has ended and is not idle: {:?}", node.domain));
            }
        }
        if let Some((key, flight)) = self.flights.iter().next() {
            return Err(format!("call {key:?} has never ended: {:?}", flight.order));
        }
        for (member, (id, life)) in &self.lives {
            if *life != Life::Over && self.nodes[id].up {
                return Err(format!("{member} is left at node {id}"));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver { root, call, id, order } => self.deliver(root, call, id, &order),
            Event::Replied { root, call, id, report } => self.replied(root, call, id, report),
            Event::Stray { root, id, order } => self.stray(root, id, &order),
            Event::Limit { root, call } => self.limit_passed(root, call),
            Event::Cancelled { id, token } => self.input(id, Input::Cancelled(token)),
            Event::Runs { member, started } => self.runs(member, started),
            Event::Started { id, group } => self.started(id, group),
            Event::Dies { member, exit } => self.dies(member, exit),
            Event::Gone { client, id } => {
                self.see(Seen::Gone { client });
                self.input(id, Input::Gone(client));
            }
            Event::Killed { id, group, signal } => self.killed(id, group, signal),
            Event::Acts { client } => self.acts(client),
            Event::Wakes { id } => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.wake = None;
                }
                self.input(id, Input::Time);
            }
            Event::Crashes { id } => self.crashes(id),
            Event::Ends => {
                self.ends_asked = true;
                let head = self.head();
                if self.nodes[&head].up {
                    self.see(Seen::Ends);
                    self.input(head, Input::End);
                }
            }
        }
    }

    fn input(&mut self, id: Id, input: Input) {
        let now = Duration::from_micros(self.now);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.up {
            node.domain.handle(input, now);
            self.drain(id);
        }
    }

    fn drain(&mut self, id: Id) {
        loop {
            let Some(node) = self.nodes.get_mut(&id) else { return };
            let Some(output) = node.domain.next_output() else { break };
            self.carry_out(id, output);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let deadline = node.domain.deadline();
        if deadline != node.wake
            && let Some(due) = deadline
        {
            node.wake = deadline;
            let micros = (due.as_micros() as u64).saturating_sub(self.now);
            self.after(micros, Event::Wakes { id });
        }
    }

    fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Answer { client, serial, answer } => {
                let at_once = self.asking == Some((client, serial));
                self.see(Seen::Answered { client, serial, answer: answer.clone(), at_once });
                self.programs.answered(client, serial, &answer);
                if self.programs.wants(client) {
                    let delay = self.delay();
                    self.after(delay, Event::Acts { client });
                }
            }
            Output::Notice { client, death } => self.see(Seen::Noticed { client, death }),
            Output::Call { call, ids, order, partial, limit } => {
                self.call(id, call, ids, order, partial, limit)
            }
            Output::Cancel(call) => {
                self.end_flight(id, call);
            }
            Output::Report { token, report } => {
                let Some((root, call)) = self.tokens.remove(&(id, token)) else { return };
                if let Some(flight) = self.flights.get_mut(&(root, call)) {
                    flight.tokens.remove(&id);
                }
                let delay = self.delay();
                self.after(delay, Event::Replied { root, call, id, report: Ok(report) });
            }
            Output::Start(layout) => self.start(id, layout),
            Output::Kill { group, grace } => {
                let signal = if grace.is_some() && !self.rng.one_in(3) { 15 } else { 9 };
                let delay = self.delay();
                self.after(delay, Event::Killed { id, group, signal });
            }
            Output::Signal(..) | Output::Aborted { .. } | Output::Warning(_) => {}
            Output::End => self.node_ended(id),
        }
    }

    /// The driver of a node ends: what is left there goes, and nobody answers there any more.
    fn node_ended(&mut self, id: Id) {
        self.see(Seen::Ended(id));
        if let Some(node) = self.nodes.get_mut(&id) {
            node.ended = true;
        }
        self.flights_without(id, false);
    }

    fn call(
        &mut self,
        root: Id,
        call: CallNumber,
        ids: Vec<Id>,
        order: Arc<Order>,
        partial: bool,
        limit: Duration,
    ) {
        assert!(!ids.is_empty() && !ids.contains(&root), "a call to nobody, or to itself: {ids:?}");
        let name = format!("{order:?}");
        let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
        *self.orders.entry(name).or_default() += 1;
        for &id in &ids {
            let delay = self.delay();
            self.after(delay, Event::Deliver { root, call, id, order: order.clone() });
        }
        self.after(limit.as_micros() as u64, Event::Limit { root, call });
        let flight = Flight { ids, partial, replies: BTreeMap::new(), tokens: BTreeMap::new(), order };
        self.flights.insert((root, call), flight);
    }

    fn deliver(&mut self, root: Id, call: CallNumber, id: Id, order: &Arc<Order>) {
        let node = &self.nodes[&id];
        if !node.up || node.ended {
            let lost = !node.up;
            let fault = if lost { lost_fault(id) } else { no_part() };
            let delay = self.delay() + if lost { self.rng.below(300 * MILLI) } else { 0 };
            return self.after(delay, Event::Replied { root, call, id, report: Err(fault) });
        }
        let stands = self.flights.contains_key(&(root, call));
        // A call that has ended may have gone on to this node, or not.
        if !stands && self.rng.one_in(2) {
            return;
        }
        let glitch = stands
            && !matches!(**order, Order::AtHead { .. } | Order::Status(_))
            && self.rng.one_in(self.config.glitches);
        if glitch && self.rng.one_in(2) {
            let delay = self.delay();
            if self.rng.one_in(2) {
                // It comes when nobody waits for it any more.
                let late = delay + self.rng.below(3_000 * MILLI);
                self.after(late, Event::Stray { root, id, order: order.clone() });
            }
            return self.after(delay, Event::Replied { root, call, id, report: Err(glitched()) });
        }
        let Some(token) = self.new_token(id) else { return };
        if let Some(flight) = self.flights.get_mut(&(root, call)) {
            flight.tokens.insert(id, token);
            self.tokens.insert((id, token), (root, call));
        }
        self.input(id, Input::Order { token, root, order: (**order).clone() });
        if !stands {
            let delay = self.delay();
            self.after(delay, Event::Cancelled { id, token });
        } else if glitch {
            // It has taken the order, and its answer is lost.
            self.tokens.remove(&(id, token));
            let delay = self.delay();
            self.after(delay, Event::Cancelled { id, token });
            self.after(delay, Event::Replied { root, call, id, report: Err(glitched()) });
        }
    }

    /// An order that is carried out long after its call has ended.
    fn stray(&mut self, root: Id, id: Id, order: &Arc<Order>) {
        let node = &self.nodes[&id];
        if node.ended {
            return;
        }
        let Some(token) = self.new_token(id) else { return };
        self.input(id, Input::Order { token, root, order: (**order).clone() });
        let delay = self.delay();
        self.after(delay, Event::Cancelled { id, token });
    }

    fn new_token(&mut self, id: Id) -> Option<Token> {
        let node = self.nodes.get_mut(&id)?;
        node.next_token += 1;
        Some(node.next_token)
    }

    fn replied(&mut self, root: Id, call: CallNumber, id: Id, report: Result<Report, Fault>) {
        let Some(flight) = self.flights.get_mut(&(root, call)) else { return };
        if !flight.partial
            && let Err(fault) = report
        {
            return self.called(root, call, &fault);
        }
        flight.replies.entry(id).or_insert(report);
        if flight.replies.len() == flight.ids.len() {
            self.called(root, call, &no_part());
        }
    }

    fn limit_passed(&mut self, root: Id, call: CallNumber) {
        if self.flights.contains_key(&(root, call)) {
            self.called(root, call, &Fault::new(FaultKind::TimedOut, "the call's time has passed"));
        }
    }

    /// A call has ended; who has said nothing, or all where it is not partial, has this fault.
    fn called(&mut self, root: Id, call: CallNumber, fault: &Fault) {
        let Some(flight) = self.end_flight(root, call) else { return };
        let complete = flight.replies.len() == flight.ids.len();
        let said = |id: Id| match flight.replies.get(&id) {
            Some(report) if complete || flight.partial => report.clone(),
            _ => Err(fault.clone()),
        };
        let reports = flight.ids.iter().map(|&id| (id, said(id))).collect();
        self.input(root, Input::Called { call, reports });
    }

    fn end_flight(&mut self, root: Id, call: CallNumber) -> Option<Flight> {
        let flight = self.flights.remove(&(root, call))?;
        for (&id, &token) in &flight.tokens {
            if self.tokens.remove(&(id, token)).is_some() {
                let delay = self.delay();
                self.after(delay, Event::Cancelled { id, token });
            }
        }
        Some(flight)
    }

    /// A node takes part in no call any more: it is lost, or its part of the domain has ended.
    fn flights_without(&mut self, id: Id, lost: bool) {
        let rooted: Vec<_> = self.flights.keys().filter(|(root, _)| *root == id).copied().collect();
        for (root, call) in rooted {
            self.end_flight(root, call);
        }
        let waiting: Vec<_> = self
            .flights
            .iter_mut()
            .filter_map(|(key, flight)| flight.tokens.remove(&id).map(|token| (*key, token)))
            .collect();
        for ((root, call), token) in waiting {
            self.tokens.remove(&(id, token));
            let fault = if lost { lost_fault(id) } else { no_part() };
            let delay = self.delay() + self.rng.below(300 * MILLI);
            self.after(delay, Event::Replied { root, call, id, report: Err(fault) });
        }
    }

    fn crashes(&mut self, id: Id) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.ended || !node.up {
            return;
        }
        node.up = false;
        self.see(Seen::Crashed(id));
        self.flights_without(id, true);
        for (member, (_, life)) in self.lives.iter_mut().filter(|(_, (at, _))| *at == id) {
            *life = Life::Over;
            self.programs.over(Client::Process(*member));
        }
        if id == 3 {
            self.programs.over(TOOL);
        }
    }

    fn node_of(&self, client: Client) -> Option<Id> {
        match client {
            Client::Tool(_) => Some(self.head()),
            Client::Process(member) => {
                self.lives.get(&member).filter(|(_, life)| *life == Life::Runs).map(|(id, _)| *id)
            }
        }
    }
}

fn lost_fault(id: Id) -> Fault {
    let mut fault = Fault::new(FaultKind::NodeLost, format!("node {id}: its link is lost"));
    fault.node = Some(id);
    fault
}

fn no_part() -> Fault {
    Fault::new(FaultKind::System, "this node has no part in such a domain")
}

fn glitched() -> Fault {
    Fault::new(FaultKind::System, "too much at the moment")
}
