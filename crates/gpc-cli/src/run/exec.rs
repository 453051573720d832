//! `gpc exec`: a command on each of many hosts, as processes of one group.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chained_gpc::Shown;
use gpc_bnr::host::HostSettings;
use gpc_bnr::streams::Piece;
use gpc_bnr::{Exit, Fault, StartError, StartFailure};
use gpc_launch::remote::LostProcesses;
use gpc_trees::Id;

use super::exits::Exits;
use super::failures::{FIRST, how};
use super::fold::{Folded, NotRun, UNREACHED};
use super::nodes::Nodes;
use super::output::Sink;
use super::places::Places;
use super::plan::{NodePlacement, RunPlan};
use super::signals::Signals;
use super::{Ended, carry_out, interrupted, status};
use crate::args::exec::ExecArgs;
use crate::refused::Refused;
use crate::{CommandResult, by_host, say, stdout};

/// Number of hosts that are reached at once, unless the user says another one: a command is short, so a level of the
/// tree would cost more than a few dozens of connections.
const FAN_OUT: NonZeroU32 = NonZeroU32::new(64).expect("it is not 0");

/// Time limit for a running node to say that it runs programs.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Runs `gpc exec`.
pub(crate) fn exec(args: &ExecArgs) -> CommandResult {
    let mut plan = plan(args)?;
    // Before anything is started, so that nothing remains after a signal.
    let signals = Signals::listen()?;
    let (nodes, mut settings) = match Nodes::open(&plan, &signals) {
        Ok(opened) => opened,
        Err(error) => return interrupted(&signals, error),
    };
    let mut absent = nodes.unlinked().to_vec();
    absent.extend(without_answer(&plan, &mut settings));
    // The first one is the head, which runs nothing.
    let ids = settings.nodes[1..].to_vec();
    let names: Vec<String> = ids.iter().map(|id| plan.host_of(*id)).collect();
    if names.is_empty() {
        let unreached = unreached(&plan, &nodes.losses(&[]), absent);
        nodes.close();
        signals.end_this_process();
        if args.json {
            stdout::write(|out| Folded::new(Vec::new()).write_json(&unreached, out))?;
        }
        return Ok(ExitCode::from(say_hosts(&plan, &names, &Exits::default(), &unreached)));
    }
    place_one_on_each(&mut plan, &ids);
    let folded = Arc::new(Mutex::new(Folded::new(names.clone())));
    settings.output = Some(match args.fold || args.diff || args.json {
        true => Box::new(adding_to(&folded)),
        false => {
            let mut sink = Sink::of_hosts(names.clone())?;
            Box::new(move |piece| sink.write(piece))
        }
    });
    let ended = carry_out(&plan, &signals, nodes, settings, &Places::default())?;
    let Ended { over, exits, losses, left_out, .. } = ended;
    // What follows only prints, and its reader may never read.
    signals.end_this_process();
    let mut not_run = unreached(&plan, &losses, absent);
    not_run.extend(not_started(&names, &left_out));
    let mut folded = folded.lock().unwrap_or_else(PoisonError::into_inner);
    for (exit, ranks) in exits.of(FIRST) {
        ranks.iter().for_each(|rank| folded.end(*rank as usize, exit));
    }
    stdout::write(|out| match args {
        ExecArgs { json: true, .. } => folded.write_json(&not_run, out),
        ExecArgs { diff: true, .. } => folded.write_diff(out, &mut io::stderr().lock()),
        ExecArgs { fold: true, .. } => folded.write(out, &mut io::stderr().lock()),
        _ => Ok(()),
    })?;
    let greatest = say_hosts(&plan, &names, &exits, &not_run);
    Ok(ExitCode::from(status(over, &plan, (greatest != 0).then_some(greatest))))
}

/// The run that this is: one process on each host, hosts that cannot be reached are left out.
fn plan(args: &ExecArgs) -> Result<RunPlan, Refused> {
    args.target.over.check_one_each()?;
    let run = args.to_run();
    let mut plan = RunPlan::of(std::slice::from_ref(&run.first), &run)?;
    match &mut plan.nodes {
        NodePlacement::OwnNode | NodePlacement::Launched(_) => {
            return Err("say where to execute with --hosts LIST (alloc: the hosts of the job), or with --peers FILE --id I".into());
        }
        NodePlacement::Joined(_) => {}
        NodePlacement::Hosts(hosts) => {
            hosts.plan.partial = true;
            if args.target.over.fan_out.is_none() {
                hosts.plan.fan_out = hosts.plan.fan_out.max(FAN_OUT);
            }
        }
    }
    for spec in &mut plan.specs {
        // The folder of this process need not exist there.
        spec.info.retain(|(key, _)| key != "wdir");
        // A host that cannot start the command is no reason not to run it on the others.
        spec.info.push(("start".into(), b"partial".to_vec()));
    }
    Ok(plan)
}

impl RunPlan {
    /// The name of the host of a node, or of the node if only that is known.
    fn host_of(&self, id: Id) -> String {
        self.listed_host(id).map_or_else(|| format!("node-{id}"), str::to_owned)
    }
}

/// Keeps output until all hosts have ended.
fn adding_to(folded: &Arc<Mutex<Folded>>) -> impl FnMut(&Piece) -> io::Result<()> + Send + use<> {
    let folded = Arc::clone(folded);
    move |piece| {
        let mut folded = folded.lock().unwrap_or_else(PoisonError::into_inner);
        folded.add(piece.member.rank as usize, piece.stream, &piece.bytes)
    }
}

/// Puts rank R on the node at place R of these, so that output and ends have the names of their hosts.
fn place_one_on_each(plan: &mut RunPlan, ids: &[Id]) {
    let places: Vec<String> = ids.iter().map(Id::to_string).collect();
    for spec in &mut plan.specs {
        spec.count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        spec.info.push(("places".into(), places.join(" ").into_bytes()));
    }
}

/// Leaves out the running nodes that do not answer, or run no programs; returns them with the reasons.
fn without_answer(plan: &RunPlan, settings: &mut HostSettings) -> Vec<(Id, String)> {
    let (NodePlacement::Joined(_), Some(serving)) = (&plan.nodes, &settings.serving) else {
        return Vec::new();
    };
    let answers = serving.domains_of(&settings.nodes[1..], ANSWER_LIMIT);
    let absent = |(id, answer): (Id, Result<Vec<String>, Fault>)| Some((id, answer.err()?.to_string()));
    let absent: Vec<(Id, String)> = answers.into_iter().filter_map(absent).collect();
    settings.nodes.retain(|id| absent.iter().all(|(late, _)| late != id));
    absent
}

/// The hosts that are not reached, or not any more, with the reasons.
fn unreached(plan: &RunPlan, losses: &[LostProcesses], absent: Vec<(Id, String)>) -> Vec<NotRun> {
    let ids = |lost: &LostProcesses| lost.first..lost.first + lost.count;
    let lost = losses.iter().flat_map(|lost| ids(lost).map(|id| (id, lost.why.clone())));
    // The first reason counts.
    let mut by_id = BTreeMap::new();
    for (id, why) in lost.chain(absent) {
        by_id.entry(id).or_insert(why);
    }
    let not_run = |(id, why)| NotRun { host: plan.host_of(id), status: UNREACHED, why };
    by_id.into_iter().map(not_run).collect()
}

/// The hosts that could not start the command, with the reasons. Each has the exit status of a shell there.
fn not_started(names: &[String], failures: &[StartFailure]) -> Vec<NotRun> {
    let of_failure = |failure: &StartFailure| {
        let StartFailure { ranks, program, error, .. } = failure;
        let why = format!("cannot start {}: {}", Shown(&String::from_utf8_lossy(program)), Shown(&error.why));
        let status = match error.status {
            StartError::NOT_FOUND => StartError::NOT_FOUND,
            _ => StartError::NOT_EXECUTED,
        };
        let hosts = ranks.iter().filter_map(|rank| names.get(*rank as usize));
        hosts.map(|host| NotRun { host: host.clone(), status, why: why.clone() }).collect::<Vec<_>>()
    };
    failures.iter().flat_map(of_failure).collect()
}

/// Prints how commands have failed, with the hosts, and returns the greatest exit status.
fn say_hosts(plan: &RunPlan, names: &[String], exits: &Exits, not_run: &[NotRun]) -> u8 {
    let name = |rank: u32| names.get(rank as usize).map_or("", String::as_str);
    let mut reasons: Vec<(&str, String)> =
        not_run.iter().map(|NotRun { host, why, .. }| (host.as_str(), why.clone())).collect();
    let said: BTreeSet<&str> = not_run.iter().map(|host| host.host.as_str()).collect();
    let mut greatest = not_run.iter().map(|host| host.status).max().unwrap_or(0);
    for (exit, ranks) in exits.of(FIRST) {
        let status = if matches!(exit, Exit::Node(_)) { UNREACHED } else { exit.status() };
        greatest = greatest.max(status);
        // The reason why a host was lost, or did not start the command, is among those above.
        let may_be_said = matches!(exit, Exit::Node(_) | Exit::Never);
        let unsaid =
            ranks.iter().map(|rank| name(*rank)).filter(|name| !(may_be_said && said.contains(name)));
        reasons.extend(unsaid.filter(|_| status != 0).map(|name| (name, how(exit))));
    }
    let what = if matches!(plan.nodes, NodePlacement::Hosts(_)) { "host" } else { "node" };
    by_host::lines(what, reasons).iter().for_each(|line| say(line));
    greatest
}
