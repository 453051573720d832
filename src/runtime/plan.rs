//! The caller's record of a call in flight, which identifies the parts of its reply.

use std::sync::Arc;

use gpc_trees::{Id, IdList};

use super::trace::Traced;

/// The caller's record of a call.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) root: Id,
    /// The ids that execute, in tree order.
    pub(super) ids: IdList,
    /// The same ids in the caller's order.
    pub(super) asked: IdList,
    /// Whether a callback merges all replies into one.
    pub(super) merged: bool,
    /// The number of the function that it calls.
    pub(super) func: u64,
    /// Whether replies were requested: then the outcome matters, and dropping the handle cancels the call.
    pub(super) replies: bool,
    /// The classes of workers that it needs at its root, one bit for each.
    pub(super) workers: u64,
    /// The shape of a traced call.
    pub(super) traced: Option<Box<Traced>>,
}

impl Plan {
    /// The message that a function waits for this call.
    pub(super) fn awaited_in_words(&self, waits: Option<&str>, name: Option<Arc<str>>) -> Box<str> {
        let Plan { func, .. } = self;
        let waits = waits.map_or("it".into(), |name| format!("`{name}`"));
        match name {
            Some(name) => format!("{waits} waits for a call of `{name}`").into(),
            None => format!("{waits} waits for a call of the function {func:#x}").into(),
        }
    }
}
