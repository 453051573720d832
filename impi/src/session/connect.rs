//! From the server's address to a connection, within the time that there is.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

/// After so long without a sign of life the system asks, and so often and so far apart, until the host of the server is taken for dead.
const SILENT: Duration = Duration::from_secs(30);
const ASK: Duration = Duration::from_secs(15);
const ASKED: u32 = 4;

/// After so long bytes that nobody has acknowledged are taken as sent to a dead host: the same time. While such bytes are under way the system does not ask.
const UNHEARD: Duration = Duration::from_secs(90);

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

/// What a session wants of its socket: small commands leave at once, and a host that has died is noticed.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let alive = TcpKeepalive::new().with_time(SILENT).with_interval(ASK);
    // A system that does not know these notices later.
    let _ = socket.set_tcp_keepalive(&alive.with_retries(ASKED));
    let _ = socket.set_tcp_user_timeout(Some(UNHEARD));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A session lasts as long as a job: a client whose server's host had died noticed it never while nothing was sent, and after a quarter of an hour when FINI was.
    #[test]
    fn a_host_that_has_died_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        prepare(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNHEARD));
        let asked = socket.tcp_keepalive_retries().unwrap();
        let silent = socket.tcp_keepalive_time().unwrap();
        assert_eq!(silent + socket.tcp_keepalive_interval().unwrap() * asked, UNHEARD);
    }
}
