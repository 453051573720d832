//! State machine of one connection over the network of the program: two ordered byte streams, cut into messages.
//!
//! Source: docs/wire.md, "Messages over the program's network". Each side announces how many bytes the other may have
//! sent in all, which bounds the receive buffer. No I/O.

use std::collections::VecDeque;

use super::record::{Kind, Record};
use crate::wire::Shown;

/// Receive window, bytes: a segment, so that long data keep flowing.
pub(crate) const WINDOW: u64 = 256 << 10;

/// Sequence number of an end message from a node that does not have the connection.
pub(crate) const NO_CONNECTION: u32 = u32::MAX;

/// Maximum length of the reason that ends a connection, bytes.
pub(crate) const REASON_MAX: usize = 200;

/// How a connection ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The peer has closed it.
    Closed,
    /// It is lost; the peer needs no end message.
    Lost(String),
    /// This side found a protocol error; the peer needs an end message.
    Broken(String),
}

/// New readiness of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Readiness {
    /// Bytes or the end can be read.
    pub(crate) readable: bool,
    /// There is room for blocked bytes.
    pub(crate) writable: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Received, unread bytes.
    received: VecDeque<u8>,
    /// Number of bytes received.
    received_bytes: u64,
    /// Number of bytes that the peer may have sent in all, as announced to it.
    receive_limit: u64,
    /// Number of messages received.
    messages_in: u32,
    /// Number of bytes sent.
    sent: u64,
    /// Number of bytes that this side may have sent in all, as the peer announced.
    send_limit: u64,
    messages_out: u32,
    /// Whether bytes wait for room.
    is_blocked: bool,
    end: Option<End>,
}

impl Connection {
    pub(crate) fn new() -> Connection {
        Connection {
            received: VecDeque::new(),
            received_bytes: 0,
            receive_limit: WINDOW,
            messages_in: 0,
            sent: 0,
            send_limit: WINDOW,
            messages_out: 0,
            is_blocked: false,
            end: None,
        }
    }

    /// Handles a message of the peer. A protocol error ends the connection.
    pub(crate) fn receive(&mut self, record: Record, payload: &[u8]) -> Readiness {
        if self.end.is_some() {
            return Readiness::default();
        }
        match self.handle(record, payload) {
            Ok(readiness) => readiness,
            Err(why) => self.end_with(End::Broken(why)),
        }
    }

    fn handle(&mut self, record: Record, payload: &[u8]) -> Result<Readiness, String> {
        if record.kind == Kind::End && record.sequence == NO_CONNECTION {
            let why = "the peer does not have this connection: its process is another one, or the program's network has lost messages";
            return Ok(self.end_with(End::Lost(why.into())));
        }
        if record.sequence != self.messages_in {
            return Err(format!(
                "message {} arrived instead of {}: the program's network must keep all messages of a pair, and their order",
                record.sequence, self.messages_in
            ));
        }
        self.messages_in = self.messages_in.wrapping_add(1);
        match record.kind {
            Kind::Bytes if payload.len() as u64 > self.receive_limit - self.received_bytes => {
                Err(format!("the peer has sent more than the {} bytes that it may", self.receive_limit))
            }
            Kind::Bytes => {
                self.received_bytes += payload.len() as u64;
                self.received.extend(payload);
                Ok(Readiness { readable: !payload.is_empty(), writable: false })
            }
            Kind::Room => {
                let bytes = payload.try_into().map_err(|_| "the peer's limit is not a 64-bit number")?;
                let room = u64::from_le_bytes(bytes);
                if room < self.send_limit || room > self.sent + WINDOW {
                    return Err(format!(
                        "the peer set an invalid limit: {room} bytes after {}",
                        self.send_limit
                    ));
                }
                let writable = room > self.send_limit && std::mem::take(&mut self.is_blocked);
                self.send_limit = room;
                Ok(Readiness { readable: false, writable })
            }
            Kind::End if payload.is_empty() => Ok(self.end_with(End::Closed)),
            Kind::End => {
                let why = String::from_utf8_lossy(&payload[..payload.len().min(REASON_MAX)]);
                Ok(self.end_with(End::Lost(format!("the peer reported: {}", Shown(&why)))))
            }
        }
    }

    /// Ends the connection; the first end counts. Bytes received before can still be read.
    pub(crate) fn end_with(&mut self, end: End) -> Readiness {
        self.end.get_or_insert(end);
        Readiness { readable: true, writable: true }
    }

    /// The end of the connection, if it has ended.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Reads received bytes; returns their number.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let (first, second) = self.received.as_slices();
        let count = first.len().min(buffer.len());
        buffer[..count].copy_from_slice(&first[..count]);
        let more = second.len().min(buffer.len() - count);
        buffer[count..count + more].copy_from_slice(&second[..more]);
        self.received.drain(..count + more);
        count + more
    }

    /// Returns the new limit to announce to the peer, if it exceeds the last one by at least half a window.
    pub(crate) fn grant(&mut self) -> Option<u64> {
        let receive_limit = self.received_bytes - self.received.len() as u64 + WINDOW;
        (self.end.is_none() && receive_limit - self.receive_limit >= WINDOW / 2).then(|| {
            self.receive_limit = receive_limit;
            receive_limit
        })
    }

    /// Number of bytes that may be sent now. If it is 0, a later [`Readiness::writable`] reports room.
    pub(crate) fn room(&mut self) -> usize {
        let room = self.send_limit - self.sent;
        self.is_blocked |= room == 0;
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Records a message with `bytes` bytes of the stream before it is sent; returns its sequence number. The peer may
    /// reply before the network returns.
    pub(crate) fn next_message(&mut self, bytes: usize) -> u32 {
        self.sent += bytes as u64;
        let sequence = self.messages_out;
        self.messages_out = sequence.wrapping_add(1);
        sequence
    }

    /// Undoes [`next_message`](Self::next_message): the network has not taken the message.
    pub(crate) fn revert_message(&mut self, bytes: usize) {
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

    /// One direction between two ends, with the messages in flight.
    #[derive(Default)]
    struct Way {
        messages: VecDeque<(Record, Vec<u8>)>,
    }

    impl Way {
        fn send(&mut self, from: &mut Connection, kind: Kind, payload: &[u8]) {
            let sequence = from.next_message(if kind == Kind::Bytes { payload.len() } else { 0 });
            self.messages.push_back((record(kind, sequence), payload.to_vec()));
        }
    }

    proptest! {
        /// For any sizes of writes and reads, all bytes arrive in order, the queue is bounded, and room is reported
        /// to a blocked writer.
        #[test]
        fn bytes_arrive_in_order_and_the_queue_is_bounded(
            steps in proptest::collection::vec((0..3_u8, 1..200_000_usize), 1..200),
        ) {
            let (mut here, mut there) = (Connection::new(), Connection::new());
            let (mut out, mut back) = (Way::default(), Way::default());
            let (mut written, mut read, mut is_blocked) = (0_u64, 0_u64, false);
            let byte = |at: u64| (at % 251) as u8;
            for (step, size) in steps {
                match step {
                    0 => {
                        let count = size.min(here.room());
                        is_blocked = count == 0;
                        if count > 0 {
                            let bytes: Vec<u8> = (written..).take(count).map(byte).collect();
                            out.send(&mut here, Kind::Bytes, &bytes);
                            written += count as u64;
                        }
                    }
                    1 => {
                        for (record, payload) in out.messages.drain(..) {
                            there.receive(record, &payload);
                        }
                        for (record, payload) in back.messages.drain(..) {
                            let readiness = here.receive(record, &payload);
                            prop_assert!(!is_blocked || readiness.writable, "blocked bytes are reported");
                            is_blocked = false;
                        }
                    }
                    _ => {
                        let mut buffer = vec![0; size];
                        let count = there.read(&mut buffer);
                        prop_assert!(buffer[..count].iter().enumerate().all(|(at, got)| *got == byte(read + at as u64)));
                        read += count as u64;
                        if let Some(receive_limit) = there.grant() {
                            back.send(&mut there, Kind::Room, &receive_limit.to_le_bytes());
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
    fn a_peer_that_exceeds_its_limit_is_disconnected() {
        let mut connection = Connection::new();
        let all = vec![0; WINDOW as usize];
        assert_eq!(
            connection.receive(record(Kind::Bytes, 0), &all),
            Readiness { readable: true, writable: false }
        );
        connection.receive(record(Kind::Bytes, 1), b"!");
        let Some(End::Broken(why)) = connection.end() else { panic!("it is not broken") };
        assert!(why.contains("262144"), "{why}");
        assert_eq!(connection.received.len() as u64, WINDOW, "what came before can be read");
    }

    #[test]
    fn a_lost_or_repeated_message_breaks_the_connection() {
        for sequence in [0, 2] {
            let mut connection = Connection::new();
            connection.receive(record(Kind::Bytes, 0), b"one");
            connection.receive(record(Kind::Bytes, sequence), b"two");
            assert!(matches!(connection.end(), Some(End::Broken(why)) if why.contains("instead of 1")));
        }
    }

    #[test]
    fn room_that_shrinks_or_grows_beyond_reason_breaks_the_connection() {
        for room in [WINDOW - 1, WINDOW + 1, u64::MAX] {
            let mut connection = Connection::new();
            connection.receive(record(Kind::Room, 0), &room.to_le_bytes());
            assert!(matches!(connection.end(), Some(End::Broken(_))), "{room}");
        }
        let mut connection = Connection::new();
        connection.receive(record(Kind::Room, 0), &[0; 7]);
        assert!(matches!(connection.end(), Some(End::Broken(_))));
    }

    #[test]
    fn the_first_end_counts_and_nothing_comes_after_it() {
        let mut connection = Connection::new();
        connection.receive(record(Kind::Bytes, 0), b"last");
        assert!(connection.receive(record(Kind::End, 1), b"").readable);
        connection.end_with(End::Broken("later".into()));
        assert_eq!(connection.receive(record(Kind::Bytes, 2), b"more"), Readiness::default());
        let mut buffer = [0; 8];
        assert_eq!((connection.read(&mut buffer), connection.end()), (4, Some(&End::Closed)));
    }
}
