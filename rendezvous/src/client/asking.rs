//! Asks services over HTTP: one request after another, again after lost connections, and never longer than is said.
//!
//! The token of the service goes to the host of the URL that is asked and to no other: answers that lead elsewhere are not followed. Where clients of a service say whom that one asks, `trusted` says who gets it.

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
use super::exchange::{Ask, Given, Misread};
use super::trusted::Trusted;
use super::turns::{TurnKind, Turns};
use super::url::ServiceUrl;
use crate::machine::{
    Completion, Fault, FaultKind, Handle, Of, Properties, Registered, Spec, Token, Unit, Wanted,
};
use crate::token::ServiceToken;

/// How long a service has for an answer, beside the time that it may keep the request, and that the content takes at [`SLOWEST`].
const ANSWER: Duration = Duration::from_secs(30);

/// What is left for an answer that is on its way when the time is over.
const GRACE: Duration = Duration::from_secs(2);

/// Bytes a second at which contents go at least; slower ones are given up.
const SLOWEST: u64 = 16 << 10;

/// Longest time that a service is asked to keep a request: shorter than what lies between here and there closes idle connections after.
const POLL: Duration = Duration::from_secs(30);

/// The shortest, where more want to ask a service than can at a time: then each has its turn within [`POLL`] or so.
const POLL_LEAST: Duration = Duration::from_secs(1);

/// How long a service has for the answer to a word of a controlling task: the next word is soon due, and a lease runs.
const WORD: Duration = Duration::from_secs(5);

/// How long to wait before something is tried again: at first, and at most.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// The longest time that anything can be told to take: no sum with it overflows a clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Asks services. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Asking {
    http: Http<Connector, Full<Bytes>>,
    authorization: Option<HeaderValue>,
    /// Whether it is known whose certificates count.
    authority: bool,
    data_max: u64,
    /// Those who get the token; all do where clients themselves say who is asked.
    trusted: Option<Trusted>,
    turns: Arc<Turns>,
}

/// An attempt without an answer.
struct Lost {
    why: String,
    /// Whether the service may have been reached.
    sent: bool,
    /// Whether it would be the same again.
    hopeless: bool,
}

/// A point in time that lies so far ahead.
pub(crate) fn after(limit: Duration) -> Instant {
    Instant::now() + limit.min(LONGEST)
}

impl Asking {
    pub(crate) fn new(options: &ClientOptions) -> Result<Asking, ClientError> {
        let connector = connector::new(options.ca.as_deref())?;
        let http = Http::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(20))
            .pool_max_idle_per_host(16)
            .build(connector);
        let authorization = options.token.as_ref().and_then(authorization);
        let (authority, data_max) = (options.ca.is_some(), options.data_max);
        let turns = Arc::new(Turns::new());
        Ok(Asking { http, authorization, authority, data_max, trusted: None, turns })
    }

    #[cfg(feature = "http")]
    /// Asks as a service for its clients, who say whom: the token goes to these services alone, and errors do not quote what was answered.
    pub(crate) fn for_others(options: &ClientOptions, trusted: Trusted) -> Result<Asking, ClientError> {
        Ok(Asking { trusted: Some(trusted), ..Asking::new(options)? })
    }

    pub(crate) async fn create(
        &self,
        service: &ServiceUrl,
        spec: &Spec,
        until: Instant,
    ) -> Result<Handle, ClientError> {
        self.ask(service, &Ask::create(service, spec), until, Given::created).await.0
    }

    pub(crate) async fn register(
        &self,
        handle: &Handle,
        rank: Wanted,
        token: &Token,
        data: Bytes,
        lease: Option<u64>,
        until: Instant,
    ) -> Result<Registered, ClientError> {
        let service = url(handle)?;
        let ask = Ask::register((&service, handle.resource()), rank, token, data, lease);
        self.ask(&service, &ask, until, Given::registered).await.0
    }

    pub(crate) async fn withdraw(
        &self,
        handle: &Handle,
        rank: u64,
        token: &Token,
        until: Instant,
    ) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = Ask::withdraw((&service, handle.resource()), rank, token);
        self.end(&service, &ask, until, FaultKind::NotRegistered).await
    }

    /// Waits for the completion in polls, one after the other.
    pub(crate) async fn wait(
        &self,
        handle: &Handle,
        of: Of,
        token: Option<&Token>,
        until: Instant,
    ) -> Result<Option<Completion>, ClientError> {
        let service = url(handle)?;
        // Ends: when the time is over, or with an answer.
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let rounds = self.turns.rounds(TurnKind::Kept, &service);
            let wait = left.min((POLL / rounds).max(POLL_LEAST)).as_millis() as u64;
            let at = (&service, handle.resource());
            let ask = Ask::wait(at, of, wait, token, self.data_max);
            let found = self.ask(&service, &ask, until, Given::completion).await.0?;
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
        let ask = Ask::properties((&service, handle.resource()));
        self.ask(&service, &ask, until, Given::properties).await.0
    }

    pub(crate) async fn destroy(&self, handle: &Handle, until: Instant) -> Result<(), ClientError> {
        let service = url(handle)?;
        let ask = Ask::destroy((&service, handle.resource()));
        self.end(&service, &ask, until, FaultKind::Destroyed).await
    }

    pub(crate) async fn end_job(
        &self,
        service: &ServiceUrl,
        job: Job,
        until: Instant,
    ) -> Result<u64, ClientError> {
        self.ask(service, &Ask::end_job(service, job), until, Given::ended).await.0
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
        let ask = Ask::control((&service, handle.resource()), unit, name, token, lease);
        self.ask(&service, &ask, until, Given::done).await.0
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
        let ask = Ask::release((&service, handle.resource()), unit, token, lost);
        self.end(&service, &ask, until, FaultKind::NotRegistered).await
    }

    /// Asks for something to end. Once an attempt may have been carried out whose answer was lost, this fault says that it was.
    async fn end(
        &self,
        service: &ServiceUrl,
        ask: &Ask,
        until: Instant,
        gone: FaultKind,
    ) -> Result<(), ClientError> {
        match self.ask(service, ask, until, Given::done).await {
            (Err(ClientError::Fault(Fault { kind, .. })), true) if kind == gone => Ok(()),
            (result, _) => result,
        }
    }

    /// Asks until there is an answer; also says whether the service may have been reached before the attempt that was answered.
    async fn ask<T>(
        &self,
        service: &ServiceUrl,
        ask: &Ask,
        until: Instant,
        read: fn(&Given) -> Result<T, Misread>,
    ) -> (Result<T, ClientError>, bool) {
        let mut again = AGAIN_FIRST;
        let mut reached = false;
        // Ends: with an answer, with what cannot be tried again, or when the time is over.
        loop {
            let answered = match self.once(service, ask, until).await {
                Ok(given) => read(&given),
                Err(Attempt::Error(error)) => return (Err(error), reached),
                Err(Attempt::Lost(lost)) => {
                    reached |= lost.sent;
                    let unreachable = || unreachable(service, lost.why.clone(), ask, lost.sent);
                    if lost.hopeless || (lost.sent && !ask.again) {
                        return (Err(unreachable()), reached);
                    }
                    Err(Misread::Away(lost.why))
                }
            };
            let error = match answered {
                Ok(answer) => return (Ok(answer), reached),
                Err(Misread::Nonsense(what)) => {
                    let service = service.as_str().to_owned();
                    return (Err(ClientError::Nonsense { service, what }), reached);
                }
                // It is ending: another run of it may come.
                Err(Misread::Fault(fault)) if fault.kind == FaultKind::Unavailable => {
                    unreachable(service, fault.message, ask, reached)
                }
                Err(Misread::Fault(fault)) if passes(&fault) => ClientError::Fault(fault),
                Err(Misread::Fault(fault)) => return (Err(ClientError::Fault(fault)), reached),
                Err(Misread::Away(why)) => unreachable(service, why, ask, reached),
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
    async fn once(&self, service: &ServiceUrl, ask: &Ask, until: Instant) -> Result<Given, Attempt> {
        if service.is_secure() && !self.authority {
            return Err(Attempt::Error(connector::no_authority(service)));
        }
        let with_token = self.trusted.as_ref().is_none_or(|trusted| trusted.has(service));
        let request = self.request(ask, with_token).map_err(|error| {
            let (service, what) = (service.as_str().to_owned(), error.to_string());
            Attempt::Error(ClientError::Nonsense { service, what })
        })?;
        let left = || until.saturating_duration_since(Instant::now());
        let waited = timeout(left() + GRACE, self.turns.take(ask.turn, service)).await;
        let unsent = |why: &str| Lost { why: why.into(), sent: false, hopeless: false };
        let _turn = waited.map_err(|_| unsent("too much else was asked at the same time"))?;
        let upload = ask.content.as_ref().map_or(0, |(_, content)| content.len() as u64);
        let answer = answer_time(ask.turn);
        let needed = answer + at_slowest(upload) + Duration::from_millis(ask.kept);
        let limit = needed.min(left() + GRACE);
        let lost = |why: String| Lost { why, sent: true, hopeless: false };
        match timeout(limit, self.http.request(request)).await {
            Err(_) => Err(lost(format!("no answer within {:.1} s", limit.as_secs_f64())).into()),
            Ok(Err(error)) => {
                let last = cause(&error);
                if let Some(why) = connector::refused(last) {
                    let service = service.as_str().to_owned();
                    return Err(Attempt::Error(ClientError::Certificate { service, why }));
                }
                let why = format!("{last}{}", other_scheme(service, &error, last));
                Err(Lost { why, sent: !error.is_connect(), hopeless: false }.into())
            }
            Ok(Ok(response)) if response.status() == 401 && !with_token && self.authorization.is_some() => {
                Err(Attempt::Error(ClientError::Withheld { service: service.as_str().to_owned() }))
            }
            Ok(Ok(response)) => {
                let given = read(response, ask.answer_max, answer).await?;
                Ok(Given { quotable: self.trusted.is_none(), ..given })
            }
        }
    }

    fn request(&self, ask: &Ask, with_token: bool) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder().method(ask.method.clone()).uri(&ask.url);
        // The data of a completion come with what they who met have in common so.
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

/// How an attempt ends that has no answer.
enum Attempt {
    Lost(Lost),
    Error(ClientError),
}

impl From<Lost> for Attempt {
    fn from(lost: Lost) -> Attempt {
        Attempt::Lost(lost)
    }
}

/// Takes the content as it comes, whatever length was announced.
async fn read(response: Response<Incoming>, most: u64, answer: Duration) -> Result<Given, Lost> {
    let lost = |why: String| Lost { why, sent: true, hopeless: false };
    let status = response.status().as_u16();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("of no type").to_owned();
    let mut body = response.into_body();
    let mut content = BytesMut::new();
    let begun = Instant::now();
    // Ends: what comes is bounded, and so is the time that it takes.
    loop {
        let allowed = answer + at_slowest(content.len() as u64);
        let left = allowed.saturating_sub(begun.elapsed());
        match timeout(left, body.frame()).await {
            Err(_) => return Err(lost(format!("its answer has stopped after {} bytes", content.len()))),
            Ok(None) => return Ok(Given { status, kind, content: content.freeze(), quotable: true }),
            Ok(Some(Err(error))) => return Err(lost(format!("its answer is cut off: {}", cause(&error)))),
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                if (content.len() + data.len()) as u64 > most {
                    let why = format!("its answer is longer than {most} bytes");
                    return Err(Lost { hopeless: true, ..lost(why) });
                }
                content.extend_from_slice(&data);
            }
        }
    }
}

/// Whether a service that refuses so may not a little later: others make room.
fn passes(fault: &Fault) -> bool {
    fault.kind == FaultKind::ServiceFull
}

/// How long a service has for an answer of this kind.
fn answer_time(kind: TurnKind) -> Duration {
    match kind {
        TurnKind::Word => WORD,
        TurnKind::Short | TurnKind::Kept => ANSWER,
    }
}

fn at_slowest(bytes: u64) -> Duration {
    Duration::from_secs(bytes / SLOWEST)
}

/// The header with the token; it is not shown where headers are.
fn authorization(token: &ServiceToken) -> Option<HeaderValue> {
    let text = zeroize::Zeroizing::new(format!("Bearer {}", token.to_text().as_str()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn url(handle: &Handle) -> Result<ServiceUrl, ClientError> {
    Ok(handle.service().parse::<ServiceUrl>()?)
}

fn unreachable(service: &ServiceUrl, why: String, ask: &Ask, reached: bool) -> ClientError {
    let unsure = match reached && !ask.again {
        true => "; it may have done what it was asked for, so look before you ask again",
        false => "",
    };
    let why = format!("{}{unsure}", Shown(&why));
    ClientError::Unreachable { service: service.as_str().to_owned(), why }
}

/// What is at the bottom of an error.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut last = error;
    // Ends: errors are nested as deep as there are layers of software.
    while let Some(deeper) = inner(last) {
        last = deeper;
    }
    last
}

/// A question, where an error looks as if the service spoke the other one of http and https.
fn other_scheme(
    service: &ServiceUrl,
    error: &(dyn Error + 'static),
    last: &(dyn Error + 'static),
) -> &'static str {
    if service.is_secure() {
        return connector::plain(last);
    }
    let mut errors = std::iter::successors(Some(error), |error| inner(*error));
    // A server of TLS answers a request with an alert, which is no answer of HTTP.
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

/// Somewhere between half of it and the whole: many clients that lose the same service do not all come back at once.
fn jittered(wait: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    // Each state has keys of its own.
    let share = RandomState::new().hash_one(0_u8) % 512;
    wait * (512 + share as u32) / 1024
}
