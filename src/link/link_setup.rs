//! Link setup: from a new connection to a link. [`peering`](super::peering) decides, and this file carries out its
//! outputs.
//!
//! Source: docs/wire.md, "HELLO" and "One link per pair".

use gpc_trees::Id;

use super::links::Links;
use super::loss::Loss;
use super::output::{Arrival, LinksOutput};
use super::peering::{ANSWER_LIMIT, Book, FeedContext, LinkKey, Output, Proof, Source, Transport};
use super::state::Phase;
use super::table::HasLink;
use crate::chain::{Input, Time};
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CauseKind, Hello, Message};

impl<B: Book, T: HasLink> Links<B, T> {
    /// The driver has begun to open a connection to a peer.
    pub fn add_outgoing(&mut self, now: Time, key: LinkKey, to: Id) {
        self.peering.add_outgoing(now, key, to);
        self.settle_peering(now);
    }

    /// The driver cannot open a connection to a peer.
    pub fn fail_outgoing(&mut self, now: Time, to: Id, kind: CauseKind, why: &str) {
        self.peering.fail_outgoing(to, kind, why);
        self.settle_peering(now);
    }

    /// The driver has accepted a connection.
    pub fn add_incoming(&mut self, now: Time, key: LinkKey, transport: Transport, source: Option<Source>) {
        self.peering.add_incoming(now, key, transport, source);
        self.settle_peering(now);
    }

    /// A connection that the driver has opened is connected. `rings`: this side offers shared memory.
    pub fn complete_outgoing(&mut self, now: Time, key: LinkKey, transport: Transport, rings: bool) {
        let Some(link) = self.table.link_mut(key) else { return };
        link.phase = Phase::Greeting;
        self.peering.complete_outgoing(key, transport, rings);
        self.settle_peering(now);
    }

    /// Handles bytes of a greeting: at most as many as [`Peering::wants`](super::peering::Peering::wants) returns.
    pub fn feed_greeting(&mut self, now: Time, key: LinkKey, bytes: &[u8], context: &FeedContext) {
        self.peering.feed(now, key, bytes, context);
        self.settle_peering(now);
    }

    /// Carries out the outputs of peering.
    pub fn settle_peering(&mut self, now: Time) {
        // Terminates: each output causes a finite number of others, since every connection ends once.
        while let Some(output) = self.peering.poll() {
            match output {
                Output::Write { key, bytes } => {
                    let Some(link) = self.table.link_mut(key) else { continue };
                    link.outbox.push_greeting(&bytes);
                    link.mark(&mut self.dirty, key);
                }
                Output::Finish { key } => self.finish(now, key),
                Output::Close { key } => self.outputs.push_back(LinksOutput::Close { key }),
                Output::Rejected { key, why } => self.outputs.push_back(LinksOutput::Rejected { key, why }),
                Output::Up(new_link) => self.outputs.push_back(LinksOutput::Prepare(new_link)),
                Output::Replaced { key, peer, incarnation } => self.close_replaced(key, peer, incarnation),
                Output::SendPing { key, peer } => self.request_heartbeat(now, key, peer),
                Output::Lost { peer, kind, why, was_up } => {
                    // Without a link nothing was sent.
                    self.lose_peer(peer, kind, why, !was_up || kind == CauseKind::Unreachable);
                }
                Output::Unreached { peer, kind, why } => {
                    // The reason includes the address, because the address may be wrong.
                    let why = match self.peering.book.shown_address(peer) {
                        Some(address) => format!("cannot connect to {address}: {why}"),
                        None => why,
                    };
                    self.lose_peer(peer, kind, why, true);
                }
            }
        }
    }

    /// Closes a link that another connection has replaced. The other end gets a goodbye, since it may be another
    /// process with the same id.
    fn close_replaced(&mut self, key: LinkKey, peer: Id, incarnation: u64) {
        if let Some(link) = self.table.link_mut(key) {
            let text = format!("id {peer} has connected anew, perhaps from another process");
            link.outbox.push_goodbye(&Goodbye { reason: GoodbyeReason::Duplicate, text });
        }
        let why = "it has connected anew".into();
        self.outputs.push_back(LinksOutput::Lost { peer, incarnation, loss: Loss::Replaced, why });
        self.outputs.push_back(LinksOutput::CloseAfterWriting { key });
    }

    /// Another run of the peer has connected: sends a PING to the linked run.
    fn request_heartbeat(&mut self, now: Time, key: LinkKey, peer: Id) {
        let mut answered = now;
        if let Some(link) = self.table.link_mut(key) {
            link.outbox.push(Message::Ping);
            link.mark(&mut self.dirty, key);
            // A peer that has announced a pause answers after the pause.
            answered = link.earliest_response(now);
        }
        self.peering.set_answer_limit(peer, answered.plus(ANSWER_LIMIT));
    }

    /// The link has answered a PING, so its run is alive: fails the connections that waited for the link to close.
    pub fn confirm_alive(&mut self, now: Time, peer: Id) {
        self.peering.reject_waiting_run(peer);
        self.settle_peering(now);
    }

    /// Makes a prepared connection the link to a peer, and sends the messages that waited for it.
    pub fn establish(&mut self, now: Time, key: LinkKey, hello: &Hello, proof: Proof) {
        let hiwater = self.peering.identity().hiwater;
        let Some(link) = self.table.link_mut(key) else { return };
        let peer = hello.from;
        link.set_hiwater(hiwater);
        (link.phase, link.proof) = (Phase::Up(peer), proof);
        link.inbox.skip_hello();
        link.outbox.add_credit(hello.hiwater);
        let mut pending = self.pending.take(peer);
        let takes_all = pending.unsent.take().is_none_or(|unsent| link.outbox.resend(*unsent));
        for message in pending.take_messages(now) {
            link.push(message);
        }
        link.mark(&mut self.dirty, key);
        let incarnation = hello.incarnation;
        self.outputs.push_back(LinksOutput::Up { peer, incarnation });
        self.arrivals.push_back(Arrival::Input(Input::LinkUp { peer, incarnation }));
        if !takes_all {
            self.close(now, key, "it gives less credit for requests than on its last link");
        }
    }

    /// Closes a connection that the driver could not prepare. Peering counts it as the link already; no other part of
    /// the node knows it.
    pub fn fail_setup(&mut self, now: Time, key: LinkKey, peer: Id, why: &str) {
        self.outputs.push_back(LinksOutput::Close { key });
        self.peering.ended(key, Some(peer), CauseKind::Unreachable, why);
        self.settle_peering(now);
    }
}
