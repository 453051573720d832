//! The processes that `gpc rendezvous run` starts. Each leads a process group, which is signalled as a whole, so that
//! the descendants of a process end with it.
//!
//! This process is the subreaper of all descendants. So it learns when the last process of a group ends. It never
//! signals a reused group number, since one of its own children is still in the group.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use chained_gpc::{Clock, TimeLimit};
use gpc_rendezvous::variables::Variables;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, wait, waitid,
};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use crate::args::rendezvous::{RunArgs, TaskArgs};
use crate::{CommandResult, Failure, say};

/// Time that processes have to end after SIGTERM.
pub(super) const END: Duration = Duration::from_secs(3);

/// Time limit for the system to report the end of a killed process.
pub(super) const KILLED: Duration = Duration::from_secs(10);

/// Exit status if a program cannot be started, the same as that of shells.
const NOT_STARTED: u8 = 127;

/// Events for the main thread.
pub(super) enum Event {
    /// A child has changed its state.
    Child,
    /// A signal has arrived.
    Stop,
    /// A process failed before all had registered.
    Unmet,
}

/// Why the wait for processes is over.
pub(super) enum WaitEnd {
    Ended,
    Interrupted,
    TimedOut,
    Unmet,
}

/// The started processes.
pub(super) struct Tasks {
    running: Vec<(usize, Pid)>,
    /// Groups whose leader has ended, and which may have other processes.
    left: Vec<Pid>,
    /// Exit status of the first process that failed.
    pub(super) failed: Option<u8>,
}

impl Tasks {
    pub(super) fn start(args: &RunArgs, told: &Variables) -> Result<Tasks, Failure> {
        set_child_subreaper(Some(getpid())).map_err(io::Error::from)?;
        let own = std::env::current_exe()?;
        let mut tasks = Tasks { running: Vec::new(), left: Vec::new(), failed: None };
        for task in 0..args.n as usize {
            let mut command = Command::new(&own);
            command.args(["rendezvous", "task", "--parent", &std::process::id().to_string(), "--"]);
            command.args(&args.command).stdin(Stdio::null()).process_group(0);
            for (name, value) in told.to_set() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            // On an error, the processes that were started end when `tasks` is dropped.
            let child = command.spawn().map_err(|error| format!("cannot start process {task}: {error}"))?;
            tasks.running.extend(Pid::from_raw(child.id().cast_signed()).map(|pid| (task, pid)));
        }
        Ok(tasks)
    }

    /// Waits until all processes have ended.
    pub(super) fn wait(
        &mut self,
        events: &Receiver<Event>,
        limit: Option<&TimeLimit>,
        mut failed: impl FnMut(usize, ExitStatus),
    ) -> WaitEnd {
        // Ends with the last process, a signal, or the time limit; each event is from a process or a signal.
        loop {
            for (task, status) in self.ended() {
                if !status.success() {
                    self.failed.get_or_insert(status_of(status));
                    failed(task, status);
                }
            }
            if self.running.is_empty() {
                return WaitEnd::Ended;
            }
            let event = match limit {
                Some(limit) => events.recv_timeout(limit.left().unwrap_or_default()),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Child) => {}
                Ok(Event::Unmet) => return WaitEnd::Unmet,
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return WaitEnd::Interrupted,
                Err(RecvTimeoutError::Timeout) => return WaitEnd::TimedOut,
            }
        }
    }

    /// Ends the processes that still run, and the rest of their groups: first with SIGTERM, then with SIGKILL.
    pub(super) fn end(&mut self, clock: &Clock, events: &Receiver<Event>) {
        for (signal, limit) in [(Signal::TERM, END), (Signal::KILL, KILLED)] {
            if self.all_gone() {
                return;
            }
            self.signal(signal);
            let limit = clock.limit(limit);
            // Ends with the last process, a signal, or the time limit.
            while !self.all_gone() {
                match events.recv_timeout(limit.left().unwrap_or_default()) {
                    Ok(Event::Child | Event::Unmet) => {}
                    // The second signal of a user skips the wait.
                    Ok(Event::Stop) | Err(_) => break,
                }
            }
        }
    }

    /// Whether no process runs, and no group has processes left.
    fn all_gone(&mut self) -> bool {
        for (_, status) in self.ended() {
            if !status.success() {
                self.failed.get_or_insert(status_of(status));
            }
        }
        if !self.running.is_empty() {
            return false;
        }
        while self.left.pop_if(|group| !has_processes(*group)).is_some() {}
        self.left.is_empty()
    }

    fn signal(&self, signal: Signal) {
        // A leader still exists, at least as a zombie; otherwise the group has another child of this process.
        let left = self.left.iter().filter(|group| has_processes(**group));
        for group in self.running.iter().map(|(_, pid)| pid).chain(left) {
            // A group that ended in the meantime needs no signal.
            let _ = kill_process_group(*group, signal);
        }
    }

    /// Returns the processes that have ended since the last call. Adopted processes that have ended are reaped, too.
    fn ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        // Ends: each turn reaps a child that has ended, and the system bounds their number.
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(found)) => found,
                Err(Errno::INTR) => continue,
                // None has ended, or there are no children.
                Ok(None) | Err(_) => return ended,
            };
            if let Some(at) = self.running.iter().position(|(_, running)| *running == pid) {
                let (task, _) = self.running.remove(at);
                self.left.push(pid);
                ended.push((task, ExitStatus::from_raw(status.as_raw())));
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // There is no time to wait, so they are killed.
        self.signal(Signal::KILL);
    }
}

/// Whether a child of this process is in the group, so that its number is not reused.
fn has_processes(group: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pgid(Some(group)), look).is_ok()
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Sends an event whenever a started process changes, as long as this process runs.
pub(super) fn watch_children(tell: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGCHLD])?;
    thread::Builder::new().name("gpc-children".into()).spawn(move || {
        for _ in &mut signals {
            if tell.send(Event::Child).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// `gpc rendezvous task`: executes the program, which the system kills when the parent ends.
pub(super) fn task(args: &TaskArgs) -> CommandResult {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    // The parent may have ended before.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return Ok(ExitCode::FAILURE);
    }
    let (program, rest) = args.command.split_first().ok_or("name the program to run")?;
    let error = Command::new(program).args(rest).exec();
    say(&format!("cannot start {}: {error}", program.to_string_lossy()));
    Ok(ExitCode::from(NOT_STARTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_that_of_the_process_or_of_its_signal() {
        for (raw, status) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(status_of(ExitStatus::from_raw(raw)), status, "{raw}");
        }
    }
}
