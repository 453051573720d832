//! Heartbeats: a child whose answer is awaited must send a heartbeat now and then.
//!
//! The driver reports a lost connection at once; heartbeats detect peers that are silent on an open connection, because
//! they are stopped or cut off. Suspicion is not death: a peer is asked several times before it is given up, and
//! anything that arrives from it counts as a heartbeat.
//!
//! A peer that has announced a pause is not asked while it lasts, and its silence counts from the end of the pause. A
//! question counts from when it has left: behind long data in a socket it has not reached the peer yet. Heartbeats run
//! only while calls are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::{Node, Output, Time};
use crate::hint::unlikely;
use crate::wire::{CauseKind, Message};

/// Maximum pause that a peer may announce: longer than an application computes without polling its node. If a peer
/// announces a pause and then dies unnoticed (a host without power), this is detected only after the pause. So the
/// pause is no longer than an operator waits for a call that hangs.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// When a silent peer is asked for a heartbeat, and when it is given up.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Heartbeat, Node};
///
/// let heartbeat = Heartbeat::dead_after(Duration::from_secs(5));
/// assert_eq!(heartbeat.every, Duration::from_secs(1));
/// let node = Node::builder(0).heartbeat(Some(heartbeat)).start()?;
/// # let _ = node;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// Interval at which peers are asked whose answers are awaited; at most a third of `dead_after`.
    pub every: Duration,
    /// How long a peer may be silent before it is given up. It is asked at the first check after its last heartbeat; if
    /// the question takes time to leave, the peer has that much longer.
    pub dead_after: Duration,
}

impl Heartbeat {
    /// Returns a heartbeat that asks four times before it gives a peer up, so that a single late answer is tolerated.
    pub fn dead_after(dead_after: Duration) -> Heartbeat {
        Heartbeat { every: dead_after / 5, dead_after }
    }

    /// Returns the heartbeat with an interval short enough that a peer is asked more than once before it is given up.
    pub(crate) fn asking_often(self) -> Heartbeat {
        Heartbeat { every: self.every.min(self.dead_after / 3), ..self }
    }

    /// How long a question may stay unanswered. It was asked at most `every` after the last heartbeat, and both times
    /// together are [`dead_after`](Self::dead_after).
    fn patience(&self) -> Duration {
        self.dead_after.saturating_sub(self.every)
    }
}

/// The first question since the last heartbeat of a peer.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// When it left; until then, when it was asked.
    at: Time,
    left: bool,
}

/// State of a watched peer.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When its last heartbeat arrived, or since when it is awaited.
    heard: Time,
    question: Option<Question>,
}

impl Watched {
    /// Returns when it is given up if it stays silent; `back` is the end of its last announced pause.
    fn dies(&self, heartbeat: &Heartbeat, back: Option<Time>) -> Option<Time> {
        let question = self.question?;
        let silent = self.heard.max(back.unwrap_or_default());
        Some(silent.plus(heartbeat.dead_after).max(question.at.plus(heartbeat.patience())))
    }
}

/// The watched peers and the times of their last heartbeats. Bounded by the peers whose answers are awaited and those
/// that are [asked besides](super::suspects).
#[derive(Debug, Default)]
pub(super) struct Liveness {
    watched: BTreeMap<Id, Watched>,
    /// The watched descendants of suspected peers, whose answers are not awaited here.
    descendants: BTreeSet<Id>,
    /// Ends of the pauses that peers have announced, including past ones; at most one for each link.
    pauses: BTreeMap<Id, Time>,
    /// When the next action is due; `None` without calls.
    next: Option<Time>,
    /// When all are asked next.
    asks: Time,
    /// When they were asked last, or when the first call began.
    asked: Time,
}

/// The state before any peer is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) next: Time,
    asks: Time,
    asked: Time,
}

impl Liveness {
    pub(super) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Takes out the times, if no peer is watched and none pauses.
    pub(super) fn take_times(&mut self) -> Option<Times> {
        let none = self.watched.is_empty() && self.descendants.is_empty() && self.pauses.is_empty();
        let next = self.next.take_if(|_| none)?;
        Some(Times { next, asks: self.asks, asked: self.asked })
    }

    /// Puts the times back.
    pub(super) fn go_on(&mut self, times: Times) {
        let Times { next, asks, asked } = times;
        (self.next, self.asks, self.asked) = (Some(next), asks, asked);
    }

    /// Whether all state that a later call would need is empty.
    pub(super) fn is_blank(&self) -> bool {
        self.next.is_none()
            && self.watched.is_empty()
            && self.descendants.is_empty()
            && self.pauses.is_empty()
    }

    /// Whether heartbeats are recorded at present.
    pub(super) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Number of entries about peers.
    pub(super) fn watched(&self) -> usize {
        self.watched.len() + self.descendants.len()
    }

    /// Records that something arrived from a peer.
    pub(super) fn heard(&mut self, from: Id, now: Time) {
        if let Some(watched) = self.watched.get_mut(&from) {
            *watched = Watched { heard: now, question: None };
        }
    }

    /// Records that a peer stops answering for this long, or that its pause has ended. Other messages from it meanwhile
    /// may have been in transit.
    pub(super) fn pauses(&mut self, peer: Id, now: Time, length: Duration) {
        match length.is_zero() {
            true => self.pauses.remove(&peer),
            false => self.pauses.insert(peer, now.plus(length.min(PAUSE_MAX))),
        };
    }

    /// Whether a peer is in an announced pause.
    fn is_paused(&self, peer: Id, now: Time) -> bool {
        self.pauses.get(&peer).is_some_and(|back| *back > now)
    }

    /// Records that a question to a peer has left.
    pub(super) fn question_left(&mut self, peer: Id, now: Time) {
        if let Some(Watched { question: Some(question), .. }) = self.watched.get_mut(&peer)
            && !question.left
        {
            *question = Question { at: now, left: true };
        }
    }

    /// Drops the state of a peer whose link is gone. A descendant stays: only a heartbeat is expected from it, on any
    /// link.
    pub(super) fn lost(&mut self, peer: Id) {
        self.pauses.remove(&peer);
        if !self.descendants.contains(&peer) {
            self.watched.remove(&peer);
        }
    }

    /// Starts heartbeats when a call begins.
    pub(super) fn begin(&mut self, now: Time, heartbeat: &Heartbeat) {
        if self.next.is_none() {
            (self.asked, self.asks) = (now, now.plus(heartbeat.every));
            self.next = Some(self.asks);
        }
    }

    /// Stops heartbeats when no call is in flight.
    pub(super) fn end(&mut self) {
        if unlikely(self.watches()) {
            self.forget_all();
        }
        self.next = None;
    }

    /// Drops a peer that is given up.
    fn forget(&mut self, peer: Id) {
        self.watched.remove(&peer);
        self.descendants.remove(&peer);
    }

    fn forget_all(&mut self) {
        self.watched.clear();
        self.descendants.clear();
    }

    /// Whether a peer has left a question unanswered for at least half an interval, so that a question that has just
    /// left does not count.
    pub(super) fn suspects(&self, peer: Id, heartbeat: &Heartbeat, now: Time) -> bool {
        let question = self.watched.get(&peer).and_then(|watched| watched.question);
        question.is_some_and(|question| now.since(question.at) >= heartbeat.every / 2)
    }

    /// Whether a peer has answered its last question.
    pub(super) fn lives(&self, peer: Id) -> bool {
        self.watched.get(&peer).is_some_and(|watched| watched.question.is_none())
    }

    /// Returns the awaited peers that have been silent for too long, and how long.
    fn silent(&self, awaited: &BTreeMap<Id, Time>, heartbeat: &Heartbeat, now: Time) -> Vec<(Id, Duration)> {
        let watched = self.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.pauses.get(peer).copied();
        let dead =
            watched.filter(|(peer, watched)| watched.dies(heartbeat, back(peer)).is_some_and(|at| at <= now));
        let since = |peer, watched: &Watched| watched.heard.max(back(peer).unwrap_or_default());
        dead.map(|(peer, watched)| (*peer, now.since(since(peer, watched)))).collect()
    }

    /// Sets the awaited peers, each with the earliest time since when, and the descendants to ask besides. All others
    /// are dropped: a peer that is awaited again later starts anew.
    fn watch(&mut self, awaited: &BTreeMap<Id, Time>, descendants: BTreeSet<Id>) {
        self.descendants = descendants;
        self.watched.retain(|peer, _| awaited.contains_key(peer) || self.descendants.contains(peer));
        for (&peer, &begun) in awaited {
            let heard = begun.max(self.asked);
            self.watched.entry(peer).or_insert(Watched { heard, question: None });
        }
        for &peer in &self.descendants {
            // Nothing was expected of it before, so its silence begins with the question.
            self.watched.entry(peer).or_insert(Watched { heard: self.asked, question: None });
        }
    }
}

impl Node {
    /// Returns the peers whose answers are awaited, and for each when the first call began that awaits one.
    fn awaited(&self) -> BTreeMap<Id, Time> {
        let mut awaited = BTreeMap::new();
        let mut note = |peer, begun: Time| {
            awaited.entry(peer).and_modify(|first: &mut Time| *first = begun.min(*first)).or_insert(begun);
        };
        for spot in self.spots.iter().flat_map(|spots| spots.iter()) {
            spot.awaited_ids().for_each(|peer| note(peer, spot.begun));
        }
        for call in self.calls.iter() {
            call.awaited_ids().for_each(|peer| note(peer, call.begun));
        }
        awaited
    }

    /// Asks the peers whose answers are awaited, and gives up those that have been silent for too long.
    pub(super) fn beat(&mut self) {
        let Some(heartbeat) = self.config.heartbeat else { return };
        let Some(due) = self.liveness.next.filter(|at| *at <= self.now) else { return };
        // This id itself was stopped: messages of the others are still unread, and they were not asked.
        if self.now.since(due) > heartbeat.every {
            self.liveness.forget_all();
            self.liveness.asked = self.now;
        }
        let gave_up = self.give_up_silent(&heartbeat);
        if self.liveness.next.is_none() {
            // The last call has ended with the peers that were given up.
            return;
        }
        if self.liveness.asks <= self.now {
            self.ask(&heartbeat, gave_up);
        }
        let awaited = self.awaited();
        let watched = self.liveness.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.liveness.pauses.get(peer).copied();
        let dies = watched.filter_map(|(peer, watched)| watched.dies(&heartbeat, back(peer))).min();
        self.liveness.next = Some(dies.map_or(self.liveness.asks, |at| at.min(self.liveness.asks)));
    }

    /// Gives up the awaited peers that have been silent for too long, then those of their children that are awaited now
    /// and have been silent as long. Returns whether there were any.
    fn give_up_silent(&mut self, heartbeat: &Heartbeat) -> bool {
        let mut any = false;
        // Ends: each iteration removes watched peers, and none is added.
        loop {
            let silent = self.liveness.silent(&self.awaited(), heartbeat, self.now);
            if silent.is_empty() {
                return any;
            }
            any = true;
            for (peer, silent) in silent {
                self.liveness.forget(peer);
                self.emit(Output::Abandon { peer });
                let why = format!("it sent no heartbeat for {silent:?}");
                self.link_lost(peer, CauseKind::LinkLost, &why, false);
            }
        }
    }

    /// Asks all awaited peers, and the descendants of those that have not answered the last question. `gave_up`: a
    /// silent peer has just been given up.
    fn ask(&mut self, heartbeat: &Heartbeat, gave_up: bool) {
        // Where requests are delayed, their receivers are awaited soon, and asking before would forget their silence.
        // The questions wait once in each interval, and again after each time that a peer is given up: delayed requests
        // do not hold them back for good.
        let (latest, soon) = (self.liveness.asked.plus(heartbeat.every), heartbeat.every / 4);
        let waits = self.now < latest.plus(soon) || gave_up;
        if waits && self.calls.iter().any(|call| call.unasked.is_some()) {
            self.liveness.asks = latest.max(self.now).plus(soon);
            return;
        }
        let awaited = self.awaited();
        let descendants = self.descendants_of_suspects(&awaited, heartbeat);
        self.liveness.watch(&awaited, descendants);
        let now = self.now;
        (self.liveness.asked, self.liveness.asks) = (now, now.plus(heartbeat.every));
        let asked: Vec<Id> = self.liveness.watched.keys().copied().collect();
        for peer in asked {
            // It answers after the end of its pause.
            if self.liveness.is_paused(peer, now) {
                continue;
            }
            if let Some(watched) = self.liveness.watched.get_mut(&peer) {
                watched.question.get_or_insert(Question { at: now, left: false });
            }
            self.emit(Output::Send { to: peer, message: Message::Ping });
        }
    }
}
