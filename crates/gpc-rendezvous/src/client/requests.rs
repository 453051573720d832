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
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep, timeout};

use super::ClientOptions;
use super::connector::{self, Connector};
use super::error::ClientError;
use super::exchange::{self, ServiceRequest, ServiceResponse};
use super::names;
use super::permits::{Permit, PermitKind, Permits};
use super::retry::{DESTROYED, Failure, Retry};
use super::trusted::Trusted;
use super::url::ServiceUrl;
use crate::machine::{
    Completion, FaultKind, Handle, Properties, RankChoice, Registration, Scope, Spec, Token, Unit,
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

/// Longest time limit that is used: adding it to a clock's time cannot overflow.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

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
        self.end(&service, &ask, until, &[FaultKind::NotRegistered]).await
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
        self.end(&service, &ask, until, DESTROYED).await
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
        self.end(&service, &ask, until, &[FaultKind::NotRegistered]).await
    }

    /// Sends a request to end something. If an earlier attempt may have been carried out and its answer was lost, the
    /// faults `gone` mean success.
    async fn end(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
        gone: &[FaultKind],
    ) -> Result<(), ClientError> {
        match self.ask(service, ask, until, ServiceResponse::done).await {
            (Err(ClientError::Fault(fault)), retry) if retry.is_done(fault.kind, gone) => Ok(()),
            (result, _) => result,
        }
    }

    /// Sends a request until it is answered. Also returns the state of its attempts.
    async fn ask<T>(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
        read: fn(&ServiceResponse) -> Result<T, Failure>,
    ) -> (Result<T, ClientError>, Retry) {
        let mut retry = Retry::new(ask.again);
        // Ends: with an answer, with an error that a retry cannot mend, or when the time limit has passed.
        loop {
            let answered = self.once(service, ask, until).await;
            let failure = match answered.and_then(|given| Ok(read(&given)?)) {
                Ok(answer) => return (Ok(answer), retry),
                Err(AttemptError::Error(error)) => return (Err(error), retry),
                Err(AttemptError::Failure(failure)) => failure,
            };
            let repeats = retry.failed(&failure);
            let error = client_error(service, failure, retry.is_unsure());
            let left = until.saturating_duration_since(Instant::now());
            match repeats.then(|| retry.pause(left, random_share())).flatten() {
                Some(pause) => sleep(pause).await,
                None => return (Err(error), retry),
            }
        }
    }

    /// One attempt.
    async fn once(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
    ) -> Result<ServiceResponse, AttemptError> {
        let (response, _permit) = self.head(service, ask, until).await?;
        let given = read(response, ask.answer_max, answer_time(ask.permit)).await?;
        Ok(ServiceResponse { quotable: self.trusted.is_none(), ..given })
    }

    /// One attempt, up to the head of the answer.
    async fn head(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
    ) -> Result<(Response<Incoming>, Permit<'_>), AttemptError> {
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
        let unsent = |why: &str| Failure::NoAnswer { why: why.into(), sent: false, hopeless: false };
        let permit = waited.map_err(|_| unsent("too much else was asked at the same time"))?;
        let limit = attempt_limit(ask, left());
        let lost = |why: String| Failure::NoAnswer { why, sent: true, hopeless: false };
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
                Err(Failure::NoAnswer { why, sent: !error.is_connect(), hopeless: false }.into())
            }
            Ok(Ok(response)) if response.status() == 401 && !with_token && self.authorization.is_some() => {
                Err(AttemptError::Error(ClientError::Withheld { service: service.as_str().to_owned() }))
            }
            Ok(Ok(response)) => Ok((response, permit)),
        }
    }

    /// Opens a stream of events, in one attempt. The permit is for opening alone: the stream may last for ever.
    pub(super) async fn open_events(
        &self,
        service: &ServiceUrl,
        ask: &ServiceRequest,
        until: Instant,
    ) -> Result<Incoming, AttemptError> {
        let (response, _permit) = self.head(service, ask, until).await?;
        let kind = response.headers().get(CONTENT_TYPE).map_or(&b"none"[..], HeaderValue::as_bytes);
        match response.status().as_u16() {
            200 if kind.starts_with(b"text/event-stream") => return Ok(response.into_body()),
            200 => {
                let kind = String::from_utf8_lossy(kind);
                let what = format!("an answer of type `{}` in place of text/event-stream", Shown(&kind));
                return Err(Failure::Malformed(what).into());
            }
            _ => {}
        }
        let left = until.saturating_duration_since(Instant::now());
        let refused = read(response, ask.answer_max, answer_time(ask.permit).min(left + GRACE)).await?;
        // Any other status is a failure, also that of success without content.
        Err(refused.expect(&[200]).err().unwrap_or_else(|| Failure::Malformed("no stream".into())).into())
    }

    /// Most bytes of an event. Longer data are asked for.
    pub(super) fn event_max(&self) -> u64 {
        exchange::completion_max(self.data_max.min(exchange::EVENT_DATA_MAX))
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
pub(super) enum AttemptError {
    Failure(Failure),
    /// An error that a retry cannot mend.
    Error(ClientError),
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> AttemptError {
        AttemptError::Failure(failure)
    }
}

/// Reads the content as it arrives, whatever length was announced. All of it together has one limit, which each byte
/// extends by its time at [`SLOWEST`].
async fn read<B>(response: Response<B>, most: u64, answer: Duration) -> Result<ServiceResponse, Failure>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    let lost = |why: String, hopeless| Failure::NoAnswer { why, sent: true, hopeless };
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
            Err(_) => {
                return Err(lost(format!("its answer has stopped after {} bytes", content.len()), false));
            }
            Ok(None) => {
                return Ok(ServiceResponse { status, kind, content: content.freeze(), quotable: true });
            }
            Ok(Some(Err(error))) => {
                return Err(lost(format!("its answer is cut off: {}", cause(&error)), false));
            }
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                if (content.len() + data.len()) as u64 > most {
                    return Err(lost(format!("its answer is longer than {most} bytes"), true));
                }
                content.extend_from_slice(&data);
            }
        }
    }
}

/// Time for a service to answer a request of this kind.
fn answer_time(kind: PermitKind) -> Duration {
    match kind {
        PermitKind::Renewal => RENEWAL,
        PermitKind::Short | PermitKind::LongPoll => ANSWER,
    }
}

/// Time limit for the head of an answer. `left` is the time left for all attempts.
fn attempt_limit(ask: &ServiceRequest, left: Duration) -> Duration {
    let upload = ask.content.as_ref().map_or(0, |(_, content)| content.len() as u64);
    let answer = answer_time(ask.permit);
    let needed = answer + at_slowest(upload) + Duration::from_millis(ask.hold_ms);
    needed.min(left + GRACE)
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

pub(super) fn url(handle: &Handle) -> Result<ServiceUrl, ClientError> {
    Ok(handle.service().parse::<ServiceUrl>()?)
}

/// The error for a failure that ends the attempts. `unsure` adds that the request may have been carried out.
pub(super) fn client_error(service: &ServiceUrl, failure: Failure, unsure: bool) -> ClientError {
    let service = service.as_str().to_owned();
    let reason = |why: String| {
        let unsure = match unsure {
            true => "; it may have done what it was asked for, so look before you ask again",
            false => "",
        };
        format!("{}{unsure}", Shown(&why))
    };
    match failure {
        Failure::Malformed(what) => ClientError::Nonsense { service, what },
        Failure::Fault(fault) | Failure::Uncertain(fault) if fault.kind == FaultKind::Unavailable => {
            ClientError::Unavailable { service, why: reason(fault.message) }
        }
        Failure::Fault(fault) | Failure::Uncertain(fault) => ClientError::Fault(fault),
        Failure::NoAnswer { why, .. } | Failure::Gateway(why) => {
            ClientError::Unreachable { service, why: reason(why) }
        }
    }
}

/// The innermost cause of an error.
pub(super) fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
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

/// A random number below 1024.
pub(super) fn random_share() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    // Each `RandomState` has random keys.
    (RandomState::new().hash_one(0_u8) % 1024) as u32
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use hyper::body::Frame;

    use super::*;
    use crate::machine::ResourceId;

    #[test]
    fn limits_of_an_attempt_allow_for_the_hold_and_the_content() {
        let service: ServiceUrl = "http://a:1".parse().unwrap();
        let (of, token) = ((&service, ResourceId([1; 16])), Token::new("t").unwrap());
        let seconds = |ask: &ServiceRequest, left| attempt_limit(ask, Duration::from_secs(left)).as_secs();
        let short = ServiceRequest::properties(of);
        assert_eq!((seconds(&short, 999), seconds(&short, 27), seconds(&short, 0)), (30, 29, 2));
        let wait = ServiceRequest::wait(of, Scope::Own, 25_000, None, 9);
        assert_eq!((seconds(&wait, 999), seconds(&wait, 40)), (55, 42));
        // 160 KiB take 10 s at the lowest rate.
        let data = vec![0; 160 << 10].into();
        let long = ServiceRequest::register(of, RankChoice::Assign, &token, data, None);
        assert_eq!(seconds(&long, 999), 40);
        let control = ServiceRequest::control(of, Unit::Own, "name", &token, None);
        let release = ServiceRequest::release(of, Unit::Own, &token, None);
        assert_eq!((seconds(&control, 999), seconds(&release, 999)), (5, 5));
    }
    /// Content that comes in pieces of this length, one after each of these pauses.
    struct Dripping {
        piece: usize,
        every: Duration,
        pieces: u32,
        pause: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    impl Body for Dripping {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let every = self.every;
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(every)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            let Some(left) = self.pieces.checked_sub(1) else { return Poll::Ready(None) };
            self.pieces = left;
            Poll::Ready(Some(Ok(Frame::data(vec![0; self.piece].into()))))
        }
    }

    /// Reads pieces of this length in this time each; returns the length of the answer, or why there is none, and the
    /// seconds that it took.
    async fn reads(piece: usize, every: u64, pieces: u32) -> (Result<usize, String>, u64) {
        let body = Dripping { piece, every: Duration::from_secs(every), pieces, pause: None };
        let begun = Instant::now();
        let given = read(Response::new(body), 1 << 30, ANSWER).await;
        let given = given.map(|given| given.content.len()).map_err(|failure| match failure {
            Failure::NoAnswer { why, sent: true, hopeless: false } => why,
            _ => "another failure".into(),
        });
        (given, begun.elapsed().as_secs())
    }

    /// A service that sent a byte now and then was waited for without an end.
    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_has_one_limit() {
        let stopped = |bytes| Err(format!("its answer has stopped after {bytes} bytes"));
        assert_eq!(reads(1, 20, 1000).await, (stopped(1), 30));
        assert_eq!(reads(1, 31, 1).await, (stopped(0), 30));
        // At the lowest rate it may take as long as it is.
        let piece = SLOWEST as usize;
        assert_eq!(reads(piece, 1, 300).await, (Ok(300 * piece), 301));
        assert_eq!(reads(piece / 2, 1, 300).await, (stopped(59 * piece / 2), 59));
    }
}
