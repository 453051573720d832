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
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::connect::Clock;
use super::{LOOK, SessionError};
use crate::client::{Client, ClientEvent, ClientFault, ClientInput, ClientOutput, Learned};
use crate::relay::{Relay, RelayOptions};
use crate::server::Rank;

/// Bytes that are read at a time.
const READ: usize = 64 * 1024;

/// What the thread waits for.
enum Waits {
    /// The server alone.
    Server(Poll),
    /// The server and the client's own node.
    Both(Box<Relay>),
}

/// A session before all clients are done.
pub(super) struct Joining<'a> {
    stream: TcpStream,
    client: Client,
    clock: &'a Clock,
    waits: Waits,
    /// Outgoing bytes, the first piece perhaps sent in part: at most the values of the cluster.
    queue: VecDeque<Bytes>,
}

impl<'a> Joining<'a> {
    /// Takes over this connection, and makes it non-blocking; with a node of its own if there are options for one.
    pub(super) fn new(
        stream: TcpStream,
        client: Client,
        clock: &'a Clock,
        relay: Option<(RelayOptions, Rank, usize)>,
    ) -> io::Result<Joining<'a>> {
        let (client, waits) = match relay {
            Some((options, rank, bytes_max)) => {
                let relay = Relay::new(options, rank, bytes_max, &stream)?;
                (client.relaying(), Waits::Both(Box::new(relay)))
            }
            None => {
                stream.set_nonblocking(true)?;
                let (poll, both) = (Poll::new()?, Interest::READABLE | Interest::WRITABLE);
                poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(0), both)?;
                (client, Waits::Server(poll))
            }
        };
        Ok(Joining { stream, client, clock, waits, queue: VecDeque::new() })
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
                    ClientOutput::Relay(output) => {
                        let left = self.clock.left().unwrap_or_default();
                        let became = self.relay().and_then(|relay| relay.carry_out(output, left));
                        became.into_iter().for_each(|became| self.client.handle(ClientInput::Relay(became)));
                    }
                    ClientOutput::Learned(all) => learned = Some(all),
                    ClientOutput::Failed(fault) => return Err(fault.into()),
                }
            }
            // All bytes before FINI must have left.
            if let Some(learned) = learned.take_if(|_| self.queue.is_empty()) {
                self.stream.set_nonblocking(false).map_err(SessionError::Socket)?;
                return Ok((self.stream, self.client, learned));
            }
            // Messages that reached the node came before the bytes that were read.
            if let Some(became) = self.relay().and_then(Relay::next) {
                self.client.handle(ClientInput::Relay(became));
                continue;
            }
            if read > 0 {
                self.client.handle(ClientInput::Received(&bytes[..read]));
                read = 0;
                continue;
            }
            match (self.clock.left(), &learned) {
                (None, None) => self.client.handle(ClientInput::Late(self.clock.limit)),
                // The server has sent DONE, but does not read this client's.
                (None, Some(_)) => {
                    let (stage, limit) = (self.client.stage(), self.clock.limit);
                    return Err(ClientFault::Late { stage, limit }.into());
                }
                (Some(_), _) if !goes_on() => return Err(SessionError::GivenUp),
                (Some(left), _) => read = self.exchange(&mut bytes, left.min(LOOK)),
            }
        }
    }

    fn relay(&mut self) -> Option<&mut Relay> {
        match &mut self.waits {
            Waits::Server(_) => None,
            Waits::Both(relay) => Some(relay),
        }
    }

    /// Writes once and reads once; if neither is possible, waits. Returns the number of bytes read.
    fn exchange(&mut self, bytes: &mut [u8], left: Duration) -> usize {
        let wrote = self.write();
        match self.stream.read(bytes) {
            Ok(0) => self.lost("it has closed the connection"),
            Ok(len) => return len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if let (false, Err(error)) = (wrote, self.wait(left)) {
                    self.lost(&error.to_string());
                }
            }
            Err(error) => self.lost(&error.to_string()),
        }
        0
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

    fn wait(&mut self, left: Duration) -> io::Result<()> {
        match &mut self.waits {
            Waits::Both(relay) => relay.wait(left),
            // One event suffices: both reading and writing are tried next.
            Waits::Server(poll) => match poll.poll(&mut Events::with_capacity(4), Some(left)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
                _ => Ok(()),
            },
        }
    }
}
