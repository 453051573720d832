//! Where a process registered: the ranks of its units, and its own rank.

use std::fmt;

/// A process, identified by where it registered: the ranks of its units, from the top down, and its own rank.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// Ranks of the units, empty if there is only one level.
    pub units: Vec<u64>,
    /// Its rank in the innermost unit.
    pub rank: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.units.is_empty() {
            write!(f, "subjob {}, ", dotted(&self.units))?;
        }
        write!(f, "rank {}", self.rank)
    }
}

/// Ranks of units, separated by dots.
pub(super) fn dotted(units: &[u64]) -> String {
    units.iter().map(u64::to_string).collect::<Vec<String>>().join(".")
}
