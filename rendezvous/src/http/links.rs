//! The connections of a server: how many there are, which of them are idle, and which one is closed when a new one finds no place.

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

/// All connections.
#[derive(Debug)]
pub(super) struct Links {
    places: Arc<Semaphore>,
    times: Times,
    answers: Arc<Answers>,
    free: Mutex<Free>,
}

/// Those that serve no request, in the order in which they have become so.
#[derive(Default, Debug)]
struct Free {
    next: u64,
    links: BTreeMap<u64, Arc<Notify>>,
}

/// One connection. It has a place until it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    links: Arc<Links>,
    close: Arc<Notify>,
    state: Mutex<State>,
    unread: AtomicBool,
    _place: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A request is served.
    Busy,
    /// None is. The number finds it among those that are free; `head` says whether a part of a request's head has come.
    Free { number: u64, head: bool, until: Instant },
}

/// A request that is served; dropped when its answer is given.
#[derive(Debug)]
pub(super) struct Busy(Arc<Link>);

impl Links {
    pub(super) fn new(most: usize, times: Times, answers: Arc<Answers>) -> Arc<Links> {
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Links { places, times, answers, free: Mutex::default() })
    }

    /// A place for a new connection, that of the one that has been idle for longest if there is no other; `None` if all are busy.
    pub(super) async fn place(self: &Arc<Links>) -> Option<Arc<Link>> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                if !self.close_one() {
                    return None;
                }
                timeout(PLACE_LIMIT, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?
            }
        };
        let close = Arc::new(Notify::new());
        let until = Instant::now() + self.times.head;
        let number = locked(&self.free).add(&close);
        let state = Mutex::new(State::Free { number, head: true, until });
        Some(Arc::new(Link {
            links: Arc::clone(self),
            close,
            state,
            unread: AtomicBool::new(false),
            _place: place,
        }))
    }

    /// Has the one close that has been idle for longest.
    pub(super) fn close_one(&self) -> bool {
        let oldest = locked(&self.free).links.pop_first();
        oldest.inspect(|(_, close)| close.notify_one()).is_some()
    }
}

impl Free {
    fn add(&mut self, close: &Arc<Notify>) -> u64 {
        self.next += 1;
        self.links.insert(self.next, Arc::clone(close));
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
        if let State::Free { number, .. } = state {
            locked(&self.links.free).links.remove(&number);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let state = *locked(&self.state);
        self.forget(state);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let link = &self.0;
        let until = Instant::now() + link.links.times.idle;
        let number = locked(&link.links.free).add(&link.close);
        *locked(&link.state) = State::Free { number, head: false, until };
    }
}

/// Nothing that is done under these locks can panic.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
