//! Role of a process that a launcher started (`mpiexec -n 8 gpc call facts`), or that meets others at a rendezvous or
//! by IMPI.
//!
//! Id 0 makes the calls and prints; the others serve until it leaves.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpc_trees::{Hosts, IdList, Tree, TreeName};

use super::duration::Span;
use super::refused::Refused;
use super::tree_choice::CallTreeName;
use super::{CommandResult, Failure};
use chained_gpc::bootstrap::{Bootstrap, BootstrapError, LIMIT, Member};
use chained_gpc::runtime::{Functions, Loss, Peers};
use gpc_launch::NodeSettings;

#[cfg(not(feature = "pmix"))]
use chained_gpc::bootstrap::from_env_within;
#[cfg(feature = "pmix")]
use gpc_pmix::from_env_within;

/// Time that calls in flight get after id 0 has left.
const END_LIMIT: Duration = Duration::ZERO;

/// Error for a secret file where a secret is generated.
const NO_SECRET_FILE: &str = "--secret-file goes with --peers FILE, or with GPC_IMPI_SERVER in the environment: for processes that are started here, or by a launcher, a secret is drawn";

/// What a plan needs to know of processes that were started together.
#[derive(Clone, Debug)]
pub struct Started {
    /// Their addresses.
    pub peers: Peers,
    /// Their hosts.
    pub hosts: Hosts,
    /// Whether the processes are clusters that have met: messages between clusters may be expensive.
    pub clusters: bool,
}

impl Started {
    fn of(member: &Member, clusters: bool) -> Started {
        Started { peers: member.peers().clone(), hosts: member.hosts().clone(), clusters }
    }

    /// Returns the tree for a call that names none: `tree`, or with clusters a tree by which a call enters each cluster
    /// once.
    pub fn tree_of(started: Option<&Started>, tree: CallTreeName) -> CallTreeName {
        match started {
            Some(Started { clusters: true, .. }) => CallTreeName::Named(TreeName::KnownHosts(Tree::Binomial)),
            _ => tree,
        }
    }

    /// Returns all ids, id 0 first.
    pub fn ids(&self) -> IdList {
        IdList::range(0..u32::try_from(self.peers.len()).unwrap_or(u32::MAX))
    }
}

/// Role of this process among those that were started together.
pub(super) enum Role {
    /// No launcher started it, or it starts or joins others by itself.
    Alone,
    /// Id 0, which makes the calls.
    Root(Box<Member>, Started),
    /// It has served the others, and ends with this status.
    Served(ExitCode),
}

/// Determines the role of this process. `by_itself`: the arguments select the other processes. `patience`: time limit
/// for the others. `secret_file`: the file of `--secret-file`, if no running nodes are joined.
///
/// # Errors
/// If a launcher started this process, or the environment names a rendezvous or an IMPI server, and it cannot find the
/// others. If a secret file is named where a secret is generated.
pub(super) fn role(
    by_itself: bool,
    functions: &Functions,
    settings: NodeSettings,
    patience: Option<Span>,
    secret_file: Option<&Path>,
) -> Result<Role, Failure> {
    let (begun, limit) = (Instant::now(), patience.map_or(LIMIT, Duration::from));
    let bootstrap = if by_itself { None } else { impi(secret_file, limit)? };
    let clusters = bootstrap.is_some();
    if !clusters && secret_file.is_some() {
        return Err(Refused::from(NO_SECRET_FILE).into());
    }
    if by_itself {
        return Ok(Role::Alone);
    }
    let Some(bootstrap) = bootstrap.map_or_else(|| launched(limit), |found| Ok(Some(found)))? else {
        return Ok(Role::Alone);
    };
    let member = start(bootstrap.limit_since(begun, limit), functions, settings)?;
    match member.id() {
        0 => {
            let started = Started::of(&member, clusters);
            Ok(Role::Root(Box::new(member), started))
        }
        _ => Ok(Role::Served(serve(member)?)),
    }
}

/// Returns the bootstrap by IMPI that the environment selects. It precedes a launcher, which started the processes of
/// one cluster.
#[cfg(feature = "impi")]
fn impi(secret_file: Option<&Path>, limit: Duration) -> Result<Option<Bootstrap>, Failure> {
    let Some(setup) = gpc_impi::bootstrap::Setup::from_env(secret_file)? else { return Ok(None) };
    // Warnings report processes that a server leaves out, and clusters with another secret.
    super::logs::start_warnings();
    Ok(Some(gpc_impi::bootstrap::with_cluster(setup, from_env_within(limit)?)))
}

#[cfg(not(feature = "impi"))]
fn impi(_: Option<&Path>, _: Duration) -> Result<Option<Bootstrap>, Failure> {
    Ok(None)
}

/// Returns the bootstrap that the environment selects. A rendezvous precedes a launcher: the processes of one job,
/// which a launcher started, meet those of other jobs there.
fn launched(limit: Duration) -> Result<Option<Bootstrap>, Failure> {
    #[cfg(feature = "rendezvous")]
    if let Some(bootstrap) = gpc_rendezvous::bootstrap::from_env()? {
        return Ok(Some(bootstrap));
    }
    Ok(from_env_within(limit)?)
}

fn start(
    bootstrap: Bootstrap,
    functions: &Functions,
    settings: NodeSettings,
) -> Result<Member, BootstrapError> {
    bootstrap.link(settings.link).start(functions, |builder| settings.apply(builder))
}

fn serve(mut member: Member) -> CommandResult {
    let id = member.id();
    let loss = member.serve_until_left()?;
    member.finish(END_LIMIT)?;
    match loss {
        Loss::Left => Ok(ExitCode::SUCCESS),
        _ => Err(format!("id {id} ends, since id 0 was lost").into()),
    }
}
