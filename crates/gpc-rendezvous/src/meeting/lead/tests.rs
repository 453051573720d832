//! The leases of a controlling task, by a clock that the test moves.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chained_gpc::Functions;

use super::*;
use crate::machine::{Properties, Registration, ResourceId};

/// A resource that never completes. Its waits last as long as they may.
struct Incomplete {
    level: u16,
    millis: Arc<AtomicU64>,
    /// When it was asked for a lease of a controlling task.
    controlled: Mutex<Vec<u64>>,
    released: Mutex<Vec<Option<String>>>,
}

impl Incomplete {
    fn new(level: u16, millis: &Arc<AtomicU64>) -> Arc<Incomplete> {
        let (controlled, released) = (Mutex::default(), Mutex::default());
        Arc::new(Incomplete { level, millis: Arc::clone(millis), controlled, released })
    }
}

impl Resource for Incomplete {
    fn within(&self, _: Duration) -> Box<dyn Resource + '_> {
        unreachable!()
    }

    fn register(&self, rank: RankChoice, _: &Token, _: Bytes) -> Result<Registration, Fault> {
        assert_eq!(rank, RankChoice::Rank(0));
        Ok(Registration { rank: 0, tally: 1, capacity: 2 })
    }

    fn withdraw(&self, _: u64, _: &Token) -> Result<(), Fault> {
        unreachable!()
    }

    fn wait(&self, _: Scope, _: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
        self.millis.fetch_add(limit.as_millis() as u64, Ordering::Relaxed);
        Ok(None)
    }

    fn control(&self, _: Unit, _: &str, _: &Token) -> Result<(), Fault> {
        self.controlled.lock().unwrap().push(self.millis.load(Ordering::Relaxed));
        Ok(())
    }

    fn release(&self, _: Unit, _: &Token, lost: Option<String>) -> Result<(), Fault> {
        self.released.lock().unwrap().push(lost);
        Ok(())
    }

    fn properties(&self) -> Result<Properties, Fault> {
        Ok(Properties {
            id: ResourceId([1; 16]),
            level: self.level,
            capacity: 2,
            tally: 1,
            missing: vec![1],
            bytes: 0,
            completed: false,
            failed: None,
            waiting: 0,
            created: 0,
            expires: 0,
            job: None,
            above: None,
        })
    }
}

/// While the tasks of the job register at their own resource, nothing else renews the lease at the parent, which is
/// 30 s.
#[test]
fn the_lease_above_is_renewed_while_the_tasks_register() {
    let millis = Arc::<AtomicU64>::default();
    let (own, above) = (Incomplete::new(1, &millis), Incomplete::new(2, &millis));
    let limit = Duration::from_secs(25);
    let plan = Plan::new(0..2, "x", limit).at(own.clone()).below(above.clone(), RankChoice::Rank(7));
    let clock = Clock::reading(move || Duration::from_millis(millis.load(Ordering::Relaxed)));
    let node = Node::builder(0).functions(&Functions::new()).start().unwrap();
    let (shared, token, until) = (Shared::new(0), Token::new("t").unwrap(), clock.limit(limit));
    let leader =
        Leader { shared: &shared, node: &node, clock: &clock, meeting: 0, plan: &plan, token, until };
    let fault = leader.conduct().unwrap_err();
    assert_eq!((fault.kind, fault.rank), (FaultKind::NotRegistered, Some(1)));
    assert_eq!(*above.controlled.lock().unwrap(), [0, 10_000, 20_000, 25_000]);
    assert_eq!(*above.released.lock().unwrap(), [Some(fault.message)]);
    assert_eq!(*own.controlled.lock().unwrap(), [0]);
}

/// While a call gathers the data of the tasks, the lease at the parent is renewed after each part of the wait.
#[test]
fn leases_are_renewed_during_a_call() {
    let (waited, renewed) = (Cell::new(0), Cell::new(0));
    let wait = |limit: Duration| {
        assert_eq!((limit, renewed.get()), (RENEW, waited.get()));
        waited.set(waited.get() + 1);
        (waited.get() == 4).then_some("ended")
    };
    assert_eq!(renewing(wait, || renewed.set(renewed.get() + 1)), "ended");
    assert_eq!((waited.get(), renewed.get()), (4, 3));
}
