//! How a connection becomes the link of two nodes: `peering` decides, and what it asks for is carried out here, with sockets.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".

use std::io::{self, Read as _};

use gpc_trees::Id;
use tracing::{debug, info, warn};

use super::Peers;
use super::events::Loss;
use super::link::{Phase, Progress, broken};
use super::links::{Arrival, CLOSING_LIMIT, Links};
use super::shm::RingSocket;
use crate::chain::Time;
use crate::peering::{ANSWER_LIMIT, Book, Here, LinkKey, Output, Proof, PublicKey, Standing};
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CauseKind, Message};

/// Proofs that are answered in a turn, before links there are get theirs: two milliseconds of work. Who has heard the first message of a member can send it again, as often as it likes.
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
    /// Our connection stands.
    pub(super) fn greet(&mut self, now: Time, key: LinkKey) {
        let Some(link) = self.links.get_mut(key) else { return };
        link.phase = Phase::Greeting;
        let (way, _) = link.socket.way();
        let rings = link.socket.ring().is_some();
        self.peering.connected(key, way, rings);
        self.settle_peering(now);
    }

    /// Reads what a connection that is no link yet needs next, and no byte behind it. None where it is to be gone on with.
    #[cold]
    pub(super) fn read_greeting(&mut self, now: Time, key: LinkKey, buffer: &mut [u8]) -> Option<Progress> {
        let Some(wanted) = self.peering.wants(key) else { return Some(Progress::Waiting) };
        if self.peering.proofs() >= self.proofs_before + PROOFS_PER_TURN {
            return Some(Progress::More);
        }
        let link = self.links.get_mut(key)?;
        let wanted = wanted.min(buffer.len());
        let count = match link.socket.read(&mut buffer[..wanted]) {
            Ok(0) => return Some(Progress::Closed("the peer closed the connection".into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(Progress::Waiting),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            Err(error) => return Some(Progress::Closed(broken(&error))),
        };
        let rings = link.socket.ring().is_some_and(RingSocket::has_memory);
        let here = Here { rings, full: self.has_no_room_for_strangers(now) };
        self.peering.feed(now, key, &buffer[..count], &here);
        self.settle_peering(now);
        None
    }

    /// Carries out what peering asks for.
    pub(super) fn settle_peering(&mut self, now: Time) {
        // Ends: what is carried out brings about finitely much more, since every connection ends once.
        while let Some(output) = self.peering.poll() {
            match output {
                Output::Write { key, bytes } => {
                    let Some(link) = self.links.get_mut(key) else { continue };
                    link.outbox.greeting(&bytes);
                    link.mark(&mut self.dirty, key);
                }
                Output::Finish { key } => self.finish(now, key),
                Output::Close { key } => drop(self.discard(key)),
                Output::Refused { key, why } => self.log_refusal(now, key, &why),
                Output::Up(standing) => self.establish(now, *standing),
                Output::Replaced { key, peer, incarnation } => self.replaced(key, peer, incarnation),
                Output::Ask { key, peer } => self.ask_whether_it_lives(now, key, peer),
                Output::Lost { peer, kind, why, stood } => self.lost(peer, kind, why, !stood),
                Output::Unreached { peer, kind, why } => {
                    // The address belongs into the reason, since that may be what is wrong.
                    let why = match self.peering.book.address(peer) {
                        Some(address) => format!("cannot connect to {address}: {why}"),
                        None => why,
                    };
                    self.lost(peer, kind, why, true);
                }
            }
        }
    }

    /// Nothing but what waits goes out on a connection any more; then it is closed.
    pub(super) fn finish(&mut self, now: Time, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key) {
            link.phase = Phase::Closing;
            link.mark(&mut self.dirty, key);
            self.give_until(key, Some(now.plus(CLOSING_LIMIT)));
        }
    }

    /// Another connection has taken a link's place: whoever is at the other end of the old one is told, for it may be another process of the same id.
    fn replaced(&mut self, key: LinkKey, peer: Id, incarnation: u64) {
        if let Some(link) = self.links.get_mut(key) {
            let text = format!("id {peer} has connected anew, perhaps from another process");
            link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Duplicate, text });
            // What does not go out at once is of no use any more.
            let _ = link.flush(Time::default);
        }
        self.tell_lost_run(peer, incarnation, Loss::Replaced, "it has connected anew");
        self.discard(key);
    }

    /// Another run of a peer has connected: the one that is linked is asked for a heartbeat.
    fn ask_whether_it_lives(&mut self, now: Time, key: LinkKey, peer: Id) {
        if let Some(link) = self.links.get_mut(key) {
            link.outbox.push(Message::Ping);
            link.mark(&mut self.dirty, key);
        }
        // One that has announced a pause answers when that is over.
        let answered = self.answers_from(now, key).plus(ANSWER_LIMIT);
        self.peering.hold_until(peer, answered);
        debug!(id = self.me, peer, "another run of it waits until the link of this one answers or not");
    }

    /// A link has answered a PING: who waits for it to be gone waits in vain.
    #[cold]
    pub(super) fn lives(&mut self, now: Time, key: LinkKey, id: Id) {
        // What a process said before it was killed may be read when it is gone: its end is behind it.
        if self.links.get(key).is_some_and(|link| !link.socket.is_ended()) {
            self.peering.lives(id);
            self.settle_peering(now);
        }
    }

    /// What waits for a peer is lost.
    fn lost(&mut self, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.pending.remove(&peer);
        debug!(id = self.me, peer, why, "link lost");
        let unsent = self.unsent.take();
        self.arrivals.push_back(Arrival::Lost { peer, kind, why, unreached, unsent });
    }

    /// Both hellos are through.
    fn establish(&mut self, now: Time, standing: Standing) {
        let Standing { key, hello, accepted, rings, extents, session, proof } = standing;
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
            self.links.change(key, |mut link| {
                link.socket = link.socket.sealed(session);
                link
            });
        }
        let Some(link) = self.links.get_mut(key) else { return };
        let peer = hello.from;
        (link.phase, link.proof) = (Phase::Up(peer), proof);
        link.inbox.greeted();
        link.outbox.grant(hello.hiwater);
        let mut pending = self.pending.remove(&peer).unwrap_or_default();
        let takes_all = pending.unsent.take().is_none_or(|unsent| link.outbox.resend(*unsent));
        for message in pending.take_messages(now) {
            link.push(message);
        }
        link.mark(&mut self.dirty, key);
        let (generation, over) = (hello.generation, link.socket.name());
        debug!(id = self.me, peer, generation, over, ?proof, "link up");
        if proof == Proof::User && self.peering.has_secret() {
            info!(
                id = self.me,
                peer, "the user of the other process proves this link: secrets are not compared on one host"
            );
        }
        self.tell_up(peer, hello.incarnation);
        self.arrivals.push_back(Arrival::Up { peer, incarnation: hello.incarnation });
        if !takes_all {
            self.close(now, key, "it gives less credit for requests than on its last link");
        }
    }

    /// A connection was to become the link to a peer, and cannot: peering takes it for the link by now, and nobody else has heard of it.
    fn fails_to_stand(&mut self, now: Time, key: LinkKey, peer: Id, why: &str) {
        self.discard(key);
        self.peering.ended(key, Some(peer), CauseKind::Unreachable, why);
        self.settle_peering(now);
    }

    /// Writes what is queued on a connection; false when not all of it goes out at once.
    fn all_has_left(&mut self, key: LinkKey) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        matches!(link.flush(Time::default), Progress::Waiting) && link.is_through()
    }

    /// From the hellos on, bytes go through the rings, or never do. False when they should and there are none.
    fn settle_rings(&mut self, key: LinkKey, rings: bool, extents: bool) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        let settled = match link.socket.ring_mut() {
            Some(socket) if rings => {
                if extents {
                    link.extents.keep_place();
                }
                socket.use_rings(extents)
            }
            Some(socket) => {
                socket.use_none();
                true
            }
            None => !rings,
        };
        self.watched.watch(key, link);
        settled
    }

    /// Says in the log that somebody was refused, and why: the other side is told less.
    fn log_refusal(&mut self, now: Time, key: LinkKey, why: &str) {
        let Some(left_out) = self.refusals.count(now) else { return };
        let from = self.links.get(key).map_or_else(String::new, |link| link.socket.whence());
        match left_out {
            0 => warn!(id = self.me, %from, why, "a connection is refused"),
            _ => {
                warn!(id = self.me, %from, why, left_out, "a connection is refused, like others before it that were not logged")
            }
        }
    }
}
