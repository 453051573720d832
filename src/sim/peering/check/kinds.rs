//! What kind of loss it is when a link is closed for another one: where another run of the peer takes its place, the incarnation is lost and not a link alone.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::{Process, Seen};
use crate::wire::CauseKind;

/// The runs that links are with.
#[derive(Default, Debug)]
pub(super) struct Kinds {
    runs: BTreeMap<(Process, Id), u64>,
    /// Links that are closed for others in this step: of which run, and as what the loss is told.
    replaced: BTreeMap<(Process, Id), (u64, Option<CauseKind>)>,
}

impl Kinds {
    /// Looks at something; what is wrong with it.
    pub(super) fn observe(&mut self, seen: &Seen) -> Option<String> {
        match *seen {
            Seen::Replaced { end, peer, .. } => {
                let run = *self.runs.get(&(end.process, peer))?;
                self.replaced.insert((end.process, peer), (run, None));
            }
            Seen::LostBy(process, peer, kind) => {
                self.replaced.get_mut(&(process, peer))?.1 = Some(kind);
            }
            Seen::Up { end, peer, incarnation, .. } => {
                self.runs.insert((end.process, peer), incarnation);
                let (before, kind) = self.replaced.remove(&(end.process, peer))?;
                // A link without a key is asked, too, before one with a key takes its place.
                let wrong = before != incarnation && kind == Some(CauseKind::LinkLost);
                return wrong.then(|| {
                    format!("the link of run {before} of id {peer} is lost as a link alone, and run {incarnation} takes its place at {end:?}")
                });
            }
            // Who was to take its place may have been refused.
            Seen::Settled(process, _) => self.replaced.retain(|(of, _), _| *of != process),
            _ => {}
        }
        None
    }
}
