//! PMIx: translates the upcalls of a node's PMIx server to requests, and the answers back. No I/O.
//!
//! The server runs in a helper process ([`gpc_pmix::server`]). It tells [`Event`]s and takes [`Order`]s. A group that
//! is served is a PMIx namespace, with the name of the group's database; ranks are the same in both. libpmix counts the
//! members of a collective request on its node and calls up once; the node then enters for each of them.

mod collective;
mod directives;
mod group_data;
mod jobs;
mod known;
mod names;
mod pending;
mod publishing;
mod spawning;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use chained_gpc::trees::Id;
use gpc_pmix::server::{Answer as Reply, Event, Info, LOCAL_ONLY, Order, Process, Upcall, Value};

use self::directives::{AFFECTED, ASSIGN_ID, flag};
use self::known::Known;
use self::names::Names;
use self::pending::{Entry, Kind, Part, Pending};
use self::status::status_of;
use crate::domain::Serial;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Rank};
use crate::request::{Answer, Client, Request};
use crate::spec::OnDeath;

pub(crate) use self::known::Variables;

/// The client that stands for the server of a node, in requests that no process makes.
pub(crate) const SERVER: Client = Client::Tool(u64::MAX);

/// Bit of the serials of requests that the server makes for processes. Processes that use PMI count theirs from 0.
const SERIALS: Serial = 1 << 63;

/// Time limit of a collective request without one of its own: as long as any job. A process may work for days before it
/// enters a barrier or a disconnect that the others have entered.
const JOB_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Most unanswered questions for the data of processes elsewhere; later ones wait. A client has 1,024 requests.
const FETCHES_MAX: usize = 512;

/// An action for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Send an order to the helper.
    Order(Order),
    /// Make a request for a process, or for the server.
    Request {
        /// The process.
        client: Client,
        /// Number of the request.
        serial: Serial,
        /// The request.
        request: Request,
    },
    /// The processes of a group here can be started, with these variables; or the reason why not.
    Prepared(GroupId, Result<BTreeMap<Rank, Variables>, String>),
    /// The data of a process here, or the reason why there are none.
    Fetched(u64, Result<Vec<u8>, Fault>),
}

/// The translation of one node, for one helper process.
#[derive(Debug)]
pub(crate) struct Translation {
    me: Id,
    names: Names,
    /// Drained after each input.
    actions: VecDeque<Action>,
    /// The groups that the helper knows.
    groups: BTreeMap<GroupId, Known>,
    next: Serial,
    /// Requests that are not answered yet: the upcall that each is a part of.
    waiting: BTreeMap<(Client, Serial), (u64, Part)>,
    upcalls: BTreeMap<u64, Pending>,
    /// Upcalls for the data of processes, beyond the first ones.
    queued: VecDeque<(u64, Member)>,
    /// Number of those that were asked.
    fetching: usize,
    /// Keys that processes have published.
    published: BTreeMap<Process, BTreeSet<String>>,
    /// Number of groups of PMIx to which this node has proposed an identifier.
    proposed: u32,
    /// Questions of other nodes that the helper has not answered.
    questions: BTreeSet<u64>,
}

impl Translation {
    /// For a node of a domain with this name.
    pub(crate) fn new(me: Id, domain: &str) -> Translation {
        Translation {
            me,
            names: Names::new(domain),
            actions: VecDeque::new(),
            groups: BTreeMap::new(),
            next: SERIALS,
            waiting: BTreeMap::new(),
            upcalls: BTreeMap::new(),
            queued: VecDeque::new(),
            fetching: 0,
            published: BTreeMap::new(),
            proposed: 0,
            questions: BTreeSet::new(),
        }
    }

    /// The next action; `None` when all are drained.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether the group has processes here that are served.
    pub(crate) fn serves(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(Known::is_local)
    }

    /// The helper has told something.
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Registered { namespace, failed } => self.registered(&namespace, failed),
            Event::Environment { process, variables } => self.environment(&process, variables),
            Event::Data { serial, data } => self.question_answered(serial, data),
            Event::Upcall { serial, upcall } => self.upcall(serial, upcall),
            // The driver handles the events of the helper itself.
            _ => {}
        }
    }

    fn upcall(&mut self, serial: u64, upcall: Upcall) {
        let supported = directives::are_supported(&upcall);
        let enter =
            |kind, name, processes, data, info| Entry { kind, name, processes, data, info, supported };
        let none = String::new;
        let done = match upcall {
            Upcall::Connected(process) => return self.connected(&process),
            Upcall::Finalized(process) => {
                self.tell(&process, Request::Finalize);
                Ok(())
            }
            Upcall::Abort { process, status, message, processes } => {
                self.abort(&process, status, &message, &processes)
            }
            Upcall::Fence { processes, data, info } => {
                self.meet(serial, enter(Kind::Fence, none(), processes, data, info))
            }
            Upcall::Connect { processes, info } => {
                self.meet(serial, enter(Kind::Connect, none(), processes, Vec::new(), info))
            }
            Upcall::Disconnect { processes, info } => {
                self.meet(serial, enter(Kind::Disconnect, none(), processes, Vec::new(), info))
            }
            Upcall::Group { constructs: true, processes, info, .. }
                if supported && flag(&info, LOCAL_ONLY) =>
            {
                return self.local_group(serial, &processes, &info);
            }
            Upcall::Group { constructs: true, name, processes, info } => {
                let data = group_data::brought(self.proposal(), &info);
                self.meet(serial, enter(Kind::Construct, name, processes, data, info))
            }
            Upcall::Group { constructs: false, name, processes, info } => {
                self.meet(serial, enter(Kind::Destruct, name, processes, Vec::new(), info))
            }
            // A meeting fails at all nodes at once; other requests concern this node alone.
            _ if !supported => Err(status::NOT_SUPPORTED),
            Upcall::Fetch { process, .. } => self.fetch(serial, &process),
            Upcall::Publish { process, info } => self.publish(serial, &process, info),
            Upcall::Lookup { process, keys, info } => self.lookup(serial, process, keys, &info),
            Upcall::Unpublish { process, keys, .. } => self.unpublish(serial, &process, keys),
            Upcall::Spawn { process, info, applications } => {
                self.spawn(serial, &process, &info, applications)
            }
            Upcall::Control { process, targets, info } => self.control(serial, &process, &targets, &info),
            // Events between processes have no counterpart in a domain.
            _ => Err(status::NOT_SUPPORTED),
        };
        match done {
            // Something waits for an answer, which then answers the upcall.
            Ok(()) if self.upcalls.contains_key(&serial) => {}
            Ok(()) => self.reply(serial, Ok(Reply::Done)),
            Err(status) => {
                self.upcalls.remove(&serial);
                self.reply(serial, Err(status));
            }
        }
    }

    /// A group of PMIx whose members are all here, and have all called.
    fn local_group(&mut self, serial: u64, processes: &[Process], info: &[Info]) {
        let data = group_data::brought(self.proposal(), info);
        let facts = group_data::infos(&data, processes, flag(info, ASSIGN_ID));
        self.reply(serial, facts.map(Reply::Infos).ok_or(status::ERROR));
    }

    /// An identifier that no other group of the domain has. Open MPI itself uses 0, and numbers of 32 bits are those of
    /// other launchers.
    fn proposal(&mut self) -> u64 {
        self.proposed = self.proposed.wrapping_add(1);
        (u64::from(self.me) + 1) << 32 | u64::from(self.proposed)
    }

    fn reply(&mut self, serial: u64, answer: Result<Reply, i32>) {
        self.actions.push_back(Action::Order(Order::Answer { serial, answer }));
    }

    /// Answers an upcall that waits.
    fn finish(&mut self, upcall: u64, answer: Result<Reply, i32>) {
        if self.upcalls.remove(&upcall).is_some() {
            self.reply(upcall, answer);
        }
    }

    /// Makes a request that is a part of an upcall.
    fn ask(&mut self, client: Client, upcall: u64, part: Part, request: Request) {
        let serial = self.next;
        self.next += 1;
        if part != Part::Ignored {
            self.waiting.insert((client, serial), (upcall, part));
        }
        self.actions.push_back(Action::Request { client, serial, request });
    }

    /// Makes a request for a process, without interest in its answer.
    fn tell(&mut self, process: &Process, request: Request) {
        if let Some(member) = self.local_member(process) {
            self.ask(Client::Process(member), 0, Part::Ignored, request);
        }
    }

    fn connected(&mut self, process: &Process) {
        if let Some(member) = self.local_member(process)
            && let Some(known) = self.groups.get_mut(&member.group)
        {
            known.connects(member.rank);
        }
        self.tell(process, Request::Init);
        if let Some(group) = self.names.group(&process.namespace) {
            self.end_vain_wait(group);
        }
    }

    /// Ends the job of processes that wait for one that has ended without having connected: libpmix has no way to stop
    /// their fences.
    fn end_vain_wait(&mut self, group: GroupId) {
        let Some((rank, absent)) = self.groups.get_mut(&group).and_then(|known| {
            let found = known.waits_in_vain();
            // Once.
            known.absent = known.absent.filter(|_| found.is_none());
            found
        }) else {
            return;
        };
        let message = format!(
            "{} has ended before PMIx_Init, and libpmix would let the others wait for it",
            Member { group, rank: absent }
        );
        let client = Client::Process(Member { group, rank });
        self.ask(client, 0, Part::Ignored, Request::Abort { code: 1, message });
    }

    /// Whether a process here speaks PMIx, so that it does not need the socket for PMI.
    pub(crate) fn speaks(&self, member: Member) -> bool {
        self.groups.get(&member.group).is_some_and(|known| known.has_connected(member.rank))
    }

    /// The process, if it runs here.
    fn local_member(&self, process: &Process) -> Option<Member> {
        let member = self.names.member(process)?;
        self.groups.get(&member.group)?.runs(member.rank).then_some(member)
    }

    /// Ends the job of a process, and the jobs of the other processes that it names.
    fn abort(
        &mut self,
        process: &Process,
        status: i32,
        message: &[u8],
        processes: &[Process],
    ) -> Result<(), i32> {
        let member = self.local_member(process).ok_or(status::BAD_PARAM)?;
        let client = Client::Process(member);
        let others: BTreeSet<GroupId> =
            processes.iter().filter_map(|process| self.names.group(&process.namespace)).collect();
        for other in others.iter().filter(|group| **group != member.group) {
            self.ask(client, 0, Part::Ignored, Request::Kill(*other));
        }
        if others.is_empty() || others.contains(&member.group) {
            let code = crate::pmi::exit_status(Some(status.into()));
            let message = String::from_utf8_lossy(message).into_owned();
            self.ask(client, 0, Part::Ignored, Request::Abort { code, message });
        }
        Ok(())
    }

    /// Asks the node of a process for its data.
    fn fetch(&mut self, upcall: u64, process: &Process) -> Result<(), i32> {
        // The data of a whole job are those of its registration.
        let member = self.names.member(process).ok_or(status::NOT_FOUND)?;
        self.upcalls.insert(upcall, Pending::Fetch);
        self.queued.push_back((upcall, member));
        self.fetch_next();
        Ok(())
    }

    fn fetch_next(&mut self) {
        // Terminates: each iteration takes one, and adds one to those that were asked.
        while self.fetching < FETCHES_MAX
            && let Some((upcall, member)) = self.queued.pop_front()
        {
            self.fetching += 1;
            self.ask(SERVER, upcall, Part::Fetch, Request::Fetch(member));
        }
    }

    /// The domain asks for the data of a process here.
    pub(crate) fn question(&mut self, number: u64, member: Member) {
        if self.groups.get(&member.group).is_some_and(|known| known.runs(member.rank)) {
            self.questions.insert(number);
            let process = self.names.process(member);
            return self.actions.push_back(Action::Order(Order::Data { serial: number, process }));
        }
        let message = format!("node {} does not serve PMIx to {member}", self.me);
        self.actions.push_back(Action::Fetched(number, Err(Fault::new(FaultKind::Unsupported, message))));
    }

    /// Whether this translation has made a request.
    pub(crate) fn is_own(&self, client: Client, serial: Serial) -> bool {
        client == SERVER || (SERIALS..self.next).contains(&serial)
    }

    fn question_answered(&mut self, number: u64, data: Result<Vec<u8>, i32>) {
        if self.questions.remove(&number) {
            let fault = |status| {
                Fault::new(FaultKind::System, format!("its PMIx server answers with status {status}"))
            };
            self.actions.push_back(Action::Fetched(number, data.map_err(fault)));
        }
    }

    /// The domain has answered a request.
    pub(crate) fn answered(&mut self, client: Client, serial: Serial, answer: Result<Answer, Fault>) {
        let Some((upcall, part)) = self.waiting.remove(&(client, serial)) else { return };
        match part {
            Part::Ignored => {}
            Part::Member => self.met(upcall, client, answer),
            Part::Fetch => {
                self.fetching -= 1;
                self.fetch_next();
                let data = match answer {
                    Ok(Answer::Value(data)) => Ok(Reply::Data(data)),
                    Ok(_) => Err(status::ERROR),
                    Err(fault) => Err(status_of(&fault)),
                };
                self.finish(upcall, data);
            }
            Part::One => self.one_done(upcall, answer.err().map(|fault| status_of(&fault))),
            Part::Published(process, key) => {
                if answer.is_ok() {
                    self.published.entry(process).or_default().insert(key);
                }
                self.one_done(upcall, answer.err().map(|fault| status_of(&fault)));
            }
            Part::Key(key) => self.looked_up(upcall, key, answer),
            Part::Spawn => self.spawned(upcall, answer),
            Part::Layout(group) => self.layout_known(group, answer),
        }
    }

    /// A process has ended, anywhere: tells the processes of its job here.
    pub(crate) fn notice(&mut self, death: &Death) {
        let member = death.member;
        let notified =
            self.groups.get(&member.group).is_some_and(|known| known.layout.on_death == OnDeath::Notify);
        if notified && !death.is_clean() {
            let source = self.names.process(member);
            let to = source.namespace.clone();
            let affected = Info::new(AFFECTED, Value::process(&source));
            let notify = Order::Notify { code: status::PROC_ABORTED, source, to, info: vec![affected] };
            self.actions.push_back(Action::Order(notify));
        }
    }

    /// A process of this node has ended.
    pub(crate) fn ended(&mut self, member: Member, exit: Exit) {
        let Some(known) = self.groups.get_mut(&member.group) else { return };
        if known.ends(member.rank, exit) {
            let process = self.names.process(member);
            self.published.remove(&process);
            self.actions.push_back(Action::Order(Order::Ended(process)));
        }
        self.end_vain_wait(member.group);
        let client = Client::Process(member);
        let lost: Vec<Serial> = (self.waiting.range((client, 0)..=(client, Serial::MAX)))
            .map(|((_, serial), _)| *serial)
            .collect();
        for serial in lost {
            let fault = Fault::new(FaultKind::MemberDied, format!("{member} has ended"));
            self.answered(client, serial, Err(fault));
        }
    }

    /// Nothing of a group is left here.
    pub(crate) fn emptied(&mut self, group: GroupId) {
        self.drop_group(group);
        if !self.groups.values().any(Known::is_local) {
            // Nobody here needs the groups elsewhere any more.
            let elsewhere: Vec<GroupId> = self.groups.keys().copied().collect();
            elsewhere.into_iter().for_each(|group| self.drop_group(group));
        }
    }

    /// The domain has forgotten a group. One with processes here is dropped when nothing of it is left.
    pub(crate) fn forgotten(&mut self, group: GroupId) {
        if !self.serves(group) {
            self.drop_group(group);
        }
    }

    /// The helper has gone: nothing of it is answered any more. Returns a living process of each group that it served.
    pub(crate) fn lost(&mut self, why: &str) -> Vec<Member> {
        self.actions.retain(|action| !matches!(action, Action::Order(_)));
        for number in std::mem::take(&mut self.questions) {
            let fault = Fault::new(FaultKind::System, why);
            self.actions.push_back(Action::Fetched(number, Err(fault)));
        }
        let mut members = Vec::new();
        for (group, known) in std::mem::take(&mut self.groups) {
            if known.is_being_prepared() {
                self.actions.push_back(Action::Prepared(group, Err(why.to_owned())));
            } else {
                members.extend(known.first_alive().map(|rank| Member { group, rank }));
            }
        }
        self.waiting.clear();
        self.upcalls.clear();
        self.queued.clear();
        self.published.clear();
        self.fetching = 0;
        members
    }
}
