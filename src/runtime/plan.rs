//! What the caller's side keeps of a call while it is under way: enough to tell whose parts come back.

use std::sync::Arc;

use gpc_trees::{Id, IdList};

/// What the caller's side remembers of a call.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) root: Id,
    /// The ids that execute, in tree order.
    pub(super) ids: IdList,
    /// The same in the caller's order.
    pub(super) asked: IdList,
    /// Whether a callback makes one reply of all.
    pub(super) merged: bool,
    /// What it calls.
    pub(super) func: u64,
    /// Whether it has an outcome that somebody may want.
    pub(super) replies: bool,
    /// The classes of workers that it needs at its root, a bit for each.
    pub(super) workers: u64,
}

impl Plan {
    /// A function waits for this call, in words.
    pub(super) fn awaited_in_words(&self, waits: Option<&str>, name: Option<Arc<str>>) -> Box<str> {
        let Plan { func, .. } = self;
        let waits = waits.map_or("it".into(), |name| format!("`{name}`"));
        match name {
            Some(name) => format!("{waits} waits for a call of `{name}`").into(),
            None => format!("{waits} waits for a call of the function {func:#x}").into(),
        }
    }
}
