//! Detects the protocol of a connection from its first bytes: PMI, or this project's own frames. No I/O.

use chained_gpc::Shown;

use crate::codec::MAGIC;
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::names::Rank;
use crate::native;
use crate::pmi::Pmi;
pub use crate::pmi::{Attributes, NodeRequest};
pub use crate::protocol_output::ProtocolOutput;
use crate::request::Answer;

/// One connection. Drain [`next`](Self::next) after each call of another method.
#[derive(Debug)]
pub struct Conversation {
    protocol: Protocol,
    port: bool,
    groups: bool,
}

#[derive(Debug)]
enum Protocol {
    /// The bytes received so far are too few to detect the protocol.
    Unknown(Vec<u8>),
    Pmi(Box<Pmi>),
    Native(native::Conversation),
    /// An unknown protocol: all input is ignored. Holds the reason until it is returned.
    Neither(Option<String>),
}

/// The first bytes of a PMI client, in version 1 and 2: a line of text.
const PMI: [&[u8]; 2] = [b"cmd=", b"mcmd="];

impl Default for Conversation {
    fn default() -> Conversation {
        Conversation::new()
    }
}

impl Conversation {
    /// A connection whose client is known: a process that inherited it, or a command.
    pub fn new() -> Conversation {
        Conversation { protocol: Protocol::Unknown(Vec::new()), port: false, groups: false }
    }

    /// A connection that a client made to the port. No request is taken before it is [identified](Self::identified).
    pub fn by_port() -> Conversation {
        Conversation { port: true, ..Conversation::new() }
    }

    /// Offers group barriers to PMI-1 clients that have not asked for them: see [`Pmi::with_groups`].
    pub fn with_groups(self) -> Conversation {
        Conversation { groups: true, ..self }
    }

    /// Takes received bytes, in order, from the first one of the connection.
    pub fn bytes(&mut self, bytes: &[u8]) {
        match &mut self.protocol {
            Protocol::Unknown(_) => self.first(bytes),
            Protocol::Pmi(pmi) => pmi.bytes(bytes),
            Protocol::Native(native) => native.bytes(bytes),
            Protocol::Neither(_) => {}
        }
    }

    /// Collects the first bytes until they identify the protocol.
    fn first(&mut self, bytes: &[u8]) {
        let Protocol::Unknown(received) = &mut self.protocol else { return };
        let longest = MAGIC.len().max(PMI[1].len());
        let taken = bytes.len().min(longest.saturating_sub(received.len()));
        received.extend_from_slice(&bytes[..taken]);
        let begun = std::mem::take(received);
        let begins = |with: &[u8]| with.starts_with(&begun) || begun.starts_with(with);
        self.protocol = if begun.starts_with(&MAGIC) {
            Protocol::Native(native::Conversation::new())
        } else if PMI.iter().any(|word| begun.starts_with(word)) {
            let pmi = if self.port { Pmi::by_port() } else { Pmi::new() };
            Protocol::Pmi(Box::new(if self.groups { pmi.with_groups() } else { pmi }))
        } else if begins(&MAGIC) || PMI.iter().any(|word| begins(word)) {
            Protocol::Unknown(begun.clone())
        } else {
            let begun = String::from_utf8_lossy(&begun).into_owned();
            let why =
                format!("it begins with `{}`: neither with cmd=, as PMI does, nor with BNR1", Shown(&begun));
            Protocol::Neither(Some(why))
        };
        if let Protocol::Pmi(_) | Protocol::Native(_) = self.protocol {
            self.bytes(&begun);
            self.bytes(&bytes[taken..]);
        }
    }

    /// Sends the answer to a request.
    pub fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        match &mut self.protocol {
            Protocol::Pmi(pmi) => pmi.answered(serial, answer),
            Protocol::Native(native) => native.answered(serial, answer),
            Protocol::Unknown(_) | Protocol::Neither(_) => {}
        }
    }

    /// The process behind a connection to the port: its rank and the size of its group. `None` closes the connection.
    pub fn identified(&mut self, who: Option<(Rank, u32)>) {
        if let Protocol::Pmi(pmi) = &mut self.protocol {
            pmi.identified(who);
        }
    }

    /// Sends the notice of a process that has ended. PMI has no such message.
    pub fn notice(&mut self, death: Death) {
        if let Protocol::Native(native) = &mut self.protocol {
            native.notice(death);
        }
    }

    /// Whether as many bytes wait as the longest request has: stop reading until some are decoded.
    pub fn is_full(&self) -> bool {
        match &self.protocol {
            Protocol::Pmi(pmi) => pmi.is_full(),
            Protocol::Native(native) => native.is_full(),
            Protocol::Unknown(_) | Protocol::Neither(_) => false,
        }
    }

    /// The next queued output. Decodes no further request.
    pub fn pending(&mut self) -> Option<ProtocolOutput> {
        match &mut self.protocol {
            Protocol::Unknown(_) => None,
            Protocol::Pmi(pmi) => pmi.pending(),
            Protocol::Native(native) => native.pending().map(ProtocolOutput::from),
            Protocol::Neither(why) => why.take().map(ProtocolOutput::Close),
        }
    }

    /// The next output, if there is one.
    #[expect(clippy::should_implement_trait, reason = "more may come after nothing has")]
    pub fn next(&mut self) -> Option<ProtocolOutput> {
        match &mut self.protocol {
            Protocol::Unknown(_) => None,
            Protocol::Pmi(pmi) => pmi.next(),
            Protocol::Native(native) => native.next().map(ProtocolOutput::from),
            Protocol::Neither(why) => why.take().map(ProtocolOutput::Close),
        }
    }
}

impl From<native::NativeOutput> for ProtocolOutput {
    fn from(said: native::NativeOutput) -> ProtocolOutput {
        match said {
            native::NativeOutput::Request(serial, request) => ProtocolOutput::Request(serial, request),
            native::NativeOutput::Send(bytes) => ProtocolOutput::Send(bytes),
            native::NativeOutput::Close(why) => ProtocolOutput::Close(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::encode_up;
    use crate::request::Request;

    fn said(conversation: &mut Conversation) -> Vec<ProtocolOutput> {
        std::iter::from_fn(|| conversation.next()).collect()
    }

    /// The outputs for these bytes, received in pieces of this size.
    fn heard(bytes: &[u8], piece: usize) -> Vec<ProtocolOutput> {
        let mut conversation = Conversation::new();
        bytes
            .chunks(piece.max(1))
            .flat_map(|piece| {
                conversation.bytes(piece);
                said(&mut conversation)
            })
            .collect()
    }

    #[test]
    fn the_first_bytes_say_who_speaks() {
        let frames = [&MAGIC[..], &encode_up(7, &Request::Init).unwrap()].concat();
        for piece in [1, 2, 3, 5, 100] {
            assert_eq!(heard(&frames, piece), [ProtocolOutput::Request(7, Request::Init)]);
            let pmi = b"cmd=init pmi_version=1 pmi_subversion=1\n";
            assert!(
                matches!(heard(pmi, piece)[..], [ProtocolOutput::Request(_, Request::Init)]),
                "pieces of {piece}"
            );
            assert_eq!(heard(b"mcmd", piece), []);
            assert_eq!(heard(b"BNR", piece), []);
            for other in [
                &b"GET / HTTP/1.1\r\n"[..],
                b"\0\0\0\0",
                b"cmx=init\n",
                b"BNR2....",
                b"    13cmd=finalize;",
                b"\x1b[2J",
            ] {
                let all = heard(other, piece);
                let [ProtocolOutput::Close(why)] = &all[..] else { panic!("{all:?}") };
                assert!(why.starts_with("it begins with `") && !why.contains('\u{1b}'), "{why}");
            }
        }
    }

    /// What a connection is told before its protocol is known holds for that protocol.
    #[test]
    fn a_connection_to_the_port_is_offered_groups_when_it_is_identified() {
        for (groups, version) in [(true, "2"), (false, "1")] {
            let conversation = Conversation::by_port();
            let mut conversation = if groups { conversation.with_groups() } else { conversation };
            conversation.bytes(b"cmd=initack pmiid=5\n");
            assert_eq!(conversation.next(), Some(ProtocolOutput::Identify("5".into())));
            conversation.identified(Some((1, 2)));
            assert!(matches!(conversation.next(), Some(ProtocolOutput::Send(_))));
            conversation.bytes(b"cmd=init pmi_version=1 pmi_subversion=1\n");
            let Some(ProtocolOutput::Request(serial, Request::Init)) = conversation.next() else { panic!() };
            let identity = crate::request::Identity {
                member: crate::names::Member { group: crate::names::GroupId(3), rank: 1 },
                size: 2,
                parent: None,
                database: "kvs_3".into(),
                spec: 0,
                neighbours: vec![0, 1],
            };
            conversation.answered(serial, Ok(Answer::Identity(identity)));
            let said = format!("cmd=response_to_init pmi_version=1 pmi_subversion={version} rc=0\n");
            assert_eq!(conversation.next(), Some(ProtocolOutput::Send(said.into())));
        }
        let mut native = Conversation::by_port().with_groups();
        native.bytes(&MAGIC);
        native.identified(None);
        assert_eq!(native.next(), None);
    }

    proptest! {
        #[test]
        fn any_first_bytes_are_taken_or_refused_once(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'c'), Just(b'm'), Just(b'd'), Just(b'B'), Just(b'N')], 0..20),
            piece in 1usize..20,
        ) {
            let closes = heard(&bytes, piece).iter().filter(|said| matches!(said, ProtocolOutput::Close(_))).count();
            prop_assert!(closes <= 1);
        }
    }
}
