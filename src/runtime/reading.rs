//! Reads the links: converts the messages of peers into inputs of the chain.
//!
//! Source: docs/wire.md; a link's first frame is a hello, and the others are for the chain or for the link itself.

use super::clock::Clock;
use super::connection::Progress;
use super::connections::Connections;
use super::functions::Functions;
use super::readiness::Readiness;
use crate::branch_hint::{cold_path, unlikely};
use crate::chain::Time;
use crate::link::Phase;
use crate::link::peering::LinkKey;
use crate::transport::{ByteStream as _, SharedMemory as _};

impl Connections {
    /// Handles an event of a connecting link; returns whether it is connected.
    #[cold]
    fn connected(&mut self, now: Time, key: LinkKey) -> bool {
        let Some(connection) = self.links.table.get_mut(key) else { return false };
        match connection.socket.connect_error() {
            Ok(Some(error)) | Err(error) => {
                self.close(now, key, &error.to_string());
                return false;
            }
            Ok(None) if !connection.socket.is_connected() => return false,
            Ok(None) => {}
        }
        self.greet(now, key);
        true
    }

    /// Handles an event of a link's socket; returns whether there is something to read.
    pub(super) fn ready(&mut self, clock: &Clock, key: LinkKey, event: Readiness) -> bool {
        let Some(link) = self.links.table.link_mut(key) else { return false };
        if let Phase::Connecting(_) = link.phase
            && !self.connected(clock.time(), key)
        {
            return false;
        }
        let mut room = event.writable;
        if let Some(connection) = self.links.table.get_mut(key)
            && connection.socket.is_polled()
        {
            cold_path();
            connection.socket.handle_notification(event.closed);
            room |= connection.socket.has_room_again();
            self.polled_rings.add(key, connection);
        }
        if unlikely(room) {
            self.note_room(clock, key);
        }
        event.readable
    }

    /// Records that a link's socket has room for more bytes.
    #[inline(never)]
    fn note_room(&mut self, clock: &Clock, key: LinkKey) {
        if let Some(connection) = self.links.table.get_mut(key) {
            connection.handle_room(clock.time());
        }
        self.links.mark_dirty(key);
    }

    /// Checks the ring at an index of the polled rings: returns the link, and whether bytes have arrived; `None` after
    /// the last.
    pub(super) fn poll_ring(&mut self, place: usize) -> Option<(LinkKey, bool)> {
        let key = self.polled_rings.key(place)?;
        let socket = self.links.table.get(key).map(|connection| &connection.socket);
        let Some(socket) = socket.filter(|socket| socket.is_ready()) else { return Some((key, false)) };
        if socket.has_room_again() {
            self.links.mark_dirty(key);
        }
        Some((key, true))
    }

    /// Converts the events of a link into inputs of the chain.
    pub(super) fn handle_events(&mut self, now: Time, functions: &Functions, key: LinkKey) {
        let mut events = std::mem::take(&mut self.events);
        let arrived = self.links.arrivals.len();
        for event in events.drain(..) {
            let handled = self.links.handle_event(now, key, event, |request, proof, from| {
                // Without a child there is nothing to merge.
                let callback = request.callback.filter(|_| request.ids.len() > 1);
                functions.permit(request.func, callback, proof, from)
            });
            if let Err(why) = handled {
                self.close(now, key, &why);
                break;
            }
            self.settle(now);
        }
        self.events = events;
        if arrived != self.links.arrivals.len()
            && let Some(link) = self.links.table.link_mut(key)
        {
            link.has_heartbeat = false;
        }
    }

    /// Handles the progress of a read.
    pub(super) fn after_reading(&mut self, now: Time, key: LinkKey, progress: Progress) {
        let connection = self.links.table.get(key);
        let quiet = connection.is_none_or(|one| !one.link.has_heartbeat && one.unwritable.is_none());
        if unlikely(!quiet || !matches!(progress, Progress::Waiting)) {
            self.note_reading(now, key, progress);
        }
    }

    /// The same, if the read had effects beyond calls on the fast path.
    #[inline(never)]
    fn note_reading(&mut self, now: Time, key: LinkKey, progress: Progress) {
        self.links.report_heartbeat(key);
        match progress {
            Progress::Waiting => {
                if let Some(why) =
                    self.links.table.get_mut(key).and_then(|connection| connection.unwritable.take())
                {
                    self.close(now, key, &why);
                }
            }
            Progress::More => self.read_later(key),
            Progress::Closed(why) | Progress::Stuck(why) => self.close(now, key, &why),
        }
    }
}
