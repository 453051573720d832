//! A meeting: an embedder's own exchange between processes that know neither their ids nor their number before it, such
//! as a rendezvous of several jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use gpc_trees::{Hosts, Id};

use super::entry::Entry;
use super::{BootstrapError, EntryError, Farewell};
use crate::link::peering::Secret;
use crate::wire::Job;

/// The result of a meeting. It is the same at all processes, but for the id and the farewell.
pub struct Meeting {
    /// The id of this process, below the number of entries.
    pub id: Id,
    /// The entry of each process, by id: the texts that they have brought to the meeting.
    pub entries: Vec<Vec<u8>>,
    /// The group of each process, by id: equal names are one group of [`Member::hosts`](super::Member::hosts). A name
    /// with `/` is a path of groups, from the outermost one, as in [`Hosts`].
    pub groups: Vec<String>,
    /// The common job of all from now on, drawn by the organizer of the meeting.
    pub job: Job,
    /// Their secret: drawn there too, or given to all of them beforehand.
    pub secret: Secret,
    /// What this process sends at its end.
    pub farewell: Farewell,
}

/// The time limit of a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeetingLimit {
    /// The [limit](super::Bootstrap::limit) of the whole bootstrap, for messages.
    pub limit: Duration,
    /// The rest of it: a part has passed before the meeting begins.
    pub left: Duration,
}

/// A meeting as a function of this process's entry and the time limit.
pub(super) type Meet = dyn FnOnce(&str, MeetingLimit) -> Result<Meeting, BootstrapError>;

/// The checked result of a meeting.
pub(super) struct CheckedMeeting {
    pub(super) id: Id,
    pub(super) count: u32,
    pub(super) job: Job,
    pub(super) secret: Secret,
    pub(super) entries: BTreeMap<Id, Entry>,
    pub(super) hosts: Hosts,
    pub(super) farewell: Farewell,
}

/// Checks the result of a meeting.
pub(super) fn check_meeting(meeting: Meeting, mine: &Entry) -> Result<CheckedMeeting, BootstrapError> {
    let Meeting { id, entries, groups, job, secret, farewell } = meeting;
    let useless = |why: String| BootstrapError::Meeting(why);
    let count = u32::try_from(entries.len())
        .map_err(|_| useless(format!("{} processes are too many", entries.len())))?;
    if groups.len() != entries.len() {
        return Err(useless(format!("there are {} groups' names for {count} processes", groups.len())));
    }
    if entries.get(id as usize).map(Vec::as_slice) != Some(mine.to_string().as_bytes()) {
        return Err(useless(format!("what stands at id {id} of {count} is not what this process has said")));
    }
    let mut parsed = BTreeMap::new();
    for (of, bytes) in (0..).zip(&entries) {
        let no_text = |_| BootstrapError::Entry { of, why: "it is no text".into() };
        let no_entry = |fault: EntryError| BootstrapError::Entry { of, why: fault.to_string() };
        let entry = std::str::from_utf8(bytes).map_err(no_text)?.parse().map_err(no_entry)?;
        parsed.insert(of, entry);
    }
    let hosts = (0..).zip(groups).collect();
    Ok(CheckedMeeting { id, count, job, secret, entries: parsed, hosts, farewell })
}

/// Without the secret, and without each entry.
impl fmt::Debug for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meeting(id {} of {}, {})", self.id, self.entries.len(), self.job.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str) -> Entry {
        format!("1,{host},0123456789abcdef,-,unix:@{host}").parse().unwrap()
    }

    /// A meeting of `a`, `b` and `c`, in which this process is `b`.
    fn meeting() -> Meeting {
        Meeting {
            id: 1,
            entries: ["a", "b", "c"].map(|host| entry(host).to_string().into_bytes()).to_vec(),
            groups: ["x", "y", "x"].map(String::from).to_vec(),
            job: Job([1; 16]),
            secret: Secret::new(&[2; 32]).unwrap(),
            farewell: Farewell::new(|| Err("it was sent")),
        }
    }

    #[test]
    fn a_meeting_says_who_is_where() {
        let met = check_meeting(meeting(), &entry("b")).unwrap();
        assert_eq!((met.id, met.count, met.job), (1, 3, Job([1; 16])));
        assert!(met.secret == Secret::new(&[2; 32]).unwrap());
        assert_eq!(met.entries, (0..).zip(["a", "b", "c"].map(entry)).collect());
        assert_eq!((met.hosts.len(), met.hosts.host(1), met.hosts.host(2)), (2, Some("y"), Some("x")));
        assert!(met.farewell.say().is_err());
        let alone = Meeting {
            id: 0,
            entries: vec![entry("b").to_string().into_bytes()],
            groups: vec![String::new()],
            ..meeting()
        };
        assert_eq!(check_meeting(alone, &entry("b")).unwrap().count, 1);
    }

    #[test]
    fn a_meeting_that_cannot_be_is_refused() {
        let refused = |meeting: Meeting| check_meeting(meeting, &entry("b")).err().unwrap().to_string();
        for id in [0, 2, 3, u32::MAX] {
            let why = format!(
                "the processes have not met: what stands at id {id} of 3 is not what this process has said"
            );
            assert_eq!(refused(Meeting { id, ..meeting() }), why);
        }
        for groups in [vec![], vec![String::new(); 2], vec![String::new(); 4]] {
            let why = format!("there are {} groups' names for 3 processes", groups.len());
            assert!(refused(Meeting { groups, ..meeting() }).ends_with(&why));
        }
        let with = |place: usize, bytes: &[u8]| {
            let mut other = meeting();
            other.entries[place] = bytes.to_vec();
            refused(other)
        };
        assert_eq!(with(2, b"\xff"), "what id 2 says of itself is of no use: it is no text");
        assert!(with(0, b"1,a").contains("id 0") && with(2, b"").contains("id 2"));
        assert!(with(1, b"1,b").contains("id 1 of 3"));
        assert_eq!(format!("{:?}", meeting()).matches("0202").count(), 0, "the secret is not shown");
    }
}
