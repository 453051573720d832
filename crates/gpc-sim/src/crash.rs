//! Processes that end at an event: their text form, and their plan in a world.

use std::fmt;
use std::str::FromStr;

use gpc_trees::Id;

/// A process that ends after an event. Its text form is `ID@EVENT`; a list is separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Crash {
    /// Number of events before the crash.
    pub event: u64,
    /// Id of the process.
    pub id: Id,
}

/// A list of crashes that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no crash: write ID@EVENT, such as 3@17, several with a comma between them, or none")]
pub struct CrashError(String);

impl Crash {
    /// Text form of a list; `none` if it is empty.
    pub fn list(crashes: &[Crash]) -> String {
        let all: Vec<String> = crashes.iter().map(ToString::to_string).collect();
        if all.is_empty() { "none".into() } else { all.join(",") }
    }

    /// Parses a list of crashes.
    ///
    /// # Errors
    /// The first part that is not a crash.
    pub fn parse_list(text: &str) -> Result<Vec<Crash>, CrashError> {
        if text == "none" { Ok(Vec::new()) } else { text.split(',').map(str::parse).collect() }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.event)
    }
}

impl FromStr for Crash {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<Crash, CrashError> {
        let parsed = text.trim().split_once('@').and_then(|(id, event)| {
            let (id, event) = (id.parse().ok()?, event.parse().ok()?);
            Some(Crash { event, id })
        });
        parsed.ok_or_else(|| CrashError(text.chars().take(40).collect()))
    }
}

/// Planned crashes of a world.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    /// Processes to end, each at its event; the first is last in the list.
    pub(super) planned: Vec<Crash>,
    /// The ids that took part in each event, if the caller needs them.
    pub(super) parts: Option<Parts>,
}

/// The ids that took part in each event of a world, up to the end of its planned events.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) seen: Vec<(u64, Id)>,
    pub(super) over: bool,
}
