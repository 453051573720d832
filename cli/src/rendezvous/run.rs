//! `gpc rendezvous run`: processes of a program that meet. They end with this one, however that ends, and so does the resource where they meet.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::Job;
use gpc_rendezvous::client::{Client, ServiceUrl};
use gpc_rendezvous::variables::Variables;
use gpc_rendezvous::{Handle, Spec, Wanted};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use super::private::TokenFile;
use super::{Failure, above, client, token};
use crate::args::rendezvous::{RunArgs, TaskArgs};
use crate::interrupt::Interrupt;
use crate::refused::Refused;
use crate::{CommandResult, say};

/// How long processes that are told to end have for it.
const END: Duration = Duration::from_secs(3);

/// How long it may take that the system tells of a process that has been killed.
const KILLED: Duration = Duration::from_secs(10);

/// Exit status where the time is over, as of `timeout`.
const TIMED_OUT: u8 = 124;

/// Exit status where a program cannot be started, as of shells.
const NOT_STARTED: u8 = 127;

/// What the main thread waits for.
enum Event {
    /// A process has changed.
    Child,
    /// A signal has come.
    Stop,
}

/// Runs the sub-command.
pub(super) fn run(args: &RunArgs) -> CommandResult {
    let rank = rank(args)?;
    let (tell, events) = mpsc::channel();
    // Before anything is started, so that nothing is left over.
    let stop = tell.clone();
    let interrupt = Interrupt::listen(move || {
        // Who waits for it is there as long as it is listened for.
        let _ = stop.send(Event::Stop);
    })?;
    watch_children(tell)?;
    let variables = Variables::of_this_process()?;
    let client = client(&args.access, &variables)?;
    let job = Job::random();
    let spec = above(Spec { job: Some(job), joint: args.joint, ..Spec::new(args.n.into()) }, &args.above);
    let lifetime = args.time_limit.map(|limit| (limit.duration() + END + KILLED).as_millis() as u64);
    let handle = client.create(&args.service, &Spec { lifetime, ..spec })?;
    let meeting = Meeting { client: &client, service: &args.service, job, handle };
    let token = token::of(&args.access, &variables)?;
    let file = token.as_ref().map(TokenFile::somewhere).transpose()?;
    let told = told(args, rank, &variables, &meeting.handle, file.as_ref())?;
    let mut tasks = Tasks::start(args, &told)?;
    let end = args.time_limit.map(|limit| Instant::now() + limit.duration());
    let over = tasks.wait(&events, end, |task, status| said(task, status, &meeting));
    tasks.end(&events);
    Ok(ExitCode::from(match over {
        Over::Ended => tasks.failed.unwrap_or(0),
        Over::Interrupted => interrupt.exit_status().unwrap_or(1),
        Over::TimedOut => {
            say(&format!("the processes were ended: they ran for longer than {}", shown(args.time_limit)));
            TIMED_OUT
        }
    }))
}

fn shown(limit: Option<crate::duration::Span>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

/// The resource where they meet, which ends with this.
struct Meeting<'a> {
    client: &'a Client,
    service: &'a ServiceUrl,
    job: Job,
    handle: Handle,
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.client.end_job(self.service, self.job) {
            say(&format!("the resource of the job is left until its lifetime ends: {error}"));
        }
    }
}

/// The rank above, where it is one that the processes can be told.
fn rank(args: &RunArgs) -> Result<Option<u32>, Refused> {
    let Some(Wanted::Rank(rank)) = args.above.rank.map(|rank| rank.0) else { return Ok(None) };
    let told = u32::try_from(rank).map(Some);
    told.map_err(|_| Refused::Usage(format!("--rank {rank}: ranks go from 0 to {}", u32::MAX)))
}

/// What each process is told by its environment.
fn told(
    args: &RunArgs,
    rank: Option<u32>,
    own: &Variables,
    handle: &Handle,
    token: Option<&TokenFile>,
) -> Result<Variables, Failure> {
    let ca = args.access.ca.clone().or_else(|| own.ca_file.clone());
    Ok(Variables {
        job: Some(handle.clone()),
        multijob: args.above.parent.clone(),
        rank,
        token_file: token.map(|file| file.path().to_owned()),
        // A process may go to another folder before it reads it.
        ca_file: ca.map(std::path::absolute).transpose()?,
    })
}

/// A process has ended that did not succeed: says so, and how far they have come.
fn said(task: usize, status: ExitStatus, meeting: &Meeting<'_>) {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit status {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".into(),
    };
    let met = match meeting.client.properties(&meeting.handle) {
        Ok(found) if found.completed => "; all have registered before".into(),
        Ok(found) => format!("; {} of {} have registered", found.tally, found.capacity),
        Err(_) => String::new(),
    };
    say(&format!("process {task} has ended {how}{met}"));
}

/// The processes that were started.
struct Tasks {
    running: Vec<(usize, Child)>,
    /// The exit status of the first that failed.
    failed: Option<u8>,
}

/// Why nobody is waited for any longer.
enum Over {
    Ended,
    Interrupted,
    TimedOut,
}

impl Tasks {
    fn start(args: &RunArgs, told: &Variables) -> Result<Tasks, Failure> {
        let own = std::env::current_exe()?;
        let mut tasks = Tasks { running: Vec::new(), failed: None };
        for task in 0..args.n as usize {
            let mut command = Command::new(&own);
            command.args(["rendezvous", "task", "--parent", &std::process::id().to_string(), "--"]);
            command.args(&args.command).stdin(Stdio::null());
            for (name, value) in told.to_set() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            // Those that were started end when they are dropped.
            let child = command.spawn().map_err(|error| format!("cannot start process {task}: {error}"))?;
            tasks.running.push((task, child));
        }
        Ok(tasks)
    }

    /// Waits until all have ended.
    fn wait(
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
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Over::Interrupted,
                Err(RecvTimeoutError::Timeout) => return Over::TimedOut,
            }
        }
    }

    /// Ends those that still run: asks them to, then makes them.
    fn end(&mut self, events: &Receiver<Event>) {
        for (signal, limit) in [(Signal::TERM, END), (Signal::KILL, KILLED)] {
            if self.running.is_empty() {
                return;
            }
            self.signal(signal);
            self.wait(events, Some(Instant::now() + limit), |_, _| {});
        }
    }

    fn signal(&self, signal: Signal) {
        for (_, child) in &self.running {
            // It is there, as a zombie if not otherwise: nobody else has its number.
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Those that have ended since the last time.
    fn ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        self.running.retain_mut(|(task, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.push((*task, status));
                false
            }
            // It is no child any more.
            Err(_) => false,
        });
        ended
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        for (_, child) in &mut self.running {
            let _ = child.wait();
        }
    }
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Tells whenever a process that was started has changed, as long as this one runs.
fn watch_children(tell: Sender<Event>) -> io::Result<()> {
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
