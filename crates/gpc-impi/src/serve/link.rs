//! One connection: its socket, and the queue of outgoing bytes.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use mio::net::TcpStream;
use socket2::SockRef;

use crate::silence;

/// Most pieces in one write: several times the broadcasts of all labels.
const PIECES_MAX: usize = 64;

/// Most bytes that may be queued for a client that does not read: many times the labels of a million processes.
const QUEUED_MAX: usize = 1 << 30;

/// Time limit for outgoing bytes that are unacknowledged, or wait for a client that does not read.
const UNTAKEN: Duration = Duration::from_secs(120);

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// Outgoing bytes; the first piece may be sent in part. The clients' queues share the memory of a broadcast.
    queue: VecDeque<Bytes>,
    /// Length of the queue, bytes.
    queued: usize,
    /// Whether reading may succeed: until it would block.
    readable: bool,
    /// Whether writing may succeed: until it would block.
    writable: bool,
    /// Whether the peer has closed its sending side.
    closed: bool,
    /// The error that writing has ended with.
    broken: Option<String>,
    /// Time limit for the outgoing bytes, if the connection is closing.
    pub(super) closing: Option<Duration>,
}

/// Result of a read.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    /// This many bytes.
    Bytes(usize),
    /// No bytes at present.
    Nothing,
    /// The peer has closed its sending side; it may still read.
    Closed,
    /// The connection has ended, for this reason: writing is impossible, too.
    End(String),
}

impl Link {
    /// An accepted connection. The death of a client's host is detected within two minutes, because FINI arrives only
    /// when the client's job ends, which may take days.
    pub(super) fn new(stream: TcpStream) -> Link {
        // Without these options the connection still works.
        let _ = silence::prepare(SockRef::from(&stream), UNTAKEN);
        Link {
            stream,
            queue: VecDeque::new(),
            queued: 0,
            readable: true,
            writable: true,
            closed: false,
            broken: None,
            closing: None,
        }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Records events of the socket.
    pub(super) fn woken(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether a read may succeed.
    pub(super) fn reads(&self) -> bool {
        self.readable && self.closing.is_none()
    }

    /// Whether a write may succeed.
    pub(super) fn writes(&self) -> bool {
        self.writable && !self.queue.is_empty()
    }

    /// Whether no outgoing bytes are queued.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn send(&mut self, bytes: Bytes) {
        if self.queued >= QUEUED_MAX {
            self.fails(format!("it does not read: {} bytes wait for it", self.queued));
        }
        if self.broken.is_none() {
            self.queued += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// Stops writing. Bytes that arrived earlier may still be read, such as a FINI.
    fn fails(&mut self, why: String) {
        self.broken = Some(why);
        self.queue.clear();
        self.queued = 0;
        self.readable = true;
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        if self.closed {
            self.readable = false;
            return self.broken.take().map_or(ReadOutcome::Nothing, ReadOutcome::End);
        }
        match self.stream.read(buffer) {
            Ok(0) => {
                self.closed = true;
                self.broken.take().map_or(ReadOutcome::Closed, ReadOutcome::End)
            }
            Ok(count) => ReadOutcome::Bytes(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => ReadOutcome::Nothing,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                self.broken.take().map_or(ReadOutcome::Nothing, ReadOutcome::End)
            }
            Err(error) => ReadOutcome::End(self.broken.take().unwrap_or_else(|| error.to_string())),
        }
    }

    /// Writes once, several pieces together.
    pub(super) fn write(&mut self) {
        let pieces: Vec<IoSlice<'_>> =
            self.queue.iter().take(PIECES_MAX).map(|bytes| IoSlice::new(bytes)).collect();
        match self.stream.write_vectored(&pieces) {
            Ok(count) => self.left(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
            Err(error) => self.fails(error.to_string()),
        }
    }

    /// Removes written bytes from the queue.
    fn left(&mut self, mut count: usize) {
        self.queued = self.queued.saturating_sub(count);
        // Ends: each round removes a piece, or returns.
        while let Some(first) = self.queue.front_mut() {
            if count < first.len() {
                return first.advance(count);
            }
            count -= first.len();
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// A link, and its peer with a blocking socket.
    fn pair() -> (Link, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (Link::new(TcpStream::from_std(stream)), peer)
    }

    #[test]
    fn a_link_does_not_wait_to_send_and_notices_a_host_that_has_died() {
        let (link, _peer) = pair();
        let socket = SockRef::from(&link.stream);
        assert!(link.stream.nodelay().unwrap() && socket.keepalive().unwrap());
        let (time, interval) =
            (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
        let retries = socket.tcp_keepalive_retries().unwrap();
        assert!(time + interval * retries <= Duration::from_secs(120));
    }

    /// Keepalive does not probe a host while bytes to it are unacknowledged. So a session whose peer died at such a
    /// moment waited for the system's own limit, a quarter of an hour.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_on_its_way_has_a_time_limit() {
        let (link, _peer) = pair();
        let limit = SockRef::from(&link.stream).tcp_user_timeout().unwrap();
        assert!(
            limit.is_some_and(|limit| !limit.is_zero() && limit <= Duration::from_secs(120)),
            "{limit:?}"
        );
    }

    /// The queue for a client that does not read is bounded. Bytes that it sent before are still read.
    #[test]
    fn one_who_does_not_read_is_given_up() {
        let (mut link, mut peer) = pair();
        peer.write_all(b"DONE").unwrap();
        let mut buffer = [0; 16];
        while link.stream.peek(&mut buffer).is_err() {}
        let piece = Bytes::from(vec![0; 1 << 20]);
        (0..1024).for_each(|_| link.send(piece.clone()));
        assert!(!link.is_flushed() && link.broken.is_none());
        link.send(Bytes::from_static(b"one more"));
        assert!(link.is_flushed() && link.reads());
        assert!(matches!(link.read(&mut buffer), ReadOutcome::Bytes(4)));
        let ReadOutcome::End(why) = link.read(&mut buffer) else { panic!("it is not given up") };
        assert_eq!(why, "it does not read: 1073741824 bytes wait for it");
    }

    /// The bound of the queue is for bytes that wait, not for all bytes of a connection.
    #[test]
    fn bytes_that_have_left_make_room_in_the_queue() {
        let (mut link, mut peer) = pair();
        // As if as many others waited.
        link.queued = QUEUED_MAX - 4;
        for _ in 0..3 {
            link.send(Bytes::from_static(b"four"));
            link.write();
            assert!(link.broken.is_none() && link.is_flushed());
            assert_eq!(link.queued, QUEUED_MAX - 4);
        }
        peer.read_exact(&mut [0; 12]).unwrap();
    }

    #[test]
    fn who_has_closed_its_side_may_read_on() {
        let (mut link, mut peer) = pair();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let mut buffer = [0; 16];
        // The end may take a moment to arrive.
        while !matches!(link.read(&mut buffer), ReadOutcome::Closed) {}
        assert!(matches!(link.read(&mut buffer), ReadOutcome::Nothing) && !link.reads());
        link.send(Bytes::from_static(b"more"));
        link.write();
        let mut got = [0; 4];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"more");
    }

    #[test]
    fn what_is_written_in_parts_comes_whole() {
        let (mut link, mut peer) = pair();
        // Pieces shorter and longer than the socket buffer, and more than one write takes.
        let pieces: Vec<Bytes> =
            (0..200u32).map(|i| vec![i as u8; (i as usize * 7919) % 100_000].into()).collect();
        let expected = pieces.concat();
        pieces.into_iter().for_each(|piece| link.send(piece));
        let reading = std::thread::spawn(move || {
            let mut got = vec![0; expected.len()];
            peer.read_exact(&mut got).unwrap();
            assert!(got == expected);
        });
        while !link.is_flushed() {
            link.woken(false, true);
            link.write();
        }
        reading.join().unwrap();
    }

    /// A client may send FINI and close before it has read everything. Writing then fails, although its FINI is still
    /// to be read.
    #[test]
    fn what_came_before_writing_failed_is_read() {
        let (mut link, mut peer) = pair();
        peer.write_all(b"FINI").unwrap();
        // Unread bytes at the peer reset the connection when it closes.
        link.send(Bytes::from_static(b"unread"));
        link.write();
        peer.peek(&mut [0]).unwrap();
        drop(peer);
        while link.broken.is_none() {
            link.send(Bytes::from_static(b"more"));
            link.woken(false, true);
            link.write();
        }
        link.send(Bytes::from_static(b"nobody reads it"));
        assert!(link.is_flushed() && link.reads());
        let mut buffer = [0; 16];
        assert!(matches!(link.read(&mut buffer), ReadOutcome::Bytes(4)) && buffer.starts_with(b"FINI"));
        assert!(matches!(link.read(&mut buffer), ReadOutcome::End(_)));
    }
}
