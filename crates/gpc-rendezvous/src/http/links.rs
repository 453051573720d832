//! Connections of a server: their number, which are idle, and which is closed to make room for a new one.
//!
//! A connection is a *stranger's* until one of its requests is admitted, with the right token if the service has one.
//! To make room, a stranger's connection is closed even while its request is served. Otherwise clients without the
//! token could occupy all slots with requests that never end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::head::Head;
use super::options::Times;
use super::response_budget::ResponseBudget;

/// Time that a new connection waits for the slot of another that closes. The other is idle, so closing takes only a
/// turn of its task.
const PLACE_LIMIT: Duration = Duration::from_millis(100);

/// Up to this number strangers' connections do not count as many, because every new connection is one.
const STRANGERS_MIN: usize = 16;

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Links {
    places: Arc<Semaphore>,
    /// Number of strangers' connections above which these are closed first.
    strangers_max: usize,
    times: Times,
    response_budget: Arc<ResponseBudget>,
    free: Mutex<Free>,
}

/// Connections that may be closed.
#[derive(Default, Debug)]
struct Free {
    next: u64,
    /// Connections without a request, in the order in which they became idle.
    idle: BTreeMap<u64, Arc<Notify>>,
    /// Strangers' connections, in the order of their arrival.
    strangers: BTreeMap<u64, Arc<Notify>>,
}

/// One connection. It occupies a slot until it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    links: Arc<Links>,
    close: Arc<Notify>,
    state: Mutex<State>,
    /// Its key among the strangers' connections.
    stranger: Mutex<Option<u64>>,
    /// Head of the request that is served, or that is to arrive next.
    head: Mutex<Head>,
    unread: AtomicBool,
    _place: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A request is served.
    Busy,
    /// The connection is idle. `number` is its key among the idle connections, unless it is a stranger's; `head` says
    /// whether a part of a request's head has arrived.
    Free { number: Option<u64>, head: bool, until: Instant },
}

/// A request in progress; dropped when its response is complete.
#[derive(Debug)]
pub(super) struct Busy(Arc<Link>);

impl Links {
    pub(super) fn new(most: usize, times: Times, response_budget: Arc<ResponseBudget>) -> Arc<Links> {
        let places = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        // Far more than there are when all tasks connect at once, and it leaves most slots to the others.
        let strangers_max = (most / 4).max(STRANGERS_MIN);
        Arc::new(Links { places, strangers_max, times, response_budget, free: Mutex::default() })
    }

    /// A slot for a new connection, if one is free.
    pub(super) fn place(self: &Arc<Links>) -> Option<Arc<Link>> {
        Some(self.link(Arc::clone(&self.places).try_acquire_owned().ok()?))
    }

    /// Closes another connection and returns its slot; `None` if all are busy.
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
            head: Mutex::default(),
            unread: AtomicBool::new(false),
            _place: place,
        })
    }

    /// Closes one connection: the oldest stranger's if there are many, else the longest idle, else the oldest
    /// stranger's. Returns whether one was found.
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
    /// The head of a request has arrived: the connection is busy.
    pub(super) fn begin(self: &Arc<Link>) -> Busy {
        let before = std::mem::replace(&mut *locked(&self.state), State::Busy);
        self.forget(before);
        Busy(Arc::clone(self))
    }

    /// A request was admitted: the connection is no longer a stranger's.
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

    /// Bytes have arrived.
    pub(super) fn came(&self, bytes: &[u8]) {
        let State::Free { head, until, .. } = &mut *locked(&self.state) else { return };
        locked(&self.head).take(bytes);
        if !*head {
            (*head, *until) = (true, Instant::now() + self.links.times.head);
        }
    }

    /// The head of the request that is served.
    pub(super) fn head(&self) -> Head {
        *locked(&self.head)
    }

    /// The time by which bytes must arrive; `None` while a request is served.
    pub(super) fn until(&self) -> Option<Instant> {
        match *locked(&self.state) {
            State::Busy => None,
            State::Free { until, .. } => Some(until),
        }
    }

    /// Returns when the connection is to close to make room.
    pub(super) async fn closing(&self) {
        self.close.notified().await;
    }

    pub(super) fn times(&self) -> Times {
        self.links.times
    }

    /// Lowest rate at which a client must take an answer now, bytes a second.
    pub(super) fn rate(&self) -> u64 {
        self.links.response_budget.rate()
    }

    /// A request was answered before its whole body arrived: the connection cannot be reused.
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
        *locked(&link.head) = Head::default();
        let number = (!link.is_strangers()).then(|| locked(&link.links.free).add(&link.close, false));
        *locked(&link.state) = State::Free { number, head: false, until };
    }
}

/// Locks a mutex. Code under these locks cannot panic, so a poisoned lock is still consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn links(most: usize) -> Arc<Links> {
        let times =
            Times { head: Duration::from_secs(10), idle: Duration::from_secs(60), ..Times::default() };
        Links::new(most, times, ResponseBudget::new(1))
    }

    /// Whether the connection is to close.
    fn closes(link: &Link) -> bool {
        pin!(link.closing()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn left(link: &Link) -> Option<u64> {
        link.until().map(|until| (until - Instant::now()).as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_for_a_head_and_more_between_requests() {
        let links = links(9);
        let link = links.place().unwrap();
        assert_eq!(left(&link), Some(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        // The bytes of a head buy no time.
        link.came(b"GET / HT");
        assert_eq!(left(&link), Some(1));
        let busy = link.begin();
        assert_eq!((left(&link), link.may_close()), (None, true));
        link.prove();
        assert!(!link.may_close());
        let before = link.head();
        link.came(b"\r\nContent-Length: 1\r\n\r\n");
        assert_eq!(link.head(), before, "bytes behind the present request are not read");
        drop(busy);
        assert_eq!((left(&link), link.may_close()), (Some(60), true));
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(left(&link), Some(10));
        link.came(b"P");
        tokio::time::advance(Duration::from_secs(4)).await;
        link.came(b"OST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n");
        assert_eq!(left(&link), Some(6));
        assert!(link.head().has_length);
        drop(link.begin());
        assert_eq!(link.head(), Head::default());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_make_room_and_strangers_if_they_are_many() {
        let links = links(1000);
        let tasks: Vec<_> = (0..3).map(|_| links.place().unwrap()).collect();
        tasks.iter().for_each(|task| {
            task.prove();
            drop(task.begin());
        });
        let strangers: Vec<_> = (0..250).map(|_| links.place().unwrap()).collect();
        // As many strangers as there may be: the task that became idle first makes room.
        assert!(links.close_one());
        assert!(closes(&tasks[0]) && !closes(&tasks[1]) && !closes(&strangers[0]));
        let busy = tasks[1].begin();
        let many = links.place().unwrap();
        assert!(links.close_one());
        assert!(closes(&strangers[0]) && !closes(&tasks[2]));
        assert!(links.close_one());
        assert!(closes(&tasks[2]) && !closes(&tasks[1]), "a busy task stays");
        // No idle task is left.
        assert!(links.close_one());
        assert!(closes(&strangers[1]));
        drop((strangers, many));
        assert!(!links.close_one(), "those that are left are busy, or about to close");
        drop(busy);
        assert!(links.close_one());
        drop(tasks);
        let free = locked(&links.free);
        assert!(free.idle.is_empty() && free.strangers.is_empty());
        assert_eq!(links.places.available_permits(), 1000);
    }
}
