//! `gpc call`: starts or joins the nodes, makes the calls, ends the processes that it started, and prints the outcome.

use std::process::ExitCode;
use std::time::Duration;

use super::args::{CallArgs, OutputKind};
use super::interrupt::Interrupt;
use super::output::{Width, write_table};
use super::plan::{CallPlan, settings};
use super::session::{CallReply, Session};
use super::started::{Role, role};
use super::trace::{path, picture};
use super::{CommandResult, builtin, plugins, say, stdout};
use chained_gpc::runtime::Functions;

/// Time that the processes have to end by themselves after the call.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Runs the sub-command.
pub(super) fn run(args: &CallArgs) -> CommandResult {
    let functions = Functions::new();
    builtin::register(&functions)?;
    plugins::load(&args.load, &functions)?;
    args.reduce.map(|reduction| functions.reduction(reduction)).transpose()?;
    let by_itself = args.n.is_some() || args.peers.is_some() || args.over.is_given();
    let secret_file = args.trust.secret_file.as_deref().filter(|_| args.peers.is_none());
    let (member, started) =
        match role(by_itself, &functions, settings(args)?, args.wait_for_peers, secret_file)? {
            Role::Served(status) => return Ok(status),
            Role::Alone => (None, None),
            Role::Root(member, started) => (Some(*member), Some(started)),
        };
    let plan = CallPlan::new(args, &functions, started.as_ref())?;
    let interrupt = Interrupt::listen(|| {})?;
    let session = match member {
        Some(member) => Ok(Session::of_member(member)),
        None => Session::open(&plan, &functions, &interrupt),
    };
    let result = session.and_then(|mut session| {
        let result = session.make_calls(&plan, &interrupt);
        // Before printing, so that nothing runs any more when the output is read.
        session.close(END_LIMIT);
        result
    });
    if let Some(status) = interrupt.exit_status() {
        return Ok(ExitCode::from(status));
    }
    report(&plan, &result?)
}

/// Prints the outcome of the calls.
fn report(plan: &CallPlan, made: &CallReply) -> CommandResult {
    stdout::write(|out| match plan.output {
        OutputKind::Table => {
            write_table(&made.outcome, Width::of_stdout(), out)?;
            made.trace.iter().filter(|_| plan.tracing.print).try_for_each(|trace| path::write(trace, out))
        }
        OutputKind::Json => made.outcome.write_json(out),
        OutputKind::Level => out.write_all(&made.data),
    })?;
    match (&plan.tracing.file, &made.trace) {
        (Some(file), Some(trace)) => picture::save(trace, &made.outcome.func, file)?,
        _ if plan.tracing.is_on() && made.trace.is_none() => {
            say("there is no trace: the call failed, or its reply had no room for one");
        }
        _ => {}
    }
    match &made.outcome.cause {
        None => Ok(ExitCode::SUCCESS),
        Some(_) if plan.output == OutputKind::Table && made.outcome.lists_missing() => {
            let (missing, all) = (made.outcome.missing.len(), plan.ids.len());
            Err(format!("{missing} of {all} ids did not finish: the table says why").into())
        }
        Some(cause) => Err(cause.to_string().into()),
    }
}
