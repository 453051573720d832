//! A client's session over TCP: blocks until all clients are done, and stays connected until the client's processes
//! have ended.
//!
//! Source: IMPI, "Startup": the client's side. [`client`](crate::client) has the protocol; this module has the
//! socket.

mod connect;
mod error;
mod exchange;
mod joining;
mod pipe;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use chained_gpc::{Clock, TimeLimit};
use connect::{connect, resolve};
use joining::{Joining, POLL_INTERVAL};
use socket2::SockRef;

pub use error::SessionError;
pub use exchange::ExchangeSession;

use crate::client::{Client, ClientEvent, ClientFault, ClientOutput, ClientSettings, ClientStage, Learned};
use crate::silence;

/// Time limit for sending FINI, which is 8 bytes.
const FINI_LIMIT: Duration = Duration::from_secs(10);

/// Number of reconnections after the server has closed before it admitted the client, and the pause before each in
/// units of [`POLL_INTERVAL`]. The rank may be taken by an earlier connection of this client that has just died, or
/// strangers may have taken all slots. Somewhat more than 2 s suffice for these to go. A wrong key stays wrong, and
/// must be reported soon.
const AGAIN_MAX: u32 = 8;
const AGAIN_LOOKS: u32 = 3;

/// A client whose session is complete except for FINI.
///
/// Dropping it closes the connection without FINI, which the server reports as a lost client.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    client: Client,
    learned: Learned,
    local: SocketAddr,
}

impl Session {
    /// Takes part in a session: connects to the server at `HOST:PORT`, sends the values in the settings, and learns
    /// those of all. If the server closes before it admits the client, the client retries a few times. `trace` receives
    /// each event. The whole takes at most `limit`.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, the connection fails, or the time limit passes. Also if the server
    /// violates the protocol or is lost, or if the clients' values are inconsistent.
    pub fn join(
        server: &str,
        settings: ClientSettings,
        limit: Duration,
        trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        Session::join_while(server, settings, limit, || true, trace)
    }

    /// Like [`join`](Self::join), as long as `goes_on` returns true: it is called ten times a second while the client
    /// waits. Then the client leaves.
    ///
    /// # Errors
    /// Those of [`join`](Self::join), and [`SessionError::GivenUp`].
    pub fn join_while(
        server: &str,
        settings: ClientSettings,
        limit: Duration,
        goes_on: impl FnMut() -> bool,
        trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        Session::join_within(server, settings, &Clock::system().limit(limit), goes_on, trace)
    }

    /// Like [`join_while`](Self::join_while), with a time limit that may have begun already.
    pub(crate) fn join_within(
        server: &str,
        settings: ClientSettings,
        limit: &TimeLimit,
        mut goes_on: impl FnMut() -> bool,
        mut trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        // Invalid settings are rejected before the name is resolved.
        Client::new(settings.clone())?;
        let addresses = resolve(server, limit)
            .map_err(|cause| SessionError::Address { server: server.to_owned(), cause })?;
        let (mut refused, mut again) = (None, AGAIN_MAX);
        // Ends: each round except the last reduces the number of retries.
        loop {
            let stream = connect(&addresses, limit).map_err(|cause| match refused.take() {
                // The earlier fault is more specific.
                Some(fault) => SessionError::Fault(fault),
                None => SessionError::Connect { server: server.to_owned(), cause },
            })?;
            match Session::part(stream, settings.clone(), limit, &mut goes_on, &mut trace) {
                Err(SessionError::Fault(ClientFault::Lost { stage, why }))
                    if again > 0 && matches!(stage, ClientStage::Auth | ClientStage::Impi) =>
                {
                    trace(&ClientEvent::Again(why.clone()));
                    refused = Some(ClientFault::Lost { stage, why });
                }
                ended => return ended,
            }
            again -= 1;
            for _ in 0..AGAIN_LOOKS {
                if !goes_on() {
                    return Err(SessionError::GivenUp);
                }
                pause(limit.left().unwrap_or_default().min(POLL_INTERVAL));
            }
        }
    }

    /// Like [`join_while`](Self::join_while), over an existing connection: for example through a tunnel, or from a
    /// chosen address. The stream may be blocking or not; afterwards it is blocking.
    ///
    /// # Errors
    /// Those of [`join_while`](Self::join_while), except the errors about the server's address.
    pub fn over(
        stream: TcpStream,
        settings: ClientSettings,
        limit: Duration,
        mut goes_on: impl FnMut() -> bool,
        mut trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        Session::part(stream, settings, &Clock::system().limit(limit), &mut goes_on, &mut trace)
    }

    fn part(
        stream: TcpStream,
        settings: ClientSettings,
        limit: &TimeLimit,
        goes_on: &mut impl FnMut() -> bool,
        trace: &mut impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        let client = Client::new(settings)?;
        let ends = || Ok((stream.local_addr()?, stream.peer_addr()?));
        let (local, peer) = ends().map_err(SessionError::Socket)?;
        silence::prepare(SockRef::from(&stream), silence::UNHEARD).map_err(SessionError::Socket)?;
        trace(&ClientEvent::Connected(local, peer));
        let joining = Joining::new(stream, client, limit).map_err(SessionError::Socket)?;
        let (stream, client, learned) = joining.learn(goes_on, trace)?;
        Ok(Session { stream, client, learned: *learned, local })
    }

    /// What this client has learned.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// The local address of the connection: other clients that reach the server may reach this client there.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Whether the connection has ended: the server is gone, or has failed. Does not block.
    pub fn is_lost(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        // Bytes of the server after DONE have no meaning, and are discarded.
        let lost = drained(&self.stream);
        self.stream.set_nonblocking(false).is_err() || lost
    }

    /// Sends FINI, because the client's processes have ended, and closes the connection.
    ///
    /// # Errors
    /// Returns an error if FINI could not be sent, because the server is gone.
    pub fn finish(mut self) -> Result<(), SessionError> {
        self.client.fini();
        // With unread bytes in the socket, closing would reset the connection, and FINI would be lost.
        if self.is_lost() {
            return Err(SessionError::Fini(ErrorKind::ConnectionAborted.into()));
        }
        self.stream.set_write_timeout(Some(FINI_LIMIT)).map_err(SessionError::Fini)?;
        while let Some(output) = self.client.next_output() {
            if let ClientOutput::Send(bytes) = output {
                self.stream.write_all(&bytes).map_err(SessionError::Fini)?;
            }
        }
        self.stream.shutdown(Shutdown::Write).map_err(SessionError::Fini)
    }
}

#[allow(clippy::disallowed_methods, reason = "nothing reports that a server admits this client again")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Discards received bytes. Returns whether the connection has ended. The socket is non-blocking.
fn drained(mut stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    // Bounded, for a server that keeps sending.
    for _ in 0..64 {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

#[cfg(test)]
mod tests;
