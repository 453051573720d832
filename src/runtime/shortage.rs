//! File descriptor shortage: closes idle links to make room for new ones.
//!
//! Ids among the node's peers are served as long as the system has descriptors. The other ids are strangers: their
//! longest idle links are closed to make room for new ones. A link that a call uses is never closed. If a link is
//! closed, or rejected because all are in use, the other side receives the reason.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::sorting::sort_by;
use tracing::warn;

use super::connections::Connections;
use super::descriptors::Descriptors;
use crate::chain::Time;
use crate::link::peering::{GREETING_LIMIT, LinkKey, State};
use crate::link::{Loss, Phase};
use crate::wire::CauseKind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// One in this many of the closable links is closed at once, so that the search for them costs each new connection
/// little.
const CLOSED_PART: usize = 16;

/// Pause after a search that found no idle link, and before the next attempt after the system had no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a new connection may take to send its hello before it counts as idle: longer than a busy machine needs.
const GRACE: Duration = Duration::from_secs(1);

/// While descriptors are short, only this many of the newest connections get that time: each may be a peer.
const NEWEST: usize = 16;

impl Connections {
    /// Whether links must be closed before another connection is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.descriptors.is_short && self.links.table.len() >= self.descriptors.hard_max
    }

    /// Records a new connection.
    pub(super) fn note_connection(&mut self) {
        self.descriptors.is_short |= self.links.table.len() >= self.descriptors.soft_max;
    }

    /// Records that the system had no descriptor for an incoming connection.
    pub(super) fn note_accept_shortage(&mut self, now: Time) {
        self.note_exhaustion();
        self.accepting.again = Some(now.plus(PAUSE));
    }

    /// Records that the system had no descriptor for a link to a peer: it gets one when one is free, or is lost.
    pub(super) fn note_connect_shortage(&mut self, to: Id) {
        self.note_exhaustion();
        self.descriptors.waiting.insert(to);
    }

    /// Records that the system has no descriptor left: idle links are closed at the end of the turn.
    fn note_exhaustion(&mut self) {
        (self.descriptors.is_short, self.descriptors.is_exhausted) = (true, true);
        self.descriptors.full_until = None;
    }

    /// Returns why hellos of strangers are rejected, if all links are in use.
    pub(super) fn has_no_room_for_strangers(&self, now: Time) -> Option<String> {
        let Descriptors { limit, soft_max, full_until, .. } = self.descriptors;
        let refused = full_until.is_some_and(|until| now < until) && self.links.table.len() >= soft_max;
        refused.then(|| format!("{}, and all others are in use", self.why_closed(limit)))
    }

    fn why_closed(&self, limit: u64) -> String {
        format!(
            "id {} has no file descriptor left for ids that are not among its peers (ulimit -n {limit}): of their links those are closed that are idle longest",
            self.links.me
        )
    }

    /// Whether [`make_room`](Self::make_room) has work to do.
    #[inline(always)]
    pub(super) fn is_short(&self) -> bool {
        self.descriptors.is_short
    }

    /// Whether a search for links to close may succeed.
    pub(super) fn may_find_room(&self, now: Time) -> bool {
        self.descriptors.full_until.is_none_or(|until| until <= now)
    }

    /// Closes the longest idle links of strangers, if a search may succeed; never those of peers that take part in
    /// calls.
    #[cold]
    pub(super) fn make_room(&mut self, now: Time, involved: Option<&BTreeSet<Id>>) {
        self.descriptors.is_short = false;
        if let Some(involved) = involved {
            let idle = self.idle_strangers(now, involved);
            self.descriptors.is_exhausted = false;
            let none = idle.is_empty() && self.links.table.len() >= self.descriptors.soft_max;
            self.descriptors.full_until = none.then(|| now.plus(PAUSE));
            let most = idle.len().div_ceil(CLOSED_PART);
            let limit = self.descriptors.limit;
            warn!(
                id = self.links.me,
                limit,
                closed = most,
                "file descriptors are short: idle links of strangers are closed"
            );
            for key in idle.into_iter().take(most) {
                self.close_idle(now, key);
            }
            if most > 0 && self.accepting.again.is_some() {
                self.accepting.again = Some(now);
            }
        }
        for id in std::mem::take(&mut self.descriptors.waiting) {
            self.retry_connect(now, id);
        }
    }

    /// Returns the closable links, the longest idle first. Links with unsent bytes come last.
    fn idle_strangers(&self, now: Time, involved: &BTreeSet<Id>) -> Vec<LinkKey> {
        let mut idle = Vec::new();
        for (key, connection) in self.links.table.iter() {
            if let Phase::Up(peer) = connection.link.phase
                && !self.links.peering.book.contains(peer)
                && !involved.contains(&peer)
            {
                idle.push((!connection.is_flushed(), connection.used, key));
            }
        }
        let used = |key| self.links.table.get(key).map_or(0, |connection| connection.used);
        let mut silent: Vec<_> =
            self.links.peering.half_open().map(|(key, until)| (until, key, used(key))).collect();
        // A new connection may be a peer, as long as there is room.
        let pressed = self.descriptors.is_exhausted || self.links.table.len() >= self.descriptors.hard_max;
        let late = now.plus(GREETING_LIMIT.saturating_sub(GRACE));
        sort_by(&mut silent, Ord::cmp);
        let old = silent.len().saturating_sub(NEWEST);
        let may_go =
            |place, until: Option<Time>| pressed || place < old || until.is_none_or(|until| until <= late);
        let silent = silent.into_iter().enumerate().filter(|(place, (until, ..))| may_go(*place, *until));
        idle.extend(silent.map(|(_, (_, key, used))| (false, used, key)));
        sort_by(&mut idle, Ord::cmp);
        idle.into_iter().map(|(_, _, key)| key).collect()
    }

    fn close_idle(&mut self, now: Time, key: LinkKey) {
        let text = self.why_closed(self.descriptors.limit);
        let Some(connection) = self.links.table.get_mut(key) else { return };
        let link = &mut connection.link;
        if !matches!(link.phase, Phase::Up(_)) {
            return self.close(now, key, "descriptors are short, and it has not said hello");
        }
        link.outbox.push_goodbye(&Goodbye { reason: GoodbyeReason::LinkClosed, text });
        link.loss = Loss::Closed;
        // Bytes that cannot be sent at once are lost.
        let _ = connection.flush(Time::default);
        self.close(now, key, "it was idle, and descriptors are short");
    }

    /// Connects where there was no descriptor before, if a message still waits for that link.
    fn retry_connect(&mut self, now: Time, to: Id) {
        if self.links.peering.state(to) == State::Absent && self.links.pending.contains(to) {
            self.connect(now, to);
            self.settle(now);
        }
        // There is still no descriptor.
        if self.descriptors.waiting.remove(&to) {
            self.descriptors.is_short = false;
            let why = format!(
                "no file descriptor is left (ulimit -n {}): raise the limit, or close what is not needed",
                self.descriptors.limit
            );
            self.links.fail_outgoing(now, to, CauseKind::Unreachable, &why);
            self.settle(now);
        }
    }
}

#[cfg(test)]
mod tests;
