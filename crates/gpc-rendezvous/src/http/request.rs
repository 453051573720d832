//! A request as its handler receives it: parses and checks path, query and headers.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts as _, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bytes::Bytes;
use chained_gpc::Shown;
use hyper::body::Body as _;

use super::body::read;
use super::budget::Reservation;
use super::guard::client;
use super::problem::Problem;
use super::query::Query;
use super::shared::{App, Shared};
use crate::machine::{Fault, FaultKind, Life, RankChoice, ResourceId, Scope, TOKEN_MAX, Token, Unit};

/// The header with the token of a registrant or controlling task.
pub(super) const REGISTRANT_TOKEN: &str = "registrant-token";

/// From this length on a body counts as long, bytes: its transfer takes longer than a request to the service.
const LONG: u64 = 64 << 10;

/// A request, with the parameters of its path.
pub(super) struct HttpRequest {
    pub(super) parts: Parts,
    params: RawPathParams,
    body: Body,
}

impl FromRequest<App> for HttpRequest {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &App) -> Result<HttpRequest, Problem> {
        let (mut parts, body) = request.into_parts();
        let params = RawPathParams::from_request_parts(&mut parts, shared)
            .await
            .map_err(|_| Problem::bad("the path is not percent-encoded UTF-8"))?;
        Ok(HttpRequest { parts, params, body })
    }
}

impl HttpRequest {
    /// The client's address.
    pub(super) fn client(&self) -> IpAddr {
        client(&self.parts.extensions)
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Whether the body is long, or may be.
    pub(super) fn is_long(&self) -> bool {
        self.body.size_hint().upper().is_none_or(|bytes| bytes > LONG)
    }

    /// Reads the body, which may have at most `most` bytes.
    pub(super) async fn body(self, shared: &Shared, most: u64) -> Result<(Bytes, Reservation), Problem> {
        read(shared, &self.parts.headers, self.body, most).await
    }

    pub(super) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// The resource in the path.
    pub(super) fn id(&self) -> Result<ResourceId, Problem> {
        self.param("id").parse().map_err(|error| Problem::bad(format!("{error}")))
    }

    /// The rank in the path.
    pub(super) fn rank(&self) -> Result<u64, Problem> {
        rank(self.param("rank"))
    }

    /// The unit in the path.
    pub(super) fn unit(&self) -> Result<Unit, Problem> {
        match self.param("unit") {
            "own" => Ok(Unit::Own),
            text => {
                let rank = rank(text)?;
                u32::try_from(rank).map(Unit::Rank).map_err(|_| no_rank(text, Some(rank)))
            }
        }
    }

    /// Parses the query, which may have only these keys.
    pub(super) fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::parse(self.parts.uri.query().unwrap_or_default(), known)
    }

    /// The token of the registrant or controlling task, if the request has one.
    pub(super) fn token(&self) -> Result<Option<Token>, Problem> {
        let mut sent = self.headers().get_all(REGISTRANT_TOKEN).iter();
        let Some(text) = sent.next() else { return Ok(None) };
        let token = text.to_str().ok().and_then(Token::new).filter(|_| sent.next().is_none());
        token.map(Some).ok_or_else(|| {
            Problem::bad(format!(
                "`Registrant-Token` is 1 to {TOKEN_MAX} printable ASCII letters without spaces, once"
            ))
        })
    }

    /// The token of the registrant or controlling task, which is required.
    pub(super) fn own_token(&self) -> Result<Token, Problem> {
        let missing = "send the token with which this was registered, in the header `Registrant-Token`";
        self.token()?.ok_or_else(|| Problem::bad(missing))
    }
}

/// The liveness that the caller asks for.
pub(super) fn life(query: &Query) -> Result<Life, Problem> {
    match query.millis("lease")? {
        None => Ok(Life::Unseen),
        Some(0) => Err(Problem::bad("`lease` is more than 0 seconds")),
        Some(length) => Ok(Life::Lease(length)),
    }
}

/// The rank that the caller asks for.
pub(super) fn wanted(query: &Query) -> Result<RankChoice, Problem> {
    match query.get("rank") {
        None | Some("assign" | "-1") => Ok(RankChoice::Assign),
        Some(text) => rank(text).map(RankChoice::Rank),
    }
}

/// The completion that the caller asks for.
pub(super) fn of(query: &Query) -> Result<Scope, Problem> {
    match query.get("of") {
        None | Some("own") => Ok(Scope::Own),
        Some("top") => Ok(Scope::Top),
        Some(text) => Err(Problem::bad(format!("`of` is `own` or `top`, not `{}`", Shown(text)))),
    }
}

fn rank(text: &str) -> Result<u64, Problem> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Problem::bad(format!("a rank is a number, not `{}`", Shown(text))));
    }
    text.parse().map_err(|_| no_rank(text, None))
}

fn no_rank(text: &str, rank: Option<u64>) -> Problem {
    let message = format!("there is no rank {}", Shown(text));
    Fault { rank, ..Fault::new(FaultKind::RankOutOfRange, message) }.into()
}
