//! Checks what one id writes against the limits of its call.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": rhlen and rdlen.

use gpc_trees::Id;

use super::Reply;
use super::call::{Call, OwnPart};
use crate::branch_hint::likely;
use crate::wire::{Cause, CauseKind, Stage};

impl Call {
    /// Checks a reply that func or callback has just written. A reply that is not wanted is dropped in any case.
    pub(super) fn within_reply_limits(&self, me: Id, reply: &Reply) -> Result<(), Cause> {
        let limits = &self.request.reply_limits;
        if likely(limits.is_unlimited()) || !self.request.reply_wanted {
            return Ok(());
        }
        let Some((part, length, most)) = limits.exceeded(reply.header.len() as u64, reply.data_len() as u64)
        else {
            return Ok(());
        };
        let (stage, function) = match self.own {
            OwnPart::Lent | OwnPart::LentLater => (Stage::Callback, "callback"),
            _ => (Stage::Func, "func"),
        };
        let message = format!("the reply {part} of {function} has {length} bytes, and the call takes {most}");
        Err(Cause::new(me, stage, CauseKind::OverLimit, message))
    }
}
