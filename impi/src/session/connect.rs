//! From the server's address to a connection, within the time that there is.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The time that there is.
pub(super) struct Clock {
    pub(super) begin: Instant,
    pub(super) limit: Duration,
}

impl Clock {
    /// What is left; `None` when it is over.
    pub(super) fn left(&self) -> Option<Duration> {
        self.limit.checked_sub(self.begin.elapsed()).filter(|left| !left.is_zero())
    }
}

/// The addresses of a name. A name service may take long: a thread waits for it, and is left alone when the time is over.
pub(super) fn resolve(server: &str, clock: &Clock) -> io::Result<Vec<SocketAddr>> {
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
pub(super) fn connect(addresses: &[SocketAddr], clock: &Clock) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let Some(left) = clock.left() else { return Err(ErrorKind::TimedOut.into()) };
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
