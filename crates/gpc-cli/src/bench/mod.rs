//! `gpc bench`: measures calls over sizes, trees, payloads, calls in flight, links and wait modes.
//!
//! `plan` makes rows of the arguments, `measure` gives each row its turns, `set` has the processes and makes the calls.
//! `statistics` and `histogram` do not know calls. `summary` makes a `report` of the turns, in the form of the files;
//! `earlier` compares two of them. The other modules print. Every call, turn and repetition has a bound, and every
//! process is ended before anything is printed.

mod axes;
mod comparison;
mod csv;
mod earlier;
mod histogram;
mod key;
mod machine;
mod measure;
mod picture;
mod plan;
mod print;
mod report;
#[cfg(test)]
mod sample;
mod set;
mod statistics;
mod summary;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::comparison::Comparison;
use self::machine::{Machine, others_runnable};
use self::measure::measure;
use self::plan::BenchPlan;
use self::report::Report;
use self::summary::Circumstances;
use super::args::{BenchArgs, BenchOutput};
use super::files::write_text;
use super::interrupt::Interrupt;
use super::output::write_json;
use super::started::{Role, role};
use super::{CommandResult, Failure, builtin, chart, say, stdout};
use chained_gpc::runtime::Functions;
use gpc_launch::NodeSettings;

/// Runs the sub-command.
pub(super) fn run(args: &BenchArgs) -> CommandResult {
    let functions = Functions::new();
    builtin::register(&functions)?;
    let by_itself = !args.n.is_empty() || args.peers.is_some() || args.over.is_given();
    // The plan checks the other values of these arguments.
    let (link, wait) = (args.link.first().copied().unwrap_or_default(), args.wait.first().map(|wait| wait.0));
    let settings = NodeSettings::new(None, wait.unwrap_or_default(), link);
    let secret_file = args.trust.secret_file.as_deref().filter(|_| args.peers.is_none());
    let (member, started) = match role(by_itself, &functions, settings, args.wait_for_peers, secret_file)? {
        Role::Served(status) => return Ok(status),
        Role::Alone => (None, None),
        Role::Root(member, started) => (Some(member), Some(started)),
    };
    let plan = BenchPlan::new(args, &functions, started.as_ref())?;
    let interrupt = Interrupt::listen(|| {})?;
    if let Some(others) = others_runnable().filter(|&others| others > 0) {
        let want = if others == 1 {
            "another process wants".into()
        } else {
            format!("{others} other processes want")
        };
        say(&format!("the machine is busy: {want} a core now; times will be longer than they need be"));
    }
    let began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let measured = measure(&plan, &functions, member.as_deref(), &interrupt)?;
    if let Some(member) = member {
        member.finish(Duration::ZERO)?;
    }
    let made = Circumstances {
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        began_unix_s,
        machine: Machine::read(),
        interrupted: interrupt.signal().is_some(),
    };
    let report = Report::new(&plan, &measured, made);
    finish(args, &plan, report)?;
    Ok(interrupt.exit_status().map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Writes the files and prints the results.
fn finish(args: &BenchArgs, plan: &BenchPlan, mut report: Report) -> Result<(), Failure> {
    // A run that was interrupted before its first turn has no results.
    if report.rows.is_empty() {
        return Ok(());
    }
    if let Some(path) = &args.save {
        write_text(path, &format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    }
    if let Some(path) = &args.svg {
        write_text(path, &chart::draw(&picture::picture(&report)))?;
    }
    report.comparison = plan.earlier.as_ref().map(|earlier| earlier.compare(&report));
    stdout::write(|out| match args.output {
        BenchOutput::Table => print::write_table(&report, args.histogram, out),
        BenchOutput::Json => write_json(&report, out),
        BenchOutput::Csv => csv::write_csv(&report, out),
    })?;
    let compared = report.comparison.iter().flat_map(|comparison: &Comparison| &comparison.warnings);
    report.warnings.iter().chain(compared).for_each(|warning| say(&format!("warning: {warning}")));
    Ok(())
}
