//! How a connection becomes the link of two nodes: `peering` decides, and this module carries out its outputs, with
//! sockets.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".

use std::io::{self, Read as _};

use gpc_trees::Id;
use tracing::{debug, info, warn};

use super::Peers;
use super::connection::{Connection, Progress, broken};
use super::links::{Arrival, CLOSING_LIMIT, Links, Lost};
use crate::chain::{Input, Time};
use crate::link::peering::{ANSWER_LIMIT, Book, FeedContext, LinkKey, NewLink, Output, Proof, PublicKey};
use crate::link::{Loss, Phase};
use crate::transport::{ByteStream as _, SharedMemory as _};
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CauseKind, Message};

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
}

impl Links {
    /// Begins the greeting on a connection that this node has opened.
    pub(super) fn greet(&mut self, now: Time, key: LinkKey) {
        let Some(connection) = self.links.get_mut(key) else { return };
        connection.link.phase = Phase::Greeting;
        let (transport, _) = connection.socket.origin();
        let rings = connection.socket.offers_memory();
        self.peering.connected(key, transport, rings);
        self.settle_peering(now);
    }

    /// Reads the bytes that the greeting of a connection needs next, and no byte beyond. Returns `None` if the caller
    /// should continue.
    #[cold]
    pub(super) fn read_greeting(&mut self, now: Time, key: LinkKey, buffer: &mut [u8]) -> Option<Progress> {
        let Some(wanted) = self.peering.wants(key) else { return Some(Progress::Waiting) };
        if self.peering.proofs() >= self.proofs_before + PROOFS_PER_TURN {
            return Some(Progress::More);
        }
        let connection = self.links.get_mut(key)?;
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
        self.peering.feed(now, key, &buffer[..count], &context);
        self.settle_peering(now);
        None
    }

    /// Carries out the outputs of peering.
    pub(super) fn settle_peering(&mut self, now: Time) {
        // Terminates: each output causes a finite number of others, since every connection ends once.
        while let Some(output) = self.peering.poll() {
            match output {
                Output::Write { key, bytes } => {
                    let Some(link) = self.links.link_mut(key) else { continue };
                    link.outbox.greeting(&bytes);
                    link.mark(&mut self.dirty, key);
                }
                Output::Finish { key } => self.finish(now, key),
                Output::Close { key } => drop(self.discard(key)),
                Output::Refused { key, why } => self.log_refusal(now, key, &why),
                Output::Up(new_link) => self.establish(now, *new_link),
                Output::Replaced { key, peer, incarnation } => self.replaced(key, peer, incarnation),
                Output::Ask { key, peer } => self.ask_whether_it_lives(now, key, peer),
                Output::Lost { peer, kind, why, stood } => self.lost(peer, kind, why, !stood),
                Output::Unreached { peer, kind, why } => {
                    // The reason includes the address, since it may be what is wrong.
                    let why = match self.peering.book.address(peer) {
                        Some(address) => format!("cannot connect to {address}: {why}"),
                        None => why,
                    };
                    self.lost(peer, kind, why, true);
                }
            }
        }
    }

    /// Closes a connection once its queued bytes have been sent.
    pub(super) fn finish(&mut self, now: Time, key: LinkKey) {
        if let Some(link) = self.links.link_mut(key) {
            link.phase = Phase::Closing;
            link.mark(&mut self.dirty, key);
            self.give_until(key, Some(now.plus(CLOSING_LIMIT)));
        }
    }

    /// Another connection has replaced a link. The other end of the old one is notified, since it may be another
    /// process with the same id.
    fn replaced(&mut self, key: LinkKey, peer: Id, incarnation: u64) {
        if let Some(connection) = self.links.get_mut(key) {
            let text = format!("id {peer} has connected anew, perhaps from another process");
            connection.link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Duplicate, text });
            // Bytes that cannot be sent at once are lost.
            let _ = connection.flush(Time::default);
        }
        self.tell_lost_run(peer, incarnation, Loss::Replaced, "it has connected anew");
        self.discard(key);
    }

    /// Another run of a peer has connected: requests a heartbeat from the linked run.
    fn ask_whether_it_lives(&mut self, now: Time, key: LinkKey, peer: Id) {
        if let Some(link) = self.links.link_mut(key) {
            link.outbox.push(Message::Ping);
            link.mark(&mut self.dirty, key);
        }
        // A peer that has announced a pause answers after the pause.
        let answered = self.answers_from(now, key).plus(ANSWER_LIMIT);
        self.peering.set_answer_limit(peer, answered);
        debug!(id = self.me, peer, "another run of it waits until the link of this one answers or not");
    }

    /// A link has answered a PING, so it is alive: fails the connections that waited for it to close.
    #[cold]
    pub(super) fn confirm_old_run(&mut self, now: Time, key: LinkKey, id: Id) {
        // Bytes of a killed process may still be readable after its death: then the socket has ended behind them.
        if self.links.get(key).is_some_and(|connection| !connection.socket.is_ended()) {
            self.peering.reject_waiting_run(id);
            self.settle_peering(now);
        }
    }

    /// Reports a lost peer to the chain, with everything that waited for it.
    fn lost(&mut self, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.pending.forget(peer);
        debug!(id = self.me, peer, why, "link lost");
        let unsent = self.unsent.take();
        self.arrivals.push_back(Arrival::Lost(Lost { peer, kind, why, unreached, unsent }));
    }

    /// Turns a connection into a link, once both hellos are exchanged.
    fn establish(&mut self, now: Time, new_link: NewLink) {
        let NewLink { key, hello, accepted, rings, extents, session, proof } = new_link;
        if (rings && accepted || session.is_some()) && !self.all_has_left(key) {
            return self.fails_to_stand(
                now,
                key,
                hello.from,
                "the last bytes of its greeting cannot be written",
            );
        }
        if !self.settle_rings(key, rings, extents) {
            return self.fails_to_stand(now, key, hello.from, "it takes rings that nobody has offered");
        }
        if let Some(session) = session {
            self.links.change(key, |mut connection| {
                connection.socket = connection.socket.sealed(session);
                connection
            });
        }
        let Some(Connection { socket, link, .. }) = self.links.get_mut(key) else { return };
        let peer = hello.from;
        (link.phase, link.proof) = (Phase::Up(peer), proof);
        link.inbox.greeted();
        link.outbox.grant(hello.hiwater);
        let mut pending = self.pending.take(peer);
        let takes_all = pending.unsent.take().is_none_or(|unsent| link.outbox.resend(*unsent));
        for message in pending.take_messages(now) {
            link.push(message);
        }
        link.mark(&mut self.dirty, key);
        let (generation, over) = (hello.generation, socket.name());
        debug!(id = self.me, peer, generation, over, ?proof, "link up");
        if proof == Proof::User && self.peering.has_secret() {
            info!(
                id = self.me,
                peer, "the user of the other process proves this link: secrets are not compared on one host"
            );
        }
        self.tell_up(peer, hello.incarnation);
        let up = Input::LinkUp { peer, incarnation: hello.incarnation };
        self.arrivals.push_back(Arrival::Input(up));
        if !takes_all {
            self.close(now, key, "it gives less credit for requests than on its last link");
        }
    }

    /// Rejects a connection that cannot become the link to a peer. Peering counts it as the link already; no other part
    /// of the node knows it.
    fn fails_to_stand(&mut self, now: Time, key: LinkKey, peer: Id, why: &str) {
        self.discard(key);
        self.peering.ended(key, Some(peer), CauseKind::Unreachable, why);
        self.settle_peering(now);
    }

    /// Writes the queued bytes of a connection; returns false if they cannot all be sent at once.
    fn all_has_left(&mut self, key: LinkKey) -> bool {
        let Some(connection) = self.links.get_mut(key) else { return false };
        matches!(connection.flush(Time::default), Progress::Waiting) && connection.is_through()
    }

    /// Decides after the hellos whether bytes go through the rings. Returns false if they should, but there are none.
    fn settle_rings(&mut self, key: LinkKey, rings: bool, extents: bool) -> bool {
        let Some(connection) = self.links.get_mut(key) else { return false };
        if !rings {
            connection.socket.use_no_memory();
        }
        let settled = !rings || connection.socket.use_memory(extents);
        if connection.socket.descriptors().is_some() {
            connection.extents.keep_place();
        }
        self.watched.watch(key, connection);
        settled
    }

    /// Logs a rejected connection, with more detail than the other side receives.
    fn log_refusal(&mut self, now: Time, key: LinkKey, why: &str) {
        let Some(left_out) = self.refusals.count(now) else { return };
        let from = self.links.get(key).map_or_else(String::new, |connection| connection.socket.whence());
        match left_out {
            0 => warn!(id = self.me, %from, why, "a connection is refused"),
            _ => {
                warn!(id = self.me, %from, why, left_out, "a connection is refused, like others before it that were not logged")
            }
        }
    }
}
