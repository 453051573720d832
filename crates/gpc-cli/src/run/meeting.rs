//! The resource where the processes of `gpc run --rendezvous` meet: created before they start, destroyed at the end.
//!
//! Source: WS Rendezvous, "Integration with GRAM".

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use chained_gpc::{Clock, Job};
use gpc_bnr::Spec as Program;
use gpc_rendezvous::client::{Client, ClientError, ServiceUrl};
use gpc_rendezvous::variables::{self, Variables};
use gpc_rendezvous::{FaultKind, Handle, Spec};

use super::plan::RunPlan;
use super::signals::{Arrived, Signals};
use crate::args::rendezvous::AccessArgs;
use crate::args::run::RunArgs;
use crate::duration::Span;
use crate::files::read_text;
use crate::limits::cannot_start;
use crate::refused::Refused;
use crate::rendezvous::{arguments, token};
use crate::{Failure, say};

/// Time limit for the service to report how many have registered.
const ASK: Duration = Duration::from_secs(1);

/// Time that the resource exists longer than the time limit of the job: at the limit a command has one minute, a signal
/// 5 s, and the kill 12 s.
const AFTER_LIMIT: Duration = Duration::from_secs(90);

/// Time for the service to destroy the resource after a signal has ended the job: a service that answers needs less.
const AFTER_SIGNAL: Duration = Duration::from_secs(10);

/// Interval at which a wait for the service checks for signals: too short for a person to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const INTERRUPTED: &str = "a signal has ended the wait for the service";

/// A resource; it is destroyed when this is dropped.
pub(super) struct Meeting<'a> {
    client: Arc<Client>,
    service: ServiceUrl,
    job: Job,
    handle: Handle,
    signals: &'a Signals,
}

impl<'a> Meeting<'a> {
    /// Creates the resource that the arguments request, and adds its variables to the programs.
    ///
    /// # Errors
    /// If a file cannot be read, the service does not answer or refuses, or a signal ends the wait.
    pub(super) fn create(
        args: &RunArgs,
        plan: &mut RunPlan,
        signals: &'a Signals,
    ) -> Result<Option<Meeting<'a>>, Failure> {
        let Some(service) = args.meeting.rendezvous.clone() else { return Ok(None) };
        let own = Variables::of_this_process()?;
        let access = access(args);
        let hints = hints(&access, &own)?;
        check_secrecy(args, !hints.is_empty())?;
        let client = Arc::new(arguments::client(&access, &own)?);
        let (job, limit) = (Job::random(), plan.time_limit);
        let lifetime = limit.map(|limit| (limit.duration() + AFTER_LIMIT).as_millis() as u64);
        let joint = args.meeting.joint;
        let spec = Spec { job: Some(job), joint, lifetime, ..Spec::new(plan.count().into()) };
        let spec = arguments::above(spec, &args.meeting.above);
        let (asked, at) = (client.clone(), service.clone());
        let created = answer(move || asked.create(&at, &spec), || signals.ending().is_some())?;
        let Some(created) = created else {
            say(
                "the service has not answered: a resource that it still creates stays until its lifetime ends",
            );
            return Err(INTERRUPTED.into());
        };
        let handle = created.map_err(|error| too_long(limit, error))?;
        let told = Variables {
            job: Some(handle.clone()),
            multijob: args.meeting.above.parent.clone(),
            rank: args.meeting.parent_rank().map_err(Refused::Usage)?,
            ..Variables::default()
        };
        let inherited = |name: &str| std::env::var_os(name).is_some();
        plan.specs.iter_mut().for_each(|program| add(program, &told, &hints, inherited));
        Ok(Some(Meeting { client, service, job, handle, signals }))
    }

    /// Reports how many processes have registered.
    pub(super) fn say_registered(&self) {
        let (client, handle) = (self.client.within(ASK), self.handle.clone());
        let found = answer(move || client.properties(&handle), || self.is_interrupted());
        say(&match found {
            Ok(Some(Ok(found))) if found.completed => "all have registered at the rendezvous".into(),
            Ok(Some(Ok(found))) => {
                format!("{} of {} have registered at the rendezvous", found.tally, found.capacity)
            }
            failed => format!("how many have registered at the rendezvous is not known: {}", why(failed)),
        });
    }

    /// Whether a signal has arrived that requests an end.
    fn is_interrupted(&self) -> bool {
        std::iter::from_fn(|| self.signals.next(Duration::ZERO)).any(Arrived::ends)
    }
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        // The signals up to now have ended the job; the next one ends the wait for the service. A signal that arrived
        // late has been read here, so the limit ends the wait, too.
        while self.signals.next(Duration::ZERO).is_some() {}
        let (client, service, job) = (self.client.clone(), self.service.clone(), self.job);
        let limit = Clock::system().limit(AFTER_SIGNAL);
        let is_late = || limit.is_over() && self.signals.ending().is_some();
        let ended = answer(move || client.end_job(&service, job), || self.is_interrupted() || is_late());
        if !matches!(ended, Ok(Some(Ok(_)))) {
            say(&format!("the resource of the job stays until its lifetime ends: {}", why(ended)));
        }
    }
}

/// The answer to a request; `Ok(None)` if a signal ended the wait.
type Awaited<T> = io::Result<Option<Result<T, ClientError>>>;

/// Makes a request on another thread, and waits for the answer until `ends`. The client bounds the time.
///
/// # Errors
/// If the system provides no thread.
fn answer<T: Send + 'static>(
    request: impl FnOnce() -> Result<T, ClientError> + Send + 'static,
    ends: impl Fn() -> bool,
) -> Awaited<T> {
    let (tell, told) = mpsc::channel();
    let asking = move || {
        // The receiver may be gone.
        let _ = tell.send(request());
    };
    thread::Builder::new().name("gpc-meeting".into()).spawn(asking).map_err(cannot_start("a thread"))?;
    loop {
        match told.recv_timeout(POLL_INTERVAL) {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) if !ends() => {}
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the thread has failed")),
        }
    }
}

/// Why a request failed.
fn why<T>(failed: Awaited<T>) -> String {
    match failed {
        Ok(Some(Err(error))) => error.to_string(),
        Ok(None) => INTERRUPTED.into(),
        Err(error) => error.to_string(),
        Ok(Some(Ok(_))) => String::new(),
    }
}

/// Access to the service. The secret of the job is the one of `--secret-file`.
fn access(args: &RunArgs) -> AccessArgs {
    let meeting = &args.meeting;
    AccessArgs {
        token_file: meeting.token_file.clone(),
        secret_file: args.trust.secret_file.clone(),
        ca: meeting.ca.clone(),
        try_for: meeting.try_for,
    }
}

/// Returns hints for files with the token and the certificates, which each node makes: hosts may share no folder.
fn hints(access: &AccessArgs, own: &Variables) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let token = token::of(access, own)?.map(|token| format!("{}\n", token.to_text().as_str()));
    let ca = access.ca.as_ref().or(own.ca_file.as_ref());
    let ca = ca.map(|path| read_text(path, "certificates")).transpose().map_err(Refused::File)?;
    let files = [(variables::TOKEN_FILE, token), (variables::CA_FILE, ca)];
    let hint = |(name, text): (&str, Option<String>)| {
        Some(("private-file".to_owned(), format!("{name}={}", text?).into_bytes()))
    };
    Ok(files.into_iter().filter_map(hint).collect())
}

/// Checks that orders with private files are encrypted on their way to other machines.
///
/// # Errors
/// An option leaves them readable.
fn check_secrecy(args: &RunArgs, has_private: bool) -> Result<(), Refused> {
    let trust = &args.trust;
    let option = match trust.secret_file {
        _ if args.peers.is_none() || !has_private => return Ok(()),
        _ if trust.no_encrypt => "--no-encrypt",
        None if trust.insecure => "--insecure",
        _ => return Ok(()),
    };
    Err(Refused::Usage(format!(
        "{option} with --rendezvous and --peers: the token of the service would go readable to the nodes: leave {option} out and give --secret-file to all nodes, or use a service without a token"
    )))
}

/// Adds the variables to a program. `inherited`: whether its processes may inherit a variable of this process.
fn add(
    program: &mut Program,
    told: &Variables,
    hints: &[(String, Vec<u8>)],
    inherited: impl Fn(&str) -> bool,
) {
    let is_file = |name: &str| hints.iter().any(|(_, hint)| hint.starts_with(format!("{name}=").as_bytes()));
    for (name, value) in told.to_set() {
        match value {
            Some(value) => add_variable(program, name, value),
            // An empty variable counts as unset.
            None if inherited(name) && !is_file(name) => add_variable(program, name, String::new()),
            None => {}
        }
    }
    program.info.extend_from_slice(hints);
}

/// Returns the error of creating the resource. If its lifetime is too long, the error names the option for it.
fn too_long(limit: Option<Span>, error: ClientError) -> Failure {
    match (limit, error.fault()) {
        (Some(limit), Some(fault)) if fault.kind == FaultKind::LifetimeOutOfRange => {
            let (more, why) = (AFTER_LIMIT.as_secs(), &fault.message);
            let text = format!(
                "--time-limit {limit}: the resource would have to exist {more} s longer than that, and the service says: {why}; give a shorter limit or none, or start the service with a longer --lifetime-max"
            );
            Refused::Usage(text).into()
        }
        _ => token::explained(error.into()),
    }
}

/// Adds a variable, unless the user has chosen a value.
fn add_variable(spec: &mut Program, name: &str, value: String) {
    if spec.env.iter().all(|(known, _)| known != name.as_bytes()) {
        spec.env.push((name.into(), value.into_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};

    const HANDLE: &str = "http://a:1/rendezvous?000102030405060708090a0b0c0d0e0f";

    /// A process with the handle of an earlier job, and the resource above that, would register there.
    #[test]
    fn a_program_has_the_variables_of_its_own_rendezvous_alone() {
        let told = Variables { job: HANDLE.parse().ok(), rank: Some(3), ..Variables::default() };
        let hints = [("private-file".to_owned(), b"GPC_RENDEZVOUS_TOKEN_FILE=x".to_vec())];
        let own = (b"GPC_SUBJOB_RANK".to_vec(), b"7".to_vec());
        let mut program = Program { env: vec![own.clone()], ..Program::default() };
        add(&mut program, &told, &hints, |name| !name.starts_with("GLOBUS"));
        let mut expected = vec![own];
        for (name, value) in [
            ("GPC_JOB_HANDLE", HANDLE),
            ("GLOBUS_GRAM_JOB_HANDLE", HANDLE),
            ("GPC_MULTIJOB_HANDLE", ""),
            ("GLOBUS_GRAM_SUBJOB_RANK", "3"),
            ("GPC_RENDEZVOUS_CA_FILE", ""),
        ] {
            expected.push((name.into(), value.into()));
        }
        assert_eq!((program.env, program.info), (expected, hints.to_vec()));
    }

    /// The token of the service was readable on the wire.
    #[test]
    fn a_token_is_not_sent_in_clear() {
        let check = |options: &str, has_private| {
            let line = format!("gpc run --rendezvous http://a:1/rendezvous {options} ./task");
            let read = Args::read(line.split_ascii_whitespace());
            let Ok(Args { command: Command::Run(args) }) = read else { panic!("{line}") };
            check_secrecy(&args, has_private).map_err(|refused| refused.to_string())
        };
        let peers = |option: &str| format!("--peers p --id 0 {option}");
        for option in ["--no-encrypt", "--insecure"] {
            assert!(check(&peers(option), true).unwrap_err().starts_with(option));
            assert_eq!(check(&peers(option), false), Ok(()));
        }
        assert!(check(&peers("--no-encrypt --secret-file s"), true).is_err());
        for options in [peers(""), peers("--insecure --secret-file s"), "--nodes 2".into()] {
            assert_eq!(check(&options, true), Ok(()), "{options}");
        }
    }

    #[test]
    fn a_signal_ends_the_wait_for_an_answer() {
        let (_held, waits) = mpsc::channel::<()>();
        let request = move || {
            // If no signal ends the wait, this does.
            let _ = waits.recv_timeout(Duration::from_secs(5));
            Ok(1)
        };
        assert!(matches!(answer(request, || true), Ok(None)));
        assert!(matches!(answer(|| Ok(2), || false), Ok(Some(Ok(2)))));
    }
}
