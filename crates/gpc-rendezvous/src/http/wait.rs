//! Waits for a completion by long poll: the request is answered when the outcome is known, or at its time limit.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use super::data_body::DataBody;
use super::json;
use super::problem::Problem;
use super::request::{HttpRequest, of};
use super::shared::{App, Shared, strange};
use super::submit::ask;
use crate::machine::{Answer, Completion, Request};

/// Default wait, milliseconds.
const WAIT: u64 = 30_000;

/// Longest wait, milliseconds: proxies close connections that are silent for longer.
const WAIT_MAX: u64 = 300_000;

/// Time after the end of a wait within which the service must answer.
const GRACE: Duration = Duration::from_secs(30);

/// The header with the level of the data.
const LEVEL: HeaderName = HeaderName::from_static("rendezvous-level");

/// `GET /rendezvous/ID/completion`
pub(super) async fn completion(
    State(shared): State<App>,
    http_request: HttpRequest,
) -> Result<Response, Problem> {
    let query = http_request.query(&["wait", "of"])?;
    let wait = query.millis("wait")?.unwrap_or(WAIT);
    if wait > WAIT_MAX {
        let message = format!("a wait takes at most {} s: ask again after it", WAIT_MAX / 1000);
        return Err(Problem::bad(message));
    }
    let (resource, of, token) = (http_request.id()?, of(&query)?, http_request.token()?);
    let until = Some(shared.desk.now().saturating_add(wait));
    let answer = ask(&shared.desk, Request::Wait { resource, of, until, token });
    match timeout(Duration::from_millis(wait) + GRACE, answer).await {
        Ok(Ok(Answer::Completed(completion))) => {
            response(&shared, completion, wants_json(http_request.headers()))
        }
        Ok(Ok(Answer::NotYet)) => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(Ok(_)) => Err(strange()),
        Ok(Err(fault)) => Err(fault.into()),
        Err(_) => Err(Problem::unavailable("the service has not answered in time: ask again")),
    }
}

fn response(shared: &Shared, completion: Completion, json: bool) -> Result<Response, Problem> {
    let data = shared.response_budget.send(completion.data.clone())?;
    if json {
        let (before, behind) = json::around(&completion);
        let body = Body::new(DataBody::encoded(before, data, behind));
        return Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response());
    }
    let level = (LEVEL, completion.level.to_string());
    let media = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    Ok(([media, level], Body::new(DataBody::plain(data))).into_response())
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accepted| accepted.to_str().ok());
    let media = accepted.flat_map(|accepted| accepted.split(',')).filter_map(|media| media.split(';').next());
    media.into_iter().any(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
