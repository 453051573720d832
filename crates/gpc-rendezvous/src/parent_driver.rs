//! The service as controlling task: registers a unit's data with its parent resource. It does so over HTTP, or through
//! the service's own desk if the parent belongs to the same service.
//!
//! While a unit fills, the controlling task renews its lease at the parent. If this service is lost, the lease expires
//! and the tasks that wait at the parent get a fault. If the parent's service is unreachable or full, the request is
//! retried until the unit's resource ends. Any other fault from the parent is final, and the controlling task reports
//! to the parent that the unit will not register.
//!
//! Source: WS Rendezvous, "Flow of control": the controlling task of a unit registers the unit's data above.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle as Runtime;
use tokio::sync::{OnceCell, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::checking::checked;
use crate::client::{ClientError, ClientOptions, Requester, ServiceUrl, Trusted, after};
use crate::machine::{
    Answer, Completion, Fault, FaultKind, Handle, Life, Limits, ParentAction, ParentOutcome, RankChoice,
    Request, ResourceId, Scope, Token, Unit, below,
};
use crate::service_thread::Desk;

/// Lease at the parent: after this time without a renewal the parent gives this service up. Three lost renewals in a
/// row take less: each is due after 10 s and fails within 7 s.
const LEASE: Duration = Duration::from_secs(60);

/// Interval between lease renewals.
const RENEW: Duration = Duration::from_secs(10);

/// First and longest pause before this service, if it was full, is asked again.
const AGAIN_FIRST: Duration = Duration::from_millis(10);
const AGAIN_MOST: Duration = Duration::from_secs(1);

/// Most requests in progress from this module to its own service, beside waits. The service takes as many from its
/// queue in one turn, so the queue always has room for other callers.
const OWN_PERMITS: usize = 4096;

/// Limit of ended units whose end is still to be reported, per resource that the service may hold. All resources may
/// end at one moment, and so may all that are created while these ends are reported.
const STOPS_EACH: usize = 4;

/// Time limit of requests for a unit. They run as long as the unit's resource, which aborts their task when it ends.
const ALWAYS: Duration = Duration::MAX;

type Outcome = Result<Completion, Fault>;

/// The work for units at their parent resources. Dropping it stops this work.
pub struct ParentDriver {
    shared: Arc<Shared>,
    desk: watch::Sender<Option<Desk>>,
}

/// Returns a driver for the service's [`ParentAction`] outputs, for
/// [`ServiceThread::start`](crate::ServiceThread::start) with the same limits. The work runs on the runtime and starts
/// at [`ParentDriver::begin`].
///
/// `own` is the service's own URL, as it stands in its handles. Services of parent resources are asked with `options`,
/// with two exceptions. The token goes only to services that are on this host, reached over https, or listed in
/// `above`. Data for which this service has no room are rejected.
///
/// # Errors
/// Returns an error if the options name a file of certificates that cannot be used.
pub fn new(
    runtime: Runtime,
    own: &str,
    limits: &Limits,
    options: &ClientOptions,
    above: &[ServiceUrl],
) -> Result<(impl FnMut(ResourceId, ParentAction) + Send + use<>, ParentDriver), ClientError> {
    let (desk, begun) = watch::channel(None);
    let options = ClientOptions { data_max: options.data_max.min(limits.held), ..options.clone() };
    let stops = limits.resources.saturating_mul(STOPS_EACH).min(Semaphore::MAX_PERMITS);
    let shared = Arc::new(Shared {
        runtime,
        own: own.to_owned(),
        requester: Requester::for_others(&options, Trusted::new(own, above))?,
        desk: begun,
        units: Mutex::default(),
        waits: Mutex::default(),
        own_permits: Semaphore::new(OWN_PERMITS),
        own_stops: Arc::new(Semaphore::new(stops)),
        stops: Arc::new(Semaphore::new(stops)),
    });
    let driver = Arc::clone(&shared);
    Ok((move |id, action| driver.begin(id, action), ParentDriver { shared, desk }))
}

impl ParentDriver {
    /// Starts the work, and reports its progress to this desk.
    pub fn begin(&self, desk: &Desk) {
        self.desk.send_replace(Some(desk.clone()));
    }
}

impl Drop for ParentDriver {
    fn drop(&mut self) {
        for (_, unit) in locked(&self.shared.units).drain() {
            unit.task.abort();
        }
    }
}

impl fmt::Debug for ParentDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upward")
    }
}

struct Shared {
    runtime: Runtime,
    own: String,
    requester: Requester,
    desk: watch::Receiver<Option<Desk>>,
    /// Work in progress: one task for each resource with a parent, so at most as many as the service has resources.
    units: Mutex<HashMap<ResourceId, Work>>,
    /// Waits at parent resources, shared by all units of the same parent. The first unit sends the request; if that
    /// unit ends, another continues.
    waits: Mutex<HashMap<Handle, Weak<OnceCell<Outcome>>>>,
    own_permits: Semaphore,
    /// Slots for ends that are reported to this service itself. They are separate from `stops`, because no lease at
    /// this service expires in their place.
    own_stops: Arc<Semaphore>,
    /// Slots for ends that are reported to other services.
    stops: Arc<Semaphore>,
}

/// Work in progress for a unit.
struct Work {
    task: AbortHandle,
    /// Whether the unit's data are registered at the parent.
    registered: Arc<AtomicBool>,
}

/// A unit's place at the parent resource.
struct Place {
    handle: Handle,
    rank: RankChoice,
    token: Token,
    /// Level of the unit.
    level: u16,
}

impl Shared {
    /// Carries out an output of the service. Called on the service thread.
    fn begin(self: &Arc<Shared>, id: ResourceId, up: ParentAction) {
        let shared = Arc::clone(self);
        match up {
            ParentAction::Control { handle, rank, token, level } => {
                let place = Place { handle, rank, token, level };
                self.work(id, Arc::default(), async move { shared.control(id, place).await });
            }
            ParentAction::Register { handle, rank, token, level, data } => {
                let (place, registered) =
                    (Place { handle, rank, token, level }, Arc::<AtomicBool>::default());
                let seen = Arc::clone(&registered);
                self.work(id, registered, async move { shared.register(id, place, data, &seen).await });
            }
            ParentAction::Stop { handle, rank, token, why } => {
                let work = locked(&self.units).remove(&id);
                if let Some(work) = &work {
                    work.task.abort();
                }
                let registered = work.is_some_and(|work| work.registered.load(Ordering::Acquire));
                let RankChoice::Rank(rank) = rank else { return };
                if !registered {
                    self.stop(id, handle, rank, token, why);
                }
            }
        }
    }

    /// Reports to the parent that a unit has ended.
    fn stop(self: &Arc<Shared>, id: ResourceId, handle: Handle, rank: u64, token: Token, why: String) {
        let places = if handle.service() == self.own { &self.own_stops } else { &self.stops };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            tracing::warn!(service = %handle.service(), "too many units have ended: one end more is not told above");
            return;
        };
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            shared.release(id, &handle, rank, token, why).await;
            drop(place);
        });
    }

    /// Starts a task for a unit and aborts its previous task.
    fn work(
        &self,
        id: ResourceId,
        registered: Arc<AtomicBool>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.runtime.spawn(task).abort_handle();
        if let Some(before) = locked(&self.units).insert(id, Work { task, registered }) {
            before.task.abort();
        }
    }

    /// Checks that a unit of this level fits the parent resource. Another service may own the parent, and it would
    /// accept any bytes at level 1.
    async fn fits(&self, handle: &Handle, level: u16) -> Result<(), Fault> {
        let above = match self.own_desk(handle).await {
            Some(desk) => match self.ask_own(&desk, Request::Properties(handle.resource())).await? {
                Answer::Properties(above) => above.level,
                _ => return Ok(()),
            },
            None => self.requester.properties(handle, after(ALWAYS)).await.map_err(above_failed)?.level,
        };
        below(above, Some(level.into()))
    }

    /// Registers as controlling task and renews the lease while the unit fills.
    async fn control(&self, id: ResourceId, place: Place) {
        let Place { handle, rank, token, level } = place;
        if let Err(fault) = self.fits(&handle, level).await {
            return self.give_up(id, &handle, rank, token, fault).await;
        }
        // A unit without a fixed rank has no controlling task at the parent.
        let RankChoice::Rank(rank) = rank else { return };
        let Ok(unit) = u32::try_from(rank).map(Unit::Rank) else {
            let message = format!("there is no rank {rank} above: ranks are below the capacity there");
            return self
                .report_outcome(id, Err(Fault::new(FaultKind::RankOutOfRange, message).of_rank(rank)))
                .await;
        };
        // Ends: the task is aborted when the unit is complete or ends.
        loop {
            let controlled = match self.own_desk(&handle).await {
                Some(desk) => {
                    let request = self.word(id, handle.resource(), unit, &token);
                    self.ask_own(&desk, request).await.map(drop)
                }
                None => {
                    let lease = Some(LEASE.as_millis() as u64);
                    let name = self.name(id);
                    let asked = self.requester.control(&handle, unit, &name, &token, lease, after(ALWAYS));
                    asked.await.map_err(above_failed)
                }
            };
            if let Err(fault) = controlled {
                return self.give_up(id, &handle, RankChoice::Rank(rank), token, fault).await;
            }
            sleep(RENEW).await;
        }
    }

    /// Name of this service as the controlling task of a unit.
    fn name(&self, id: ResourceId) -> String {
        format!("service {}, resource {}", self.own, id.short())
    }

    /// The control request to this service itself. It has no lease: parent and unit live in the same service, and so
    /// are lost together.
    fn word(&self, id: ResourceId, resource: ResourceId, unit: Unit, token: &Token) -> Request {
        Request::Control { resource, unit, name: self.name(id), token: token.clone(), life: Life::Unseen }
    }

    /// Registers the unit's data, then waits for the top.
    async fn register(&self, id: ResourceId, place: Place, data: Bytes, registered: &AtomicBool) {
        let Place { handle, rank, token, level } = place;
        if let Err(fault) = self.fits(&handle, level).await {
            return self.give_up(id, &handle, rank, token, fault).await;
        }
        let done = match self.own_desk(&handle).await {
            Some(desk) => {
                let (resource, life, token) = (handle.resource(), Life::Unseen, token.clone());
                let data = checked(level.saturating_add(1), data).await;
                let request = Request::Register { resource, rank, token, data, life };
                self.ask_own(&desk, request).await.map(drop)
            }
            None => {
                let asked = self.requester.register(&handle, rank, &token, data, None, after(ALWAYS));
                asked.await.map(drop).map_err(above_failed)
            }
        };
        if let Err(fault) = done {
            return self.give_up(id, &handle, rank, token, fault).await;
        }
        registered.store(true, Ordering::Release);
        let shared = SharedWait::of(self, &handle);
        let outcome = shared.cell.get_or_init(|| self.wait(&handle)).await.clone();
        self.report_outcome(id, outcome).await;
    }

    async fn wait(&self, handle: &Handle) -> Outcome {
        if let Some(desk) = self.own_desk(handle).await {
            let (resource, of) = (handle.resource(), Scope::Top);
            let request = Request::Wait { resource, of, until: None, token: None };
            return match ask(&desk, request, None).await? {
                Answer::Completed(completion) => Ok(completion),
                _ => Err(Fault::new(FaultKind::AboveFailed, "the rendezvous above has no outcome")),
            };
        }
        // Ends: the task is aborted when the unit's resource ends.
        loop {
            if let Some(completion) =
                self.requester.wait(handle, Scope::Top, None, after(ALWAYS)).await.map_err(above_failed)?
            {
                return Ok(completion);
            }
        }
    }

    /// Fails the unit with this fault and reports the failure to the parent, where tasks would otherwise wait until the
    /// resource's lifetime has passed.
    async fn give_up(&self, id: ResourceId, handle: &Handle, rank: RankChoice, token: Token, fault: Fault) {
        let why = fault.message.clone();
        self.report_outcome(id, Err(fault)).await;
        if let RankChoice::Rank(rank) = rank {
            self.release(id, handle, rank, token, why).await;
        }
    }

    /// Reports to the parent that the unit's data will not arrive. The parent may not know the controlling task yet, so
    /// the report registers it first. If the unit's data are already registered, the report has no effect.
    async fn release(&self, id: ResourceId, handle: &Handle, rank: u64, token: Token, why: String) {
        let Ok(unit) = u32::try_from(rank).map(Unit::Rank) else { return };
        let released = match self.own_desk(handle).await {
            Some(desk) => {
                let (resource, lost) = (handle.resource(), Some(why));
                let _ = self.ask_own(&desk, self.word(id, resource, unit, &token)).await;
                let request = Request::Release { resource, unit, token, lost };
                self.ask_own(&desk, request).await.map(drop)
            }
            // Stop after one lease: by then its expiry has informed the parent.
            None => {
                let (lease, until) = (Some(LEASE.as_millis() as u64), after(LEASE));
                let _ = self.requester.control(handle, unit, &self.name(id), &token, lease, until).await;
                let asked = self.requester.release(handle, unit, &token, Some(&why), until);
                asked.await.map_err(above_failed)
            }
        };
        if let Err(fault) = released {
            // The usual cause: the parent resource ended first.
            tracing::debug!(%fault, "the rendezvous above was not told of the end of a unit");
        }
    }

    /// The desk of this service, if the parent resource is its own.
    async fn own_desk(&self, handle: &Handle) -> Option<Desk> {
        if handle.service() != self.own {
            return None;
        }
        self.begun().await
    }

    /// Asks this service a request that it answers immediately.
    async fn ask_own(&self, desk: &Desk, request: Request) -> Result<Answer, Fault> {
        ask(desk, request, Some(&self.own_permits)).await
    }

    /// The desk of this service, as soon as there is one.
    async fn begun(&self) -> Option<Desk> {
        let mut desk = self.desk.clone();
        desk.wait_for(Option::is_some).await.ok()?.clone()
    }

    async fn report_outcome(&self, id: ResourceId, outcome: Outcome) {
        let Some(desk) = self.begun().await else { return };
        desk.report_outcome(id, outcome.map_or_else(ParentOutcome::Failed, ParentOutcome::Completed));
    }
}

/// One unit's share of a wait at the parent.
struct SharedWait<'a> {
    shared: &'a Shared,
    handle: Handle,
    cell: Arc<OnceCell<Outcome>>,
}

impl<'a> SharedWait<'a> {
    fn of(shared: &'a Shared, handle: &Handle) -> SharedWait<'a> {
        let mut waits = locked(&shared.waits);
        let there = waits.get(handle).and_then(Weak::upgrade);
        let cell = there.unwrap_or_default();
        waits.insert(handle.clone(), Arc::downgrade(&cell));
        SharedWait { shared, handle: handle.clone(), cell }
    }
}

impl Drop for SharedWait<'_> {
    fn drop(&mut self) {
        // The lock prevents other units from taking a share meanwhile.
        let mut waits = locked(&self.shared.waits);
        drop(std::mem::take(&mut self.cell));
        if waits.get(&self.handle).is_some_and(|cell| cell.strong_count() == 0) {
            waits.remove(&self.handle);
        }
    }
}

/// Asks this service, and retries while it is full, until other resources end. The permit is released between two
/// attempts.
async fn ask(desk: &Desk, request: Request, permits: Option<&Semaphore>) -> Result<Answer, Fault> {
    let mut again = AGAIN_FIRST;
    // Ends: with an answer, or when the service ends. The resource in question has a lifetime.
    loop {
        let permit = match permits {
            Some(permits) => permits.acquire().await.ok(),
            None => None,
        };
        let answer = ask_once(desk, request.clone()).await;
        drop(permit);
        match answer {
            Err(fault) if fault.kind == FaultKind::ServiceFull => {}
            // The store cannot be written at the moment.
            Err(fault) if fault.kind == FaultKind::Unavailable && !desk.has_ended() => {}
            answer => return answer,
        }
        sleep(again).await;
        again = (again * 2).min(AGAIN_MOST);
    }
}

async fn ask_once(desk: &Desk, request: Request) -> Result<Answer, Fault> {
    let (sender, answer) = oneshot::channel();
    let pending = desk.ask(request, move |answer| drop(sender.send(answer)));
    let answer = answer.await;
    drop(pending);
    answer.unwrap_or_else(|_| Err(Fault::new(FaultKind::Unavailable, "the service has ended")))
}

/// Converts a client error: a fault of the parent's service passes unchanged.
fn above_failed(error: ClientError) -> Fault {
    match error {
        ClientError::Fault(fault) => fault,
        error => Fault::new(FaultKind::AboveFailed, format!("the rendezvous above: {error}")),
    }
}

/// Locks a mutex. Code under these locks cannot panic, so a poisoned lock is still consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
