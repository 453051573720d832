//! Web page that shows the resources of a service as they fill. A login form asks for the token, and a cookie keeps the
//! session.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use super::events;
use super::guard::{TokenCheck, check_token, client, is_ours, prove, unauthorized};
use super::problem::Problem;
use super::query::Query;
use super::request::HttpRequest;
use super::sessions::SESSION;
use super::shared::{App, Shared};
use crate::machine::{Fault, FaultKind};

/// The cookie with the name of a session.
const COOKIE: &str = "gpc-rendezvous";

/// Longest form, bytes.
const FORM_MAX: u64 = 4096;

/// Most logins in progress at a time: people log in one by one.
pub(super) const LOGINS_MAX: usize = 16;

/// What a browser may do with content from this server: run and show it, send requests to this server, and submit the
/// form to it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Mark in the form where the message that a token was rejected is inserted.
const REFUSED: &str = "<!--refused-->";

fn given(status: StatusCode, media: &'static str, text: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    (status, headers, text).into_response()
}

fn login_form(refused: Option<&str>) -> Response {
    let refused = refused.map(|why| format!("<p role=\"alert\">{why}</p>")).unwrap_or_default();
    let text = include_str!("login.html").replace(REFUSED, &refused);
    given(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", text)
}

/// `GET /page.css`
pub(super) async fn style() -> Response {
    given(StatusCode::OK, "text/css; charset=utf-8", include_str!("page.css"))
}

/// `GET /page.js`
pub(super) async fn script() -> Response {
    given(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("page.js"))
}

/// `GET /`
pub(super) async fn page(State(shared): State<App>, request: Request) -> Response {
    match may_look(&shared, request.headers()) {
        true => given(StatusCode::OK, "text/html; charset=utf-8", include_str!("page.html")),
        false => login_form(None),
    }
}

/// `GET /events`
pub(super) async fn show_page(State(shared): State<App>, request: Request) -> Result<Response, Problem> {
    match may_look(&shared, request.headers()) {
        true => {
            prove(request.extensions());
            events::resources(&shared)
        }
        false => {
            if let TokenCheck::Wrong = check_token(&shared, request.headers()) {
                shared.wrong_tokens.token(client(request.extensions())).await;
            }
            Err(unauthorized("log in at `/`, or send the token of the service"))
        }
    }
}

/// `POST /login`
pub(super) async fn login(State(shared): State<App>, http_request: HttpRequest) -> Result<Response, Problem> {
    let from = http_request.client();
    let form = form(&shared, http_request).await?;
    let form = Zeroizing::new(form.to_vec());
    let form = std::str::from_utf8(&form).map_err(|_| Problem::bad("the form is not UTF-8"))?;
    let form = Query::parse(form, &["token"])?;
    let token = form.get("token").unwrap_or_default().trim().parse();
    if !token.is_ok_and(|token| is_ours(&shared, &token)) {
        shared.wrong_tokens.token(from).await;
        let none = shared.token.is_none() && shared.page_token.is_none();
        return Ok(login_form(Some(match none {
            true => "This service has no token, so nobody can see its page: start it with a secret.",
            false => "This is not the token of this service.",
        })));
    }
    let name = shared
        .sessions
        .begin(Instant::now())
        .map_err(|error| Problem::unavailable(format!("no session can be drawn: {error}")))?;
    let secure = if shared.names.scheme == "https" { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={name}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}", SESSION.as_secs());
    let to: [(HeaderName, HeaderValue); 2] = [
        (header::LOCATION, HeaderValue::from_static("/")),
        (header::SET_COOKIE, HeaderValue::try_from(cookie).map_err(|_| Problem::unavailable("no cookie"))?),
    ];
    Ok((StatusCode::SEE_OTHER, to).into_response())
}

/// Reads the form of a login, for which no token is needed. Few are read at a time, with the time limit of a request
/// head.
async fn form(shared: &Shared, http_request: HttpRequest) -> Result<Bytes, Problem> {
    let Ok(_place) = shared.logins.try_acquire() else {
        let message = "too many log in at this moment: try again a little later";
        return Err(Fault::new(FaultKind::ServiceFull, message).into());
    };
    match timeout(shared.form_limit, http_request.body(shared, FORM_MAX)).await {
        Ok(form) => Ok(form?.0),
        Err(_) => {
            let message = "the form has not come in time";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, FaultKind::BadRequest, message))
        }
    }
}

fn may_look(shared: &Shared, headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let pairs = cookies.flat_map(|cookie| cookie.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut names = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    names.any(|name| shared.sessions.has(name, Instant::now()))
        || matches!(check_token(shared, headers), TokenCheck::Right)
}
