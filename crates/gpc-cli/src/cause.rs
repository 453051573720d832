//! Explains why a call failed, with what this machine knows beyond the call itself.

use std::time::Duration;

use gpc_trees::{Group, Id, IdList, Tree};

use super::output::FirstCause;
use super::plan::CallPlan;
use chained_gpc::runtime::{CallError, CallTree, CallbackHandle, Peers};
use chained_gpc::wire::{Cause, CauseKind, Stage};
use gpc_launch::Launch;
use gpc_launch::remote::RemoteLaunch;

/// Time to wait for the end of a process that lost a connection: a dying process loses its connections one by one.
const DEATH_PATIENCE: Duration = Duration::from_millis(200);

/// Ids that are named as waiting for a late one.
const WAITING_MAX: usize = 8;

/// The names of a call, of which the wire has numbers.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub(super) func: &'a str,
    pub(super) callback: Option<&'a str>,
    pub(super) tree: Option<&'a str>,
    /// The ids that wait for the one that failed, its parent first.
    pub(super) waiting: Vec<Id>,
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
    if first.kind == CauseKind::TimeLimit {
        cause.id = first.straggler.as_ref().map_or(first.id, |straggler| straggler.id);
        cause.message = late(first, names);
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

/// Returns the message of a time limit: what the late id does, the ids that wait for it, and the message of the node.
fn late(first: &Cause, names: &Names<'_>) -> String {
    match &first.straggler {
        Some(straggler) => {
            let does = straggler.text(Some(names.func), names.callback);
            format!("{}; {}", with_waiting(does, &names.waiting), first.message)
        }
        None => with_waiting(first.message.clone(), &names.waiting),
    }
}

/// Returns a message about an id with the ids that wait for it.
pub(super) fn with_waiting(message: String, waiting: &[Id]) -> String {
    match waiting {
        [] => message,
        [only] => format!("{message}; id {only} waits for it"),
        [first, rest @ ..] => {
            let (named, more) = rest.split_at(rest.len().min(WAITING_MAX - 1));
            let named: String = named.iter().map(|id| format!(", {id}")).collect();
            let more = if more.is_empty() { "" } else { ", ..." };
            format!("{message}; ids {first}{named}{more} wait for it")
        }
    }
}

/// Returns the ids that wait for an id in the tree of the call. Not of a partial call, whose tree may have changed.
pub(super) fn waiting(plan: &CallPlan, id: Id) -> Vec<Id> {
    let ids = plan.ids.with_first(plan.root);
    match &plan.tree {
        _ if plan.partial => Vec::new(),
        CallTree::Split(tree) => above(tree, &ids, id),
        CallTree::Layout(layout) => above(&layout.tree(), &ids, id),
        _ => Vec::new(),
    }
}

/// Returns the ids between an id and the root of a tree over `ids`, the nearest first.
fn above(tree: &Tree, ids: &IdList, id: Id) -> Vec<Id> {
    let Some(place) = ids.position(id).filter(|place| *place > 0) else { return Vec::new() };
    let (mut tree, mut at, mut len) = (tree.clone(), 0, ids.len());
    let mut above = Vec::new();
    // Ends: each slice is shorter than the one before it.
    while at != place {
        above.extend(ids.id(at));
        let groups = tree.split(len).unwrap_or_default();
        let holds = |group: &&Group| (group.start..group.start + group.len).contains(&(place - at));
        let Some(&group) = groups.iter().find(holds) else { return Vec::new() };
        (tree, at, len) = (tree.subtree(group), at + group.start, group.len);
    }
    above.reverse();
    above
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
    use chained_gpc::{CallState, Straggler};

    use super::*;

    /// A node that had refused the proof was reported as missing: "see that `gpc node --id 1` runs there". The address
    /// was in the line twice.
    #[test]
    fn what_to_do_fits_what_has_happened() {
        let at = "127.0.0.1:7001";
        let refused = format!("cannot connect to {at}: it refused the proof without a reason");
        assert_eq!(advice(1, at, &refused), None);
        // It runs there, and its parent in the tree has not learned its address.
        assert_eq!(advice(1, at, "no address is known for it: add it to the peers"), None);
        let see = "see that `gpc node --id 1` runs there";
        assert_eq!(advice(1, at, &format!("cannot connect to {at}: no")).as_deref(), Some(see));
        let lost = advice(1, at, "its link was lost").unwrap();
        assert_eq!(lost, format!("the peers file has it at {at}: {see}"));
    }

    #[test]
    fn a_time_limit_names_the_function_and_the_ids_that_wait() {
        let said = |waiting: &[Id]| {
            let names = Names { func: "lookup", waiting: waiting.to_vec(), ..Names::default() };
            let message = "the time limit (60s here) passed while func was running";
            let mut first = Cause::new(37, Stage::Func, CauseKind::TimeLimit, message);
            first.straggler = Some(Box::new(Straggler::new(37, CallState::Func, Duration::from_secs(58))));
            explain(&first, &names, None, None, None).message
        };
        let late = "id 37 has been in func `lookup` for 58s";
        let limit = "the time limit (60s here) passed while func was running";
        assert_eq!(said(&[]), format!("{late}; {limit}"));
        assert_eq!(said(&[0]), format!("{late}; id 0 waits for it; {limit}"));
        assert_eq!(said(&[36, 12, 0]), format!("{late}; ids 36, 12, 0 wait for it; {limit}"));
        let many: Vec<Id> = (0..99).collect();
        assert!(said(&many).contains("; ids 0, 1, 2, 3, 4, 5, 6, 7, ... wait for it; "), "{}", said(&many));
    }

    /// A process was stopped three levels below the id that did not reply, and the error began with "id 3 failed".
    #[test]
    fn a_time_limit_blames_the_straggler() {
        let message = "no reply came to id 2 within 60s; it still waits for [3]";
        let mut first = Cause::new(3, Stage::Reply, CauseKind::TimeLimit, message);
        let blamed = |first: &Cause| explain(first, &Names::default(), None, None, None).to_string();
        assert_eq!(blamed(&first), format!("id 3 failed at stage reply (time-limit): {message}"));
        first.straggler = Some(Box::new(Straggler::new(6, CallState::Silent, Duration::from_secs(60))));
        let silent = "id 6 has sent no heartbeat for 60s";
        assert_eq!(blamed(&first), format!("id 6 failed at stage reply (time-limit): {silent}; {message}"));
    }

    #[test]
    fn the_ids_above_an_id_are_those_of_its_tree() {
        let ids: IdList = "10-16".parse().unwrap();
        let above = |tree: Tree, id| above(&tree, &ids, id);
        assert_eq!(above(Tree::Chain, 13), [12, 11, 10]);
        assert_eq!(above(Tree::Binary, 15), [14, 10]);
        assert_eq!(
            (above(Tree::Flat, 16), above(Tree::Flat, 10), above(Tree::Flat, 3)),
            (vec![10], vec![], vec![])
        );
    }

    /// A node of another program was reported to have no function "under the handle 0x5d6f0c5b7a8d1c3e".
    #[test]
    fn a_function_that_is_missing_is_named() {
        let (callback, tree) = (Some("most"), Some("thirds"));
        let names = Names { func: "digest", callback, tree, waiting: Vec::new() };
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
