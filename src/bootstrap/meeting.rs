//! A meeting: an embedder's own exchange between processes that know neither their ids nor their number before it, such
//! as a rendezvous of several jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use gpc_trees::{Hosts, Id};

use super::entry::Entry;
use super::{BootstrapError, EntryError, Farewell};
use crate::peering::Secret;
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
