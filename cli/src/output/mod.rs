//! What a call came to, as plain data, and how it is printed.
//!
//! [`Outcome`] is exactly the JSON object that `gpc call --output json` prints: its fields, their names and their order are read by programs.

mod columns;
mod json;
mod table;
mod units;

pub(super) use columns::{Align, write_columns};
pub(super) use json::write_json;
pub use table::{Width, write_table};
pub use units::{shown_ns, shown_us};

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpc_trees::Id;
use serde::{Serialize, Serializer};

use super::quantile::percentile;
use chained_gpc::wire::{Cause, CoverageCounts, Shown};

/// What a call came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The function's name.
    pub func: String,
    /// The tree's name.
    pub tree: String,
    /// Ids that take part.
    pub nodes: u32,
    /// The id that made the call.
    pub root: Id,
    /// What it is in the call.
    pub root_part: RootPart,
    /// Whether it goes on without ids that fail or are lost.
    pub partial: bool,
    /// Levels of the tree above its leaves: the level of an aggregated reply.
    pub level: u32,
    /// Time from the start of the call to its end at the root, microseconds; the last call's where there were several.
    pub wall_us: u64,
    /// How many ids fared how; the four add up to `nodes`.
    pub coverage: Counts,
    /// Why it failed; `null` if it did not.
    pub cause: Option<FirstCause>,
    /// The ids that are not done, in tree order.
    pub missing: Vec<Missing>,
    /// The replies in the caller's order; one alone, the root's, where the function combines them.
    pub replies: Vec<Reply>,
    /// The times of many calls; `null` for a single one.
    pub repeat: Option<Repeat>,
}

/// What the root is in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RootPart {
    /// One of the ids that are called.
    Listed,
    /// Not listed, and added, since whoever makes a call takes part in it.
    Added,
    /// It only makes the call.
    Watching,
}

/// How many ids fared how.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// Done.
    pub done: u32,
    /// Failed.
    pub failed: u32,
    /// Never asked.
    pub unreached: u32,
    /// Asked and not heard of: they may have executed.
    pub unknown: u32,
}

/// The first cause of a failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FirstCause {
    /// The id that failed.
    pub id: Id,
    /// The stage of the call, such as `func` or `link`.
    pub stage: String,
    /// What kind of failure it is, such as `failed` or `time-limit`: the name of a [`CauseKind`](chained_gpc::wire::CauseKind).
    pub kind: String,
    /// The application's number; 0 where its function gave none.
    pub code: i64,
    /// In words.
    pub message: String,
}

/// An id that is not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The id.
    pub id: Id,
    /// `failed`, `unreached` or `unknown`.
    pub status: &'static str,
    /// Where and why; `null` where nothing is known of this id itself.
    pub cause: Option<FirstCause>,
}

/// One id's reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reply {
    /// The id.
    pub id: Id,
    /// Its reply header.
    pub header: Content,
    /// Its reply data.
    pub data: Content,
}

/// Bytes that are text most of the time. As JSON a string, or `{"base64":"..."}` where they are not UTF-8.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Content(pub Vec<u8>);

/// The times of many calls, microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Repeat {
    /// How many calls.
    pub calls: u32,
    /// Half of them took no longer.
    pub median_us: u64,
    /// 90 of 100 took no longer.
    pub p90_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
}

impl Outcome {
    /// Whether every id is done: only then the command succeeds.
    pub fn is_complete(&self) -> bool {
        self.cause.is_none() && self.coverage.done == self.nodes
    }

    /// Whether a table lists the ids that are not done. Where one failure ends the call, all the others say nothing that the coverage does not.
    pub fn lists_missing(&self) -> bool {
        self.partial && !self.missing.is_empty()
    }

    /// Writes the JSON object and a line feed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        write_json(self, out)
    }
}

impl From<CoverageCounts> for Counts {
    fn from(counts: CoverageCounts) -> Counts {
        let CoverageCounts { done, failed, unreached, unknown } = counts;
        Counts { done, failed, unreached, unknown }
    }
}

impl fmt::Display for FirstCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FirstCause { id, stage, message, .. } = self;
        write!(f, "id {id} failed at stage {stage}{}: {}", self.detail(), Shown(message))
    }
}

impl From<&Cause> for FirstCause {
    fn from(cause: &Cause) -> FirstCause {
        FirstCause {
            id: cause.id,
            stage: cause.stage.name().into(),
            // Of a kind that is not known its number.
            kind: cause.kind.to_string(),
            code: cause.code,
            message: cause.message.clone(),
        }
    }
}

impl FirstCause {
    /// Kind and code, where they say more than the stage and the words do.
    fn detail(&self) -> String {
        match (self.kind.as_str(), self.code) {
            ("failed" | "cancelled", 0) => String::new(),
            (kind, 0) => format!(" ({kind})"),
            (kind, code) => format!(" ({kind}, code {code})"),
        }
    }
}

impl Content {
    /// As text, what is not UTF-8 replaced.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<Vec<u8>>> From<T> for Content {
    fn from(bytes: T) -> Content {
        Content(bytes.into())
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Encoded {
            base64: String,
        }
        match str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Encoded { base64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl Repeat {
    /// From the time of each call, in any order; `None` for no calls.
    pub fn of_times_us(times_us: &mut [u64]) -> Option<Repeat> {
        times_us.sort_unstable();
        let calls = u32::try_from(times_us.len()).ok()?;
        let at = |percent| percentile(times_us, percent);
        Some(Repeat { calls, median_us: at(50)?, p90_us: at(90)?, p99_us: at(99)? })
    }
}

#[cfg(test)]
mod tests;
