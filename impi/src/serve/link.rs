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
