//! The connections that wait for the link of another run of their id.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::peer::LinkKey;

/// The waiting connections, by the id that they claim; the link of each of these ids is up.
#[derive(Debug, Default)]
pub(super) struct WaitingRuns(pub(super) BTreeMap<Id, LinkKey>);

impl WaitingRuns {
    pub(super) fn remove(&mut self, id: Id, key: LinkKey) {
        if self.0.get(&id) == Some(&key) {
            self.0.remove(&id);
        }
    }
}
