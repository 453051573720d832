//! The connection until all clients are done: reads and writes, and carries out the outputs of the state machine.
//!
//! The socket is non-blocking, so reading continues while outgoing bytes wait. A server may answer a label before it
//! reads the next one. If client and server each waited for the other to read, both would wait until the time limit.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use chained_gpc::TimeLimit;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::SessionError;
use crate::client::{Client, ClientEvent, ClientFault, ClientInput, ClientOutput, Learned};

/// Bytes that are read at a time.
const READ: usize = 64 * 1024;

/// Interval at which a waiting client calls `goes_on`.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Result of one write and one read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exchanged {
    /// This many bytes have arrived.
    Received(usize),
    /// Neither was possible at present.
    Nothing,
    /// Bytes have left, or the connection has ended.
    Other,
}

/// A session before all clients are done.
pub(super) struct Joining<'a> {
    stream: TcpStream,
    client: Client,
    limit: &'a TimeLimit,
    poll: Poll,
    /// Outgoing bytes, the first piece perhaps sent in part: at most the values of the cluster.
    queue: VecDeque<Bytes>,
}

impl<'a> Joining<'a> {
    /// Takes over this connection, and makes it non-blocking.
    pub(super) fn new(stream: TcpStream, client: Client, limit: &'a TimeLimit) -> io::Result<Joining<'a>> {
        stream.set_nonblocking(true)?;
        let (poll, both) = (Poll::new()?, Interest::READABLE | Interest::WRITABLE);
        poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(0), both)?;
        Ok(Joining { stream, client, limit, poll, queue: VecDeque::new() })
    }

    /// Runs until all clients are done, as long as `goes_on` returns true.
    pub(super) fn learn(
        mut self,
        goes_on: &mut impl FnMut() -> bool,
        trace: &mut impl FnMut(&ClientEvent),
    ) -> Result<(TcpStream, Client, Box<Learned>), SessionError> {
        let mut bytes = vec![0; READ];
        let (mut read, mut learned) = (0, None);
        // Ends: each round waits at most for the time left, and after that the state machine fails.
        loop {
            while let Some(output) = self.client.next_output() {
                match output {
                    ClientOutput::Send(bytes) => self.queue.push_back(bytes),
                    ClientOutput::Event(event) => trace(&event),
                    ClientOutput::Learned(all) => learned = Some(all),
                    ClientOutput::Failed(fault) => return Err(fault.into()),
                }
            }
            // All bytes before FINI must have left.
            if let Some(learned) = learned.take_if(|_| self.queue.is_empty()) {
                self.stream.set_nonblocking(false).map_err(SessionError::Socket)?;
                return Ok((self.stream, self.client, learned));
            }
            if read > 0 {
                self.client.handle(ClientInput::Received(&bytes[..read]));
                read = 0;
                continue;
            }
            match (self.limit.left(), &learned) {
                (None, None) => self.client.handle(ClientInput::Late(self.limit.duration())),
                // The server has sent DONE, but does not read this client's.
                (None, Some(_)) => {
                    let (stage, limit) = (self.client.stage(), self.limit.duration());
                    return Err(ClientFault::Late { stage, limit }.into());
                }
                (Some(_), _) if !goes_on() => return Err(SessionError::GivenUp),
                (Some(left), _) => match self.exchange(&mut bytes) {
                    Exchanged::Received(count) => read = count,
                    Exchanged::Other => {}
                    Exchanged::Nothing => self.wait(left.min(POLL_INTERVAL)),
                },
            }
        }
    }

    /// Writes once and reads once.
    fn exchange(&mut self, bytes: &mut [u8]) -> Exchanged {
        let wrote = self.write();
        match self.stream.read(bytes) {
            Ok(0) => self.lost("it has closed the connection"),
            Ok(count) => return Exchanged::Received(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The next write may succeed as well, and no event reports that.
            Err(error) if error.kind() == ErrorKind::WouldBlock && wrote => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Exchanged::Nothing,
            Err(error) => self.lost(&error.to_string()),
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
            Err(error) => self.lost(&error.to_string()),
        }
        true
    }

    /// The connection has ended: the state machine fails, unless all clients are done.
    fn lost(&mut self, why: &str) {
        self.queue.clear();
        self.client.handle(ClientInput::Lost(why));
    }

    fn wait(&mut self, left: Duration) {
        // One event suffices: both reading and writing are tried next.
        match self.poll.poll(&mut Events::with_capacity(4), Some(left)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => self.lost(&error.to_string()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientSettings, Cluster, Host, Proc, from_ip};
    use crate::wire::Methods;

    /// A session with AUTH still to be processed, and the server's side of its connection.
    fn joining(limit: &TimeLimit) -> (Joining<'_>, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let address = from_ip(std::net::Ipv4Addr::LOCALHOST.into());
        let hosts = vec![Host::new(address, 5000, vec![Proc::new(address, 1)])];
        let methods = Methods { none: true, key: None };
        let client = Client::new(ClientSettings::new(0, methods, Cluster::new(hosts))).unwrap();
        (Joining::new(stream, client, limit).unwrap(), server)
    }

    fn limit() -> TimeLimit {
        chained_gpc::Clock::system().limit(Duration::from_secs(60))
    }

    /// A piece that is longer than the socket takes at once leaves in several parts.
    #[test]
    fn a_piece_that_leaves_in_parts_leaves_whole() {
        let limit = limit();
        let (mut joining, mut server) = joining(&limit);
        let values = (0..1 << 20).map(|i: u32| (i >> 8) as u8).collect::<Vec<u8>>().repeat(32);
        joining.queue.extend([Bytes::from(values.clone()), Bytes::from_static(b"behind")]);
        // Ends: the socket takes no more.
        while joining.write() {}
        assert_eq!(joining.queue.len(), 2, "the socket has taken a part of the first piece");
        let left: usize = joining.queue.iter().map(Bytes::len).sum();
        let mut received = vec![0; values.len() + 6 - left];
        server.read_exact(&mut received).unwrap();
        let rest = joining.queue.iter().flatten().copied();
        received.extend(rest);
        assert!(received == [&values[..], b"behind"].concat());
    }

    /// A client waited for an event after each piece that had left, up to 100 ms, though the socket took the next one:
    /// the key, the rank, and each label of this project were late.
    #[test]
    fn the_next_piece_leaves_without_an_event() {
        let limit = limit();
        let (mut joining, mut server) = joining(&limit);
        joining.queue.extend([Bytes::from_static(b"key"), Bytes::from_static(b"rank")]);
        let mut bytes = [0; 8];
        assert_eq!(joining.exchange(&mut bytes), Exchanged::Other);
        assert_eq!(joining.exchange(&mut bytes), Exchanged::Other);
        assert_eq!(joining.exchange(&mut bytes), Exchanged::Nothing);
        server.read_exact(&mut bytes[..7]).unwrap();
        assert_eq!(&bytes[..7], b"keyrank");
    }
}
