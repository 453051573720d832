//! The outcome of a call as plain data, and its output.
//!
//! [`Outcome`] is exactly the JSON object that `gpc call --output json` prints: programs read its fields by name and
//! order.

mod columns;
mod json;
mod reduced;
mod table;
mod units;

pub(super) use columns::{Align, write_columns};
pub(super) use json::write_json;
pub use reduced::Reduced;
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

/// Outcome of a call.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Name of the function.
    pub func: String,
    /// Name of the tree.
    pub tree: String,
    /// Number of ids that take part.
    pub nodes: u32,
    /// The id that made the call.
    pub root: Id,
    /// Role of the root in the call.
    pub root_part: RootPart,
    /// Whether the call continues without ids that fail or are lost.
    pub partial: bool,
    /// Name of the callback that merged the replies into one; `null` if there is none.
    pub callback: Option<String>,
    /// Whether no replies were requested.
    pub no_reply: bool,
    /// Levels of the tree above its leaves, which is the level of an aggregated reply.
    pub level: u32,
    /// Time from the start of the call to its end at the root, in microseconds; of several calls, that of the last.
    pub wall_us: u64,
    /// Number of ids by status; the four add up to `nodes`.
    pub coverage: Counts,
    /// Cause of the failure; `null` if the call did not fail.
    pub cause: Option<FirstCause>,
    /// The ids that are not done, in tree order.
    pub missing: Vec<Missing>,
    /// The replies in the caller's order; only the root's reply if the function combines them.
    pub replies: Vec<Reply>,
    /// The numbers in the data of a reduction; `null` without one.
    pub reduced: Option<Reduced>,
    /// Times of many calls; `null` for a single one.
    pub repeat: Option<Repeat>,
}

/// Role of the root in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RootPart {
    /// One of the listed ids.
    Listed,
    /// Not listed, and added, since the process that makes a call takes part in it.
    Added,
    /// Only makes the call.
    Watching,
}

/// Number of ids by status.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counts {
    /// Done.
    pub done: u32,
    /// Failed.
    pub failed: u32,
    /// The request never reached them.
    pub unreached: u32,
    /// The request was sent and no answer arrived: they may have executed.
    pub unknown: u32,
}

/// First cause of a failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FirstCause {
    /// The id that failed.
    pub id: Id,
    /// The stage of the call, such as `func` or `link`.
    pub stage: String,
    /// Kind of the failure, such as `failed` or `time-limit`: the name of a
    /// [`CauseKind`](chained_gpc::wire::CauseKind).
    pub kind: String,
    /// Number from the application; 0 if its function gave none.
    pub code: i64,
    /// Message for people.
    pub message: String,
}

/// An id that is not done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// The id.
    pub id: Id,
    /// `failed`, `unreached` or `unknown`.
    pub status: &'static str,
    /// Stage and reason; `null` if nothing is known of this id itself.
    pub cause: Option<FirstCause>,
}

/// Reply of one id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reply {
    /// The id.
    pub id: Id,
    /// Its reply header.
    pub header: Content,
    /// Its reply data.
    pub data: Content,
}

/// Bytes that are usually text. In JSON a string, or `{"base64":"..."}` if they are not UTF-8.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Content(pub Vec<u8>);

/// Times of many calls, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Repeat {
    /// Number of calls.
    pub calls: u32,
    /// Half of the calls took at most this time.
    pub median_us: u64,
    /// 90 of 100 calls took at most this time.
    pub p90_us: u64,
    /// 99 of 100 calls took at most this time.
    pub p99_us: u64,
}

impl Outcome {
    /// Whether every id is done; only then the command succeeds.
    pub fn is_complete(&self) -> bool {
        self.cause.is_none() && self.coverage.done == self.nodes
    }

    /// Whether a table lists the ids that are not done. If one failure ends the call, a list of the others adds nothing
    /// to the coverage.
    pub fn lists_missing(&self) -> bool {
        self.partial && !self.missing.is_empty()
    }

    /// Writes the JSON object and a line feed.
    ///
    /// # Errors
    /// If the output fails.
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
            // An unknown kind is shown as its number.
            kind: cause.kind.to_string(),
            code: cause.code,
            message: cause.message.clone(),
        }
    }
}

impl FirstCause {
    /// Returns kind and code, if they add something to the stage and the message.
    fn detail(&self) -> String {
        match (self.kind.as_str(), self.code) {
            ("failed" | "cancelled", 0) => String::new(),
            (kind, 0) => format!(" ({kind})"),
            (kind, code) => format!(" ({kind}, code {code})"),
        }
    }
}

impl Content {
    /// Returns text, with all that is not UTF-8 replaced.
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
    /// Computes percentiles from the time of each call, in any order; `None` for no calls.
    pub fn of_times_us(times_us: &mut [u64]) -> Option<Repeat> {
        times_us.sort_unstable();
        let calls = u32::try_from(times_us.len()).ok()?;
        let at = |percent| percentile(times_us, percent);
        Some(Repeat { calls, median_us: at(50)?, p90_us: at(90)?, p99_us: at(99)? })
    }
}

#[cfg(test)]
mod tests;
