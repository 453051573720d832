//! Arguments of `gpc top`.

use std::path::PathBuf;

use gpc_trees::Id;

use super::TrustArgs;
use super::trust::TRUST_HEADING;
use crate::duration::Span;

/// Arguments of `gpc top`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = TOP_EXAMPLES, override_usage = "gpc top --peers <FILE> [OPTIONS]")]
pub struct TopArgs {
    /// Required: peers file of the running nodes, a line `ID ADDRESS` for each
    #[arg(long, value_name = "FILE")]
    pub peers: PathBuf,

    /// Id of this process, which no node may have; by default one that the peers file does not list
    #[arg(long, value_name = "I")]
    pub id: Option<Id>,

    /// Time between two views, and the time for the answers of the nodes
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Span,

    /// Number of views, then the command ends; without it, Ctrl-C ends it
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,

    /// Nodes that this node links with.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,
}

pub(super) const TOP_EXAMPLES: &str = "\
Each running node is asked for its counters. Rates are of the last interval, and durations of calls
are of the time since the node's start. First are the nodes that do not answer, and the ids that
calls have waited for over a second. The columns read and sent are in MB/s.

Examples:
  gpc top --peers peers.txt
  gpc top --peers peers.txt --count 2 > now.txt";
