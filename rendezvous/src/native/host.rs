//! A rendezvous service on a node: its functions, and the links by which its registrants are seen to live.

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

/// A service on a node. Dropping it ends the service, if it is its own: those who wait are told.
#[derive(Debug)]
pub struct Host {
    desk: Desk,
    /// The service, where it is this host's own.
    keeper: Option<Keeper>,
    hearing: Hearing,
    gone: Arc<AtomicBool>,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Its functions are registered already, or others under their names.
    #[error("a function of the rendezvous service: {0}; a node has one service")]
    Functions(#[from] FunctionsError),
    /// The system fails.
    #[error("the rendezvous service cannot start: {0}")]
    System(#[from] io::Error),
    /// The node tells nothing of its links.
    #[error("the rendezvous service does not hear of links: {0}")]
    Membership(#[from] MembershipError),
}

impl Host {
    /// Starts a service that these functions ask. It forgets everything with its process, and controls no unit: a resource with a parent is refused.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn register(functions: &Functions, limits: Limits) -> Result<Host, HostError> {
        let keeper = Keeper::start(limits, None, |_, _| {})?;
        let desk = keeper.desk().clone();
        let hearing = register(functions, &desk, false)?;
        Ok(Host { desk, keeper: Some(keeper), hearing, gone: Arc::default() })
    }

    /// Lets these functions ask a service that there is, which may be reached in other ways, too, and keeps what it is told; it controls units as it does for those others.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn on_desk(functions: &Functions, desk: Desk) -> Result<Host, HostError> {
        let hearing = register(functions, &desk, true)?;
        Ok(Host { desk, keeper: None, hearing, gone: Arc::default() })
    }

    /// Hears of this node's links from now on: a link that is lost withdraws its id's registrants and ends its controlling tasks. One that was closed in order, since descriptors were short, does not: its node is asked now and then, and is lost when it is not reached three times. Call it before others know where the service is.
    ///
    /// # Errors
    /// When the node has ended, or the system has no thread.
    pub fn attach(&self, node: &Node) -> Result<(), HostError> {
        let (caller, hearing, desk) = (node.caller(), self.hearing.clone(), self.desk.clone());
        let (wakes, gone) = (hearing.listen(&caller)?, self.gone.clone());
        let hear = move || hearing.run(&caller, &desk, wakes, || gone.load(Ordering::Relaxed));
        thread::Builder::new().name("rendezvous-links".into()).spawn(hear)?;
        Ok(())
    }

    /// Where the service is asked from its own process.
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

/// Registers a function for each operation. None of them takes time: they run on the node's own thread, and so in the order in which their requests come and their links are lost.
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

/// What a function has.
struct Counter {
    desk: Desk,
    hearing: Hearing,
    /// Whether the service controls units.
    controls: bool,
}

/// Answers a request, or has the service answer it later.
fn serve(to: &Counter, operation: Operation, request: &Call<'_>, token: Deferred) {
    let desk = &to.desk;
    let from = request.root();
    // Who asks through another one would be whom that one names.
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
            // The token is gone with `then`, which says that there is no answer.
            Err(error) => return tracing::error!(%error, "the rendezvous service cannot draw a resource"),
        },
        Ok(request) => desk.ask(request, then),
    };
    keep(&waiting, asked);
}

/// Whether who asks is to live as long as its link.
fn lives_by_link(ask: &Ask) -> bool {
    matches!(ask, Ask::Register { life: Life::Member(_), .. } | Ask::Control { life: Life::Member(_), .. })
}

/// What the service is asked; of a resource that is to be drawn first, what it is to be.
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

/// Whether the request of a call may be taken back.
enum Waiting {
    /// The service is being asked.
    Begins,
    /// It has been.
    Asked(Asked),
    /// Nobody waits any more.
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
        // It takes the request back.
        drop(asked);
    }
}

fn answer(token: Deferred, outcome: Result<Answer, Fault>) {
    let (header, shared) = encode_answer(&outcome);
    token.reply(Reply { header, shared, ..Reply::default() });
}
