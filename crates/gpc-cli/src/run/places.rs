//! Process ids of the processes whose output goes to files with them in the name. The job learns them, and the thread
//! that writes the output waits for them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpc_bnr::names::Member;

/// Time limit for a process id. The head answers sooner, or the job ends, which ends the wait.
const WAIT: Duration = Duration::from_secs(70);

/// The process ids that are known.
#[derive(Default, Debug)]
pub(super) struct Places {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct Known {
    pids: BTreeMap<Member, u32>,
    /// Whether no further ones come.
    closed: bool,
}

impl Places {
    /// Adds process ids.
    pub(super) fn add(&self, pids: impl IntoIterator<Item = (Member, u32)>) {
        self.lock().pids.extend(pids);
        self.changed.notify_all();
    }

    /// Ends all waits: no further process id comes.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns a process id, and waits for it if it is not known yet; 0 if it does not become known.
    pub(super) fn pid(&self, member: Member) -> u32 {
        let waits = |known: &mut Known| !known.closed && !known.pids.contains_key(&member);
        let waited = self.changed.wait_timeout_while(self.lock(), WAIT, waits);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        known.pids.get(&member).copied().unwrap_or(0)
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
    fn a_pid_is_waited_for_until_it_is_known_or_none_comes() {
        let of = |rank| Member { group: GroupId(1), rank };
        let places = Arc::new(Places::default());
        let waiting = {
            let places = Arc::clone(&places);
            thread::spawn(move || (places.pid(of(1)), places.pid(of(2))))
        };
        places.add([(of(0), 10), (of(1), 11)]);
        places.close();
        assert_eq!(waiting.join().unwrap(), (11, 0));
        assert_eq!(places.pid(of(0)), 10);
    }
}
