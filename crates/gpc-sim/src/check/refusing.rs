//! Answers that refuse a request.

use gpc_trees::Id;

use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CauseKind, Stage};

/// Whether an id refuses any part in a request; if it knows the call from another parent, it continues for that one.
pub(super) fn is_refusal(from: Id, response: &Response) -> bool {
    match &response.answer {
        Answer::Failed(failure) if failure.cause.id == from => matches!(
            (failure.cause.stage, failure.cause.kind),
            (Stage::Setup, CauseKind::SecondParent | CauseKind::AlreadyEnded | CauseKind::LostIncarnation)
        ),
        _ => false,
    }
}

/// Whether an id refuses a request because of a limit.
pub(super) fn takes_no_more(from: Id, response: &Response) -> bool {
    use CauseKind::{Busy, NoMemory, OverLimit, ShuttingDown};
    match &response.answer {
        Answer::Failed(failure) if (failure.cause.id, failure.cause.stage) == (from, Stage::Setup) => {
            matches!(failure.cause.kind, Busy | NoMemory | OverLimit | ShuttingDown)
        }
        _ => false,
    }
}
