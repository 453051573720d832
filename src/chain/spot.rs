//! Calls on the fast path: a short request whose function runs where it was read, and whose children get theirs from what its [plan](super::plans) holds.
//!
//! Most calls are like the one before them, and nothing goes wrong with them. What `setup`, `steps` and `gather` do for such a call, input by input and with a place in every table, is done here at once; at the first thing that is
//! unusual the call is [taken over](Node::take_over) into the tables and goes on along the general path, from where it is. Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps" and "The action for any response".

use std::time::Duration;

use gpc_trees::{Group, Id, IdList};

use super::call::{JobState, Origin};
use super::failing::outlasted;
use super::recorder::{End, Ending};
use super::reservation::Reservation;
use super::short_replies::ShortAnswer;
use super::slot::Slot;
use super::spots::{Asker, Place, Spot, Spots};
use super::timeline::Timeline;
use super::{Config, Node, Outputs, Reply, RootReply, Start, Time, gather};
use crate::hint::{cold_path, likely, unlikely};
use crate::wire::head::ResponseHead;
use crate::wire::message::Answer;
use crate::wire::short::{Particulars, PlanKey, PlanParts, SHORT_MAX, ShortRequest, ShortResponse, Template};
use crate::wire::{CallId, Cause, Reason, Request, Stage};

/// What a request to a child is made of.
#[derive(Clone, Copy, Debug)]
pub struct ToChild<'a> {
    /// The child.
    pub to: Id,
    /// Its frame, but for the particulars.
    pub template: &'a Template,
    /// The id that stands in the frame, where it is not the template's own.
    pub alone: Option<Id>,
    /// What is its own.
    pub particulars: Particulars<'a>,
    /// The whole frame, but for the id that stands in it, where several children get the same.
    pub frame: Option<&'a [u8]>,
    group: Group,
    plan: &'a super::plans::Plan,
}

impl ToChild<'_> {
    /// The same request as the general path has it.
    pub fn request(&self) -> Option<Request> {
        self.plan.request(&self.particulars, self.group)
    }
}

/// Whether a short request runs on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begun {
    /// Not: it is an input like any other.
    Unusual,
    /// It does, and this id has nobody below it: func is given what [`spot_alone`](Node::spot_alone) says, and what comes of it is for [`spot_replied`](Node::spot_replied).
    Alone,
    /// It does: func runs over the ids of [`spot_room`](Node::spot_room) and replies into the room, and what comes of it is for [`spot_ran`](Node::spot_ran).
    WithChildren,
}

/// What has become of a call on the fast path, when func has run.
#[derive(Debug)]
pub enum Ran {
    /// It has ended with this answer.
    Answered(Answer),
    /// It waits for its children, or has failed with outputs that say so.
    Waits,
}

/// What has become of a child's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// No call on the fast path waits for it, or not in this form: it is an input like any other.
    Unusual,
    /// Others are still awaited.
    Waits,
    /// It was the last one: the call's answer is at this place.
    Complete(Place),
}

/// The class of the default workers.
const DEFAULT_WORKERS: u8 = 0;

impl Start {
    /// The same as a short request under this name; none if it cannot be one. `ids` is room for the bytes of its ids.
    pub fn short<'a>(
        &'a self,
        call: CallId,
        data: &'a [u8],
        ids: &'a mut Vec<u8>,
    ) -> Option<ShortRequest<'a>> {
        let short = self.header.len() + data.len() <= SHORT_MAX;
        // A root that watches no other id has no answer to wait for.
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
        let left = u32::try_from(self.limit.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
        let (header, total) = (&self.header[..], self.ids.len());
        let particulars = Particulars { call, position: 0, total, limit, age: 0, left, header, data };
        let Start { func, callback, reply_wanted, forward_first, .. } = *self;
        let parts =
            PlanParts { func, callback, tree: &self.tree, ids: &self.ids, reply_wanted, forward_first };
        Some(ShortRequest { plan: PlanKey::new(&parts, ids)?, particulars })
    }
}

/// The end of a call that was started here.
#[derive(Debug)]
pub struct Ended {
    /// As given at its start.
    pub ticket: u64,
    /// Its name.
    pub call: CallId,
    /// The whole tree's reply; none if none was asked for.
    pub reply: Option<RootReply>,
}

impl Node {
    #[inline(always)]
    pub(super) fn spots(&mut self) -> &mut Spots {
        let Config { seed, sizes, .. } = &self.config;
        if unlikely(self.spots.is_none()) {
            self.spots = Some(Spots::boxed(*seed, sizes));
        }
        self.spots.get_or_insert_with(|| Spots::boxed(*seed, sizes))
    }

    /// Whether a short request may run on the fast path. If so, the driver runs func now, and gives the chain what comes of it before anything else; the request is consumed.
    ///
    /// A function that answers later, or that waits for its turn behind others, does not run on the fast path; one that may block does only where nobody but the driver can run it.
    ///
    /// `now` is asked for if the call takes time here, or heartbeats are noted: seldom at an id without children, which ends it at once.
    #[inline(always)]
    pub fn spot_begins(&mut self, now: impl FnOnce() -> Time, from: Id, request: &ShortRequest<'_>) -> Begun {
        let particulars = &request.particulars;
        let own = unlikely(particulars.call.root == self.config.me);
        let children = if own { None } else { self.may_run(&request.plan, particulars) };
        if self.liveness.watches() || self.recorder.is_on() || children.is_some_and(|children| children > 0) {
            self.at(now());
            self.liveness.heard(from, self.now);
            self.recorder.spot_begins(from, self.now);
        }
        match children {
            None => Begun::Unusual,
            Some(0) => Begun::Alone,
            Some(_) if unlikely(self.load.delays(from)) => Begun::Unusual,
            Some(children) => {
                self.load.spend(children);
                Begun::WithChildren
            }
        }
    }

    /// Whether a call may run here, and how many children it has then.
    #[inline(always)]
    fn may_run(&mut self, plan: &PlanKey<'_>, of: &Particulars<'_>) -> Option<usize> {
        let config = &self.config;
        // At once, without a branch for each.
        let taken = !self.closed & self.run_queue.is_idle() & (self.calls() < config.calls_max);
        let admissible = (of.data.len() as u64 <= config.data_max) & (of.limit > 0);
        let only = self.calls.find(of.call).is_none() & !self.completed.contains(of.call);
        let (me, fan_out) = (config.me, config.trees.fan_out);
        // With nobody below, a plan costs next to nothing.
        let at_once = config.plan_at_once | plan.is_alone();
        if unlikely(!(taken & admissible & only)) {
            return None;
        }
        let spots = self.spots();
        let plan = spots.plans.find(me, plan, at_once)?;
        let places = u64::from(of.position) + u64::from(plan.ids.len());
        let (children, placed) = (plan.children.len(), places <= of.total.into());
        let room = if children == 0 { spots.find(of.call).is_none() } else { spots.has_room(of.call) };
        match likely((children <= fan_out as usize) & room & placed) {
            true => Some(children),
            false => None,
        }
    }

    /// What func gets of the call that has just [begun](Self::spot_begins): the ids, and an empty reply in room that has been used before.
    #[inline(always)]
    pub fn spot_room(&mut self) -> Option<(&IdList, &mut Reply)> {
        self.spots.as_deref_mut()?.reply_room()
    }

    /// The application starts a call: whether it may run on the fast path, and its name if so. `ids` is room for the bytes of its ids.
    pub fn spot_starts<'a>(
        &mut self,
        now: Time,
        start: &'a Start,
        data: &'a [u8],
        ids: &'a mut Vec<u8>,
    ) -> Option<ShortRequest<'a>> {
        self.at(now);
        let call = CallId { root: self.config.me, sequence: self.next_sequence };
        let short = start.short(call, data, ids)?;
        self.may_run(&short.plan, &short.particulars)?;
        self.next_sequence += 1;
        self.recorder.spot_begins(self.config.me, self.now);
        Some(short)
    }

    /// Whether the node records calls: then the driver reports when a function on the fast path [ended](Self::spot_func_ended).
    #[inline(always)]
    pub fn records(&self) -> bool {
        self.recorder.is_on()
    }

    /// The function of the call on the fast path has ended, at a time that need not be that of the turn.
    #[inline(always)]
    pub fn spot_func_ended(&mut self, now: Time) {
        self.recorder.spot_ran(now);
    }

    /// Whether none of the default workers has something to run: a function that is to run on one of them need not wait.
    pub fn default_workers_are_idle(&self) -> bool {
        self.run_queue.is_idle()
    }

    /// A function on the fast path has not ended while the node is to go on: the call, which began then, goes into the
    /// tables. What comes of the function is an [`Input::Ran`](super::Input::Ran). `request` is that of the call, whole.
    pub fn spot_overran(&mut self, asker: Asker, request: Request, begun: Time, outputs: &mut Outputs) {
        self.outside(outputs, |node| {
            let call = request.call;
            if let Some(heartbeat) = node.config.heartbeat {
                node.liveness.begin(node.now, &heartbeat);
            }
            let origin = match asker {
                Asker::Here { ticket, watch } => {
                    node.tickets.insert(ticket, call);
                    Origin::Here { ticket, watch, followed: false }
                }
                Asker::Parent(id) => Origin::Parent { id, skipped: 0, credit_owed: true },
            };
            let slot = node.calls.insert(request.into(), origin, begun);
            let Some(running) = node.calls.get_mut(slot) else { return };
            running.reservation = Reservation::of(&node.config.memory);
            running.job = JobState::Running;
            running.times.func_begins(begun);
            node.deadlines.add(running.deadline, call);
            node.run_queue.begin(DEFAULT_WORKERS, call);
            // Its children get the request now, if they are not to wait for the function.
            node.advance(slot);
        });
    }

    /// The function of a call on the fast path has ended, with its reply in that room. `now` is asked for where that ends a call that was started here. `send` is given what goes to the children, in order; what else is to be done is put into `outputs`.
    ///
    /// # Panics
    /// If outputs of an input before have not been drained.
    pub fn spot_ran(
        &mut self,
        asker: Asker,
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
        now: impl FnOnce() -> Time,
        mut send: impl FnMut(ToChild<'_>),
        outputs: &mut Outputs,
    ) -> Ran {
        let me = self.config.me;
        let Some(spots) = self.spots.as_deref_mut() else { return Ran::Waits };
        let Some(plan) = spots.plans.found() else { return Ran::Waits };
        let (ids, forward_first) = (plan.ids.len(), plan.forward_first);
        if unlikely(result.is_err()) {
            // Whatever there is of it.
            drop(spots.take_reply());
        }
        let forwards = ids > 1 && (result.is_ok() || forward_first);
        if forwards {
            // Longer than a call on the fast path holds uncounted: as long as all of its children's replies together may be.
            let long = result.is_ok() & (spots.reply_len() > SHORT_MAX);
            if unlikely(long & !forward_first)
                && let Some(answer) = self.no_memory_for_long_reply(ids)
            {
                self.completed.add(of.call);
                self.record_spot(of.call, End::Failed);
                return Ran::Answered(answer);
            }
            let place = self.spot_waits(asker, of, &mut send);
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
            return Ran::Waits;
        }
        let ((wanted, merged), reply_max) = (self.spots().plans.form(), self.config.reply_max);
        self.completed.add(of.call);
        let (begun, limit) = (self.now, Duration::from_micros(of.limit));
        self.record_spot(of.call, if result.is_ok() { End::Done } else { End::Failed });
        Ran::Answered(match result {
            Ok(()) if matches!(asker, Asker::Here { .. }) && unlikely(begun.plus(limit) <= now()) => {
                drop(self.spots().take_reply());
                self.failed_alone(ids, outlasted(me, limit))
            }
            Ok(()) => gather::alone_or_failed(me, wanted, merged, self.spots().take_reply(), reply_max),
            Err(reason) => self.failed_alone(ids, Cause::of(me, Stage::Func, *reason)),
        })
    }

    /// Records a call that ends as soon as its function has: the time of the turn may be from before the function.
    #[inline]
    pub(super) fn record_spot(&mut self, call: CallId, end: End) {
        if !self.recorder.is_on() {
            return;
        }
        let (parent, times) = self.recorder.spot();
        let func =
            self.spots.as_ref().and_then(|spots| spots.plans.found()).map_or(0, |plan| plan.key().func());
        self.recorder.call_ended(
            &Ending { call, func, parent, end },
            &times,
            self.recorder.spot_ended().unwrap_or(self.now),
        );
    }

    /// Sends the request on, the largest subtree first, and has the call wait for the answers.
    fn spot_waits(
        &mut self,
        asker: Asker,
        of: &Particulars<'_>,
        send: &mut impl FnMut(ToChild<'_>),
    ) -> Option<Place> {
        let now = self.now;
        if let Some(heartbeat) = self.config.heartbeat {
            self.liveness.begin(now, &heartbeat);
        }
        if let Asker::Here { ticket, .. } = asker {
            self.tickets.insert(ticket, of.call);
        }
        let times = if self.recorder.is_on() { self.recorder.spot().1 } else { Timeline::since(now) };
        let spots = self.spots();
        let mut spot = spots.fresh()?;
        spot.call = of.call;
        spot.asker = asker;
        let left_us = u64::from(of.left) * 1000;
        let later = |us: u64| Time::from_nanos(now.as_nanos().saturating_add(us.saturating_mul(1000)));
        spot.times = times;
        spot.deadline = later(of.limit);
        spot.until = later(left_us.max(of.limit));
        spot.age = of.age;
        (spot.position, spot.total) = (of.position, of.total);
        spot.wait_for_all();
        let left = match left_us >= of.limit {
            true => of.left,
            false => u32::try_from(of.limit.div_ceil(1000)).unwrap_or(u32::MAX),
        };
        let plan = &*spot.plan;
        // Children that have nobody below them get one frame, but for their ids: where there are some it is made once.
        let mut shared = plan.has_many_alone().then(|| std::mem::take(&mut spots.frame));
        if let Some(frame) = &mut shared {
            frame.clear();
        }
        for &index in &plan.order {
            let child = &plan.children[index as usize];
            let (template, alone) = plan.template(child);
            let position = of.position + child.group.start;
            let particulars = Particulars { position, left, ..*of };
            let frame = shared.as_mut().filter(|_| alone.is_some()).map(|frame| {
                if frame.is_empty() {
                    template.fill(&particulars, None, frame);
                }
                &frame[..]
            });
            send(ToChild { to: child.id, template, alone, particulars, frame, group: child.group, plan });
        }
        if let Some(frame) = shared {
            spots.frame = frame;
        }
        spots.put(spot)
    }

    /// A child answers a call. `now` is asked for where heartbeats are noted.
    #[inline(always)]
    pub fn spot_heard(
        &mut self,
        now: impl FnOnce() -> Time,
        from: Id,
        response: &ShortResponse<'_>,
    ) -> Heard {
        if unlikely(self.liveness.watches()) | self.recorder.is_on() {
            self.at(now());
        }
        let Some(spots) = self.spots.as_deref_mut() else { return Heard::Unusual };
        let Some(place) = spots.find(response.call) else { return Heard::Unusual };
        let last = spots.last_child;
        let Some(spot) = spots.get_mut(place) else { return Heard::Unusual };
        let Some(index) = spot.awaited_child_at(last, from) else { return Heard::Unusual };
        let length = response.reply.map_or(0, |(header, data)| header.len() + data.len());
        let kept = match (spot.plan.reply_wanted, response.reply) {
            _ if unlikely(length as u64 > self.config.reply_max) => false,
            (true, Some((header, data))) => spot.replies.push(index, response.level, header, data),
            (false, _) => true,
            (true, None) => false,
        };
        if !kept {
            return Heard::Unusual;
        }
        let complete = spot.answered(index);
        let at = spot.times.child_answers(from, self.now);
        self.recorder.child_answered(spot.call, from, at);
        spots.last_child = index;
        self.liveness.heard(from, self.now);
        if complete { Heard::Complete(place) } else { Heard::Waits }
    }

    /// The answer of a call whose every child has answered, and the parent to which it goes; none if it takes the general path, or nowhere but to the application.
    #[inline(always)]
    pub fn spot_complete(&self, place: Place) -> Option<(Id, ResponseHead, ShortAnswer<'_>)> {
        let spot = self.spots.as_ref()?.get(place)?;
        let Asker::Parent(parent) = spot.asker else { return None };
        let answer = spot.answer();
        Some((parent, answer.head(self.config.reply_max)?, answer))
    }

    /// The answer of a complete call has been given.
    #[inline(always)]
    pub fn spot_ends(&mut self, place: Place) {
        let Some(spots) = self.spots.as_deref_mut() else { return };
        let Some(spot) = spots.remove(place) else { return };
        let mut parent = None;
        match spot.asker {
            // No peer may take a name that this id gives, whether its call has ended or not.
            Asker::Here { ticket, .. } => drop(self.tickets.remove(&ticket)),
            Asker::Parent(id) => {
                parent = Some(id);
                self.completed.add(spot.call);
            }
        }
        let ending = Ending { call: spot.call, func: spot.plan.key().func(), parent, end: End::Done };
        self.recorder.call_ended(&ending, &spot.times, self.now);
        spots.recycle(spot);
        self.end_if_idle();
    }

    /// Ends a complete call whose answer does not go to a parent in a short frame: gives what the application gets, or takes the general path.
    pub fn spot_ends_here(
        &mut self,
        now: impl FnOnce() -> Time,
        place: Place,
        outputs: &mut Outputs,
    ) -> Option<Ended> {
        let spot = self.spots.as_ref()?.get(place)?;
        let (answer, call, now) = (spot.answer(), spot.call, now());
        if let (Asker::Here { ticket, .. }, Some(head)) = (spot.asker, answer.head(self.config.reply_max))
            && likely(now < spot.deadline)
        {
            let reply = RootReply::of(&answer, &head);
            if self.recorder.is_on() {
                self.at(now);
            }
            self.spot_ends(place);
            return Some(Ended { ticket, call, reply });
        }
        self.at(now);
        self.outside(outputs, |node| {
            if let Some(slot) = node.take_over(call) {
                node.heed_limit(slot);
                node.advance(slot);
            }
        });
        None
    }

    /// Does what is done between inputs: what is asked for goes to `outputs`.
    fn outside(&mut self, outputs: &mut Outputs, act: impl FnOnce(&mut Node)) {
        assert!(outputs.is_empty(), "drain every output of a node before its next input");
        self.swap_outputs(outputs);
        act(self);
        self.run_ready();
        self.swap_outputs(outputs);
    }

    /// Where a call is in the tables; one on the fast path is taken over into them.
    pub(super) fn find(&mut self, call: CallId) -> Option<Slot> {
        self.calls.find(call).or_else(|| self.take_over(call))
    }

    /// Takes a call on the fast path over into the tables, as if it had come by the general path.
    pub(super) fn take_over(&mut self, call: CallId) -> Option<Slot> {
        let spots = self.spots.as_deref_mut()?;
        let place = spots.find(call)?;
        let request = long_request(spots.get(place)?)?;
        let mut spot = spots.remove(place)?;
        let origin = origin(&spot);
        let slot = self.calls.insert(request.into(), origin, spot.times.came);
        let call = self.calls.get_mut(slot)?;
        call.times = spot.times;
        (call.deadline, call.until) = (spot.deadline, spot.until);
        call.reservation = Reservation::of(&self.config.memory);
        self.deadlines.add(spot.deadline, spot.call);
        call.take_over(&spot.plan, std::mem::take(&mut spot.own));
        let mut replies = spot.replies.replies().peekable();
        for index in (0..spot.plan.children.len()).filter(|index| spot.has_answered(*index)) {
            let reply = replies.next_if(|(child, _)| *child == index).map(|(_, reply)| reply);
            call.child_done(index, reply);
        }
        drop(replies);
        spots.recycle(spot);
        Some(slot)
    }

    /// No call is in flight any more.
    pub(super) fn end_if_idle(&mut self) {
        if self.calls() == 0 {
            self.liveness.end();
        }
    }
}

/// What has come, without the data, which all have that are to get it.
fn long_request(spot: &Spot) -> Option<Request> {
    let limit = u64::try_from(spot.deadline.since(spot.times.came).as_micros()).unwrap_or(u64::MAX);
    let left = spot.until.since(spot.times.came).as_micros().div_ceil(1000);
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let Spot { call, position, total, age, .. } = *spot;
    let of = Particulars { call, position, total, limit, age, left, header: &[], data: &[] };
    spot.plan.request(&of, Group { start: 0, len: spot.plan.ids.len() })
}

fn origin(spot: &Spot) -> Origin {
    match spot.asker {
        Asker::Here { ticket, watch } => Origin::Here { ticket, watch, followed: false },
        // Its request was consumed when func had run.
        Asker::Parent(id) => Origin::Parent { id, skipped: 0, credit_owed: false },
    }
}
