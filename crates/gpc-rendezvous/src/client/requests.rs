//! Sends requests to services over HTTP, retries after lost connections, and keeps to time limits.
//!
//! The service token is sent only to the host of the requested URL: redirects are not followed. If clients choose the
//! services that are asked, `trusted` decides which of them receive the token.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chained_gpc::{Job, Shown};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep, timeout};

use super::ClientOptions;
use super::connector::{self, Connector};
use super::error::ClientError;
use super::exchange::{Misread, ServiceRequest, ServiceResponse};
use super::names;
use super::permits::{PermitKind, Permits};
use super::trusted::Trusted;
use super::url::ServiceUrl;
use crate::machine::{
    Completion, Fault, FaultKind, Handle, Properties, RankChoice, Registration, Scope, Spec, Token, Unit,
};
use crate::token::ServiceToken;

/// Time for a service to answer, beside the time that it may hold the request and the time for the content at
/// [`SLOWEST`].
const ANSWER: Duration = Duration::from_secs(30);

/// Additional time for an answer that is under way when the limit passes.
const GRACE: Duration = Duration::from_secs(2);

/// Lowest rate of contents, bytes a second. A slower transfer is aborted.
const SLOWEST: u64 = 16 << 10;

/// Longest wait in one request: shorter than the time after which proxies close idle connections.
const POLL: Duration = Duration::from_secs(30);

/// Shortest wait in one request, used if more requests wait for a service than it has permits. Then each gets its
/// permit within about [`POLL`].
const POLL_LEAST: Duration = Duration::from_secs(1);

/// Time for a service to answer a controlling task's renewal: the next renewal is due soon, and a lease runs.
const RENEWAL: Duration = Duration::from_secs(5);

/// First and longest pause before a retry.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// Longest time limit that is used: adding it to a clock's time cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Sends requests to services. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Requester {
    http: Http<Connector, Full<Bytes>>,
    authorization: Option<HeaderValue>,
    /// Whether a certificate authority is configured.
    authority: bool,
    data_max: u64,
    /// Services that receive the token; `None` if all do, because the program itself chooses them.
    trusted: Option<Trusted>,
    permits: Arc<Permits>,
}

/// An attempt without an answer.
struct NoAnswer {
    why: String,
    /// Whether the service may have received the request.
    sent: bool,
    /// Whether a retry would give the same result.
    hopeless: bool,
}

/// The end of a time limit from now.
pub(crate) fn after(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST)
}

impl Requester {
    pub(crate) fn new(options: &ClientOptions) -> Result<Requester, ClientError> {
        let connector = connector::new(options.ca.as_deref())?;
        let http = Http::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(16)
            .build(connector);
        let authorization = options.token.as_ref().and_then(authorization);
        let (authority, data_max) = (options.ca.is_some(), options.data_max);
        let permits = Arc::new(Permits::new());
        Ok(Requester { http, authorization, authority, data_max, trusted: None, permits })
    }

    #[cfg(feature = "http")]
    /// For a service that sends requests on behalf of its clients, which choose the services. The token is sent only to
    /// trusted services, and errors do not quote answers.
    pub(crate) fn for_others(options: &ClientOptions, trusted: Trusted) -> Result<Requester, ClientError> {
        Ok(Requester { trusted: Some(trusted), ..Requester::new(options)? })
    }

    pub(crate) async fn create(
        &self,
        service: &ServiceUrl,
        spec: &Spec,
        until: Instant,
    ) -> Result<Handle, ClientError> {
        self.ask(service, &ServiceRequest::create(service, spec), until, ServiceResponse::created).await.0
    }

    pub(crate) async fn register(
        &self,
        handle: &Handle,
        rank: RankChoice,
        token: &Token,
        data: Bytes,
        lease: Option<u64>,
        until: Instant,
    ) -> Result<Registration, ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::register((&service, handle.resource()), rank, token, data, lease);
        self.ask(&service, &ask, until, ServiceResponse::registered).await.0
    }

    pub(crate) async fn withdraw(
        &self,
        handle: &Handle,
        rank: u64,
        token: &Token,
        until: Instant,
    ) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::withdraw((&service, handle.resource()), rank, token);
        self.end(&service, &ask, until, FaultKind::NotRegistered).await
    }

    /// Waits for the completion by repeated long polls.
    pub(crate) async fn wait(
        &self,
        handle: &Handle,
        of: Scope,
        token: Option<&Token>,
        until: Instant,
    ) -> Result<Option<Completion>, ClientError> {
        let service = url(handle)?;
        // Ends: when the time limit has passed, or with an answer.
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let rounds = self.permits.rounds(PermitKind::LongPoll, &service);
            let wait = left.min((POLL / rounds).max(POLL_LEAST)).as_millis() as u64;
            let at = (&service, handle.resource());
            let ask = ServiceRequest::wait(at, of, wait, token, self.data_max);
            let found = self.ask(&service, &ask, until, ServiceResponse::completion).await.0?;
            if found.is_some() || Instant::now() >= until {
                return Ok(found);
            }
        }
    }

    pub(crate) async fn properties(
        &self,
        handle: &Handle,
        until: Instant,
    ) -> Result<Properties, ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::properties((&service, handle.resource()));
        self.ask(&service, &ask, until, ServiceResponse::properties).await.0
    }

    pub(crate) async fn destroy(&self, handle: &Handle, until: Instant) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::destroy((&service, handle.resource()));
        self.end(&service, &ask, until, FaultKind::Destroyed).await
    }

    pub(crate) async fn end_job(
        &self,
        service: &ServiceUrl,
        job: Job,
        until: Instant,
    ) -> Result<u64, ClientError> {
        self.ask(service, &ServiceRequest::end_job(service, job), until, ServiceResponse::ended).await.0
    }

    pub(crate) async fn control(
        &self,
        handle: &Handle,
        unit: Unit,
        name: &str,
        token: &Token,
        lease: Option<u64>,
        until: Instant,
    ) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::control((&service, handle.resource()), unit, name, token, lease);
        self.ask(&service, &ask, until, ServiceResponse::done).await.0
    }

    pub(crate) async fn release(
        &self,
        handle: &Handle,
        unit: Unit,
        token: &Token,
        lost: Option<&str>,
        until: Instant,
    ) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = ServiceRequest::release((&service, handle.resource()), unit, token, lost);
        self.end(&service, &ask, until, FaultKind::NotRegistered).await
    }

    /// Sends a request to end something. If an earlier attempt may have been carried out and its answer was lost, the
    /// fault `gone` means success.
    async fn end(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
        gone: FaultKind,
    ) -> Result<(), ClientError> {
        match self.ask(service, ask, until, ServiceResponse::done).await {
            (Err(ClientError::Fault(Fault { kind, .. })), true) if kind == gone => Ok(()),
            (result, _) => result,
        }
    }

    /// Sends a request until it is answered. Also returns whether the service may have received an earlier attempt.
    async fn ask<T>(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
        read: fn(&ServiceResponse) -> Result<T, Misread>,
    ) -> (Result<T, ClientError>, bool) {
        let mut again = AGAIN_FIRST;
        let mut reached = false;
        // Ends: with an answer, with an error that a retry cannot mend, or when the time limit has passed.
        loop {
            let answered = match self.once(service, ask, until).await {
                Ok(given) => read(&given),
                Err(AttemptError::Error(error)) => return (Err(error), reached),
                Err(AttemptError::NoAnswer(lost)) => {
                    reached |= lost.sent;
                    let unreachable = || unreachable(service, lost.why.clone(), ask, lost.sent);
                    if lost.hopeless || (lost.sent && !ask.again) {
                        return (Err(unreachable()), reached);
                    }
                    Err(Misread::Unreachable(lost.why))
                }
            };
            let error = match answered {
                Ok(answer) => return (Ok(answer), reached),
                Err(Misread::Malformed(what)) => {
                    let service = service.as_str().to_owned();
                    return (Err(ClientError::Nonsense { service, what }), reached);
                }
                // The service may be restarted, or write its store again.
                Err(Misread::Fault(fault)) if fault.kind == FaultKind::Unavailable => {
                    let (service, why) = (service.as_str().to_owned(), unsure(fault.message, ask, reached));
                    ClientError::Unavailable { service, why }
                }
                Err(Misread::Fault(fault)) if passes(&fault) => ClientError::Fault(fault),
                Err(Misread::Fault(fault)) => return (Err(ClientError::Fault(fault)), reached),
                Err(Misread::Unreachable(why)) => unreachable(service, why, ask, reached),
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (Err(error), reached);
            }
            sleep(jittered(again).min(left)).await;
            again = (again * 2).min(AGAIN_MOST);
        }
    }

    /// One attempt.
    async fn once(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
    ) -> Result<ServiceResponse, AttemptError> {
        if service.is_secure() && !self.authority {
            return Err(AttemptError::Error(connector::no_authority(service)));
        }
        let with_token = self.trusted.as_ref().is_none_or(|trusted| trusted.has(service));
        let request = self.request(ask, with_token).map_err(|error| {
            let (service, what) = (service.as_str().to_owned(), error.to_string());
            AttemptError::Error(ClientError::Nonsense { service, what })
        })?;
        let left = || until.saturating_duration_since(Instant::now());
        let waited = timeout(left() + GRACE, self.permits.take(ask.permit, service)).await;
        let unsent = |why: &str| NoAnswer { why: why.into(), sent: false, hopeless: false };
        let _permit = waited.map_err(|_| unsent("too much else was asked at the same time"))?;
        let upload = ask.content.as_ref().map_or(0, |(_, content)| content.len() as u64);
        let answer = answer_time(ask.permit);
        let needed = answer + at_slowest(upload) + Duration::from_millis(ask.hold_ms);
        let limit = needed.min(left() + GRACE);
        let lost = |why: String| NoAnswer { why, sent: true, hopeless: false };
        let asked = names::UNTIL.scope(until, self.http.request(request));
        match timeout(limit, asked).await {
            Err(_) => Err(lost(format!("no answer within {:.1} s", limit.as_secs_f64())).into()),
            Ok(Err(error)) => {
                let last = cause(&error);
                if let Some(why) = connector::refused(last) {
                    let service = service.as_str().to_owned();
                    return Err(AttemptError::Error(ClientError::Certificate { service, why }));
                }
                let why = format!("{last}{}", other_scheme(service, &error, last));
                Err(NoAnswer { why, sent: !error.is_connect(), hopeless: false }.into())
            }
            Ok(Ok(response)) if response.status() == 401 && !with_token && self.authorization.is_some() => {
                Err(AttemptError::Error(ClientError::Withheld { service: service.as_str().to_owned() }))
            }
            Ok(Ok(response)) => {
                let given = read(response, ask.answer_max, answer).await?;
                Ok(ServiceResponse { quotable: self.trusted.is_none(), ..given })
            }
        }
    }

    fn request(
        &self,
        ask: &ServiceRequest,
        with_token: bool,
    ) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder().method(ask.method.clone()).uri(&ask.url);
        // As JSON, a completion includes the joint job and secret.
        request = request.header(ACCEPT, "application/json");
        if let Some(authorization) = self.authorization.as_ref().filter(|_| with_token) {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(token) = &ask.token {
            request = request.header("registrant-token", token.as_str());
        }
        let (kind, content) = ask.content.clone().unzip();
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        request.body(Full::new(content.unwrap_or_default()))
    }
}

/// Failure of an attempt.
enum AttemptError {
    NoAnswer(NoAnswer),
    Error(ClientError),
}

impl From<NoAnswer> for AttemptError {
    fn from(lost: NoAnswer) -> AttemptError {
        AttemptError::NoAnswer(lost)
    }
}

/// Reads the content as it arrives, whatever length was announced.
async fn read(
    response: Response<Incoming>,
    most: u64,
    answer: Duration,
) -> Result<ServiceResponse, NoAnswer> {
    let lost = |why: String| NoAnswer { why, sent: true, hopeless: false };
    let status = response.status().as_u16();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("of no type").to_owned();
    let mut body = response.into_body();
    let mut content = BytesMut::new();
    let begun = Instant::now();
    // Ends: the content and its time are bounded.
    loop {
        let allowed = answer + at_slowest(content.len() as u64);
        let left = allowed.saturating_sub(begun.elapsed());
        match timeout(left, body.frame()).await {
            Err(_) => return Err(lost(format!("its answer has stopped after {} bytes", content.len()))),
            Ok(None) => {
                return Ok(ServiceResponse { status, kind, content: content.freeze(), quotable: true });
            }
            Ok(Some(Err(error))) => return Err(lost(format!("its answer is cut off: {}", cause(&error)))),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                if (content.len() + data.len()) as u64 > most {
                    let why = format!("its answer is longer than {most} bytes");
                    return Err(NoAnswer { hopeless: true, ..lost(why) });
                }
                content.extend_from_slice(&data);
            }
        }
    }
}

/// Whether the fault is transient: a full service may have room a little later.
fn passes(fault: &Fault) -> bool {
    fault.kind == FaultKind::ServiceFull
}

/// Time for a service to answer a request of this kind.
fn answer_time(kind: PermitKind) -> Duration {
    match kind {
        PermitKind::Renewal => RENEWAL,
        PermitKind::Short | PermitKind::LongPoll => ANSWER,
    }
}

fn at_slowest(bytes: u64) -> Duration {
    Duration::from_secs(bytes / SLOWEST)
}

/// The header with the token, marked as sensitive so that logs of headers omit it.
fn authorization(token: &ServiceToken) -> Option<HeaderValue> {
    let text = zeroize::Zeroizing::new(format!("Bearer {}", token.to_text().as_str()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn url(handle: &Handle) -> Result<ServiceUrl, ClientError> {
    Ok(handle.service().parse::<ServiceUrl>()?)
}

fn unreachable(service: &ServiceUrl, why: String, ask: &ServiceRequest, reached: bool) -> ClientError {
    ClientError::Unreachable { service: service.as_str().to_owned(), why: unsure(why, ask, reached) }
}

/// A reason, which adds that a request may have been carried out, if that is so.
fn unsure(why: String, ask: &ServiceRequest, reached: bool) -> String {
    let unsure = match reached && !ask.again {
        true => "; it may have done what it was asked for, so look before you ask again",
        false => "",
    };
    format!("{}{unsure}", Shown(&why))
}

/// The innermost cause of an error.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut last = error;
    // Ends: the nesting of errors is finite.
    while let Some(deeper) = inner(last) {
        last = deeper;
    }
    last
}

/// A hint, if an error suggests that the service speaks https although the URL says http, or the other way round.
fn other_scheme(
    service: &ServiceUrl,
    error: &(dyn Error + 'static),
    last: &(dyn Error + 'static),
) -> &'static str {
    if service.is_secure() {
        return connector::plain(last);
    }
    let mut errors = std::iter::successors(Some(error), |error| inner(*error));
    // A TLS server answers a plain request with an alert, which fails to parse as HTTP.
    match errors.any(|error| error.downcast_ref().is_some_and(hyper::Error::is_parse)) {
        true => "; the URL says http: is it https?",
        false => "",
    }
}

fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let system = error.downcast_ref::<std::io::Error>();
    match system.and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Between half of the pause and all of it, so that many clients that lose the same service do not return at once.
fn jittered(wait: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    // Each `RandomState` has random keys.
    let share = RandomState::new().hash_one(0_u8) % 512;
    wait * (512 + share as u32) / 1024
}
