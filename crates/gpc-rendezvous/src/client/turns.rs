//! Limits on concurrent requests, for each service and for all together. A service that accepts connections and never
//! answers delays only its own requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::url::ServiceUrl;

/// Kind of request that a turn is for. The kinds do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TurnKind {
    /// The service answers immediately.
    Short,
    /// The renewal of a controlling task's lease, which must not be late.
    Word,
    /// The service holds the request until it has the answer.
    Kept,
}

/// Turns of each kind. Each turn has a connection while it lasts, so the turns limit the connections.
#[derive(Debug)]
pub(super) struct Turns {
    short: Pool,
    word: Pool,
    kept: Pool,
}

/// Turns of one kind.
#[derive(Debug)]
struct Pool {
    /// Number of turns at one service.
    each: usize,
    /// Turns at all services: many times those of one service, so that many services must be silent before requests to
    /// the others wait.
    all: Semaphore,
    /// Services with requests: at most as many as there are requests.
    services: Mutex<HashMap<String, Wanted>>,
}

/// A service with requests.
#[derive(Debug)]
struct Wanted {
    turns: Arc<Semaphore>,
    /// Number of requests that have a turn or wait for one.
    by: usize,
}

/// A request's share in its service's entry; the last share removes the entry.
struct Place<'a> {
    pool: &'a Pool,
    service: String,
}

/// A turn. Dropping it ends it.
pub(super) struct Turn<'a> {
    _all: Option<SemaphorePermit<'a>>,
    _own: Option<OwnedSemaphorePermit>,
    _place: Place<'a>,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { short: Pool::new(32, 256), word: Pool::new(32, 256), kept: Pool::new(128, 1024) }
    }

    fn pool(&self, kind: TurnKind) -> &Pool {
        match kind {
            TurnKind::Short => &self.short,
            TurnKind::Word => &self.word,
            TurnKind::Kept => &self.kept,
        }
    }

    /// Waits for a turn.
    pub(super) async fn take(&self, kind: TurnKind, service: &ServiceUrl) -> Turn<'_> {
        let pool = self.pool(kind);
        let (place, turns) = pool.place(service.origin());
        // The service's own turn first: while waiting for that, the request holds no turn of the common pool. Neither
        // semaphore is ever closed.
        let own = turns.acquire_owned().await.ok();
        let all = pool.all.acquire().await.ok();
        Turn { _all: all, _own: own, _place: place }
    }

    /// Number of requests at a service for each of its turns, rounded up: 1 if there are enough turns.
    pub(super) fn rounds(&self, kind: TurnKind, service: &ServiceUrl) -> u32 {
        let pool = self.pool(kind);
        let by = locked(&pool.services).get(&service.origin()).map_or(0, |wanted| wanted.by);
        u32::try_from((by + 1).div_ceil(pool.each)).unwrap_or(u32::MAX)
    }
}

impl Pool {
    fn new(each: usize, all: usize) -> Pool {
        Pool { each, all: Semaphore::new(all), services: Mutex::default() }
    }

    fn place(&self, service: String) -> (Place<'_>, Arc<Semaphore>) {
        let mut services = locked(&self.services);
        let new = || Wanted { turns: Arc::new(Semaphore::new(self.each)), by: 0 };
        let wanted = services.entry(service.clone()).or_insert_with(new);
        wanted.by += 1;
        let turns = Arc::clone(&wanted.turns);
        drop(services);
        (Place { pool: self, service }, turns)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut services = locked(&self.pool.services);
        let Some(wanted) = services.get_mut(&self.service) else { return };
        wanted.by -= 1;
        if wanted.by == 0 {
            services.remove(&self.service);
        }
    }
}

/// Locks a mutex. Code under this lock cannot panic, so a poisoned lock is still consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The result of a future that is ready immediately.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// All services had one pool of turns: a few hundred requests to one silent service blocked the requests to all
    /// others.
    #[test]
    fn a_service_that_says_nothing_holds_its_own_turns() {
        let turns = Turns::new();
        let silent: ServiceUrl = "http://silent:1".parse().unwrap();
        let other: ServiceUrl = "http://other:1/rendezvous".parse().unwrap();
        let held: Vec<Turn<'_>> =
            (0..).map_while(|_| now(turns.take(TurnKind::Short, &silent))).take(1000).collect();
        assert_eq!(held.len(), 32);
        let same: ServiceUrl = "http://SILENT:1/elsewhere".parse().unwrap();
        assert!(now(turns.take(TurnKind::Short, &same)).is_none());
        assert!(now(turns.take(TurnKind::Word, &silent)).is_some());
        assert!(now(turns.take(TurnKind::Short, &other)).is_some());
        drop(held);
        assert!(now(turns.take(TurnKind::Short, &silent)).is_some());
        assert!(locked(&turns.short.services).is_empty());
    }

    #[test]
    fn who_wants_a_turn_is_counted() {
        let turns = Turns::new();
        let service: ServiceUrl = "http://a:1".parse().unwrap();
        assert_eq!(turns.rounds(TurnKind::Kept, &service), 1);
        let held: Vec<Turn<'_>> =
            (0..128).filter_map(|_| now(turns.take(TurnKind::Kept, &service))).collect();
        let mut waiting = pin!(turns.take(TurnKind::Kept, &service));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!((held.len(), turns.rounds(TurnKind::Kept, &service)), (128, 2));
    }
}
