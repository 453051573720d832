//! `gpc node`: one node, started by hand or by `gpc call`.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use gpc_trees::Id;

use super::args::NodeArgs;
use super::files::read_peers;
use super::interrupt::Interrupt;
use super::launching::BY_HAND;
use super::limits::cannot_start;
use super::logs::start_warnings;
use super::plan::check_dead_after;
use super::refused::Refused;
use super::trust::Trust;
use super::{CommandResult, builtin, copy, metrics, plugins};
use chained_gpc::runtime::{Address, Functions, Listener, Node, Peers};
use gpc_launch::remote::{AgentError, run_agent};
use gpc_launch::{Launched, LaunchedError, NodeSettings};

/// Time that calls in flight get when a node is stopped.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Runs the sub-command.
pub(super) fn run(args: &NodeArgs) -> CommandResult {
    match args.launched {
        true => run_launched(args.id, &args.load),
        false => serve(NodePlan::new(args)?, &args.load),
    }
}

/// Runs a node that `gpc call` started with these libraries, until its parent ends it or dies.
pub(super) fn run_launched(id: Id, loads: &[PathBuf]) -> CommandResult {
    let launched = match Launched::take(id) {
        // The parent is gone, and hundreds of nodes would print the same to their common terminal.
        Err(LaunchedError::ParentGone) => return Ok(ExitCode::FAILURE),
        Err(LaunchedError::ByHand) => return Err(BY_HAND.into()),
        launched => launched?,
    };
    let functions = Functions::new();
    builtin::register(&functions)?;
    plugins::load(loads, &functions)?;
    launched.serve(&functions).map_err(cannot_start("this node"))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a process that a command with `--hosts` started on a host, until it is ended.
pub(super) fn run_as_agent(loads: &[PathBuf]) -> CommandResult {
    let functions = Functions::new();
    builtin::register(&functions)?;
    // An agent serves every command: whether it runs programs is for the head to say, whose links prove the secret of
    // the launch.
    #[cfg(feature = "bnr")]
    let give = super::run::giving(super::run::serving(&functions)?);
    #[cfg(not(feature = "bnr"))]
    let give: copy::GiveProgram = std::sync::Arc::new(|_, _, _| Err("this `gpc` runs no jobs"));
    copy::register(&functions, give)?;
    plugins::load(loads, &functions)?;
    match run_agent(&functions) {
        // The parent is gone, so nothing is reported.
        Err(AgentError::ParentGone) => Ok(ExitCode::FAILURE),
        ended => Ok(ended.map(|()| ExitCode::SUCCESS)?),
    }
}

/// Runs a node with these libraries until a signal stops it.
fn serve(plan: NodePlan, loads: &[PathBuf]) -> CommandResult {
    let functions = Functions::new();
    builtin::register(&functions)?;
    plugins::load(loads, &functions)?;
    let (wake, woken) = mpsc::channel::<()>();
    let _interrupt = Interrupt::listen(move || drop(wake))?;
    start_warnings();
    let listener = Listener::bind(&plan.listen)?;
    let address = listener.address()?;
    builtin::set_secret_mark(plan.trust.secret());
    #[cfg(feature = "bnr")]
    let serving = plan.exec_allowed.then(|| super::run::serving(&functions)).transpose()?;
    #[cfg(feature = "bnr")]
    if let Some(serving) = &serving {
        copy::register(&functions, super::run::giving(serving.clone()))?;
    }
    let builder = Node::builder(plan.id).functions(&functions).peers(plan.peers).listener(listener);
    let builder = plan.trust.apply(plan.watching.apply(builder));
    let node = builder.start().map_err(cannot_start("this node"))?;
    #[cfg(feature = "bnr")]
    if let Some(serving) = serving {
        serving.attach(node.caller());
        plan.watching.dead_after.into_iter().for_each(|silence| serving.dead_after(silence));
    }
    if let Some(listen) = plan.metrics {
        let caller = node.caller();
        let text = move || caller.metrics().map_or_else(String::new, |metrics| metrics.prometheus());
        let at = metrics::serve(listen, text)?;
        writeln!(io::stderr().lock(), "gpc: the metrics of id {} are at http://{at}/metrics", plan.id)?;
    }
    writeln!(io::stderr().lock(), "gpc: id {} listens at {address}; Ctrl-C ends it", plan.id)?;
    // Nothing is ever sent: a signal drops the other end.
    let _ = woken.recv();
    node.shutdown(END_LIMIT);
    match &address {
        Address::Unix(path) => remove(path),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Removes the socket file of the node, if it still exists.
fn remove(path: &Path) -> CommandResult {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()).into())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the settings by which a node watches its peers.
fn watching(args: &NodeArgs) -> NodeSettings {
    NodeSettings::new(args.dead_after.map(Duration::from), args.wait.0, args.link)
}

/// A node to run, with checked arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NodePlan {
    id: Id,
    listen: Address,
    peers: Peers,
    watching: NodeSettings,
    trust: Trust,
    /// Where metrics are served.
    metrics: Option<SocketAddr>,
    /// Whether the node starts programs for others.
    #[cfg(feature = "bnr")]
    exec_allowed: bool,
}

impl NodePlan {
    /// Checks the arguments together, and reads the peers file.
    fn new(args: &NodeArgs) -> Result<NodePlan, Refused> {
        check_dead_after(args.dead_after)?;
        let id = args.id;
        let path = args.peers.as_ref().ok_or("a node needs the others' addresses: add --peers FILE")?;
        let peers = read_peers(path).map_err(Refused::File)?;
        let (listed, shown) = (peers.address(id), path.display());
        let listen = match (&args.listen, &listed) {
            (Some(listen), Some(other)) if listen != other && !is_wildcard(listen) => {
                let text = format!(
                    "{shown} says that id {id} listens at {other}, but --listen says {listen}: correct one of them"
                );
                return Err(text.into());
            }
            (Some(listen), _) => listen,
            (None, Some(listed)) => listed,
            (None, None) => {
                let text = format!(
                    "{shown} does not say where id {id} listens: add a line `{id} ADDRESS`, or say it with --listen"
                );
                return Err(text.into());
            }
        };
        let trust = Trust::read(&args.trust, id, &peers)?;
        trust.check_listen(listen)?;
        refuse_file(listen).map_err(Refused::File)?;
        Ok(NodePlan {
            id,
            listen: listen.clone(),
            peers,
            watching: watching(args),
            trust,
            metrics: args.metrics,
            #[cfg(feature = "bnr")]
            exec_allowed: args.exec_allowed,
        })
    }
}

/// Rejects a path with a file that is not a socket. A socket file that a node left behind is replaced, but a typing
/// error must not destroy any other file.
fn refuse_file(listen: &Address) -> Result<(), String> {
    let Address::Unix(path) = listen else { return Ok(()) };
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            Err(format!("cannot listen at {listen}: there is a file that is no socket: choose another path"))
        }
        _ => Ok(()),
    }
}

/// Whether the address stands for all addresses of the machine; the peers file then names one of them.
fn is_wildcard(address: &Address) -> bool {
    matches!(address, Address::Tcp(address) if address.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::TrustArgs;
    use crate::wait::WaitName;
    use chained_gpc::runtime::Wait;

    fn plan(listen: &str, insecure: bool, peers: &str) -> Result<NodePlan, String> {
        plan_of(Some(listen), insecure, peers).map_err(|refused| refused.to_string())
    }

    fn plan_of(listen: Option<&str>, insecure: bool, peers: &str) -> Result<NodePlan, Refused> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers");
        std::fs::write(&path, peers).unwrap();
        let listen = listen.map(|listen| listen.parse().unwrap());
        NodePlan::new(&NodeArgs {
            id: 1,
            listen,
            peers: Some(path),
            trust: TrustArgs { insecure, ..TrustArgs::default() },
            dead_after: None,
            wait: WaitName(Wait::Block),
            link: chained_gpc::runtime::LinkKind::DEFAULT,
            metrics: None,
            load: vec![],
            launched: false,
            #[cfg(feature = "bnr")]
            exec_allowed: false,
        })
    }

    #[test]
    fn a_node_listens_for_this_machine_unless_told_otherwise() {
        let peers = "0 127.0.0.1:7000\n1 127.0.0.1:7001\n";
        assert_eq!(plan("127.0.0.1:7001", false, peers).unwrap().peers.len(), 2);
        assert!(plan("unix:@one", false, "0 127.0.0.1:7000\n").is_ok());
        let error = plan("0.0.0.0:7001", false, peers).unwrap_err();
        assert!(
            error.contains("without a secret whoever connects") && error.contains("--insecure"),
            "{error}"
        );
        assert!(plan("0.0.0.0:7001", true, peers).is_ok());
    }

    #[test]
    fn a_node_listens_where_the_others_look_for_it() {
        let error = plan("127.0.0.1:7002", false, "1 127.0.0.1:7001\n").unwrap_err();
        assert!(
            error.contains("says that id 1 listens at 127.0.0.1:7001, but --listen says 127.0.0.1:7002"),
            "{error}"
        );
        assert!(plan("127.0.0.1:7001", false, "1 here\n").unwrap_err().contains("line 1"));
    }

    /// The address was in the peers file, and had to be repeated after `--listen`.
    #[test]
    fn a_node_listens_where_the_peers_file_has_it() {
        let listens = |peers: &str| plan_of(None, false, peers).map(|plan| plan.listen.to_string());
        assert_eq!(listens("0 127.0.0.1:7000\n1 unix:@one\n"), Ok("unix:@one".into()));
        let refused = listens("0 127.0.0.1:7000\n").unwrap_err();
        assert!(
            matches!(&refused, Refused::Usage(text) if text.contains("add a line `1 ADDRESS`")),
            "{refused}"
        );
        assert!(listens("1 10.1.2.3:7001\n").unwrap_err().to_string().contains("--insecure"));
    }
}
