//! HTTP responses for faults: a status and a problem body (RFC 9457).

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::machine::{Fault, FaultKind};

/// Prefix of a problem's type.
const TYPE: &str = "urn:gpc:rendezvous:fault:";

/// Media type of problems.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Pause before a retry, seconds, suggested to clients of a service that is full or unavailable.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A rejected request.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    fault: Box<Fault>,
}

/// JSON of a problem.
#[derive(Serialize)]
pub(super) struct ProblemShape<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
}

impl Problem {
    /// A fault with an explicit HTTP status.
    pub(super) fn new(status: StatusCode, kind: FaultKind, message: impl Into<String>) -> Problem {
        Problem { status, fault: Box::new(Fault::new(kind, message)) }
    }

    /// A malformed request.
    pub(super) fn bad(message: impl Into<String>) -> Problem {
        Fault::new(FaultKind::BadRequest, message).into()
    }

    /// A request that the service cannot carry out now.
    pub(super) fn unavailable(message: impl Into<String>) -> Problem {
        Fault::new(FaultKind::Unavailable, message).into()
    }

    /// A request that the service may carry out later. If a repetition would carry it out again, its client must not
    /// repeat it.
    pub(super) fn uncertain(self) -> Problem {
        Problem { status: StatusCode::GATEWAY_TIMEOUT, ..self }
    }

    /// JSON text of the problem.
    pub(super) fn written(&self) -> String {
        text(&self.fault, self.status)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Problem {
        Problem { status: status(fault.kind), fault: Box::new(fault) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, [(header::CONTENT_TYPE, MEDIA_TYPE)], self.written()).into_response();
        let more: Option<(HeaderName, HeaderValue)> = match self.status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, RETRY_AFTER)),
            // The rest of the body is not read.
            StatusCode::REQUEST_TIMEOUT => Some((header::CONNECTION, HeaderValue::from_static("close"))),
            _ => None,
        };
        response.headers_mut().extend(more);
        response
    }
}

/// A fault as part of another JSON answer.
pub(super) fn written(fault: &Fault) -> ProblemShape<'_> {
    of(fault, status(fault.kind))
}

fn of(fault: &Fault, status: StatusCode) -> ProblemShape<'_> {
    ProblemShape {
        r#type: format!("{TYPE}{}", fault.kind),
        title: title(fault.kind),
        status: status.as_u16(),
        detail: &fault.message,
        code: fault.kind.code(),
        rank: fault.rank,
        task: fault.task.as_deref(),
    }
}

fn text(fault: &Fault, status: StatusCode) -> String {
    // Serializing numbers and text cannot fail.
    serde_json::to_string(&of(fault, status)).unwrap_or_default()
}

/// HTTP status of each kind.
pub(super) fn status(kind: FaultKind) -> StatusCode {
    use FaultKind as Kind;
    match kind {
        Kind::CapacityZero
        | Kind::CapacityOver
        | Kind::LevelOutOfRange
        | Kind::LifetimeOutOfRange
        | Kind::RankOutOfRange
        | Kind::Malformed
        | Kind::BadRequest => StatusCode::BAD_REQUEST,
        Kind::Unauthorized => StatusCode::UNAUTHORIZED,
        Kind::NotRegistered | Kind::UnknownResource => StatusCode::NOT_FOUND,
        Kind::CapacityReached
        | Kind::RankTaken
        | Kind::TokenReused
        | Kind::Complete
        | Kind::ControllerTaken => StatusCode::CONFLICT,
        Kind::Destroyed | Kind::Expired | Kind::JobEnded | Kind::ControllerLost => StatusCode::GONE,
        Kind::DataTooLong => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::AboveFailed => StatusCode::BAD_GATEWAY,
        Kind::ServiceFull | Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn title(kind: FaultKind) -> &'static str {
    use FaultKind as Kind;
    match kind {
        Kind::CapacityZero => "A capacity is at least 1",
        Kind::CapacityOver => "The capacity is over the limit",
        Kind::LevelOutOfRange => "There is no such level",
        Kind::LifetimeOutOfRange => "No resource lives so long",
        Kind::CapacityReached => "All have registered",
        Kind::RankTaken => "The rank is taken",
        Kind::RankOutOfRange => "There is no such rank",
        Kind::DataTooLong => "The data are too long",
        Kind::Malformed => "The data are not level-n data",
        Kind::TokenReused => "The token has been used",
        Kind::NotRegistered => "Nobody has registered so",
        Kind::Complete => "The rendezvous is complete",
        Kind::UnknownResource => "There is no such resource",
        Kind::Destroyed => "The resource was destroyed",
        Kind::Expired => "The lifetime of the resource has passed",
        Kind::JobEnded => "The job has ended",
        Kind::ControllerLost => "A controlling task is lost",
        Kind::ControllerTaken => "The unit has a controlling task",
        Kind::AboveFailed => "The rendezvous above has failed",
        Kind::ServiceFull => "The service is full",
        Kind::BadRequest => "The request makes no sense",
        Kind::Unauthorized => "The token is missing or wrong",
        Kind::Unavailable => "The service is not available",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client must not repeat a creation that the service may carry out later.
    #[test]
    fn a_creation_that_may_be_done_later_has_a_status_of_its_own() {
        let refused = || Problem::unavailable("no answer");
        let status = |problem: Problem| problem.into_response().status().as_u16();
        assert_eq!((status(refused()), status(refused().uncertain())), (503, 504));
        assert!(
            refused()
                .uncertain()
                .written()
                .contains(r#""status":504,"detail":"no answer","code":"unavailable""#)
        );
    }
}
