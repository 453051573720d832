//! State that all requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::budget::Budget;
use super::host::Names;
use super::poller::Pollers;
use super::problem::Problem;
use super::response_budget::ResponseBudget;
use super::sessions::Sessions;
use super::submit::{ask, ended};
use super::wrong_tokens::WrongTokens;
use crate::machine::{Answer, Limits, Request};
use crate::service_thread::Desk;
use crate::token::ServiceToken;

/// Time limit for an answer that does not depend on other tasks: one turn of the service, with its write to disk.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) desk: Desk,
    pub(super) url: String,
    /// Path of the URL, which prefixes the paths of resources.
    pub(super) path: String,
    pub(super) names: Names,
    pub(super) limits: Limits,
    pub(super) token: Option<ServiceToken>,
    pub(super) page_token: Option<ServiceToken>,
    pub(super) bodies: Arc<Budget>,
    pub(super) response_budget: Arc<ResponseBudget>,
    pub(super) streams: Arc<Semaphore>,
    /// Slots for open pages.
    pub(super) pages: Arc<Semaphore>,
    pub(super) logins: Semaphore,
    /// Time limit for the form of a login.
    pub(super) form_limit: Duration,
    pub(super) wrong_tokens: WrongTokens,
    pub(super) sessions: Sessions,
    pub(super) pollers: Arc<Pollers>,
}

/// The state that handlers get.
pub(super) type App = Arc<Shared>;

impl Shared {
    /// Submits a request that is answered immediately.
    pub(super) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        match timeout(ANSWER_LIMIT, ask(&self.desk, request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(silent()),
        }
    }

    /// Submits a request for a new resource.
    pub(super) async fn create(&self, spec: crate::Spec) -> Result<Answer, Problem> {
        let (sender, answer) = oneshot::channel();
        let then = move |answer| drop(sender.send(answer));
        let no_randomness =
            |error| Problem::unavailable(format!("nothing can be drawn for a resource: {error}"));
        self.desk.create(spec, then).map_err(no_randomness)?.detach();
        match timeout(ANSWER_LIMIT, answer).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(ended().into()),
            Err(_) => Err(silent().uncertain()),
        }
    }
}

/// The problem for an answer of the wrong kind.
pub(super) fn strange() -> Problem {
    Problem::unavailable("the service has answered something else than was asked: this is a fault of its own")
}

/// The problem for a request that the service may carry out later.
fn silent() -> Problem {
    Problem::unavailable(format!(
        "the service has not answered for {} s, and what was asked for may have been done: ask again",
        ANSWER_LIMIT.as_secs()
    ))
}
