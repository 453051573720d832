//! Which launcher has started this process: the ordered list of those that are known, and how each is recognized by its variables.
//!
//! Pure over a map of variables. The first source that recognizes its variables counts. A source that sees variables of its launcher, and lacks one that it needs, says so as an error: a process that was started among
//! others must never take itself for a single one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Bootstrap, BootstrapError};

/// The environment of a process. What is not UTF-8 is not in it: no launcher's variables are so.
pub type Variables = BTreeMap<String, String>;

/// A launcher that was recognized: what is needed to reach it.
pub(super) trait Source: std::fmt::Debug {
    /// Reaches the launcher, which takes at most this long.
    ///
    /// # Errors
    /// When it is not there, or says nonsense.
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError>;
}

/// Looks for the variables of one launcher: `None` if they are not there, an error if only some of them are.
type Find = fn(&Variables) -> Option<Result<Box<dyn Source>, BootstrapError>>;

/// All of them. Before the others come those with a server of their own, which know most; a rule for addresses comes behind them.
const SOURCES: &[Find] = &[];

/// The launcher of these variables; `None` if there is none.
///
/// # Errors
/// When its variables are incomplete, or wrong.
pub(super) fn find(variables: &Variables) -> Result<Option<Box<dyn Source>>, BootstrapError> {
    SOURCES.iter().find_map(|find| find(variables)).transpose()
}
