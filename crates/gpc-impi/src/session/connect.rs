//! Connects to the server's address, within the time limit.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use chained_gpc::{Resolver, TimeLimit};

/// Resolves the addresses of a name.
pub(super) fn resolve(server: &str, limit: &TimeLimit) -> io::Result<Vec<SocketAddr>> {
    Resolver::system().addresses(server, limit.left().unwrap_or_default())
}

/// Connects to the first address that answers.
pub(super) fn connect(addresses: &[SocketAddr], limit: &TimeLimit) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let Some(left) = limit.left() else { return Err(ErrorKind::TimedOut.into()) };
        match TcpStream::connect_timeout(address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
