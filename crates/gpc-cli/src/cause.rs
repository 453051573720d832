//! Explains why a call failed, with what this machine knows beyond the call itself.

use std::time::Duration;

use gpc_trees::Id;

use super::output::FirstCause;
use chained_gpc::runtime::{CallError, CallbackHandle, Peers};
use chained_gpc::wire::{Cause, CauseKind, Stage};
use gpc_launch::Launch;
use gpc_launch::remote::RemoteLaunch;

/// Time to wait for the end of a process that lost a connection: a dying process loses its connections one by one.
const DEATH_PATIENCE: Duration = Duration::from_millis(200);

/// The names of a call, of which the wire has numbers.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub(super) func: &'a str,
    pub(super) callback: Option<&'a str>,
    pub(super) tree: Option<&'a str>,
}

/// Returns the first cause. If an id was lost, the message also says how its process ended (started here), what its
/// host or the path to it reported (started there), or which address the peers file has for it (joined).
pub(super) fn explain(
    first: &Cause,
    names: &Names<'_>,
    launched: Option<&mut Launch>,
    remote: Option<&RemoteLaunch>,
    joined: Option<&Peers>,
) -> FirstCause {
    let mut cause = FirstCause::from(first);
    if let Some(missing) = missing(first, names) {
        cause.message = format!(
            "its process has no {missing}: load the library that registers it there, with --load, or run the same version of gpc everywhere"
        );
    }
    if first.stage != Stage::Link {
        return cause;
    }
    let id = cause.id;
    let ended = launched.and_then(|launch| launch.exit_of(id, DEATH_PATIENCE));
    let ended = ended.map(|how| format!("its process ended: {how}"));
    if let Some(why) = remote.and_then(|remote| remote.why_lost(id, DEATH_PATIENCE)) {
        // The process never started, so its missing address adds nothing.
        cause.message = match first.kind {
            CauseKind::Unreachable => why,
            _ => format!("{}; {why}", cause.message),
        };
        return cause;
    }
    let address = joined.and_then(|peers| peers.address(id)).map(|address| address.to_string());
    let looked = address.and_then(|address| advice(id, &address, &cause.message));
    cause.message.extend(ended.or(looked).map(|more| format!("; {more}")));
    cause
}

/// Returns what an id does not know by its number: a function or a tree.
fn missing(first: &Cause, names: &Names<'_>) -> Option<String> {
    let is =
        |callback: &&str| first.message.contains(&format!("{:#x}", CallbackHandle::named(callback).number()));
    match first.kind {
        CauseKind::UnknownFunction => {
            Some(format!("function `{}`", names.callback.filter(is).unwrap_or(names.func)))
        }
        CauseKind::UnknownTree => names.tree.map(|tree| format!("tree `{tree}`")),
        _ => None,
    }
}

/// Returns what to do about a node that does not answer at its address in the peers file. There is no advice if a node
/// runs there and has refused, or if its parent does not know the address.
fn advice(id: Id, address: &str, message: &str) -> Option<String> {
    let see = format!("see that `gpc node --id {id}` runs there");
    let known = message.contains(": it refused ") || message.contains("no address is known");
    match (known, message.contains(address)) {
        (true, _) => None,
        (false, true) => Some(see),
        (false, false) => Some(format!("the peers file has it at {address}: {see}")),
    }
}

/// Attributes a call that was given up because a process ended to that process.
pub(super) fn died(error: CallError, dead: Option<Id>) -> CallError {
    match (error, dead) {
        (CallError::Failed(failed), Some(id)) if failed.cause().kind == CauseKind::Cancelled => {
            let cause = Cause::new(id, Stage::Link, CauseKind::LinkLost, "it was lost during the call");
            CallError::Failed(failed.with_cause(cause).into())
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that had refused the proof was reported as missing: "see that `gpc node --id 1` runs there". The address
    /// was in the line twice.
    #[test]
    fn what_to_do_fits_what_has_happened() {
        let at = "127.0.0.1:7001";
        let refused = format!("cannot connect to {at}: it refused the proof, and does not say why");
        assert_eq!(advice(1, at, &refused), None);
        // It runs there, and its parent in the tree has not learned its address.
        assert_eq!(advice(1, at, "no address is known for it: add it to the peers"), None);
        let see = "see that `gpc node --id 1` runs there";
        assert_eq!(advice(1, at, &format!("cannot connect to {at}: no")).as_deref(), Some(see));
        let lost = advice(1, at, "its link was lost").unwrap();
        assert_eq!(lost, format!("the peers file has it at {at}: {see}"));
    }

    /// A node of another program was reported to have no function "under the handle 0x5d6f0c5b7a8d1c3e".
    #[test]
    fn a_function_that_is_missing_is_named() {
        let names = Names { func: "digest", callback: Some("most"), tree: Some("thirds") };
        let said = |stage, kind, number: u64| {
            let first = Cause::new(3, stage, kind, format!("the handle {number:#x}"));
            explain(&first, &names, None, None, None).message
        };
        let (func, callback) = (0x5d6f, CallbackHandle::named("most").number());
        for (stage, kind, number, name) in [
            (Stage::Func, CauseKind::UnknownFunction, func, "function `digest`"),
            (Stage::Callback, CauseKind::UnknownFunction, callback, "function `most`"),
            (Stage::Setup, CauseKind::UnknownTree, func, "tree `thirds`"),
        ] {
            let said = said(stage, kind, number);
            assert!(said.contains(name) && said.contains("--load") && !said.contains("0x"), "{said}");
        }
    }
}
