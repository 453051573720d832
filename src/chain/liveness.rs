//! Heartbeats: a child whose answer is awaited must send a heartbeat now and then.
//!
//! A lost connection is told by the driver at once; this is for peers that are silent on a connection that stands: stopped, or cut off. Suspicion is not death: a peer is asked
//! several times before it is given up, and whatever comes from it counts as a sign. One that has announced a pause is not asked while it lasts, and its silence counts from the pause's end. A question counts from when it has left: what lies in a socket behind long data has asked nobody yet. Runs
//! only while calls are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::{Node, Output, Time};
use crate::hint::unlikely;
use crate::wire::{CauseKind, Message};

/// Longest pause that a peer may announce: what an application computes without a look at its node, with room. Whoever announces one and dies of something that nobody is told of
/// (a host without power) is found out only when it has passed, so it is no longer than an operator waits for a call that hangs.
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
    /// How often peers are asked whose answers are awaited; a third of `dead_after` at most.
    pub every: Duration,
    /// How long a peer may be silent until it is given up. It is asked at the first check after its last heartbeat; if the question takes time to leave, the peer has that much longer.
    pub dead_after: Duration,
}

impl Heartbeat {
    /// Asks four times before it gives a peer up: one answer that is late is no death.
    pub fn dead_after(dead_after: Duration) -> Heartbeat {
        Heartbeat { every: dead_after / 5, dead_after }
    }

    /// The same, where nobody is given up after one question.
    pub(crate) fn asking_often(self) -> Heartbeat {
        Heartbeat { every: self.every.min(self.dead_after / 3), ..self }
    }

    /// How long a question may go without an answer. It was asked `every` after the last heartbeat at the latest, and both together are [`dead_after`](Self::dead_after).
    fn patience(&self) -> Duration {
        self.dead_after.saturating_sub(self.every)
    }
}

/// The first question since a peer was heard.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// When it left, or until it has, when it was asked.
    at: Time,
    left: bool,
}

/// What is known of a peer that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When it was last heard, or since when it is awaited.
    heard: Time,
    question: Option<Question>,
}

impl Watched {
    /// When it is given up if it goes on being silent; `back` is when the last pause that it has announced ends.
    fn dies(&self, heartbeat: &Heartbeat, back: Option<Time>) -> Option<Time> {
        let question = self.question?;
        let silent = self.heard.max(back.unwrap_or_default());
        Some(silent.plus(heartbeat.dead_after).max(question.at.plus(heartbeat.patience())))
    }
}

/// Who is watched, and when each was last heard. Bounded by the peers whose answers are awaited, and those that are [asked beside them](super::suspects).
#[derive(Debug, Default)]
pub(super) struct Liveness {
    watched: BTreeMap<Id, Watched>,
    /// Of these, and of nobody else, the descendants of suspected peers, whose answers are not awaited here.
    descendants: BTreeSet<Id>,
    /// When the pauses end that peers have announced, or have ended; at most one for each link.
    pauses: BTreeMap<Id, Time>,
    /// When something is to be done next; none without calls.
    next: Option<Time>,
    /// When all are asked next.
    asks: Time,
    /// When they were asked last, or when the first call began.
    asked: Time,
}

/// What is known before anybody is watched.
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

    /// Takes out what is known where nobody is watched yet and nobody pauses.
    pub(super) fn take_times(&mut self) -> Option<Times> {
        let none = self.watched.is_empty() && self.descendants.is_empty() && self.pauses.is_empty();
        let next = self.next.take_if(|_| none)?;
        Some(Times { next, asks: self.asks, asked: self.asked })
    }

    /// Puts it back.
    pub(super) fn go_on(&mut self, times: Times) {
        let Times { next, asks, asked } = times;
        (self.next, self.asks, self.asked) = (Some(next), asks, asked);
    }

    /// Whether nothing is known that a later call would not find out anew.
    pub(super) fn is_blank(&self) -> bool {
        self.next.is_none()
            && self.watched.is_empty()
            && self.descendants.is_empty()
            && self.pauses.is_empty()
    }

    /// Whether heartbeats are noted at present.
    pub(super) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// How many peers are kept in mind.
    pub(super) fn watched(&self) -> usize {
        self.watched.len() + self.descendants.len()
    }

    /// Something came from a peer.
    pub(super) fn heard(&mut self, from: Id, now: Time) {
        if let Some(watched) = self.watched.get_mut(&from) {
            *watched = Watched { heard: now, question: None };
        }
    }

    /// A peer announces that it answers nothing for so long, or that it is back. Whatever else comes from it meanwhile may have been on its way.
    pub(super) fn pauses(&mut self, peer: Id, now: Time, length: Duration) {
        match length.is_zero() {
            true => self.pauses.remove(&peer),
            false => self.pauses.insert(peer, now.plus(length.min(PAUSE_MAX))),
        };
    }

    /// Whether a peer has said that it answers nothing at present.
    fn is_paused(&self, peer: Id, now: Time) -> bool {
        self.pauses.get(&peer).is_some_and(|back| *back > now)
    }

    /// A question has left for a peer.
    pub(super) fn question_left(&mut self, peer: Id, now: Time) {
        if let Some(Watched { question: Some(question), .. }) = self.watched.get_mut(&peer)
            && !question.left
        {
            *question = Question { at: now, left: true };
        }
    }

    /// The link to a peer is gone, and all that was asked on it. Of a descendant nothing was expected but a heartbeat, by whatever link.
    pub(super) fn lost(&mut self, peer: Id) {
        self.pauses.remove(&peer);
        if !self.descendants.contains(&peer) {
            self.watched.remove(&peer);
        }
    }

    /// A call has begun.
    pub(super) fn begin(&mut self, now: Time, heartbeat: &Heartbeat) {
        if self.next.is_none() {
            (self.asked, self.asks) = (now, now.plus(heartbeat.every));
            self.next = Some(self.asks);
        }
    }

    /// No call is in flight any more.
    pub(super) fn end(&mut self) {
        if unlikely(self.watches()) {
            self.forget_all();
        }
        self.next = None;
    }

    /// A peer is given up.
    fn forget(&mut self, peer: Id) {
        self.watched.remove(&peer);
        self.descendants.remove(&peer);
    }

    fn forget_all(&mut self) {
        self.watched.clear();
        self.descendants.clear();
    }

    /// Whether a peer has left a question unanswered: for half the time between two at least, so that one which has just left is no reason.
    pub(super) fn suspects(&self, peer: Id, heartbeat: &Heartbeat, now: Time) -> bool {
        let question = self.watched.get(&peer).and_then(|watched| watched.question);
        question.is_some_and(|question| now.since(question.at) >= heartbeat.every / 2)
    }

    /// Whether a peer has answered what it was last asked.
    pub(super) fn lives(&self, peer: Id) -> bool {
        self.watched.get(&peer).is_some_and(|watched| watched.question.is_none())
    }

    /// The awaited peers that have been silent for too long, and for how long.
    fn silent(&self, awaited: &BTreeMap<Id, Time>, heartbeat: &Heartbeat, now: Time) -> Vec<(Id, Duration)> {
        let watched = self.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.pauses.get(peer).copied();
        let dead =
            watched.filter(|(peer, watched)| watched.dies(heartbeat, back(peer)).is_some_and(|at| at <= now));
        let since = |peer, watched: &Watched| watched.heard.max(back(peer).unwrap_or_default());
        dead.map(|(peer, watched)| (*peer, now.since(since(peer, watched)))).collect()
    }

    /// Who is awaited from now on, and since when at the earliest; and who is asked beside them. Nobody else is kept in mind: when he is awaited again, however much later, it is as if for the first time.
    fn watch(&mut self, awaited: &BTreeMap<Id, Time>, descendants: BTreeSet<Id>) {
        self.descendants = descendants;
        self.watched.retain(|peer, _| awaited.contains_key(peer) || self.descendants.contains(peer));
        for (&peer, &begun) in awaited {
            let heard = begun.max(self.asked);
            self.watched.entry(peer).or_insert(Watched { heard, question: None });
        }
        for &peer in &self.descendants {
            // Nothing was to be heard of it, so its silence begins with the question.
            self.watched.entry(peer).or_insert(Watched { heard: self.asked, question: None });
        }
    }
}

impl Node {
    /// The peers whose answers are awaited, and when the first call began that awaits one.
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
        // This id itself was stopped: what the others have said meanwhile is still to be read, and they were not asked.
        if self.now.since(due) > heartbeat.every {
            self.liveness.forget_all();
            self.liveness.asked = self.now;
        }
        self.give_up_silent(&heartbeat);
        if self.liveness.next.is_none() {
            // The last call has ended with those that were given up.
            return;
        }
        if self.liveness.asks <= self.now {
            self.ask(&heartbeat);
        }
        let awaited = self.awaited();
        let watched = self.liveness.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.liveness.pauses.get(peer).copied();
        let dies = watched.filter_map(|(peer, watched)| watched.dies(&heartbeat, back(peer))).min();
        self.liveness.next = Some(dies.map_or(self.liveness.asks, |at| at.min(self.liveness.asks)));
    }

    /// Gives up the awaited peers that have been silent for too long, and the children of theirs that are awaited then and have been silent as long.
    fn give_up_silent(&mut self, heartbeat: &Heartbeat) {
        // Ends: each round takes some that are watched, and none is added.
        loop {
            let silent = self.liveness.silent(&self.awaited(), heartbeat, self.now);
            if silent.is_empty() {
                return;
            }
            for (peer, silent) in silent {
                self.liveness.forget(peer);
                self.emit(Output::Abandon { peer });
                let why = format!("it sent no heartbeat for {silent:?}");
                self.link_lost(peer, CauseKind::LinkLost, &why, false);
            }
        }
    }

    /// Asks everybody who is awaited, and the descendants of those that have not answered the last time.
    fn ask(&mut self, heartbeat: &Heartbeat) {
        let awaited = self.awaited();
        let descendants = self.descendants_of_suspects(&awaited, heartbeat);
        self.liveness.watch(&awaited, descendants);
        let now = self.now;
        (self.liveness.asked, self.liveness.asks) = (now, now.plus(heartbeat.every));
        let asked: Vec<Id> = self.liveness.watched.keys().copied().collect();
        for peer in asked {
            // It has answered until its end.
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
