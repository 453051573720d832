//! What is looked at before anything else of a request: its size, for whom a browser speaks, and the token.

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

/// Where people come who have no token yet, and what tells nothing of anybody's. The page asks for the token by itself.
const OPEN: [&str; 6] = ["/", "/login", "/page.css", "/page.js", "/events", "/openapi.json"];

/// Where a request came from.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) link: Arc<Link>,
}

/// What comes with a request as its token.
pub(super) enum Sent {
    Nothing,
    Right,
    Wrong,
}

/// Lets requests through that may be asked, and says of every answer that it is for nobody else.
pub(super) async fn guard(State(shared): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = match framed(&parts.headers) {
        Ok(()) => match check(&shared, &parts).await {
            Ok(()) => next.run(Request::from_parts(parts, body)).await,
            Err(problem) => problem.into_response(),
        },
        Err(problem) => {
            let mut response = problem.into_response();
            // Where its body ends is not certain, so nothing behind it is read as another request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Refuses a request whose body ends at one place for this server and perhaps at another for a proxy before it, which would take what is behind for a request of its own (request smuggling).
fn framed(headers: &HeaderMap) -> Result<(), Problem> {
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(one) = encodings.next() else { return Ok(()) };
    if encodings.next().is_some() || !one.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Problem::bad("`Transfer-Encoding` is `chunked`, once, or is left out"));
    }
    match headers.contains_key(header::CONTENT_LENGTH) {
        true => Err(Problem::bad("send either `Transfer-Encoding` or `Content-Length`, not both")),
        false => Ok(()),
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
    match sent(shared, headers) {
        Sent::Right => {
            prove(&request.extensions);
            Ok(())
        }
        Sent::Nothing if shared.token.is_none() => {
            prove(&request.extensions);
            Ok(())
        }
        Sent::Nothing => Err(unauthorized(
            "this service wants its token: send `Authorization: Bearer TOKEN`; `gpc rendezvous token` tells it",
        )),
        Sent::Wrong => {
            shared.wrong.token(client(&request.extensions)).await;
            Err(unauthorized(match shared.token {
                Some(_) => "this is not the token of this service: is it the one of another job?",
                None => "this service has no token, and this is none of its: send none",
            }))
        }
    }
}

/// Judges the bearer token of a request.
pub(super) fn sent(shared: &Shared, headers: &HeaderMap) -> Sent {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Sent::Nothing,
        (Some(one), None) => match bearer(one) {
            Some(token) if is_ours(shared, &token) => Sent::Right,
            _ => Sent::Wrong,
        },
        (Some(_), Some(_)) => Sent::Wrong,
    }
}

/// Whether it is the token of the service, or of its page where the service has none.
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

/// Where a request came from.
pub(super) fn client(extensions: &Extensions) -> IpAddr {
    let client = extensions.get::<Client>();
    client.map_or(IpAddr::from([0; 4]), |client| client.address.ip())
}

/// A request was let in.
pub(super) fn prove(extensions: &Extensions) {
    if let Some(client) = extensions.get::<Client>() {
        client.link.prove();
    }
}
