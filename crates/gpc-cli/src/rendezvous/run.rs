//! `gpc rendezvous run`: starts processes of a program that meet. They end with this process, and so does the resource
//! where they meet.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::{Clock, Job};
use gpc_rendezvous::client::{Client, ClientError, ServiceUrl};
use gpc_rendezvous::variables::Variables;
use gpc_rendezvous::{FaultKind, Handle, RankChoice, Spec};

use super::arguments::{above, client};
use super::private::TokenFile;
use super::task::{END, Event, KILLED, Tasks, WaitEnd, watch_children};
use super::{private, token};
use crate::args::rendezvous::RunArgs;
use crate::interrupt::Interrupt;
use crate::refused::Refused;
use crate::{CommandResult, Failure, say};

/// Time limit for the service to report how many have registered after a process has failed.
const ASK: Duration = Duration::from_secs(1);

/// Exit status after the time limit, the same as that of `timeout`.
const TIMED_OUT: u8 = 124;

/// Runs the sub-command.
pub(super) fn run(args: &RunArgs) -> CommandResult {
    let rank = rank(args)?;
    let (tell, events) = mpsc::channel();
    // Before anything is started, so that nothing remains after a signal.
    let stop = tell.clone();
    let interrupt = Interrupt::listen(move || {
        // The receiver lives as long as the handler.
        let _ = stop.send(Event::Stop);
    })?;
    watch_children(tell.clone())?;
    let variables = Variables::of_this_process()?;
    let client = client(&args.access, &variables)?;
    let job = Job::random();
    let spec = above(Spec { job: Some(job), joint: args.joint, ..Spec::new(args.n.into()) }, &args.above);
    let lifetime = args.time_limit.map(|limit| (limit.duration() + END + KILLED).as_millis() as u64);
    let created = client.create(&args.service, &Spec { lifetime, ..spec });
    let handle = created.map_err(|error| too_long(args, error))?;
    let meeting = Meeting { client: &client, service: &args.service, job, handle };
    private::remove_left();
    let token = token::of(&args.access, &variables)?;
    let file = token.as_ref().map(TokenFile::somewhere).transpose()?;
    let told = task_variables(args, rank, &variables, &meeting.handle, file.as_ref())?;
    let mut tasks = Tasks::start(args, &told)?;
    let clock = Clock::system();
    let limit = args.time_limit.map(|limit| clock.limit(limit.duration()));
    let mut failures = Failures { tell: (!args.keep_going).then_some(tell), asking: None };
    let over =
        tasks.wait(&events, limit.as_ref(), |task, status| failures.report_end(task, status, &meeting));
    if matches!(over, WaitEnd::Unmet) {
        say("the other processes are ended, since not all have registered (--keep-going leaves them)");
    }
    tasks.end(&clock, &events);
    failures.end();
    Ok(ExitCode::from(match over {
        WaitEnd::Ended | WaitEnd::Unmet => tasks.failed.unwrap_or(0),
        WaitEnd::Interrupted => interrupt.exit_status().unwrap_or(1),
        WaitEnd::TimedOut => {
            say(&format!("the processes were ended: they ran for longer than {}", shown(args.time_limit)));
            TIMED_OUT
        }
    }))
}

fn shown(limit: Option<crate::duration::Span>) -> String {
    limit.map(|limit| limit.to_string()).unwrap_or_default()
}

/// Returns the error of creating the resource. If its lifetime is too long, the error names the option for it, the time
/// limit of the processes.
fn too_long(args: &RunArgs, error: ClientError) -> Failure {
    match (args.time_limit, error.fault()) {
        (Some(limit), Some(fault)) if fault.kind == FaultKind::LifetimeOutOfRange => {
            let more = (END + KILLED).as_secs();
            let text = format!(
                "--time-limit {limit}: their resource would have to live {more} s longer than that, and the service says: {}; give a shorter limit or none, or start the service with a longer --lifetime-max",
                fault.message
            );
            Refused::Usage(text).into()
        }
        _ => error.into(),
    }
}

/// The resource where the processes meet; it is destroyed when this is dropped.
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

/// Returns the rank above, if it is one that can be passed to the processes.
fn rank(args: &RunArgs) -> Result<Option<u32>, Refused> {
    let Some(RankChoice::Rank(rank)) = args.above.rank.map(|rank| rank.0) else { return Ok(None) };
    let told = u32::try_from(rank).map(Some);
    told.map_err(|_| Refused::Usage(format!("--rank {rank}: ranks go from 0 to {}", u32::MAX)))
}

/// Returns the environment variables of each process.
fn task_variables(
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
        // Absolute, since a process may change its folder before it reads the file.
        ca_file: ca.map(std::path::absolute).transpose()?,
    })
}

/// Reports processes that fail.
struct Failures {
    /// Receives an event if a process failed before all had registered.
    tell: Option<Sender<Event>>,
    /// The thread that asks the service how many have registered, for the first failure only.
    asking: Option<JoinHandle<()>>,
}

impl Failures {
    /// Reports a process that ended without success, and for the first one how many have registered. The service may be
    /// gone, so its answer is awaited on another thread.
    fn report_end(&mut self, task: usize, status: ExitStatus, meeting: &Meeting<'_>) {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("with exit status {code}"),
            (None, Some(signal)) => format!("by signal {signal}"),
            (None, None) => "in an unknown way".into(),
        };
        let text = format!("process {task} has ended {how}");
        if self.asking.is_some() {
            return say(&text);
        }
        let (client, handle) = (meeting.client.within(ASK), meeting.handle.clone());
        let (tell, alone) = (self.tell.take(), text.clone());
        let asking = thread::Builder::new().name("gpc-failure".into()).spawn(move || {
            let found = client.properties(&handle);
            say(&match &found {
                Ok(found) if found.completed => format!("{text}; all have registered before"),
                Ok(found) => format!("{text}; {} of {} have registered", found.tally, found.capacity),
                Err(error) => format!("{text}; how many have registered is not known: {error}"),
            });
            if let (Some(tell), Ok(false)) = (tell, found.map(|found| found.completed)) {
                // The receiver may be gone.
                let _ = tell.send(Event::Unmet);
            }
        });
        match asking {
            Ok(asking) => self.asking = Some(asking),
            // If the system provides no thread, the number is omitted.
            Err(_) => say(&alone),
        }
    }

    /// Waits until all is reported, at most for the time limit of the service.
    fn end(self) {
        if let Some(asking) = self.asking {
            // A panic was reported where it happened.
            let _ = asking.join();
        }
    }
}
