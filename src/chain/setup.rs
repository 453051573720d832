//! Setup: a call comes in, from the application or from a parent, and is queued; or it is refused.
//!
//! Source: chained-gpc.md, "Internal implementation details" 2 and 3, and "Exceptions" 1.

use gpc_trees::Id;

use super::call::{Call, Origin};
use super::{Node, Output, Start};
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Cause, Coverage, Failure, Message, Request, Stage, Status};

impl Node {
    /// The application starts a call.
    pub(super) fn start(&mut self, ticket: u64, start: Start) {
        let call = CallId { root: self.config.me, sequence: self.next_sequence };
        self.next_sequence += 1;
        let request = Request {
            call,
            func: start.func,
            callback: start.callback,
            reply_wanted: start.reply_wanted,
            forward_first: start.forward_first,
            limit: start.limit,
            tree: Ok(start.tree),
            ids: start.ids,
            header: start.header,
            data: start.data,
        };
        if let Err(cause) = self.admissible(&request) {
            let mut coverage = Coverage::all(Status::Unreached, request.ids.len());
            if start.watch && !request.ids.is_empty() {
                coverage = coverage.without_first();
            }
            self.emit(Output::Finished { ticket, call, result: Err(Failure { cause, coverage }) });
            return;
        }
        self.tickets.insert(ticket, call);
        self.admit(request, Origin::Here { ticket, watch: start.watch });
    }

    /// A parent sends a request.
    pub(super) fn request(&mut self, from: Id, request: Request) {
        if let Some(known) = self.calls.get(&request.call)
            && known.parent() == Some(from)
        {
            // The same request once more changes nothing: the one there is will be answered.
            self.emit(Output::Consumed { from });
            return;
        }
        match self.only_parent(&request).and_then(|()| self.admissible(&request)) {
            Ok(()) => self.admit(request, Origin::Parent { id: from, credit_owed: true }),
            Err(cause) => {
                let coverage = Coverage::all(Status::Unreached, request.ids.len());
                let answer = Answer::Failed(Box::new(Failure { cause, coverage }));
                self.emit(Output::Consumed { from });
                let message = Message::Response(Response { call: request.call, answer });
                self.emit(Output::Send { to: from, message });
            }
        }
    }

    /// "Each id can have only one parent": the second one is told so, and nothing is executed.
    fn only_parent(&self, request: &Request) -> Result<(), Cause> {
        let refuse = |message: String| Err(Cause::new(self.config.me, Stage::Setup, message));
        let call = request.call;
        match self.calls.get(&call).map(Call::parent) {
            Some(Some(parent)) => refuse(format!("second parent: id {parent} already sent call {call}")),
            Some(None) => refuse(format!("second parent: call {call} was started here")),
            None if self.recent.contains(call) => {
                refuse(format!("second parent: call {call} has already ended here"))
            }
            None => Ok(()),
        }
    }

    fn admissible(&self, request: &Request) -> Result<(), Cause> {
        let Node { config, calls, .. } = self;
        let refuse = |message: String| Err(Cause::new(config.me, Stage::Setup, message));
        match &request.tree {
            Err(id) => {
                return refuse(format!(
                    "no tree is registered under {id:#x} here: register it under the same name on every process"
                ));
            }
            Ok(gpc_trees::Tree::Explicit(shape)) if shape.sizes().len() != request.ids.len() as usize => {
                return refuse(format!(
                    "a shape of {} places for {} ids",
                    shape.sizes().len(),
                    request.ids.len()
                ));
            }
            Ok(_) => {}
        }
        if request.ids.first() != Some(config.me) {
            return refuse(format!("the id list begins with {:?}, not with this id", request.ids.first()));
        }
        if calls.len() >= config.calls_max {
            return refuse(format!(
                "{} calls are in flight here already, the most this node takes",
                calls.len()
            ));
        }
        if request.data.len() > config.data_max {
            return refuse(format!(
                "data of {} bytes are over the limit of {}",
                request.data.len(),
                config.data_max
            ));
        }
        Ok(())
    }

    fn admit(&mut self, request: Request, origin: Origin) {
        let id = request.call;
        let deadline = self.now.plus(request.limit);
        self.deadlines.add(deadline, id);
        self.calls.insert(id, Call::new(request, origin, deadline));
        self.advance(id);
    }
}
