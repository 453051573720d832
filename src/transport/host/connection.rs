//! The state of one connection over the network of the program: two ordered streams of bytes, cut into messages.
//!
//! Source: docs/wire.md, "Messages over the program's network". Each side tells the other how many bytes it may have
//! sent in all, so that what waits here is bounded. No I/O: messages and reads come in, what is to be sent comes out.

use std::collections::VecDeque;

use super::record::{Kind, Record};
use crate::wire::Shown;

/// Bytes that a side accepts beyond those that have been read: a segment, so that long data keep moving.
pub(crate) const WINDOW: u64 = 256 << 10;

/// In place of the number of a message: an end from a node that does not have the connection.
pub(crate) const NOT_HERE: u32 = u32::MAX;

/// Maximum length of the reason that ends a connection, bytes.
pub(crate) const REASON_MAX: usize = 200;

/// How a connection has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The other side has closed it.
    Closed,
    /// It is lost, and the other side knows, or is gone.
    Lost(String),
    /// This side has found it broken, which the other side does not know.
    Broken(String),
}

/// What a message has changed for the node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct News {
    /// Bytes have come, or the end.
    pub(crate) readable: bool,
    /// There is room for bytes that found none.
    pub(crate) writable: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Came, and was not read.
    received: VecDeque<u8>,
    /// Bytes that have come in all.
    came: u64,
    /// Bytes that the other side may have sent in all, as it was told.
    permitted: u64,
    /// Messages that have come.
    messages_in: u32,
    /// Bytes sent in all.
    sent: u64,
    /// Bytes that may have been sent in all, as the other side said.
    may_send: u64,
    messages_out: u32,
    /// Whether bytes have found no room.
    waits: bool,
    end: Option<End>,
}

impl Connection {
    pub(crate) fn new() -> Connection {
        Connection {
            received: VecDeque::new(),
            came: 0,
            permitted: WINDOW,
            messages_in: 0,
            sent: 0,
            may_send: WINDOW,
            messages_out: 0,
            waits: false,
            end: None,
        }
    }

    /// A message has come. What breaks the rules breaks the connection.
    pub(crate) fn came(&mut self, record: Record, payload: &[u8]) -> News {
        if self.end.is_some() {
            return News::default();
        }
        match self.take(record, payload) {
            Ok(news) => news,
            Err(why) => self.end_with(End::Broken(why)),
        }
    }

    fn take(&mut self, record: Record, payload: &[u8]) -> Result<News, String> {
        if record.kind == Kind::End && record.sequence == NOT_HERE {
            let why = "the peer does not have this connection: its process is another one, or the program's network has lost messages";
            return Ok(self.end_with(End::Lost(why.into())));
        }
        if record.sequence != self.messages_in {
            return Err(format!(
                "message {} came where {} was due: the program's network must keep all messages of a pair, and their order",
                record.sequence, self.messages_in
            ));
        }
        self.messages_in = self.messages_in.wrapping_add(1);
        match record.kind {
            Kind::Bytes if payload.len() as u64 > self.permitted - self.came => {
                Err(format!("the peer has sent more than the {} bytes that it may", self.permitted))
            }
            Kind::Bytes => {
                self.came += payload.len() as u64;
                self.received.extend(payload);
                Ok(News { readable: !payload.is_empty(), writable: false })
            }
            Kind::Room => {
                let bytes = payload.try_into().map_err(|_| "the peer permits a number that is not one")?;
                let room = u64::from_le_bytes(bytes);
                if room < self.may_send || room > self.sent + WINDOW {
                    return Err(format!("the peer permits {room} bytes after {}", self.may_send));
                }
                let writable = room > self.may_send && std::mem::take(&mut self.waits);
                self.may_send = room;
                Ok(News { readable: false, writable })
            }
            Kind::End if payload.is_empty() => Ok(self.end_with(End::Closed)),
            Kind::End => {
                let why = String::from_utf8_lossy(&payload[..payload.len().min(REASON_MAX)]);
                Ok(self.end_with(End::Lost(format!("the peer has found: {}", Shown(&why)))))
            }
        }
    }

    /// The connection is at an end; what came before can still be read. The first end counts.
    pub(crate) fn end_with(&mut self, end: End) -> News {
        self.end.get_or_insert(end);
        News { readable: true, writable: true }
    }

    /// How it has ended.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Takes bytes that have come; returns how many.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let (first, second) = self.received.as_slices();
        let count = first.len().min(buffer.len());
        buffer[..count].copy_from_slice(&first[..count]);
        let more = second.len().min(buffer.len() - count);
        buffer[count..count + more].copy_from_slice(&second[..more]);
        self.received.drain(..count + more);
        count + more
    }

    /// How many bytes the other side may have sent in all, if that is news enough for a message: half a window.
    pub(crate) fn grant(&mut self) -> Option<u64> {
        let permitted = self.came - self.received.len() as u64 + WINDOW;
        (self.end.is_none() && permitted - self.permitted >= WINDOW / 2).then(|| {
            self.permitted = permitted;
            permitted
        })
    }

    /// How many bytes may be sent now. If none, they wait for a [`News::writable`].
    pub(crate) fn room(&mut self) -> usize {
        let room = self.may_send - self.sent;
        self.waits |= room == 0;
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// A message with so many bytes of the stream is about to leave; returns its number. The other side may answer
    /// before the network has said that it took the message.
    pub(crate) fn sends(&mut self, bytes: usize) -> u32 {
        self.sent += bytes as u64;
        let sequence = self.messages_out;
        self.messages_out = sequence.wrapping_add(1);
        sequence
    }

    /// The network has not taken that message.
    pub(crate) fn not_sent(&mut self, bytes: usize) {
        self.sent -= bytes as u64;
        self.messages_out = self.messages_out.wrapping_sub(1);
    }

    /// Releases memory that is not in use.
    pub(crate) fn release_spare_memory(&mut self) {
        self.received.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: Kind, sequence: u32) -> Record {
        Record { kind, opened_by_receiver: false, sequence, connection: 1 }
    }

    /// One end of a connection, its other end, and the messages between them.
    #[derive(Default)]
    struct Way {
        messages: VecDeque<(Record, Vec<u8>)>,
    }

    impl Way {
        fn send(&mut self, from: &mut Connection, kind: Kind, payload: &[u8]) {
            let sequence = from.sends(if kind == Kind::Bytes { payload.len() } else { 0 });
            self.messages.push_back((record(kind, sequence), payload.to_vec()));
        }
    }

    proptest! {
        /// Whatever the sizes of writes and reads, all bytes arrive in order, what waits is bounded, and who waits for
        /// room is told of it.
        #[test]
        fn bytes_arrive_in_order_and_what_waits_is_bounded(
            steps in proptest::collection::vec((0..3_u8, 1..200_000_usize), 1..200),
        ) {
            let (mut here, mut there) = (Connection::new(), Connection::new());
            let (mut out, mut back) = (Way::default(), Way::default());
            let (mut written, mut read, mut waits) = (0_u64, 0_u64, false);
            let byte = |at: u64| (at % 251) as u8;
            for (step, size) in steps {
                match step {
                    0 => {
                        let count = size.min(here.room());
                        waits = count == 0;
                        if count > 0 {
                            let bytes: Vec<u8> = (written..).take(count).map(byte).collect();
                            out.send(&mut here, Kind::Bytes, &bytes);
                            written += count as u64;
                        }
                    }
                    1 => {
                        for (record, payload) in out.messages.drain(..) {
                            there.came(record, &payload);
                        }
                        for (record, payload) in back.messages.drain(..) {
                            let news = here.came(record, &payload);
                            prop_assert!(!waits || news.writable, "who waits is told");
                            waits = false;
                        }
                    }
                    _ => {
                        let mut buffer = vec![0; size];
                        let count = there.read(&mut buffer);
                        prop_assert!(buffer[..count].iter().enumerate().all(|(at, got)| *got == byte(read + at as u64)));
                        read += count as u64;
                        if let Some(permitted) = there.grant() {
                            back.send(&mut there, Kind::Room, &permitted.to_le_bytes());
                        }
                    }
                }
                prop_assert!(there.received.len() as u64 <= WINDOW);
                prop_assert_eq!((here.end(), there.end()), (None, None));
            }
            prop_assert!(read <= written && written - read <= WINDOW + WINDOW / 2);
        }
    }

    #[test]
    fn who_sends_more_than_it_may_is_cut_off() {
        let mut connection = Connection::new();
        let all = vec![0; WINDOW as usize];
        assert_eq!(connection.came(record(Kind::Bytes, 0), &all), News { readable: true, writable: false });
        connection.came(record(Kind::Bytes, 1), b"!");
        let Some(End::Broken(why)) = connection.end() else { panic!("it is not broken") };
        assert!(why.contains("262144"), "{why}");
        assert_eq!(connection.received.len() as u64, WINDOW, "what came before can be read");
    }

    #[test]
    fn a_lost_or_repeated_message_breaks_the_connection() {
        for sequence in [0, 2] {
            let mut connection = Connection::new();
            connection.came(record(Kind::Bytes, 0), b"one");
            connection.came(record(Kind::Bytes, sequence), b"two");
            assert!(matches!(connection.end(), Some(End::Broken(why)) if why.contains("where 1 was due")));
        }
    }

    #[test]
    fn room_that_shrinks_or_grows_beyond_reason_breaks_the_connection() {
        for room in [WINDOW - 1, WINDOW + 1, u64::MAX] {
            let mut connection = Connection::new();
            connection.came(record(Kind::Room, 0), &room.to_le_bytes());
            assert!(matches!(connection.end(), Some(End::Broken(_))), "{room}");
        }
        let mut connection = Connection::new();
        connection.came(record(Kind::Room, 0), &[0; 7]);
        assert!(matches!(connection.end(), Some(End::Broken(_))));
    }

    #[test]
    fn the_first_end_counts_and_nothing_comes_after_it() {
        let mut connection = Connection::new();
        connection.came(record(Kind::Bytes, 0), b"last");
        assert!(connection.came(record(Kind::End, 1), b"").readable);
        connection.end_with(End::Broken("later".into()));
        assert_eq!(connection.came(record(Kind::Bytes, 2), b"more"), News::default());
        let mut buffer = [0; 8];
        assert_eq!((connection.read(&mut buffer), connection.end()), (4, Some(&End::Closed)));
    }
}
