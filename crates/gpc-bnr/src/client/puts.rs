//! Unanswered puts. A commit waits for all of them at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::Serial;
use crate::fault::Fault;

/// The puts into one database.
#[derive(Debug, Default)]
struct DatabasePuts {
    /// Puts that are not answered.
    open: BTreeSet<Serial>,
    /// The first refused put that was not yet reported.
    refused: Option<(Serial, Fault)>,
}

/// The puts into all databases.
#[derive(Debug, Default)]
pub(super) struct Puts(BTreeMap<String, DatabasePuts>);

impl Puts {
    /// Records a new put.
    pub(super) fn made(&mut self, database: &str, serial: Serial) {
        // The entry usually exists: only the first put into a database creates it.
        match self.0.get_mut(database) {
            Some(puts) => puts.open.insert(serial),
            None => self.0.entry(database.to_owned()).or_default().open.insert(serial),
        };
    }

    /// Forgets a put that could not be sent.
    pub(super) fn unmade(&mut self, database: &str, serial: Serial) {
        self.answered(database, serial, None);
    }

    /// Records the answer to a put.
    pub(super) fn answered(&mut self, database: &str, serial: Serial, fault: Option<Fault>) {
        let Some(puts) = self.0.get_mut(database) else { return };
        puts.open.remove(&serial);
        if let Some(fault) = fault
            && puts.refused.as_ref().is_none_or(|(first, _)| serial < *first)
        {
            puts.refused = Some((serial, fault));
        }
        if puts.open.is_empty() && puts.refused.is_none() {
            self.0.remove(database);
        }
    }

    /// The last put that is not answered.
    pub(super) fn last(&self, database: &str) -> Option<Serial> {
        self.0.get(database)?.open.last().copied()
    }

    /// Whether all puts up to this one are answered.
    pub(super) fn are_in(&self, database: &str, last: Serial) -> bool {
        self.0.get(database).and_then(|puts| puts.open.first()).is_none_or(|first| *first > last)
    }

    /// Takes the fault of the first refused put; reported once.
    pub(super) fn take_refused(&mut self, database: &str) -> Option<Fault> {
        let puts = self.0.get_mut(database)?;
        let refused = puts.refused.take();
        if puts.open.is_empty() {
            self.0.remove(database);
        }
        refused.map(|(_, fault)| fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;

    fn fault(text: &str) -> Fault {
        Fault::new(FaultKind::TooLarge, text)
    }

    #[test]
    fn the_first_that_is_refused_is_told_once() {
        let mut puts = Puts::default();
        for serial in [3, 5, 7] {
            puts.made("a", serial);
        }
        puts.made("b", 6);
        assert_eq!((puts.last("a"), puts.last("b"), puts.last("c")), (Some(7), Some(6), None));
        puts.answered("a", 5, Some(fault("5")));
        assert!(!puts.are_in("a", 5) && puts.are_in("a", 2) && puts.are_in("c", 9));
        puts.answered("a", 3, Some(fault("3")));
        assert!(puts.are_in("a", 5) && !puts.are_in("a", 7));
        puts.answered("a", 7, Some(fault("7")));
        assert_eq!(puts.take_refused("a"), Some(fault("3")));
        assert_eq!(puts.take_refused("a"), None);
        puts.unmade("b", 6);
        // No entry remains.
        assert!(puts.0.is_empty());
    }
}
