//! Watches the id that a process depends on: its parent in the tree, and id 0 once the parent has gone.

use std::time::Duration;

use gpc_trees::Id;

use super::BootstrapError;
use super::driven::{Driven, await_item};
use super::root_loss::RootLoss;
use crate::Clock;
use crate::runtime::{Address, Events, Loss, NoEvent, PeerEventKind};

/// Time limit of a connection attempt, for a process on another host.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// How long a link may be absent before the watched address is probed: nodes start one after the other.
const PROBE_AFTER: Duration = Duration::from_millis(500);

/// How long a link that was closed for lack of descriptors may take to reconnect.
const MEET_LIMIT: Duration = Duration::from_secs(5);

/// Time limit of one attempt to link before the address is probed.
const MEET_TURN: Duration = Duration::from_millis(100);

/// Maximum time of a single wait for an event; an event ends the wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// State of the link with the watched id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// It has not been up since the watch began.
    None,
    Up,
    Lost(Loss),
}

/// What a watching process knows about the watched id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// It has not gone, as far as this process can detect it.
    Present,
    Gone,
    /// Its address must be probed.
    Probe,
}

/// The watched id and its link, without I/O.
#[derive(Debug)]
struct WatchedLink {
    id: Id,
    link: Link,
    /// When the address is probed next.
    probe: Duration,
}

impl WatchedLink {
    fn new(id: Id, now: Duration) -> WatchedLink {
        WatchedLink { id, link: Link::None, probe: now.saturating_add(PROBE_AFTER) }
    }

    /// Takes an event of any link.
    fn record(&mut self, id: Id, kind: &PeerEventKind) {
        if id == self.id {
            self.link = match kind {
                PeerEventKind::Up => Link::Up,
                PeerEventKind::Lost { loss, .. } => Link::Lost(*loss),
            };
        }
    }

    /// Events were missed: one of them may have been the loss of the link.
    fn forget(&mut self) {
        self.link = Link::None;
    }

    fn find(&mut self, now: Duration) -> Finding {
        match self.link {
            Link::Lost(loss) if !is_passing(loss) => Finding::Gone,
            Link::Up | Link::Lost(_) => Finding::Present,
            Link::None if now < self.probe => Finding::Present,
            Link::None => {
                self.probe = now.saturating_add(PROBE_AFTER);
                Finding::Probe
            }
        }
    }
}

/// Watches one id.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Clock,
    events: Events,
    watched: WatchedLink,
    address: Address,
    /// The loss that is reported if the watched id cannot be linked with.
    missing: Loss,
    root_loss: RootLoss,
}

impl Watch {
    /// Watches an id with this address from now on.
    pub(super) fn new(
        node: &mut dyn Driven,
        watched: Id,
        address: Address,
        clock: &Clock,
        root_loss: &RootLoss,
    ) -> Result<Watch, BootstrapError> {
        let watched = WatchedLink::new(watched, clock.now());
        let (clock, root_loss) = (clock.clone(), root_loss.clone());
        Ok(Watch { clock, events: node.subscribe()?, watched, address, missing: Loss::Broken, root_loss })
    }

    /// The watched id.
    pub(super) fn watched(&self) -> Id {
        self.watched.id
    }

    /// Processes the events of the link, and probes the address if that is due. Returns whether the watched id has
    /// gone, as far as this process can detect it now.
    pub(super) fn detect_loss(&mut self) -> bool {
        self.catch_up();
        if self.events.missed() > 0 {
            self.watched.forget();
        }
        match self.watched.find(self.clock.now()) {
            Finding::Present => false,
            Finding::Gone => true,
            Finding::Probe => !self.address.is_answered(PROBE_LIMIT),
        }
    }

    /// Processes all events that have arrived.
    fn catch_up(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.watched.record(event.id, &event.kind);
        }
    }

    /// How the link with the watched id was lost for good, if it was. Reopens the link if it was closed.
    fn lost_by_now(&mut self, node: &mut dyn Driven) -> Result<Option<Loss>, BootstrapError> {
        if self.events.missed() > 0 {
            self.events = node.subscribe()?;
            self.watched.forget();
        }
        self.catch_up();
        match self.watched.link {
            Link::Lost(loss) if !is_passing(loss) => return Ok(Some(loss)),
            Link::Up => {}
            Link::None | Link::Lost(_) => {
                // Later events report the state of the link, unless no link could be made.
                if !self.meets(node) {
                    return Ok(Some(self.missing));
                }
                self.watched.link = Link::Up;
            }
        }
        Ok(None)
    }

    /// Links with the watched id; returns false if no process listens at its address.
    fn meets(&self, node: &mut dyn Driven) -> bool {
        let limit = self.clock.limit(MEET_LIMIT);
        // Terminates: the time limit passes.
        while !limit.is_over() {
            match node.link_with(self.watched.id, MEET_TURN) {
                Ok(()) => return true,
                Err(_) if !self.address.is_answered(PROBE_LIMIT) => return false,
                Err(_) => {}
            }
        }
        false
    }

    /// How id 0, whose address is `root`, has gone, if it has. If the watched id goes while id 0 stays, id 0 is watched
    /// instead.
    pub(super) fn left_by_now(
        &mut self,
        node: &mut dyn Driven,
        root: &Address,
    ) -> Result<Option<Loss>, BootstrapError> {
        // Terminates: the second iteration watches id 0.
        while let Some(loss) = self.lost_by_now(node)? {
            if self.watched.id == 0 || !root.is_answered(PROBE_LIMIT) {
                return Ok(Some(self.root_loss.judge(node, loss)));
            }
            // Id 0 may still accept connections for a moment after it has left. The watched id may have left because id
            // 0 has, so its loss is reported if no link with id 0 comes up.
            *self =
                Watch { missing: loss, ..Watch::new(node, 0, root.clone(), &self.clock, &self.root_loss)? };
        }
        Ok(None)
    }

    /// Waits until id 0, whose address is `root`, has gone.
    pub(super) fn until_left(
        mut self,
        node: &mut dyn Driven,
        root: &Address,
    ) -> Result<Loss, BootstrapError> {
        // Terminates: each event may be the loss of a link, and id 0's is the last.
        loop {
            if let Some(loss) = self.left_by_now(node, root)? {
                return Ok(loss);
            }
            let next = |limit| match self.events.recv_within(limit) {
                Err(NoEvent::Yet) => None,
                event => Some(event.ok()),
            };
            match await_item(node, WAIT_MAX, next) {
                Some(Some(event)) => self.watched.record(event.id, &event.kind),
                Some(None) => return Ok(Loss::Left),
                None => {}
            }
        }
    }
}

/// Whether the other side is alive, so that the lost link may come back.
fn is_passing(loss: Loss) -> bool {
    matches!(loss, Loss::Replaced | Loss::Forgotten | Loss::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{EVENTS_MAX, PeerEvent};

    fn lost(loss: Loss) -> PeerEventKind {
        PeerEventKind::Lost { loss, reason: String::new() }
    }

    #[test]
    fn the_events_of_the_watched_link_decide_and_no_others() {
        let mut watched = WatchedLink::new(3, Duration::ZERO);
        watched.record(2, &lost(Loss::Left));
        assert_eq!(watched.find(Duration::ZERO), Finding::Present);
        for (loss, found) in [
            (Loss::Left, Finding::Gone),
            (Loss::Broken, Finding::Gone),
            (Loss::Replaced, Finding::Present),
            (Loss::Forgotten, Finding::Present),
            (Loss::Closed, Finding::Present),
        ] {
            watched.record(3, &lost(loss));
            assert_eq!(watched.find(Duration::from_secs(9)), found, "{loss:?}");
            watched.record(3, &PeerEventKind::Up);
            assert_eq!(watched.find(Duration::from_secs(9)), Finding::Present, "{loss:?}");
        }
        // The loss may have been among the events that were missed: the address tells.
        watched.forget();
        assert_eq!(watched.find(Duration::from_secs(9)), Finding::Probe);
    }

    /// The loss of the watched link was among the events that found no place. The process waited for an id that had
    /// gone.
    #[test]
    fn an_address_is_probed_if_events_were_missed() {
        let event = |kind| PeerEvent { id: 3, incarnation: 1, kind };
        let up = || std::iter::repeat_with(|| event(PeerEventKind::Up)).take(EVENTS_MAX);
        let detects_loss = |events: Events| {
            let clock = Clock::reading(|| Duration::from_secs(9));
            // Nothing listens there.
            let address = Address::Abstract(format!("gpc-watch-{}", std::process::id()));
            let watched = WatchedLink::new(3, Duration::ZERO);
            let root_loss = RootLoss::new(4, 8);
            Watch { clock, events, watched, address, missing: Loss::Broken, root_loss }.detect_loss()
        };
        assert!(!detects_loss(Events::of(up())), "none was missed");
        assert!(detects_loss(Events::of(up().chain([event(lost(Loss::Left))]))));
    }

    #[test]
    fn an_address_is_probed_at_its_time_and_again_after_a_pause() {
        let (begun, moment) = (Duration::from_secs(4), Duration::from_nanos(1));
        let mut watched = WatchedLink::new(0, begun);
        assert_eq!(watched.find(begun + PROBE_AFTER - moment), Finding::Present);
        assert_eq!(watched.find(begun + PROBE_AFTER), Finding::Probe);
        assert_eq!(watched.find(begun + PROBE_AFTER), Finding::Present);
        assert_eq!(watched.find(begun + 2 * PROBE_AFTER - moment), Finding::Present);
        assert_eq!(watched.find(begun + 2 * PROBE_AFTER), Finding::Probe);
        watched.record(0, &PeerEventKind::Up);
        assert_eq!(watched.find(begun + 9 * PROBE_AFTER), Finding::Present);
    }
}
