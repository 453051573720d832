//! A running job: starts it, and watches it until all processes that it started have ended.

mod timeout;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use chained_gpc::wire::Shown;
use chained_gpc::{Clock, TimeLimit};
use gpc_bnr::host::HostEvent;
use gpc_bnr::names::{GroupId, Member};
use gpc_bnr::request::{Answer, GroupState, GroupStatus, MemberStatus, Request};
use gpc_bnr::{Exit, Fault, FaultKind, OnDeath, StartFailure};
use gpc_trees::Id;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::system::uname;
use signal_hook::consts::SIGTSTP;

use super::exits::Exits;
use super::failures::{FIRST, Failures, not_started};
use super::head::Head;
use super::input::{Reading, StdinSource};
use super::on_timeout::CommandGroup;
use super::places::{Place, Places};
use super::plan::RunPlan;
use super::signals::{self, Arrived, Signals};
use crate::say;

/// Interval at which a waiting command checks for signals: too short for a person to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Time that the start may take before a terminal shows progress.
const SILENCE: Duration = Duration::from_secs(1);

/// Time limit for the head to answer, also about the processes of other nodes.
const ASK: Duration = Duration::from_secs(70);

/// Time that killed processes may take to end, in addition to the time between SIGTERM and SIGKILL.
const KILLED: Duration = Duration::from_secs(10);

/// Maximum number of printed warnings.
const WARNINGS_MAX: usize = 16;

/// How a job has ended.
#[derive(Debug)]
pub(super) enum JobEnd {
    /// All its processes have ended.
    Ended,
    /// The processes could not be started: the reasons, and for each rank the number of the system's error, or 0.
    NotStarted(Vec<StartFailure>, Vec<i32>),
    /// A program could not be sent to all nodes: lines for a person.
    NotSent(Vec<String>),
    /// The domain refuses to start the processes.
    Refused(Fault),
    /// The domain does not report how the processes end.
    Unseen(Fault),
    /// The time limit has passed.
    TimedOut,
    /// A signal requests an immediate end.
    Signalled(i32),
    /// The output cannot be written.
    Unread(io::Error),
    /// The domain has ended by itself.
    Lost,
}

/// A job.
pub(super) struct Job<'a, H> {
    host: &'a H,
    clock: &'a Clock,
    plan: &'a RunPlan,
    signals: &'a Signals,
    limit: Option<TimeLimit>,
    failures: Failures,
    /// Number of processes of each known group that have not ended.
    left: BTreeMap<GroupId, u32>,
    /// The signal that requested the end of the job.
    asked: Option<i32>,
    /// Why processes of the first group could not be started.
    not_started: Vec<StartFailure>,
    /// Number of warnings.
    warned: usize,
    /// State of standard input, which rank 0 reads.
    reading: Reading,
    /// How the processes ended, if that is printed.
    exits: Option<Exits>,
    /// Process ids and hosts, for the names of files.
    places: &'a Places,
    /// Host names of the other nodes, as they report them; `None` until they have begun.
    hosts: Option<BTreeMap<Id, String>>,
    /// The processes of the command at the time limit.
    command: Option<CommandGroup>,
    /// Sends the programs.
    send: Option<&'a SendPrograms<'a>>,
}

/// Sends the programs to nodes within a time; returns lines about those that do not have them then.
type SendPrograms<'a> = dyn Fn(&[Id], Option<Duration>) -> Vec<String> + 'a;

impl<'a, H: Head> Job<'a, H> {
    /// Returns a job that is not started yet; its time limit runs from now on.
    pub(super) fn new(
        host: &'a H,
        plan: &'a RunPlan,
        signals: &'a Signals,
        clock: &'a Clock,
        places: &'a Places,
    ) -> Job<'a, H> {
        Job {
            host,
            clock,
            plan,
            signals,
            limit: plan.time_limit.map(|limit| clock.limit(limit.duration())),
            failures: Failures::new(plan.on_death == OnDeath::Kill),
            left: BTreeMap::new(),
            asked: None,
            not_started: Vec::new(),
            warned: 0,
            reading: Reading::default(),
            exits: plan.print_exits.then(Exits::default),
            places,
            hosts: None,
            command: None,
            send: None,
        }
    }

    /// Sends programs to the other nodes before anything is started.
    pub(super) fn sending(self, send: &'a SendPrograms<'a>) -> Job<'a, H> {
        Job { send: Some(send), ..self }
    }

    /// Whether standard input could not be read to its end.
    pub(super) fn lacks_input(&self) -> bool {
        self.reading.has_failed()
    }

    /// Returns the failures, how the processes ended if the plan asks for that, and which were left out of the start.
    pub(super) fn into_ends(mut self) -> (Failures, Exits, Vec<StartFailure>) {
        // Processes that were killed last have ended before the kill was answered.
        while let Ok(event) = self.host.events().try_recv() {
            let _ = self.event(event);
        }
        (self.failures, self.exits.unwrap_or_default(), self.not_started)
    }

    /// Starts the job, and waits until all processes that it started have ended and their output is written.
    pub(super) fn run(&mut self) -> JobEnd {
        let begun = self.begin();
        let over = begun.and_then(|()| self.start()).and_then(|group| self.watch(group));
        let (Ok(over) | Err(over)) = over;
        match over {
            JobEnd::NotStarted(_, errors) => {
                self.collect_reasons();
                JobEnd::NotStarted(std::mem::take(&mut self.not_started), errors)
            }
            JobEnd::Refused(fault) => {
                self.collect_reasons();
                JobEnd::Refused(fault)
            }
            JobEnd::TimedOut => {
                self.failures.close();
                let ended = self.before_kill();
                self.kill();
                ended.err().unwrap_or(JobEnd::TimedOut)
            }
            JobEnd::Ended => self.drain().err().unwrap_or(JobEnd::Ended),
            over => over,
        }
    }

    /// Waits until the other nodes have begun, and sends them the programs.
    fn begin(&mut self) -> Result<(), JobEnd> {
        let progress = Progress::new(self.plan, self.clock);
        while self.plan.is_far() && self.hosts.is_none() {
            match self.host.receive(self.host.events(), self.turn()) {
                Ok(event) => self.event(event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(JobEnd::Lost),
            }
            progress.waiting();
            self.check_signals()?;
            self.check_time()?;
        }
        let (Some(send), Some(hosts), false) = (self.send, &self.hosts, self.plan.programs.is_empty()) else {
            return Ok(());
        };
        let ids: Vec<Id> = hosts.keys().copied().collect();
        let unsent = send(&ids, self.limit.as_ref().map(|limit| limit.left().unwrap_or_default()));
        // The time and a signal end the sending, too.
        self.check_signals()?;
        self.check_time()?;
        if unsent.is_empty() { Ok(()) } else { Err(JobEnd::NotSent(unsent)) }
    }

    /// Starts the processes.
    fn start(&mut self) -> Result<GroupId, JobEnd> {
        let (tell, told) = mpsc::channel();
        let request = Request::SpawnMultiple {
            specs: self.plan.specs.clone(),
            preputs: Vec::new(),
            on_death: self.plan.on_death,
            input: self.plan.readers,
        };
        let callback = move |answer| {
            // The receiver may be gone.
            let _ = tell.send(answer);
        };
        self.host.ask_then(request, Box::new(callback));
        let progress = Progress::new(self.plan, self.clock);
        let answer = loop {
            match self.host.receive(&told, self.turn()) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(JobEnd::Lost),
            }
            progress.waiting();
            self.check_signals()?;
            while let Ok(event) = self.host.events().try_recv() {
                self.event(event)?;
            }
            self.check_time()?;
        };
        match answer.map_err(JobEnd::Refused)? {
            Answer::Spawned { errors, .. }
                if !self.plan.starts_partly() && errors.iter().any(|&error| error != 0) =>
            {
                Err(JobEnd::NotStarted(Vec::new(), errors))
            }
            Answer::Spawned { group, .. } => {
                // The group runs already, and what it has spawned may have failed before its answer came here.
                let failed = std::mem::take(&mut self.not_started);
                let (left_out, failed) = failed.into_iter().partition(|failure| self.is_left_out(failure));
                self.not_started = left_out;
                let failed: Vec<StartFailure> = failed;
                failed.iter().for_each(|failure| self.warn_of(failure));
                Ok(group)
            }
            other => Err(JobEnd::Refused(unexpected(&other))),
        }
    }

    /// Collects what the domain has reported about a failed start.
    fn collect_reasons(&mut self) {
        while let Ok(event) = self.host.events().try_recv() {
            match event {
                HostEvent::Warning(text) => self.warn(&text),
                HostEvent::NotStarted(failure) => self.not_started.push(failure),
                // Nothing runs.
                _ => {}
            }
        }
    }

    /// Waits until the group, and all groups that it has spawned, have ended.
    fn watch(&mut self, first: GroupId) -> Result<JobEnd, JobEnd> {
        self.subscribe(first, self.plan.count())?;
        if self.plan.input == StdinSource::Fed {
            self.reading = self.host.read_input();
        }
        loop {
            while self.left.get(&first).is_some_and(|&left| left > 0) {
                self.step()?;
            }
            // One failed process ends the job, whatever else it has spawned.
            if self.plan.on_death == OnDeath::Kill && self.failures.has(first) {
                // Spawned processes could hold the output of the job open for any time.
                self.kill();
                return Ok(JobEnd::Ended);
            }
            while self.left.values().any(|&left| left > 0) {
                self.step()?;
            }
            if !self.find_more()? {
                return Ok(JobEnd::Ended);
            }
        }
    }

    /// Handles one event, and checks signals and the time limit.
    fn step(&mut self) -> Result<(), JobEnd> {
        match self.host.receive(self.host.events(), self.turn()) {
            Ok(event) => self.event(event)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(JobEnd::Lost),
        }
        self.poll()
    }

    fn poll(&mut self) -> Result<(), JobEnd> {
        while let Some(signal) = self.signals.next(Duration::ZERO) {
            self.signal(signal)?;
        }
        self.check_time()
    }

    fn event(&mut self, event: HostEvent) -> Result<(), JobEnd> {
        match event {
            HostEvent::Death(death) if self.command.as_mut().is_some_and(|command| command.takes(&death)) => {
            }
            HostEvent::Death(death) => {
                self.failures.ended(&death);
                self.exits.iter_mut().for_each(|exits| exits.ended(&death));
                if let Some(left) = self.left.get_mut(&death.member.group) {
                    *left = left.saturating_sub(1);
                }
            }
            HostEvent::Aborted { member, code, message } => self.failures.aborted(member, code, message),
            // The failed start of a spawned group is reported here, since MPI libraries drop the reason.
            HostEvent::NotStarted(failure) if !self.left.is_empty() && !self.is_left_out(&failure) => {
                self.warn_of(&failure);
            }
            HostEvent::NotStarted(failure) => self.not_started.push(failure),
            // Of several failures the first one counts, whichever group it is of.
            HostEvent::Spawned { group, count } if !self.left.contains_key(&group) => {
                self.subscribe(group, count)?;
            }
            HostEvent::Begun(hosts) => self.hosts = Some(hosts.into_iter().collect()),
            HostEvent::Killed { group, by, dead } => self.failures.killed(group, by, dead),
            HostEvent::Warning(text) => self.warn(&text),
            HostEvent::Output(error) => return Err(JobEnd::Unread(error)),
            HostEvent::Ended => return Err(JobEnd::Lost),
            // An event of a later version.
            _ => {}
        }
        Ok(())
    }

    /// Whether the others run without these processes.
    fn is_left_out(&self, failure: &StartFailure) -> bool {
        self.plan.starts_partly() && failure.group == FIRST
    }

    /// Prints why a spawned group is not started.
    fn warn_of(&mut self, failure: &StartFailure) {
        let line = not_started(failure, self.plan.node_count());
        self.warn(&line);
    }

    /// Prints a warning; the number is bounded, since a thousand nodes may send the same one.
    fn warn(&mut self, text: &str) {
        self.warned += 1;
        match self.warned {
            ..=WARNINGS_MAX => say(text),
            number if number == WARNINGS_MAX + 1 => say("what more there is of such warnings is left out"),
            _ => {}
        }
    }

    /// Forwards a signal.
    fn signal(&mut self, arrived: Arrived) -> Result<(), JobEnd> {
        let signal = arrived.number;
        if arrived.ends() && self.asked.replace(signal).is_some() {
            return Err(JobEnd::Signalled(signal));
        }
        let Ok(number) = u8::try_from(signal) else { return Ok(()) };
        match arrived.by_terminal {
            // A process that reads the terminal has it already.
            true => self.host.signal_others(number),
            false => self.host.signal_all(number),
        }
        // If the head is stopped, other nodes take it for lost.
        if signal == SIGTSTP && self.plan.node_count() == 1 {
            // The answer arrives after the signal has been sent.
            let _ = self.host.ask(Request::Databases, KILLED);
            signals::stop();
        }
        Ok(())
    }

    /// Subscribes to the ends of a group's processes, including past ones.
    fn subscribe(&mut self, group: GroupId, count: u32) -> Result<(), JobEnd> {
        self.left.insert(group, count);
        match self.host.ask(Request::Subscribe(group), ASK) {
            Ok(_) => {
                self.place(group);
                Ok(())
            }
            // The group has been freed: all its processes have ended.
            Err(fault) if fault.kind == FaultKind::NoGroup => {
                self.left.insert(group, 0);
                Ok(())
            }
            Err(fault) => Err(JobEnd::Unseen(fault)),
        }
    }

    /// Asks for the process ids and nodes of a group, if names of files have them or their hosts.
    fn place(&self, group: GroupId) {
        if !self.plan.output.has_place() {
            return;
        }
        // Without an answer, the names have 0.
        let Ok(Answer::Groups(groups)) = self.host.ask(Request::Status(group), ASK) else { return };
        // The processes of a node share its name.
        let mut names = BTreeMap::<Id, Arc<OsStr>>::new();
        for found in &groups {
            for status in &found.members {
                let name =
                    names.entry(status.node).or_insert_with(|| OsStr::new(&self.host_of(status.node)).into());
                let place = Place { pid: status.pid.unwrap_or(0), host: Arc::clone(name) };
                self.places.add([(Member { group: found.group, rank: status.rank }, place)]);
            }
        }
    }

    /// The name of a node's host: in the list of hosts, or else as the node itself reports it. Nodes that have reported
    /// none are on this host.
    fn host_of(&self, id: Id) -> String {
        let reported = || self.hosts.as_ref().and_then(|hosts| hosts.get(&id)).cloned();
        let listed = self.plan.listed_host(id).map(str::to_owned);
        let own = || uname().nodename().to_string_lossy().into_owned();
        listed.or_else(reported).unwrap_or_else(own)
    }

    /// Looks for groups that were spawned in the meantime; returns whether some have not ended.
    fn find_more(&mut self) -> Result<bool, JobEnd> {
        let groups = match self.host.ask(Request::Groups, ASK) {
            Ok(Answer::Groups(groups)) => groups,
            Ok(other) => return Err(JobEnd::Unseen(unexpected(&other))),
            Err(fault) if fault.kind == FaultKind::DomainEnded => return Ok(false),
            Err(fault) => return Err(JobEnd::Unseen(fault)),
        };
        let new: Vec<GroupStatus> =
            groups.into_iter().filter(|found| !self.left.contains_key(&found.group)).collect();
        for found in &new {
            match found.state {
                // No process is left that could close it.
                GroupState::Open | GroupState::Derived => {}
                // The process that spawned it has received the error and handled it.
                _ if found.members.iter().any(never_started) => {}
                _ => self.subscribe(found.group, found.members.len() as u32)?,
            }
        }
        Ok(self.left.values().any(|&left| left > 0))
    }

    /// Kills all groups in two steps, so that processes can end in order.
    fn kill(&mut self) {
        self.failures.close();
        let (tell, told) = mpsc::channel();
        let groups = match self.host.ask(Request::Groups, ASK) {
            Ok(Answer::Groups(groups)) => groups,
            // The domain ends by force.
            _ => return,
        };
        for found in
            groups.iter().filter(|found| !matches!(found.state, GroupState::Ended | GroupState::Derived))
        {
            let tell = tell.clone();
            let callback = move |_| {
                // The receiver may be gone.
                let _ = tell.send(());
            };
            self.host.ask_then(Request::Kill(found.group), Box::new(callback));
        }
        drop(tell);
        self.wait_killed(&told, &self.clock.limit(self.plan.limits.grace + KILLED));
    }

    /// Waits until all groups are killed; gives up at another signal.
    fn wait_killed(&self, told: &Receiver<()>, limit: &TimeLimit) {
        while let Some(left) = limit.left() {
            match self.host.receive(told, left.min(POLL_INTERVAL)) {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            }
            if std::iter::from_fn(|| self.signals.next(Duration::ZERO)).any(Arrived::ends) {
                return;
            }
        }
    }

    /// Waits until the output of the processes is written; its reader may be slow.
    fn drain(&mut self) -> Result<(), JobEnd> {
        let drained = self.host.drain();
        // A domain that has ended has nothing to write.
        while self.host.receive(&drained, POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            while let Ok(event) = self.host.events().try_recv() {
                self.event(event)?;
            }
            // No process is left to receive a signal.
            self.check_signals()?;
            self.check_time()?;
        }
        while let Ok(event) = self.host.events().try_recv() {
            self.event(event)?;
        }
        Ok(())
    }

    /// Takes the signals that have arrived while there are no processes: one that requests the end ends the job.
    fn check_signals(&self) -> Result<(), JobEnd> {
        match std::iter::from_fn(|| self.signals.next(Duration::ZERO)).find(|signal| signal.ends()) {
            Some(signal) => Err(JobEnd::Signalled(signal.number)),
            None => Ok(()),
        }
    }

    fn check_time(&self) -> Result<(), JobEnd> {
        match &self.limit {
            Some(limit) if limit.is_over() => Err(JobEnd::TimedOut),
            _ => Ok(()),
        }
    }

    /// Returns how long a turn may wait.
    fn turn(&self) -> Duration {
        let left = self.limit.as_ref().map(|limit| limit.left().unwrap_or_default());
        left.map_or(POLL_INTERVAL, |left| left.min(POLL_INTERVAL))
    }
}

fn never_started(member: &MemberStatus) -> bool {
    member.death.as_ref().is_some_and(|death| death.exit == Exit::Never)
}

fn unexpected(answer: &Answer) -> Fault {
    let text = format!("{answer:?}");
    Fault::new(FaultKind::System, format!("the domain answers something else: {}", Shown(&text)))
}

/// Progress of a long start on a terminal.
struct Progress {
    bar: ProgressBar,
    silence: TimeLimit,
}

impl Progress {
    fn new(plan: &RunPlan, clock: &Clock) -> Progress {
        let bar = ProgressBar::hidden();
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed} so far");
        bar.set_style(style.expect("the template is well formed"));
        bar.set_message(format!("starting {} processes on {} nodes", plan.count(), plan.node_count()));
        Progress { bar, silence: clock.limit(SILENCE) }
    }

    fn waiting(&self) {
        self.bar.tick();
        if self.bar.is_hidden() && self.silence.is_over() {
            // Draws only if standard error is a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
