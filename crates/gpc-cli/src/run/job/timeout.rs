//! What a job does at its time limit, before the kill: a command on each node, and a signal.

use std::ffi::OsStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use chained_gpc::TimeLimit;
use gpc_bnr::names::GroupId;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Death, Exit, Fault, OnDeath, Readers, Spec};
use gpc_trees::Id;

use super::super::failures::{FIRST, how};
use super::super::head::Head;
use super::super::on_timeout::{self, CommandGroup};
use super::super::signals::Arrived;
use super::{ASK, Job, JobEnd, KILLED, POLL_INTERVAL, unexpected};
use crate::{by_host, say};

/// Time between the signal of `--timeout-signal` and the kill: a stack dump is written within it.
const SIGNAL_GRACE: Duration = Duration::from_secs(5);

/// How a wait has ended.
enum Waited {
    /// The condition holds.
    Met,
    TooLong,
    Signalled,
    /// The job has ended otherwise.
    Over(JobEnd),
}

/// Why the command has failed.
enum CommandFailure {
    Why(String),
    /// The job has ended otherwise.
    Over(JobEnd),
}

impl From<String> for CommandFailure {
    fn from(why: String) -> CommandFailure {
        CommandFailure::Why(why)
    }
}

impl<H: Head> Job<'_, H> {
    /// Runs the command of the time limit and sends its signal, and waits for the processes that these end.
    ///
    /// # Errors
    /// The job has ended otherwise in the meantime, such as by output that cannot be written.
    pub(super) fn before_kill(&mut self) -> Result<(), JobEnd> {
        if let Some(command) = &self.plan.on_timeout {
            let limit = self.clock.limit(on_timeout::LIMIT);
            let failures = match self.run_command(command, &limit) {
                Ok(failures) => failures,
                Err(CommandFailure::Why(why)) => vec![why],
                Err(CommandFailure::Over(end)) => return Err(end),
            };
            failures.iter().for_each(|why| say(&format!("the command of --on-timeout has failed: {why}")));
        }
        let Some(signal) = self.plan.timeout_signal else { return Ok(()) };
        self.host.signal_all(signal);
        let limit = self.clock.limit(SIGNAL_GRACE);
        match self.wait_until(&limit, |job| job.left.values().all(|&left| left == 0)) {
            Waited::Over(end) => Err(end),
            Waited::Met | Waited::TooLong | Waited::Signalled => Ok(()),
        }
    }

    /// Runs the command on each node that has processes of the job, as a group of its own. Returns how it failed.
    fn run_command(&mut self, command: &OsStr, limit: &TimeLimit) -> Result<Vec<String>, CommandFailure> {
        let groups = match self.host.ask(Request::Groups, ASK) {
            Ok(Answer::Groups(groups)) => groups,
            Ok(other) => return Err(unexpected(&other).to_string().into()),
            Err(fault) => return Err(fault.to_string().into()),
        };
        let (nodes, specs): (Vec<Id>, Vec<Spec>) =
            on_timeout::processes(command, &groups, &self.plan.specs).into_iter().unzip();
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<String> = nodes.iter().map(|id| self.host_of(*id)).collect();
        self.places.expect_command();
        let started = self.start_command(specs, limit);
        let shown = if self.plan.is_far() { names.clone() } else { Vec::new() };
        match &started {
            Ok(group) => self.places.set_command(Some((*group, shown))),
            Err(_) => {
                let last = groups.iter().map(|group| group.group).max();
                self.places.give_up_command(last.unwrap_or(FIRST));
            }
        }
        let group = started?;
        self.command = Some(CommandGroup::new(group));
        self.host.ask(Request::Subscribe(group), ASK).map_err(|fault| fault.to_string())?;
        let has_ended =
            |job: &Self| job.command.as_ref().is_none_or(|command| command.ends().len() >= names.len());
        let waited = self.wait_until(limit, has_ended);
        if !matches!(waited, Waited::Met) {
            let (tell, told) = mpsc::channel();
            let callback = move |_| {
                // The receiver may be gone.
                let _ = tell.send(());
            };
            self.host.ask_then(Request::Kill(group), Box::new(callback));
            self.wait_killed(&told, &self.clock.limit(self.plan.limits.grace + KILLED));
            return Err(match waited {
                Waited::Over(end) => CommandFailure::Over(end),
                Waited::Signalled => "it was killed: a signal has ended the job".to_owned().into(),
                Waited::TooLong | Waited::Met => "it was killed: it has one minute".to_owned().into(),
            });
        }
        let ends = self.command.iter().flat_map(CommandGroup::ends);
        let failed = ends.filter(|death| !matches!(death.exit, Exit::Code(0) | Exit::Never));
        let name = |death: &Death| names.get(death.member.rank as usize).map_or("", String::as_str);
        Ok(by_host::lines("host", failed.map(|death| (name(death), how(death.exit)))))
    }

    /// Starts the processes of the command; the group is known when all run.
    fn start_command(&self, specs: Vec<Spec>, limit: &TimeLimit) -> Result<GroupId, String> {
        let (tell, told) = mpsc::channel();
        let request = Request::SpawnMultiple {
            specs,
            preputs: Vec::new(),
            on_death: OnDeath::Notify,
            input: Readers::None,
        };
        let callback = move |answer: Result<Answer, Fault>| {
            // The receiver may be gone.
            let _ = tell.send(answer);
        };
        self.host.ask_then(request, Box::new(callback));
        let late = || "it was not started in time".to_owned();
        loop {
            let wait = limit.left().ok_or_else(late)?.min(POLL_INTERVAL);
            match self.host.receive(&told, wait) {
                // A host that cannot start it has an event, and the others run it.
                Ok(Ok(Answer::Spawned { group, .. })) => return Ok(group),
                Ok(Ok(other)) => return Err(unexpected(&other).to_string()),
                Ok(Err(fault)) => return Err(fault.to_string()),
                Err(RecvTimeoutError::Timeout) if self.is_ended_by_signal() => return Err(late()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("the domain has ended".into()),
            }
        }
    }

    /// Handles events until a condition holds, the time has passed, or a signal or an event ends the job.
    fn wait_until(&mut self, limit: &TimeLimit, holds: impl Fn(&Self) -> bool) -> Waited {
        while !holds(self) {
            let Some(left) = limit.left() else { return Waited::TooLong };
            match self.host.receive(self.host.events(), left.min(POLL_INTERVAL)) {
                Ok(event) => {
                    if let Err(end) = self.event(event) {
                        return Waited::Over(end);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Waited::Over(JobEnd::Lost),
            }
            if self.is_ended_by_signal() {
                return Waited::Signalled;
            }
        }
        Waited::Met
    }

    /// Whether a signal that has arrived requests the end.
    fn is_ended_by_signal(&self) -> bool {
        std::iter::from_fn(|| self.signals.next(Duration::ZERO)).any(Arrived::ends)
    }
}
