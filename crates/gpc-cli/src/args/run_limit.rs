//! Arguments of `gpc run` for its time limit.

use std::ffi::OsString;

use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU,
};

use crate::duration::Span;

/// The time limit, and what precedes the kill.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct RunLimitArgs {
    /// End the processes after this time, such as 500ms, 10s or 1h; the exit status is then 124
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Signal at the time limit, such as QUIT or ABRT for a stack dump; the processes have 5s before they are killed
    #[arg(long, value_name = "SIG", requires = "time_limit", value_parser = signal)]
    pub timeout_signal: Option<u8>,

    /// Shell command at the time limit, before signal and kill, on each node that has processes: GPC_PIDS has their
    /// ids. It has 1m, and writes to standard error of this command
    #[arg(long, value_name = "CMD", requires = "time_limit")]
    pub on_timeout: Option<OsString>,
}

/// Names of signals that a process may be waiting for.
const SIGNALS: [(&str, i32); 10] = [
    ("ABRT", SIGABRT),
    ("ALRM", SIGALRM),
    ("CONT", SIGCONT),
    ("HUP", SIGHUP),
    ("INT", SIGINT),
    ("QUIT", SIGQUIT),
    ("TERM", SIGTERM),
    ("USR1", SIGUSR1),
    ("USR2", SIGUSR2),
    ("XCPU", SIGXCPU),
];

/// Largest number of a signal on Linux.
const SIGNAL_MAX: u8 = 64;

fn signal(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let named =
        SIGNALS.iter().find(|(known, _)| *known == name).and_then(|(_, number)| u8::try_from(*number).ok());
    let number = named.or_else(|| text.parse().ok().filter(|number| (1..=SIGNAL_MAX).contains(number)));
    number.ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("write a number from 1 to {SIGNAL_MAX}, or one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_or_a_number() {
        let known = ["QUIT", "sigquit", "3", "64"].map(signal);
        assert_eq!(known, [3, 3, 3, 64].map(Ok));
        for wrong in ["", "0", "65", "-1", "NONE", "SIG"] {
            assert!(signal(wrong).is_err_and(|why| why.contains("QUIT")), "{wrong}");
        }
    }
}
