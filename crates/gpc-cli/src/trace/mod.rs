//! `gpc trace`: collects the flight recorders of running nodes, and names the ids that calls wait for.

mod analysis;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use chained_gpc::runtime::{Functions, Node, Outcome, Peers};
use chained_gpc::{Id, IdList, Recording};

use self::analysis::{Analysis, Answers, analyse};
use super::args::{TraceArgs, TraceOutput};
use super::files::read_peers;
use super::joining::refuse_taken;
use super::limits::cannot_start;
use super::output::write_json;
use super::refused::Refused;
use super::trust::Trust;
use super::{CommandResult, Failure, stdout};

/// Ended calls that each node reports: an answer that is on its way belongs to one of the last.
const ENDED: usize = 256;

/// Ids that processes without a line in the peers file take, from the highest down.
const OWN_IDS: u32 = 1 << 20;

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
    let peers = read_peers(&args.peers).map_err(Refused::File)?;
    let me = args.id.map_or_else(|| free_id(&peers), Ok)?;
    refuse_taken(me, &peers)?;
    let trust = Trust::read(&args.trust, me, &peers)?;
    let ids: Vec<Id> = peers.ids().filter(|id| *id != me).collect();
    let ids = IdList::from_ids(ids)?;
    if ids.is_empty() {
        let text = format!("{} lists no other node", args.peers.display());
        return Err(Refused::from(text).into());
    }
    let builder = Node::builder(me).functions(&Functions::new()).peers(peers);
    let node = trust.apply(builder).start().map_err(cannot_start("this node"))?;
    let call = Recording::call(ENDED).ids(ids.clone()).watch().limit(args.time_limit.duration());
    let outcome = node.call(call)?.wait();
    node.shutdown(Duration::ZERO);
    Ok(analyse(&answers(&ids, &outcome?)))
}

/// An id that the peers file does not list, and that a second command of this machine hardly takes.
fn free_id(peers: &Peers) -> Result<Id, String> {
    let first = Id::MAX - std::process::id() % OWN_IDS;
    let mut free = (0..OWN_IDS).map(|more| first - more).filter(|id| peers.address(*id).is_none());
    free.next().ok_or_else(|| "the peers file lists every id: name one with --id".to_owned())
}

/// What each id has answered.
fn answers(ids: &IdList, outcome: &Outcome) -> Answers {
    let answer = |id| match outcome.reply(id) {
        Some(reply) => Recording::parse(reply.data).map_err(|error| error.to_string()),
        None => Err(outcome
            .cause(id)
            .map_or_else(|| "it did not answer in time".into(), |cause| cause.message.clone())),
    };
    ids.iter().map(|id| (id, answer(id))).collect()
}
