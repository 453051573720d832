//! Who is told that a process has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Rank};

/// Processes of a group that have ended, each once, in the order in which the node has told of them.
///
/// A death that the node has told of before it answered a request is here when the request returns. As an iterator, it waits for each, and ends with the link to the node.
#[derive(Debug)]
pub struct Deaths {
    /// At most as many wait here as the group has processes.
    deaths: Receiver<Death>,
}

impl Deaths {
    pub(super) fn new(deaths: Receiver<Death>) -> Deaths {
        Deaths { deaths }
    }

    /// The next one that has been told of already.
    pub fn try_next(&self) -> Option<Death> {
        self.deaths.try_recv().ok()
    }

    /// The next one.
    ///
    /// # Errors
    /// [`TimedOut`](FaultKind::TimedOut) when none comes within the limit; [`Link`](FaultKind::Link) when none will come, as the link to the node has ended.
    pub fn wait(&self, limit: Duration) -> Result<Death, Fault> {
        self.deaths.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Fault::new(FaultKind::TimedOut, format!("no process has ended within {limit:?}"))
            }
            RecvTimeoutError::Disconnected => {
                Fault::new(FaultKind::Link, "the link to the node has ended: nothing more is told")
            }
        })
    }
}

impl Iterator for Deaths {
    type Item = Death;

    fn next(&mut self) -> Option<Death> {
        self.deaths.recv().ok()
    }
}

/// Where deaths go.
pub(super) enum Sink {
    /// To a [`Deaths`].
    Queue(Sender<Death>),
    /// To a callback.
    Call(Box<dyn FnMut(Death) + Send>),
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sink::Queue(_) => "Queue",
            Sink::Call(_) => "Call",
        })
    }
}

impl Sink {
    /// Whether it takes more.
    fn tell(&mut self, death: Death) -> bool {
        match self {
            Sink::Queue(queue) => queue.send(death).is_ok(),
            Sink::Call(call) => {
                call(death);
                true
            }
        }
    }
}

/// The deaths of one group that the node has reported.
#[derive(Debug, Default)]
struct Known {
    /// In the order in which they were reported: each process once.
    deaths: Vec<Death>,
    ranks: BTreeSet<Rank>,
}

/// One subscription.
#[derive(Debug)]
struct Subscription {
    /// The groups whose deaths it gets: several where the subscriber has named a merged group.
    groups: BTreeSet<GroupId>,
    sink: Sink,
}

/// All subscriptions. They belong to the thread that reads.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    known: BTreeMap<GroupId, Known>,
    subscriptions: Vec<Subscription>,
}

impl Subscriptions {
    /// The node has accepted a subscription to these groups: it gets the deaths that earlier subscriptions have got.
    pub(super) fn add(&mut self, groups: BTreeSet<GroupId>, mut sink: Sink) {
        let mut takes = true;
        for group in &groups {
            let known = self.known.entry(*group).or_default();
            takes = takes && known.deaths.iter().all(|death| sink.tell(*death));
        }
        if takes {
            self.subscriptions.push(Subscription { groups, sink });
        }
    }

    /// The node reports a death: once for each subscription to its group.
    pub(super) fn tell(&mut self, death: Death) {
        let group = death.member.group;
        let Some(known) = self.known.get_mut(&group) else { return };
        if known.ranks.insert(death.member.rank) {
            known.deaths.push(death);
            self.subscriptions.retain_mut(|of| !of.groups.contains(&group) || of.sink.tell(death));
        }
    }
}
