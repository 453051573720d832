//! Arguments of commands that use other hosts, or running nodes.

use std::path::PathBuf;

use gpc_trees::Id;

use super::over::OVER_HEADING;
use super::trust::TRUST_HEADING;
use super::{OverArgs, TrustArgs};

/// The hosts or nodes of a command.
#[derive(Clone, PartialEq, Debug, clap::Args)]
pub struct TargetArgs {
    /// Use the running nodes of this file (a line `ID ADDRESS` each), which were started by `gpc node --runs`
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
