//! Subscriptions to the deaths of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Rank};
use crate::roster::Span;

/// The deaths of a group's processes, each once, in the order of the node's notices.
///
/// A death that the node has reported before it answers a request is available when the request returns. The iterator
/// blocks for each death, and ends when the link to the node closes.
#[derive(Debug)]
pub struct Deaths {
    /// Bounded by the number of the group's processes.
    deaths: Receiver<Death>,
}

impl Deaths {
    pub(super) fn new(deaths: Receiver<Death>) -> Deaths {
        Deaths { deaths }
    }

    /// The next death that has already been reported.
    pub fn try_next(&self) -> Option<Death> {
        self.deaths.try_recv().ok()
    }

    /// Waits for the next death.
    ///
    /// # Errors
    /// [`TimedOut`](FaultKind::TimedOut) if none is reported within the limit; [`Link`](FaultKind::Link) if the link to
    /// the node has closed.
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

/// The receiver of deaths.
pub(super) enum Sink {
    /// The queue of a [`Deaths`].
    Queue(Sender<Death>),
    /// A callback.
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
    /// Delivers a death. Returns whether the receiver takes more.
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
struct ReportedDeaths {
    /// In the order of the reports; each process once.
    deaths: Vec<Death>,
    ranks: BTreeSet<Rank>,
}

/// One subscription.
#[derive(Debug)]
struct Subscription {
    /// The processes whose deaths it receives, by the groups that they were started in.
    spans: Vec<Span>,
    sink: Sink,
}

/// All subscriptions. Used by the reader thread alone.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    known: BTreeMap<GroupId, ReportedDeaths>,
    subscriptions: Vec<Subscription>,
}

impl Subscriptions {
    /// Adds a subscription that the node has accepted, and delivers the deaths that earlier subscriptions have
    /// received.
    pub(super) fn add(&mut self, spans: Vec<Span>, mut sink: Sink) {
        let groups: BTreeSet<GroupId> = spans.iter().map(|span| span.group).collect();
        let subscribed = |death: &&Death| spans.iter().any(|span| span.contains(death.member));
        let mut takes = true;
        for group in groups {
            let known = self.known.entry(group).or_default();
            takes = takes && known.deaths.iter().filter(subscribed).all(|death| sink.tell(*death));
        }
        if takes {
            self.subscriptions.push(Subscription { spans, sink });
        }
    }

    /// Delivers a death that the node reports, once for each subscription to its group.
    pub(super) fn tell(&mut self, death: Death) {
        let group = death.member.group;
        let Some(known) = self.known.get_mut(&group) else { return };
        if known.ranks.insert(death.member.rank) {
            known.deaths.push(death);
            let subscribed = |of: &Subscription| of.spans.iter().any(|span| span.contains(death.member));
            self.subscriptions.retain_mut(|of| !subscribed(of) || of.sink.tell(death));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::exit::Exit;
    use crate::names::Member;

    fn death(group: u32, rank: Rank) -> Death {
        Death { member: Member { group: GroupId(group), rank }, exit: Exit::Signal(9), finalized: false }
    }

    /// The deaths of these groups from now on, and the earlier ones.
    fn subscribed(subscriptions: &mut Subscriptions, groups: &[u32]) -> Receiver<Death> {
        let (sender, deaths) = channel();
        let spans = groups.iter().map(|group| Span::whole(GroupId(*group))).collect();
        subscriptions.add(spans, Sink::Queue(sender));
        deaths
    }

    fn ranks(deaths: &Receiver<Death>) -> Vec<(u32, Rank)> {
        deaths.try_iter().map(|death| (death.member.group.0, death.member.rank)).collect()
    }

    #[test]
    fn each_subscriber_gets_each_death_once_in_the_order_of_the_node() {
        let mut subscriptions = Subscriptions::default();
        let first = subscribed(&mut subscriptions, &[1]);
        for rank in [3, 1, 3, 1] {
            subscriptions.tell(death(1, rank));
        }
        // Nobody has subscribed to this group.
        subscriptions.tell(death(2, 7));
        assert_eq!(ranks(&first), [(1, 3), (1, 1)]);
        let second = subscribed(&mut subscriptions, &[1, 2]);
        assert_eq!(ranks(&second), [(1, 3), (1, 1)], "those that were reported earlier, in their order");
        subscriptions.tell(death(2, 5));
        subscriptions.tell(death(1, 3));
        assert_eq!((ranks(&first), ranks(&second)), (vec![], vec![(2, 5)]));
        // A subscriber that is gone leaves the others.
        drop(first);
        subscriptions.tell(death(1, 2));
        subscriptions.tell(death(2, 2));
        assert_eq!(ranks(&second), [(1, 2), (2, 2)]);
        assert_eq!(subscriptions.subscriptions.len(), 1);
        let third = subscribed(&mut subscriptions, &[2, 1]);
        assert_eq!(ranks(&third), [(1, 3), (1, 1), (1, 2), (2, 5), (2, 2)]);
        // One that is gone before it is accepted is not kept.
        let (sender, gone) = channel();
        drop(gone);
        subscriptions.add(vec![Span::whole(GroupId(1))], Sink::Queue(sender));
        assert_eq!(subscriptions.subscriptions.len(), 2);
    }

    /// A group that was made of some processes of another one: the deaths of the others are none of its members.
    #[test]
    fn a_subscriber_to_some_processes_gets_their_deaths_alone() {
        let mut subscriptions = Subscriptions::default();
        let some = |subscriptions: &mut Subscriptions, first| {
            let (sender, deaths) = channel();
            let span = Span { group: GroupId(1), first, count: 2 };
            subscriptions.add(vec![span], Sink::Queue(sender));
            deaths
        };
        let (low, high) = (some(&mut subscriptions, 0), some(&mut subscriptions, 2));
        [3, 1, 0].into_iter().for_each(|rank| subscriptions.tell(death(1, rank)));
        assert_eq!((ranks(&low), ranks(&high)), (vec![(1, 1), (1, 0)], vec![(1, 3)]));
        let (again, all) = (some(&mut subscriptions, 0), subscribed(&mut subscriptions, &[1]));
        assert_eq!((ranks(&again), ranks(&all)), (vec![(1, 1), (1, 0)], vec![(1, 3), (1, 1), (1, 0)]));
    }
}
