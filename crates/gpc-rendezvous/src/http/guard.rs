//! Checks before all handlers: the framing and size of a request, on whose behalf a browser sends it, and the token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::links::Link;
use super::problem::Problem;
use super::shared::{App, Shared};
use crate::machine::{Fault, FaultKind};
use crate::token::ServiceToken;

/// Longest path with query, bytes.
const URI_MAX: usize = 4096;

/// Paths without a token check: static content that reveals nothing, the login, and the page with its events, which
/// check the session themselves.
const OPEN: [&str; 6] = ["/", "/login", "/page.css", "/page.js", "/events", "/openapi.json"];

/// Client of a request.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) link: Arc<Link>,
}

/// Result of checking a request's token.
pub(super) enum TokenCheck {
    Nothing,
    Right,
    Wrong,
}

/// Middleware: admits or rejects a request, and marks every response as private.
pub(super) async fn guard(State(shared): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match framed(&parts) {
        Ok(()) => match check(&shared, &parts).await {
            Ok(()) => next.run(Request::from_parts(parts, body)).await,
            Err(problem) => problem.into_response(),
        },
        Err(problem) => {
            let mut response = problem.into_response();
            // The end of the body is uncertain, so nothing after it may be read as another request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Rejects a request whose body may end at different places for this server and for a proxy before it. The proxy might
/// take the rest for another request (request smuggling).
fn framed(request: &Parts) -> Result<(), Problem> {
    let mut encodings = request.headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(one) = encodings.next() else { return Ok(()) };
    if encodings.next().is_some() || !one.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Problem::bad("`Transfer-Encoding` is `chunked`, once, or is left out"));
    }
    let head = request.extensions.get::<Client>().map(|client| client.link.head()).unwrap_or_default();
    if head.has_length {
        return Err(Problem::bad("send either `Transfer-Encoding` or `Content-Length`, not both"));
    }
    match head.is_whole {
        true => Ok(()),
        false => {
            Err(Problem::bad("read the answer to a request before you send one with `Transfer-Encoding`"))
        }
    }
}

async fn check(shared: &Shared, request: &Parts) -> Result<(), Problem> {
    let (uri, headers) = (&request.uri, &request.headers);
    if uri.path_and_query().map_or(0, |path| path.as_str().len()) > URI_MAX {
        let message = format!("the path is longer than {URI_MAX} bytes");
        return Err(Problem::new(StatusCode::URI_TOO_LONG, FaultKind::BadRequest, message));
    }
    shared.names.check(request.version, uri, headers)?;
    if OPEN.contains(&uri.path()) {
        return Ok(());
    }
    match check_token(shared, headers) {
        TokenCheck::Right => {
            prove(&request.extensions);
            Ok(())
        }
        TokenCheck::Nothing if shared.token.is_none() => {
            prove(&request.extensions);
            Ok(())
        }
        TokenCheck::Nothing => Err(unauthorized(
            "this service wants its token: send `Authorization: Bearer TOKEN`; `gpc rendezvous token` tells it",
        )),
        TokenCheck::Wrong => {
            shared.wrong_tokens.token(client(&request.extensions)).await;
            Err(unauthorized(match shared.token {
                Some(_) => "this is not the token of this service: is it the one of another job?",
                None => "this service has no token, and this is none of its: send none",
            }))
        }
    }
}

/// Checks the bearer token of a request.
pub(super) fn check_token(shared: &Shared, headers: &HeaderMap) -> TokenCheck {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    match (sent.next(), sent.next()) {
        (None, _) => TokenCheck::Nothing,
        (Some(one), None) => match bearer(one) {
            Some(token) if is_ours(shared, &token) => TokenCheck::Right,
            _ => TokenCheck::Wrong,
        },
        (Some(_), Some(_)) => TokenCheck::Wrong,
    }
}

/// Whether it is the service's token, or, if the service has none, the page's.
pub(super) fn is_ours(shared: &Shared, token: &ServiceToken) -> bool {
    shared.token.as_ref().or(shared.page_token.as_ref()).is_some_and(|ours| ours == token)
}

fn bearer(value: &HeaderValue) -> Option<ServiceToken> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' ').parse().ok()).flatten()
}

pub(super) fn unauthorized(message: &str) -> Problem {
    Fault::new(FaultKind::Unauthorized, message).into()
}

/// Client address of a request.
pub(super) fn client(extensions: &Extensions) -> IpAddr {
    let client = extensions.get::<Client>();
    client.map_or(IpAddr::from([0; 4]), |client| client.address.ip())
}

/// Marks the connection of an admitted request.
pub(super) fn prove(extensions: &Extensions) {
    if let Some(client) = extensions.get::<Client>() {
        client.link.prove();
    }
}
