//! A rendezvous service on a node: its functions, and the links that show whether its registrants live.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use chained_gpc::{
    Access, Clock, Deferred, Functions, FunctionsError, MembershipError, Node, Placement, Reply,
    Request as Call,
};

use super::codec::{Operation, WireRequest, encode_answer};
use super::link_events::LinkEvents;
use crate::machine::{Answer, Fault, FaultKind, Life, Limits, Request, Spec};
use crate::service_thread::{Desk, PendingRequest, ServiceThread};

/// A service on a node. Dropping it ends the service, if the host has started it, and answers all waits.
#[derive(Debug)]
pub struct Host {
    desk: Desk,
    /// The service, if this host has started it.
    service_thread: Option<ServiceThread>,
    link_events: LinkEvents,
    gone: Arc<AtomicBool>,
}

/// Why the service cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Its functions, or others with their names, are registered already.
    #[error("a function of the rendezvous service: {0}; a node has one service")]
    Functions(#[from] FunctionsError),
    /// The system has no thread or other resource.
    #[error("the rendezvous service cannot start: {0}")]
    System(#[from] io::Error),
    /// The node does not report events of its links.
    #[error("the rendezvous service does not hear of links: {0}")]
    Membership(#[from] MembershipError),
}

impl Host {
    /// Starts a service, and registers the functions that give access to it. It has no store, and controls no unit: it
    /// rejects a resource with a parent.
    ///
    /// # Errors
    /// Returns an error if a function cannot be registered or the service cannot start.
    pub fn register(functions: &Functions, limits: Limits) -> Result<Host, HostError> {
        let service_thread = ServiceThread::start(limits, None, |_, _| {})?;
        let desk = service_thread.desk().clone();
        let link_events = register(functions, &desk, false)?;
        Ok(Host { desk, service_thread: Some(service_thread), link_events, gone: Arc::default() })
    }

    /// Registers functions that give access to an existing service, which other servers may offer too. Its store and
    /// its control of units apply here as well.
    ///
    /// # Errors
    /// Returns an error if a function cannot be registered.
    pub fn on_desk(functions: &Functions, desk: Desk) -> Result<Host, HostError> {
        let link_events = register(functions, &desk, true)?;
        Ok(Host { desk, service_thread: None, link_events, gone: Arc::default() })
    }

    /// Starts to follow the links of this node. If a link is lost, the registrants of its id are withdrawn and its
    /// controlling tasks are lost. A link that was closed in order, because descriptors were short, is not lost. Its
    /// node is asked from time to time, and counts as lost after three attempts without a connection. Call this before
    /// other nodes learn of the service.
    ///
    /// # Errors
    /// Returns an error if the node has ended, or the system has no thread.
    pub fn attach(&self, node: &Node) -> Result<(), HostError> {
        let (caller, link_events, desk) = (node.caller(), self.link_events.clone(), self.desk.clone());
        let (wakes, gone) = (link_events.listen(&caller)?, self.gone.clone());
        let hear = move || {
            link_events.run(&caller, &desk, &Clock::system(), wakes, || gone.load(Ordering::Relaxed));
        };
        thread::Builder::new().name("rendezvous-links".into()).spawn(hear)?;
        Ok(())
    }

    /// The desk that submits requests from within this process.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        drop(self.service_thread.take());
    }
}

/// Registers a function for each operation. The functions are short and run on the node's own thread, so they run in
/// the order in which requests arrive and links are lost.
fn register(functions: &Functions, desk: &Desk, controls: bool) -> Result<LinkEvents, FunctionsError> {
    let link_events = LinkEvents::default();
    let functions = functions.at(Placement::Inline).access(Access::Proved);
    for operation in Operation::ALL.iter().copied() {
        let to = ServiceState { desk: desk.clone(), link_events: link_events.clone(), controls };
        let function = move |request: &Call<'_>, token: Deferred| serve(&to, operation, request, token);
        functions.deferring(operation.function(), function)?;
    }
    Ok(link_events)
}

/// State of a function.
struct ServiceState {
    desk: Desk,
    link_events: LinkEvents,
    /// Whether the service controls units.
    controls: bool,
}

/// Answers a request, now or once the service has the answer.
fn serve(to: &ServiceState, operation: Operation, request: &Call<'_>, token: Deferred) {
    let desk = &to.desk;
    let from = request.root();
    // A call that another node forwards would have only that node's claim about its root.
    if request.parent().is_some_and(|parent| parent != from) {
        let message = "the service is asked by calls over its id alone, which come from their root directly";
        return answer(token, Err(Fault::new(FaultKind::BadRequest, message)));
    }
    let ask = match WireRequest::decode(operation, request.header(), request.data_bytes(), from) {
        Ok(ask) => ask,
        Err(error) => {
            let message = format!("the bytes of the request make no sense: {error}");
            return answer(token, Err(Fault::new(FaultKind::BadRequest, message)));
        }
    };
    if lives_by_link(&ask) && !to.link_events.admits(desk, from, request.me()) {
        let message = "the service has not heard yet that the link to your node stands: ask again";
        return answer(token, Err(Fault::new(FaultKind::ServiceFull, message)));
    }
    let state = Arc::new(Mutex::new(RequestState::Starting));
    let ends = state.clone();
    token.on_cancel(move || cancel(&ends));
    let then = move |outcome| answer(token, outcome);
    let pending = match plain(ask, desk) {
        Err(spec) if spec.parent.is_some() && !to.controls => {
            let message = "this service controls no unit: leave the parent out, and let the unit's controlling task register its data above";
            return then(Err(Fault::new(FaultKind::BadRequest, message)));
        }
        Err(spec) => match desk.create(spec, then) {
            Ok(pending) => pending,
            // Dropping the token with `then` reports that there is no answer.
            Err(error) => return tracing::error!(%error, "the rendezvous service cannot draw a resource"),
        },
        Ok(request) => desk.ask(request, then),
    };
    store_pending(&state, pending);
}

/// Whether the caller wants to live as long as its link.
fn lives_by_link(ask: &WireRequest) -> bool {
    matches!(
        ask,
        WireRequest::Register { life: Life::Member(_), .. }
            | WireRequest::Control { life: Life::Member(_), .. }
    )
}

/// Converts to a request of the service. A creation is returned as its `Spec`, because random values must be drawn
/// first.
fn plain(ask: WireRequest, desk: &Desk) -> Result<Request, Spec> {
    Ok(match ask {
        WireRequest::Create(spec) => return Err(spec),
        WireRequest::Register { resource, rank, token, data, life } => {
            Request::Register { resource, rank, token, data: data.into(), life }
        }
        WireRequest::Withdraw { resource, rank, token } => Request::Withdraw { resource, rank, token },
        WireRequest::Wait { resource, of, limit, token } => {
            Request::Wait { resource, of, until: Some(desk.now().saturating_add(limit)), token }
        }
        WireRequest::Properties(resource) => Request::Properties(resource),
        WireRequest::Registrant { resource, rank } => Request::Registrant { resource, rank },
        WireRequest::Control { resource, unit, name, token, life } => {
            Request::Control { resource, unit, name, token, life }
        }
        WireRequest::Release { resource, unit, token, lost } => {
            Request::Release { resource, unit, token, lost }
        }
        WireRequest::Destroy(resource) => Request::Destroy(resource),
        WireRequest::EndJob(job) => Request::EndJob(job),
    })
}

/// State of a request, for its cancellation.
enum RequestState {
    /// The request is about to be submitted.
    Starting,
    /// The request is submitted.
    Submitted(PendingRequest),
    /// The request is cancelled.
    Cancelled,
}

fn store_pending(state: &Mutex<RequestState>, pending: PendingRequest) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if let RequestState::Starting = *state {
        *state = RequestState::Submitted(pending);
    }
}

fn cancel(state: &Mutex<RequestState>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if let RequestState::Submitted(pending) = std::mem::replace(&mut *state, RequestState::Cancelled) {
        // Dropping it cancels the request.
        drop(pending);
    }
}

fn answer(token: Deferred, outcome: Result<Answer, Fault>) {
    let (header, shared) = encode_answer(&outcome);
    token.reply(Reply { header, shared, ..Reply::default() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Scope, Spec};
    use crate::service_thread::draw;
    use std::sync::mpsc::channel;

    fn told(desk: &Desk, request: Request) -> Answer {
        let (told, answer) = channel();
        desk.ask(request, move |outcome| drop(told.send(outcome))).detach();
        answer.recv().unwrap().unwrap()
    }

    /// Two nodes have two clocks, so the time limit of a wait counts from its arrival.
    #[test]
    fn a_wait_lasts_from_its_arrival() {
        let service = ServiceThread::start(Limits::default(), None, |_, _| {}).unwrap();
        let (desk, resource) = (service.desk(), crate::machine::ResourceId([1; 16]));
        let wait = |limit| WireRequest::Wait { resource, of: Scope::Own, limit, token: None };
        let begin = desk.now();
        let Ok(Request::Wait { until: Some(until), .. }) = plain(wait(5000), desk) else { panic!("no wait") };
        assert!((begin + 5000..=desk.now() + 5000).contains(&until), "{until}");
        let endless = plain(wait(u64::MAX), desk);
        assert!(matches!(endless, Ok(Request::Wait { until: Some(u64::MAX), .. })), "{endless:?}");
    }

    /// A wait whose call was cancelled stayed until the end of its resource.
    #[test]
    fn a_cancelled_request_is_dropped_before_and_after_it_was_submitted() {
        let service = ServiceThread::start(Limits::default(), None, |_, _| {}).unwrap();
        let desk = service.desk();
        let create = Request::Create { spec: Spec::new(1), random: draw(false).unwrap() };
        let Answer::Created(resource) = told(desk, create) else { panic!("refused") };
        let wait = || desk.ask(Request::Wait { resource, of: Scope::Own, until: None, token: None }, drop);
        let waiting = || match told(desk, Request::Properties(resource)) {
            Answer::Properties(properties) => properties.waiting,
            other => panic!("{other:?}"),
        };
        let state = || Mutex::new(RequestState::Starting);
        let (early, late, stays) = (state(), state(), state());
        cancel(&early);
        [&early, &late, &stays].into_iter().for_each(|state| store_pending(state, wait()));
        cancel(&late);
        cancel(&late);
        // Cancellations take effect in the turn after the next.
        let counts = [waiting(), waiting(), waiting()];
        assert_eq!(counts[2], 1, "{counts:?}");
        drop(stays);
    }
}
