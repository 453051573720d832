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
use super::proof::{FIRST_PAYLOAD, Role, SECOND_PAYLOAD, Unproved};
use crate::chain::Time;
use crate::wire::frame::FrameHeader;
use crate::wire::frame::Kind;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// Reason that the connecting side reports for a rejection without text.
const UNSAID: &str = "it refused the proof, and does not say why: its secret, job, version or encryption is another than here, or it has no secret; its log says which";

impl<B: Book> Peering<B> {
    /// Reports that a connection that was [opened](Self::opened) is open over this transport; `rings` is whether memory
    /// for rings is offered on it.
    pub fn connected(&mut self, key: LinkKey, transport: Transport, rings: bool) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        (greeting.transport, greeting.rings) = (transport, rings);
        let Some(to) = greeting.peer else { return };
        if let Err(why) = self.permits(transport) {
            return self.fail(key, why);
        }
        if transport.is_known() || self.crypto.is_none() {
            return match !transport.is_known() && self.book.key(to).is_some() {
                true => self.fail(key, "it is known by a key, which is proved by a secret alone: give this node the secret of the job"),
                false => self.say_hello(key, to),
            };
        }
        if self.prove_first(key, transport, to).is_err() {
            self.fail(key, "this side has no randomness to prove itself with");
        }
    }

    /// Sends the preamble and the first message.
    fn prove_first(&mut self, key: LinkKey, transport: Transport, to: Id) -> Result<(), Unproved> {
        let encrypt = self.strictness.encrypts(transport);
        let preamble = Preamble { encrypt }.emit();
        let crypto = self.crypto.as_mut().ok_or(Unproved)?;
        let mut handshake = crypto.begin(Role::First, &preamble)?;
        let ids = [self.me.me.to_le_bytes(), to.to_le_bytes()].concat();
        let mut message = Vec::new();
        handshake.write(&ids, &mut message)?;
        let bytes = [&preamble[..], &with_length(&message)].concat();
        let greeting = self.greetings.get_mut(&key).ok_or(Unproved)?;
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
                Ok(Some(came)) => self.came(now, key, came, context),
                Err(why) => self.broke(key, &why),
            }
        }
        bytes.len() - left.len()
    }

    fn came(&mut self, now: Time, key: LinkKey, came: ReceivedPiece, context: &FeedContext) {
        match came {
            ReceivedPiece::Preamble(preamble) => self.heard_preamble(key, preamble),
            ReceivedPiece::Message(message) => self.heard_message(key, &message),
            ReceivedPiece::Refusal => self.heard_refusal(key),
            ReceivedPiece::Frame(header, payload) => self.heard_frame(now, key, header, &payload, context),
            ReceivedPiece::Record(record) => {
                let Some(greeting) = self.greetings.get_mut(&key) else { return };
                match greeting.open(&record) {
                    Ok((header, payload)) => self.judge_frame(now, key, header, &payload, context),
                    Err(why) => self.broke(key, &why),
                }
            }
        }
    }

    /// Handles a frame in clear.
    fn heard_frame(
        &mut self,
        now: Time,
        key: LinkKey,
        header: FrameHeader,
        payload: &[u8],
        context: &FeedContext,
    ) {
        let Some(greeting) = self.greetings.get(&key) else { return };
        let proves = greeting.transport.is_known() || self.crypto.is_none();
        if proves || greeting.is_ours() {
            return self.judge_frame(now, key, header, payload, context);
        }
        let goodbye = Goodbye { reason: GoodbyeReason::Refused, text: REFUSED.into() }.emit();
        let greeting = self.greetings.get_mut(&key);
        if let Some(Ok(bytes)) = greeting.map(|greeting| greeting.frame(Kind::Goodbye, 0, &goodbye)) {
            self.outputs.push_back(Output::Write { key, bytes });
        }
        self.finish(key, "it does not prove that it has the secret");
    }

    /// Handles a first frame that is acceptable on this connection.
    fn judge_frame(
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
            Err(why) => self.broke(key, &why),
            Ok(first) if ours => self.answered(now, key, first),
            Ok(first) => self.heard_first(key, first, context),
        }
    }

    /// Handles the preamble on an accepted connection.
    fn heard_preamble(&mut self, key: LinkKey, preamble: [u8; PREAMBLE]) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        let encrypts = self.strictness.encrypts(greeting.transport);
        let why = match (Preamble::parse(preamble), &self.crypto) {
            (Err(why), _) => why.to_string(),
            (Ok(_), None) => "it proves a secret, and this node has none".to_owned(),
            (Ok(Preamble { encrypt: false }), _) if encrypts => {
                "it asks for a link that is not encrypted, which this node was not told to allow".to_owned()
            }
            (Ok(Preamble { encrypt }), Some(_)) => {
                greeting.encrypt = encrypt;
                return greeting.enter(Stage::First(preamble));
            }
        };
        self.deny(key, &why);
    }

    fn heard_message(&mut self, key: LinkKey, message: &[u8]) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        // The stage is moved out; the greeting has `Silent` only until the arm ends.
        match std::mem::replace(&mut greeting.stage, Stage::Silent) {
            Stage::First(preamble) => self.heard_first_message(key, preamble, message),
            Stage::Second(handshake) => self.heard_second_message(key, handshake, message),
            Stage::Third(handshake) => self.heard_third_message(key, handshake, message),
            other => greeting.stage = other,
        }
    }

    /// Handles the first message: its tag is checked before anything else, and its content has no effect.
    fn heard_first_message(&mut self, key: LinkKey, preamble: [u8; PREAMBLE], message: &[u8]) {
        let me = self.me.me;
        let Some(crypto) = &mut self.crypto else { return };
        let mut ids = [0; FIRST_PAYLOAD];
        let begun = crypto.begin(Role::Second, &preamble);
        let read = begun.and_then(|mut handshake| handshake.read(message, &mut ids).map(|()| handshake));
        let Ok(mut handshake) = read else {
            return self.deny(key, "its secret or its job is another one, or its first message was changed");
        };
        let (from, to) = ids.split_at(SECOND_PAYLOAD);
        let id = |bytes: &[u8]| bytes.try_into().map_or(0, Id::from_le_bytes);
        let (from, to) = (id(from), id(to));
        if to != me {
            return self.deny(key, &format!("it looks for id {to}, and this is id {me}"));
        }
        if from == me {
            return self.deny(key, &format!("it says that it is id {me}, which is here itself"));
        }
        self.proofs += 1;
        let mut answer = Vec::new();
        if handshake.write(&me.to_le_bytes(), &mut answer).is_err() {
            return self.deny(key, "this side has no randomness to prove itself with");
        }
        self.outputs.push_back(Output::Write { key, bytes: with_length(&answer) });
        if let Some(greeting) = self.greetings.get_mut(&key) {
            greeting.peer = Some(from);
            greeting.enter(Stage::Third(handshake));
        }
    }

    /// Handles the second message: the accepting side proves the secret and its key.
    fn heard_second_message(
        &mut self,
        key: LinkKey,
        mut handshake: Box<dyn super::Handshake>,
        message: &[u8],
    ) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        // Keep the connection marked as this node's own, whatever happens.
        greeting.stage = Stage::Answer;
        let Some(to) = greeting.peer else { return };
        let mut own = [0; SECOND_PAYLOAD];
        if handshake.read(message, &mut own).is_err() {
            return self.fail(key, "who answers there does not prove that it has the secret");
        }
        let own = Id::from_le_bytes(own);
        if own != to {
            return self.fail(key, &format!("it is id {own}, not {to}"));
        }
        let remote = handshake.remote();
        if self.book.key(to).is_some_and(|listed| Some(listed) != remote) {
            return self.fail(key, &format!("who answers there has not the key that is listed for id {to}"));
        }
        let mut answer = Vec::new();
        let written = handshake.write(&[], &mut answer).and_then(|()| handshake.into_session());
        let Ok(session) = written else { return self.fail(key, "the proof came to no end") };
        self.outputs.push_back(Output::Write { key, bytes: with_length(&answer) });
        if let Some(greeting) = self.greetings.get_mut(&key) {
            (greeting.key, greeting.session) = (remote, Some(session));
        }
        self.say_hello(key, to);
    }

    /// Handles the third message: the connecting side proves that it is present now, and its key. From here on reasons
    /// are sent.
    fn heard_third_message(
        &mut self,
        key: LinkKey,
        mut handshake: Box<dyn super::Handshake>,
        message: &[u8],
    ) {
        let read = handshake.read(message, &mut []);
        let (remote, session) = match read.map(|()| handshake.remote()) {
            Ok(Some(remote)) => (remote, handshake.into_session()),
            _ => return self.deny(key, "its third message is wrong: it was changed, or is of another time"),
        };
        let Ok(session) = session else { return self.deny(key, "the proof came to no end") };
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        let claimed = greeting.peer.unwrap_or_default();
        (greeting.key, greeting.session) = (Some(remote), Some(session));
        greeting.enter(Stage::Hello);
        if let Some((reason, text)) = self.has_another_key(key, claimed) {
            self.refuse(key, reason, text);
        }
    }

    fn heard_refusal(&mut self, key: LinkKey) {
        match self.greetings.get(&key).is_some_and(super::greeting::Greeting::is_ours) {
            true => self.fail(key, UNSAID),
            false => self.broke(key, &"it ended the proof that it had begun"),
        }
    }

    /// Rejects a proof; the other side learns only that.
    fn deny(&mut self, key: LinkKey, why: &str) {
        self.outputs.push_back(Output::Write { key, bytes: REFUSAL.to_vec() });
        self.finish(key, why);
    }

    fn finish(&mut self, key: LinkKey, why: &str) {
        self.end_greeting(key);
        self.outputs.push_back(Output::Finish { key });
        self.outputs.push_back(Output::Refused { key, why: why.into() });
    }
}
