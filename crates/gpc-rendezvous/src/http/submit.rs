//! Submits a request to the service.

use tokio::sync::oneshot;

use crate::machine::{Answer, Fault, FaultKind, Request};
use crate::service_thread::Desk;

/// Submits a request and waits for its answer, without a limit. Dropping the future cancels the request.
pub(super) async fn ask(desk: &Desk, request: Request) -> Result<Answer, Fault> {
    let (sender, answer) = oneshot::channel();
    let pending = desk.ask(request, move |answer| drop(sender.send(answer)));
    let answer = answer.await.unwrap_or_else(|_| Err(ended()));
    pending.detach();
    answer
}

/// The fault for an answer that never comes.
pub(super) fn ended() -> Fault {
    Fault::new(FaultKind::Unavailable, "the service has ended")
}
