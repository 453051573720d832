//! The connection until all clients are done: carries out the outputs of the state machine.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use chained_gpc::TimeLimit;

use super::SessionError;
use super::pipe::{Exchanged, Pipe, READ};
use crate::client::{Client, ClientEvent, ClientFault, ClientInput, ClientOutput, Learned};

/// Interval at which a waiting client calls `goes_on`.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A session before all clients are done.
pub(super) struct Joining<'a> {
    /// Its queue has at most the values of the cluster.
    pipe: Pipe,
    client: Client,
    limit: &'a TimeLimit,
}

impl<'a> Joining<'a> {
    /// Takes over this connection, and makes it non-blocking.
    pub(super) fn new(stream: TcpStream, client: Client, limit: &'a TimeLimit) -> io::Result<Joining<'a>> {
        Ok(Joining { pipe: Pipe::new(stream)?, client, limit })
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
            // The connection has ended: the state machine fails, unless all clients are done.
            if let Some(why) = self.pipe.take_lost() {
                self.client.handle(ClientInput::Lost(&why));
            }
            while let Some(output) = self.client.next_output() {
                match output {
                    ClientOutput::Send(bytes) => self.pipe.send(bytes),
                    ClientOutput::Event(event) => trace(&event),
                    ClientOutput::Learned(all) => learned = Some(all),
                    ClientOutput::Failed(fault) => return Err(fault.into()),
                }
            }
            // All bytes before FINI must have left.
            if let Some(learned) = learned.take_if(|_| self.pipe.is_flushed()) {
                let stream = self.pipe.into_stream().map_err(SessionError::Socket)?;
                return Ok((stream, self.client, learned));
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
                (Some(left), _) => match self.pipe.exchange(&mut bytes) {
                    Exchanged::Received(count) => read = count,
                    Exchanged::Other => {}
                    Exchanged::Nothing => self.pipe.wait(left.min(POLL_INTERVAL)),
                },
            }
        }
    }
}
