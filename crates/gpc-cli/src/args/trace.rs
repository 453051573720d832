//! Arguments of `gpc trace`.

use std::path::PathBuf;

use clap::ValueEnum;
use gpc_trees::Id;

use super::TrustArgs;
use super::trust::TRUST_HEADING;
use crate::duration::Span;

/// Arguments of `gpc trace`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = TRACE_EXAMPLES, override_usage = "gpc trace --peers <FILE> [OPTIONS]")]
pub struct TraceArgs {
    /// Required: peers file of the running nodes, a line `ID ADDRESS` for each
    #[arg(long, value_name = "FILE")]
    pub peers: PathBuf,

    /// Id of this process, which no node may have; by default one that the peers file does not list
    #[arg(long, value_name = "I")]
    pub id: Option<Id>,

    /// How long to wait for the answers of the nodes
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub time_limit: Span,

    /// Output: a table, or one JSON object
    #[arg(long, value_enum, default_value_t = TraceOutput::Table)]
    pub output: TraceOutput,

    /// Nodes that this node links with.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,
}

/// Output of `gpc trace`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TraceOutput {
    /// A table and a summary, for people
    Table,
    /// One JSON object, for programs
    Json,
}

pub(super) const TRACE_EXAMPLES: &str = "\
Each running node is asked for its calls in flight. A line of the table names an id that a call
waits for, what the id does, and the ids that wait for it, the nearest first. A node that does not
answer is named, too.

Examples:
  gpc trace --peers peers.txt
  gpc trace --peers peers.txt --secret-file job.secret --output json";
