//! What a node or a service holds, counted by itself. Compiled for tests only (feature `snapshot`), which assert at
//! their end that nothing is left.

use std::fmt;

/// Counts by name: what is queued, reserved, watched, open, mapped.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    counts: Vec<(&'static str, usize)>,
}

impl Snapshot {
    /// A snapshot of these counts.
    pub fn new(counts: impl Into<Vec<(&'static str, usize)>>) -> Snapshot {
        Snapshot { counts: counts.into() }
    }

    /// These counts, and those of another part.
    #[must_use]
    pub fn and(mut self, part: Snapshot) -> Snapshot {
        self.counts.extend(part.counts);
        self
    }

    /// The count of this name. A name that does not exist is an error of the test.
    pub fn count(&self, name: &str) -> usize {
        let found = self.counts.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("the snapshot has no count {name:?}: {self:?}")).1
    }

    /// The counts that are not zero, without those that `apart` names.
    pub fn left(&self, apart: &[&str]) -> Vec<(&'static str, usize)> {
        let counts = self.counts.iter().copied();
        counts.filter(|(name, count)| *count > 0 && !apart.contains(name)).collect()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.counts.iter().copied()).finish()
    }
}
