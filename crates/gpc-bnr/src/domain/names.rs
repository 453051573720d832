//! Databases and global names at the head.
//!
//! Source: BNR, `BNR_DB_Create`, `BNR_DB_Destroy`, "Thoughts about BNR Domains"; `BNR_Deposit`, `BNR_Withdraw`,
//! `BNR_Lookup`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Domain;
use super::awaited_names::{AWAITED_MAX, Awaiting};
use super::database::{check_key, check_length, check_value, shown};
use super::faults::no_database;
use super::outgoing::Continuation;
use super::pending::Requester;
use super::timers::Timer;
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member};
use crate::order::Order;
use crate::request::{Answer, Client, Pair};

impl Domain {
    /// The name of a group's own database.
    pub(super) fn database_of(&self, group: GroupId) -> String {
        format!("{}{}", self.own_prefix(), group.0)
    }

    /// Prefix of the names of the groups' own databases.
    pub(super) fn own_prefix(&self) -> String {
        format!("kvs_{}_", self.settings.name)
    }

    /// The group whose own database has this name.
    pub(super) fn group_of(&self, database: &str) -> Option<GroupId> {
        database.strip_prefix(&self.own_prefix())?.parse().ok().map(GroupId)
    }

    /// Whether a database was that of a group, and has been removed.
    pub(super) fn is_removed(&self, database: &str) -> bool {
        self.group_of(database).is_some_and(|group| self.local.without_database.contains(group))
    }

    /// At the head: whether a database with this name exists.
    pub(super) fn database_exists(&self, name: &str) -> bool {
        let created = self.head.as_ref().and_then(|head| head.databases.get(name));
        // A database that is being removed has a waiting receiver.
        created.is_some_and(Vec::is_empty) || self.groups_with_database().any(|own| own == name)
    }

    fn groups_with_database(&self) -> impl Iterator<Item = &str> {
        let groups = self.head.iter().flat_map(|head| &head.groups);
        groups.filter(|(_, group)| !group.over).filter_map(|(number, group)| match &group.layout {
            Some(layout) => Some(layout.database.as_str()),
            None => self.rosters.get(number).map(|roster| roster.database.as_str()),
        })
    }

    pub(super) fn database_names(&self) -> Vec<String> {
        let created = self.head.iter().flat_map(|head| &head.databases);
        let created = created.filter(|(_, going)| going.is_empty()).map(|(name, _)| name.clone());
        let mut names: Vec<String> = created.chain(self.groups_with_database().map(str::to_owned)).collect();
        names.sort_unstable();
        names
    }

    /// Creates a database.
    pub(super) fn create_database(&mut self, name: Option<String>) -> Result<String, Fault> {
        let limits = self.settings.limits;
        let prefix = self.own_prefix();
        let Some(head) = self.head.as_mut() else { return Err(no_database("")) };
        if head.databases.len() >= limits.databases {
            let message = format!(
                "there are {} databases already; destroy those that are needed no longer",
                limits.databases
            );
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        let name = match name {
            Some(name) => {
                check_name(&name, &prefix)?;
                check_length("the database's name", name.as_bytes(), limits.name)?;
                name
            }
            None => loop {
                // Terminates: each number gives another name, and the limit bounds the names in use.
                head.last_database += 1;
                let name = format!("db_{}_{}", self.settings.name, head.last_database);
                if !head.databases.contains_key(&name) {
                    break name;
                }
            },
        };
        if head.databases.contains_key(&name) {
            let message = format!("there is a database {} already", shown(name.as_bytes()));
            return Err(Fault::new(FaultKind::DatabaseExists, message));
        }
        head.databases.insert(name.clone(), Vec::new());
        self.databases.create(&name);
        Ok(name)
    }

    /// Removes a database at all nodes. The receiver is answered when no node has a copy.
    pub(super) fn destroy_database(&mut self, requester: Requester, name: &str) {
        if self.groups_with_database().any(|own| own == name) {
            let message = "a group's own database goes with its group";
            return self.settle(requester, Err(Fault::new(FaultKind::BadRequest, message)));
        }
        let Some(head) = self.head.as_mut() else { return };
        match head.databases.get_mut(name) {
            Some(going) if going.is_empty() => going.push(requester),
            _ => return self.settle(requester, Err(no_database(name))),
        }
        self.destroyed_here(name);
        self.deliver(self.others(), Order::Destroyed(name.into()), Continuation::Destroyed(name.into()));
    }

    pub(super) fn database_destroyed(&mut self, name: &str) {
        let going = self.head.as_mut().and_then(|head| head.databases.remove(name)).unwrap_or_default();
        going.into_iter().for_each(|requester| self.settle(requester, Ok(Answer::Done)));
    }

    pub(super) fn deposit(&mut self, pair: Pair) -> Result<Answer, Fault> {
        let limits = self.settings.limits;
        check_key(&pair.key, &limits)?;
        check_value(&pair.key, &pair.value, &limits)?;
        let Some(head) = self.head.as_mut() else { return Ok(Answer::Done) };
        if head.names.contains_key(&pair.key) {
            let message = format!("{} is deposited already; withdraw it first", shown(&pair.key));
            return Err(Fault::new(FaultKind::NameExists, message));
        }
        if head.names.len() >= limits.names {
            let message = format!(
                "{} names are deposited already; withdraw those that are needed no longer",
                limits.names
            );
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        head.names.insert(pair.key.clone(), pair.value.clone());
        for awaiting in head.awaited.take_for(&pair.key) {
            self.timers.cancel(awaiting.limit);
            self.settle(awaiting.requester, Ok(Answer::Value(pair.value.clone())));
        }
        Ok(Answer::Done)
    }

    pub(super) fn withdraw(&mut self, name: &[u8]) -> Result<Answer, Fault> {
        let gone = self.head.as_mut().and_then(|head| head.names.remove(name));
        gone.map(|_| Answer::Done).ok_or_else(|| not_deposited(name))
    }

    pub(super) fn lookup(&self, name: &[u8]) -> Result<Answer, Fault> {
        let value = self.head.as_ref().and_then(|head| head.names.get(name));
        value.cloned().map(Answer::Value).ok_or_else(|| not_deposited(name))
    }
}

impl Domain {
    /// At the head: the value of a global name, once it is deposited.
    pub(super) fn await_name(&mut self, requester: Requester, client: Client, name: Vec<u8>, wait: Duration) {
        // A name that cannot be deposited is not stored either: no limit of its own bounds its length.
        let found = match check_key(&name, &self.settings.limits) {
            Ok(()) => self.lookup(&name),
            Err(fault) => return self.settle(requester, Err(fault)),
        };
        let until = self.now.saturating_add(wait);
        let Some(head) = self.head.as_mut().filter(|_| found.is_err()) else {
            return self.settle(requester, found);
        };
        if head.awaited.len() >= AWAITED_MAX {
            let message = format!("{AWAITED_MAX} requests wait for global names already");
            return self.settle(requester, Err(Fault::new(FaultKind::TooLarge, message)));
        }
        let number = head.awaited.number();
        let limit = self.timers.at(until, Timer::Name(name.clone(), number));
        head.awaited.insert((name, number), Awaiting { requester, client, limit });
    }

    /// A request has waited long enough for a name.
    pub(super) fn not_deposited_in_time(&mut self, name: Vec<u8>, number: u64) {
        let key = (name, number);
        let awaiting = self.head.as_mut().and_then(|head| head.awaited.remove(&key));
        if let Some(awaiting) = awaiting {
            let message = format!("{} was not deposited in time", shown(&key.0));
            self.settle(awaiting.requester, Err(Fault::new(FaultKind::TimedOut, message)));
        }
    }

    /// The answer is no longer needed.
    pub(super) fn await_cancelled(&mut self, requester: &Requester) {
        let Some(head) = &mut self.head else { return };
        for awaiting in head.awaited.take(|awaiting| awaiting.requester == *requester) {
            self.timers.cancel(awaiting.limit);
        }
    }

    /// Processes have ended: they wait no more.
    pub(super) fn awaits_after_deaths(&mut self, deaths: &[Death]) {
        let Some(head) = self.head.as_mut().filter(|head| head.awaited.len() > 0) else { return };
        let dead: BTreeSet<Member> = deaths.iter().map(|death| death.member).collect();
        let is_dead = |client: Client| match client {
            Client::Process(member) => dead.contains(&member),
            Client::Tool(_) => false,
        };
        for awaiting in head.awaited.take(|awaiting| is_dead(awaiting.client)) {
            self.timers.cancel(awaiting.limit);
            let fault = Fault::new(FaultKind::MemberDied, "the process that waits for it has ended");
            self.settle(awaiting.requester, Err(fault));
        }
    }
}

fn not_deposited(name: &[u8]) -> Fault {
    Fault::new(FaultKind::NotFound, format!("there is no global name {}", shown(name)))
}

/// # Errors
/// The name is empty, or has the prefix of the groups' own databases.
fn check_name(name: &str, own: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::new(FaultKind::BadRequest, "a database's name has one byte at least"));
    }
    if name.starts_with(own) {
        let message = format!("names that begin with {own} are those of the groups' own databases");
        return Err(Fault::new(FaultKind::BadRequest, message));
    }
    Ok(())
}
