//! TCP keepalive: the system probes idle links, and limits how long bytes stay unacknowledged.
//!
//! Heartbeats run while calls are in flight. If an idle link dies silently (a NAT or a firewall forgets it, a host
//! loses power), the next call would discover it, and fail. The system detects it before that, without waking the node,
//! and reports it as an error of the socket.

use std::time::Duration;

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

use crate::chain::Heartbeat;

/// Maximum time in seconds, and maximum number of probes, that Linux accepts.
const SECONDS_MAX: u64 = 32_767;
const PROBES_MAX: u64 = 127;

/// When the system probes an idle link, and when it gives the link up. The times are multiples of the heartbeat's, so
/// that the system never gives up a peer that the heartbeat would still wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keepalive {
    /// Silence before the first probe.
    idle: Duration,
    /// Time between two probes.
    every: Duration,
    probes: u32,
}

impl Keepalive {
    /// Probes an idle link after the heartbeat's silence, and gives it up after the same silence again.
    pub(crate) fn of(heartbeat: Heartbeat) -> Keepalive {
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
    pub(crate) fn limit(self) -> Duration {
        self.idle + self.every * self.probes
    }

    /// Enables keepalive on a socket. If the system does not support it, only the heartbeat is left.
    pub(super) fn watch(self, stream: &TcpStream) {
        let keepalive = TcpKeepalive::new().with_time(self.idle).with_interval(self.every);
        #[cfg(target_os = "linux")]
        let keepalive = keepalive.with_retries(self.probes);
        let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
        set_limit(stream, self.limit());
    }

    /// The peer announces a pause in which it reads nothing: bytes may stay unacknowledged for that long, too. The
    /// limit never shrinks, since the peer reads queued bytes only some time after the end of a pause.
    pub(super) fn allow_pause(self, stream: &TcpStream, pause: Duration) {
        let wanted = self.limit() + pause;
        if limit_of(stream).is_some_and(|limit| limit < wanted) {
            set_limit(stream, wanted);
        }
    }
}

/// Whole seconds, the unit of the system.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(every_ms: u64, dead_after_ms: u64) -> Keepalive {
        let [every, dead_after] = [every_ms, dead_after_ms].map(Duration::from_millis);
        Keepalive::of(Heartbeat { every, dead_after })
    }

    #[test]
    fn the_system_is_never_less_patient_than_the_heartbeat() {
        let seconds = Duration::from_secs;
        let usual = of(2_000, 10_000);
        assert_eq!(usual, Keepalive { idle: seconds(10), every: seconds(2), probes: 5 });
        assert_eq!(usual.limit(), seconds(20));
        // Parts of a second are rounded up, and zero is no time.
        assert_eq!(of(10, 20), Keepalive { idle: seconds(1), every: seconds(1), probes: 1 });
        let [most, probes] = [SECONDS_MAX, PROBES_MAX];
        assert_eq!(
            [0, 1, 999, 1000, 1001].map(|ms| super::seconds(Duration::from_millis(ms))),
            [1, 1, 1, 1, 2]
        );
        let patient = of(1_000, 1_000_000_000);
        assert_eq!((patient.idle, u64::from(patient.probes)), (seconds(most), probes));
        for (every, dead_after) in [(100, 5_000), (3_000, 10_000), (7_000, 7_000)] {
            assert!(of(every, dead_after).limit() >= 2 * Duration::from_millis(dead_after));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pause_extends_the_limit_of_a_link_which_never_shrinks() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let keepalive = of(2_000, 10_000);
        let limit = || limit_of(&stream);
        keepalive.watch(&stream);
        assert_eq!(limit(), Some(Duration::from_secs(20)));
        for (pause, expected) in [(60, 80), (5, 80), (0, 80), (61, 81)] {
            keepalive.allow_pause(&stream, Duration::from_secs(pause));
            assert_eq!(limit(), Some(Duration::from_secs(expected)));
        }
    }
}
