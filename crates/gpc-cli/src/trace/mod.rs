//! `gpc trace`: collects the flight recorders of running nodes, and names the ids that calls wait for. `path` and
//! `picture` show the trace of one call, for `gpc call`.

pub(super) mod analysis;
pub(super) mod path;
pub(super) mod picture;
pub(super) mod table;

use std::process::ExitCode;

use chained_gpc::Recording;

use self::analysis::{Analysis, analyse};
use super::args::{TraceArgs, TraceOutput};
use super::asking::Asking;
use super::output::write_json;
use super::{CommandResult, Failure, stdout};

/// Ended calls that each node reports: an answer that is on its way belongs to one of the last.
const ENDED: usize = 256;

/// Runs the sub-command.
pub(super) fn run(args: &TraceArgs) -> CommandResult {
    let analysis = collect(args)?;
    stdout::write(|out| match args.output {
        TraceOutput::Table => table::write(&analysis, out),
        TraceOutput::Json => write_json(&analysis, out),
    })?;
    if analysis.silent.len() < analysis.nodes {
        return Ok(ExitCode::SUCCESS);
    }
    let why = analysis.silent.first().map(|silent| format!(": id {}: {}", silent.id, silent.why));
    Err(format!("no node of {} answers{}", args.peers.display(), why.unwrap_or_default()).into())
}

/// Asks all nodes.
fn collect(args: &TraceArgs) -> Result<Analysis, Failure> {
    let asking = Asking::start(&args.peers, args.id, &args.trust)?;
    let outcome = asking.ask(Recording::call(ENDED), args.time_limit.duration())?.wait()?;
    Ok(analyse(&asking.answers(&outcome, Recording::parse).into_iter().collect()))
}
