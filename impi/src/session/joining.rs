//! The connection until all are done: reads and writes as either goes, and carries out what the machine wants.
//!
//! The socket does not block. What comes is read while what is sent waits to leave: a server may answer a label before it reads the next one, and when each waited for the other to read, both would wait until the time is over.

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

/// How the thread waits.
enum Waits {
    /// For the server alone.
    Server(Poll),
    /// For the server and the client's own node.
    Both(Box<Relay>),
}

/// Before all are done.
pub(super) struct Joining<'a> {
    stream: TcpStream,
    client: Client,
    clock: &'a Clock,
    waits: Waits,
    /// What waits to leave, the first of it perhaps in part: no more than the cluster says.
    queue: VecDeque<Bytes>,
}

impl<'a> Joining<'a> {
    /// On this connection, which does not block from now on; with a node of its own where there are options for one.
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

    /// Takes part until all are done, as long as `goes_on`.
    pub(super) fn learn(
        mut self,
        goes_on: &mut impl FnMut() -> bool,
        trace: &mut impl FnMut(&ClientEvent),
    ) -> Result<(TcpStream, Client, Box<Learned>), SessionError> {
        let mut bytes = vec![0; READ];
        let (mut read, mut learned) = (0, None);
        // Ends: each round waits for what is left of the time at most, and when it is over the machine fails.
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
            // Nothing of what comes before FINI is left behind.
            if let Some(learned) = learned.take_if(|_| self.queue.is_empty()) {
                self.stream.set_nonblocking(false).map_err(SessionError::Socket)?;
                return Ok((self.stream, self.client, learned));
            }
            // What has come to the node was there before the bytes that were read.
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
                // A server that says DONE and does not read this client's.
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

    /// Writes once and reads once; where neither goes, waits until one may. How many bytes were read.
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

    /// Writes once, if there is anything: whether that made a difference.
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

    /// The connection has ended: the machine fails, unless all are done.
    fn lost(&mut self, why: &str) {
        self.queue.clear();
        self.client.handle(ClientInput::Lost(why));
    }

    fn wait(&mut self, left: Duration) -> io::Result<()> {
        match &mut self.waits {
            Waits::Both(relay) => relay.wait(left),
            // One event says all that there is to try.
            Waits::Server(poll) => match poll.poll(&mut Events::with_capacity(4), Some(left)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
                _ => Ok(()),
            },
        }
    }
}
