//! A connection that does not block, and the bytes that wait to leave.
//!
//! Reading continues while outgoing bytes wait. A server may answer a label before it reads the next one. If client and
//! server each waited for the other to read, both would wait until the time limit.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// Bytes that are read at a time.
pub(super) const READ: usize = 64 * 1024;

/// Result of one write and one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchanged {
    /// This many bytes have arrived.
    Received(usize),
    /// Neither was possible at present.
    Nothing,
    /// Bytes have left, or the connection has ended.
    Other,
}

/// A non-blocking connection.
#[derive(Debug)]
pub(super) struct Pipe {
    stream: TcpStream,
    poll: Poll,
    /// Outgoing bytes, the first piece perhaps sent in part.
    queue: VecDeque<Bytes>,
    /// Why the connection has ended.
    lost: Option<String>,
    /// Whether bytes have not left by then.
    cut: bool,
}

impl Pipe {
    /// Takes over this connection, and makes it non-blocking.
    pub(super) fn new(stream: TcpStream) -> io::Result<Pipe> {
        stream.set_nonblocking(true)?;
        let (poll, both) = (Poll::new()?, Interest::READABLE | Interest::WRITABLE);
        poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(0), both)?;
        Ok(Pipe { stream, poll, queue: VecDeque::new(), lost: None, cut: false })
    }

    /// The connection, which blocks again.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_nonblocking(false)?;
        Ok(self.stream)
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends these bytes after those that wait already.
    pub(super) fn send(&mut self, bytes: Bytes) {
        self.queue.push_back(bytes);
    }

    /// Whether all bytes have left, or never will.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the connection has ended before all bytes had left.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Why the connection has ended, once.
    pub(super) fn take_lost(&mut self) -> Option<String> {
        self.lost.take()
    }

    /// Writes once and reads once.
    pub(super) fn exchange(&mut self, bytes: &mut [u8]) -> Exchanged {
        let wrote = self.write();
        match self.stream.read(bytes) {
            Ok(0) => self.end("it has closed the connection"),
            Ok(count) => return Exchanged::Received(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The next write may succeed as well, and no event reports that.
            Err(error) if error.kind() == ErrorKind::WouldBlock && wrote => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Exchanged::Nothing,
            Err(error) => self.end(&error.to_string()),
        }
        Exchanged::Other
    }

    /// Writes once, if bytes are queued. Returns whether the write had an effect.
    fn write(&mut self) -> bool {
        let Some(first) = self.queue.front_mut() else { return false };
        match self.stream.write(first) {
            Ok(written) => {
                first.advance(written);
                if first.is_empty() {
                    self.queue.pop_front();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => self.end(&error.to_string()),
        }
        true
    }

    /// The connection has ended: no byte will leave.
    fn end(&mut self, why: &str) {
        self.cut |= !self.queue.is_empty();
        self.queue.clear();
        self.lost = Some(why.to_owned());
    }

    /// Waits until reading or writing may be possible.
    pub(super) fn wait(&mut self, left: Duration) {
        // One event suffices: both reading and writing are tried next.
        match self.poll.poll(&mut Events::with_capacity(4), Some(left)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => self.end(&error.to_string()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection, and the server's side of it.
    fn pipe() -> (Pipe, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (Pipe::new(stream).unwrap(), server)
    }

    /// A piece that is longer than the socket takes at once leaves in several parts.
    #[test]
    fn a_piece_that_leaves_in_parts_leaves_whole() {
        let (mut pipe, mut server) = pipe();
        let values = (0..1 << 20).map(|i: u32| (i >> 8) as u8).collect::<Vec<u8>>().repeat(32);
        pipe.queue.extend([Bytes::from(values.clone()), Bytes::from_static(b"behind")]);
        // Ends: the socket takes no more.
        while pipe.write() {}
        assert_eq!(pipe.queue.len(), 2, "the socket has taken a part of the first piece");
        let left: usize = pipe.queue.iter().map(Bytes::len).sum();
        let mut received = vec![0; values.len() + 6 - left];
        server.read_exact(&mut received).unwrap();
        let rest = pipe.queue.iter().flatten().copied();
        received.extend(rest);
        assert!(received == [&values[..], b"behind"].concat());
    }

    /// A client waited for an event after each piece that had left, up to 100 ms, though the socket took the next one:
    /// the key, the rank, and each label of this project were late.
    #[test]
    fn the_next_piece_leaves_without_an_event() {
        let (mut pipe, mut server) = pipe();
        pipe.queue.extend([Bytes::from_static(b"key"), Bytes::from_static(b"rank")]);
        let mut bytes = [0; 8];
        assert_eq!(pipe.exchange(&mut bytes), Exchanged::Other);
        assert_eq!(pipe.exchange(&mut bytes), Exchanged::Other);
        assert_eq!(pipe.exchange(&mut bytes), Exchanged::Nothing);
        server.read_exact(&mut bytes[..7]).unwrap();
        assert_eq!(&bytes[..7], b"keyrank");
    }
}
