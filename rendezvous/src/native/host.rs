//! A rendezvous service on a node: its functions, and the links by which its registrants are seen to live.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use chained_gpc::runtime::NoEvent;
use chained_gpc::{
    Access, Deferred, Functions, FunctionsError, MembershipError, Node, Placement, Reply, Request as Call,
};

use super::codec::{Ask, Operation, encode_answer};
use super::linked::Linked;
use crate::keeper::{Asked, Desk, Keeper};
use crate::machine::{Answer, Fault, FaultKind, Limits, Request, Spec};

/// How often the thread that hears of links looks whether the service is still there.
const LOOK: Duration = Duration::from_secs(1);

/// A service on a node. Dropping it ends the service, if it is its own: those who wait are told.
#[derive(Debug)]
pub struct Host {
    desk: Desk,
    /// The service, where it is this host's own.
    keeper: Option<Keeper>,
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
        register(functions, &desk, false)?;
        Ok(Host { desk, keeper: Some(keeper), gone: Arc::default() })
    }

    /// Lets these functions ask a service that there is, which may be reached in other ways, too, and keeps what it is told; it controls units as it does for those others.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn on_desk(functions: &Functions, desk: Desk) -> Result<Host, HostError> {
        register(functions, &desk, true)?;
        Ok(Host { desk, keeper: None, gone: Arc::default() })
    }

    /// Hears of this node's links from now on: a link that is lost withdraws its id's registrants and ends its controlling tasks. Call it before others know where the service is.
    ///
    /// # Errors
    /// When the node has ended, or the system has no thread.
    pub fn attach(&self, node: &Node) -> Result<(), HostError> {
        let (events, desk, gone) = (node.events()?, self.desk.clone(), self.gone.clone());
        let hear = move || {
            let (mut linked, mut missed) = (Linked::default(), 0);
            // Ends: with the node or the service.
            while !gone.load(Ordering::Relaxed) {
                match events.recv_within(LOOK) {
                    Ok(event) => {
                        if let Some((id, why)) = linked.heed(event) {
                            desk.lost(id, why);
                        }
                    }
                    Err(NoEvent::Yet) => {}
                    Err(NoEvent::Ended) => break,
                }
                if events.missed() > missed {
                    missed = events.missed();
                    tracing::warn!(
                        missed,
                        "the rendezvous service has missed events of links: registrants that were lost then stay until their resources end"
                    );
                }
            }
        };
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
fn register(functions: &Functions, desk: &Desk, controls: bool) -> Result<(), FunctionsError> {
    let functions = functions.at(Placement::Inline).access(Access::Proved);
    for operation in Operation::ALL.iter().copied() {
        let desk = desk.clone();
        let function =
            move |request: &Call<'_>, token: Deferred| serve(&desk, controls, operation, request, token);
        functions.deferring(operation.function(), function)?;
    }
    Ok(())
}

/// Answers a request, or has the service answer it later.
fn serve(desk: &Desk, controls: bool, operation: Operation, request: &Call<'_>, token: Deferred) {
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
    let waiting = Arc::new(Mutex::new(Waiting::Begins));
    let ends = waiting.clone();
    token.on_cancel(move || cancel(&ends));
    let then = move |outcome| answer(token, outcome);
    let asked = match plain(ask, desk) {
        Err(spec) if spec.parent.is_some() && !controls => {
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
