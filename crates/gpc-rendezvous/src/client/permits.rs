//! Limits on concurrent requests, for each service and for all together. A service that accepts connections and never
//! answers delays only its own requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::url::ServiceUrl;

/// Kind of request that a permit is for. The kinds do not wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PermitKind {
    /// The service answers immediately.
    Short,
    /// A controlling task renews its lease, or gives the unit up. Neither must be late.
    Renewal,
    /// The service holds the request until it has the answer.
    LongPoll,
}

/// Permits of each kind. Each permit has a connection while it lasts, so the permits limit the connections.
#[derive(Debug)]
pub(super) struct Permits {
    short: Pool,
    renewal: Pool,
    long_poll: Pool,
}

/// Permits of one kind.
#[derive(Debug)]
struct Pool {
    /// Number of permits at one service.
    each: usize,
    /// Permits at all services: many times those of one service, so that many services must be silent before requests
    /// to the others wait.
    all: Semaphore,
    /// Services with requests: at most as many as there are requests.
    services: Mutex<HashMap<String, ServiceEntry>>,
}

/// A service with requests.
#[derive(Debug)]
struct ServiceEntry {
    permits: Arc<Semaphore>,
    /// Number of requests that have a permit or wait for one.
    by: usize,
}

/// A request's share in its service's entry; the last share removes the entry.
struct Place<'a> {
    pool: &'a Pool,
    service: String,
}

/// A permit. Dropping it releases it.
pub(super) struct Permit<'a> {
    _all: Option<SemaphorePermit<'a>>,
    _own: Option<OwnedSemaphorePermit>,
    _place: Place<'a>,
}

impl Permits {
    pub(super) fn new() -> Permits {
        Permits { short: Pool::new(32, 256), renewal: Pool::new(32, 256), long_poll: Pool::new(128, 1024) }
    }

    fn pool(&self, kind: PermitKind) -> &Pool {
        match kind {
            PermitKind::Short => &self.short,
            PermitKind::Renewal => &self.renewal,
            PermitKind::LongPoll => &self.long_poll,
        }
    }

    /// Waits for a permit.
    pub(super) async fn take(&self, kind: PermitKind, service: &ServiceUrl) -> Permit<'_> {
        let pool = self.pool(kind);
        let (place, permits) = pool.place(service.origin());
        // The service's own permit first: while waiting for that, the request holds no permit of the common pool.
        // Neither semaphore is ever closed.
        let own = permits.acquire_owned().await.ok();
        let all = pool.all.acquire().await.ok();
        Permit { _all: all, _own: own, _place: place }
    }

    /// Number of requests at a service for each of its permits, rounded up: 1 if there are enough permits.
    pub(super) fn rounds(&self, kind: PermitKind, service: &ServiceUrl) -> u32 {
        let pool = self.pool(kind);
        let by = locked(&pool.services).get(&service.origin()).map_or(0, |entry| entry.by);
        u32::try_from((by + 1).div_ceil(pool.each)).unwrap_or(u32::MAX)
    }
}

impl Pool {
    fn new(each: usize, all: usize) -> Pool {
        Pool { each, all: Semaphore::new(all), services: Mutex::default() }
    }

    fn place(&self, service: String) -> (Place<'_>, Arc<Semaphore>) {
        let mut services = locked(&self.services);
        let new = || ServiceEntry { permits: Arc::new(Semaphore::new(self.each)), by: 0 };
        let entry = services.entry(service.clone()).or_insert_with(new);
        entry.by += 1;
        let permits = Arc::clone(&entry.permits);
        drop(services);
        (Place { pool: self, service }, permits)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut services = locked(&self.pool.services);
        let Some(entry) = services.get_mut(&self.service) else { return };
        entry.by -= 1;
        if entry.by == 0 {
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

    /// All services had one pool of permits: a few hundred requests to one silent service blocked the requests to all
    /// others.
    #[test]
    fn a_silent_service_uses_its_own_permits() {
        let permits = Permits::new();
        let silent: ServiceUrl = "http://silent:1".parse().unwrap();
        let other: ServiceUrl = "http://other:1/rendezvous".parse().unwrap();
        let held: Vec<Permit<'_>> =
            (0..).map_while(|_| now(permits.take(PermitKind::Short, &silent))).take(1000).collect();
        assert_eq!(held.len(), 32);
        let same: ServiceUrl = "http://SILENT:1/elsewhere".parse().unwrap();
        assert!(now(permits.take(PermitKind::Short, &same)).is_none());
        assert!(now(permits.take(PermitKind::Renewal, &silent)).is_some());
        assert!(now(permits.take(PermitKind::Short, &other)).is_some());
        drop(held);
        assert!(now(permits.take(PermitKind::Short, &silent)).is_some());
        assert!(locked(&permits.short.services).is_empty());
    }

    #[test]
    fn waiting_requests_are_counted() {
        let permits = Permits::new();
        let service: ServiceUrl = "http://a:1".parse().unwrap();
        assert_eq!(permits.rounds(PermitKind::LongPoll, &service), 1);
        let held: Vec<Permit<'_>> =
            (0..128).filter_map(|_| now(permits.take(PermitKind::LongPoll, &service))).collect();
        let mut waiting = pin!(permits.take(PermitKind::LongPoll, &service));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!((held.len(), permits.rounds(PermitKind::LongPoll, &service)), (128, 2));
    }
}
