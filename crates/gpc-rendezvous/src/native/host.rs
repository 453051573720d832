//! A rendezvous service on a node: its functions, and the links that show whether its registrants live.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use chained_gpc::{
    Access, Deferred, Functions, FunctionsError, MembershipError, Node, Placement, Reply, Request as Call,
};

use super::codec::{Ask, Operation, encode_answer};
use super::hearing::Hearing;
use crate::keeper::{Asked, Desk, Keeper};
use crate::machine::{Answer, Fault, FaultKind, Life, Limits, Request, Spec};

/// A service on a node. Dropping it ends the service, if the host has started it, and answers all waits.
#[derive(Debug)]
pub struct Host {
    desk: Desk,
    /// The service, if this host has started it.
    keeper: Option<Keeper>,
    hearing: Hearing,
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
        let keeper = Keeper::start(limits, None, |_, _| {})?;
        let desk = keeper.desk().clone();
        let hearing = register(functions, &desk, false)?;
        Ok(Host { desk, keeper: Some(keeper), hearing, gone: Arc::default() })
    }

    /// Registers functions that give access to an existing service, which other servers may offer too. Its store and
    /// its control of units apply here as well.
    ///
    /// # Errors
    /// Returns an error if a function cannot be registered.
    pub fn on_desk(functions: &Functions, desk: Desk) -> Result<Host, HostError> {
        let hearing = register(functions, &desk, true)?;
        Ok(Host { desk, keeper: None, hearing, gone: Arc::default() })
    }

    /// Starts to follow the links of this node. If a link is lost, the registrants of its id are withdrawn and its
    /// controlling tasks are lost. A link that was closed in order, because descriptors were short, is not lost. Its
    /// node is asked from time to time, and counts as lost after three attempts without a connection. Call this before
    /// other nodes learn of the service.
    ///
    /// # Errors
    /// Returns an error if the node has ended, or the system has no thread.
    pub fn attach(&self, node: &Node) -> Result<(), HostError> {
        let (caller, hearing, desk) = (node.caller(), self.hearing.clone(), self.desk.clone());
        let (wakes, gone) = (hearing.listen(&caller)?, self.gone.clone());
        let hear = move || hearing.run(&caller, &desk, wakes, || gone.load(Ordering::Relaxed));
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
        drop(self.keeper.take());
    }
}

/// Registers a function for each operation. The functions are short and run on the node's own thread, so they run in
/// the order in which requests arrive and links are lost.
fn register(functions: &Functions, desk: &Desk, controls: bool) -> Result<Hearing, FunctionsError> {
    let hearing = Hearing::default();
    let functions = functions.at(Placement::Inline).access(Access::Proved);
    for operation in Operation::ALL.iter().copied() {
        let to = Counter { desk: desk.clone(), hearing: hearing.clone(), controls };
        let function = move |request: &Call<'_>, token: Deferred| serve(&to, operation, request, token);
        functions.deferring(operation.function(), function)?;
    }
    Ok(hearing)
}

/// State of a function.
struct Counter {
    desk: Desk,
    hearing: Hearing,
    /// Whether the service controls units.
    controls: bool,
}

/// Answers a request, now or once the service has the answer.
fn serve(to: &Counter, operation: Operation, request: &Call<'_>, token: Deferred) {
    let desk = &to.desk;
    let from = request.root();
    // A call that another node forwards would have only that node's claim about its root.
    if request.parent().is_some_and(|parent| parent != from) {
        let message = "the service is asked by calls over its id alone, which come from their root directly";
        return answer(token, Err(Fault::new(FaultKind::BadRequest, message)));
    }
    let ask = match Ask::decode(operation, request.header(), request.data_bytes(), from) {
        Ok(ask) => ask,
        Err(error) => {
            let message = format!("the bytes of the request make no sense: {error}");
            return answer(token, Err(Fault::new(FaultKind::BadRequest, message)));
        }
    };
    if lives_by_link(&ask) && !to.hearing.admits(desk, from, request.me()) {
        let message = "the service has not heard yet that the link to your node stands: ask again";
        return answer(token, Err(Fault::new(FaultKind::ServiceFull, message)));
    }
    let waiting = Arc::new(Mutex::new(Waiting::Begins));
    let ends = waiting.clone();
    token.on_cancel(move || cancel(&ends));
    let then = move |outcome| answer(token, outcome);
    let asked = match plain(ask, desk) {
        Err(spec) if spec.parent.is_some() && !to.controls => {
            let message = "this service controls no unit: leave the parent out, and let the unit's controlling task register its data above";
            return then(Err(Fault::new(FaultKind::BadRequest, message)));
        }
        Err(spec) => match desk.create(spec, then) {
            Ok(asked) => asked,
            // Dropping the token with `then` reports that there is no answer.
            Err(error) => return tracing::error!(%error, "the rendezvous service cannot draw a resource"),
        },
        Ok(request) => desk.ask(request, then),
    };
    keep(&waiting, asked);
}

/// Whether the caller wants to live as long as its link.
fn lives_by_link(ask: &Ask) -> bool {
    matches!(ask, Ask::Register { life: Life::Member(_), .. } | Ask::Control { life: Life::Member(_), .. })
}

/// Converts to a request of the service. A creation is returned as its `Spec`, because random values must be drawn
/// first.
fn plain(ask: Ask, desk: &Desk) -> Result<Request, Spec> {
    Ok(match ask {
        Ask::Create(spec) => return Err(spec),
        Ask::Register { resource, rank, token, data, life } => {
            Request::Register { resource, rank, token, data: data.into(), life }
        }
        Ask::Withdraw { resource, rank, token } => Request::Withdraw { resource, rank, token },
        Ask::Wait { resource, of, limit, token } => {
            Request::Wait { resource, of, until: Some(desk.now().saturating_add(limit)), token }
        }
        Ask::Properties(resource) => Request::Properties(resource),
        Ask::Registrant { resource, rank } => Request::Registrant { resource, rank },
        Ask::Control { resource, unit, name, token, life } => {
            Request::Control { resource, unit, name, token, life }
        }
        Ask::Release { resource, unit, token, lost } => Request::Release { resource, unit, token, lost },
        Ask::Destroy(resource) => Request::Destroy(resource),
        Ask::EndJob(job) => Request::EndJob(job),
    })
}

/// State of a request, for its cancellation.
enum Waiting {
    /// The request is about to be submitted.
    Begins,
    /// The request is submitted.
    Asked(Asked),
    /// The request is cancelled.
    Over,
}

fn keep(waiting: &Mutex<Waiting>, asked: Asked) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    if let Waiting::Begins = *waiting {
        *waiting = Waiting::Asked(asked);
    }
}

fn cancel(waiting: &Mutex<Waiting>) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    if let Waiting::Asked(asked) = std::mem::replace(&mut *waiting, Waiting::Over) {
        // Dropping it cancels the request.
        drop(asked);
    }
}

fn answer(token: Deferred, outcome: Result<Answer, Fault>) {
    let (header, shared) = encode_answer(&outcome);
    token.reply(Reply { header, shared, ..Reply::default() });
}
