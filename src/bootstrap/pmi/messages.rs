//! The requests and responses of PMI, whatever the version that encodes them.

use gpc_trees::Id;

use crate::wire::Shown;

/// Maximum length of a response, bytes: the longest value that is used here, and the fields around it.
pub(super) const ANSWER_MAX: usize = 16 << 10;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// Port mode: which process has connected.
    Port,
    /// Negotiates the version.
    Init,
    /// PMI-1: asks for the maximum length of values. PMI-2: names this process.
    Register,
    /// The name of the set of processes.
    Name,
    /// The processes that share a host.
    Mapping,
    Put {
        key: String,
        value: String,
    },
    /// Waits for all processes.
    Fence,
    Get {
        /// The id that has put the value.
        of: Id,
        key: String,
    },
    /// This process ends normally.
    Finish,
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Success. The client has stored what the server reported about itself.
    Done,
    /// The requested value.
    Value(String),
    /// There is no such value; the server's reason.
    Missing(String),
}

/// An invalid response or a failure of a server. Its text is escaped and bounded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server refuses the request.
    #[error("the server refuses it: `{0}`")]
    Refused(String),
    /// The response does not match the request.
    #[error("the server answers with nonsense: `{0}`")]
    Nonsense(String),
    /// The response exceeds its maximum length.
    #[error("the server's answer is longer than {ANSWER_MAX} bytes")]
    TooLong,
    /// The server reports another id or count than the variables.
    #[error("the server says that this is id {id} of {count}, and its variables say id {told} of {of}")]
    OtherId {
        /// The id that the server reports.
        id: Id,
        /// The number of processes that the server reports.
        count: u32,
        /// The id in the variables.
        told: Id,
        /// The number of processes in the variables.
        of: u32,
    },
}

impl Fault {
    pub(super) fn refused(text: &str) -> Fault {
        Fault::Refused(Shown(text).to_string())
    }

    pub(super) fn nonsense(text: &str) -> Fault {
        Fault::Nonsense(Shown(text).to_string())
    }
}
