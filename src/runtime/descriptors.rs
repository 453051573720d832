//! What a node does when file descriptors run short: each link is one, and anybody who reaches the node can hold as many as there are.
//!
//! Ids that stand among its peers are served as long as the system has any; of the others, which are strangers, the links that have been idle longest make room for the next one. A link of which a call is under way stays. Whoever
//! is closed, or refused since all are in use, is told why.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use gpc_trees::Id;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tracing::warn;

use super::events::Loss;
use super::link::Phase;
use super::links::Links;

use crate::chain::Time;
use crate::peering::{GREETING_LIMIT, LinkKey, State};
use crate::wire::CauseKind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// Descriptors that a node and its process have whatever links there are, with room for files and the memory of rings.
const OWN: u64 = 16;

/// One in so many is kept for ids that stand among the peers.
const RESERVED_PART: u64 = 8;

/// Links that strangers may have where the process may have hardly any descriptors.
const LEAST: u64 = 4;

/// One in so many of the strangers' links that may be closed is, so that to look for them costs each newcomer little.
const CLOSED_PART: usize = 16;

/// How long nobody looks for idle links when there were none, and before a system that had no descriptor left is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// How long whoever has connected may take to say hello before it counts as idle: longer than a busy machine needs.
const GRACE: Duration = Duration::from_secs(1);

/// So many that have connected last get that time where descriptors are short: each may be one of the peers.
const NEWEST: usize = 16;

/// How many links there may be, and whether there is room for another.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// Of the process.
    limit: u64,
    /// Links from which on strangers make room for each other.
    few: usize,
    /// Links from which on no more are accepted in a turn before room is made, if it can be.
    most: usize,
    /// Whether room is to be made at the end of the turn.
    short: bool,
    /// Whether the system itself has had no descriptor.
    none_left: bool,
    /// Until when it is of no use to look for links to close, since none was idle.
    full_until: Option<Time>,
    /// Peers to connect to when there is room.
    waiting: BTreeSet<Id>,
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        let waiting = BTreeSet::new();
        let mut descriptors = Descriptors {
            limit: 0,
            few: 0,
            most: 0,
            short: false,
            none_left: false,
            full_until: None,
            waiting,
        };
        descriptors.learn();
        descriptors
    }

    /// Notes how many descriptors the process may have by now.
    pub(super) fn learn(&mut self) {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let reserve = OWN + limit / RESERVED_PART;
        let links = |count: u64| usize::try_from(count.max(LEAST)).unwrap_or(usize::MAX);
        self.limit = limit;
        self.few = links(limit.saturating_sub(reserve));
        self.most = links(limit.saturating_sub(reserve / 2));
    }
}

/// Whether the system, or the process, has no descriptor left.
pub(super) fn are_short(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|short| code == Some(short.raw_os_error()))
}

impl Links {
    /// Whether room is to be made before another connection is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.descriptors.short && self.links.len() >= self.descriptors.most
    }

    /// Someone has connected.
    pub(super) fn one_more(&mut self) {
        self.descriptors.short |= self.links.len() >= self.descriptors.few;
    }

    /// The system has no descriptor for someone who connects.
    pub(super) fn none_to_accept(&mut self, now: Time) {
        self.look_again();
        self.accept_again = Some(now.plus(PAUSE));
    }

    /// The system has no descriptor for a link to a peer: it gets one when there is room, or is lost.
    pub(super) fn none_to_connect(&mut self, to: Id) {
        self.look_again();
        self.descriptors.waiting.insert(to);
    }

    fn look_again(&mut self) {
        (self.descriptors.short, self.descriptors.none_left) = (true, true);
        self.descriptors.full_until = None;
    }

    /// Why strangers who say hello are refused, if all links are in use.
    pub(super) fn has_no_room_for_strangers(&self, now: Time) -> Option<String> {
        let Descriptors { limit, few, full_until, .. } = self.descriptors;
        let refused = full_until.is_some_and(|until| now < until) && self.links.len() >= few;
        refused.then(|| format!("{}, and all others are in use", self.why_closed(limit)))
    }

    fn why_closed(&self, limit: u64) -> String {
        format!(
            "id {} has no file descriptor left for ids that are not among its peers (ulimit -n {limit}): of their links those are closed that are idle longest",
            self.me
        )
    }

    /// Whether [`make_room`](Self::make_room) has something to do.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        self.descriptors.short
    }

    /// Whether it is of use to look for links to close.
    pub(super) fn may_find_room(&self, now: Time) -> bool {
        self.descriptors.full_until.is_none_or(|until| until <= now)
    }

    /// Closes links of strangers that have been idle longest, if it is of use to look for them; none of peers that take part in calls.
    #[cold]
    pub(super) fn make_room(&mut self, now: Time, involved: Option<&BTreeSet<Id>>) {
        self.descriptors.short = false;
        if let Some(involved) = involved {
            let idle = self.idle_strangers(now, involved);
            self.descriptors.none_left = false;
            let none = idle.is_empty() && self.links.len() >= self.descriptors.few;
            self.descriptors.full_until = none.then(|| now.plus(PAUSE));
            let most = idle.len().div_ceil(CLOSED_PART);
            let limit = self.descriptors.limit;
            warn!(
                id = self.me,
                limit,
                closed = most,
                "file descriptors are short: idle links of strangers are closed"
            );
            for key in idle.into_iter().take(most) {
                self.close_idle(now, key);
            }
            if most > 0 && self.accept_again.is_some() {
                self.accept_again = Some(now);
            }
        }
        for id in std::mem::take(&mut self.descriptors.waiting) {
            self.connect_at_last(now, id);
        }
    }

    /// Links that may be closed, those that are idle longest first; links whose peers have something left to read last.
    fn idle_strangers(&self, now: Time, involved: &BTreeSet<Id>) -> Vec<LinkKey> {
        let mut idle = Vec::new();
        for (key, link) in self.links.iter() {
            if let Phase::Up(peer) = link.phase
                && !self.peering.book.contains(peer)
                && !involved.contains(&peer)
            {
                idle.push((!link.is_through(), link.used, key));
            }
        }
        let used = |key| self.links.get(key).map_or(0, |link| link.used);
        let mut silent: Vec<_> =
            self.peering.half_open().map(|(key, until)| (until, key, used(key))).collect();
        // Who has just connected may be one of the peers, as long as there is room for them.
        let pressed = self.descriptors.none_left || self.links.len() >= self.descriptors.most;
        let late = now.plus(GREETING_LIMIT.saturating_sub(GRACE));
        silent.sort_unstable();
        let old = silent.len().saturating_sub(NEWEST);
        let may_go =
            |place, until: Option<Time>| pressed || place < old || until.is_none_or(|until| until <= late);
        let silent = silent.into_iter().enumerate().filter(|(place, (until, ..))| may_go(*place, *until));
        idle.extend(silent.map(|(_, (_, key, used))| (false, used, key)));
        idle.sort_unstable();
        idle.into_iter().map(|(_, _, key)| key).collect()
    }

    fn close_idle(&mut self, now: Time, key: LinkKey) {
        let text = self.why_closed(self.descriptors.limit);
        let Some(link) = self.links.get_mut(key) else { return };
        if !matches!(link.phase, Phase::Up(_)) {
            return self.close(now, key, "descriptors are short, and it has not said hello");
        }
        link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::LinkClosed, text });
        link.loss = Loss::Closed;
        // What does not go out at once is of no use any more.
        let _ = link.flush(Time::default);
        self.close(now, key, "it was idle, and descriptors are short");
    }

    /// Connects where there was no descriptor before, if anything still waits for it.
    fn connect_at_last(&mut self, now: Time, to: Id) {
        if self.peering.state(to) == State::Absent && self.pending.contains_key(&to) {
            self.connect(now, to);
        }
        // There is still none.
        if self.descriptors.waiting.remove(&to) {
            self.descriptors.short = false;
            let why = format!(
                "no file descriptor is left (ulimit -n {}): raise the limit, or close what is not needed",
                self.descriptors.limit
            );
            self.peering.not_opened(to, CauseKind::Unreachable, &why);
            self.settle_peering(now);
        }
    }
}
