//! Looks at what changes often, on behalf of all who look on: however many they are, the service is asked four times a second for each thing that is looked at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::shared::ask;
use crate::keeper::Desk;
use crate::machine::{Answer, Properties, Request, ResourceId};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(250);

/// Most resources that the page shows.
const LIST_MAX: usize = 200;

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject {
    /// How far a resource has come.
    Tally(ResourceId),
    /// All resources, the newest first.
    Resources,
}

/// What was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// Nothing yet.
    Nothing,
    /// How many have registered, of how many.
    Tally(u32, u32),
    /// Resources.
    Resources(Vec<Properties>),
}

/// All that is looked at.
#[derive(Debug)]
pub(super) struct Pollers {
    desk: Desk,
    watched: Mutex<BTreeMap<Subject, Weak<Watched>>>,
}

/// One thing that is looked at for as long as anybody has this.
#[derive(Debug)]
pub(super) struct Watched {
    pollers: Arc<Pollers>,
    subject: Subject,
    seen: watch::Sender<Sight>,
}

/// Somebody who looks on.
pub(super) struct Looking {
    seen: watch::Receiver<Sight>,
    _watched: Arc<Watched>,
}

impl Pollers {
    pub(super) fn new(desk: Desk) -> Arc<Pollers> {
        Arc::new(Pollers { desk, watched: Mutex::default() })
    }

    /// Looks on. What is seen first is there soon.
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
            // Others have seen it before.
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
        // Somebody else may have begun anew meanwhile.
        if watched.get(&self.subject).is_some_and(|watched| watched.strong_count() == 0) {
            watched.remove(&self.subject);
        }
    }
}

impl Looking {
    /// What was seen, when it is something else than the last time.
    pub(super) async fn next(&mut self) -> Sight {
        // The sender lives as long as this.
        let _ = self.seen.changed().await;
        self.seen.borrow_and_update().clone()
    }
}

/// Looks until nobody looks on, or there is nothing more to see.
async fn poll(watched: Weak<Watched>, desk: Desk, subject: Subject) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Ends: within a tick after the last one has gone.
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
            // The service is full for the moment, or the resource has ended, which those who wait for it are told.
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
