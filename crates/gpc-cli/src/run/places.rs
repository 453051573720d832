//! Process ids and hosts of the processes whose output goes to files with these in the name. The job learns them, and
//! the thread that writes the output waits for them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpc_bnr::names::{GroupId, Member};

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
    command: Command,
}

/// The processes of the command at the time limit, whose output goes to standard error.
#[derive(Default, Debug)]
enum Command {
    #[default]
    None,
    /// They start: of output of unknown processes it is not known whether it is theirs.
    Starts,
    /// Their group, and the names of their hosts, if output has these.
    Runs(GroupId, Arc<[String]>),
    /// They were not started in time, and may still start: in a group after this one.
    Late(GroupId),
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

    /// Processes of the command start.
    pub(super) fn expect_command(&self) {
        self.lock().command = Command::Starts;
    }

    /// The processes of the command run, or cannot be started.
    pub(super) fn set_command(&self, group: Option<(GroupId, Vec<String>)>) {
        self.lock().command = match group {
            Some((group, names)) => Command::Runs(group, names.into()),
            None => Command::None,
        };
        self.changed.notify_all();
    }

    /// Processes of the command may still start, in a group after this one.
    pub(super) fn give_up_command(&self, last: GroupId) {
        self.lock().command = Command::Late(last);
        self.changed.notify_all();
    }

    /// Returns the hosts of the command's processes, if a process is one of these.
    pub(super) fn command_of(&self, member: Member) -> Option<Arc<[String]>> {
        let starts = |known: &mut Known| !known.closed && matches!(known.command, Command::Starts);
        let waited = self.changed.wait_timeout_while(self.lock(), WAIT, starts);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &known.command {
            Command::Runs(group, names) if *group == member.group => Some(Arc::clone(names)),
            Command::Late(last) if member.group > *last => Some(Arc::default()),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

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

    #[test]
    fn output_waits_until_it_is_known_whether_the_command_writes_it() {
        let of = |group| Member { group: GroupId(group), rank: 0 };
        let places = Arc::new(Places::default());
        assert_eq!(places.command_of(of(2)), None);
        places.expect_command();
        let (tell, told) = mpsc::channel();
        let waiting = {
            let places = Arc::clone(&places);
            thread::spawn(move || [1, 2].map(|group| tell.send(places.command_of(of(group))).unwrap()))
        };
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it does not wait");
        places.set_command(Some((GroupId(2), vec!["a".into()])));
        waiting.join().unwrap();
        assert_eq!(told.iter().collect::<Vec<_>>(), [None, Some(["a".to_owned()].into())]);
        // A command that starts too late wrote into the files of a process.
        places.give_up_command(GroupId(2));
        assert_eq!([2, 3].map(|group| places.command_of(of(group))), [None, Some(Arc::default())]);
    }
}
