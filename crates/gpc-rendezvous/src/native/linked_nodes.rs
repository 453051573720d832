//! Tracks which nodes are linked with the service, and which registrants and controlling tasks are lost with their
//! nodes. No I/O: its input is the events of the node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use chained_gpc::{Id, Loss, PeerEvent, PeerEventKind};

/// Failed attempts in a row after which a node counts as lost. One or two may fail because this node is short of
/// descriptors.
const MISSES: u32 = 3;

/// Interval at which nodes without a link are asked whether they live.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Nodes with a link or with registrants or controlling tasks: at most as many as the job has.
#[derive(Debug, Default)]
pub(super) struct LinkedNodes {
    /// Incarnation of each node whose link is up.
    up: BTreeMap<Id, u64>,
    /// Nodes with registrants or controlling tasks that live as long as the node's link.
    members: BTreeSet<Id>,
    /// Members that may live without a link: it was closed in order because descriptors were short, or is being
    /// replaced, or events about it were missed.
    unsure: BTreeMap<Id, UnsureMember>,
    /// Members that are lost and not yet reported to the service, with the reason.
    lost: BTreeMap<Id, String>,
    /// The node that was asked last whether it lives.
    asked: Option<Id>,
    /// When nodes were asked last.
    asked_at: Duration,
}

/// A member without a link.
#[derive(Clone, Copy, Debug)]
struct UnsureMember {
    /// Its incarnation when the link was up.
    incarnation: u64,
    /// Failed attempts since then.
    misses: u32,
}

impl LinkedNodes {
    /// Handles an event.
    pub(super) fn handle_event(&mut self, event: PeerEvent) {
        self.take(event.id, event.incarnation, event.kind);
    }

    fn take(&mut self, id: Id, incarnation: u64, kind: PeerEventKind) {
        match kind {
            PeerEventKind::Up => {
                let before = self.unsure.remove(&id).map(|unsure| unsure.incarnation);
                let before = self.up.insert(id, incarnation).or(before);
                if before.is_some_and(|before| before != incarnation) {
                    self.lose(id, "another run of it has come");
                }
            }
            PeerEventKind::Lost { loss: Loss::Closed | Loss::Replaced, .. } => {
                if let Some(incarnation) = self.up.remove(&id).filter(|_| self.members.contains(&id)) {
                    self.unsure.insert(id, UnsureMember { incarnation, misses: 0 });
                }
            }
            PeerEventKind::Lost { reason, .. } => {
                self.up.remove(&id);
                self.lose(id, &reason);
            }
            // Other kinds of events have no effect.
            _ => {}
        }
    }

    fn lose(&mut self, id: Id, why: &str) {
        self.unsure.remove(&id);
        if self.members.remove(&id) {
            self.lost.insert(id, why.to_owned());
        }
    }

    /// Restarts after missed events: an event follows for each link that is up. A member without such an event becomes
    /// unsure, and is asked.
    pub(super) fn begin_again(&mut self) {
        for (id, incarnation) in std::mem::take(&mut self.up) {
            if self.members.contains(&id) {
                self.unsure.insert(id, UnsureMember { incarnation, misses: 0 });
            }
        }
    }

    /// Whether this node may register now to live as long as its link; if so it becomes a member. Its link must be up
    /// by all events so far, and its earlier loss must be reported to the service. So a known loss is not ignored, and
    /// an old loss does not end a new registration.
    pub(super) fn admit(&mut self, id: Id) -> bool {
        let admitted = self.up.contains_key(&id) && !self.lost.contains_key(&id);
        if admitted {
            self.members.insert(id);
        }
        admitted
    }

    /// Records a node that registered before any events were available.
    pub(super) fn assume(&mut self, id: Id) {
        self.members.insert(id);
    }

    /// Reports lost members. `report` returns whether the service has taken the report; the others are reported the
    /// next time.
    pub(super) fn report_lost(&mut self, report: impl Fn(Id, &str) -> bool) {
        // Ends: each report removes an entry.
        while let Some(first) = self.lost.first_entry() {
            if !report(*first.key(), first.get()) {
                return;
            }
            first.remove();
        }
    }

    /// Whether to ask members now whether they live.
    pub(super) fn asks(&mut self, now: Duration) -> bool {
        let is_due = now >= self.asked_at + ASK_EVERY;
        if is_due {
            self.asked_at = now;
        }
        is_due
    }

    /// The members to ask next whether they live, at most `most`, in rotation.
    pub(super) fn ask_next(&mut self, most: usize) -> Vec<Id> {
        let after = self.asked.map_or(Bound::Unbounded, Bound::Excluded);
        let mut ids: Vec<Id> =
            self.unsure.range((after, Bound::Unbounded)).map(|(id, _)| *id).take(most).collect();
        if ids.len() < most {
            let up_to = self.asked.map_or(Bound::Excluded(0), Bound::Included);
            let rest = most - ids.len();
            ids.extend(self.unsure.range((Bound::Unbounded, up_to)).map(|(id, _)| *id).take(rest));
        }
        self.asked = ids.last().copied().or(self.asked);
        ids
    }

    /// A member was asked, and no connection was possible.
    pub(super) fn missed(&mut self, id: Id, why: &str) {
        let Some(unsure) = self.unsure.get_mut(&id) else { return };
        unsure.misses += 1;
        if unsure.misses >= MISSES {
            self.lose(id, why);
        }
    }

    /// A member was asked, and it lives.
    pub(super) fn reached(&mut self, id: Id) {
        if let Some(unsure) = self.unsure.get_mut(&id) {
            unsure.misses = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn up(linked: &mut LinkedNodes, id: Id, incarnation: u64) {
        linked.take(id, incarnation, PeerEventKind::Up);
    }

    fn down(linked: &mut LinkedNodes, id: Id, incarnation: u64, loss: Loss) {
        linked.take(id, incarnation, PeerEventKind::Lost { loss, reason: "why".into() });
    }

    fn member(id: Id) -> LinkedNodes {
        let mut linked = LinkedNodes::default();
        up(&mut linked, id, 1);
        assert!(linked.admit(id));
        linked
    }

    fn reported(linked: &mut LinkedNodes) -> Vec<Id> {
        let told = RefCell::new(Vec::new());
        linked.report_lost(|id, _| {
            told.borrow_mut().push(id);
            true
        });
        told.into_inner()
    }

    #[test]
    fn a_lost_node_is_reported_once() {
        for loss in [Loss::Left, Loss::Broken, Loss::Silent, Loss::Forgotten] {
            let mut linked = member(3);
            up(&mut linked, 4, 1);
            down(&mut linked, 4, 1, loss);
            down(&mut linked, 3, 1, loss);
            assert_eq!(reported(&mut linked), [3], "{loss:?}: id 4 has nothing here");
            assert!(reported(&mut linked).is_empty());
        }
    }

    /// Losses did not reach the service in order with requests. A late loss withdrew a registration that the same node
    /// had repeated meanwhile. A registration over a link whose loss was known was never withdrawn.
    #[test]
    fn a_node_registers_by_a_link_that_stands_and_when_its_last_loss_is_known() {
        let mut linked = member(3);
        down(&mut linked, 3, 1, Loss::Broken);
        assert!(!linked.admit(3), "the link is lost");
        up(&mut linked, 3, 1);
        assert!(!linked.admit(3), "the service does not know of the loss");
        linked.report_lost(|_, _| false);
        assert!(!linked.admit(3), "it had no room");
        assert_eq!(reported(&mut linked), [3]);
        assert!(linked.admit(3));
        assert!(reported(&mut linked).is_empty());
        assert!(!linked.admit(4), "no event reported its link");
    }

    #[test]
    fn who_is_closed_in_order_goes_on_unless_another_run_comes() {
        for loss in [Loss::Closed, Loss::Replaced] {
            let mut linked = member(3);
            down(&mut linked, 3, 1, loss);
            up(&mut linked, 3, 1);
            assert!(reported(&mut linked).is_empty(), "it has connected again");
            down(&mut linked, 3, 1, loss);
            up(&mut linked, 3, 2);
            assert_eq!(reported(&mut linked), [3], "it is another run of it");
        }
    }

    /// If a node's link was closed in order, and the node died later, its death was never detected.
    #[test]
    fn who_is_closed_in_order_is_asked_and_lost_when_it_is_not_reached() {
        let mut linked = member(3);
        down(&mut linked, 3, 1, Loss::Closed);
        assert_eq!(linked.ask_next(9), [3]);
        linked.missed(3, "nobody listens");
        linked.missed(3, "nobody listens");
        linked.reached(3);
        linked.missed(3, "nobody listens");
        linked.missed(3, "nobody listens");
        assert!(reported(&mut linked).is_empty());
        linked.missed(3, "nobody listens");
        assert_eq!((reported(&mut linked), linked.ask_next(9)), (vec![3], vec![]));
    }

    #[test]
    fn questions_to_nodes_have_ten_seconds_between_them() {
        let (mut linked, millis) = (LinkedNodes::default(), Duration::from_millis);
        assert!(!linked.asks(millis(9_999)));
        assert!(linked.asks(millis(10_500)));
        assert!(!linked.asks(millis(20_499)));
        assert!(linked.asks(millis(20_500)));
    }

    /// A loss is reported until the service has room for it, and all others with it.
    #[test]
    fn a_loss_that_found_no_room_is_reported_again() {
        let mut linked = LinkedNodes::default();
        for id in [3, 4, 5] {
            up(&mut linked, id, 1);
            assert!(linked.admit(id));
            down(&mut linked, id, 1, Loss::Broken);
        }
        let told = RefCell::new(Vec::new());
        linked.report_lost(|id, _| {
            told.borrow_mut().push(id);
            id == 3
        });
        assert_eq!((told.into_inner(), reported(&mut linked)), (vec![3, 4], vec![4, 5]));
    }

    #[test]
    fn members_are_asked_in_turn() {
        let mut linked = LinkedNodes::default();
        for id in 0..5 {
            up(&mut linked, id, 1);
            assert!(linked.admit(id));
        }
        linked.begin_again();
        let asked: Vec<Vec<Id>> = (0..4).map(|_| linked.ask_next(2)).collect();
        assert_eq!(asked, [[0, 1], [2, 3], [4, 0], [1, 2]]);
        assert_eq!(linked.ask_next(99), [3, 4, 0, 1, 2]);
    }

    /// If a node was lost while events were missed, it was never withdrawn.
    #[test]
    fn after_missed_events_those_that_are_not_up_are_asked() {
        let mut linked = LinkedNodes::default();
        for id in [3, 4, 5, 6] {
            up(&mut linked, id, 1);
            assert!(id == 6 || linked.admit(id));
        }
        linked.begin_again();
        assert!(!linked.admit(3), "of its link nothing is known");
        up(&mut linked, 3, 1);
        up(&mut linked, 4, 2);
        assert_eq!(reported(&mut linked), [4], "another run of it is there");
        assert!(linked.admit(3));
        assert_eq!(linked.ask_next(9), [5]);
    }
}
