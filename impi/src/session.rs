//! A client's session over TCP: blocks until all are done, and stays connected until its processes have ended.
//!
//! Source: IMPI, "Startup": the client's side. The protocol is in [`client`](crate::client); here are the socket and the clock.
#![allow(clippy::disallowed_methods, reason = "a session has a time limit, which its driver counts")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::client::{
    Client, ClientEvent, ClientFault, ClientInput, ClientOutput, ClientSettings, Learned, SettingsError,
};
use crate::relay::{Relay, RelayOptions};

/// How long FINI may take to leave: it is 8 bytes.
const FINI_LIMIT: Duration = Duration::from_secs(10);

/// How often one who waits is asked whether it goes on.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes that are read at a time.
const READ: usize = 64 * 1024;

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
    Settings(#[from] SettingsError),
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
    /// The system does not tell what happens at the socket, which a client with a node of its own needs.
    #[error("the client cannot wait for both the server and its own node: {0}")]
    Relay(#[source] io::Error),
    /// Who waits has been told not to go on.
    #[error("the session was given up before all were done")]
    GivenUp,
    /// FINI did not leave.
    #[error("FINI could not be sent: {0}")]
    Fini(io::Error),
}

impl Session {
    /// Takes part: connects to the server at `HOST:PORT`, says what the settings have, and learns of the others. `trace` is told what happens. All of it together takes `limit` at most.
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
    /// The same, and [`SessionError::Relay`].
    pub fn join_with(
        server: &str,
        settings: ClientSettings,
        options: SessionOptions,
        mut goes_on: impl FnMut() -> bool,
        mut trace: impl FnMut(&ClientEvent),
    ) -> Result<Session, SessionError> {
        let (rank, bytes_max) = (settings.rank, settings.bytes_max);
        let mut client = Client::new(settings)?;
        let clock = Clock { begin: Instant::now(), limit: options.limit };
        let addresses = resolve(server, &clock)
            .map_err(|cause| SessionError::Address { server: server.to_owned(), cause })?;
        let refused = |cause| SessionError::Connect { server: server.to_owned(), cause };
        let stream = connect(&addresses, &clock).map_err(refused)?;
        let local = stream.local_addr().map_err(refused)?;
        trace(&ClientEvent::Connected(local, stream.peer_addr().map_err(refused)?));
        let relay = match options.relay {
            None => None,
            Some(relay) => {
                client = client.relaying();
                Some(Relay::new(relay, rank, bytes_max, &stream).map_err(SessionError::Relay)?)
            }
        };
        let mut joining = Joining { stream, client, clock, relay };
        let learned = joining.learn(&mut goes_on, &mut trace)?;
        joining.stream.set_nonblocking(false).map_err(SessionError::Relay)?;
        Ok(Session { stream: joining.stream, client: joining.client, learned: *learned, local })
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

/// The time that there is.
struct Clock {
    begin: Instant,
    limit: Duration,
}

impl Clock {
    /// What is left; `None` when it is over.
    fn left(&self) -> Option<Duration> {
        self.limit.checked_sub(self.begin.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Before all are done.
struct Joining {
    stream: TcpStream,
    client: Client,
    clock: Clock,
    /// Where the client may have a node of its own, the stream does not block.
    relay: Option<Relay>,
}

impl Joining {
    fn learn(
        &mut self,
        goes_on: &mut impl FnMut() -> bool,
        trace: &mut impl FnMut(&ClientEvent),
    ) -> Result<Box<Learned>, SessionError> {
        let mut bytes = vec![0; READ];
        // Ends: each round waits for what is left of the time at most, and when it is over the machine fails.
        let mut read = 0;
        loop {
            while let Some(output) = self.client.next_output() {
                match output {
                    ClientOutput::Send(bytes) => self.send(&bytes),
                    ClientOutput::Event(event) => trace(&event),
                    ClientOutput::Relay(output) => {
                        let left = self.clock.left().unwrap_or_default();
                        let became = self.relay.as_mut().and_then(|relay| relay.carry_out(output, left));
                        became.into_iter().for_each(|became| self.client.handle(ClientInput::Relay(became)));
                    }
                    ClientOutput::Learned(learned) => return Ok(learned),
                    ClientOutput::Failed(fault) => return Err(fault.into()),
                }
            }
            // What has come to the node was there before the bytes that were read.
            if let Some(became) = self.relay.as_mut().and_then(Relay::next) {
                self.client.handle(ClientInput::Relay(became));
                continue;
            }
            if read > 0 {
                self.client.handle(ClientInput::Received(&bytes[..read]));
                read = 0;
                continue;
            }
            match self.clock.left() {
                None => self.client.handle(ClientInput::Late(self.clock.limit)),
                Some(_) if !goes_on() => return Err(SessionError::GivenUp),
                Some(left) => read = self.read(&mut bytes, left.min(LOOK)),
            }
        }
    }

    /// Reads once, and waits for that if there is nothing: how many bytes it was.
    fn read(&mut self, bytes: &mut [u8], left: Duration) -> usize {
        let read = self.blocks(left).and_then(|()| self.stream.read(bytes));
        match read {
            Ok(0) => self.client.handle(ClientInput::Lost("it has closed the connection")),
            Ok(len) => return len,
            Err(error) if is_pause(&error) => self.pause(&error, left),
            Err(error) => self.client.handle(ClientInput::Lost(&error.to_string())),
        }
        0
    }

    /// How long the stream may block, where it does.
    fn blocks(&self, left: Duration) -> io::Result<()> {
        if self.relay.is_some() {
            return Ok(());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }

    /// Waits until the stream or the node may have something, where the stream does not block.
    fn pause(&mut self, error: &io::Error, left: Duration) {
        let Some(relay) = self.relay.as_mut().filter(|_| error.kind() == ErrorKind::WouldBlock) else {
            return;
        };
        if let Err(error) = relay.wait(left) {
            self.client.handle(ClientInput::Lost(&error.to_string()));
        }
    }

    /// Sends all of it, unless the time is over or the connection has ended: then the machine fails.
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(left) = self.clock.left() else {
                return self.client.handle(ClientInput::Late(self.clock.limit));
            };
            let written = self.blocks(left).and_then(|()| self.stream.write(bytes));
            match written {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_pause(&error) => self.pause(&error, left),
                Err(error) => return self.client.handle(ClientInput::Lost(&error.to_string())),
            }
        }
    }
}

/// Whether nothing is wrong but that time has passed.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The addresses of a name. A name service may take long: a thread waits for it, and is left alone when the time is over.
fn resolve(server: &str, clock: &Clock) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = server.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let (found, wait) = mpsc::channel();
    let name = server.to_owned();
    std::thread::Builder::new().name("impi-resolve".into()).spawn(move || {
        // Nobody waits any more: that is fine.
        let _ = found.send(name.to_socket_addrs().map(Iterator::collect));
    })?;
    let late = || io::Error::new(ErrorKind::TimedOut, "the name service has not answered in time");
    wait.recv_timeout(clock.left().unwrap_or_default()).unwrap_or_else(|_| Err(late()))
}

/// Connects to the first address that answers.
fn connect(addresses: &[SocketAddr], clock: &Clock) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let Some(left) = clock.left() else { return Err(ErrorKind::TimedOut.into()) };
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
