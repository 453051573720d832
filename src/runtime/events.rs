//! Events of peers for the application: links that come up or are lost, in order, in a bounded queue.
//!
//! The event loop never waits for a listener: an event that does not fit is counted. Without listeners, a change of a
//! link costs one check of an empty list.
#![allow(clippy::disallowed_methods, reason = "a listener waits by the clock of its own thread")]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use gpc_trees::Id;

use crate::link::Loss;

/// Maximum number of queued events of a listener, beside those about links that were up when it subscribed. It covers
/// all nodes of a large rack that go and come back while the listener is busy; some 100 KiB.
pub const EVENTS_MAX: usize = 1024;

/// A change of the link with a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PeerEvent {
    /// The peer.
    pub id: Id,
    /// The run of the peer that the link is, or was, with: a restarted process of the same id has another number. The
    /// order of the numbers has no meaning.
    pub incarnation: u64,
    /// What has happened.
    pub kind: PeerEventKind,
}

/// What has happened to the link with a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PeerEventKind {
    /// The link is up.
    Up,
    /// The link was up, and is lost: calls that used it have failed. A failed attempt to connect is not an event.
    Lost {
        /// How it was lost.
        loss: Loss,
        /// In words, for people.
        reason: String,
    },
}

/// Why there is no event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoEvent {
    /// No event has occurred yet.
    #[error("no event has come yet")]
    Yet,
    /// The node and its links have ended, and all events have been taken.
    #[error("the node has ended")]
    Ended,
}

/// Receives the events of a node's peers, from [`Node::events`](crate::Node::events) or
/// [`PolledNode::events`](crate::PolledNode::events).
///
/// The first events are one [`Up`](PeerEventKind::Up) for each link that is up at the subscription. From then on each
/// change is one event, in order: for one id [`Up`](PeerEventKind::Up) and [`Lost`](PeerEventKind::Lost) alternate.
/// Links open when calls first need them, so a peer may be alive without any event about it.
///
/// At most [`EVENTS_MAX`] events are queued, beside the first ones. Later ones are dropped and counted in
/// [`missed`](Self::missed); the node never waits for a full queue. A program that maintains a list of the peers starts
/// again with a new `Events` when that number has grown.
///
/// Any thread may take events, also several threads concurrently: each event is returned once. Dropping the value ends
/// the subscription.
///
/// ```
/// use std::time::Duration;
/// use chained_gpc::runtime::{NoEvent, PeerEventKind};
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let nodes = LocalNodes::start(2, LinkKind::default(), &functions)?;
/// let events = nodes.root().events()?;
/// assert_eq!(events.try_recv(), Err(NoEvent::Yet));
/// nodes.root().call(Call::new(hello).ids(0..2))?.wait()?;
/// let event = events.recv_within(Duration::from_secs(10))?;
/// assert_eq!((event.id, event.kind), (1, PeerEventKind::Up));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Events(Arc<Queue>);

/// The queue of one listener.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<PeerEvent>,
    /// Maximum number of queued events.
    room: usize,
    missed: u64,
    ended: bool,
    /// Number of threads that wait for an event: a wake-up without a waiting thread would still be a system call.
    sleepers: usize,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Result<PeerEvent, NoEvent> {
        match self.events.pop_front() {
            Some(event) => Ok(event),
            None if self.ended => Err(NoEvent::Ended),
            None => Err(NoEvent::Yet),
        }
    }
}

impl Events {
    /// Creates both ends: the receiver and the sender.
    pub(super) fn new() -> (Events, Listener) {
        let queue = Arc::new(Queue::default());
        queue.state().room = EVENTS_MAX;
        let listener = Listener(Arc::downgrade(&queue));
        (Events(queue), listener)
    }

    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// [`NoEvent`].
    pub fn try_recv(&self) -> Result<PeerEvent, NoEvent> {
        self.0.state().take()
    }

    /// Returns the next event; waits for it up to `limit`. The thread that drives a [`PolledNode`](crate::PolledNode)
    /// waits in [`progress`](crate::PolledNode::progress) instead: no event can occur while it waits here.
    ///
    /// # Errors
    /// [`NoEvent`]; [`NoEvent::Yet`] means that the time has passed.
    pub fn recv_within(&self, limit: Duration) -> Result<PeerEvent, NoEvent> {
        let begun = Instant::now();
        let mut state = self.0.state();
        // Terminates: the time limit passes.
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            match state.take() {
                Err(NoEvent::Yet) if !left.is_zero() => {}
                other => return other,
            }
            state.sleepers += 1;
            let (woken, _) = self.0.came.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.sleepers -= 1;
        }
    }

    /// Number of events that were dropped since the subscription.
    pub fn missed(&self) -> u64 {
        self.0.state().missed
    }
}

/// The sender of events. Its drop marks the end of the node.
#[derive(Debug)]
pub(super) struct Listener(Weak<Queue>);

impl Listener {
    /// Whether the receiver still exists.
    pub(super) fn has_receiver(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Sends an event; returns false if the receiver has been dropped.
    pub(super) fn tell(&self, event: PeerEvent) -> bool {
        let Some(queue) = self.0.upgrade() else { return false };
        let mut state = queue.state();
        match state.events.len() < state.room {
            true => state.events.push_back(event),
            false => state.missed += 1,
        }
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            queue.came.notify_one();
        }
        true
    }

    /// Number of queued events.
    #[cfg(feature = "snapshot")]
    pub(super) fn queued(&self) -> usize {
        self.0.upgrade().map_or(0, |queue| queue.state().events.len())
    }

    /// Adds places for the events about links that are up already.
    pub(super) fn add_room(&self, count: usize) {
        if let Some(queue) = self.0.upgrade() {
            queue.state().room += count;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(queue) = self.0.upgrade() {
            queue.state().ended = true;
            queue.came.notify_all();
        }
    }
}

#[cfg(test)]
impl Events {
    /// The queue of a node that has ended after these events.
    pub(crate) fn of(events: impl IntoIterator<Item = PeerEvent>) -> Events {
        let (queue, listener) = Events::new();
        for event in events {
            listener.tell(event);
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Id) -> PeerEvent {
        PeerEvent { id, incarnation: 7, kind: PeerEventKind::Up }
    }

    #[test]
    fn an_event_without_room_is_counted_and_queued_ones_are_kept() {
        let (events, listener) = Events::new();
        let all = EVENTS_MAX as Id + 10;
        assert!((0..all).all(|id| listener.tell(event(id))));
        assert_eq!(events.missed(), 10);
        assert_eq!(events.try_recv(), Ok(event(0)));
        assert!(listener.tell(event(all)));
        drop(listener);
        let rest: Vec<Id> = std::iter::from_fn(|| Some(events.try_recv().ok()?.id)).collect();
        assert!(rest.iter().copied().eq((1..EVENTS_MAX as Id).chain([all])));
        assert_eq!((events.try_recv(), events.missed()), (Err(NoEvent::Ended), 10));
        assert_eq!(events.recv_within(Duration::from_secs(3600)), Err(NoEvent::Ended));
    }

    #[test]
    fn a_waiting_thread_is_woken_by_an_event_and_by_the_end() {
        let (events, listener) = Events::new();
        assert_eq!(events.recv_within(Duration::from_millis(1)), Err(NoEvent::Yet));
        std::thread::scope(|scope| {
            let wait = || events.recv_within(Duration::from_secs(3600));
            let waiting = scope.spawn(move || [wait(), wait()]);
            assert!(listener.tell(event(5)));
            drop(listener);
            assert_eq!(waiting.join().unwrap(), [Ok(event(5)), Err(NoEvent::Ended)]);
        });
    }

    fn until_asleep(events: &Events, threads: usize) {
        let asleep = (0..u32::MAX).any(|_| {
            std::thread::yield_now();
            events.0.state().sleepers == threads
        });
        assert!(asleep);
    }

    /// Whether these threads end soon, long before the limit of their waits.
    fn end<T>(threads: &[std::thread::ScopedJoinHandle<'_, T>]) -> bool {
        (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            threads.iter().all(std::thread::ScopedJoinHandle::is_finished)
        })
    }

    /// A wait that is not woken finds its event only at its time limit.
    #[test]
    fn threads_that_sleep_are_woken_one_by_an_event_and_all_by_the_end() {
        let (events, listener) = Events::new();
        let woken = std::thread::scope(|scope| {
            let wait = || events.recv_within(Duration::from_secs(8));
            let one = [scope.spawn(wait)];
            until_asleep(&events, 1);
            assert!(listener.tell(event(5)));
            let woken = end(&one);
            assert_eq!(one.map(|thread| thread.join().unwrap()), [Ok(event(5))]);
            let all = [scope.spawn(wait), scope.spawn(wait)];
            until_asleep(&events, 2);
            drop(listener);
            let woken = [woken, end(&all)];
            assert_eq!(all.map(|thread| thread.join().unwrap()), [Err(NoEvent::Ended), Err(NoEvent::Ended)]);
            woken
        });
        assert_eq!((woken, events.0.state().sleepers), ([true, true], 0));
    }

    #[test]
    fn links_that_are_up_have_places_of_their_own() {
        let (events, listener) = Events::new();
        listener.add_room(2);
        assert!((0..EVENTS_MAX as Id + 3).all(|id| listener.tell(event(id))));
        let queued = events.0.state().events.len();
        assert_eq!((queued, events.missed()), (EVENTS_MAX + 2, 1));
    }

    #[test]
    fn a_dropped_receiver_gets_no_events() {
        let (events, listener) = Events::new();
        drop(events);
        assert!(!listener.tell(event(1)));
    }
}
