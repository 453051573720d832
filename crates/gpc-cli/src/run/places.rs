//! Process ids and hosts of the processes whose output goes to files with these in the name. The job learns them, and
//! the thread that writes the output waits for them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpc_bnr::names::Member;

/// Time limit for the place of a process. The head answers sooner, or the job ends, which ends the wait.
const WAIT: Duration = Duration::from_secs(70);

/// The host of a process that does not become known.
const UNKNOWN: &str = "unknown";

/// Where a process runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) pid: u32,
    pub(super) host: Arc<OsStr>,
}

/// The places that are known.
#[derive(Default, Debug)]
pub(super) struct Places {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct Known {
    places: BTreeMap<Member, Place>,
    /// Whether no further ones come.
    closed: bool,
}

impl Places {
    /// Adds places.
    pub(super) fn add(&self, places: impl IntoIterator<Item = (Member, Place)>) {
        self.lock().places.extend(places);
        self.changed.notify_all();
    }

    /// Ends all waits: no further place comes.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns a place, and waits for it if it is not known yet; process id 0 if it does not become known.
    pub(super) fn of(&self, member: Member) -> Place {
        let waits = |known: &mut Known| !known.closed && !known.places.contains_key(&member);
        let waited = self.changed.wait_timeout_while(self.lock(), WAIT, waits);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let unknown = || Place { pid: 0, host: OsStr::new(UNKNOWN).into() };
        known.places.get(&member).cloned().unwrap_or_else(unknown)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use gpc_bnr::names::GroupId;

    use super::*;

    #[test]
    fn a_place_is_waited_for_until_it_is_known_or_none_comes() {
        let of = |rank| Member { group: GroupId(1), rank };
        let place = |pid, host: &str| Place { pid, host: OsStr::new(host).into() };
        let places = Arc::new(Places::default());
        let waiting = {
            let places = Arc::clone(&places);
            thread::spawn(move || (places.of(of(1)), places.of(of(2))))
        };
        places.add([(of(0), place(10, "a")), (of(1), place(11, "b"))]);
        places.close();
        assert_eq!(waiting.join().unwrap(), (place(11, "b"), place(0, "unknown")));
        assert_eq!(places.of(of(0)), place(10, "a"));
    }
}
