//! Requests to a service: `create`, `register`, `wait` and `destroy`.

use std::process::ExitCode;

use gpc_rendezvous::client::draw_token;
use gpc_rendezvous::variables::Variables;
use gpc_rendezvous::{Completion, Spec};
use serde::Serialize;

use super::arguments::{above, client, handle};
use crate::args::rendezvous::{CreateArgs, DestroyArgs, RegisterArgs, WaitArgs, WaitOutput};
use crate::files::read_bytes;
use crate::level::json::Leveled;
use crate::output::write_json;
use crate::{CommandResult, say, stdout};

/// `gpc rendezvous create`.
pub(super) fn create(args: &CreateArgs) -> CommandResult {
    let variables = Variables::of_this_process()?;
    let CreateArgs { level, lifetime, joint, job, .. } = *args;
    let lifetime = lifetime.map(|lifetime| lifetime.duration().as_millis() as u64);
    let spec = above(Spec { level, lifetime, joint, job, ..Spec::new(args.capacity) }, &args.above);
    let handle = client(&args.access, &variables)?.create(&args.service, &spec)?;
    stdout::write(|out| writeln!(out, "{handle}"))?;
    Ok(ExitCode::SUCCESS)
}

/// `gpc rendezvous register`.
pub(super) fn register(args: &RegisterArgs) -> CommandResult {
    let variables = Variables::of_this_process()?;
    let handle = handle(&args.at, &variables)?;
    let client = client(&args.access, &variables)?;
    let data = read_bytes(&args.data, "data")?;
    let token = args.token.clone().map_or_else(draw_token, Ok)?;
    let lease = args.lease.map(|lease| lease.duration());
    let registered = client.register(&handle, args.rank.0, &token, data, lease)?;
    stdout::write(|out| writeln!(out, "{}", registered.rank))?;
    Ok(ExitCode::SUCCESS)
}

/// `gpc rendezvous wait`.
pub(super) fn wait(args: &WaitArgs) -> CommandResult {
    let variables = Variables::of_this_process()?;
    let handle = handle(&args.at, &variables)?;
    let client = client(&args.access, &variables)?;
    let limit = args.limit.duration();
    let completion = client.wait(&handle, args.of.into(), args.token.as_ref(), limit)?;
    match args.output {
        WaitOutput::Level => stdout::write(|out| out.write_all(&completion.data))?,
        WaitOutput::Json => {
            let shape = CompletionShape::of(&completion)?;
            stdout::write(|out| write_json(&shape, out))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct CompletionShape<'a> {
    level: u16,
    data: Leveled<'a>,
    joint: Option<JointShape>,
}

#[derive(Serialize)]
struct JointShape {
    job: String,
    secret: String,
}

impl CompletionShape<'_> {
    fn of(completion: &Completion) -> Result<CompletionShape<'_>, String> {
        let Completion { level, data, joint } = completion;
        let shown = Leveled::new(*level, data).map_err(|error| {
            format!("the data cannot be shown as JSON: {error}; --output level gives them as they are")
        })?;
        let joint = joint.as_ref().map(|joint| JointShape {
            job: joint.job.to_string(),
            secret: joint.secret.to_text().to_string(),
        });
        Ok(CompletionShape { level: *level, data: shown, joint })
    }
}

/// `gpc rendezvous destroy`.
pub(super) fn destroy(args: &DestroyArgs) -> CommandResult {
    let variables = Variables::of_this_process()?;
    let client = client(&args.access, &variables)?;
    match (&args.service, args.job) {
        (Some(service), Some(job)) => {
            let ended = client.end_job(service, job)?;
            let s = if ended == 1 { "" } else { "s" };
            say(&format!("{ended} resource{s} of the job destroyed"));
        }
        _ => client.destroy(&handle(&args.at, &variables)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
