//! Detects that the host at the other end of a connection has died. A session lasts as long as its job, and its
//! connections may carry no bytes for days.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// TCP keepalive: idle time before the first probe, interval of the probes, and number of probes without an answer.
const SILENT: Duration = Duration::from_secs(30);
const ASK: Duration = Duration::from_secs(15);
const ASKED: u32 = 4;

/// Time from the last sign of a host until it counts as dead.
pub(crate) const UNHEARD: Duration = Duration::from_secs(90);

/// Sets socket options: small commands are sent without delay, and a dead host is detected. Keepalive sends no probes
/// while bytes are unacknowledged; `unacknowledged` limits how long these, or bytes for a peer that does not read, may
/// wait.
///
/// # Errors
/// Returns the error of setting TCP_NODELAY. If the system lacks the other options, a dead host is detected later.
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

    /// If the host of the server died, a client detected it only when it sent FINI, and a quarter of an hour after
    /// that.
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
