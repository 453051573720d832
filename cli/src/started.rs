//! This process as one of those that a launcher has started, such as `mpiexec -n 8 gpc call facts`, or that meet at a rendezvous or by IMPI: id 0 makes the calls and prints, the others serve until it leaves.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gpc_trees::{Hosts, IdList, Tree, TreeName};

use super::duration::Span;
use super::refused::Refused;
use super::{CommandResult, Failure};
use chained_gpc::bootstrap::{Bootstrap, BootstrapError, Member};
use chained_gpc::launch::NodeSettings;
use chained_gpc::runtime::{Functions, Loss, Peers};

#[cfg(not(feature = "pmix"))]
use chained_gpc::bootstrap::from_env;
#[cfg(feature = "pmix")]
use gpc_pmix::from_env;

/// How long what is under way may take to end where id 0 has left.
const END_LIMIT: Duration = Duration::ZERO;

/// Where a secret is drawn, none is named.
const NO_SECRET_FILE: &str = "--secret-file goes with --peers FILE, or with GPC_IMPI_SERVER in the environment: for processes that are started here, or by a launcher, a secret is drawn";

/// All that a plan needs to know of those that were started together.
#[derive(Clone, Debug)]
pub struct Started {
    /// Where they are.
    pub peers: Peers,
    /// On which hosts.
    pub hosts: Hosts,
    /// Whether they are clusters that have met: what goes between two of them may be dear.
    pub clusters: bool,
}

impl Started {
    fn of(member: &Member, clusters: bool) -> Started {
        Started { peers: member.peers().clone(), hosts: member.hosts().clone(), clusters }
    }

    /// The tree of a call for which none is named: this one, unless there are clusters, each of which a call enters once.
    pub fn tree_of(started: Option<&Started>, tree: TreeName) -> TreeName {
        match started {
            Some(Started { clusters: true, .. }) => TreeName::KnownHosts(Tree::Binomial),
            _ => tree,
        }
    }

    /// All ids, id 0 first.
    pub fn ids(&self) -> IdList {
        IdList::range(0..u32::try_from(self.peers.len()).unwrap_or(u32::MAX))
    }
}

/// What this process is among those that were started together.
pub(super) enum Role {
    /// A launcher has not started it, or it is to start or join others by itself.
    Alone,
    /// Id 0: it makes the calls.
    Root(Box<Member>, Started),
    /// It has served the others, and ends so.
    Served(ExitCode),
}

/// Finds out what this process is. `by_itself`: the arguments say with whom it works. `patience`: how long the others may take.
/// `secret_file`: what is named for processes that are there already, but for running nodes.
///
/// # Errors
/// When a launcher has started this process, or a rendezvous or a server of IMPI is named, and it does not get to know the others; when a secret is named where one is drawn.
pub(super) fn role(
    by_itself: bool,
    functions: &Functions,
    settings: NodeSettings,
    patience: Option<Span>,
    secret_file: Option<&Path>,
) -> Result<Role, Failure> {
    let bootstrap = if by_itself { None } else { impi(secret_file)? };
    let clusters = bootstrap.is_some();
    if !clusters && secret_file.is_some() {
        return Err(Refused::from(NO_SECRET_FILE).into());
    }
    if by_itself {
        return Ok(Role::Alone);
    }
    let Some(bootstrap) = bootstrap.map_or_else(launched, |found| Ok(Some(found)))? else {
        return Ok(Role::Alone);
    };
    let bootstrap = patience.map(Duration::from).into_iter().fold(bootstrap, Bootstrap::limit);
    let member = start(bootstrap, functions, settings)?;
    match member.id() {
        0 => {
            let started = Started::of(&member, clusters);
            Ok(Role::Root(Box::new(member), started))
        }
        _ => Ok(Role::Served(serve(member)?)),
    }
}

/// What the environment says of IMPI. It comes before a launcher, which has started the processes of one cluster.
#[cfg(feature = "impi")]
fn impi(secret_file: Option<&Path>) -> Result<Option<Bootstrap>, Failure> {
    let Some(setup) = gpc_impi::bootstrap::Setup::from_env(secret_file)? else { return Ok(None) };
    // What a server leaves out, and whose secret is another one, is said by warnings.
    super::logs::start_warnings();
    Ok(Some(gpc_impi::bootstrap::with_cluster(setup, from_env()?)))
}

#[cfg(not(feature = "impi"))]
fn impi(_: Option<&Path>) -> Result<Option<Bootstrap>, Failure> {
    Ok(None)
}

/// What the environment says of others. A rendezvous comes before a launcher: the processes of one job, which a launcher has started, are there to meet those of others.
fn launched() -> Result<Option<Bootstrap>, Failure> {
    #[cfg(feature = "rendezvous")]
    if let Some(bootstrap) = gpc_rendezvous::bootstrap::from_env()? {
        return Ok(Some(bootstrap));
    }
    Ok(from_env()?)
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
