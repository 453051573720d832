//! The processes that `gpc rendezvous run` starts: each the first of a process group of its own, which is signalled as a whole, so that what a process has started ends with it.
//!
//! This process adopts what they leave when they end ("subreaper"). So it is told when the last of a group has ended, and no group is signalled whose number may be another's by now: one of its own children is in it.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use gpc_rendezvous::variables::Variables;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, wait, waitid,
};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use super::Failure;
use crate::args::rendezvous::{RunArgs, TaskArgs};
use crate::{CommandResult, say};

/// How long processes that are told to end have for it.
pub(super) const END: Duration = Duration::from_secs(3);

/// How long it may take that the system tells of a process that has been killed.
pub(super) const KILLED: Duration = Duration::from_secs(10);

/// Exit status where a program cannot be started, as of shells.
const NOT_STARTED: u8 = 127;

/// What the main thread waits for.
pub(super) enum Event {
    /// A process has changed.
    Child,
    /// A signal has come.
    Stop,
    /// A process has failed before all had registered.
    Unmet,
}

/// Why nobody is waited for any longer.
pub(super) enum Over {
    Ended,
    Interrupted,
    TimedOut,
    Unmet,
}

/// The processes that were started.
pub(super) struct Tasks {
    running: Vec<(usize, Pid)>,
    /// The groups of those that have ended, where others may have been left.
    left: Vec<Pid>,
    /// The exit status of the first that failed.
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
            // Those that were started end when they are dropped.
            let child = command.spawn().map_err(|error| format!("cannot start process {task}: {error}"))?;
            tasks.running.extend(Pid::from_raw(child.id().cast_signed()).map(|pid| (task, pid)));
        }
        Ok(tasks)
    }

    /// Waits until all have ended.
    pub(super) fn wait(
        &mut self,
        events: &Receiver<Event>,
        until: Option<Instant>,
        mut failed: impl FnMut(usize, ExitStatus),
    ) -> Over {
        // Ends: with the last process, a signal, or the time; each event is of a process or a signal.
        loop {
            for (task, status) in self.ended() {
                if !status.success() {
                    self.failed.get_or_insert(status_of(status));
                    failed(task, status);
                }
            }
            if self.running.is_empty() {
                return Over::Ended;
            }
            let event = match until {
                Some(until) => events.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Child) => {}
                Ok(Event::Unmet) => return Over::Unmet,
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Over::Interrupted,
                Err(RecvTimeoutError::Timeout) => return Over::TimedOut,
            }
        }
    }

    /// Ends those that still run, and what others have left in their groups: asks them to, then makes them.
    pub(super) fn end(&mut self, events: &Receiver<Event>) {
        for (signal, limit) in [(Signal::TERM, END), (Signal::KILL, KILLED)] {
            if self.all_gone() {
                return;
            }
            self.signal(signal);
            let until = Instant::now() + limit;
            // Ends: with the last process, a signal, or the time.
            while !self.all_gone() {
                match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(Event::Child | Event::Unmet) => {}
                    // Who asks again does not want to wait.
                    Ok(Event::Stop) | Err(_) => break,
                }
            }
        }
    }

    /// Whether no process runs, and none is left in a group.
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
        // The first of a group is there, as a zombie if not otherwise; or else another child of this process.
        let left = self.left.iter().filter(|group| has_processes(**group));
        for group in self.running.iter().map(|(_, pid)| pid).chain(left) {
            // Those that have ended meanwhile need none.
            let _ = kill_process_group(*group, signal);
        }
    }

    /// Those that have ended since the last time. What they have left, and this process has adopted, is seen off with them.
    fn ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        // Ends: each turn takes a child that has ended; the system has no more than it lets run.
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(found)) => found,
                Err(Errno::INTR) => continue,
                // None has; or there are no children.
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
        // Nobody is left to wait for them: they end without.
        self.signal(Signal::KILL);
    }
}

/// Whether a child of this process is in the group, so that its number is no other's.
fn has_processes(group: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pgid(Some(group)), look).is_ok()
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Tells whenever a process that was started has changed, as long as this one runs.
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

/// `gpc rendezvous task`: becomes the program, which the system kills when the parent ends.
pub(super) fn task(args: &TaskArgs) -> CommandResult {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    // It may have ended before.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(args.parent) {
        return Ok(ExitCode::FAILURE);
    }
    let (program, rest) = args.command.split_first().ok_or("name the program to run")?;
    let error = Command::new(program).args(rest).exec();
    say(&format!("cannot start {}: {error}", program.to_string_lossy()));
    Ok(ExitCode::from(NOT_STARTED))
}
