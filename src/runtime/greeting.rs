//! How a connection becomes the link of two nodes: `peering` decides, and this module carries out its outputs, with
//! sockets.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".

use std::io::{self, Read as _};

use gpc_trees::Id;
use tracing::{debug, info, warn};

use super::Peers;
use super::connection::{Progress, broken};
use super::connections::Connections;
use crate::chain::Time;
use crate::link::peering::{Book, FeedContext, LinkKey, NewLink, Proof, PublicKey};
use crate::transport::{ByteStream as _, SharedMemory as _};

/// Maximum number of proofs that are answered in a turn, before existing links are served: two milliseconds of work. An
/// attacker who has recorded the first message of a member can send it again without limit.
const PROOFS_PER_TURN: u64 = 8;

impl Book for Peers {
    fn contains(&self, id: Id) -> bool {
        Peers::contains(self, id)
    }

    fn key(&self, id: Id) -> Option<PublicKey> {
        Peers::key(self, id)
    }

    fn shown_address(&self, id: Id) -> Option<String> {
        self.address(id).map(|address| address.to_string())
    }
}

impl Connections {
    /// Begins the greeting on a connection that this node has opened.
    pub(super) fn greet(&mut self, now: Time, key: LinkKey) {
        let Some(connection) = self.links.table.get(key) else { return };
        let (transport, _) = connection.socket.origin();
        let rings = connection.socket.offers_memory();
        self.links.complete_outgoing(now, key, transport, rings);
        self.settle(now);
    }

    /// Reads the bytes that the greeting of a connection needs next, and no byte beyond. Returns `None` if the caller
    /// should continue.
    #[cold]
    pub(super) fn read_greeting(&mut self, now: Time, key: LinkKey, buffer: &mut [u8]) -> Option<Progress> {
        let Some(wanted) = self.links.peering.wants(key) else { return Some(Progress::Waiting) };
        if self.links.peering.proofs() >= self.proofs_before + PROOFS_PER_TURN {
            return Some(Progress::More);
        }
        let connection = self.links.table.get_mut(key)?;
        let wanted = wanted.min(buffer.len());
        let count = match connection.socket.read(&mut buffer[..wanted]) {
            Ok(0) => return Some(Progress::Closed("the peer closed the connection".into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(Progress::Waiting),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            Err(error) => return Some(Progress::Closed(broken(&error))),
        };
        let rings = connection.socket.has_memory();
        let context = FeedContext { rings, full: self.has_no_room_for_strangers(now) };
        self.links.feed_greeting(now, key, &buffer[..count], &context);
        self.settle(now);
        None
    }

    /// A link has answered a heartbeat request, so it is alive: fails the connections that waited for it to close.
    pub(super) fn confirm_old_run(&mut self, now: Time, key: LinkKey, peer: Id) {
        // Bytes of a killed process may still be readable after its death: then the socket has ended behind them.
        if self.links.table.get(key).is_some_and(|connection| !connection.socket.is_ended()) {
            self.links.confirm_alive(now, peer);
        }
    }

    /// Turns a connection into a link, once both hellos are exchanged.
    pub(super) fn establish(&mut self, now: Time, new_link: NewLink) {
        let NewLink { key, hello, accepted, rings, extents, session, proof } = new_link;
        let peer = hello.from;
        if (rings && accepted || session.is_some()) && !self.flush_all(key) {
            let why = "the last bytes of its greeting cannot be written";
            return self.links.fail_setup(now, key, peer, why);
        }
        if !self.settle_rings(key, rings, extents) {
            return self.links.fail_setup(now, key, peer, "it accepts rings that were not offered");
        }
        if let Some(session) = session {
            self.links.table.change(key, |mut connection| {
                connection.socket = connection.socket.sealed(session);
                connection
            });
        }
        let Some(connection) = self.links.table.get(key) else { return };
        let (generation, over) = (hello.generation, connection.socket.name());
        debug!(id = self.links.me, peer, generation, over, ?proof, "link up");
        if proof == Proof::User && self.links.peering.has_secret() {
            info!(
                id = self.links.me,
                peer, "the user of the other process proves this link: secrets are not compared on one host"
            );
        }
        self.links.establish(now, key, &hello, proof);
    }

    /// Writes the queued bytes of a connection; returns false if they cannot all be sent at once.
    fn flush_all(&mut self, key: LinkKey) -> bool {
        let Some(connection) = self.links.table.get_mut(key) else { return false };
        matches!(connection.flush(Time::default), Progress::Waiting) && connection.is_flushed()
    }

    /// Decides after the hellos whether bytes go through the rings. Returns false if they should, but there are none.
    fn settle_rings(&mut self, key: LinkKey, rings: bool, extents: bool) -> bool {
        let Some(connection) = self.links.table.get_mut(key) else { return false };
        if !rings {
            connection.socket.use_no_memory();
        }
        let settled = !rings || connection.socket.use_memory(extents);
        if connection.socket.descriptors().is_some() {
            connection.extents.hold_reserve();
        }
        self.polled_rings.add(key, connection);
        settled
    }

    /// Logs a rejected connection, with more detail than the other side receives.
    pub(super) fn log_refusal(&mut self, now: Time, key: LinkKey, why: &str) {
        self.traffic.metrics.connections_refused.add(1);
        let Some(left_out) = self.refusals.count(now) else { return };
        let from =
            self.links.table.get(key).map_or_else(String::new, |connection| connection.socket.peer_name());
        match left_out {
            0 => warn!(id = self.links.me, %from, why, "a connection is refused"),
            _ => {
                warn!(id = self.links.me, %from, why, left_out, "a connection is refused, like others before it that were not logged")
            }
        }
    }
}
