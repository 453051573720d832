//! A session over TCP whose owner chooses the labels: without blocking, or blocking within a limit.
//!
//! Source: IMPI, "Startup": the client's side. [`Exchange`] has the protocol; this module has the socket.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use chained_gpc::Clock;
use socket2::SockRef;

use super::SessionError;
use super::connect::{connect, resolve};
use super::pipe::{Exchanged, Pipe, READ};
use crate::client::{ClientInput, Exchange, ExchangeSettings, SendError};
use crate::silence;
use crate::wire::Label;

/// Most reads in one turn, so that a server that keeps sending does not keep the caller.
const READS_MAX: u32 = 64;

/// A session whose owner chooses the labels. Dropping it closes the connection; before FINI the server reports a lost
/// client.
#[derive(Debug)]
pub struct ExchangeSession {
    pipe: Pipe,
    machine: Exchange,
    buffer: Vec<u8>,
    clock: Clock,
}

impl ExchangeSession {
    /// Connects to the server at `HOST:PORT`, within this limit.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, or the connection fails.
    pub fn connect(
        server: &str,
        settings: ExchangeSettings,
        limit: Duration,
    ) -> Result<ExchangeSession, SessionError> {
        // Invalid settings are rejected before the name is resolved.
        let machine = Exchange::new(settings)?;
        let clock = Clock::system();
        let limit = clock.limit(limit);
        let addresses = resolve(server, &limit)
            .map_err(|cause| SessionError::Address { server: server.to_owned(), cause })?;
        let stream = connect(&addresses, &limit)
            .map_err(|cause| SessionError::Connect { server: server.to_owned(), cause })?;
        ExchangeSession::over(stream, machine, clock)
    }

    fn over(stream: TcpStream, machine: Exchange, clock: Clock) -> Result<ExchangeSession, SessionError> {
        silence::prepare(SockRef::from(&stream), silence::UNHEARD).map_err(SessionError::Socket)?;
        let pipe = Pipe::new(stream).map_err(SessionError::Socket)?;
        Ok(ExchangeSession { pipe, machine, buffer: vec![0; READ], clock })
    }

    /// The session: what is known, and what was received.
    pub fn exchange(&self) -> &Exchange {
        &self.machine
    }

    /// Sends the values of a label, as far as that is possible at once: see [`Exchange::send`].
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn send(&mut self, label: Label, values: &[u8]) -> Result<(), SendError> {
        self.machine.send(label, values)?;
        self.turn();
        Ok(())
    }

    /// Sends DONE, as far as that is possible at once.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn done(&mut self) -> Result<(), SendError> {
        self.machine.done()?;
        self.turn();
        Ok(())
    }

    /// Sends FINI, as far as that is possible at once. If the connection is lost before it has left, the session has
    /// [failed](Exchange::fault).
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn fini(&mut self) -> Result<(), SendError> {
        // The server may have ended since.
        self.turn();
        self.machine.fini()?;
        self.turn();
        Ok(())
    }

    /// Writes and reads what is possible without waiting.
    pub fn progress(&mut self) {
        self.turn();
    }

    /// Writes and reads until `is_reached` or the session has failed, at most `limit`. Returns whether it is reached.
    pub fn wait(&mut self, limit: Duration, is_reached: impl Fn(&ExchangeSession) -> bool) -> bool {
        let limit = self.clock.limit(limit);
        // Ends: at the time limit.
        loop {
            let idle = self.turn();
            if is_reached(self) || self.machine.fault().is_some() {
                return is_reached(self);
            }
            match limit.left() {
                None => return false,
                Some(left) if idle => self.pipe.wait(left),
                Some(_) => {}
            }
        }
    }

    /// Whether all bytes were handed to the system.
    pub fn is_flushed(&self) -> bool {
        self.pipe.is_flushed()
    }

    /// Writes and reads what is possible without waiting. Returns whether nothing more is.
    fn turn(&mut self) -> bool {
        for _ in 0..READS_MAX {
            while let Some(bytes) = self.machine.next_bytes() {
                self.pipe.send(bytes);
            }
            let exchanged = self.pipe.exchange(&mut self.buffer);
            if let Exchanged::Received(count) = exchanged {
                self.machine.handle(ClientInput::Received(&self.buffer[..count]));
            }
            let lost = self.pipe.take_lost();
            // After FINI the server may close the connection.
            if let Some(why) = lost.as_ref().filter(|_| self.pipe.is_cut() || !self.machine.is_finished()) {
                self.machine.handle(ClientInput::Lost(why));
            }
            if exchanged == Exchanged::Nothing || lost.is_some() {
                return true;
            }
        }
        false
    }
}

/// The socket, for an event loop: it is readable when the server has sent something, and its writability matters while
/// the session is not [flushed](ExchangeSession::is_flushed).
impl AsRawFd for ExchangeSession {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.stream().as_raw_fd()
    }
}
