//! Polls the service on behalf of all observers: each subject is polled four times a second, for any number of
//! observers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::submit::ask;
use crate::keeper::Desk;
use crate::machine::{Answer, Properties, Request, ResourceId};

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
pub(super) enum Sight {
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
    watched: Mutex<BTreeMap<Subject, Weak<Watched>>>,
}

/// One subject, polled as long as an observer holds it.
#[derive(Debug)]
pub(super) struct Watched {
    pollers: Arc<Pollers>,
    subject: Subject,
    seen: watch::Sender<Sight>,
}

/// An observer.
pub(super) struct Looking {
    seen: watch::Receiver<Sight>,
    _watched: Arc<Watched>,
}

impl Pollers {
    pub(super) fn new(desk: Desk) -> Arc<Pollers> {
        Arc::new(Pollers { desk, watched: Mutex::default() })
    }

    /// Observes a subject. The first result follows soon.
    pub(super) fn look(self: &Arc<Pollers>, subject: Subject) -> Looking {
        let mut watched = self.watched();
        let known = watched.get(&subject).and_then(Weak::upgrade);
        let found = known.unwrap_or_else(|| {
            let seen = watch::Sender::new(Sight::Nothing);
            let new = Arc::new(Watched { pollers: Arc::clone(self), subject, seen });
            watched.insert(subject, Arc::downgrade(&new));
            tokio::spawn(poll(Arc::downgrade(&new), self.desk.clone(), subject));
            new
        });
        let mut seen = found.seen.subscribe();
        if *seen.borrow() != Sight::Nothing {
            // A result is available already, for other observers.
            seen.mark_changed();
        }
        Looking { seen, _watched: found }
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<Subject, Weak<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watched = self.pollers.watched();
        // Another observer may have started it again meanwhile.
        if watched.get(&self.subject).is_some_and(|watched| watched.strong_count() == 0) {
            watched.remove(&self.subject);
        }
    }
}

impl Looking {
    /// Waits for a result that differs from the last one, and returns it.
    pub(super) async fn next(&mut self) -> Sight {
        // The sender lives as long as `self`.
        let _ = self.seen.changed().await;
        self.seen.borrow_and_update().clone()
    }
}

/// Polls a subject until its last observer has gone.
async fn poll(watched: Weak<Watched>, desk: Desk, subject: Subject) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Ends: within an interval after the last observer has gone.
    loop {
        ticks.tick().await;
        if watched.strong_count() == 0 {
            return;
        }
        let request = match subject {
            Subject::Tally(id) => Request::Properties(id),
            Subject::Resources => Request::List { most: LIST_MAX },
        };
        let sight = match ask(&desk, request).await {
            Ok(Answer::Properties(properties)) => Sight::Tally(properties.tally, properties.capacity),
            Ok(Answer::List(list)) => Sight::Resources(list),
            // The service is full for the moment, or the resource has ended, which its waits report.
            Ok(_) | Err(_) => continue,
        };
        let Some(watched) = watched.upgrade() else { return };
        watched.seen.send_if_modified(|seen| {
            let other = *seen != sight;
            *seen = sight;
            other
        });
    }
}
