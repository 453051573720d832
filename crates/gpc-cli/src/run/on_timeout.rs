//! The command of `--on-timeout`: runs before the processes of a job are killed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use chained_gpc::{Clock, TimeLimit};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::say;

/// Time for the command: a debugger that attaches to many processes takes some of it.
const LIMIT: Duration = Duration::from_secs(60);

/// Interval at which its end is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of process ids: with seven digits each, Linux allows no more in one variable.
const PIDS_MAX: usize = 16_000;

/// Runs a command of the shell with the process ids in `GPC_PIDS`, and waits for its end. `ends`: whether a signal
/// requests the end.
pub(super) fn run(command: &OsStr, pids: &[u32], clock: &Clock, ends: impl FnMut() -> bool) {
    let limit = clock.limit(LIMIT);
    match started(command, pids).and_then(|child| waited(child, &limit, ends)) {
        Ok(Some(status)) if status.success() => {}
        Ok(Some(status)) => say(&format!("the command of --on-timeout has failed: {status}")),
        Ok(None) => {
            say("the command of --on-timeout was killed: it has one minute, and no longer than a signal")
        }
        Err(error) => say(&format!("the command of --on-timeout cannot run: {error}")),
    }
}

fn started(command: &OsStr, pids: &[u32]) -> io::Result<Child> {
    let pids: Vec<String> = pids.iter().take(PIDS_MAX).map(u32::to_string).collect();
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env("GPC_PIDS", pids.join(" "));
    shell.stdin(Stdio::null()).stdout(io::stderr()).process_group(0).spawn()
}

/// Returns the status; `None` if the command was killed. Nothing that it started in its process group is left.
fn waited(
    mut child: Child,
    limit: &TimeLimit,
    mut ends: impl FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let shell = Pid::from_child(&child);
    // Ends with the command or at its time limit.
    let has_ended = loop {
        let ended =
            waitid(WaitId::Pid(shell), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
        match ended {
            Ok(None) if !limit.is_over() && !ends() => thread::sleep(POLL_INTERVAL),
            ended => break ended.map(|status| status.is_some()),
        }
    };
    // The shell's process group has what it started. Until the wait below no other group can have its number.
    let _ = kill_process_group(shell, Signal::KILL);
    let status = child.wait()?;
    Ok(has_ended?.then_some(status))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_command_gets_the_process_ids_and_has_an_end() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pids");
        let clock = Clock::system();
        let command = format!("echo $GPC_PIDS > {}", file.display());
        run(OsStr::new(&command), &[11, 12], &clock, || false);
        assert_eq!(fs::read_to_string(&file).unwrap(), "11 12\n");
        let child = started(OsStr::new("sleep 1000 & wait"), &[]).unwrap();
        assert!(waited(child, &clock.limit(LIMIT), || true).unwrap().is_none());
        let child = started(OsStr::new("sleep 1000 & wait"), &[]).unwrap();
        assert!(waited(child, &clock.limit(Duration::ZERO), || false).unwrap().is_none());
        let child = started(OsStr::new("exit 3"), &[]).unwrap();
        assert_eq!(waited(child, &clock.limit(LIMIT), || false).unwrap().unwrap().code(), Some(3));
    }

    /// What the shell had left in the background stayed for ever.
    #[test]
    fn nothing_in_the_background_outlives_the_command() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pid");
        let clock = Clock::system();
        let command = format!("sleep 1000 & echo $! > {}", file.display());
        run(OsStr::new(&command), &[], &clock, || false);
        let status = format!("/proc/{}/status", fs::read_to_string(&file).unwrap().trim());
        let runs = || fs::read_to_string(&status).is_ok_and(|text| !text.contains("State:\tZ"));
        let limit = clock.limit(Duration::from_secs(10));
        while runs() {
            assert!(!limit.is_over(), "it still runs");
            thread::yield_now();
        }
    }
}
