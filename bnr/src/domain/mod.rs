//! One node of a domain as a state machine without I/O.
//!
//! Inputs are requests of local processes, orders of other nodes, the ends of calls and processes, and the time.
//! Outputs are answers, calls, and processes to start or kill. Drain all outputs after every input.

mod asking;
mod collecting;
mod database;
mod deaths;
mod groups;
mod head;
mod ids;
mod kinds;
mod mapping;
mod meeting;
mod missing;
mod names;
mod overview;
mod placement;
mod sets;
mod soft;
mod spawned;
mod starting;
mod telling;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank};
use crate::order::{Brought, Meeting, Order, Report};
use crate::request::{Answer, Client, Request};
use crate::spec::Layout;
use crate::start_error::{StartError, StartFailure};

use self::asking::{Held, Putting};
use self::collecting::Collecting;
use self::database::Databases;
use self::deaths::{Died, Known};
use self::head::Head;
use self::ids::RecentGroups;
use self::kinds::Kinds;
use self::meeting::Gathering;
use self::starting::{Here, Whom};
use self::telling::{Errand, Timers};
use self::watch::{Life, Watched};

/// Number of a request, chosen by its client.
pub type Serial = u64;

/// Number of a call that this node makes.
pub type CallNumber = u64;

/// Identifies an order that waits for its reply.
pub type Token = u64;

/// Parameters of a node, fixed for the life of the domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The node's id.
    pub me: Id,
    /// All nodes of the domain, the head first.
    pub nodes: Vec<Id>,
    /// Whether the head runs processes as well.
    pub runs: bool,
    /// The name of the domain, which is part of the names of its databases.
    pub name: String,
    /// The bounds of the domain.
    pub limits: Limits,
    /// Host name of this node, for the `host` hint of a spawn.
    pub host: String,
}

/// An event at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client sends a request.
    Request {
        /// The client.
        client: Client,
        /// The number of the request.
        serial: Serial,
        /// The request.
        request: Request,
    },
    /// The link of a client has closed: the client sends no more requests and reads no more answers.
    Gone(Client),
    /// An order arrives from another node, or from this node in a call of its own.
    Order {
        /// Identifies the reply; never used twice.
        token: Token,
        /// The node that began the call.
        root: Id,
        /// The order.
        order: Order,
    },
    /// The reply is no longer needed: the call has ended, or the path to its root is lost.
    Cancelled(Token),
    /// A call of this node has ended.
    Called {
        /// The number of the call.
        call: CallNumber,
        /// The report of each node, in the order of the call's ids. A node without a report has a fault; such a node
        /// may have executed the order.
        reports: Vec<(Id, Result<Report, Fault>)>,
    },
    /// The driver has started the processes of a group here, or has failed to.
    Started {
        /// The group.
        group: GroupId,
        /// For each rank here, its process id or the reason why it was not started.
        ranks: Vec<(Rank, Result<u32, StartError>)>,
    },
    /// The driver has checked whether the processes of a group can be started here.
    Checked {
        /// The group.
        group: GroupId,
        /// Ranks that cannot be started, and the reason.
        failed: Vec<(Vec<Rank>, StartError)>,
    },
    /// A process has ended.
    Ended {
        /// The process.
        member: Member,
        /// How it ended.
        exit: Exit,
    },
    /// A killed group has left nothing here: all its processes and their descendants have ended.
    Emptied(GroupId),
    /// Ends the domain at all nodes; for the head alone. [`Output::End`] follows when nothing of it is left.
    End,
    /// Time has passed.
    Time,
}

/// An action for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answer a client.
    Answer {
        /// The client.
        client: Client,
        /// The number of the request.
        serial: Serial,
        /// The answer.
        answer: Result<Answer, Fault>,
    },
    /// Notify a client of a process that has ended.
    Notice {
        /// The client.
        client: Client,
        /// The death.
        death: Death,
    },
    /// Make a call that carries the order to all of these nodes. They may include this node.
    Call {
        /// The number of the call.
        call: CallNumber,
        /// The nodes.
        ids: Vec<Id>,
        /// The order.
        order: Arc<Order>,
        /// Whether the call continues without nodes that are lost.
        partial: bool,
        /// Time limit of the call.
        limit: Duration,
    },
    /// Cancel a call of this node: its reports are no longer needed.
    Cancel(CallNumber),
    /// Reply to an order.
    Report {
        /// Identifies the order.
        token: Token,
        /// The report.
        report: Report,
    },
    /// Check whether the processes of a group on this node can be started; [`Input::Checked`] has the result.
    Check(Arc<Layout>),
    /// Start the processes of a group on this node; [`Input::Started`] has the result.
    Start(Arc<Layout>),
    /// Kill the remaining processes of a group here, by SIGTERM, then by SIGKILL; [`Input::Emptied`] follows.
    Kill {
        /// The group.
        group: GroupId,
        /// Time between SIGTERM and SIGKILL; `None`: SIGKILL at once.
        grace: Option<Duration>,
    },
    /// Send a signal to the processes of a group here.
    Signal(GroupId, u8),
    /// A process has aborted its job.
    Aborted {
        /// The process.
        member: Member,
        /// Exit status for the job.
        code: u8,
        /// The reason.
        message: String,
    },
    /// Processes of a group could not be started. Emitted at the head alone.
    NotStarted(StartFailure),
    /// A group that a process has spawned was started. Emitted at the head alone.
    Spawned {
        /// The group.
        group: GroupId,
        /// Number of its processes.
        count: u32,
    },
    /// A process has requested the kill of a running group, which explains its later deaths. Emitted at the head alone.
    Killed {
        /// The group.
        group: GroupId,
        /// The process.
        by: Member,
        /// Number of the group's processes that had ended before; theirs are the first deaths that are reported.
        dead: usize,
    },
    /// A problem to report to the application that began the domain.
    Warning(String),
    /// The domain has ended at this node: nothing of it is left here.
    End,
}

/// One node of a domain.
#[derive(Debug)]
pub struct Domain {
    settings: Settings,
    now: Duration,
    /// Drained after each input.
    outputs: VecDeque<Output>,
    timers: Timers,
    /// Whether the domain begins, runs or ends.
    life: Life,
    watched: Watched,
    /// The nodes that the head has declared lost.
    lost: BTreeSet<Id>,
    /// Requests of local clients that are not yet answered.
    open: BTreeMap<Client, BTreeSet<Serial>>,
    /// Orders that are not yet answered.
    held: BTreeMap<Token, Held>,
    next_call: CallNumber,
    /// Calls of this node, and the purpose of each.
    calls: BTreeMap<CallNumber, Errand>,
    /// Groups that are being checked here, and where each result goes.
    checks: BTreeMap<GroupId, Whom>,
    /// Groups with processes here.
    here: BTreeMap<GroupId, Here>,
    /// Groups killed before their start order arrived here: a delayed start order is refused.
    doomed: RecentGroups,
    /// Groups that were removed: delayed messages about them are ignored.
    forgotten: RecentGroups,
    /// The two parts of each merged group: at the nodes of its members, and at the head.
    merged: BTreeMap<GroupId, (GroupId, GroupId)>,
    /// Known deaths of all groups, including groups without processes here.
    deaths: BTreeMap<GroupId, Known>,
    /// Deaths that other nodes are yet to learn.
    died: Died,
    /// Local clients that receive notices, by group.
    subscribers: BTreeMap<GroupId, BTreeSet<Client>>,
    databases: Databases,
    /// Puts into databases without a copy here: the head is asked whether the database exists.
    putting: BTreeMap<u64, Putting>,
    next_putting: u64,
    /// Counters of collective requests.
    kinds: Kinds,
    /// Collective requests that members here have entered, or that a coordinator collects for.
    meetings: BTreeMap<Meeting, Gathering>,
    /// Collective requests that have succeeded here and wait for the release of an earlier one, which delivers puts
    /// that they omit.
    early: BTreeMap<Meeting, (Brought, Answer)>,
    /// Collective requests that this node coordinates.
    collecting: BTreeMap<Meeting, Collecting>,
    /// State that only the head has; `None` at other nodes.
    head: Option<Head>,
}

impl Domain {
    /// A node of a domain that begins now. `now` is measured from any fixed point.
    pub fn new(settings: Settings, now: Duration) -> Domain {
        let leads = settings.nodes.first().is_none_or(|head| *head == settings.me);
        let mut domain = Domain {
            settings,
            now,
            outputs: VecDeque::new(),
            timers: Timers::default(),
            life: Life::default(),
            watched: Watched::default(),
            lost: BTreeSet::new(),
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            next_call: 0,
            calls: BTreeMap::new(),
            checks: BTreeMap::new(),
            here: BTreeMap::new(),
            doomed: RecentGroups::default(),
            forgotten: RecentGroups::default(),
            merged: BTreeMap::new(),
            deaths: BTreeMap::new(),
            died: Died::default(),
            subscribers: BTreeMap::new(),
            databases: Databases::default(),
            putting: BTreeMap::new(),
            next_putting: 0,
            kinds: Kinds::default(),
            meetings: BTreeMap::new(),
            early: BTreeMap::new(),
            collecting: BTreeMap::new(),
            head: leads.then(Head::default),
        };
        domain.begin();
        domain
    }

    /// Handles an event at this time. Drain [`next_output`](Domain::next_output) before the next call.
    pub fn handle(&mut self, input: Input, now: Duration) {
        // If the clock goes back, the machine's time stands still.
        self.now = self.now.max(now);
        match input {
            Input::Request { client, serial, request } => self.request(client, serial, request),
            Input::Gone(client) => self.client_gone(client),
            Input::Order { token, root, order } => self.order(token, root, order),
            Input::Cancelled(token) => self.cancelled(token),
            Input::Called { call, reports } => self.called(call, reports),
            Input::Checked { group, failed } => self.checked(group, failed),
            Input::Started { group, ranks } => self.started(group, &ranks),
            Input::Ended { member, exit } => self.ended(member, exit),
            Input::Emptied(group) => self.emptied(group),
            Input::End => self.end(None),
            Input::Time => {}
        }
        self.fire_timers();
    }

    /// The next action; `None` when all are drained.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time at which [`Input::Time`] is due, on the clock of `now`.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.next_due()
    }

    /// The groups that have processes: in the whole domain at its head, on this node elsewhere.
    pub fn running(&self) -> Vec<GroupId> {
        match &self.head {
            Some(_) => self.running_groups(),
            None => self.here.iter().filter(|(_, here)| !here.emptied).map(|(group, _)| *group).collect(),
        }
    }

    /// At the head: the node of the process that reads standard input, if there is one.
    pub fn reader(&self) -> Option<Id> {
        self.head.as_ref()?.reader()
    }

    /// Whether nothing is pending here: no request, order, call or process. True at a node whose domain has ended.
    pub fn is_idle(&self) -> bool {
        self.open.values().all(BTreeSet::is_empty)
            && self.held.is_empty()
            && self.calls.is_empty()
            && self.meetings.is_empty()
            && self.collecting.is_empty()
            && self.here.values().all(|here| here.emptied)
    }

    fn me(&self) -> Id {
        self.settings.me
    }

    fn head_id(&self) -> Id {
        self.settings.nodes.first().copied().unwrap_or(self.settings.me)
    }

    /// All nodes except this one and the lost ones.
    fn others(&self) -> Vec<Id> {
        let others = self.settings.nodes.iter().copied();
        others.filter(|id| *id != self.me() && !self.lost.contains(id)).collect()
    }
}
