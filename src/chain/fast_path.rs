//! The fast path: short requests whose functions run where they are read, and whose children get frames from a
//! [plan](super::plans).
//!
//! Most calls resemble the call before, and succeed. For such a call the fast path does at once what `setup`, `steps`
//! and `gather` do input by input. At the first unusual event the call [moves](Node::take_over) into the tables, and
//! continues on the general path.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps" and "The
//! action for any response".

use std::time::Duration;

use gpc_trees::{Group, Id, IdList};

use super::call::{JobState, Origin};
use super::failing::outlasted;
use super::fast_calls::{CallOrigin, FastCall, FastCalls, FastSlot};
use super::recorder::{End, Ending};
use super::reservation::Reservation;
use super::short_replies::ShortAnswer;
use super::slot::Slot;
use super::timeline::Timeline;
use super::{Config, Node, Outputs, Reply, RootReply, Start, Time, gather};
use crate::branch_hint::{cold_path, likely, unlikely};
use crate::wire::head::ResponseHead;
use crate::wire::message::Answer;
use crate::wire::short::{
    KeyBuffer, Particulars, PlanKey, PlanParts, SHORT_MAX, ShortRequest, ShortResponse, Template,
};
use crate::wire::span::Span;
use crate::wire::{CallId, Cause, Reason, Request, Stage};

/// A request to a child, before it is written.
#[derive(Clone, Copy, Debug)]
pub struct ChildRequest<'a> {
    /// The child.
    pub to: Id,
    /// The frame, without the particulars.
    pub template: &'a Template,
    /// The child's id, if children share the template. Otherwise the template contains the id.
    pub alone: Option<Id>,
    /// The particulars of the frame.
    pub particulars: &'a Particulars<'a>,
    /// The whole frame except for the id, if several children get the same frame.
    pub frame: Option<&'a [u8]>,
    group: Group,
    plan: &'a super::plans::Plan,
}

impl ChildRequest<'_> {
    /// Returns the request in the form of the general path.
    pub fn request(&self) -> Option<Request> {
        self.plan.request(self.particulars, self.group)
    }
}

/// How a short request continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastStart {
    /// On the general path, as an input.
    General,
    /// On the fast path, at an id without children. The driver runs func with [`leaf_room`](Node::leaf_room), and calls
    /// [`leaf_ran`](Node::leaf_ran).
    Leaf,
    /// On the fast path, at an id with children. The driver runs func with [`reply_room`](Node::reply_room), and calls
    /// [`func_ran`](Node::func_ran).
    WithChildren,
}

/// State of a call on the fast path after func.
#[derive(Debug)]
pub enum FastResult {
    /// The call has ended with this answer.
    Answered(Answer),
    /// The call waits for its children, or has failed and its outputs report the failure.
    Waits,
}

/// How a child's answer was processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastResponse {
    /// Not at all: the call or the form of the answer requires the general path.
    General,
    /// The call waits for further children.
    Waits,
    /// It was the last answer: the call in this slot is complete.
    Complete(FastSlot),
}

/// Class of the default workers.
const DEFAULT_WORKERS: u8 = 0;

impl Start {
    /// Returns the start as a short request with this name. `None` if it is long, or needs the general path. `room`
    /// receives the bytes of the key.
    #[inline(always)]
    pub fn short<'a>(
        &'a self,
        call: CallId,
        data: &'a [u8],
        room: &'a mut KeyBuffer,
    ) -> Option<ShortRequest<'a>> {
        let short = self.header.len() + data.len() <= SHORT_MAX;
        // A call that only watches and has no other id has no reply.
        let nobody = self.watch && self.ids.len() == 1;
        let unusual = self.partial
            || self.trace
            || self.follow
            || self.parts.is_some()
            || !self.reply_limits.is_unlimited()
            || !short
            || nobody;
        if unusual || self.ids.first() != Some(call.root) {
            return None;
        }
        let limit = u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX);
        let left = u32::try_from(limit.div_ceil(1000)).unwrap_or(u32::MAX);
        let (header, total) = (&self.header[..], self.ids.len());
        let particulars = Particulars { call, position: 0, total, limit, age: 0, left, header, data };
        let Start { func, callback, reply_wanted, forward_first, .. } = *self;
        let parts =
            PlanParts { func, callback, tree: &self.tree, ids: &self.ids, reply_wanted, forward_first };
        Some(ShortRequest { plan: PlanKey::new(&parts, room)?, particulars })
    }
}

/// The end of a call that was started here.
#[derive(Debug)]
pub struct FinishedCall {
    /// Ticket of the start.
    pub ticket: u64,
    /// Identifier of the call.
    pub call: CallId,
    /// Reply of the whole tree; `None` if no reply was requested.
    pub reply: Option<RootReply>,
}

impl Node {
    #[inline(always)]
    pub(super) fn fast_calls(&mut self) -> &mut FastCalls {
        let Config { seed, sizes, .. } = &self.config;
        if unlikely(self.fast_calls.is_none()) {
            self.fast_calls = Some(FastCalls::boxed(*seed, sizes));
        }
        self.fast_calls.get_or_insert_with(|| FastCalls::boxed(*seed, sizes))
    }

    /// Begins a request of a parent on the fast path, if it qualifies. Then the request is consumed, and the driver
    /// must run func before any other input.
    ///
    /// The driver passes no request whose function defers its reply or waits for a worker. A function that may block
    /// runs outside the driver's loop, or on a node whose driver is its only thread. If it takes long, the driver calls
    /// [`func_overran`](Self::func_overran).
    ///
    /// `now` is called only if the call stays in flight here, or if heartbeats or the recorder need the time: reading
    /// the clock costs as much as many functions.
    #[inline(always)]
    pub fn begin_fast(
        &mut self,
        now: impl FnOnce() -> Time,
        from: Id,
        request: &ShortRequest<'_>,
    ) -> FastStart {
        let particulars = &request.particulars;
        let own = unlikely(particulars.call.root == self.config.me);
        let children = if own { None } else { self.admit_fast(&request.plan, particulars) };
        if self.liveness.watches() || self.recorder.is_on() || children.is_some_and(|children| children > 0) {
            self.at(now());
            self.liveness.record_activity(from, self.now);
        }
        let Some(children) = children else { return FastStart::General };
        if children > 0 {
            if unlikely(self.load.delays(from)) {
                return FastStart::General;
            }
            self.load.spend(children);
        }
        self.recorder.begin_fast(particulars.call, from, self.now);
        if children > 0 { FastStart::WithChildren } else { FastStart::Leaf }
    }

    /// Returns the number of children of a call that may run on the fast path; `None` for any other call.
    #[inline(always)]
    fn admit_fast(&mut self, plan: &PlanKey<'_>, of: &Particulars<'_>) -> Option<usize> {
        let config = &self.config;
        // Without a branch for each condition.
        let taken = !self.closed & self.run_queue.is_idle() & (self.calls() < config.calls_max);
        let admissible = (of.data.len() as u64 <= config.data_max) & (of.limit > 0);
        let only = self.calls.find(of.call).is_none() & !self.completed.contains(of.call);
        let (me, fan_out) = (config.me, config.trees.fan_out);
        // The plan of a leaf costs little.
        let at_once = config.plan_at_once | plan.is_alone();
        if unlikely(!(taken & admissible & only)) {
            return None;
        }
        let fast_calls = self.fast_calls();
        let plan = fast_calls.plans.find(me, plan, at_once)?;
        let places = u64::from(of.position) + u64::from(plan.ids.len());
        let (children, placed) = (plan.children.len(), places <= of.total.into());
        let room =
            if children == 0 { fast_calls.find(of.call).is_none() } else { fast_calls.make_room(of.call) };
        match likely((children <= fan_out as usize) & room & placed) {
            true => Some(children),
            false => None,
        }
    }

    /// The ids of the call that has just [begun](Self::begin_fast), and an empty reply for its func in reused memory.
    #[inline(always)]
    pub fn reply_room(&mut self) -> Option<(&IdList, &mut Reply)> {
        self.fast_calls.as_deref_mut()?.reply_room()
    }

    /// Identifier of the next call that starts here.
    pub fn next_name(&self) -> CallId {
        CallId { root: self.config.me, sequence: self.next_sequence }
    }

    /// Starts a call of the application under the [next name](Self::next_name). Returns whether it runs on the fast
    /// path. With `watch` this id runs no function.
    #[inline(always)]
    pub fn start_fast(&mut self, now: Time, request: &ShortRequest<'_>, watch: bool) -> bool {
        self.at(now);
        let begins = self.admit_fast(&request.plan, &request.particulars).is_some();
        if begins {
            self.next_sequence += 1;
        }
        if begins & !watch {
            self.recorder.begin_fast(request.particulars.call, self.config.me, self.now);
        }
        begins
    }

    /// Whether the driver must call [`time_func`](Self::time_func) when the function on the fast path returns.
    #[inline(always)]
    pub fn is_func_timed(&self) -> bool {
        self.recorder.is_func_timed()
    }

    /// Times the last function on the fast path if it is still untimed: at the end of a turn, and before another
    /// function runs. `now` is called only in that case.
    #[inline(always)]
    pub fn times_last(&mut self, now: impl FnOnce() -> Time) {
        if let Some((call, ended)) = self.recorder.times_last(now) {
            self.func_ended_late(call, ended);
        }
    }

    /// Ends the functions of this turn: times the last one, and counts the ended calls before their answers leave.
    #[inline(always)]
    pub fn turn_ends(&mut self, now: impl FnOnce() -> Time) {
        self.times_last(now);
        self.recorder.turn_ends();
    }

    #[cold]
    fn func_ended_late(&mut self, call: CallId, ended: Span) {
        let fast_call = self
            .fast_calls
            .as_deref_mut()
            .and_then(|fast_calls| fast_calls.find(call).and_then(|it| fast_calls.get_mut(it)));
        if let Some(fast_call) = fast_call {
            fast_call.times.ended = ended;
        }
    }

    /// Records when the function on the fast path returned; this time may be later than that of the turn.
    #[inline(always)]
    pub fn time_func(&mut self, now: Time) {
        self.recorder.func_ran(now);
    }

    /// Whether the default workers are idle, so that a function need not wait for one.
    pub fn default_workers_are_idle(&self) -> bool {
        self.run_queue.is_idle()
    }

    /// Moves a call whose function is still running into the tables; the call began at `begun`. The function's result
    /// is a later [`Input::Ran`](super::Input::Ran). `request` is the whole request.
    pub fn func_overran(&mut self, origin: CallOrigin, request: Request, begun: Time, outputs: &mut Outputs) {
        self.outside(outputs, |node| {
            let call = request.call;
            if let Some(heartbeat) = node.config.heartbeat {
                node.liveness.begin(node.now, &heartbeat);
            }
            let origin = match origin {
                CallOrigin::Application { ticket, watch } => {
                    node.tickets.insert(ticket, call);
                    Origin::Application { ticket, watch, followed: false }
                }
                CallOrigin::Parent(id) => Origin::Parent { id, skipped: 0, credit_owed: true },
            };
            let slot = node.calls.insert(request.into(), origin, begun);
            let Some(running) = node.calls.get_mut(slot) else { return };
            running.reservation = Reservation::of(&node.config.memory);
            running.job = JobState::Running;
            running.times.func_begins(begun);
            node.deadlines.add(running.deadline, call);
            node.run_queue.begin(DEFAULT_WORKERS, call);
            // With `forward_first` the children get the request now.
            node.advance(slot);
        });
    }

    /// Continues a call after its func, whose reply is in [`reply_room`](Self::reply_room). `now` is called if that
    /// ends a call of the application. `send` receives the requests to the children, in order; other actions go to
    /// `outputs`.
    ///
    /// # Panics
    /// If outputs of an earlier input have not been drained.
    #[inline(always)]
    pub fn func_ran(
        &mut self,
        origin: CallOrigin,
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
        now: impl FnOnce() -> Time,
        mut send: impl FnMut(ChildRequest<'_>),
        outputs: &mut Outputs,
    ) -> FastResult {
        let me = self.config.me;
        let Some(fast_calls) = self.fast_calls.as_deref_mut() else { return FastResult::Waits };
        let Some(plan) = fast_calls.plans.found() else { return FastResult::Waits };
        let (ids, forward_first) = (plan.ids.len(), plan.forward_first);
        if unlikely(result.is_err()) {
            // A failed function may have written a part of a reply.
            drop(fast_calls.take_reply());
        }
        let forwards = ids > 1 && (result.is_ok() || forward_first);
        if forwards {
            // The budget does not count a call's short replies. A longer reply needs a reservation.
            let long = result.is_ok() & (fast_calls.reply_len() > SHORT_MAX);
            if unlikely(long & !forward_first)
                && let Some(answer) = self.no_memory_for_long_reply(ids)
            {
                self.completed.add(of.call);
                self.record_fast(End::Failed);
                return FastResult::Answered(answer);
            }
            let place = self.wait_for_children(origin, of, &mut send);
            if unlikely(long & place.is_some()) {
                cold_path();
                self.outside(outputs, |node| node.take_over_long(of.call));
            }
            if let (Err(reason), Some(_)) = (result, place) {
                cold_path();
                self.outside(outputs, |node| {
                    if let Some(slot) = node.take_over(of.call) {
                        node.stage_failed(slot, Cause::of(me, Stage::Func, *reason));
                    }
                });
            }
            return FastResult::Waits;
        }
        let ((wanted, merged), reply_max) = (self.fast_calls().plans.form(), self.config.reply_max);
        self.completed.add(of.call);
        let (begun, limit) = (self.now, Duration::from_micros(of.limit));
        self.record_fast(if result.is_ok() { End::Done } else { End::Failed });
        FastResult::Answered(match result {
            Ok(())
                if matches!(origin, CallOrigin::Application { .. })
                    && unlikely(begun.plus(limit) <= now()) =>
            {
                drop(self.fast_calls().take_reply());
                self.failed_alone(ids, outlasted(me, limit))
            }
            Ok(()) => gather::alone_or_failed(me, wanted, merged, self.fast_calls().take_reply(), reply_max),
            Err(reason) => self.failed_alone(ids, Cause::of(me, Stage::Func, *reason)),
        })
    }

    /// Records a call that ends with its function: the time of the turn may be earlier than the function.
    #[inline(always)]
    pub(super) fn record_fast(&mut self, end: End) {
        let plan = self.fast_calls.as_ref().and_then(|fast_calls| fast_calls.plans.found());
        let func = plan.map_or(0, |plan| plan.key().func());
        self.recorder.end_fast(func, end);
    }

    /// Sends the request to the children, the largest subtree first, and stores the call until they have answered.
    fn wait_for_children(
        &mut self,
        origin: CallOrigin,
        of: &Particulars<'_>,
        send: &mut impl FnMut(ChildRequest<'_>),
    ) -> Option<FastSlot> {
        let now = self.now;
        if let Some(heartbeat) = self.config.heartbeat {
            self.liveness.begin(now, &heartbeat);
        }
        if let CallOrigin::Application { ticket, .. } = origin {
            self.tickets.insert(ticket, of.call);
        }
        let fast_calls = self.fast_calls.as_deref_mut()?;
        let mut fast_call = fast_calls.fresh()?;
        fast_call.call = of.call;
        fast_call.origin = origin;
        let left_us = u64::from(of.left) * 1000;
        let later = |us: u64| Time::from_nanos(now.as_nanos().saturating_add(us.saturating_mul(1000)));
        let watches = matches!(origin, CallOrigin::Application { watch: true, .. });
        let has_run = self.recorder.is_on() & !watches;
        fast_call.times = if has_run { self.recorder.fast_call() } else { Timeline::since(now) };
        fast_call.deadline = later(of.limit);
        fast_call.until = later(left_us.max(of.limit));
        fast_call.age = of.age;
        (fast_call.position, fast_call.total) = (of.position, of.total);
        fast_call.wait_for_all();
        let left = match left_us >= of.limit {
            true => of.left,
            false => u32::try_from(of.limit.div_ceil(1000)).unwrap_or(u32::MAX),
        };
        let plan = &*fast_call.plan;
        // The frames to leaves differ in the id alone, so one frame is written for several leaves.
        let mut shared = plan.has_many_alone().then(|| std::mem::take(&mut fast_calls.frame));
        if let Some(frame) = &mut shared {
            frame.clear();
        }
        let mut particulars = Particulars { left, ..*of };
        for &index in &plan.order {
            let child = &plan.children[index as usize];
            let (template, alone) = plan.template(child);
            particulars.position = of.position + child.group.start;
            let particulars = &particulars;
            let frame = shared.as_mut().filter(|_| alone.is_some()).map(|frame| {
                if frame.is_empty() {
                    template.fill(particulars, None, frame);
                }
                &frame[..]
            });
            send(ChildRequest {
                to: child.id,
                template,
                alone,
                particulars,
                frame,
                group: child.group,
                plan,
            });
        }
        if let Some(frame) = shared {
            fast_calls.frame = frame;
        }
        fast_calls.put(fast_call)
    }

    /// Handles a child's answer. `now` is called if heartbeats or the recorder need the time.
    #[inline(always)]
    pub fn fast_response(
        &mut self,
        now: impl FnOnce() -> Time,
        from: Id,
        response: &ShortResponse<'_>,
    ) -> FastResponse {
        if unlikely(self.liveness.watches()) | self.recorder.is_on() {
            self.at(now());
        }
        let Some(fast_calls) = self.fast_calls.as_deref_mut() else { return FastResponse::General };
        let Some(place) = fast_calls.find(response.call) else { return FastResponse::General };
        let last = fast_calls.last_child;
        let Some(fast_call) = fast_calls.get_mut(place) else { return FastResponse::General };
        let Some(index) = fast_call.awaited_child_at(last, from) else { return FastResponse::General };
        let length = response.reply.map_or(0, |(header, data)| header.len() + data.len());
        let kept = match (fast_call.plan.reply_wanted, response.reply) {
            _ if unlikely(length as u64 > self.config.reply_max) => false,
            (true, Some((header, data))) => fast_call.replies.push(index, response.level, header, data),
            (false, _) => true,
            (true, None) => false,
        };
        if !kept {
            return FastResponse::General;
        }
        let complete = fast_call.answered(index);
        let at = fast_call.times.child_answers(from, self.now);
        self.recorder.child_answered(fast_call.call, from, at);
        fast_calls.last_child = index;
        self.liveness.record_activity(from, self.now);
        if complete { FastResponse::Complete(place) } else { FastResponse::Waits }
    }

    /// The parent and the answer of a complete call. `None` if the call was started here, or if the answer is not
    /// short.
    #[inline(always)]
    pub fn fast_answer(&self, place: FastSlot) -> Option<(Id, ResponseHead, ShortAnswer<'_>)> {
        let fast_call = self.fast_calls.as_ref()?.get(place)?;
        let CallOrigin::Parent(parent) = fast_call.origin else { return None };
        let answer = fast_call.answer();
        Some((parent, answer.head(self.config.reply_max)?, answer))
    }

    /// Ends a complete call whose answer has been sent.
    #[inline(always)]
    pub fn end_fast(&mut self, place: FastSlot) {
        let Some(fast_calls) = self.fast_calls.as_deref_mut() else { return };
        let Some(fast_call) = fast_calls.remove(place) else { return };
        let mut parent = None;
        match fast_call.origin {
            // The name needs no record: only this id assigns its names, so a request with one is rejected.
            CallOrigin::Application { ticket, .. } => drop(self.tickets.remove(ticket)),
            CallOrigin::Parent(id) => {
                parent = Some(id);
                self.completed.add(fast_call.call);
            }
        }
        let ending =
            Ending { call: fast_call.call, func: fast_call.plan.key().func(), parent, end: End::Done };
        self.recorder.call_ended(&ending, &fast_call.times, self.now);
        fast_calls.recycle(fast_call);
        self.end_if_idle();
    }

    /// Ends a complete call without a short answer to a parent: returns the result for the application, or moves the
    /// call to the general path.
    pub fn finish_fast(
        &mut self,
        now: impl FnOnce() -> Time,
        place: FastSlot,
        outputs: &mut Outputs,
    ) -> Option<FinishedCall> {
        let fast_call = self.fast_calls.as_ref()?.get(place)?;
        let (answer, call, now) = (fast_call.answer(), fast_call.call, now());
        if let (CallOrigin::Application { ticket, .. }, Some(head)) =
            (fast_call.origin, answer.head(self.config.reply_max))
            && likely(now < fast_call.deadline)
        {
            let reply = RootReply::of(&answer, &head);
            if self.recorder.is_on() {
                self.at(now);
            }
            self.end_fast(place);
            return Some(FinishedCall { ticket, call, reply });
        }
        self.at(now);
        self.outside(outputs, |node| {
            if let Some(slot) = node.take_over(call) {
                node.check_limit(slot);
                node.advance(slot);
            }
        });
        None
    }

    /// Runs an action between two inputs, with this queue of outputs.
    fn outside(&mut self, outputs: &mut Outputs, act: impl FnOnce(&mut Node)) {
        assert!(outputs.is_empty(), "drain every output of a node before its next input");
        self.swap_outputs(outputs);
        act(self);
        self.run_ready();
        self.swap_outputs(outputs);
    }

    /// Returns the slot of a call. A call on the fast path moves into the tables.
    pub(super) fn find(&mut self, call: CallId) -> Option<Slot> {
        self.calls.find(call).or_else(|| self.take_over(call))
    }

    /// Moves a call from the fast path into the tables. Its state is then the same as on the general path.
    pub(super) fn take_over(&mut self, call: CallId) -> Option<Slot> {
        let fast_calls = self.fast_calls.as_deref_mut()?;
        let place = fast_calls.find(call)?;
        let request = long_request(fast_calls.get(place)?)?;
        let mut fast_call = fast_calls.remove(place)?;
        let origin = origin(&fast_call);
        let slot = self.calls.insert(request.into(), origin, fast_call.times.came);
        let call = self.calls.get_mut(slot)?;
        call.times = fast_call.times;
        (call.deadline, call.until) = (fast_call.deadline, fast_call.until);
        call.reservation = Reservation::of(&self.config.memory);
        self.deadlines.add(fast_call.deadline, fast_call.call);
        call.take_over(&fast_call.plan, std::mem::take(&mut fast_call.own));
        let mut replies = fast_call.replies.replies().peekable();
        for index in (0..fast_call.plan.children.len()).filter(|index| fast_call.has_answered(*index)) {
            let reply = replies.next_if(|(child, _)| *child == index).map(|(_, reply)| reply);
            call.child_done(index, reply);
        }
        drop(replies);
        fast_calls.recycle(fast_call);
        Some(slot)
    }

    /// Ends the heartbeats if no call is in flight.
    pub(super) fn end_if_idle(&mut self) {
        if self.calls() == 0 {
            self.liveness.end();
        }
    }
}

/// Returns the request that arrived, without its header and data: all children have received them.
fn long_request(fast_call: &FastCall) -> Option<Request> {
    let limit = u64::try_from(fast_call.deadline.since(fast_call.times.came).as_micros()).unwrap_or(u64::MAX);
    let left = fast_call.until.since(fast_call.times.came).as_micros().div_ceil(1000);
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let FastCall { call, position, total, age, .. } = *fast_call;
    let of = Particulars { call, position, total, limit, age, left, header: &[], data: &[] };
    fast_call.plan.request(&of, Group { start: 0, len: fast_call.plan.ids.len() })
}

fn origin(fast_call: &FastCall) -> Origin {
    match fast_call.origin {
        CallOrigin::Application { ticket, watch } => Origin::Application { ticket, watch, followed: false },
        // The request was consumed when func had run.
        CallOrigin::Parent(id) => Origin::Parent { id, skipped: 0, credit_owed: false },
    }
}
