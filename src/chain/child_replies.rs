//! The replies of a call's children at its root, for an application that takes them as they arrive.
//!
//! Beyond the source, whose initiator gets one result at the end. The call is not changed: what a child has answered is
//! reported once more, when it has answered. A callback merges the replies, so such a call reports none.

use std::collections::BTreeMap;

use gpc_trees::sorting::collected;
use gpc_trees::{Group, Id};

use super::call::{Call, Child, ChildAnswer, Origin};
use super::slot::Slot;
use super::{Node, Output};
use crate::wire::message::SubtreeReply;
use crate::wire::{Coverage, Report};

impl Node {
    /// Whether the call of this ticket has started and has not ended.
    pub fn has_started(&self, ticket: u64) -> bool {
        self.tickets.get(ticket).is_some()
    }

    /// Reports the replies of a call's children from now on, and those that have arrived.
    pub(super) fn follow(&mut self, ticket: u64) {
        let id = self.tickets.get(ticket).copied();
        let Some(slot) = id.and_then(|id| self.find(id)) else { return };
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Origin::Application { followed, .. } = &mut call.origin else { return };
        if std::mem::replace(followed, true) {
            return;
        }
        let mut arrived: BTreeMap<u32, SubtreeReply> =
            collected(call.arrived.in_list_order().iter().cloned());
        let children = call.children.as_deref().unwrap_or_default();
        let outputs: Vec<Output> = children
            .iter()
            .filter_map(|child| call.child_reply(child, arrived.remove(&child.group.start)))
            .collect();
        outputs.into_iter().for_each(|output| self.emit(output));
    }

    /// Reports a child that has just answered, or is lost.
    pub(super) fn report_child(&mut self, slot: Slot, index: usize) {
        let followed = |call: &&Call| matches!(call.origin, Origin::Application { followed: true, .. });
        let Some(call) = self.calls.get(slot).filter(followed) else { return };
        let Some(child) = call.children.as_ref().and_then(|children| children.get(index)) else { return };
        let output = call.child_reply(child, call.arrived.last_of(child.group.start).cloned());
        if let Some(output) = output {
            self.emit(output);
        }
    }
}

impl Call {
    /// The report of a child that has answered or is lost, if the application gets one.
    fn child_reply(&self, child: &Child, reply: Option<SubtreeReply>) -> Option<Output> {
        let Origin::Application { ticket, watch, .. } = self.origin else { return None };
        if !self.request.reply_wanted || self.request.callback.is_some() {
            return None;
        }
        let report = match child.answer {
            ChildAnswer::Awaited | ChildAnswer::Arriving => return None,
            ChildAnswer::Done => child.report.clone(),
            ChildAnswer::Lost(_) => Some(Box::new(self.lost_report(child))),
        };
        let group = Group { start: child.group.start.saturating_sub(u32::from(watch)), len: child.group.len };
        Some(Output::ChildReply { ticket, group, reply: reply.unwrap_or_default(), report })
    }

    fn lost_report(&self, child: &Child) -> Report {
        let mut coverage = Coverage::new();
        child.cover(&mut coverage);
        Report { causes: self.cause_of(child.id).into_iter().cloned().collect(), coverage }
    }

    fn cause_of(&self, id: Id) -> Option<&crate::wire::Cause> {
        self.partial.report.as_ref().and_then(|report| report.cause_of(id))
    }
}
