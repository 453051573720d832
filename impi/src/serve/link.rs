//! One connection: bytes that come, and bytes that wait to leave.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

/// Most pieces of one write: the answers to all labels, several times.
const PIECES_MAX: usize = 64;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// What waits to be sent: the first of them perhaps in part. Clients share the memory of a broadcast.
    queue: VecDeque<Bytes>,
    /// Whether the system may have bytes for it: until it says that it has none.
    readable: bool,
    /// Whether the system may take bytes of it: until it says that it does not.
    writable: bool,
    /// What writing has ended with.
    broken: Option<String>,
    /// Until when what waits may leave, where the connection is to be closed.
    pub(super) closing: Option<Duration>,
}

/// What was read.
#[derive(Debug)]
pub(super) enum Came {
    /// So many bytes.
    Bytes(usize),
    /// None for now.
    Nothing,
    /// None any more, and why.
    End(String),
}

impl Link {
    /// Of a connection that has come. Small answers leave at once. A client whose host has died is noticed within two minutes, though nothing is asked of it: FINI comes when its job ends, and that may take days.
    pub(super) fn new(stream: TcpStream) -> Link {
        // A link without them serves all the same.
        let _ = stream.set_nodelay(true);
        let alive =
            TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(15));
        let _ = SockRef::from(&stream).set_tcp_keepalive(&alive.with_retries(4));
        let queue = VecDeque::new();
        Link { stream, queue, readable: true, writable: true, broken: None, closing: None }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The system has said something of it.
    pub(super) fn woken(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Whether reading is worth a try.
    pub(super) fn reads(&self) -> bool {
        self.readable && self.closing.is_none()
    }

    /// Whether writing is worth a try.
    pub(super) fn writes(&self) -> bool {
        self.writable && !self.queue.is_empty()
    }

    /// Whether nothing waits to be sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn send(&mut self, bytes: Bytes) {
        if self.broken.is_none() {
            self.queue.push_back(bytes);
        }
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Came {
        match self.stream.read(buffer) {
            Ok(0) => Came::End(self.broken.take().unwrap_or_else(|| "it has closed the connection".into())),
            Ok(count) => Came::Bytes(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => Came::Nothing,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                match self.broken.take() {
                    Some(why) => Came::End(why),
                    None => Came::Nothing,
                }
            }
            Err(error) => Came::End(self.broken.take().unwrap_or_else(|| error.to_string())),
        }
    }

    /// Writes once, of as many pieces as there are.
    pub(super) fn write(&mut self) {
        let pieces: Vec<IoSlice<'_>> =
            self.queue.iter().take(PIECES_MAX).map(|bytes| IoSlice::new(bytes)).collect();
        match self.stream.write_vectored(&pieces) {
            Ok(count) => self.left(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
            Err(error) => {
                // What has come before may still be read: a FINI, perhaps.
                self.broken = Some(error.to_string());
                self.queue.clear();
                self.readable = true;
            }
        }
    }

    /// So many bytes have left.
    fn left(&mut self, mut count: usize) {
        // Ends: each round takes a piece, or all that is left of the count.
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

    /// A link, and its peer, whose socket blocks.
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

    #[test]
    fn what_is_written_in_parts_comes_whole() {
        let (mut link, mut peer) = pair();
        // Pieces that are shorter and longer than what the system takes at a time, more of them than one write has.
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

    /// A client may send FINI and close before it has read everything: the system says on writing that it has gone, and its FINI is there to be read.
    #[test]
    fn what_came_before_writing_failed_is_read() {
        let (mut link, mut peer) = pair();
        peer.write_all(b"FINI").unwrap();
        // Bytes that it has not read: the connection is reset.
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
        assert!(matches!(link.read(&mut buffer), Came::Bytes(4)) && buffer.starts_with(b"FINI"));
        assert!(matches!(link.read(&mut buffer), Came::End(_)));
    }
}
