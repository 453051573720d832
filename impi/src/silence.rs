//! Noticing that the host at the other end of a connection has died: sessions last as long as jobs, and for days nothing may be said.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// After so long without a sign of life the system asks, and so often and so far apart, until the other host is taken for dead.
const SILENT: Duration = Duration::from_secs(30);
const ASK: Duration = Duration::from_secs(15);
const ASKED: u32 = 4;

/// How long after its last sign of life a host is taken for dead.
pub(crate) const UNHEARD: Duration = Duration::from_secs(90);

/// Small commands leave at once, and a host that has died is noticed. The system does not ask while bytes are under way: `unacknowledged` is how long those may be, or wait for one who does not read.
///
/// # Errors
/// What the system says to the first. One that does not know the others notices later.
pub(crate) fn prepare(socket: SockRef<'_>, unacknowledged: Duration) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(SILENT).with_interval(ASK).with_retries(ASKED);
    let _ = socket.set_tcp_keepalive(&alive);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket.set_tcp_user_timeout(Some(unacknowledged));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = unacknowledged;
    socket.set_tcp_nodelay(true)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A client whose server's host had died noticed it never while nothing was sent, and after a quarter of an hour when FINI was.
    #[test]
    fn a_host_that_has_died_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        prepare(SockRef::from(&stream), UNHEARD).unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNHEARD));
        let asked = socket.tcp_keepalive_retries().unwrap();
        let silent = socket.tcp_keepalive_time().unwrap();
        assert_eq!(silent + socket.tcp_keepalive_interval().unwrap() * asked, UNHEARD);
    }
}
