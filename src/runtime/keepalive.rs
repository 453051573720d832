//! The system's own watch over TCP links: keepalive probes while a link is idle, and a limit for bytes that stay unacknowledged.
//!
//! Heartbeats run while calls are in flight. A link that dies without a word while none is (a NAT or a firewall forgets it, a host loses power) would be found by the next call, which fails with it. The system finds it before, without waking
//! the node, and reports it as an error of the socket.

use std::time::Duration;

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use super::socket::Socket;
use crate::chain::Heartbeat;

/// Longest time in seconds, and most probes, that Linux takes.
const SECONDS_MAX: u64 = 32_767;
const PROBES_MAX: u64 = 127;

/// When the system probes an idle link, and when it gives a link up: a multiple of what the heartbeat allows, so that it never gives up a peer that the heartbeat would still wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keepalive {
    /// Silence before the first probe.
    idle: Duration,
    /// Time between two probes.
    every: Duration,
    probes: u32,
}

impl Keepalive {
    /// An idle link is probed after the heartbeat's silence, and given up after that silence again.
    pub(super) fn of(heartbeat: Heartbeat) -> Keepalive {
        let Heartbeat { every, dead_after } = heartbeat.asking_often();
        let (idle, every) = (seconds(dead_after), seconds(every));
        let probes = idle.div_ceil(every).clamp(1, PROBES_MAX);
        Keepalive {
            idle: Duration::from_secs(idle),
            every: Duration::from_secs(every),
            probes: u32::try_from(probes).unwrap_or(1),
        }
    }

    /// How long a link may stay without any acknowledgement.
    pub(super) fn limit(self) -> Duration {
        self.idle + self.every * self.probes
    }

    /// Has the system watch a socket. Where it cannot, the heartbeat alone does.
    pub(super) fn watch(self, socket: &Socket) {
        let Some(stream) = socket.tcp() else { return };
        let keepalive = TcpKeepalive::new().with_time(self.idle).with_interval(self.every);
        #[cfg(target_os = "linux")]
        let keepalive = keepalive.with_retries(self.probes);
        let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
        set_limit(stream, self.limit());
    }

    /// The peer announces that it reads nothing for so long: bytes may stay in the system for that time, too. The limit never shrinks, since what waits is read some time after the end of a pause.
    pub(super) fn allow_pause(self, socket: &Socket, pause: Duration) {
        let Some(stream) = socket.tcp() else { return };
        let wanted = self.limit() + pause;
        if limit_of(stream).is_some_and(|limit| limit < wanted) {
            set_limit(stream, wanted);
        }
    }
}

/// Whole seconds, as the system counts them.
fn seconds(time: Duration) -> u64 {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    whole.clamp(1, SECONDS_MAX)
}

#[cfg(target_os = "linux")]
fn set_limit(stream: &TcpStream, limit: Duration) {
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(limit));
}

#[cfg(target_os = "linux")]
fn limit_of(stream: &TcpStream) -> Option<Duration> {
    SockRef::from(stream).tcp_user_timeout().ok()?
}

#[cfg(not(target_os = "linux"))]
fn set_limit(_: &TcpStream, _: Duration) {}

#[cfg(not(target_os = "linux"))]
fn limit_of(_: &TcpStream) -> Option<Duration> {
    None
}
