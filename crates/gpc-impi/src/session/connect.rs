//! Connects to the server's address, within the time limit.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use chained_gpc::Resolver;

/// A time limit.
pub(super) struct Clock {
    pub(super) begin: Instant,
    pub(super) limit: Duration,
}

impl Clock {
    /// Time left; `None` if it is over.
    pub(super) fn left(&self) -> Option<Duration> {
        self.limit.checked_sub(self.begin.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Resolves the addresses of a name.
pub(super) fn resolve(server: &str, clock: &Clock) -> io::Result<Vec<SocketAddr>> {
    Resolver::system().addresses(server, clock.left().unwrap_or_default())
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
