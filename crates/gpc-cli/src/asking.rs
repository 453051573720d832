//! A node of this process that asks running nodes, by calls that go on without those that do not answer.

use std::path::Path;
use std::time::Duration;

use chained_gpc::runtime::{Call, CallHandle, Functions, Node, Outcome, Peers};
use chained_gpc::wire::CauseKind;
use chained_gpc::{Id, IdList};

use super::Failure;
use super::args::TrustArgs;
use super::files::read_peers;
use super::joining::refuse_taken;
use super::limits::cannot_start;
use super::refused::Refused;
use super::trust::Trust;

/// Ids that processes without a line in the peers file take, from the highest down.
const OWN_IDS: u32 = 1 << 20;

/// Why a node has not answered within the time limit.
const LATE: &str = "its process is stopped, its node is busy, or its link is slow";

/// A node that asks the nodes of a peers file.
pub(super) struct Asking {
    node: Node,
    ids: IdList,
}

impl Asking {
    /// Starts the node, under this id or one that the peers file does not list.
    ///
    /// # Errors
    /// If the arguments do not fit, or the node cannot start.
    pub(super) fn start(path: &Path, id: Option<Id>, trust: &TrustArgs) -> Result<Asking, Failure> {
        let peers = read_peers(path).map_err(Refused::File)?;
        let me = id.map_or_else(|| free_id(&peers), Ok)?;
        refuse_taken(me, &peers)?;
        let trust = Trust::read(trust, me, &peers)?;
        let ids = IdList::from_ids(peers.ids().filter(|id| *id != me))?;
        if ids.is_empty() {
            return Err(Refused::from(format!("{} lists no other node", path.display())).into());
        }
        let builder = Node::builder(me).functions(&Functions::new()).peers(peers);
        let node = trust.apply(builder).start().map_err(cannot_start("this node"))?;
        Ok(Asking { node, ids })
    }

    /// Makes this call over all nodes.
    ///
    /// # Errors
    /// If this node fails; not if others do.
    pub(super) fn ask(&self, call: Call, limit: Duration) -> Result<CallHandle, Failure> {
        Ok(self.node.call(call.ids(self.ids.clone()).watch().limit(limit))?)
    }

    /// What each node has answered, or why it has not.
    pub(super) fn answers<T, E: ToString>(
        &self,
        outcome: &Outcome,
        read: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Vec<(Id, Result<T, String>)> {
        let answer = |id| match outcome.reply(id) {
            Some(reply) => read(reply.data).map_err(|error| error.to_string()),
            None => Err(outcome
                .cause(id)
                .filter(|cause| cause.kind != CauseKind::TimeLimit)
                .map_or_else(|| LATE.into(), |cause| cause.message.clone())),
        };
        self.ids.iter().map(|id| (id, answer(id))).collect()
    }
}

/// An id that the peers file does not list, and that a second command of this machine hardly takes.
fn free_id(peers: &Peers) -> Result<Id, String> {
    let first = Id::MAX - std::process::id() % OWN_IDS;
    let mut free = (0..OWN_IDS).map(|more| first - more).filter(|id| peers.address(*id).is_none());
    free.next().ok_or_else(|| "the peers file lists every id: name one with --id".to_owned())
}
