//! `gpc run` runs programs as process groups, on this machine or on running nodes; `gpc ps`, `gpc db` and `gpc kill`
//! work on running groups.
//!
//! Source: BNR; the groups, their databases and their nodes are in `gpc_bnr`.

mod bcast;
mod env_for;
mod exec;
mod exits;
mod failures;
mod files;
mod fold;
mod head;
mod heads;
mod input;
mod job;
#[cfg(feature = "rendezvous")]
mod meeting;
mod nodes;
mod on_timeout;
mod output;
mod pattern;
mod places;
mod placing;
mod plan;
mod programs;
pub(crate) mod rank_file;
mod ranks;
mod reach;
mod show;
mod signals;
mod spool;
mod supervisor;
mod tools;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use chained_gpc::Clock;
use gpc_bnr::StartFailure;
use gpc_bnr::host::{Host, HostSettings};
use gpc_launch::remote::LostProcesses;
use gpc_trees::Id;

use self::exits::Exits;
use self::failures::Failures;
use self::heads::Listening;
use self::job::{Job, JobEnd};
#[cfg(feature = "rendezvous")]
use self::meeting::Meeting;
use self::nodes::Nodes;
use self::output::{OutputPlan, Sink};
use self::places::Places;
use self::plan::RunPlan;
use self::signals::Signals;
use super::args::run::RunArgs;
use super::{CommandResult, Failure, say};

pub(super) use self::exec::exec;
pub(super) use self::nodes::{giving, run_launched, serving};
pub(super) use self::supervisor::{is_supervisor, keep};
#[cfg(feature = "pmix")]
pub(super) use self::supervisor::{pmix_node, serve_pmix};
pub(super) use self::tools::{db, kill, ps};

/// Exit status after the time limit, the same as that of `timeout`.
const TIMED_OUT: u8 = 124;

/// Time limit for the end of a domain: it kills, and waits for no program.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Runs `gpc run`.
pub(super) fn run(args: &RunArgs) -> CommandResult {
    let plan = RunPlan::new(args)?;
    // Before anything is started, so that nothing remains after a signal.
    let signals = Signals::listen()?;
    let (nodes, settings) = match Nodes::open(&plan, &signals) {
        Ok(opened) => opened,
        Err(error) => return interrupted(&signals, error),
    };
    nodes.unlinked().iter().for_each(|(id, why)| say(&format!("node {id} is left out: {why}")));
    let places = Arc::new(Places::default());
    let settings = with_output(settings, &plan.output, &places)?;
    #[cfg(feature = "rendezvous")]
    let mut plan = plan;
    #[cfg(feature = "rendezvous")]
    let meeting = match Meeting::create(args, &mut plan, &signals) {
        Ok(meeting) => meeting,
        Err(error) => {
            nodes.close();
            return interrupted(&signals, error);
        }
    };
    let ended = carry_out(&plan, &signals, nodes, settings, &places)?;
    let Ended { over, failures, exits, lacks_input, losses, .. } = ended;
    if plan.print_exits {
        exits.lines().iter().for_each(|line| say(line));
    }
    nodes::loss_lines(&losses).iter().for_each(|line| say(line));
    failures.say();
    let failed = failures.status().or(lacks_input.then_some(super::FAILED));
    #[cfg(feature = "rendezvous")]
    let has_failed = matches!(over, JobEnd::TimedOut) || failures.status().is_some();
    let status = status(over, &plan, failed);
    #[cfg(feature = "rendezvous")]
    if let Some(meeting) = meeting.filter(|_| has_failed) {
        meeting.say_registered();
    }
    Ok(ExitCode::from(status))
}

/// Returns the status of the signal that has ended the start, or else its error.
fn interrupted(signals: &Signals, error: Failure) -> CommandResult {
    match signals.ending() {
        Some(signal) => Ok(ExitCode::from(signals::status_of(signal))),
        None => Err(error),
    }
}

/// What is known of a job that is over.
struct Ended {
    over: JobEnd,
    failures: Failures,
    exits: Exits,
    lacks_input: bool,
    losses: Vec<LostProcesses>,
    /// Why processes of a group that starts partly were not started.
    left_out: Vec<StartFailure>,
}

/// Runs the job of a plan on its nodes, and ends the nodes.
fn carry_out(
    plan: &RunPlan,
    signals: &Signals,
    nodes: Nodes,
    settings: HostSettings,
    places: &Places,
) -> Result<Ended, Failure> {
    let (settings, mut listening) = with_tools(settings);
    let host = Host::start(settings)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start the domain: {error}")))?;
    if let Some(listening) = &mut listening {
        listening.name(host.name())?;
    }
    let clock = Clock::system();
    let send = |ids: &[Id], limit| bcast::send(&nodes, plan, signals, host.name(), ids, limit);
    let mut job = Job::new(&host, plan, signals, &clock, places).sending(&send);
    let over = job.run();
    let lacks_input = job.lacks_input();
    let (failures, exits, left_out) = job.into_ends();
    // Output of processes that the job does not know is written without their ids.
    places.close();
    // A domain that ends is not visible to tools.
    drop(listening);
    // The nodes end with the domain, so their losses are collected before.
    let losses = nodes.losses(&failures.lost_nodes());
    let written = !matches!(over, JobEnd::Signalled(_) | JobEnd::Unread(_));
    end(host, written);
    nodes.close();
    Ok(Ended { over, failures, exits, lacks_input, losses, left_out })
}

/// Reports how the job ended, and returns the exit status.
fn status(over: JobEnd, plan: &RunPlan, failed: Option<u8>) -> u8 {
    match over {
        JobEnd::Ended => failed.unwrap_or(0),
        JobEnd::NotStarted(failures, errors) => {
            failures::say_not_started(&failures, &errors, plan.node_count())
        }
        JobEnd::NotSent(lines) => {
            lines.iter().for_each(|line| say(&format!("--bcast: {line}")));
            super::FAILED
        }
        JobEnd::Refused(fault) => {
            say(&format!("the processes were not started: {fault}"));
            super::FAILED
        }
        JobEnd::Unseen(fault) => {
            say(&format!("the processes were killed, since it cannot be seen how they end: {fault}"));
            failed.unwrap_or(super::FAILED)
        }
        JobEnd::TimedOut => {
            let limit = plan.time_limit.map(|limit| limit.to_string()).unwrap_or_default();
            say(&format!("the processes were killed: they ran for longer than {limit}"));
            TIMED_OUT
        }
        JobEnd::Signalled(signal) => {
            say(&format!("the processes were killed, after signal {}", signals::name(signal)));
            signals::status_of(signal)
        }
        JobEnd::Unread(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            signals::status_of(signal_hook::consts::SIGPIPE)
        }
        JobEnd::Unread(error) => {
            say(&format!("the processes were killed, since their output cannot be written: {error}"));
            super::FAILED
        }
        JobEnd::Lost => {
            say("the domain has ended before its processes");
            failed.unwrap_or(super::FAILED)
        }
    }
}

/// Makes the domain visible to tools of this user. If that fails, the run continues without.
fn with_tools(mut settings: HostSettings) -> (HostSettings, Option<Listening>) {
    match heads::listen() {
        Ok((listener, listening)) => {
            settings.tools = Some(listener);
            (settings, Some(listening))
        }
        Err(error) => {
            say(&format!("`gpc ps`, `gpc db` and `gpc kill` will not find this run: {error}"));
            (settings, None)
        }
    }
}

fn with_output(
    mut settings: HostSettings,
    plan: &OutputPlan,
    places: &Arc<Places>,
) -> io::Result<HostSettings> {
    let mut sink = Sink::new(plan, places)?;
    settings.output = Some(Box::new(move |piece| sink.write(piece)));
    Ok(settings)
}

/// Ends the domain, and all its processes. If `written`, their output is written first. Otherwise the writing thread
/// may wait for a reader that never reads, and is abandoned.
fn end(host: Host, written: bool) {
    let (tell, told) = mpsc::channel();
    let ending = thread::Builder::new().name("gpc-end".into()).spawn(move || {
        let ended = host.end(END_LIMIT);
        // The receiver may be gone.
        let _ = tell.send(ended);
    });
    let limit = if written { END_LIMIT + END_LIMIT } else { END_LIMIT };
    if ending.is_err() || !matches!(told.recv_timeout(limit), Ok(true)) {
        tracing::warn!("the domain has not ended within {limit:?}; its keepers end what is left");
    }
}
