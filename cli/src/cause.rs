//! Why a call failed, with what this machine knows beyond the call itself.

use std::time::Duration;

use gpc_trees::Id;

use super::output::FirstCause;
use chained_gpc::launch::Launch;
use chained_gpc::launch::remote::RemoteLaunch;
use chained_gpc::runtime::{CallError, Peers};
use chained_gpc::wire::{Cause, CauseKind, Stage};

/// How long a process that lost a connection has to be seen as ended: it loses them one by one.
const DEATH_PATIENCE: Duration = Duration::from_millis(200);

/// The first cause; of an id that was lost, how its process ended if it was started here, what its host or those on the way to it said if it was started there, or where a running one that was joined was looked for.
pub(super) fn explain(
    first: &Cause,
    launched: Option<&mut Launch>,
    remote: Option<&RemoteLaunch>,
    joined: Option<&Peers>,
) -> FirstCause {
    let mut cause = FirstCause::from(first);
    if first.stage != Stage::Link {
        return cause;
    }
    let id = cause.id;
    let ended = launched.and_then(|launch| launch.exit_of(id, DEATH_PATIENCE));
    let ended = ended.map(|how| format!("its process ended: {how}"));
    if let Some(why) = remote.and_then(|remote| remote.why_lost(id, DEATH_PATIENCE)) {
        // That it has no address is no news then.
        cause.message = match first.kind {
            CauseKind::Unreachable => why,
            _ => format!("{}; {why}", cause.message),
        };
        return cause;
    }
    let address = joined.and_then(|peers| peers.address(id));
    let looked = address.map(|address| {
        format!("the peers file has it at {address}: see that `gpc node --id {id}` runs there")
    });
    cause.message.extend(ended.or(looked).map(|more| format!("; {more}")));
    cause
}

/// A call that was given up because a process ended failed at that process.
pub(super) fn died(error: CallError, dead: Option<Id>) -> CallError {
    match (error, dead) {
        (CallError::Failed(failed), Some(id)) if failed.cause().kind == CauseKind::Cancelled => {
            let cause = Cause::new(id, Stage::Link, CauseKind::LinkLost, "it was lost during the call");
            CallError::Failed(failed.with_cause(cause).into())
        }
        (error, _) => error,
    }
}
