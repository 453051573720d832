//! One node of a domain as a state machine without I/O.
//!
//! Inputs are requests of local processes, orders of other nodes, ends of calls and of processes, and the time; outputs are answers, calls, and processes to start or kill. Drain all outputs after every input.

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

/// Which of a client's requests, by its own count.
pub type Serial = u64;

/// A call that this node makes.
pub type CallNumber = u64;

/// An order of another node that waits for its answer.
pub type Token = u64;

/// What a node is told at the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its id.
    pub me: Id,
    /// All nodes of the domain, the head first.
    pub nodes: Vec<Id>,
    /// Whether the head runs processes, too.
    pub runs: bool,
    /// The name of the domain: databases that it names begin so.
    pub name: String,
    /// How much of everything there may be.
    pub limits: Limits,
    /// The name of this node's host, by which a spawn may ask for it.
    pub host: String,
}

/// What happens at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client asks.
    Request {
        /// Who.
        client: Client,
        /// Which of its requests.
        serial: Serial,
        /// What.
        request: Request,
    },
    /// The link of a client has ended: it reads nothing more, and asks nothing.
    Gone(Client),
    /// Another node, or this one in a call of its own, orders.
    Order {
        /// By which the order is answered; never used twice.
        token: Token,
        /// Who has begun the call.
        root: Id,
        /// What.
        order: Order,
    },
    /// Nobody waits for the answer any more: the call has ended, or the way to its root is lost.
    Cancelled(Token),
    /// A call of this node has ended.
    Called {
        /// Which.
        call: CallNumber,
        /// What each node has said, in the order of the call's ids. Of those who have said nothing, why; whether the id may have taken the order is then unknown.
        reports: Vec<(Id, Result<Report, Fault>)>,
    },
    /// The processes of a group were started here, or not.
    Started {
        /// The group.
        group: GroupId,
        /// For each rank here: its process number, or why there is no process.
        ranks: Vec<(Rank, Result<u32, StartError>)>,
    },
    /// It is known whether the processes of a group can be started here.
    Checked {
        /// The group.
        group: GroupId,
        /// Ranks that cannot be started, and why.
        failed: Vec<(Vec<Rank>, StartError)>,
    },
    /// A process has ended.
    Ended {
        /// Which.
        member: Member,
        /// How.
        exit: Exit,
    },
    /// No process of a group, and nothing that they have started, is left here after it was killed.
    Emptied(GroupId),
    /// The domain is to end, at all nodes: of the head alone. [`Output::End`] follows when nothing is left of it.
    End,
    /// Time has passed.
    Time,
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Answers a client.
    Answer {
        /// Whom.
        client: Client,
        /// To which of its requests.
        serial: Serial,
        /// What.
        answer: Result<Answer, Fault>,
    },
    /// Tells a client of a process that has ended.
    Notice {
        /// Whom.
        client: Client,
        /// What.
        death: Death,
    },
    /// Makes a call: the order to all these nodes, this one among them or not.
    Call {
        /// Which call.
        call: CallNumber,
        /// To whom.
        ids: Vec<Id>,
        /// What.
        order: Arc<Order>,
        /// Whether to go on without nodes that are lost.
        partial: bool,
        /// How long it may take.
        limit: Duration,
    },
    /// Ends a call of this node early: nobody needs its reports.
    Cancel(CallNumber),
    /// Answers an order.
    Report {
        /// Which.
        token: Token,
        /// What.
        report: Report,
    },
    /// Looks whether the processes of a group that are on this node can be started; [`Input::Checked`] says it.
    Check(Arc<Layout>),
    /// Starts the processes of a group that are on this node.
    Start(Arc<Layout>),
    /// Kills what is left of a group here, in two steps; [`Input::Emptied`] says when it is done.
    Kill {
        /// The group.
        group: GroupId,
        /// How long after SIGTERM follows SIGKILL; none: SIGKILL at once.
        grace: Option<Duration>,
    },
    /// Sends a signal to the processes of a group here.
    Signal(GroupId, u8),
    /// A process has asked for the end of its job: what the job's exit status is to be, and why.
    Aborted {
        /// Who.
        member: Member,
        /// The status.
        code: u8,
        /// Why.
        message: String,
    },
    /// At the head: processes of a group could not be started.
    NotStarted(StartFailure),
    /// A process has asked for the end of a group that runs: from now on its processes end because of that. At the head.
    Killed {
        /// The group.
        group: GroupId,
        /// Who.
        by: Member,
        /// How many of its processes had ended before: their deaths are the first that are reported.
        dead: usize,
    },
    /// Something is wrong that whoever has begun the domain wants to know.
    Warning(String),
    /// The domain has ended, as far as this node is concerned: nothing of it is left here.
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
    /// The nodes that the head has taken for lost.
    lost: BTreeSet<Id>,
    /// What was asked here and is not answered yet.
    open: BTreeMap<Client, BTreeSet<Serial>>,
    /// Orders that are not answered yet.
    held: BTreeMap<Token, Held>,
    next_call: CallNumber,
    /// Calls of this node, and what each is for.
    calls: BTreeMap<CallNumber, Errand>,
    /// Groups that are checked here, and who waits for that.
    checks: BTreeMap<GroupId, Whom>,
    /// Groups with processes here.
    here: BTreeMap<GroupId, Here>,
    /// Groups that were to be killed before they were here: an order to start them that was overtaken starts nothing.
    doomed: RecentGroups,
    /// Groups that are gone: what was said of them and was overtaken means nothing.
    forgotten: RecentGroups,
    /// The two groups of each merged one: at the nodes of its members, and at the head.
    merged: BTreeMap<GroupId, (GroupId, GroupId)>,
    /// Who has ended, of all groups, whether they are here or not.
    deaths: BTreeMap<GroupId, Known>,
    /// What other nodes are to know of that.
    died: Died,
    /// Who is told of deaths, of those here.
    subscribers: BTreeMap<GroupId, BTreeSet<Client>>,
    databases: Databases,
    /// Puts into databases that this node has no copy of yet: the head is asked.
    putting: BTreeMap<u64, Putting>,
    next_putting: u64,
    /// Which collective requests there were.
    kinds: Kinds,
    /// Collective requests that members here have come to, or that a coordinator collects for.
    meetings: BTreeMap<Meeting, Gathering>,
    /// Meetings here that have succeeded, and wait for the release of another one that was before them: what that brings they leave out.
    early: BTreeMap<Meeting, (Brought, Answer)>,
    /// Those of which this node is the coordinator.
    collecting: BTreeMap<Meeting, Collecting>,
    /// What the head alone knows.
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

    /// Something has happened, at this time. Drain [`next_output`](Domain::next_output) before the next.
    pub fn handle(&mut self, input: Input, now: Duration) {
        // A clock that goes back is one that stands.
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

    /// What is to be done, one after the other, until there is nothing more.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Time`] is due at the latest, by the clock of `now`.
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.next_due()
    }

    /// The groups that have processes: of the whole domain at its head, of this node elsewhere.
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

    /// Whether nothing waits here: no request, no order, no call, no process. What a node comes to when its domain has ended.
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

    /// All nodes but this one and those that are lost.
    fn others(&self) -> Vec<Id> {
        let others = self.settings.nodes.iter().copied();
        others.filter(|id| *id != self.me() && !self.lost.contains(id)).collect()
    }
}
