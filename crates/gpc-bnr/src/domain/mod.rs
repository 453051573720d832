//! One node of a domain as a state machine without I/O.
//!
//! Inputs are requests of local processes, orders of other nodes, the ends of calls and processes, and the time.
//! Outputs are answers, calls, and processes to start or kill. Drain all outputs after every input.

mod awaited_names;
mod calls;
mod collective;
mod colors;
mod coordinator;
mod database;
mod deaths;
mod derived;
mod epochs;
mod errno;
mod events;
mod faults;
mod fetch;
mod group;
mod groups;
mod head;
mod head_requests;
#[cfg(any(feature = "sim", feature = "snapshot"))]
mod held;
mod host_names;
mod ids;
mod known_deaths;
mod life;
mod local;
mod mapping;
mod meeting;
mod missing;
mod names;
mod outgoing;
mod overview;
mod pending;
mod placement;
mod requests;
mod room;
mod sets;
mod soft;
mod spawned;
mod starting;
mod timers;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use chained_gpc::trees::Id;

use crate::limits::Limits;
use crate::names::GroupId;
use crate::order::Report;
use crate::roster::Roster;

use self::collective::Collective;
use self::database::Databases;
use self::head::Head;
use self::known_deaths::Deaths;
use self::life::{Life, WatchState};
use self::local::Local;
use self::outgoing::Outgoing;
use self::pending::Pending;
use self::timers::Timers;

pub use self::events::{CallNumber, Input, Output, Serial, Token};

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
    /// At the head: number of processes that each node is to run. If it is empty, processes are divided evenly.
    pub slots: BTreeMap<Id, u32>,
    /// At the head: the addresses by which nodes reach each other, without ports. A node without one is reached by the
    /// loopback address.
    pub addresses: BTreeMap<Id, String>,
    /// Host name of this node, for the `host` hint of a spawn.
    pub host: String,
    /// Time of silence after which the nodes take a peer for lost; `None` for the default of a chained-GPC node.
    pub dead_after: Option<Duration>,
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
    /// The watch between the head and the other nodes.
    watch: WatchState,
    /// The nodes that the head has declared lost.
    lost: BTreeSet<Id>,
    /// Requests and orders that are not yet answered.
    pending: Pending,
    /// Calls of this node, and the purpose of each.
    outgoing: Outgoing,
    /// Groups at this node: being checked, with processes, or not to be started.
    local: Local,
    /// Groups that were made of members of others: at the nodes of their members, and at the head.
    rosters: BTreeMap<GroupId, Roster>,
    /// Known deaths, and the receivers of their notices.
    deaths: Deaths,
    /// Copies of databases.
    databases: Databases,
    /// Collective requests.
    collective: Collective,
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
            watch: WatchState::default(),
            lost: BTreeSet::new(),
            pending: Pending::default(),
            outgoing: Outgoing::default(),
            local: Local::default(),
            rosters: BTreeMap::new(),
            deaths: Deaths::default(),
            databases: Databases::default(),
            collective: Collective::default(),
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
            Input::Checked { group, failed, port, pmix, mpi } => {
                self.checked(group, failed, Report::Checked { port, pmix, mpi });
            }
            Input::Fetched { number, data } => self.fetched(number, data),
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
            None => {
                self.local.groups.iter().filter(|(_, here)| !here.emptied).map(|(group, _)| *group).collect()
            }
        }
    }

    /// At the head: the nodes of the processes that read standard input.
    pub fn readers(&self) -> Vec<Id> {
        self.head.as_ref().map(|head| head.readers()).unwrap_or_default()
    }

    /// Whether nothing is pending here: no request, order, call or process. True at a node whose domain has ended.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
            && self.outgoing.is_empty()
            && self.collective.is_empty()
            && self.local.is_empty()
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
