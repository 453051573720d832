//! What a chained call that has ended says of each node, in the words of a domain.

use chained_gpc::trees::Id;
use chained_gpc::{Cause, CauseKind};

use crate::codec::decode_report;
use crate::fault::{Fault, FaultKind};
use crate::order::Report;

/// What a node has said: its reply, if there is one; or else why there is none, where it is known.
pub(crate) fn report_of(id: Id, reply: Option<&[u8]>, cause: Option<&Cause>) -> Result<Report, Fault> {
    match (reply, cause) {
        (Some(data), _) => decode_report(data).map_err(|error| {
            Fault::new(FaultKind::System, format!("node {id} answers what makes no sense: {error}"))
        }),
        (None, Some(cause)) => Err(fault_of(cause)),
        (None, None) => Err(unreached(id)),
    }
}

fn unreached(id: Id) -> Fault {
    let mut fault = Fault::new(FaultKind::NodeLost, format!("node {id} was not reached"));
    fault.node = Some(id);
    fault
}

/// A cause as a fault of the domain.
pub(crate) fn fault_of(cause: &Cause) -> Fault {
    let lost = is_loss(cause.kind);
    let kind = match cause.kind {
        _ if lost => FaultKind::NodeLost,
        CauseKind::TimeLimit => FaultKind::TimedOut,
        _ => FaultKind::System,
    };
    let mut fault = Fault::new(kind, format!("node {}: {}", cause.id, cause.message));
    fault.node = lost.then_some(cause.id);
    fault
}

/// Whether a cause says that its id is gone, or cannot be reached.
pub(crate) fn is_loss(kind: CauseKind) -> bool {
    matches!(
        kind,
        CauseKind::Unreachable
            | CauseKind::LinkLost
            | CauseKind::LostIncarnation
            | CauseKind::ShuttingDown
            | CauseKind::NotAuthorised
            | CauseKind::UnknownFunction
    )
}
