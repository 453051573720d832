//! An input about a link, for a chain.

use gpc_trees::Id;

use chained_gpc::wire::CauseKind;

/// An input about a link.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A link is up. The machine reports the peer's `incarnation`; `begun` is the true start of the run at the other
    /// end.
    Up { peer: Id, incarnation: u64, begun: u64 },
    /// A link is lost. `unreached`: it never came up, so no message can have arrived.
    Lost { peer: Id, kind: CauseKind, why: String, unreached: bool },
}
