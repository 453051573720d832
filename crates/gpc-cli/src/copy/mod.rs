//! `gpc copy` copies files to many hosts through a tree, and collects files from them.

mod collect;
mod extent;
mod hosts;
mod incoming;
mod piece;
mod program;
mod read;
mod receive;
mod send;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use chained_gpc::{CallTree, Clock};
use gpc_trees::{Tree, TreeName};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use self::hosts::{Processes, Where};
use self::piece::Destination;
use self::send::Source;
use super::args::CopyArgs;
use super::files::read_peers;
use super::interrupt::Interrupt;
use super::refused::Refused;
use super::tree_choice::CallTreeName;
use super::trust::Trust;
use super::{CommandResult, FAILED, Failure, say, stdout};

pub(super) use self::hosts::{HostNames, Hosts, token};
pub(super) use self::program::GiveProgram;
pub(super) use self::receive::register;

/// Most hosts of a chain: beyond, the last ones would get their first bytes late.
const CHAIN_MAX: usize = 64;

/// A copy, with checked arguments.
struct CopyPlan {
    place: Where,
    job: Job,
    tree: CallTree,
    limit: Option<Duration>,
}

/// What is copied.
enum Job {
    /// These files to the hosts; whether the destination is a folder.
    Send { sources: Vec<Source>, to: PathBuf, into: bool },
    /// These files of the hosts into this folder.
    Collect { paths: Vec<PathBuf>, folder: PathBuf },
}

/// Runs the sub-command.
pub(super) fn run(args: &CopyArgs) -> CommandResult {
    let plan = CopyPlan::new(args)?;
    let interrupt = Interrupt::listen(|| {})?;
    let begun = Instant::now();
    let limit = plan.limit.map(|limit| Clock::system().limit(limit));
    let opened = Processes::open(&plan.place, &interrupt);
    if let Some(status) = interrupt.exit_status() {
        return Ok(ExitCode::from(status));
    }
    let processes = opened?;
    let interrupted = || interrupt.signal().is_some();
    let mut hosts = processes.hosts(&plan.place, &interrupted, limit);
    let shown = progress(plan.bytes());
    let copied = plan.copy(&mut hosts, &shown);
    shown.finish_and_clear();
    let served = hosts.left().len();
    let failures = hosts.failures();
    processes.close();
    if let Some(status) = interrupt.exit_status() {
        return Ok(ExitCode::from(status));
    }
    failures.iter().for_each(|line| say(line));
    let bytes = copied?;
    let took = begun.elapsed();
    if served > 0 {
        stdout::write(|out| writeln!(out, "{}", plan.shown(bytes, served, took)))?;
    }
    Ok(ExitCode::from(if failures.is_empty() { 0 } else { FAILED }))
}

impl CopyPlan {
    fn new(args: &CopyArgs) -> Result<CopyPlan, Refused> {
        args.target.over.check_one_each()?;
        let place = match (args.target.over.plan_of_hosts()?, &args.target.peers, args.target.id) {
            (Some((mut plan, _)), None, None) => {
                plan.partial = true;
                Where::Started(Box::new(plan))
            }
            (None, Some(path), Some(me)) => {
                let peers = read_peers(path).map_err(Refused::File)?;
                let trust = Trust::read(&args.target.trust, me, &peers)?;
                Where::Joined { me, peers, trust }
            }
            _ => return Err("say where to copy with --hosts LIST, or with --peers FILE --id I".into()),
        };
        let tree = match &args.tree {
            CallTreeName::Auto if args.from => CallTree::Auto,
            CallTreeName::Auto => tree_of(place.count()),
            CallTreeName::Named(name) => named(name)?,
        };
        let limit = args.time_limit.map(Duration::from);
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err("--time-limit 0s leaves no time for the copy".into());
        }
        check_names(&args.files)?;
        let job = match args.from {
            true => Job::Collect { paths: args.files.clone(), folder: args.to.clone() },
            false => {
                let sources =
                    args.files.iter().map(|path| Source::open(path)).collect::<Result<Vec<_>, _>>()?;
                let into = sources.len() > 1 || args.to.as_os_str().as_encoded_bytes().ends_with(b"/");
                Job::Send { sources, to: args.to.clone(), into }
            }
        };
        Ok(CopyPlan { place, job, tree, limit })
    }

    /// Number of bytes that are copied, if that is known before.
    fn bytes(&self) -> Option<u64> {
        match &self.job {
            Job::Send { sources, .. } => Some(sources.iter().map(|source| source.total).sum()),
            Job::Collect { .. } => None,
        }
    }

    /// Copies; returns the number of bytes.
    fn copy(&self, hosts: &mut Hosts<'_>, progress: &ProgressBar) -> Result<u64, Failure> {
        match &self.job {
            Job::Send { sources, to, into } => {
                let destination = if *into { Destination::Folder } else { Destination::Path };
                send::send(hosts, sources, (to, destination), &self.tree, progress)?;
                Ok(self.bytes().unwrap_or(0))
            }
            Job::Collect { paths, folder } => {
                Ok(collect::collect(hosts, paths, folder, &self.tree, progress)?.0)
            }
        }
    }

    fn shown(&self, bytes: u64, served: usize, took: Duration) -> String {
        let (files, direction) = match &self.job {
            Job::Send { sources, .. } => (sources.len(), "to"),
            Job::Collect { paths, .. } => (paths.len(), "from"),
        };
        let plural = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let what = match self.place {
            Where::Started(_) => "host",
            Where::Joined { .. } => "id",
        };
        let rate = bytes as f64 / took.as_secs_f64().max(1e-9);
        format!(
            "{} ({}) {direction} {} in {:.2} s, {}/s",
            plural(files, "file"),
            HumanBytes(bytes),
            plural(served, what),
            took.as_secs_f64(),
            HumanBytes(rate as u64)
        )
    }
}

/// Sends programs to the hosts of a job, each under its number; the job has them then. Returns a line for each reason
/// of a failure, with the hosts that have it.
///
/// # Errors
/// If a program cannot be read, a call fails as a whole, or the time is over.
pub(super) fn send_programs(
    mut hosts: Hosts<'_>,
    programs: &[(PathBuf, u64)],
    job: &str,
) -> Result<Vec<String>, Failure> {
    let source = |(path, number): &(PathBuf, u64)| Ok(Source::open(path)?.named(*number));
    let sources = programs.iter().map(source).collect::<Result<Vec<_>, Refused>>()?;
    let (to, tree) = ((Path::new(job), Destination::Job), tree_of(hosts.left().len()));
    let shown = progress(Some(sources.iter().map(|source| source.total).sum()));
    let sent = send::send(&mut hosts, &sources, to, &tree, &shown);
    shown.finish_and_clear();
    sent.map(|_| hosts.failures())
}

/// Shows how much is copied, of so many bytes if that is known before. It draws on standard error, and only if that is
/// a terminal.
fn progress(bytes: Option<u64>) -> ProgressBar {
    let template = match bytes {
        Some(_) => "{wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes}, {bytes_per_sec}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates are well formed");
    ProgressBar::new(bytes.unwrap_or(0)).with_style(style)
}

/// The tree by which files go to a number of hosts. Each host passes the pieces on to one other: a piece that goes to
/// two takes twice the time on each link.
fn tree_of(count: usize) -> CallTree {
    if count <= CHAIN_MAX { Tree::Chain.into() } else { CallTree::Auto }
}

/// Rejects files that would replace each other where they go.
fn check_names(files: &[PathBuf]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for path in files {
        let name = path.file_name().ok_or_else(|| format!("{} names no file", path.display()))?;
        if !seen.insert(name) {
            return Err(format!(
                "two files are named {}: copy them one after the other, to different places",
                name.display()
            ));
        }
    }
    Ok(())
}

fn named(name: &TreeName) -> Result<CallTree, String> {
    let tree = name
        .built_in()
        .ok_or_else(|| format!("--tree {name}: a copy takes a built-in tree, such as chain"))?;
    Ok(tree.into())
}
