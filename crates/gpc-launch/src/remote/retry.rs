//! Which failed starts are tried again, and after which pause.
//!
//! An ssh server drops connections at random while many others log in (`MaxStartups 10:30:100` of sshd: from the
//! tenth on). The command then ends with status 255 before the agent speaks, and its output says that the connection
//! was closed. Such a start is tried again. A clear answer is final: a refused login, an unknown host, a closed port.

use std::time::Duration;

/// Maximum number of attempts to start one agent. If a server drops half of all connections, one host in a million
/// fails. The time limit of the start bounds the attempts as well.
pub(super) const ATTEMPTS_MAX: u32 = 20;

/// The pause after the first attempt, at most: a login takes about as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);

/// The longest pause: all attempts together fit into the default limit of a start, 30 s.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What ssh ends with if the connection fails. The command on the host has a status of its own.
const SSH_FAILED: &str = "exit status 255";

/// Parts of what ssh prints about a connection that the other side has dropped.
const DROPPED: [&str; 5] = [
    "kex_exchange_identification:",
    "ssh_exchange_identification:",
    "Connection closed by",
    "Connection reset by",
    "during banner exchange",
];

/// Parts of what ssh prints about an answer that another attempt does not change. Some lines stand beside one of those
/// above, such as those of a jump host that does not know the name.
const FINAL: [&str; 9] = [
    "Permission denied",
    "Could not resolve hostname",
    "Host key verification failed",
    "No route to host",
    "Network is unreachable",
    "Connection refused",
    "Too many authentication failures",
    "stdio forwarding failed",
    "open failed:",
];

/// Whether a command that ended in this way, before its agent has spoken, may succeed at another attempt. `log` has the
/// last lines of its standard error.
pub(super) fn is_dropped<'a>(how: &str, log: impl Iterator<Item = &'a str> + Clone) -> bool {
    let has = |parts: &[&str]| log.clone().any(|line| parts.iter().any(|part| line.contains(part)));
    how == SSH_FAILED && has(&DROPPED) && !has(&FINAL)
}

/// Growing pauses with random parts, so that the agents that were dropped together do not return together.
#[derive(Debug)]
pub(super) struct Pauses {
    state: u64,
}

impl Pauses {
    /// Different seeds give different pauses.
    pub(super) fn new(seed: u64) -> Pauses {
        Pauses { state: seed }
    }

    /// Returns the pause after this attempt, from 1: between half and all of a time that grows by half each time.
    pub(super) fn after(&mut self, attempt: u32) -> Duration {
        let grown = (1..attempt.min(ATTEMPTS_MAX)).fold(PAUSE_FIRST, |pause, _| pause * 3 / 2);
        let most = grown.min(PAUSE_MAX);
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = (mixed ^ (mixed >> 31)) >> 48;
        // The high 16 bits: at most 65,535.
        most / 2 + most / 2 * (part as u32) / 65_535
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dropped_connections_are_told_from_answers() {
        let dropped = |how: &str, log: &str| is_dropped(how, log.split('\n'));
        for log in [
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by 127.0.0.1 port 22",
            "kex_exchange_identification: read: Connection reset by peer",
            "ssh_exchange_identification: Connection closed by remote host",
            "Welcome\nConnection reset by 10.0.0.1 port 22",
            "Connection timed out during banner exchange",
        ] {
            assert!(dropped("exit status 255", log), "{log}");
            assert!(!dropped("exit status 1", log) && !dropped("killed by signal 9 (SIGKILL)", log));
        }
        for log in [
            "",
            "you@a: Permission denied (publickey).\nConnection closed by 10.0.0.1 port 22",
            "ssh: Could not resolve hostname b: Name or service not known\nkex_exchange_identification: Connection closed by remote host",
            "Host key verification failed.\nConnection closed by 10.0.0.1 port 22",
            "ssh: connect to host b port 22: No route to host",
            "ssh: connect to host b port 22: Connection refused",
            "channel 0: open failed: connect failed: Name or service not known\nkex_exchange_identification: Connection closed by remote host",
            "stdio forwarding failed\nConnection closed by UNKNOWN port 65535",
        ] {
            assert!(!dropped("exit status 255", log), "{log}");
        }
    }

    proptest! {
        #[test]
        fn pauses_grow_within_their_bounds(seed in any::<u64>(), attempt in 1u32..40) {
            let pause = Pauses::new(seed).after(attempt);
            let most = [0.1, 0.15, 0.225, 0.3375, 0.506_25].get(attempt as usize - 1).copied();
            let most = most.map_or(PAUSE_MAX, Duration::from_secs_f64);
            prop_assert!(pause >= PAUSE_FIRST / 2 && pause <= most, "{pause:?}");
            prop_assert!(attempt < 12 || pause >= PAUSE_MAX / 2);
        }

        /// All attempts fit into the default limit of a start.
        #[test]
        fn all_pauses_together_are_shorter_than_a_start(seed in any::<u64>()) {
            let mut pauses = Pauses::new(seed);
            let all: Vec<Duration> = (1..ATTEMPTS_MAX).map(|attempt| pauses.after(attempt)).collect();
            prop_assert!(all.iter().sum::<Duration>() < Duration::from_secs(30));
            prop_assert!(all.windows(2).any(|pair| pair[0] != pair[1]));
        }
    }
}
