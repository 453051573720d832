//! The proof, message by message, and the bytes that arrive on a connection before it is a link.
//!
//! Source: docs/wire.md, "Proof". Before the third message, the other side's messages have no effect, and it learns
//! only that it is rejected. The reason is only in this side's log.

use gpc_trees::Id;

use super::greeting::{Stage, Transport, first_frame};
use super::hellos::REFUSED;
use super::machine::{Book, FeedContext, Peering};
use super::output::Output;
use super::peer::LinkKey;
use super::piece::{REFUSAL, ReceivedPiece, with_length};
use super::preamble::{PREAMBLE, Preamble};
use super::proof::{FIRST_PAYLOAD, ProofError, Role, SECOND_PAYLOAD};
use crate::chain::Time;
use crate::wire::frame::FrameHeader;
use crate::wire::frame::Kind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// Reason that the connecting side reports for a rejection without text.
const NO_REASON: &str = "it refused the proof without a reason: its secret, job, version or encryption differs from this node's, or it has no secret; see its log";

impl<B: Book> Peering<B> {
    /// Reports that an [outgoing](Self::add_outgoing) connection is open over this transport; `rings` is whether memory
    /// for rings is offered on it.
    pub fn complete_outgoing(&mut self, key: LinkKey, transport: Transport, rings: bool) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        (greeting.transport, greeting.rings) = (transport, rings);
        let Some(to) = greeting.peer else { return };
        if let Err(why) = self.permits(transport) {
            return self.fail_attempt(key, why);
        }
        if transport.is_known() || self.crypto.is_none() {
            return match !transport.is_known() && self.book.key(to).is_some() {
                true => self.fail_attempt(key, "a key is listed for it, and proving a key needs the secret of the job: give it to this node"),
                false => self.send_hello(key, to),
            };
        }
        if self.prove_first(key, transport, to).is_err() {
            self.fail_attempt(key, "this side has no randomness to prove itself with");
        }
    }

    /// Sends the preamble and the first message.
    fn prove_first(&mut self, key: LinkKey, transport: Transport, to: Id) -> Result<(), ProofError> {
        let encrypt = self.strictness.encrypts(transport);
        let preamble = Preamble { encrypt }.emit();
        let crypto = self.crypto.as_mut().ok_or(ProofError)?;
        let mut handshake = crypto.begin(Role::First, &preamble)?;
        let ids = [self.me.me.to_le_bytes(), to.to_le_bytes()].concat();
        let mut message = Vec::new();
        handshake.write(&ids, &mut message)?;
        let bytes = [&preamble[..], &with_length(&message)].concat();
        let greeting = self.greetings.get_mut(&key).ok_or(ProofError)?;
        greeting.encrypt = encrypt;
        greeting.enter(Stage::Second(handshake));
        self.outputs.push_back(Output::Write { key, bytes });
        Ok(())
    }

    /// Number of bytes to read next from a connection that is not a link yet, all for [`feed`](Self::feed); `None` for
    /// an unknown connection.
    pub fn wants(&self, key: LinkKey) -> Option<usize> {
        self.greetings.get(&key).map(|greeting| greeting.piece.wants())
    }

    /// Takes bytes from a connection that is not a link yet. Returns how many belong to the greeting. If the connection
    /// is a link now, the rest belongs to the link; otherwise the rest is useless.
    pub fn feed(&mut self, now: Time, key: LinkKey, bytes: &[u8], context: &FeedContext) -> usize {
        let mut left = bytes;
        // Ends: each iteration takes bytes.
        while !left.is_empty()
            && let Some(greeting) = self.greetings.get_mut(&key)
        {
            match greeting.piece.feed(&mut left) {
                Ok(None) => {}
                Ok(Some(came)) => self.handle_piece(now, key, came, context),
                Err(why) => self.fail_protocol(key, &why),
            }
        }
        bytes.len() - left.len()
    }

    fn handle_piece(&mut self, now: Time, key: LinkKey, piece: ReceivedPiece, context: &FeedContext) {
        match piece {
            ReceivedPiece::Preamble(preamble) => self.handle_preamble(key, preamble),
            ReceivedPiece::Message(message) => self.handle_message(key, &message),
            ReceivedPiece::Refusal => self.handle_refusal(key),
            ReceivedPiece::Frame(header, payload) => {
                self.handle_clear_frame(now, key, header, &payload, context)
            }
            ReceivedPiece::Record(record) => {
                let Some(greeting) = self.greetings.get_mut(&key) else { return };
                match greeting.open(&record) {
                    Ok((header, payload)) => self.handle_frame(now, key, header, &payload, context),
                    Err(why) => self.fail_protocol(key, &why),
                }
            }
        }
    }

    /// Handles a frame in clear.
    fn handle_clear_frame(
        &mut self,
        now: Time,
        key: LinkKey,
        header: FrameHeader,
        payload: &[u8],
        context: &FeedContext,
    ) {
        let Some(greeting) = self.greetings.get(&key) else { return };
        let needs_no_proof = greeting.transport.is_known() || self.crypto.is_none();
        if needs_no_proof || greeting.is_ours() {
            return self.handle_frame(now, key, header, payload, context);
        }
        let goodbye = Goodbye { reason: GoodbyeReason::Refused, text: REFUSED.into() }.emit();
        let greeting = self.greetings.get_mut(&key);
        if let Some(Ok(bytes)) = greeting.map(|greeting| greeting.frame(Kind::Goodbye, 0, &goodbye)) {
            self.outputs.push_back(Output::Write { key, bytes });
        }
        self.finish(key, "it does not prove that it has the secret");
    }

    /// Handles a first frame that is acceptable on this connection.
    fn handle_frame(
        &mut self,
        now: Time,
        key: LinkKey,
        header: FrameHeader,
        payload: &[u8],
        context: &FeedContext,
    ) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        let ours = greeting.is_ours();
        if !ours {
            // It has sent a frame, so any error in it is reported.
            greeting.stage = Stage::Hello;
        }
        match first_frame(header, payload) {
            Err(why) => self.fail_protocol(key, &why),
            Ok(first) if ours => self.handle_answer_frame(now, key, first),
            Ok(first) => self.handle_first_frame(key, first, context),
        }
    }

    /// Handles the preamble on an accepted connection.
    fn handle_preamble(&mut self, key: LinkKey, preamble: [u8; PREAMBLE]) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        let encrypts = self.strictness.encrypts(greeting.transport);
        let why = match (Preamble::parse(preamble), &self.crypto) {
            (Err(why), _) => why.to_string(),
            (Ok(_), None) => "it proves a secret, and this node has none".to_owned(),
            (Ok(Preamble { encrypt: false }), _) if encrypts => {
                "it requests a link without encryption, which this node does not allow".to_owned()
            }
            (Ok(Preamble { encrypt }), Some(_)) => {
                greeting.encrypt = encrypt;
                return greeting.enter(Stage::First(preamble));
            }
        };
        self.reject_proof(key, &why);
    }

    fn handle_message(&mut self, key: LinkKey, message: &[u8]) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        // The stage is moved out; the greeting has `Silent` only until the arm ends.
        match std::mem::replace(&mut greeting.stage, Stage::Silent) {
            Stage::First(preamble) => self.handle_first_message(key, preamble, message),
            Stage::Second(handshake) => self.handle_second_message(key, handshake, message),
            Stage::Third(handshake) => self.handle_third_message(key, handshake, message),
            other => greeting.stage = other,
        }
    }

    /// Handles the first message: its tag is checked before anything else, and its content has no effect.
    fn handle_first_message(&mut self, key: LinkKey, preamble: [u8; PREAMBLE], message: &[u8]) {
        let me = self.me.me;
        let Some(crypto) = &mut self.crypto else { return };
        let mut ids = [0; FIRST_PAYLOAD];
        let begun = crypto.begin(Role::Second, &preamble);
        let read = begun.and_then(|mut handshake| handshake.read(message, &mut ids).map(|()| handshake));
        let Ok(mut handshake) = read else {
            return self.reject_proof(key, "its secret or its job differs, or its first message was changed");
        };
        let (from, to) = ids.split_at(SECOND_PAYLOAD);
        let id = |bytes: &[u8]| bytes.try_into().map_or(0, Id::from_le_bytes);
        let (from, to) = (id(from), id(to));
        if to != me {
            return self.reject_proof(key, &format!("it expects id {to}, and this is id {me}"));
        }
        if from == me {
            return self.reject_proof(key, &format!("it claims to be id {me}, which is this node"));
        }
        self.proofs += 1;
        let mut answer = Vec::new();
        if handshake.write(&me.to_le_bytes(), &mut answer).is_err() {
            return self.reject_proof(key, "this side has no randomness to prove itself with");
        }
        self.outputs.push_back(Output::Write { key, bytes: with_length(&answer) });
        if let Some(greeting) = self.greetings.get_mut(&key) {
            greeting.peer = Some(from);
            greeting.enter(Stage::Third(handshake));
        }
    }

    /// Handles the second message: the accepting side proves the secret and its key.
    fn handle_second_message(
        &mut self,
        key: LinkKey,
        mut handshake: Box<dyn super::Handshake>,
        message: &[u8],
    ) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        // The connection stays marked as this node's own in every case.
        greeting.stage = Stage::Answer;
        let Some(to) = greeting.peer else { return };
        let mut own = [0; SECOND_PAYLOAD];
        if handshake.read(message, &mut own).is_err() {
            return self.fail_attempt(key, "the process there does not prove that it has the secret");
        }
        let own = Id::from_le_bytes(own);
        if own != to {
            return self.fail_attempt(key, &format!("it is id {own}, not {to}"));
        }
        let remote = handshake.remote();
        if self.book.key(to).is_some_and(|listed| Some(listed) != remote) {
            return self.fail_attempt(
                key,
                &format!("the process there does not have the key that is listed for id {to}"),
            );
        }
        let mut answer = Vec::new();
        let written = handshake.write(&[], &mut answer).and_then(|()| handshake.into_session());
        let Ok(session) = written else { return self.fail_attempt(key, "the proof was not completed") };
        self.outputs.push_back(Output::Write { key, bytes: with_length(&answer) });
        if let Some(greeting) = self.greetings.get_mut(&key) {
            (greeting.key, greeting.session) = (remote, Some(session));
        }
        self.send_hello(key, to);
    }

    /// Handles the third message: the connecting side proves that it is present now, and its key. Later rejections send
    /// their reason.
    fn handle_third_message(
        &mut self,
        key: LinkKey,
        mut handshake: Box<dyn super::Handshake>,
        message: &[u8],
    ) {
        let read = handshake.read(message, &mut []);
        let (remote, session) = match read.map(|()| handshake.remote()) {
            Ok(Some(remote)) => (remote, handshake.into_session()),
            _ => return self.reject_proof(key, "its third message is wrong: it was changed or replayed"),
        };
        let Ok(session) = session else { return self.reject_proof(key, "the proof was not completed") };
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        let claimed = greeting.peer.unwrap_or_default();
        (greeting.key, greeting.session) = (Some(remote), Some(session));
        greeting.enter(Stage::Hello);
        if let Some((reason, text)) = self.key_objection(key, claimed) {
            self.reject(key, reason, text);
        }
    }

    fn handle_refusal(&mut self, key: LinkKey) {
        match self.greetings.get(&key).is_some_and(super::greeting::Greeting::is_ours) {
            true => self.fail_attempt(key, NO_REASON),
            false => self.fail_protocol(key, &"it stopped its own proof"),
        }
    }

    /// Rejects a proof; the other side learns only that.
    fn reject_proof(&mut self, key: LinkKey, why: &str) {
        self.outputs.push_back(Output::Write { key, bytes: REFUSAL.to_vec() });
        self.finish(key, why);
    }

    fn finish(&mut self, key: LinkKey, why: &str) {
        self.end_greeting(key);
        self.outputs.push_back(Output::Finish { key });
        self.outputs.push_back(Output::Rejected { key, why: why.into() });
    }
}
