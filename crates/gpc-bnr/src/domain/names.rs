//! Databases and global names at the head.
//!
//! Source: BNR, `BNR_DB_Create`, `BNR_DB_Destroy`, "Thoughts about BNR Domains"; `BNR_Deposit`, `BNR_Withdraw`,
//! `BNR_Lookup`.

use super::Domain;
use super::database::{check_key, check_length, check_value, shown};
use super::faults::no_database;
use super::outgoing::Continuation;
use super::pending::Requester;
use crate::fault::{Fault, FaultKind};
use crate::names::GroupId;
use crate::order::Order;
use crate::request::{Answer, Pair};

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
        head.names.insert(pair.key, pair.value);
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

fn not_deposited(name: &[u8]) -> Fault {
    Fault::new(FaultKind::NotFound, format!("nobody has deposited {}", shown(name)))
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
