//! A request as its handler gets it: what stands in its path, query and headers, checked.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts as _, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bytes::Bytes;
use chained_gpc::Shown;
use hyper::body::Body as _;

use super::body::{Held, read};
use super::guard::client;
use super::problem::Problem;
use super::query::Query;
use super::shared::{App, Shared};
use crate::machine::{Fault, FaultKind, Life, Of, ResourceId, TOKEN_MAX, Token, Unit, Wanted};

/// The header with a registrant's or controlling task's token.
pub(super) const REGISTRANT_TOKEN: &str = "registrant-token";

/// A body is long from here on, bytes: its way takes longer than a question to the service.
const LONG: u64 = 64 << 10;

/// A request.
pub(super) struct Asking {
    pub(super) parts: Parts,
    params: RawPathParams,
    body: Body,
}

impl FromRequest<App> for Asking {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &App) -> Result<Asking, Problem> {
        let (mut parts, body) = request.into_parts();
        let params = RawPathParams::from_request_parts(&mut parts, shared)
            .await
            .map_err(|_| Problem::bad("the path is not percent-encoded UTF-8"))?;
        Ok(Asking { parts, params, body })
    }
}

impl Asking {
    /// Where it came from.
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

    /// Takes the body, of at most so many bytes.
    pub(super) async fn body(self, shared: &Shared, most: u64) -> Result<(Bytes, Held), Problem> {
        read(shared, &self.parts.headers, self.body, most).await
    }

    pub(super) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// Which resource the path names.
    pub(super) fn id(&self) -> Result<ResourceId, Problem> {
        self.param("id").parse().map_err(|error| Problem::bad(format!("{error}")))
    }

    /// Which rank the path names.
    pub(super) fn rank(&self) -> Result<u64, Problem> {
        rank(self.param("rank"))
    }

    /// Which unit the path names.
    pub(super) fn unit(&self) -> Result<Unit, Problem> {
        match self.param("unit") {
            "own" => Ok(Unit::Own),
            text => {
                let rank = rank(text)?;
                u32::try_from(rank).map(Unit::Rank).map_err(|_| no_rank(text, Some(rank)))
            }
        }
    }

    /// The query, with these keys and no others.
    pub(super) fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::parse(self.parts.uri.query().unwrap_or_default(), known)
    }

    /// The token of the registrant or controlling task, if it was sent.
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

    /// The same, where it must be.
    pub(super) fn own_token(&self) -> Result<Token, Problem> {
        let missing = "send the token with which this was registered, in the header `Registrant-Token`";
        self.token()?.ok_or_else(|| Problem::bad(missing))
    }
}

/// How it is seen that who asks lives.
pub(super) fn life(query: &Query) -> Result<Life, Problem> {
    match query.millis("lease")? {
        None => Ok(Life::Unseen),
        Some(0) => Err(Problem::bad("`lease` is more than 0 seconds")),
        Some(length) => Ok(Life::Lease(length)),
    }
}

/// Which rank somebody asks for.
pub(super) fn wanted(query: &Query) -> Result<Wanted, Problem> {
    match query.get("rank") {
        None | Some("assign" | "-1") => Ok(Wanted::Assign),
        Some(text) => rank(text).map(Wanted::Rank),
    }
}

/// Which completion somebody asks for.
pub(super) fn of(query: &Query) -> Result<Of, Problem> {
    match query.get("of") {
        None | Some("own") => Ok(Of::Own),
        Some("top") => Ok(Of::Top),
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
