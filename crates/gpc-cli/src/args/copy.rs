//! Arguments of `gpc copy`.

use std::path::PathBuf;

use gpc_trees::Id;

use super::over::OVER_HEADING;
use super::trust::TRUST_HEADING;
use super::{OverArgs, TrustArgs};
use crate::duration::Span;
use crate::tree_choice::CallTreeName;

/// Arguments of `gpc copy`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = COPY_EXAMPLES)]
pub struct CopyArgs {
    /// Files to copy; with --from, files of the hosts
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,

    /// Where they go on the hosts: a folder that exists there, or the new file. A relative path starts where the remote
    /// shell starts. With --from, a folder here, in which each host gets a folder
    #[arg(long, value_name = "PATH")]
    pub to: PathBuf,

    /// Collect the files from the hosts, into a folder for each host
    #[arg(long)]
    pub from: bool,

    /// Tree through which the files go; auto is a chain for up to a few dozens of hosts
    #[arg(long, value_name = "TREE", default_value = "auto")]
    pub tree: CallTreeName,

    /// Give up after this time
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Copy to the running nodes of this file (a line `ID ADDRESS` each), which were started by `gpc node --runs`
    #[arg(long, value_name = "FILE", requires = "id")]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process
    #[arg(long, value_name = "I", requires = "peers")]
    pub id: Option<Id>,

    /// Nodes that this node links with over TCP.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,

    /// Processes on other hosts.
    #[command(flatten, next_help_heading = OVER_HEADING)]
    pub over: OverArgs,
}

const COPY_EXAMPLES: &str = "\
The files go through a tree of hosts: each host passes on what it receives while it writes it. Each
piece is compared by its SHA-256, and a file replaces the old one only when it is complete. A host
that fails is named, and the others go on; the exit status is then 1.

Examples:
  gpc copy model.bin --hosts b[1-64] --to /tmp
  gpc copy a.conf b.conf --hosts b[1-64] --to /etc/app/
  gpc copy --from /var/log/app.log --hosts b[1-64] --to logs     logs/b1/app.log, ...";
