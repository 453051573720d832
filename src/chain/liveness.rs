//! The state of heartbeats: when each awaited peer last sent one, and the questions to it (heartbeat requests).
//!
//! A peer that has announced a pause is not asked while it lasts, and its silence counts from the end of the pause. A
//! question counts from when it has left: behind long data in a socket it has not reached the peer yet.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::Id;

use super::heartbeat::PAUSE_MAX;
use super::{Heartbeat, Time};
use crate::branch_hint::unlikely;
use crate::wire::{CallId, CallState, Straggler};

/// The first question since the last heartbeat of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// When it left; until then, when it was asked.
    pub(super) at: Time,
    pub(super) left: bool,
}

/// State of a watched peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// When its last heartbeat arrived, or since when it is awaited.
    pub(super) last_activity: Time,
    pub(super) question: Option<Question>,
}

impl Watched {
    /// Returns when the peer is given up if it stays silent; `back` is the end of its last announced pause.
    pub(super) fn dies(&self, heartbeat: &Heartbeat, back: Option<Time>) -> Option<Time> {
        let question = self.question?;
        let silent = self.last_activity.max(back.unwrap_or_default());
        Some(silent.plus(heartbeat.dead_after).max(question.at.plus(heartbeat.patience())))
    }
}

/// What a peer has reported that calls wait for.
#[derive(Debug)]
struct StoredReport {
    /// When it arrived.
    at: Time,
    /// Whether its PONG has arrived.
    has_pong: bool,
    stragglers: Vec<(CallId, Straggler)>,
}

/// The watched peers and the times of their last heartbeats. Bounded by the peers whose answers are awaited and those
/// that are [asked besides](super::suspects).
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) watched: BTreeMap<Id, Watched>,
    /// Last STRAGGLERS of each watched peer, and when it arrived.
    reports: BTreeMap<Id, StoredReport>,
    /// The watched descendants of suspected peers, whose answers are not awaited here.
    descendants: BTreeSet<Id>,
    /// Ends of the pauses that peers have announced, including past ones; at most one for each link.
    pub(super) pauses: BTreeMap<Id, Time>,
    /// When the next action is due; `None` without calls.
    pub(super) next: Option<Time>,
    /// When the watched peers are asked next.
    pub(super) asks: Time,
    /// When they were asked last, or when the first call began.
    pub(super) asked: Time,
}

impl Liveness {
    pub(super) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Whether heartbeats are recorded at present.
    pub(super) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Number of entries about peers. A watched descendant has two.
    pub(super) fn watched(&self) -> usize {
        self.watched.len() + self.descendants.len()
    }

    /// Number of peers that have been asked, and have not answered.
    #[cfg(feature = "snapshot")]
    pub(super) fn questions(&self) -> usize {
        self.watched.values().filter(|watched| watched.question.is_some()).count()
    }

    /// Records that something arrived from a peer.
    pub(super) fn record_activity(&mut self, from: Id, now: Time) {
        if let Some(watched) = self.watched.get_mut(&from) {
            *watched = Watched { last_activity: now, question: None };
        }
    }

    /// Stores what calls wait for below a watched peer.
    pub(super) fn store_report(&mut self, from: Id, now: Time, stragglers: Vec<(CallId, Straggler)>) {
        if self.watched.contains_key(&from) {
            self.reports.insert(from, StoredReport { at: now, has_pong: false, stragglers });
        }
    }

    /// Handles a PONG. STRAGGLERS precede it: without them the peer has nothing to report any more, and its last report
    /// is dropped.
    pub(super) fn pong_came(&mut self, from: Id) {
        if let Entry::Occupied(mut report) = self.reports.entry(from)
            && std::mem::replace(&mut report.get_mut().has_pong, true)
        {
            report.remove();
        }
    }

    /// The id that a call waits for below a child, if it is known: the child if it is silent, or what it has reported.
    pub(super) fn straggler(
        &self,
        child: Id,
        call: CallId,
        heartbeat: &Heartbeat,
        now: Time,
    ) -> Option<Straggler> {
        if self.suspects(child, heartbeat, now) {
            return Some(Straggler::new(child, CallState::Silent, self.silence(child, now)?));
        }
        let report = self.reports.get(&child)?;
        let (_, it) = report.stragglers.iter().find(|(of, _)| *of == call)?;
        Some(Straggler::new(it.id, it.state, it.since.saturating_add(now.since(report.at))))
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
    pub(super) fn is_paused(&self, peer: Id, now: Time) -> bool {
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
        self.reports.remove(&peer);
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

    /// Drops the state of a peer that is given up.
    pub(super) fn forget(&mut self, peer: Id) {
        self.watched.remove(&peer);
        self.reports.remove(&peer);
        self.descendants.remove(&peer);
    }

    pub(super) fn forget_all(&mut self) {
        self.watched.clear();
        self.reports.clear();
        self.descendants.clear();
    }

    /// Whether a peer has left a question unanswered for at least half an interval, so that a question that has just
    /// left does not count.
    pub(super) fn suspects(&self, peer: Id, heartbeat: &Heartbeat, now: Time) -> bool {
        let question = self.watched.get(&peer).and_then(|watched| watched.question);
        question.is_some_and(|question| now.since(question.at) >= heartbeat.every / 2)
    }

    /// How long a peer has been silent that has not answered a question; `None` if it has answered, or was not asked.
    pub(super) fn silence(&self, peer: Id, now: Time) -> Option<Duration> {
        let watched = self.watched.get(&peer).filter(|watched| watched.question.is_some())?;
        Some(now.since(watched.last_activity))
    }

    /// Whether a peer has answered its last question.
    pub(super) fn lives(&self, peer: Id) -> bool {
        self.watched.get(&peer).is_some_and(|watched| watched.question.is_none())
    }

    /// Returns the awaited peers that have been silent for too long, and how long.
    pub(super) fn silent(
        &self,
        awaited: &BTreeMap<Id, Time>,
        heartbeat: &Heartbeat,
        now: Time,
    ) -> Vec<(Id, Duration)> {
        let watched = self.watched.iter().filter(|(peer, _)| awaited.contains_key(peer));
        let back = |peer| self.pauses.get(peer).copied();
        let dead =
            watched.filter(|(peer, watched)| watched.dies(heartbeat, back(peer)).is_some_and(|at| at <= now));
        let since = |peer, watched: &Watched| watched.last_activity.max(back(peer).unwrap_or_default());
        dead.map(|(peer, watched)| (*peer, now.since(since(peer, watched)))).collect()
    }

    /// Sets the awaited peers, each with the earliest time since when, and the descendants to ask besides. All others
    /// are dropped: a peer that is awaited again later starts anew.
    pub(super) fn watch(&mut self, awaited: &BTreeMap<Id, Time>, descendants: BTreeSet<Id>) {
        self.descendants = descendants;
        self.watched.retain(|peer, _| awaited.contains_key(peer) || self.descendants.contains(peer));
        self.reports.retain(|peer, _| self.watched.contains_key(peer));
        for (&peer, &begun) in awaited {
            let last_activity = begun.max(self.asked);
            self.watched.entry(peer).or_insert(Watched { last_activity, question: None });
        }
        for &peer in &self.descendants {
            // Nothing was expected of it before, so its silence begins with the question.
            self.watched.entry(peer).or_insert(Watched { last_activity: self.asked, question: None });
        }
    }
}
