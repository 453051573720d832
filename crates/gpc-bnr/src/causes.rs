//! Converts the results of a chained call, node by node, into reports and faults of a domain.

use chained_gpc::trees::Id;
use chained_gpc::{Cause, CauseKind, Shown};

use crate::codec::decode_report;
use crate::fault::{Fault, FaultKind};
use crate::order::Report;

/// A node's report: its reply if there is one, otherwise the cause of the failure as a fault.
pub(crate) fn report_of(id: Id, reply: Option<&[u8]>, cause: Option<&Cause>) -> Result<Report, Fault> {
    match (reply, cause) {
        (Some(data), _) => decode_report(data).map_err(|error| {
            Fault::at(id, FaultKind::System, format!("node {id} answers what makes no sense: {error}"))
        }),
        (None, Some(cause)) => Err(fault_of(cause)),
        (None, None) => Err(unreached(id)),
    }
}

fn unreached(id: Id) -> Fault {
    Fault::at(id, FaultKind::NodeLost, format!("node {id} was not reached"))
}

/// Converts a cause to a fault of the domain: node, stage of the call, and message.
pub(crate) fn fault_of(cause: &Cause) -> Fault {
    let kind = match cause.kind {
        lost if is_loss(lost) => FaultKind::NodeLost,
        CauseKind::TimeLimit => FaultKind::TimedOut,
        _ => FaultKind::System,
    };
    let Cause { id, stage, message, .. } = cause;
    Fault::at(*id, kind, format!("node {id} (stage {stage}): {}", Shown(message)))
}

/// Whether a cause means that its id is gone or cannot be reached.
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

#[cfg(test)]
mod tests {
    use chained_gpc::Stage;

    use super::*;

    /// The fault of a function that had failed at a node named no node. So the reader of the message did not know where
    /// to look.
    #[test]
    fn a_fault_names_the_node_and_the_stage_and_says_what_was_said() {
        let fault = |kind, message: &str| fault_of(&Cause::new(7, Stage::Func, kind, message));
        for (kind, becomes) in [
            (CauseKind::Failed, FaultKind::System),
            (CauseKind::TimeLimit, FaultKind::TimedOut),
            (CauseKind::LinkLost, FaultKind::NodeLost),
            (CauseKind::NotAuthorised, FaultKind::NodeLost),
        ] {
            let fault = fault(kind, "the disk is full");
            assert_eq!((fault.kind, fault.node), (becomes, Some(7)));
            assert_eq!(fault.message, "node 7 (stage func): the disk is full");
        }
        let hostile = fault(CauseKind::Failed, "\u{1b}[2J");
        assert!(!hostile.message.contains('\u{1b}'), "{hostile}");
    }
}
