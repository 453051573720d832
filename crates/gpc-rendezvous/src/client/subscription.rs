//! Subscriptions: the notifications of a resource, over a stream of events. A stream that is lost is opened again, and
//! begins with the present state, so the last notification is never missed.

use std::fmt;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::blocking::block;
use super::error::ClientError;
use super::events::{Event, EventReader, TooLong};
use super::exchange::{ServiceRequest, ServiceResponse};
use super::requests::{self, AttemptError, LONGEST, Requester, after, cause, client_error, random_share};
use super::retry::{Failure, Retry};
use super::url::ServiceUrl;
use crate::machine::{Completion, Fault, FaultKind, Handle, Scope, Token};

/// Longest silence of a stream: three times that after which a service sends a comment.
const SILENCE: Duration = Duration::from_secs(45);

/// Most times that a dropped subscription lets its connection run: it closes in the first.
const CLOSING_MAX: u32 = 4;

/// Shortest wait for a notification: time for the system to hand over what has arrived.
const LEAST: Duration = Duration::from_millis(10);

/// What a subscription reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// The number of registrants: first the present one, later each change. Changes that follow each other within a
    /// quarter of a second, or while nobody reads, are reported as one.
    Tally {
        /// Number of registrants so far.
        tally: u32,
        /// Number of registrants that make the resource complete.
        capacity: u32,
    },
    /// The rendezvous is complete. The last notification.
    Completed(Completion),
    /// The rendezvous cannot complete: the resource was destroyed, its lifetime has passed, a controlling task was
    /// lost. The last notification.
    Failed(Fault),
}

/// A subscription to the notifications of a resource: see [`Client::subscribe`](super::Client::subscribe). Dropping it
/// ends it.
///
/// It has no thread. The connection is read while a thread waits in one of its functions; the system holds what arrives
/// meanwhile, and the service leaves out what the system does not take.
pub struct Subscription {
    runtime: Arc<Runtime>,
    requester: Requester,
    resource: Resource,
    stream: Option<Stream>,
    retry: Retry,
    /// The last reported number of registrants, and the capacity.
    last: Option<(u32, u32)>,
    /// When the service was lost, until it reports a number of registrants again.
    lost: Option<Instant>,
    /// Longest silence of a stream: [`SILENCE`].
    silence: Duration,
    is_over: bool,
    stopped: watch::Sender<bool>,
}

/// What is subscribed to.
struct Resource {
    service: ServiceUrl,
    handle: Handle,
    of: Scope,
    token: Option<Token>,
}

/// Ends a subscription from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Time limits of a wait.
#[derive(Clone, Copy)]
struct Limits {
    until: Instant,
    /// Longest time without the service.
    away: Duration,
}

/// A stream that is open.
struct Stream {
    body: Incoming,
    /// Time spent waiting since the last bytes. Time in which nobody waits does not count: bytes may have arrived.
    silent: Duration,
    reader: EventReader,
    /// Received bytes that were not read yet.
    rest: Bytes,
}

impl Limits {
    /// No limit but this, which is one for the service as well.
    fn new(limit: Duration) -> Limits {
        Limits { until: after(limit), away: LONGEST }
    }

    /// Until when the service is tried again.
    fn attempts(&self, lost: Option<Instant>) -> Instant {
        lost.map_or(self.until, |lost| self.until.min(lost + self.away))
    }
}

impl Stopper {
    /// Ends the subscription: its present wait and all later ones fail with [`ClientError::Stopped`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Subscription {
    /// Opens the stream, within this limit.
    pub(super) fn open(
        (runtime, requester): (Arc<Runtime>, Requester),
        (handle, of, token): (&Handle, Scope, Option<&Token>),
        limit: Duration,
    ) -> Result<Subscription, ClientError> {
        let service = requests::url(handle)?;
        let resource = Resource { service, handle: handle.clone(), of, token: token.cloned() };
        let (stream, retry, stopped) = (None, Retry::new(true), watch::Sender::new(false));
        let (last, lost, silence, is_over) = (None, None, SILENCE, false);
        let mut made = Subscription {
            runtime,
            requester,
            resource,
            stream,
            retry,
            last,
            lost,
            silence,
            is_over,
            stopped,
        };
        match block(&Arc::clone(&made.runtime), made.opened(Limits::new(limit)))? {
            Some(fault) => Err(ClientError::Fault(fault)),
            None => Ok(made),
        }
    }

    /// Ends this subscription, from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stopped.clone())
    }

    /// Waits for the next notification, at most `limit` (at least 10 ms). `None` after the last one. While it waits, it
    /// opens the stream again if that is lost.
    ///
    /// # Errors
    /// [`ClientError::NotYet`] at the time limit, [`ClientError::Stopped`], or why the service was not reached until
    /// then. The subscription goes on after an error.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Notification>, ClientError> {
        self.wait(Limits::new(limit.max(LEAST)))?.ok_or(ClientError::NotYet { limit })
    }

    /// Waits for the next notification, however long that takes. `None` after the last one. It opens a lost stream
    /// again, as long as the service is away for less than `away` at a time.
    ///
    /// # Errors
    /// [`ClientError::Stopped`], or why the service was not reached. The subscription goes on after an error.
    pub fn next_while_reached(&mut self, away: Duration) -> Result<Option<Notification>, ClientError> {
        let away = away.min(LONGEST);
        self.wait(Limits { away, ..Limits::new(LONGEST) })?.ok_or(ClientError::NotYet { limit: LONGEST })
    }

    /// Waits for the next notification: `None` at the time limit, `Some(None)` after the last notification.
    fn wait(&mut self, limits: Limits) -> Result<Option<Option<Notification>>, ClientError> {
        let (runtime, mut stopped) = (Arc::clone(&self.runtime), self.stopped.subscribe());
        block(&runtime, async {
            // The sender lives as long as `self`.
            let mut stop = pin!(stopped.wait_for(|stopped| *stopped));
            let mut found = pin!(self.notification(limits));
            poll_fn(|cx| match stop.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(Err(ClientError::Stopped)),
                Poll::Pending => found.as_mut().poll(cx),
            })
            .await
        })
    }

    /// All notifications that are left. Each is waited for at most `limit`; an error is the last item.
    pub fn notifications(
        &mut self,
        limit: Duration,
    ) -> impl Iterator<Item = Result<Notification, ClientError>> {
        let mut has_failed = false;
        std::iter::from_fn(move || {
            let next = if has_failed { None } else { self.next(limit).transpose() };
            has_failed = matches!(next, Some(Err(_)));
            next
        })
    }

    /// Calls `callback` with each notification, on this thread, until the last one; in all at most `limit`.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn notify(
        &mut self,
        limit: Duration,
        mut callback: impl FnMut(Notification),
    ) -> Result<(), ClientError> {
        let until = after(limit);
        // Ends: at the time limit, or after the last notification.
        loop {
            match self.next(until.saturating_duration_since(Instant::now())) {
                Ok(Some(notification)) => callback(notification),
                Ok(None) => return Ok(()),
                Err(ClientError::NotYet { .. }) => return Err(ClientError::NotYet { limit }),
                Err(error) => return Err(error),
            }
        }
    }

    async fn notification(&mut self, limits: Limits) -> Result<Option<Option<Notification>>, ClientError> {
        // Ends: at the time limit, or with a notification. Events that are none are read within the limit.
        loop {
            if self.is_over {
                return Ok(Some(None));
            }
            if let Some(fault) = self.opened(limits).await? {
                return Ok(Some(self.over(Notification::Failed(fault))));
            }
            let failure = match self.step(limits).await {
                Ok(Some(found @ Notification::Tally { .. })) => return Ok(Some(Some(found))),
                Ok(Some(last)) => return Ok(Some(self.over(last))),
                Ok(None) if Instant::now() >= limits.until => return Ok(None),
                Ok(None) => continue,
                Err(AttemptError::Error(error)) => return Err(error),
                Err(AttemptError::Failure(failure)) => failure,
            };
            self.stream = None;
            if let Some(fault) = self.pause_after(failure, limits).await? {
                return Ok(Some(self.over(Notification::Failed(fault))));
            }
        }
    }

    fn over(&mut self, last: Notification) -> Option<Notification> {
        (self.stream, self.is_over) = (None, true);
        Some(last)
    }

    /// Opens the stream unless it is open. Returns the fault if the rendezvous cannot complete.
    async fn opened(&mut self, limits: Limits) -> Result<Option<Fault>, ClientError> {
        // Ends: at the time limit, or when the service has answered.
        while self.stream.is_none() {
            let Resource { service, handle, of, token } = &self.resource;
            let ask = ServiceRequest::events((service, handle.resource()), *of, token.as_ref());
            match self.requester.open_events(service, &ask, limits.attempts(self.lost)).await {
                Ok(body) => {
                    let reader = EventReader::new(self.requester.event_max());
                    self.stream = Some(Stream { body, silent: Duration::ZERO, reader, rest: Bytes::new() });
                }
                Err(AttemptError::Error(error)) => return Err(error),
                Err(AttemptError::Failure(failure)) => {
                    if let Some(fault) = self.pause_after(failure, limits).await? {
                        return Ok(Some(fault));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Waits before the next attempt. A fault that is not passing ends the subscription.
    async fn pause_after(&mut self, failure: Failure, limits: Limits) -> Result<Option<Fault>, ClientError> {
        let until = limits.attempts(Some(*self.lost.get_or_insert_with(Instant::now)));
        let repeats = self.retry.failed(&failure);
        if let Failure::Fault(fault) = &failure
            && is_of_the_rendezvous(fault.kind)
        {
            return Ok(Some(fault.clone()));
        }
        let error = client_error(&self.resource.service, failure, false);
        let left = until.saturating_duration_since(Instant::now());
        match repeats.then(|| self.retry.pause(left, random_share())).flatten() {
            Some(pause) => sleep(pause).await,
            None => return Err(error),
        }
        Ok(None)
    }

    /// Reads the next event. `None` if it is no notification, or at the time limit.
    async fn step(&mut self, limits: Limits) -> Result<Option<Notification>, AttemptError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let Some(Event { name, data }) = stream.event(limits.until, self.silence).await? else {
            return Ok(None);
        };
        let given = ServiceResponse {
            status: 200,
            kind: "text/event-stream".into(),
            content: data.into(),
            quotable: true,
        };
        match name.as_str() {
            "tally" => {
                let now = given.tally()?;
                let (tally, capacity) = now;
                // Service and stream are well: the next pause is a short one.
                (self.retry, self.lost) = (Retry::new(true), None);
                let is_new = self.last.replace(now) != Some(now);
                Ok(is_new.then_some(Notification::Tally { tally, capacity }))
            }
            "completed" => match given.completed()? {
                Some(completion) => Ok(Some(Notification::Completed(completion))),
                None => {
                    let Resource { handle, of, token, .. } = &self.resource;
                    let until = limits.attempts(Some(Instant::now()));
                    let found = self.requester.wait(handle, *of, token.as_ref(), until).await;
                    Ok(found.map_err(AttemptError::Error)?.map(Notification::Completed))
                }
            },
            "fault" => Err(Failure::Fault(given.fault()?).into()),
            _ => Ok(None),
        }
    }
}

/// Whether a fault says something about the rendezvous; the others are of the request or of the service, and passing
/// or not, no notification.
fn is_of_the_rendezvous(fault: FaultKind) -> bool {
    use FaultKind::*;
    !matches!(fault, ServiceFull | Unavailable | BadRequest | Unauthorized)
}

impl Stream {
    /// The next event; `None` at the time limit.
    async fn event(&mut self, until: Instant, silence: Duration) -> Result<Option<Event>, AttemptError> {
        let lost = |why: String, hopeless| Err(Failure::NoAnswer { why, sent: true, hopeless }.into());
        // Ends: with an event, at the time limit, or when the stream ends.
        loop {
            let mut bytes = &self.rest[..];
            let event = self.reader.take(&mut bytes);
            let taken = self.rest.len() - bytes.len();
            self.rest.advance(taken);
            match event {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) if Instant::now() >= until => return Ok(None),
                Ok(None) => {}
                Err(TooLong(most)) => return lost(format!("an event is longer than {most} bytes"), true),
            }
            let begun = Instant::now();
            let left = silence.saturating_sub(self.silent);
            let frame = timeout_at(until.min(begun + left), self.body.frame()).await;
            self.silent += begun.elapsed();
            match frame {
                Err(_) if Instant::now() >= until => return Ok(None),
                Err(_) => return lost(format!("its events have stopped for {} s", silence.as_secs()), false),
                Ok(None) => return lost("its events have ended without a completion".into(), false),
                Ok(Some(Err(error))) => {
                    return lost(format!("its events are cut off: {}", cause(&error)), false);
                }
                Ok(Some(Ok(frame))) => {
                    (self.rest, self.silent) = (frame.into_data().unwrap_or_default(), Duration::ZERO);
                }
            }
        }
    }
}

/// The connection of an open stream closes when its task runs, which it does while a thread waits. It would last, and
/// with it the lease of the registrant, until the client is used again.
impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        // On a thread of an async runtime no wait is possible.
        let _ = block(&self.runtime, async {
            drop(stream);
            for _ in 0..CLOSING_MAX {
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({:?})", self.resource.handle)
    }
}

#[cfg(test)]
mod tests;
