//! Which nodes a service is linked with, and when one of them is lost: without I/O, from the events of its node.

use std::collections::BTreeMap;

use chained_gpc::{Id, Loss, PeerEvent, PeerEventKind};

/// Most links that are remembered while they are closed in order, some MiB: whoever is closed beyond them counts as lost.
const CLOSED_MAX: usize = 1 << 16;

/// The nodes that are there.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// The run of each whose link is up.
    up: BTreeMap<Id, u64>,
    /// The run of each whose link was closed in order, because descriptors were short, or is being replaced: it goes on.
    closed: BTreeMap<Id, u64>,
}

impl Linked {
    /// Takes an event; yields who is lost by it, and why.
    pub(super) fn heed(&mut self, event: PeerEvent) -> Option<(Id, String)> {
        self.take(event.id, event.incarnation, event.kind)
    }

    fn take(&mut self, id: Id, incarnation: u64, kind: PeerEventKind) -> Option<(Id, String)> {
        match kind {
            PeerEventKind::Up => {
                let before = self.closed.remove(&id).or(self.up.get(&id).copied());
                self.up.insert(id, incarnation);
                let other = before.is_some_and(|before| before != incarnation);
                other.then(|| (id, "another run of it has come".to_owned()))
            }
            PeerEventKind::Lost { loss: Loss::Closed | Loss::Replaced, .. }
                if self.closed.len() < CLOSED_MAX =>
            {
                self.closed.extend(self.up.remove(&id).map(|run| (id, run)));
                None
            }
            PeerEventKind::Lost { reason, .. } => {
                self.up.remove(&id);
                self.closed.remove(&id);
                Some((id, reason))
            }
            // Of what is not known yet nothing follows.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heed(linked: &mut Linked, id: Id, incarnation: u64, loss: Option<Loss>) -> Option<Id> {
        let kind = match loss {
            None => PeerEventKind::Up,
            Some(loss) => PeerEventKind::Lost { loss, reason: "why".into() },
        };
        linked.take(id, incarnation, kind).map(|(id, _)| id)
    }

    #[test]
    fn who_has_gone_is_lost() {
        for loss in [Loss::Left, Loss::Broken, Loss::Silent, Loss::Forgotten] {
            let mut linked = Linked::default();
            assert_eq!(heed(&mut linked, 3, 1, None), None);
            assert_eq!(heed(&mut linked, 3, 1, Some(loss)), Some(3), "{loss:?}");
        }
    }

    #[test]
    fn who_is_closed_in_order_goes_on_unless_another_run_comes() {
        for loss in [Loss::Closed, Loss::Replaced] {
            let mut linked = Linked::default();
            assert_eq!(heed(&mut linked, 3, 1, None), None);
            assert_eq!(heed(&mut linked, 3, 1, Some(loss)), None);
            assert_eq!(heed(&mut linked, 3, 1, None), None, "it has connected again");
            assert_eq!(heed(&mut linked, 3, 1, Some(loss)), None);
            assert_eq!(heed(&mut linked, 3, 2, None), Some(3), "it is another run of it");
        }
    }

    #[test]
    fn those_that_are_closed_are_bounded() {
        let mut linked = Linked::default();
        let lost = (0..=CLOSED_MAX as Id).filter_map(|id| {
            heed(&mut linked, id, 1, None);
            heed(&mut linked, id, 1, Some(Loss::Closed))
        });
        assert_eq!(lost.collect::<Vec<Id>>(), [CLOSED_MAX as Id]);
    }
}
