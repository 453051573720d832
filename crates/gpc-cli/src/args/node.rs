//! Arguments of `gpc node`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use gpc_trees::Id;

use super::TrustArgs;
use super::link::link_parser;
use crate::duration::Span;
use crate::wait::WaitName;
use chained_gpc::runtime::{Address, LinkKind};

/// Arguments of `gpc node`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = NODE_EXAMPLES, override_usage = "gpc node --id <I> --peers <FILE> [OPTIONS]")]
pub struct NodeArgs {
    /// Required: id of this node
    #[arg(long, value_name = "I")]
    pub id: Id,

    /// Address to listen at: HOST-IP:PORT, unix:PATH or unix:@NAME; by default that of this id in the peers file
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<Address>,

    /// Required: peers file, a line `ID ADDRESS` for each node
    #[arg(long, value_name = "FILE", required_unless_present = "launched")]
    pub peers: Option<PathBuf>,

    /// Give up a node that sends no heartbeat for this time; 10s by default
    #[arg(long, value_name = "TIME")]
    pub dead_after: Option<Span>,

    /// How the node waits: block sleeps at once, spin:TIME polls first, adaptive polls while that was lately faster
    #[arg(long, value_name = "HOW", default_value = "adaptive")]
    pub wait: WaitName,

    /// Links with nodes of this host: shm and unix replace TCP addresses, tcp replaces no address
    #[arg(long, value_parser = link_parser(), default_value_t = LinkKind::DEFAULT)]
    pub link: LinkKind,

    /// Serve metrics for Prometheus at http://ADDR/metrics: PORT of this machine alone, or HOST-IP:PORT; 0 is a free
    /// port. Whoever reaches it can read them
    #[arg(long, value_name = "ADDR", value_parser = metrics_address)]
    pub metrics: Option<SocketAddr>,

    /// Path of a plug-in: a library of functions, callbacks and trees (see chained_gpc_plugin.h) that calls may name.
    /// May be repeated
    #[arg(long, value_name = "LIB")]
    pub load: Vec<PathBuf>,

    /// Started by `gpc call`: the listening socket is standard input, the control link standard output
    #[arg(long, hide = true, conflicts_with_all = ["listen", "peers", "secret_file", "key_file", "no_encrypt", "insecure"])]
    pub launched: bool,

    /// Start programs for `gpc run`, `exec` and `copy` with --peers, of nodes that prove the same secret or are of this
    /// user on this machine
    #[cfg(feature = "bnr")]
    #[arg(long, visible_alias = "runs")]
    pub exec_allowed: bool,

    /// Nodes that this node links with.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Reads `PORT` as a port of this machine alone.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let bad = || format!("`{text}` is no PORT and no HOST-IP:PORT, such as 9100 or 10.0.0.7:9100");
    port.or_else(|_| text.parse()).map_err(|_| bad())
}

pub(super) const NODE_EXAMPLES: &str = "\
A peers file has a line `ID ADDRESS` for each node, or `ID ADDRESS KEY` with its public key, and may
name their job: nodes of another job, or of none, are refused. # begins a comment:
  job 5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60
  0 127.0.0.1:7000
  1 127.0.0.1:7001
  2 unix:/tmp/gpc-2.sock

Over TCP whoever connects can call functions of a node that has no secret. One that listens beyond
this machine needs one, the same as all others, unless that is accepted with --insecure:
  gpc secret job.secret
  gpc node --id 1 --peers peers.txt --secret-file job.secret

Example, each in a terminal of its own:
  gpc node --id 1 --peers peers.txt
  gpc node --id 2 --peers peers.txt
  gpc call facts --peers peers.txt --id 0";
