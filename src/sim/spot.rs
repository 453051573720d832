//! Calls that run on the spot where their list ends, as the runtime does it with functions that are quick.
//!
//! Only in worlds where something goes wrong, at every other id: there nothing is predicted, and both ways meet.

use gpc_trees::Id;

use super::check::{Observation, part};
use super::faults::{Act, Fault};
use super::world::World;
use crate::chain::{Leaf, Reply, Time};
use crate::wire::Message;
use crate::wire::message::Response;

impl World {
    /// Runs a request on the spot, if it may; says whether it has.
    pub(super) fn on_the_spot(&mut self, id: Id, from: Id, message: &Message) -> bool {
        let Message::Request(request) = message else { return false };
        if self.mishaps.is_none() || id.is_multiple_of(2) {
            return false;
        }
        let state = self.call(request.call);
        let act = state.and_then(|state| state.acts.get(&id)).copied();
        let reply_bytes = state.map_or(4, |state| state.plan.reply_bytes);
        let result = match act {
            None => Ok(Reply { header: Vec::new(), data: part(id, reply_bytes) }),
            Some(Act::Fail) => Err(format!("func fails at id {id}")),
            Some(Act::Panic) => Err(format!("func panicked at id {id}")),
            // What takes its time or answers later does not run on the spot.
            Some(Act::Hang(_) | Act::Defer | Act::Twice) => return false,
        };
        let (Some(leaf), now) = (Leaf::of(id, request), Time::from_nanos(self.now)) else { return false };
        if !self.node(id).is_some_and(|node| node.leaf_begins(now, from, &leaf)) {
            return false;
        }
        let (call, run) = (leaf.call, self.hosts.run(id));
        self.trace.say(self.now, format_args!("{id} executes {call} on the spot"));
        self.observe(&Observation::Began { id, call });
        self.observe(&Observation::Executed { id, run, call });
        let fault = act.map(|act| if matches!(act, Act::Fail) { Fault::Fail } else { Fault::Panic });
        fault.into_iter().for_each(|fault| self.inject(fault, &[id]));
        self.observe(&Observation::Ran { id, call, deferred: false });
        self.observe(&Observation::Consumed { at: id, from });
        if let Some(answer) = self.node(id).map(|node| node.leaf_ends(&leaf, result)) {
            self.send(id, from, Message::Response(Response { call, answer }));
        }
        self.settle(id);
        true
    }
}
