//! The connections of a server: how many there are, which of them are idle, and which one is closed when a new one finds no place.
//!
//! A connection is a *stranger*'s until a request on it was let in, with the right token where the service has one. A stranger's is closed to make room also while its request is served: otherwise whoever has no token could take all places with requests that never end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::answers::Answers;
use super::options::Times;

/// How long a new connection waits for the place of one that was told to close. That one is idle, so it takes no longer than its task needs to run.
const PLACE_LIMIT: Duration = Duration::from_millis(100);

/// So many strangers' connections are never many: each that has just come is one.
const STRANGERS_MIN: usize = 16;

/// All connections.
#[derive(Debug)]
pub(super) struct Links {
    places: Arc<Semaphore>,
    /// How many may be strangers' before these are closed first.
    strangers_max: usize,
    times: Times,
    answers: Arc<Answers>,
    free: Mutex<Free>,
}

/// Those that may be closed.
#[derive(Default, Debug)]
struct Free {
    next: u64,
    /// Those that serve no request, in the order in which they have become so.
    idle: BTreeMap<u64, Arc<Notify>>,
    /// Strangers', in the order in which they came.
    strangers: BTreeMap<u64, Arc<Notify>>,
}

/// One connection. It has a place until it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    links: Arc<Links>,
    close: Arc<Notify>,
    state: Mutex<State>,
    /// Its number among the strangers'.
    stranger: Mutex<Option<u64>>,
    unread: AtomicBool,
    _place: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A request is served.
    Busy,
    /// None is. The number finds it among those that are idle, unless it is a stranger's; `head` says whether a part of a request's head has come.
    Free { number: Option<u64>, head: bool, until: Instant },
}

/// A request that is served; dropped when its answer is given.
#[derive(Debug)]
pub(super) struct Busy(Arc<Link>);

impl Links {
    pub(super) fn new(most: usize, times: Times, answers: Arc<Answers>) -> Arc<Links> {
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        // Far more than there are in the moment in which all tasks come, and leaves the others their places.
        let strangers_max = (most / 4).max(STRANGERS_MIN);
        Arc::new(Links { places, strangers_max, times, answers, free: Mutex::default() })
    }

    /// A place for a new connection, if one is free.
    pub(super) fn place(self: &Arc<Links>) -> Option<Arc<Link>> {
        Some(self.link(Arc::clone(&self.places).try_acquire_owned().ok()?))
    }

    /// The place of another connection, which closes; `None` if all are busy.
    pub(super) async fn place_of_another(self: &Arc<Links>) -> Option<Arc<Link>> {
        if !self.close_one() {
            return None;
        }
        let place = timeout(PLACE_LIMIT, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?;
        Some(self.link(place))
    }

    fn link(self: &Arc<Links>, place: OwnedSemaphorePermit) -> Arc<Link> {
        let close = Arc::new(Notify::new());
        let until = Instant::now() + self.times.head;
        let stranger = Mutex::new(Some(locked(&self.free).add(&close, true)));
        let state = Mutex::new(State::Free { number: None, head: true, until });
        Arc::new(Link {
            links: Arc::clone(self),
            close,
            state,
            stranger,
            unread: AtomicBool::new(false),
            _place: place,
        })
    }

    /// Has one close: the one that has been idle for longest, or the oldest stranger's where there are many of them, or where none is idle.
    pub(super) fn close_one(&self) -> bool {
        let mut free = locked(&self.free);
        let many = free.strangers.len() > self.strangers_max;
        let stranger = if many { free.strangers.pop_first() } else { None };
        let closed = stranger.or_else(|| free.idle.pop_first()).or_else(|| free.strangers.pop_first());
        closed.inspect(|(_, close)| close.notify_one()).is_some()
    }
}

impl Free {
    fn add(&mut self, close: &Arc<Notify>, stranger: bool) -> u64 {
        self.next += 1;
        let links = if stranger { &mut self.strangers } else { &mut self.idle };
        links.insert(self.next, Arc::clone(close));
        self.next
    }
}

impl Link {
    /// A request's head is there.
    pub(super) fn begin(self: &Arc<Link>) -> Busy {
        let before = std::mem::replace(&mut *locked(&self.state), State::Busy);
        self.forget(before);
        Busy(Arc::clone(self))
    }

    /// A request was let in: this is no stranger's any longer.
    pub(super) fn prove(&self) {
        if let Some(number) = locked(&self.stranger).take() {
            locked(&self.links.free).strangers.remove(&number);
        }
    }

    /// Whether it may be closed now to make room.
    pub(super) fn may_close(&self) -> bool {
        self.is_strangers() || matches!(*locked(&self.state), State::Free { .. })
    }

    fn is_strangers(&self) -> bool {
        locked(&self.stranger).is_some()
    }

    /// Bytes have come.
    pub(super) fn came(&self) {
        if let State::Free { head, until, .. } = &mut *locked(&self.state)
            && !*head
        {
            (*head, *until) = (true, Instant::now() + self.links.times.head);
        }
    }

    /// Until when something must have come; `None` while a request is served.
    pub(super) fn until(&self) -> Option<Instant> {
        match *locked(&self.state) {
            State::Busy => None,
            State::Free { until, .. } => Some(until),
        }
    }

    /// Returns when the connection is to close, to make room for another one.
    pub(super) async fn closing(&self) {
        self.close.notified().await;
    }

    pub(super) fn times(&self) -> Times {
        self.links.times
    }

    /// How slowly an answer may be taken now, bytes a second.
    pub(super) fn rate(&self) -> u64 {
        self.links.answers.rate()
    }

    /// A request was answered before all of its body had come: nothing else comes on this connection.
    pub(super) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    fn forget(&self, state: State) {
        if let State::Free { number: Some(number), .. } = state {
            locked(&self.links.free).idle.remove(&number);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let state = *locked(&self.state);
        self.forget(state);
        self.prove();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let link = &self.0;
        let until = Instant::now() + link.links.times.idle;
        let number = (!link.is_strangers()).then(|| locked(&link.links.free).add(&link.close, false));
        *locked(&link.state) = State::Free { number, head: false, until };
    }
}

/// Nothing that is done under these locks can panic.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
