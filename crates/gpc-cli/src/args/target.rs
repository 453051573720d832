//! Arguments of commands that use other hosts, or running nodes.

use std::path::PathBuf;

use gpc_trees::Id;

use super::over::OVER_HEADING;
use super::trust::TRUST_HEADING;
use super::{OverArgs, TrustArgs};

/// Help of `--hosts`.
const HOSTS: &str = "Hosts, such as a,b[01-64]; --launcher says how they are reached. `alloc` stands for the hosts of the job of Slurm, PBS, LSF or SGE that includes this process";

/// The hosts or nodes of a command that has one process on each.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(mut_arg("hosts", |hosts| hosts.help(HOSTS)), mut_arg("per_host", |slots| slots.hide(true)))]
pub struct TargetArgs {
    /// Use the running nodes of this file (a line `ID ADDRESS` each), which were started by `gpc node --exec-allowed`
    #[arg(long, value_name = "FILE", requires = "id")]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process
    #[arg(long, value_name = "I", requires = "peers")]
    pub id: Option<Id>,

    /// Nodes that this node links with over TCP.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,

    /// Hosts.
    #[command(flatten, next_help_heading = OVER_HEADING)]
    pub over: OverArgs,
}
