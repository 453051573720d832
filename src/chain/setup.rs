//! Setup: admits and queues a call from the application or a parent, or rejects it.
//!
//! Source: the ARMCI design of chained GPC (2007), "Internal implementation details" 2 and 3, and "Exceptions" 1.

use std::sync::Arc;

use gpc_trees::Id;

use super::call::{Call, Origin};
use super::recorder::{End, Ending};
use super::reservation::Reservation;
use super::retained_answers::RETENTION;
use super::timeline::Timeline;
use super::{Node, Output, Start, Time};
use crate::branch_hint::unlikely;
use crate::wire::frame::{HEADER_MAX, PREFIX_MAX};
use crate::wire::message::{Answer, Local, Response};
use crate::wire::prefix::request_head;
use crate::wire::{Cause, CauseKind, Coverage, Failure, Message, Request, Stage, Status};

impl Node {
    /// Starts a call of the application.
    pub(super) fn start(&mut self, ticket: u64, start: Start) {
        let call = self.next_name();
        self.next_sequence += 1;
        let request = Request {
            func: start.func,
            callback: start.callback,
            local: Local {
                merging: start.merging,
                classes: start.classes,
                trace: start.trace,
                ..Local::default()
            },
            reply_wanted: start.reply_wanted,
            reply_limits: start.reply_limits,
            forward_first: start.forward_first,
            partial: start.partial,
            limit: start.limit,
            left: start.limit,
            tree: Ok(start.tree),
            header: start.header,
            parts: start.parts,
            ..Request::new(call, start.ids)
        };
        let request = Arc::new(request.with_body(start.data));
        if let Err(cause) = self.admissible(&request).and_then(|()| self.fits_the_wire(&request)) {
            let mut coverage = self.refused(&request, Status::Unreached);
            if start.watch && !request.ids.is_empty() {
                coverage = coverage.without_first();
            }
            let result = Err(Box::new(Failure { cause, coverage }));
            self.emit(Output::Finished { ticket, call, result, report: None });
            return;
        }
        self.tickets.insert(ticket, call);
        let reservation = Reservation::of(&self.config.memory);
        self.admit(
            request,
            Origin::Application { ticket, watch: start.watch, followed: false },
            reservation,
            self.now,
        );
        if start.follow {
            self.follow(ticket);
        }
    }

    /// Handles a request of a parent. It waits if earlier work of this parent waits.
    pub(super) fn request(&mut self, from: Id, request: Arc<Request>) {
        if unlikely(self.load.has_waiting(from))
            && let Ok(reservation) = self.reserve_for_request(&request)
        {
            return self.load.delay(from, request, self.now, reservation);
        }
        self.begin(from, request, self.now);
    }

    /// Begins a request that arrived at `came`.
    pub(super) fn begin(&mut self, from: Id, request: Arc<Request>, came: Time) {
        self.take_over(request.call);
        if let Some(known) = self.calls.named(request.call)
            && known.parent() == Some(from)
        {
            // A duplicate request has no effect: the first one will be answered.
            self.emit(Output::Consumed { from });
            return;
        }
        if self.known_partial(from, &request) {
            return;
        }
        // Below a second parent the first parent's request may have been executed; so may it by an earlier run of this
        // id.
        let only = self.only_parent(&request).and_then(|()| self.old_enough(&request));
        let only = only.map_err(|cause| (cause, Status::Unknown));
        let admitted = || self.admissible(&request).and_then(|()| self.reserve_for_request(&request));
        match only.and_then(|()| admitted().map_err(|cause| (cause, Status::Unreached))) {
            Ok(reservation) => {
                let origin = Origin::Parent { id: from, skipped: request.skipped, credit_owed: true };
                self.admit(request, origin, reservation, came);
            }
            Err((cause, below)) => self.refuse_covering(from, &request, cause, below),
        }
    }

    /// Rejects a request; `below` is the status of the ids below this one.
    pub(super) fn refuse_covering(&mut self, from: Id, request: &Request, cause: Cause, below: Status) {
        let coverage = match request.partial && below == Status::Unknown {
            true => Coverage::all(Status::Unknown, request.ids.len()),
            false => self.refused(request, below),
        };
        self.refuse(from, request, Failure { cause, coverage });
        self.record_rejection(request);
    }

    /// Remembers the call after an adopter's request was rejected. The adopter sends the request to the ids below this
    /// one itself. A later request of the parent that was given up must be rejected: that parent cannot know about the
    /// adopter's requests.
    fn record_rejection(&mut self, request: &Request) {
        if request.partial && request.skipped > 0 {
            let until = self.now.plus(request.left.max(request.limit));
            self.completed.partial.add(request.call, until.plus(RETENTION));
        }
    }

    fn refuse(&mut self, from: Id, request: &Request, failure: Failure) {
        let ending = Ending { call: request.call, func: request.func, parent: Some(from), end: End::Refused };
        self.recorder.call_ended(&ending, &Timeline::since(self.now), self.now);
        let answer = Answer::Failed(Box::new(failure));
        self.emit(Output::Consumed { from });
        let message = Message::Response(Response { call: request.call, answer });
        self.emit(Output::Send { to: from, message });
    }

    /// "Each id can have only one parent": the second parent is rejected, and nothing is executed.
    fn only_parent(&self, request: &Request) -> Result<(), Cause> {
        let refuse = |kind, message: String| Err(Cause::new(self.config.me, Stage::Setup, kind, message));
        let second = |message| refuse(CauseKind::SecondParent, message);
        let call = request.call;
        if call.root == self.config.me {
            // In flight, ended, or not yet started: no peer may use a name that only this id assigns.
            return second(format!("second parent: call {call} is started here alone"));
        }
        match self.calls.named(call).and_then(Call::parent) {
            Some(parent) => second(format!("second parent: id {parent} already sent call {call}")),
            // Several parents may send a partial call, but its answer is no longer retained here.
            None if self.completed.contains(call) && request.partial && self.retained.get(call).is_none() => {
                let message = format!(
                    "call {call} has already ended here, without an answer that could be given again: it was cancelled or released, or this id was given up for lost"
                );
                refuse(CauseKind::AlreadyEnded, message)
            }
            None if self.completed.contains(call) => {
                second(format!("second parent: call {call} has already ended here"))
            }
            None => Ok(()),
        }
    }

    /// Returns the coverage of a rejected call: this id failed, and the ids below it were sent nothing.
    fn refused(&self, request: &Request, below: Status) -> Coverage {
        let own = u32::from(request.ids.first() == Some(self.config.me));
        let mut coverage = Coverage::all(Status::Failed, own);
        coverage.push(below, request.ids.len() - own);
        coverage
    }

    fn admissible(&self, request: &Request) -> Result<(), Cause> {
        let (config, calls) = (&self.config, self.calls());
        let refuse = |kind, message: String| Err(Cause::new(config.me, Stage::Setup, kind, message));
        if self.closed {
            let message = "this id is shutting down and takes no more calls".into();
            return refuse(CauseKind::ShuttingDown, message);
        }
        match &request.tree {
            Err(id) => {
                let message = format!(
                    "no tree is registered under {id:#x} here: register it under the same name on every process"
                );
                return refuse(CauseKind::UnknownTree, message);
            }
            Ok(gpc_trees::Tree::Explicit(shape)) if shape.sizes().len() != request.ids.len() as usize => {
                let (places, ids) = (shape.sizes().len(), request.ids.len());
                return refuse(CauseKind::BadTree, format!("a shape of {places} places for {ids} ids"));
            }
            Ok(_) => {}
        }
        match request.ids.first() {
            None => return refuse(CauseKind::BadRequest, "the id list is empty".into()),
            Some(first) if first != config.me => {
                let message = format!("the id list begins with {first}, not with this id");
                return refuse(CauseKind::BadRequest, message);
            }
            Some(_) => {}
        }
        if calls >= config.calls_max {
            let message = format!("{calls} calls are in flight here already, the most this node takes");
            return refuse(CauseKind::Busy, message);
        }
        if let Some(parts) = &request.parts
            && (parts.count() != request.ids.len() || parts.len() != request.body().len())
        {
            let (count, ids) = (parts.count(), request.ids.len());
            let (len, sum) = (request.body().len(), parts.len());
            let message = format!("{count} parts of {sum} bytes for {ids} ids and {len} bytes of data");
            return refuse(CauseKind::BadRequest, message);
        }
        if request.header.len() > HEADER_MAX {
            let len = request.header.len();
            let message =
                format!("a header of {len} bytes is over the limit of {HEADER_MAX}: send it as data");
            return refuse(CauseKind::OverLimit, message);
        }
        let (len, most) = (request.body().len(), config.data_max);
        if len > most {
            return refuse(CauseKind::OverLimit, format!("data of {len} bytes are over the limit of {most}"));
        }
        Ok(())
    }

    /// Rejects what would make a child close its link.
    fn fits_the_wire(&self, request: &Request) -> Result<(), Cause> {
        let len = request_head(request).prefix_len();
        match len > PREFIX_MAX as u64 {
            true => {
                let message = format!(
                    "limits, ids, shape, header and lengths of parts of {len} bytes are over the limit of {PREFIX_MAX}"
                );
                Err(Cause::new(self.config.me, Stage::Setup, CauseKind::OverLimit, message))
            }
            false => Ok(()),
        }
    }

    fn admit(&mut self, request: Arc<Request>, origin: Origin, reservation: Reservation, begun: Time) {
        let id = request.call;
        let slot = self.calls.insert(request, origin, begun);
        if let Some(call) = self.calls.get_mut(slot) {
            call.reservation = reservation;
            self.deadlines.add(call.deadline, id);
        }
        if let Some(heartbeat) = self.config.heartbeat {
            self.liveness.begin(self.now, &heartbeat);
        }
        self.advance(slot);
    }
}
