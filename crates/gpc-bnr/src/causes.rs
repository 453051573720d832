//! Converts the results of a chained call, node by node, into reports and faults of a domain.

use chained_gpc::trees::Id;
use chained_gpc::{Cause, CauseKind, Shown};

use crate::codec::decode_report;
use crate::fault::{Fault, FaultKind};
use crate::order::Report;

/// Why a node has none of the functions of this crate.
const NO_PROGRAMS: &str = "it was started without `--exec-allowed`: start it with `gpc node --exec-allowed`, or with `Serving` in a program";

/// What to do about a node that does not answer at its address.
const SEE: &str = "see that the node runs there";

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
    let message = Shown(message);
    let why = match cause.kind {
        // The cause has the number of the function, which only other nodes register.
        CauseKind::UnknownFunction => NO_PROGRAMS.to_owned(),
        CauseKind::Unreachable if is_absent(&cause.message) => format!("{message}; {SEE}"),
        _ => message.to_string(),
    };
    Fault::at(*id, kind, format!("node {id} (stage {stage}): {why}"))
}

/// Whether nothing answers at the node's address. A node that refuses a link runs.
fn is_absent(message: &str) -> bool {
    message.starts_with("cannot connect to ") && !message.contains(": it refused ")
}

/// Returns the reason of a fault of this node, for messages that name the node themselves.
pub(crate) fn reason_of(id: Id, fault: &Fault) -> &str {
    let own = fault.message.strip_prefix(&format!("node {id} (stage "));
    own.and_then(|rest| rest.split_once("): ")).map_or(&fault.message, |(_, why)| why)
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
        let absent = fault(CauseKind::Unreachable, "cannot connect to 10.0.0.7:70: refused");
        assert!(absent.message.ends_with("10.0.0.7:70: refused; see that the node runs there"), "{absent}");
        let refuses = fault(CauseKind::Unreachable, "cannot connect to 10.0.0.7:70: it refused the proof");
        assert!(refuses.message.ends_with("it refused the proof"), "{refuses}");
        let hostile = fault(CauseKind::Failed, "\u{1b}[2J");
        assert!(!hostile.message.contains('\u{1b}'), "{hostile}");
    }

    /// A node that was restarted, or that left, counted as a busy one: its processes were taken for alive.
    #[test]
    fn a_cause_that_means_a_lost_node_is_known() {
        use CauseKind::*;
        for kind in [Unreachable, LinkLost, LostIncarnation, ShuttingDown, NotAuthorised, UnknownFunction] {
            assert!(is_loss(kind), "{kind:?}");
        }
        for kind in [Failed, TimeLimit, Cancelled, NoAnswer] {
            assert!(!is_loss(kind), "{kind:?}");
        }
    }

    #[test]
    fn a_report_is_the_reply_or_the_cause_or_neither() {
        let report = report_of(7, Some(&crate::codec::encode_report(&Report::Done)), None);
        assert_eq!(report, Ok(Report::Done));
        let cause = Cause::new(7, Stage::Func, CauseKind::Failed, "why");
        let fault = |reply, cause| report_of(7, reply, cause).unwrap_err();
        assert_eq!(
            (fault(Some(b"\xff"), Some(&cause)).kind, fault(Some(b"\xff"), None).node),
            (FaultKind::System, Some(7))
        );
        assert_eq!(fault(None, Some(&cause)).message, "node 7 (stage func): why");
        let unreached = fault(None, None);
        assert_eq!((unreached.kind, unreached.node), (FaultKind::NodeLost, Some(7)));
    }

    /// The reason of a node that runs no programs was the number of a function.
    #[test]
    fn a_node_that_runs_no_programs_is_told_how_to_start() {
        let cause = Cause::new(7, Stage::Setup, CauseKind::UnknownFunction, "the handle 0x5d6f");
        let fault = fault_of(&cause);
        assert_eq!((fault.kind, reason_of(7, &fault)), (FaultKind::NodeLost, NO_PROGRAMS));
        assert_eq!(reason_of(8, &fault), fault.message);
    }
}
