//! The node's side of a connection that uses this project's own frames, without I/O: bytes in, requests and bytes out.
//! `docs/bnr-wire.md`, "Frames".

use std::collections::{BTreeSet, VecDeque};

use bytes::{Buf as _, Bytes, BytesMut};

use crate::codec::{Down, Frame, MAGIC, UP_MAX, decode_up, encode_down, take_frame};
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::request::{Answer, Request};

/// Most unanswered requests of one client. This project's client waits before it sends more; any other client is
/// disconnected at this limit.
pub const UNANSWERED_MAX: usize = 1024;

/// Most received bytes that are not yet decoded: the largest request, and one read.
const RECEIVED_MAX: usize = UP_MAX + (1 << 20);

/// An output of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NativeOutput {
    /// A request. Abort has no answer; every other request is answered once.
    Request(Serial, Request),
    /// Bytes for the client.
    Send(Bytes),
    /// Close the connection, for this reason. No output follows.
    Close(String),
}

/// One connection. Drain [`next`](Self::next) after each call of another method.
#[derive(Debug, Default)]
pub struct Conversation {
    begun: bool,
    received: BytesMut,
    unanswered: BTreeSet<Serial>,
    out: VecDeque<NativeOutput>,
    closed: bool,
}

impl Conversation {
    /// A connection on which no byte has arrived.
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Takes received bytes, in order, from the first one of the connection.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        if bytes.len() > RECEIVED_MAX - self.received.len() {
            return self.close(format!("more than {RECEIVED_MAX} bytes of it wait"));
        }
        self.received.extend_from_slice(bytes);
    }

    /// Sends the answer to a request.
    pub fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        self.unanswered.remove(&serial);
        self.send(&Down::Answer(serial, answer));
    }

    /// Sends the notice of a process that has ended.
    pub fn notice(&mut self, death: Death) {
        self.send(&Down::Notice(death));
    }

    /// Whether more bytes wait than the longest request has: stop reading until some are decoded.
    pub fn is_full(&self) -> bool {
        self.received.len() > UP_MAX
    }

    /// The next queued output. Decodes no further request.
    pub fn pending(&mut self) -> Option<NativeOutput> {
        self.out.pop_front()
    }

    /// The next output, if there is one.
    #[expect(clippy::should_implement_trait, reason = "more may come after nothing has")]
    pub fn next(&mut self) -> Option<NativeOutput> {
        if self.out.is_empty() && !self.closed {
            match self.ask() {
                Ok(Some((serial, request))) => self.out.push_back(NativeOutput::Request(serial, request)),
                Ok(None) => {}
                Err(why) => self.close(why),
            }
        }
        self.out.pop_front()
    }

    fn send(&mut self, down: &Down) {
        if !self.closed {
            self.out.push_back(NativeOutput::Send(encode_down(down)));
        }
    }

    fn close(&mut self, why: String) {
        self.closed = true;
        self.received = BytesMut::new();
        self.out.push_back(NativeOutput::Close(why));
    }

    /// Decodes the next request that has arrived completely.
    fn ask(&mut self) -> Result<Option<(Serial, Request)>, String> {
        if !self.begun {
            let (come, expected) = (&self.received[..], &MAGIC[..]);
            if !come.starts_with(expected) && !expected.starts_with(come) {
                return Err("it does not begin with BNR1".into());
            }
            if come.len() < expected.len() {
                return Ok(None);
            }
            self.received.advance(expected.len());
            self.begun = true;
        }
        let body = match take_frame(&mut self.received, UP_MAX).map_err(|error| error.to_string())? {
            Frame::Whole(body) => body,
            Frame::Part => return Ok(None),
        };
        let (serial, request) =
            decode_up(&body).map_err(|error| format!("a request that makes no sense: {error}"))?;
        // An abort has no answer, so it does not count.
        if !matches!(request, Request::Abort { .. }) {
            if self.unanswered.len() >= UNANSWERED_MAX {
                return Err(format!("more than {UNANSWERED_MAX} of its requests are unanswered"));
            }
            if !self.unanswered.insert(serial) {
                return Err(format!(
                    "its request {serial} is unanswered, and it makes another one by this number"
                ));
            }
        }
        Ok(Some((serial, request)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{decode_down, encode_up};
    use crate::exit::Exit;
    use crate::fault::FaultKind;
    use crate::names::{GroupId, Member};

    fn said(conversation: &mut Conversation) -> Vec<NativeOutput> {
        std::iter::from_fn(|| conversation.next()).collect()
    }

    fn begun() -> Conversation {
        let mut conversation = Conversation::new();
        conversation.bytes(&MAGIC);
        assert_eq!(conversation.next(), None);
        conversation
    }

    fn asks(serial: Serial) -> Bytes {
        encode_up(serial, &Request::Lookup { name: b"name".to_vec(), wait: None }).unwrap()
    }

    fn closes(said: &[NativeOutput], why: &str) -> bool {
        matches!(said.last(), Some(NativeOutput::Close(text)) if text.contains(why))
    }

    fn down(said: &NativeOutput) -> Down {
        let NativeOutput::Send(frame) = said else { panic!("{said:?}") };
        decode_down(&frame[4..]).unwrap()
    }

    proptest! {
        #[test]
        fn requests_are_the_same_however_they_come(serials in prop::collection::btree_set(0..99_u64, 0..9), cut in 1..40_usize) {
            let mut stream = MAGIC.to_vec();
            serials.iter().for_each(|serial| stream.extend_from_slice(&asks(*serial)));
            let mut conversation = Conversation::new();
            let mut heard = Vec::new();
            for piece in stream.chunks(cut) {
                conversation.bytes(piece);
                heard.extend(said(&mut conversation));
            }
            let expected: Vec<_> =
                serials.iter().map(|serial| NativeOutput::Request(*serial, Request::Lookup { name: b"name".to_vec(), wait: None })).collect();
            prop_assert_eq!(heard, expected);
        }
    }

    #[test]
    fn answers_and_notices_go_down_in_their_order() {
        let mut conversation = begun();
        conversation.bytes(&[asks(1), asks(2)].concat());
        assert_eq!(said(&mut conversation).len(), 2);
        let member = Member { group: GroupId(1), rank: 3 };
        let death = Death { member, exit: Exit::Signal(9), finalized: false };
        let fault = Fault::died(vec![death]);
        conversation.answered(2, Ok(Answer::Done));
        conversation.notice(death);
        conversation.answered(1, Err(fault.clone()));
        let heard: Vec<Down> = said(&mut conversation).iter().map(down).collect();
        assert_eq!(
            heard,
            [Down::Answer(2, Ok(Answer::Done)), Down::Notice(death), Down::Answer(1, Err(fault))]
        );
    }

    #[test]
    fn an_answer_makes_room_for_a_request() {
        let mut conversation = begun();
        for serial in 0..UNANSWERED_MAX as u64 {
            conversation.bytes(&asks(serial));
        }
        assert_eq!(said(&mut conversation).len(), UNANSWERED_MAX);
        conversation.answered(7, Err(Fault::new(FaultKind::NotFound, "no such name")));
        conversation.bytes(&asks(7));
        assert!(matches!(said(&mut conversation)[..], [NativeOutput::Send(_), NativeOutput::Request(7, _)]));
        // An abort has no answer, so it does not count.
        conversation.bytes(&encode_up(0, &Request::Abort { code: 1, message: "no".into() }).unwrap());
        assert!(matches!(said(&mut conversation)[..], [NativeOutput::Request(0, Request::Abort { .. })]));
        conversation.bytes(&asks(9999));
        assert!(closes(&said(&mut conversation), "requests are unanswered"));
    }

    #[test]
    fn what_makes_no_sense_closes() {
        let wrong: [(&[u8], &str); 5] = [
            (b"cmd=init", "does not begin with BNR1"),
            (b"BNR2", "does not begin with BNR1"),
            (b"BNR1\xff\xff\xff\xff", "a frame of 4294967295 bytes"),
            (b"BNR1\x00\x00\x00\x00", "they end too early"),
            (b"BNR1\x09\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\xff", "no such request"),
        ];
        for (bytes, why) in wrong {
            let mut conversation = Conversation::new();
            conversation.bytes(bytes);
            let heard = said(&mut conversation);
            assert!(heard.len() == 1 && closes(&heard, why), "{heard:?}");
            // The connection is closed: nothing is decoded or sent.
            conversation.bytes(&asks(1));
            conversation.answered(1, Ok(Answer::Done));
            assert_eq!(conversation.next(), None);
        }
        let mut conversation = begun();
        conversation.bytes(&[asks(1), asks(1)].concat());
        assert!(closes(&said(&mut conversation), "by this number"));
    }

    #[test]
    fn a_connection_is_full_behind_the_longest_request() {
        let mut conversation = begun();
        conversation.bytes(&vec![0; UP_MAX]);
        assert!(!conversation.is_full());
        conversation.bytes(b"x");
        assert!(conversation.is_full());
    }

    #[test]
    fn what_is_not_taken_is_not_held_for_ever() {
        let mut conversation = begun();
        let piece = vec![0; 1 << 20];
        for _ in 0..=UP_MAX >> 20 {
            conversation.bytes(&piece);
        }
        conversation.bytes(b"x");
        assert!(closes(&said(&mut conversation), "bytes of it wait"));
    }
}
