//! What the head alone knows: all groups, the names of all databases, and the global names.
//!
//! Source: BNR, "Process groups", "Thoughts about BNR Domains".

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::group::database_of;
use super::node::{Domain, Flight, ReplyTo, no_database};
use super::{Output, store};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Rank};
use crate::order::Order;
use crate::request::{Answer, Client, GroupState, GroupStatus, MemberStatus, Pair, Request};
use crate::spec::{Layout, OnDeath, Spec};

/// Most groups that one answer tells of.
const GROUPS_TOLD: usize = 4096;

/// What the head knows.
#[derive(Debug, Default)]
pub(super) struct Head {
    next_group: u32,
    next_database: u32,
    pub(super) groups: BTreeMap<GroupId, Known>,
    /// Groups that have ended, the oldest first.
    ended: VecDeque<GroupId>,
    pub(super) databases: BTreeSet<String>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A group, as the head knows it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) parent: Option<GroupId>,
    pub(super) state: GroupState,
    pub(super) specs: Vec<Spec>,
    pub(super) preputs: Vec<Pair>,
    pub(super) on_death: OnDeath,
    pub(super) input: bool,
    pub(super) since: Duration,
    pub(super) layout: Option<Arc<Layout>>,
    pub(super) pids: BTreeMap<Rank, u32>,
    pub(super) deaths: BTreeMap<Rank, Death>,
    /// Who waits for its size.
    pub(super) waits: Vec<ReplyTo>,
}

impl Head {
    /// Whether processes can be spawned into a group.
    pub(super) fn is_open(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(|known| known.state == GroupState::Open)
    }

    /// The nodes' loads: how many processes run on each.
    pub(super) fn load(&self, node: chained_gpc::Id) -> usize {
        let layouts = self.groups.values().filter(|known| known.state != GroupState::Ended);
        layouts.filter_map(|known| known.layout.as_ref()).map(|layout| layout.ranks_on(node).count()).sum()
    }

    fn new_group(&mut self, parent: Option<GroupId>, state: GroupState, since: Duration) -> GroupId {
        self.next_group += 1;
        let id = GroupId(self.next_group);
        let known = Known {
            parent,
            state,
            specs: Vec::new(),
            preputs: Vec::new(),
            on_death: OnDeath::Kill,
            input: false,
            since,
            layout: None,
            pids: BTreeMap::new(),
            deaths: BTreeMap::new(),
            waits: Vec::new(),
        };
        self.groups.insert(id, known);
        id
    }
}

pub(super) fn no_group(group: GroupId) -> Fault {
    Fault::new(FaultKind::NoGroup, format!("there is no group {group} in this domain"))
}

impl Domain {
    /// Answers what needs the head. At other nodes there is none, and nobody asks.
    pub(super) fn at_head(&mut self, client: Client, request: Request, to: ReplyTo) {
        let answer = match request {
            Request::Open { .. } => self.open(client),
            Request::Spawn { group, specs, preputs, on_death } => self.add(group, specs, preputs, on_death),
            Request::Close { group, .. } => return self.launch(group, to),
            Request::SpawnMultiple { specs, preputs, on_death, input } => {
                return self.spawn(client, specs, preputs, on_death, input, to);
            }
            Request::Merge { first, second, .. } => self.merge(first, second),
            Request::Free(group) => self.free(group),
            Request::Kill(group) => return self.kill_group(group, to),
            Request::Size(group) => return self.size(group, to),
            Request::Status(group) => self.status(group).map(|status| Answer::Groups(vec![status])),
            Request::Groups => Ok(self.all_groups()),
            Request::Create(name) => self.create(name),
            Request::Destroy(name) => self.destroy(&name),
            Request::Databases => Ok(self.databases()),
            Request::Deposit(pair) => self.deposit(pair),
            Request::Withdraw(key) => self.withdraw(&key),
            Request::Lookup(key) => self.lookup(&key),
            Request::Abort { code, message } => return self.aborted(client, code, message),
            _ => Err(Fault::new(FaultKind::BadRequest, "the head of a domain is not asked for this")),
        };
        self.settle(to, answer);
    }

    fn head(&mut self) -> Result<&mut Head, Fault> {
        let error = || Fault::new(FaultKind::System, "this node is not the head of the domain");
        self.head.as_mut().ok_or_else(error)
    }

    fn new_group(&mut self, client: Client, state: GroupState) -> Result<GroupId, Fault> {
        let (now, most) = (self.now, self.settings.limits.groups);
        let parent = match client {
            Client::Process(member) => Some(member.group),
            Client::Tool(_) => None,
        };
        let head = self.head()?;
        // Ends: each turn forgets one.
        while head.groups.len() >= most {
            let Some(oldest) = head.ended.pop_front() else {
                let message = format!("{most} groups are there already, and none has ended: free some");
                return Err(Fault::new(FaultKind::TooLarge, message));
            };
            head.groups.remove(&oldest);
        }
        Ok(head.new_group(parent, state, now))
    }

    fn open(&mut self, client: Client) -> Result<Answer, Fault> {
        self.new_group(client, GroupState::Open).map(Answer::Group)
    }

    fn add(
        &mut self,
        group: GroupId,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: Option<OnDeath>,
    ) -> Result<Answer, Fault> {
        let limits = self.settings.limits;
        let known = self.head()?.groups.get_mut(&group).ok_or_else(|| no_group(group))?;
        if known.state != GroupState::Open {
            let message = format!("the group {group} is closed: nothing more can be spawned into it");
            return Err(Fault::new(FaultKind::GroupClosed, message));
        }
        let all = || known.specs.iter().chain(&specs);
        let count: u64 = all().map(|spec| u64::from(spec.count)).sum();
        if count > limits.group.into() {
            let message = format!("a group of {count} processes: at most {} are allowed", limits.group);
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        let bytes: usize = all().map(Spec::bytes).sum();
        if bytes > limits.spawn {
            let message = format!(
                "{bytes} bytes of programs, arguments and environment: at most {} are allowed",
                limits.spawn
            );
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        preputs.iter().try_for_each(|pair| store::check(pair, &limits))?;
        known.specs.extend(specs);
        known.preputs.extend(preputs);
        known.on_death = on_death.unwrap_or(known.on_death);
        Ok(Answer::Done)
    }

    fn spawn(
        &mut self,
        client: Client,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: OnDeath,
        input: bool,
        to: ReplyTo,
    ) {
        let opened = self.new_group(client, GroupState::Open);
        let added = opened.and_then(|group| self.add(group, specs, preputs, Some(on_death)).map(|_| group));
        match added {
            Ok(group) => {
                let known = self.head.as_mut().and_then(|head| head.groups.get_mut(&group));
                if let (Some(known), Client::Tool(_)) = (known, client) {
                    known.input = input;
                }
                self.launch(group, to);
            }
            Err(fault) => self.settle(to, Err(fault)),
        }
    }

    fn merge(&mut self, first: GroupId, second: GroupId) -> Result<Answer, Fault> {
        for group in [first, second] {
            let known = self.head()?.groups.get(&group).ok_or_else(|| no_group(group))?;
            if !matches!(known.state, GroupState::Running | GroupState::Starting | GroupState::Merged) {
                let message = format!("the group {group} does not run: it cannot be merged");
                return Err(Fault::new(FaultKind::BadRequest, message));
            }
        }
        let both: Vec<GroupId> = [first, second].into_iter().flat_map(|group| self.parts(group)).collect();
        if both.iter().collect::<BTreeSet<_>>().len() < both.len() {
            let message = format!("{first} and {second} have processes in common");
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
        let group = self.new_group(Client::Tool(0), GroupState::Merged)?;
        self.merged.insert(group, (first, second));
        Ok(Answer::Group(group))
    }

    fn free(&mut self, group: GroupId) -> Result<Answer, Fault> {
        let head = self.head()?;
        let state = head.groups.get(&group).ok_or_else(|| no_group(group))?.state;
        // One that runs is known until its processes have ended: then the oldest are forgotten first.
        if matches!(state, GroupState::Open | GroupState::Merged | GroupState::Ended) {
            head.groups.remove(&group);
            head.ended.retain(|ended| *ended != group);
            self.merged.remove(&group);
        }
        Ok(Answer::Done)
    }

    fn size(&mut self, group: GroupId, to: ReplyTo) {
        let parts = self.parts(group);
        let mut size = 0;
        for part in parts {
            let known = self.head.as_mut().and_then(|head| head.groups.get_mut(&part));
            match known {
                None => return self.settle(to, Err(no_group(group))),
                Some(Known { layout: Some(layout), .. }) => size += u64::from(layout.size()),
                Some(known) => return known.waits.push(to),
            }
        }
        self.settle(to, Ok(Answer::Number(size)));
    }

    pub(super) fn kill_group(&mut self, group: GroupId, to: ReplyTo) {
        let parts = self.parts(group);
        let mut nodes = BTreeSet::new();
        let mut running = Vec::new();
        for part in parts {
            let Some(known) = self.head.as_mut().and_then(|head| head.groups.get_mut(&part)) else {
                return self.settle(to, Err(no_group(part)));
            };
            match known.state {
                GroupState::Starting | GroupState::Running | GroupState::Killed => {
                    known.state = GroupState::Killed;
                    nodes.extend(known.layout.iter().flat_map(|layout| layout.nodes()));
                    running.push(part);
                }
                GroupState::Open => known.state = GroupState::Ended,
                GroupState::Ended | GroupState::Merged => {}
            }
        }
        nodes.retain(|node| !self.lost.contains(node));
        let Some((last, others)) = running.split_last().filter(|_| !nodes.is_empty()) else {
            return self.settle(to, Ok(Answer::Done));
        };
        let nodes: Vec<_> = nodes.into_iter().collect();
        for part in others {
            self.call(nodes.clone(), Order::Kill(*part), true, Flight::Nothing);
        }
        self.call(nodes, Order::Kill(*last), true, Flight::Kill(to));
    }

    fn aborted(&mut self, client: Client, code: u8, message: String) {
        if let Client::Process(member) = client {
            self.outputs.push_back(Output::Aborted { member, code, message });
            self.kill_group(member.group, ReplyTo::Nobody);
        }
    }

    /// A process has ended: the head remembers how.
    pub(super) fn at_death(&mut self, death: Death) {
        let Some(head) = &mut self.head else { return };
        let Some(known) = head.groups.get_mut(&death.member.group) else { return };
        known.deaths.insert(death.member.rank, death);
        let size = known.layout.as_ref().map_or(0, |layout| layout.size() as usize);
        if known.deaths.len() == size && known.state != GroupState::Ended {
            known.state = GroupState::Ended;
            // What it was started with is not asked for any more.
            known.specs.iter_mut().for_each(|spec| {
                *spec = Spec { program: std::mem::take(&mut spec.program), ..Spec::default() }
            });
            head.ended.push_back(death.member.group);
        }
    }

    pub(super) fn status(&mut self, group: GroupId) -> Result<GroupStatus, Fault> {
        let (now, name) = (self.now, self.settings.name.clone());
        let known = self.head()?.groups.get(&group).ok_or_else(|| no_group(group))?;
        let layout = known.layout.as_ref();
        let member = |rank: Rank| MemberStatus {
            rank,
            node: layout.and_then(|layout| layout.node_of(rank)).unwrap_or_default(),
            pid: known.pids.get(&rank).copied(),
            death: known.deaths.get(&rank).copied(),
        };
        Ok(GroupStatus {
            group,
            parent: known.parent,
            state: known.state,
            database: if known.state == GroupState::Merged {
                String::new()
            } else {
                database_of(&name, group)
            },
            program: known.specs.first().map(|spec| spec.program.clone()).unwrap_or_default(),
            age: now.saturating_sub(known.since),
            members: (0..layout.map_or(0, |layout| layout.size())).map(member).collect(),
        })
    }

    fn all_groups(&mut self) -> Answer {
        let all: Vec<GroupId> =
            self.head.iter().flat_map(|head| head.groups.keys().copied()).take(GROUPS_TOLD).collect();
        Answer::Groups(all.into_iter().filter_map(|group| self.status(group).ok()).collect())
    }

    fn create(&mut self, name: Option<String>) -> Result<Answer, Fault> {
        let (limits, domain) = (self.settings.limits, self.settings.name.clone());
        let head = self.head()?;
        let name = name.unwrap_or_else(|| {
            head.next_database += 1;
            format!("db_{domain}_{}", head.next_database)
        });
        let fault = |kind, message| Err(Fault::new(kind, message));
        if name.is_empty() || name.len() > limits.name || name.chars().any(|c| c.is_control() || c == ' ') {
            let message = format!(
                "the name of a database has 1 to {} bytes, without spaces and control characters",
                limits.name
            );
            return fault(FaultKind::BadRequest, message);
        }
        if head.databases.contains(&name) || name.starts_with("kvs_") {
            let message = format!(
                "there is a database `{}`, or its name is one of a group's",
                chained_gpc::Shown(&name)
            );
            return fault(FaultKind::DatabaseExists, message);
        }
        if head.databases.len() >= limits.databases {
            let message = format!("{} databases are there already: destroy some", limits.databases);
            return fault(FaultKind::TooLarge, message);
        }
        head.databases.insert(name.clone());
        self.store.create(&name);
        Ok(Answer::Name(name))
    }

    fn destroy(&mut self, name: &str) -> Result<Answer, Fault> {
        if !self.head()?.databases.remove(name) {
            return Err(no_database(name));
        }
        self.store.destroy(name);
        let others = self.others();
        if !others.is_empty() {
            self.call(others, Order::Destroyed(name.into()), true, Flight::Nothing);
        }
        Ok(Answer::Done)
    }

    fn databases(&self) -> Answer {
        let Some(head) = &self.head else { return Answer::Names(Vec::new()) };
        let own = head
            .groups
            .iter()
            .filter(|(_, known)| known.layout.is_some() && known.state != GroupState::Ended);
        let own = own.map(|(group, _)| database_of(&self.settings.name, *group));
        let mut names: Vec<String> = head.databases.iter().cloned().chain(own).collect();
        names.sort();
        Answer::Names(names)
    }

    fn deposit(&mut self, pair: Pair) -> Result<Answer, Fault> {
        let limits = self.settings.limits;
        store::check(&pair, &limits)?;
        let head = self.head()?;
        let shown = String::from_utf8_lossy(&pair.key).into_owned();
        if head.names.contains_key(&pair.key) {
            let message =
                format!("there is a name `{}` already: withdraw it first", chained_gpc::Shown(&shown));
            return Err(Fault::new(FaultKind::NameExists, message));
        }
        if head.names.len() >= limits.names {
            let message = format!("{} names are there already: withdraw some", limits.names);
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        head.names.insert(pair.key, pair.value);
        Ok(Answer::Done)
    }

    fn withdraw(&mut self, key: &[u8]) -> Result<Answer, Fault> {
        self.head()?.names.remove(key).map(|_| Answer::Done).ok_or_else(|| no_name(key))
    }

    fn lookup(&mut self, key: &[u8]) -> Result<Answer, Fault> {
        self.head()?.names.get(key).cloned().map(Answer::Value).ok_or_else(|| no_name(key))
    }
}

fn no_name(key: &[u8]) -> Fault {
    let shown = String::from_utf8_lossy(key);
    Fault::new(FaultKind::NotFound, format!("nobody has deposited `{}`", chained_gpc::Shown(&shown)))
}
