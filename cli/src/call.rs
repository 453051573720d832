//! `gpc call`: starts or joins the nodes, makes the calls, ends what it started, and prints what came of it.

use std::process::ExitCode;
use std::time::Duration;

use super::args::{CallArgs, OutputKind};
use super::interrupt::Interrupt;
use super::output::{Width, write_table};
use super::plan::CallPlan;
use super::session::{Made, Session};
use super::{CommandResult, builtin, stdout};
use chained_gpc::runtime::Functions;

/// How long the processes have to end by themselves when the call is over.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Runs the sub-command.
pub(super) fn run(args: &CallArgs) -> CommandResult {
    let functions = Functions::new();
    builtin::register(&functions)?;
    let plan = CallPlan::new(args, &functions)?;
    let interrupt = Interrupt::listen(|| {})?;
    let result = Session::open(&plan, &functions, &interrupt).and_then(|mut session| {
        let result = session.make_calls(&plan, &interrupt);
        // Before anything is printed: whoever reads the output finds nothing running.
        session.close(END_LIMIT);
        result
    });
    if let Some(status) = interrupt.exit_status() {
        return Ok(ExitCode::from(status));
    }
    report(&plan, &result?)
}

/// Prints what the calls came to.
fn report(plan: &CallPlan, made: &Made) -> CommandResult {
    stdout::write(|out| match plan.output {
        OutputKind::Table => write_table(&made.outcome, Width::of_stdout(), out),
        OutputKind::Json => made.outcome.write_json(out),
        OutputKind::Level => out.write_all(&made.data),
    })?;
    match &made.outcome.cause {
        None => Ok(ExitCode::SUCCESS),
        Some(cause) => Err(cause.to_string().into()),
    }
}
