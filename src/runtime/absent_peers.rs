//! The error of a wait for peers, and why their links are not up.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::{Id, IdList, IdsError};

use crate::wire::Shown;

/// Maximum length of a list of ids in an error, characters.
const LISTED_MAX: usize = 200;

/// Why a wait for other nodes has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AbsentPeers {
    /// The time has passed.
    #[error("{} did not come up within {limit:?}; id {}: {}", listed(.ids), .ids.first().unwrap_or_default(), Shown(.why))]
    Late {
        /// The ids that are not up; at least one.
        ids: IdList,
        /// The time limit of the wait.
        limit: Duration,
        /// Why there is no link to the first of them, in words.
        why: String,
    },
    /// These ids have no known address, and have not connected by themselves.
    #[error("no address is known for {}: add it to the peers", listed(.ids))]
    Unknown {
        /// At least one of them.
        ids: IdList,
    },
    /// The list of ids is invalid.
    #[error("the list of ids is refused: {0}")]
    Ids(#[from] IdsError),
    /// The thread that drives the node must not wait: it runs an inline function, a continuation, or a callback of the
    /// end of a call. Nothing was waited for.
    #[error("the thread that drives a node cannot wait for its peers: wait on another thread")]
    Driver,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
}

fn listed(ids: &IdList) -> String {
    let text = ids.to_string();
    let cut = text.char_indices().nth(LISTED_MAX).map_or(text.len(), |(at, _)| at);
    let (few, more) = (&text[..cut], if cut < text.len() { "…" } else { "" });
    format!("{} {few}{more}", if ids.len() == 1 { "id" } else { "ids" })
}

/// The ids that are not up, each with the reason as far as it is known.
pub(super) type Absent = Result<Vec<(Id, String)>, AbsentPeers>;

/// Why links are not up, for the awaited ids.
#[derive(Debug, Default)]
pub(super) struct Reasons(pub(super) BTreeMap<Id, String>);

impl Reasons {
    /// Records the reason for an id that is waited for; it is kept until the id is up.
    pub(super) fn note(&mut self, id: Id, why: &str) {
        if let Some(reason) = self.0.get_mut(&id) {
            why.clone_into(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let even = IdList::from_ids((0..5000).map(|id| 2 * id)).unwrap();
        let error = AbsentPeers::Unknown { ids: even }.to_string();
        assert!(error.starts_with("no address is known for ids 0,2,4,") && error.len() < 300, "{error}");
        let one = AbsentPeers::Unknown { ids: IdList::range(7..8) }.to_string();
        assert_eq!(one, "no address is known for id 7: add it to the peers");
    }
}
