//! The results of PMI requests, in both versions, and the replies that their answers become.

use std::time::Duration;

use chained_gpc::Shown;

use super::attributes::NodeRequest;
use crate::names::RESERVED;
use crate::request::Request;

/// Longest line, message or spawn in bytes. The length of a message has six digits, so longer ones are unnecessary.
pub const ASK_MAX: usize = 1 << 20;

/// Time limit of a barrier: as long as any job. PMI has no limit, and a process may compute for days before it arrives.
/// A process that ends without arriving fails the barrier.
pub(super) const JOB_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// The reply that a request waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PendingReply {
    /// The agreed version.
    Init(u32, u32),
    One(OneReply),
    Two(TwoReply),
}

/// The result of a line or a message.
pub(super) enum Step {
    Nothing,
    Send(Vec<u8>),
    /// The version that the client requests.
    Init(u32, u32),
    /// The secret of a client on the port, from a PMI-2 message or, if `None`, from a PMI-1 line.
    Identify(String, Option<TwoReply>),
    /// A request, and whether it blocks later ones.
    Request(Request, PendingReply, bool),
    NodeRequest(NodeRequest, PendingReply, bool),
    Abort(u8, String),
}

/// A PMI-1 reply, by its request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OneReply {
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

/// A PMI-2 reply to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TwoReply {
    pub(super) command: String,
    /// The client's thread id, which the answer repeats.
    pub(super) thread: Option<Vec<u8>>,
    pub(super) what: TwoForm,
}

/// The form of a PMI-2 reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TwoForm {
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
