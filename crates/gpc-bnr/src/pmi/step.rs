//! The results of PMI requests, in both versions, and what to do with their answers.

use std::time::Duration;

use chained_gpc::Shown;

use super::attributes::NodeAsk;
use crate::names::RESERVED;
use crate::request::Request;

/// Longest line, message or spawn in bytes. The length of a message has six digits, so longer ones are unnecessary.
pub const ASK_MAX: usize = 1 << 20;

/// Time limit of a barrier: as long as any job. PMI has no limit, and a process may compute for days before it arrives.
/// A process that ends without arriving fails the barrier.
pub(super) const JOB_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// What to do with an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// The agreed version.
    Init(u32, u32),
    One(OneFor),
    Two(Asked),
}

/// The result of a line or a message.
pub(super) enum Step {
    Nothing,
    Say(Vec<u8>),
    /// The version that the client requests.
    Init(u32, u32),
    /// The secret of a client on the port, from a PMI-2 message or, if `None`, from a PMI-1 line.
    Who(String, Option<Asked>),
    /// A request, and whether it blocks later ones.
    Ask(Request, Then, bool),
    Node(NodeAsk, Then, bool),
    Abort(u8, String),
}

/// The request that an answer belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OneFor {
    Put,
    Get(Vec<u8>),
    /// With the tag that the answer repeats.
    Barrier(Option<Vec<u8>>),
    Publish,
    Lookup,
    Unpublish,
    Finalize,
    Create,
    Destroy,
    ByIndex(String, usize),
    Spawn,
}

/// The command that an answer belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) command: String,
    /// The client's thread id, which the answer repeats.
    pub(super) thread: Option<Vec<u8>>,
    pub(super) what: TwoFor,
}

/// The form of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TwoFor {
    /// Only success or failure.
    Done,
    /// The identity of the process. `all` adds the fields that Slurm's client expects.
    Identity {
        all: bool,
    },
    /// A value, if there is one.
    Value,
    Lookup,
    Spawn,
    /// Whether a database with this name exists.
    Connect(Vec<u8>),
}

/// Whether only the server may write this key.
pub(super) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}

/// Quotes received bytes: shortened, without control characters for a terminal.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let bounded = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]);
    Shown(&bounded).to_string()
}
