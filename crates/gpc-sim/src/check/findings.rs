//! Violations of rules, as the checkers find them.

use std::fmt;

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// Virtual time, nanoseconds.
    pub at_ns: u64,
    /// Description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {}.{:03} us)", self.checker, self.what, self.at_ns / 1000, self.at_ns % 1000)
    }
}

/// Largest number of violations reported for a run: the first one matters, the rest may help.
const VIOLATIONS_MAX: usize = 32;

/// Collects violations.
pub(super) struct Findings {
    pub(super) at: u64,
    pub(super) found: Vec<Violation>,
}

impl Findings {
    pub(super) fn add(&mut self, checker: &'static str, what: String) {
        if self.found.len() < VIOLATIONS_MAX {
            self.found.push(Violation { checker, at_ns: self.at, what });
        }
    }
}
