//! Polls the service on behalf of all observers: each subject is polled four times a second, for any number of
//! observers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::submit::ask;
use crate::machine::{Answer, Properties, Request, ResourceId};
use crate::service_thread::Desk;

/// Interval between polls.
const EVERY: Duration = Duration::from_millis(250);

/// Most resources on the page.
const LIST_MAX: usize = 200;

/// A subject that is polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject {
    /// The tally of a resource.
    Tally(ResourceId),
    /// All resources, the newest first.
    Resources,
}

/// The result of a poll.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PollResult {
    /// Not polled yet.
    Nothing,
    /// The tally and the capacity.
    Tally(u32, u32),
    /// The resources.
    Resources(Vec<Properties>),
}

/// All subjects that are polled.
#[derive(Debug)]
pub(super) struct Pollers {
    desk: Desk,
    active: Mutex<BTreeMap<Subject, Weak<Poller>>>,
}

/// One subject, polled as long as an observer holds it.
#[derive(Debug)]
pub(super) struct Poller {
    pollers: Arc<Pollers>,
    subject: Subject,
    results: watch::Sender<PollResult>,
}

/// An observer.
pub(super) struct Subscription {
    results: watch::Receiver<PollResult>,
    _poller: Arc<Poller>,
}

impl Pollers {
    pub(super) fn new(desk: Desk) -> Arc<Pollers> {
        Arc::new(Pollers { desk, active: Mutex::default() })
    }

    /// Observes a subject. The first result follows soon.
    pub(super) fn subscribe(self: &Arc<Pollers>, subject: Subject) -> Subscription {
        let mut active = self.active();
        let known = active.get(&subject).and_then(Weak::upgrade);
        let found = known.unwrap_or_else(|| {
            let results = watch::Sender::new(PollResult::Nothing);
            let new = Arc::new(Poller { pollers: Arc::clone(self), subject, results });
            active.insert(subject, Arc::downgrade(&new));
            tokio::spawn(poll(Arc::downgrade(&new), self.desk.clone(), subject));
            new
        });
        let mut results = found.results.subscribe();
        if *results.borrow() != PollResult::Nothing {
            // A result is available already, for other observers.
            results.mark_changed();
        }
        Subscription { results, _poller: found }
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<Subject, Weak<Poller>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        let mut active = self.pollers.active();
        // Another observer may have started it again meanwhile.
        if active.get(&self.subject).is_some_and(|poller| poller.strong_count() == 0) {
            active.remove(&self.subject);
        }
    }
}

impl Subscription {
    /// Waits for a result that differs from the last one, and returns it.
    pub(super) async fn next(&mut self) -> PollResult {
        // The sender lives as long as `self`.
        let _ = self.results.changed().await;
        self.results.borrow_and_update().clone()
    }
}

/// Polls a subject until its last observer has gone.
async fn poll(poller: Weak<Poller>, desk: Desk, subject: Subject) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Ends: within an interval after the last observer has gone.
    loop {
        ticks.tick().await;
        if poller.strong_count() == 0 {
            return;
        }
        let request = match subject {
            Subject::Tally(id) => Request::Properties(id),
            Subject::Resources => Request::List { most: LIST_MAX },
        };
        let result = match ask(&desk, request).await {
            Ok(Answer::Properties(properties)) => PollResult::Tally(properties.tally, properties.capacity),
            Ok(Answer::List(list)) => PollResult::Resources(list),
            // The service is full for the moment, or the resource has ended, which its waits report.
            Ok(_) | Err(_) => continue,
        };
        let Some(poller) = poller.upgrade() else { return };
        poller.results.send_if_modified(|results| {
            let other = *results != result;
            *results = result;
            other
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::machine::{Life, Limits, RankChoice, Spec};
    use crate::service_thread::{ServiceThread, draw, draw_token};

    #[tokio::test(start_paused = true)]
    async fn observers_are_woken_by_changes_alone_and_leave_nothing() {
        let service = ServiceThread::start(Limits::default(), None, |_, _| {}).unwrap();
        let desk = service.desk();
        let create = Request::Create { spec: Spec::new(2), random: draw(false).unwrap() };
        let Ok(Answer::Created(resource)) = ask(desk, create).await else { panic!("refused") };
        let pollers = Pollers::new(desk.clone());
        let mut first = pollers.subscribe(Subject::Tally(resource));
        assert_eq!(first.next().await, PollResult::Tally(0, 2));
        // A second observer gets what is there.
        let mut second = pollers.subscribe(Subject::Tally(resource));
        assert!(second.results.has_changed().unwrap());
        assert_eq!(second.next().await, PollResult::Tally(0, 2));
        for _ in 0..8 {
            sleep(EVERY).await;
            // The polls before this request are answered with it.
            assert!(ask(desk, Request::Properties(resource)).await.is_ok());
            assert!(!first.results.has_changed().unwrap(), "nothing has changed");
        }
        let (rank, token, data, life) = (RankChoice::Assign, draw_token().unwrap(), "a".into(), Life::Unseen);
        assert!(ask(desk, Request::Register { resource, rank, token, data, life }).await.is_ok());
        assert_eq!(
            (first.next().await, second.next().await),
            (PollResult::Tally(1, 2), PollResult::Tally(1, 2))
        );
        let list = pollers.subscribe(Subject::Resources);
        drop(first);
        assert_eq!(pollers.active().len(), 2);
        drop((second, list));
        assert!(pollers.active().is_empty());
    }
}
