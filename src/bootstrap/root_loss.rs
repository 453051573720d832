//! Tells the ids below that id 0 was lost.
//!
//! A process that ends because id 0 was lost leaves in order. Its children in the tree watch it, and not id 0, so they
//! took the loss of id 0 for an orderly end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpc_trees::Id;

use super::BootstrapError;
use super::driven::Driven;
use super::exchange;
use crate::runtime::{Call, FuncHandle, Functions, Loss, Placement};

/// The name of the function.
const LOST: &str = "gpc.bootstrap.lost";

/// How long the children may take to learn of the loss: they answer at once, if they are there.
const TELL_LIMIT: Duration = Duration::from_secs(2);

/// What this process knows about the loss of id 0, and whom it tells.
#[derive(Clone, Debug)]
pub(super) struct RootLoss {
    func: FuncHandle,
    /// The parent has said that id 0 was lost.
    is_told: Arc<AtomicBool>,
    children: Vec<Id>,
}

impl RootLoss {
    /// The part of one of `count` ids.
    pub(super) fn new(id: Id, count: u32) -> RootLoss {
        let (_, children) = exchange::neighbours(id, count);
        RootLoss { func: FuncHandle::named(LOST), is_told: Arc::default(), children }
    }

    /// Registers the function by which the parent tells this id.
    pub(super) fn register(&self, functions: &Functions, parent: Option<Id>) -> Result<(), BootstrapError> {
        let is_told = self.is_told.clone();
        functions.at(Placement::Inline).func(LOST, move |request, _| {
            if Some(request.root()) != parent {
                return Err("only the parent says that id 0 was lost".into());
            }
            is_told.store(true, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(())
    }

    /// How id 0 has gone, given how the watched id has. Tells the children if it was lost.
    pub(super) fn judge(&self, node: &mut dyn Driven, loss: Loss) -> Loss {
        let is_told = self.is_told.load(Ordering::Relaxed);
        let loss = if loss == Loss::Left && is_told { Loss::Broken } else { loss };
        if loss != Loss::Left && !self.children.is_empty() {
            let call = Call::new(self.func).ids(&self.children);
            // A child that cannot be told has gone, or notices that this process has.
            let _ = node.complete(call.watch().partial().no_reply().limit(TELL_LIMIT));
        }
        loss
    }
}
