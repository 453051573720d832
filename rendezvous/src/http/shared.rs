//! What all requests share, and how the service is asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::answers::Answers;
use super::body::Budget;
use super::host::Names;
use super::poller::Pollers;
use super::problem::Problem;
use super::sessions::Sessions;
use super::wrong::Wrong;
use crate::keeper::Desk;
use crate::machine::{Answer, Fault, FaultKind, Limits, Request};
use crate::token::ServiceToken;

/// How long an answer may take that does not wait for anybody: a turn of the service, with what it writes to a disk.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// What all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) desk: Desk,
    pub(super) url: String,
    /// The path of the URL, by which clients reach it.
    pub(super) path: String,
    pub(super) names: Names,
    pub(super) limits: Limits,
    pub(super) token: Option<ServiceToken>,
    pub(super) page_token: Option<ServiceToken>,
    pub(super) bodies: Arc<Budget>,
    pub(super) answers: Arc<Answers>,
    pub(super) streams: Arc<Semaphore>,
    /// Places of those who look at the page.
    pub(super) pages: Arc<Semaphore>,
    pub(super) logins: Semaphore,
    /// How long the form of a login may take.
    pub(super) form_limit: Duration,
    pub(super) wrong: Wrong,
    pub(super) sessions: Sessions,
    pub(super) pollers: Arc<Pollers>,
}

/// What handlers get.
pub(super) type App = Arc<Shared>;

impl Shared {
    /// Asks something that is answered at once.
    pub(super) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        match timeout(ANSWER_LIMIT, ask(&self.desk, request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Problem::unavailable(format!(
                "the service has not answered for {} s: ask again",
                ANSWER_LIMIT.as_secs()
            ))),
        }
    }

    /// Asks for a new resource.
    pub(super) async fn create(&self, spec: crate::Spec) -> Result<Answer, Problem> {
        let (told, answer) = oneshot::channel();
        let then = move |answer| drop(told.send(answer));
        let no_randomness =
            |error| Problem::unavailable(format!("nothing can be drawn for a resource: {error}"));
        self.desk.create(spec, then).map_err(no_randomness)?.detach();
        match timeout(ANSWER_LIMIT, answer).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) | Err(_) => Err(ended().into()),
        }
    }
}

/// Asks, for as long as it takes. Whoever drops this no longer waits.
pub(super) async fn ask(desk: &Desk, request: Request) -> Result<Answer, Fault> {
    let (told, answer) = oneshot::channel();
    let asked = desk.ask(request, move |answer| drop(told.send(answer)));
    let answer = answer.await.unwrap_or_else(|_| Err(ended()));
    asked.detach();
    answer
}

/// An answer that the service gives to nothing that is asked here.
pub(super) fn strange() -> Problem {
    Problem::unavailable("the service has answered something else than was asked: this is a fault of its own")
}

fn ended() -> Fault {
    Fault::new(FaultKind::Unavailable, "the service has ended")
}
