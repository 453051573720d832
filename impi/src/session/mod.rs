//! A client's session over TCP: blocks until all are done, and stays connected until its processes have ended.
//!
//! Source: IMPI, "Startup": the client's side. The protocol is in [`client`](crate::client); here are the socket and the clock.
#![allow(clippy::disallowed_methods, reason = "a session has a time limit, which its driver counts")]

mod connect;
mod joining;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use connect::{Clock, connect, resolve};
use joining::Joining;
use socket2::SockRef;

use crate::client::{
    Client, ClientEvent, ClientFault, ClientOutput, ClientSettings, ClientSettingsError, ClientStage, Learned,
};
use crate::relay::RelayOptions;
use crate::silence;

/// How long FINI may take to leave: it is 8 bytes.
const FINI_LIMIT: Duration = Duration::from_secs(10);

/// How often one who waits is asked whether it goes on.
const LOOK: Duration = Duration::from_millis(100);

/// How often a client connects again when the server has closed before it let the client in, and after how many [`LOOK`]s each time. Its rank may be taken by a connection of its own that has just died, or strangers may have taken all places; somewhat more than 2 s are enough for these to go. A wrong key stays wrong, and is to be told soon.
const AGAIN_MAX: u32 = 8;
const AGAIN_LOOKS: u32 = 3;

/// How a client takes part.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How long it may take until all are done.
    pub limit: Duration,
    /// That the server's broadcasts may go through a node of this client, where the server wants that and all clients know how. It lives until the client has [joined](Session::join_with). Where there can be none, the broadcasts come from the server.
    pub relay: Option<RelayOptions>,
}

/// A client whose session is done but for FINI.
///
/// Dropping it closes the connection without FINI, which the server reports as a lost client.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    client: Client,
    learned: Learned,
    local: SocketAddr,
}

/// Why a session has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// What the client would say cannot be said.
    #[error(transparent)]
    Settings(#[from] ClientSettingsError),
    /// The server's address is none, or its name was not found.
    #[error("the address of the IMPI server, `{}`, cannot be looked up: {cause}; it is HOST:PORT, which the server prints when it listens", chained_gpc::Shown(.server))]
    Address {
        /// The address as it was given.
        server: String,
        /// Why.
        cause: io::Error,
    },
    /// Nobody listens there.
    #[error("no connection to the IMPI server `{}`: {cause}; has it been started, and is it reachable from here?", chained_gpc::Shown(.server))]
    Connect {
        /// The address as it was given.
        server: String,
        /// Why.
        cause: io::Error,
    },
    /// The session itself.
    #[error(transparent)]
    Fault(#[from] ClientFault),
    /// The system does not tell what happens at the socket.
    #[error("the client cannot wait for the server: {0}")]
    Socket(#[source] io::Error),
    /// Who waits has been told not to go on.
    #[error("the session was given up before all were done")]
    GivenUp,
    /// FINI did not leave.
    #[error("FINI could not be sent: {0}")]
    Fini(io::Error),
}

impl Session {
    /// Takes part: connects to the server at `HOST:PORT`, says what the settings have, and learns of the others. When the server closes before it lets the client in, the client tries again a few times. `trace` is told what happens. All of it together takes `limit` at most.
    ///
    /// # Errors
    /// When the settings cannot be said, nobody listens there, the time is over, the server breaks the protocol or is lost, or what the clients say does not go together.
    pub fn join(
        server: &str,
        settings: ClientSettings,
        limit: Duration,
        trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        Session::join_while(server, settings, limit, || true, trace)
    }

    /// The same, as long as `goes_on`: while it waits for the server it asks ten times a second. Then it leaves.
    ///
    /// # Errors
    /// The same, and [`SessionError::GivenUp`].
    pub fn join_while(
        server: &str,
        settings: ClientSettings,
        limit: Duration,
        goes_on: impl FnMut() -> bool,
        trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        Session::join_with(server, settings, SessionOptions { limit, relay: None }, goes_on, trace)
    }

    /// The same with all options.
    ///
    /// # Errors
    /// The same.
    pub fn join_with(
        server: &str,
        settings: ClientSettings,
        options: SessionOptions,
        mut goes_on: impl FnMut() -> bool,
        mut trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        // What cannot be said is refused before anybody is asked.
        Client::new(settings.clone())?;
        let clock = Clock { begin: Instant::now(), limit: options.limit };
        let addresses = resolve(server, &clock)
            .map_err(|cause| SessionError::Address { server: server.to_owned(), cause })?;
        let (mut refused, mut again) = (None, AGAIN_MAX);
        // Ends: each round but the last takes one from how often it may be.
        loop {
            let stream = connect(&addresses, &clock).map_err(|cause| match refused.take() {
                // That says more.
                Some(fault) => SessionError::Fault(fault),
                None => SessionError::Connect { server: server.to_owned(), cause },
            })?;
            let relay = options.relay.clone();
            match Session::part(stream, settings.clone(), relay, &clock, &mut goes_on, &mut trace) {
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
                std::thread::sleep(clock.left().unwrap_or_default().min(LOOK));
            }
        }
    }

    /// The same on a connection that there is already, through a tunnel or from an address of one's choice. It blocks or not; afterwards it blocks.
    ///
    /// # Errors
    /// The same, but for those of the server's address.
    pub fn over(
        stream: TcpStream,
        settings: ClientSettings,
        options: SessionOptions,
        mut goes_on: impl FnMut() -> bool,
        mut trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        let clock = Clock { begin: Instant::now(), limit: options.limit };
        Session::part(stream, settings, options.relay, &clock, &mut goes_on, &mut trace)
    }

    fn part(
        stream: TcpStream,
        settings: ClientSettings,
        relay: Option<RelayOptions>,
        clock: &Clock,
        goes_on: &mut impl FnMut() -> bool,
        trace: &mut impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        let relay = relay.map(|relay| (relay, settings.rank, settings.bytes_max));
        let client = Client::new(settings)?;
        let ends = || Ok((stream.local_addr()?, stream.peer_addr()?));
        let (local, peer) = ends().map_err(SessionError::Socket)?;
        silence::prepare(SockRef::from(&stream), silence::UNHEARD).map_err(SessionError::Socket)?;
        trace(&ClientEvent::Connected(local, peer));
        let joining = Joining::new(stream, client, clock, relay).map_err(SessionError::Socket)?;
        let (stream, client, learned) = joining.learn(goes_on, trace)?;
        Ok(Session { stream, client, learned: *learned, local })
    }

    /// What this client knows of all.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// The address by which this client reaches the server: others that reach the server may reach it there.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Whether the connection has ended: the server is gone, or has failed. It does not wait.
    pub fn is_lost(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        // What a server says after DONE matters to nobody: it is read away.
        let lost = drained(&self.stream);
        self.stream.set_nonblocking(false).is_err() || lost
    }

    /// The client's processes have ended: sends FINI, and closes.
    ///
    /// # Errors
    /// When it could not be sent: the server is gone.
    pub fn finish(mut self) -> Result<(), SessionError> {
        self.client.fini();
        // Bytes that nobody has read would make the system reset the connection, and FINI would be lost.
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

/// Reads what is there; says whether the connection has ended. The socket does not block.
fn drained(mut stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    // A server that goes on talking is not waited for.
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
