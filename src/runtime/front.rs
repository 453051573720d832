//! The part of both kinds of node that applications use.

use std::sync::Arc;

use gpc_trees::Id;

use super::command::Command;
use super::shared_state::SharedState;
use super::{Address, MembershipError, Peer};

/// The part of both kinds of node that applications use.
pub(super) struct Front {
    pub(super) address: Option<Address>,
    pub(super) shared: Arc<SharedState>,
}

impl Front {
    pub(super) fn learns(&self, peer: Peer) -> Result<Command, MembershipError> {
        self.is_other(peer.id).map(|()| Command::Learn(Box::new(peer)))
    }

    pub(super) fn forgets(&self, id: Id) -> Result<Command, MembershipError> {
        self.is_other(id).map(|()| Command::Forget(id))
    }

    pub(super) fn is_other(&self, id: Id) -> Result<(), MembershipError> {
        if id == self.shared.id { Err(MembershipError::Own(id)) } else { Ok(()) }
    }
}
