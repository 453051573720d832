//! Requests of clients, queries to other nodes on their behalf, and orders that wait for their reply.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::database::{check_key, check_length, check_value, shown};
use super::faults::{domain_ended, no_database, no_group, not_found};
use super::life::Life;
use super::local::OrderOrigin;
use super::missing::PATIENCE;
use super::outgoing::CallPurpose;
use super::pending::{PendingOrder, PendingPut, Requester};
use super::timers::Timer;
use super::{Domain, Output, Serial, Token};
use crate::fault::{Fault, FaultKind};
use crate::names::{Member, RESERVED};
use crate::order::{Order, Purpose, Report};
use crate::request::{Answer, Client, Identity, Pair, Request};
use crate::spec::OnDeath;
use crate::spec::Readers;

/// Time that a registered process may run on after its link has closed. It is far longer than the exit of a process
/// takes to be reported.
const UNLINKED: Duration = Duration::from_secs(10);

/// Exit status of the job in that case, as for a process that ends without finalizing.
const UNLINKED_STATUS: u8 = 1;

impl Domain {
    pub(super) fn request(&mut self, client: Client, serial: Serial, request: Request) {
        let requester = Requester::Client(client, serial);
        if !matches!(self.life, Life::Begins | Life::Runs) {
            return self.refuse(client, serial, domain_ended());
        }
        if let Client::Process(member) = client
            && !self.is_alive_here(member)
        {
            let message = format!("{member} does not run on node {}", self.me());
            return self.refuse(client, serial, Fault::new(FaultKind::NoMember, message));
        }
        let waiting = self.pending.requests.entry(client).or_default();
        if waiting.len() >= self.settings.limits.waiting {
            let message = format!("{} requests of one process wait, and no more may", waiting.len());
            return self.refuse(client, serial, Fault::new(FaultKind::TooLarge, message));
        }
        if !waiting.insert(serial) {
            let message = format!("a request with the number {serial} waits already");
            return self.refuse(client, serial, Fault::new(FaultKind::BadRequest, message));
        }
        match (request, client) {
            (Request::Init, Client::Process(member)) => {
                let identity = self.init(member);
                self.settle(requester, identity);
            }
            (Request::Finalize, Client::Process(member)) => {
                self.finalize(member);
                self.settle(requester, Ok(Answer::Done));
            }
            (Request::Abort { code, message }, Client::Process(member)) => {
                self.pending.remove(client, serial);
                self.abort_here(member, code, message);
            }
            (Request::Init | Request::Finalize | Request::Abort { .. }, Client::Tool(_)) => {
                let message = "that is for the processes of a group";
                self.settle(requester, Err(Fault::new(FaultKind::Unsupported, message)));
            }
            (request, _) => self.request_of_any(client, serial, request),
        }
    }

    /// Handles the requests that tools may send as well.
    fn request_of_any(&mut self, client: Client, serial: Serial, request: Request) {
        let requester = Requester::Client(client, serial);
        match request {
            Request::Open { over, limit } => self.enter(client, serial, over, &[], Purpose::Open, limit),
            Request::Close { over, group, limit } => {
                self.enter(client, serial, over, &[], Purpose::Close(group), limit);
            }
            Request::Merge { first, second, limit } => self.merge(client, serial, first, second, limit),
            Request::Split { group, color, key, limit } => {
                self.split(client, serial, group, (color, key), limit);
            }
            Request::Fence { over, limit, tag } => {
                if tag.first() == Some(&0) {
                    return self.settle(requester, Err(own_tag()));
                }
                self.enter(client, serial, over, &tag, Purpose::Fence, limit);
            }
            Request::Exchange { over, limit, tag, data } => {
                if tag.first() == Some(&0) {
                    return self.settle(requester, Err(own_tag()));
                }
                self.exchange(client, serial, (over, &tag), data, limit);
            }
            Request::Fetch(member) => self.fetch(requester, client, member),
            // The head's limits: it sent them when the domain began here.
            Request::Limits => self.settle(requester, Ok(Answer::Limits(self.settings.limits))),
            Request::Size(group) => match self.roster_of(group) {
                Some(roster) => self.settle(requester, Ok(Answer::Number(roster.size()))),
                None => self.ask_head(requester, client, Request::Size(group)),
            },
            Request::Members(group) => match self.roster_of(group) {
                Some(roster) => self.settle(requester, Ok(Answer::Rosters(vec![roster]))),
                None => self.ask_head(requester, client, Request::Members(group)),
            },
            Request::Subscribe(group) => {
                self.ask_head(Requester::Subscriber(client, serial), client, Request::Subscribe(group));
            }
            Request::Put { database, pair, advice } => {
                // The advice is ignored: each node of the set gets every value.
                let _ = advice;
                self.put(client, serial, database, pair);
            }
            Request::Get { database, key } => self.get(requester, client, database, key),
            Request::Iterate(database) => self.iterate(requester, client, database),
            Request::SpawnMultiple { input: Readers::First | Readers::All | Readers::Rank(_), .. }
                if !(self.head.is_some() && matches!(client, Client::Tool(_))) =>
            {
                let message =
                    "standard input is given to groups that are spawned at the head of the domain by a tool";
                self.settle(requester, Err(Fault::new(FaultKind::Unsupported, message)));
            }
            request => self.ask_head(requester, client, request),
        }
    }

    /// The link of a client has closed.
    pub(super) fn client_gone(&mut self, client: Client) {
        self.pending.requests.remove(&client);
        self.deaths.subscribers.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        if let Client::Process(member) = client
            && let Some(process) = self.local.process_mut(member)
        {
            process.unlinked = true;
            // Usually the process has ended, and its exit is about to be reported.
            self.timers.at(self.now.saturating_add(UNLINKED), Timer::Unlinked(member));
        }
    }

    /// A registered process has run on without a link. It can enter no collective request, so it counts as failed, like
    /// one that has ended.
    pub(super) fn unlinked(&mut self, member: Member) {
        let Some(local_group) = self.local.groups.get(&member.group) else { return };
        let left = local_group.processes.get(&member.rank).is_some_and(|process| {
            process.unlinked && process.takes_part && !process.finalized && !process.ended
        });
        if left && !local_group.is_killed() && local_group.layout.on_death == OnDeath::Kill {
            let message = format!(
                "its link to node {} has ended without finalizing, and it has run on for {} s",
                self.me(),
                UNLINKED.as_secs()
            );
            self.abort_here(member, UNLINKED_STATUS, message);
        }
    }

    fn refuse(&mut self, client: Client, serial: Serial, fault: Fault) {
        self.outputs.push_back(Output::Answer { client, serial, answer: Err(fault) });
    }

    /// Answers a client that still waits.
    pub(super) fn answer(&mut self, client: Client, serial: Serial, answer: Result<Answer, Fault>) {
        if self.pending.remove(client, serial) {
            self.outputs.push_back(Output::Answer { client, serial, answer });
        }
    }

    /// Passes an answer to its receiver.
    pub(super) fn settle(&mut self, requester: Requester, result: Result<Answer, Fault>) {
        match requester {
            Requester::Nobody => {}
            Requester::Client(client, serial) => self.answer(client, serial, result),
            Requester::Order(token) => self.report(token, Report::Answer(result)),
            Requester::Meeting(meeting) => self.acted(&meeting, result),
            Requester::Joined(number) => self.joined(number),
            Requester::Put(number) => self.put_known(number, result.map(drop)),
            Requester::Subscriber(client, serial) => self.subscribe(client, serial, result),
        }
    }

    /// Replies to an order, if the reply is still needed.
    pub(super) fn report(&mut self, token: Token, report: Report) {
        if self.pending.orders.remove(&token).is_some() {
            self.outputs.push_back(Output::Report { token, report });
        }
    }

    /// Sends a request to the head, which may be this node.
    pub(super) fn ask_head(&mut self, requester: Requester, client: Client, request: Request) {
        if self.head.is_some() {
            return self.serve_at_head(requester, client, request);
        }
        let limits = &self.settings.limits;
        let limit = match request {
            // These wait for processes to start or end.
            Request::SpawnMultiple { .. }
            | Request::Close { .. }
            | Request::Kill(_)
            | Request::Fetch(_)
            | Request::Layout(_)
            | Request::Members(_)
            | Request::Size(_) => limits.fence.max(limits.ask),
            Request::Lookup { wait: Some(wait), .. } => wait.saturating_add(limits.ask),
            _ => limits.ask,
        };
        let order = Arc::new(Order::AtHead { client, request });
        self.call(vec![self.head_id()], order, false, limit, CallPurpose::Ask(requester));
    }

    /// Handles an order of another node.
    pub(super) fn order(&mut self, token: Token, root: Id, order: Order) {
        if matches!(self.life, Life::Ended) || self.lost.contains(&root) {
            // The domain has ended here, or the root is lost: an empty report ends the call.
            let report = no_report(&order);
            return self.outputs.push_back(Output::Report { token, report });
        }
        let pending = match &order {
            Order::Collect { meeting, .. } => PendingOrder::Collect(meeting.clone()),
            Order::Start(_) => PendingOrder::Start,
            Order::Check(_) => PendingOrder::Check,
            Order::Kill(_) => PendingOrder::Kill,
            Order::Watch => PendingOrder::Watch,
            Order::End => PendingOrder::End,
            _ => PendingOrder::Query,
        };
        self.pending.orders.insert(token, pending);
        match order {
            Order::Collect { meeting, purpose } => return self.collect(token, meeting, purpose),
            Order::Start(layout) => return self.start_here(layout, OrderOrigin::Order(token)),
            Order::Check(layout) => return self.check_here(layout, OrderOrigin::Order(token)),
            Order::Kill(group) => return self.kill_here(group, Some(OrderOrigin::Order(token))),
            Order::Watch => return self.accept_watch(token),
            Order::End => return self.end(Some(token)),
            Order::AtHead { client, request } => return self.at_head(token, client, request),
            Order::Fetch(member) => return self.fetch_here(Requester::Order(token), member),
            Order::Find { database, key } => {
                let value = self.databases.get(&database).and_then(|copy| copy.get(&key)).cloned();
                return self.report(token, Report::Found(value));
            }
            Order::List(database) => {
                let pairs = self.databases.get(&database).map(|copy| copy.pairs());
                return self.report(token, Report::Pairs(into_pairs(pairs.unwrap_or_default())));
            }
            Order::Status(group) => {
                let groups = self.status_here(group);
                return self.report(token, Report::Groups(groups));
            }
            Order::Missing { meeting, purpose } => {
                let (members, more) = self.missing_here(&meeting, &purpose);
                return self.report(token, Report::Missing(members, more));
            }
            // The driver created this machine for it.
            Order::Begin { .. } => return self.report(token, Report::Host(self.settings.host.clone())),
            Order::Enter { meeting, purpose } => self.entered_elsewhere(root, &meeting, purpose),
            Order::Release { meeting, deaths, outcome } => self.release(&meeting, &deaths, outcome),
            Order::Fail { meeting, fault } => {
                let until = self.now.saturating_add(PATIENCE);
                self.failed_elsewhere(root, &meeting, fault, until);
            }
            Order::Signal(group, signal) => self.signal_here(group, signal),
            Order::Forget(group) => self.forget(group),
            Order::Died(deaths) => drop(self.learn(&deaths)),
            Order::Lost(ids) => self.nodes_lost(&ids),
            Order::Destroyed(name) => self.destroyed_here(&name),
        }
        self.report(token, Report::Done);
    }

    fn at_head(&mut self, token: Token, client: Client, request: Request) {
        let requester = Requester::Order(token);
        if !matches!(self.life, Life::Begins | Life::Runs) {
            return self.settle(requester, Err(domain_ended()));
        }
        match self.head {
            Some(_) => self.serve_at_head(requester, client, request),
            None => {
                let message = format!("node {} is not the head of the domain", self.me());
                self.settle(requester, Err(Fault::new(FaultKind::Unsupported, message)));
            }
        }
    }

    /// The reply to an order is no longer needed.
    pub(super) fn cancelled(&mut self, token: Token) {
        match self.pending.orders.remove(&token) {
            Some(PendingOrder::Collect(meeting)) => self.collect_cancelled(&meeting, token),
            Some(PendingOrder::Watch) => self.watch_cancelled(token),
            Some(PendingOrder::Query) => {
                self.fetch_cancelled(token);
                self.await_cancelled(&Requester::Order(token));
            }
            Some(PendingOrder::Check | PendingOrder::Start | PendingOrder::Kill | PendingOrder::End)
            | None => {}
        }
    }

    fn init(&mut self, member: Member) -> Result<Answer, Fault> {
        let no_group = || no_group(member.group);
        let local_group = self.local.groups.get_mut(&member.group).ok_or_else(no_group)?;
        if let Some(process) = local_group.processes.get_mut(&member.rank) {
            process.takes_part = true;
            process.finalized = false;
            process.unlinked = false;
        }
        let layout = &local_group.layout;
        let of_rank = |block: &&crate::spec::Block| {
            member.rank >= block.first && member.rank - block.first < block.count
        };
        Ok(Answer::Identity(Identity {
            member,
            size: layout.size(),
            parent: layout.parent,
            database: layout.database.clone(),
            spec: layout.blocks.iter().find(of_rank).map_or(0, |block| block.spec),
            neighbours: local_group.processes.keys().copied().collect(),
        }))
    }

    fn finalize(&mut self, member: Member) {
        if let Some(process) = self.local.process_mut(member) {
            process.finalized = true;
        }
    }

    /// Kills the group here at once; the head kills it at all nodes.
    fn abort_here(&mut self, member: Member, code: u8, message: String) {
        let client = Client::Process(member);
        self.kill_here(member.group, None);
        self.ask_head(Requester::Nobody, client, Request::Abort { code, message });
    }

    fn put(&mut self, client: Client, serial: Serial, database: String, pair: Pair) {
        let limits = self.settings.limits;
        let checked = check_length("the database's name", database.as_bytes(), limits.name)
            .and_then(|()| check_key(&pair.key, &limits))
            .and_then(|()| check_value(&pair.key, &pair.value, &limits))
            .and_then(|()| self.check_reserved(&database, &pair.key));
        if let Err(fault) = checked {
            return self.answer(client, serial, Err(fault));
        }
        if self.databases.get(&database).is_some() {
            let result = self.put_here(client, &database, pair);
            return self.answer(client, serial, result);
        }
        let asked = Request::Put { database: database.clone(), pair: pair.clone(), advice: None };
        let number = self.pending.add_put(PendingPut { client, serial, database, pair, destroyed: false });
        self.ask_head(Requester::Put(number), client, asked);
    }

    /// Puts into the local copy, and logs the put for the next fence.
    fn put_here(&mut self, client: Client, database: &str, pair: Pair) -> Result<Answer, Fault> {
        let member = match client {
            Client::Process(member) => Some(member),
            Client::Tool(_) => None,
        };
        let stamp = self.databases.put(database, pair.clone(), member, &self.settings.limits)?;
        if let Some(member) = member
            && let Some(process) = self.local.process_mut(member).filter(|process| !process.ended)
        {
            process.log.put(database, pair, stamp);
        }
        Ok(Answer::Done)
    }

    /// The head has answered whether the database exists: completes the put.
    fn put_known(&mut self, number: u64, known: Result<(), Fault>) {
        let Some(put) = self.pending.puts.remove(&number) else { return };
        let PendingPut { client, serial, database, pair, destroyed } = put;
        let result = match known {
            Ok(()) if destroyed => Err(no_database(&database)),
            Ok(()) => self.put_here(client, &database, pair),
            Err(fault) => Err(fault),
        };
        self.answer(client, serial, result);
    }

    fn get(&mut self, requester: Requester, client: Client, database: String, key: Vec<u8>) {
        match self.databases.get(&database).map(|copy| copy.get(&key).cloned()) {
            Some(Some(value)) => self.settle(requester, Ok(Answer::Value(value))),
            // The domain writes reserved keys when the group starts, so this one does not exist.
            Some(None) if key.starts_with(RESERVED) && self.is_own_here(&database) => {
                self.settle(requester, Err(not_found(&key)));
            }
            Some(None) => self.find(requester, database, key),
            None => self.ask_head(requester, client, Request::Get { database, key }),
        }
    }

    /// Whether a database is the own database of a group with processes here.
    fn is_own_here(&self, database: &str) -> bool {
        let local_group = self.group_of(database).and_then(|group| self.local.groups.get(&group));
        local_group.is_some_and(|local_group| local_group.layout.database == database)
    }

    /// Checks that a key is not reserved for the domain.
    ///
    /// # Errors
    /// The key is reserved in this database.
    fn check_reserved(&self, database: &str, key: &[u8]) -> Result<(), Fault> {
        if !key.starts_with(RESERVED) || !database.starts_with(&self.own_prefix()) {
            return Ok(());
        }
        let message =
            format!("{}: keys that begin with PMI_ are the domain's in a group's own database", shown(key));
        Err(Fault::new(FaultKind::BadRequest, message))
    }

    /// Requests a value from all other nodes.
    pub(super) fn find(&mut self, requester: Requester, database: String, key: Vec<u8>) {
        let others = self.others();
        if others.is_empty() {
            return self.settle(requester, Err(not_found(&key)));
        }
        let order = Arc::new(Order::Find { database, key: key.clone() });
        self.call(others, order, true, self.settings.limits.ask, CallPurpose::Find(requester, key));
    }

    pub(super) fn found(
        &mut self,
        requester: Requester,
        key: &[u8],
        reports: Vec<(Id, Result<Report, Fault>)>,
    ) {
        let mut missing = None;
        for (id, report) in reports {
            match report {
                Ok(Report::Found(Some(value))) => return self.settle(requester, Ok(Answer::Value(value))),
                Ok(_) => {}
                // Values at a lost node are lost with it.
                Err(fault) if !self.lost.contains(&id) && fault.kind != FaultKind::NodeLost => {
                    missing = Some(fault)
                }
                Err(_) => {}
            }
        }
        let fault = missing.unwrap_or_else(|| not_found(key));
        self.settle(requester, Err(fault));
    }

    fn iterate(&mut self, requester: Requester, client: Client, database: String) {
        match self.databases.get(&database) {
            Some(_) => self.list(requester, database),
            None => self.ask_head(requester, client, Request::Iterate(database)),
        }
    }

    /// Requests the pairs of a database from all other nodes.
    pub(super) fn list(&mut self, requester: Requester, database: String) {
        let pairs = self.databases.get(&database).map(|copy| copy.pairs()).unwrap_or_default();
        let others = self.others();
        if others.is_empty() {
            return self.settle(requester, Ok(Answer::Pairs(into_pairs(pairs))));
        }
        let order = Arc::new(Order::List(database));
        self.call(others, order, true, self.settings.limits.ask, CallPurpose::List(requester, pairs));
    }

    pub(super) fn listed(
        &mut self,
        requester: Requester,
        mut pairs: BTreeMap<Vec<u8>, Vec<u8>>,
        reports: Vec<(Id, Result<Report, Fault>)>,
    ) {
        for (id, report) in reports {
            match report {
                Ok(Report::Pairs(theirs)) => {
                    for pair in theirs {
                        // The local value wins, as for a get.
                        pairs.entry(pair.key).or_insert(pair.value);
                    }
                }
                Ok(_) => {}
                Err(fault) if !self.lost.contains(&id) && fault.kind != FaultKind::NodeLost => {
                    return self.settle(requester, Err(fault));
                }
                Err(_) => {}
            }
        }
        self.settle(requester, Ok(Answer::Pairs(into_pairs(pairs))));
    }

    /// A database has been removed: drops its copy and the logged puts.
    pub(super) fn destroyed_here(&mut self, name: &str) {
        if let Some(group) = self.group_of(name) {
            self.local.without_database.insert(group);
        }
        self.databases.remove(name);
        for process in
            self.local.groups.values_mut().flat_map(|local_group| local_group.processes.values_mut())
        {
            process.log.destroyed(name);
        }
        for put in self.pending.puts.values_mut().filter(|put| put.database == name) {
            put.destroyed = true;
        }
    }

    /// Answers all pending requests: the domain ends.
    pub(super) fn refuse_all(&mut self) {
        for (client, serials) in std::mem::take(&mut self.pending.requests) {
            for serial in serials {
                self.refuse(client, serial, domain_ended());
            }
        }
        self.pending.puts.clear();
        self.refuse_fetches();
        // These are answered with the other requests and orders.
        self.head.iter_mut().for_each(|head| head.awaited.clear());
    }

    /// Replies to all pending orders except those that `but` selects.
    pub(super) fn report_all(&mut self, but: impl Fn(&PendingOrder) -> bool) {
        let orders = std::mem::take(&mut self.pending.orders);
        for (token, pending) in orders {
            if but(&pending) {
                self.pending.orders.insert(token, pending);
                continue;
            }
            let report = match pending {
                PendingOrder::Query => Report::Answer(Err(domain_ended())),
                PendingOrder::Start => Report::Started(Vec::new()),
                PendingOrder::Kill => Report::Groups(Vec::new()),
                _ => Report::Done,
            };
            self.outputs.push_back(Output::Report { token, report });
        }
    }
}

fn own_tag() -> Fault {
    Fault::new(FaultKind::BadRequest, "a tag that begins with a zero byte is the domain's own")
}

/// The reply to an order that is not carried out.
fn no_report(order: &Order) -> Report {
    match order {
        Order::AtHead { .. } | Order::Fetch(_) => Report::Answer(Err(domain_ended())),
        Order::Start(_) => Report::Started(Vec::new()),
        Order::Find { .. } => Report::Found(None),
        Order::List(_) => Report::Pairs(Vec::new()),
        Order::Status(_) | Order::Kill(_) => Report::Groups(Vec::new()),
        _ => Report::Done,
    }
}

pub(super) fn into_pairs(pairs: BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Pair> {
    pairs.into_iter().map(|(key, value)| Pair { key, value }).collect()
}
