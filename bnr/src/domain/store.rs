//! The databases as one node has them: copies of what fences have brought, and what its own processes have put.
//!
//! Source: BNR, "Database manipulation".

use std::collections::BTreeMap;

use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::order::Entry;
use crate::request::Pair;

/// A database.
#[derive(Debug, Default)]
struct Database {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

/// All that this node has.
#[derive(Debug)]
pub(super) struct Store {
    limits: Limits,
    databases: BTreeMap<String, Database>,
}

impl Store {
    pub(super) fn new(limits: Limits) -> Store {
        Store { limits, databases: BTreeMap::new() }
    }

    /// Whether this node knows such a database.
    pub(super) fn has(&self, name: &str) -> bool {
        self.databases.contains_key(name)
    }

    /// A database is there.
    pub(super) fn create(&mut self, name: &str) {
        self.databases.entry(name.into()).or_default();
    }

    /// A database is gone.
    pub(super) fn destroy(&mut self, name: &str) {
        self.databases.remove(name);
    }

    /// Puts a pair; of the same key, this value counts from now on.
    ///
    /// # Errors
    /// [`TooLarge`](FaultKind::TooLarge).
    pub(super) fn put(&mut self, name: &str, pair: Pair) -> Result<(), Fault> {
        check(&pair, &self.limits)?;
        let most = self.limits.database;
        let database = self.databases.entry(name.into()).or_default();
        let before = database.pairs.get(&pair.key).map_or(0, |value| value.len() + pair.key.len());
        let bytes = database.bytes - before + pair.key.len() + pair.value.len();
        if bytes > most {
            let message = format!("the database {name} would have {bytes} bytes: at most {most} fit");
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        database.bytes = bytes;
        database.pairs.insert(pair.key, pair.value);
        Ok(())
    }

    /// What a fence has brought. What goes beyond a limit was refused by the coordinator.
    pub(super) fn take(&mut self, entries: &[Entry]) {
        for entry in entries {
            // The same entries are refused at each node.
            let _ = self.put(&entry.database, entry.pair.clone());
        }
    }

    pub(super) fn get(&self, name: &str, key: &[u8]) -> Option<&Vec<u8>> {
        self.databases.get(name)?.pairs.get(key)
    }

    /// All pairs of a database.
    pub(super) fn pairs(&self, name: &str) -> Vec<Pair> {
        let database = self.databases.get(name);
        let pairs = database.into_iter().flat_map(|database| &database.pairs);
        pairs.map(|(key, value)| Pair { key: key.clone(), value: value.clone() }).collect()
    }
}

/// Whether a pair is within the limits.
///
/// # Errors
/// [`TooLarge`](FaultKind::TooLarge), and [`BadRequest`](FaultKind::BadRequest) for an empty key.
pub(super) fn check(pair: &Pair, limits: &Limits) -> Result<(), Fault> {
    let (key, value) = (pair.key.len(), pair.value.len());
    if key == 0 {
        return Err(Fault::new(FaultKind::BadRequest, "a key has one byte at least"));
    }
    let fault = |what: &str, has: usize, most: usize| {
        Err(Fault::new(FaultKind::TooLarge, format!("{what} of {has} bytes: at most {most} are allowed")))
    };
    match () {
        () if key > limits.key => fault("a key", key, limits.key),
        () if value > limits.value => fault("a value", value, limits.value),
        () => Ok(()),
    }
}
