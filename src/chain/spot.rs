//! Calls on the spot: a short request whose function runs where it was read, and whose children get theirs from what its [plan](super::plans) holds.
//!
//! Most calls are like the one before them, and nothing goes wrong with them. What `setup`, `steps` and `gather` do for such a call, input by input and with a place in every table, is done here at once; at the first thing that is
//! unusual the call is [taken over](Node::take_over) into the tables and goes on the long way, from where it is. Source: chained-gpc.md, "A chained GPC's propagation works in the following steps" and "The action for any response".

use gpc_trees::{Group, Id, IdList};

use super::call::Origin;
use super::deadlines::child_limit_us;
use super::short_replies::ShortAnswer;
use super::slot::Slot;
use super::spots::{Asker, Place, Spot, Spots};
use super::{Node, Outputs, Reply, RootReply, Start, Time, gather};
use crate::wire::head::ResponseHead;
use crate::wire::message::Answer;
use crate::wire::short::{Particulars, PlanKey, PlanParts, SHORT_MAX, ShortRequest, ShortResponse, Template};
use crate::wire::{CallId, Cause, Coverage, Failure, Request, Stage, Status};

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
    /// The same request as the long way has it.
    pub fn request(&self) -> Option<Request> {
        self.plan.request(&self.particulars, self.group)
    }
}

/// What has become of a call on the spot, when func has run.
#[derive(Debug)]
pub enum Ran {
    /// It has ended: this is the id's own reply, and [`spot_answers`](Node::spot_answers) makes what goes out of it.
    Replied(Reply),
    /// It has ended with this answer, which is not short, or a failure.
    Answered(Answer),
    /// It waits for its children, or has failed with outputs that say so.
    Waits,
}

/// What has become of a child's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// No call on the spot waits for it, or not in this form: it is an input like any other.
    Unusual,
    /// Others are still awaited.
    Waits,
    /// It was the last one: the call's answer is at this place.
    Complete(Place),
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
    fn spots(&mut self) -> &mut Spots {
        let seed = self.config.seed;
        self.spots.get_or_insert_with(|| Box::new(Spots::new(seed)))
    }

    /// Whether a short request may run on the spot. If so, the driver runs func now, over [`spot_ids`](Self::spot_ids), and gives what comes of it to [`spot_ran`](Self::spot_ran) before anything else; the request is consumed.
    /// If not, the request is an input like any other.
    ///
    /// A function that answers later, or that waits for its turn behind others, does not run on the spot; one that may block does only where nobody but the driver can run it.
    pub fn spot_begins(&mut self, now: Time, from: Id, request: &ShortRequest<'_>) -> bool {
        self.now = self.now.max(now);
        self.liveness.heard(from, self.now);
        let particulars = &request.particulars;
        particulars.call.root != self.config.me && self.may_run(&request.plan, particulars)
    }

    fn may_run(&mut self, plan: &PlanKey<'_>, of: &Particulars<'_>) -> bool {
        let config = &self.config;
        let taken = !self.closed && self.runs.is_idle() && self.calls() < config.calls_max;
        let admissible = of.data.len() as u64 <= config.data_max && of.limit > 0;
        let only = self.calls.find(of.call).is_none() && !self.recent.contains(of.call);
        let (me, fan_out) = (config.me, config.trees.fan_out);
        // With nobody below, a plan costs next to nothing.
        let at_once = config.plan_at_once || plan.is_alone();
        if !taken || !admissible || !only {
            return false;
        }
        let spots = self.spots();
        let Some(plan) = spots.plans.find(me, plan, at_once) else { return false };
        let children = plan.children.len();
        let room = if children == 0 { spots.find(of.call).is_none() } else { spots.has_room(of.call) };
        children <= fan_out as usize && room
    }

    /// The ids of the call that has just [begun](Self::spot_begins).
    pub fn spot_ids(&self) -> Option<&IdList> {
        self.spots.as_ref()?.plans.found().map(|plan| &plan.ids)
    }

    /// An empty reply, in room that has been used before.
    pub fn spot_reply(&mut self) -> Reply {
        self.spots().reply()
    }

    /// Gives the room of a reply back.
    pub fn keep_reply(&mut self, reply: Reply) {
        self.spots().keep_reply(reply);
    }

    /// The application starts a call: whether it may run on the spot, and its name if so. `ids` is room for the bytes of its ids.
    pub fn spot_starts<'a>(
        &mut self,
        now: Time,
        start: &'a Start,
        data: &'a [u8],
        ids: &'a mut Vec<u8>,
    ) -> Option<ShortRequest<'a>> {
        self.now = self.now.max(now);
        let short = start.header.len() + data.len() <= SHORT_MAX;
        // Who watches nobody has nothing to answer.
        let nobody = start.watch && start.ids.len() == 1;
        if start.partial || !short || nobody || start.ids.first() != Some(self.config.me) {
            return None;
        }
        let limit = u64::try_from(start.limit.as_micros()).unwrap_or(u64::MAX);
        let left = u32::try_from(start.limit.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
        let call = CallId { root: self.config.me, sequence: self.next_sequence };
        let particulars = Particulars { call, limit, age: 0, left, header: &start.header, data };
        let Start { func, callback, reply_wanted, forward_first, .. } = *start;
        let parts =
            PlanParts { func, callback, tree: &start.tree, ids: &start.ids, reply_wanted, forward_first };
        let plan = PlanKey::new(&parts, ids)?;
        if !self.may_run(&plan, &particulars) {
            return None;
        }
        self.next_sequence += 1;
        Some(ShortRequest { plan, particulars })
    }

    /// The function of a call on the spot has ended. `send` is given what goes to the children, in order; what else is to be done is put into `outputs`.
    ///
    /// # Panics
    /// If outputs of an input before have not been drained.
    pub fn spot_ran(
        &mut self,
        asker: Asker,
        of: &Particulars<'_>,
        result: Result<Reply, String>,
        mut send: impl FnMut(ToChild<'_>),
        outputs: &mut Outputs,
    ) -> Ran {
        let me = self.config.me;
        let Some(plan) = self.spots.as_ref().and_then(|spots| spots.plans.found()) else { return Ran::Waits };
        let ids = plan.ids.len();
        let forwards = ids > 1 && (result.is_ok() || plan.forward_first);
        if forwards {
            let place = self.spot_waits(asker, of, &mut send);
            match (result, place) {
                (Ok(own), Some(place)) => {
                    if let Some(spot) = self.spots().get_mut(place) {
                        spot.own = own;
                    }
                }
                (Err(message), Some(_)) => {
                    self.outside(outputs, |node| {
                        if let Some(slot) = node.take_over(of.call) {
                            node.stage_failed(slot, Cause::new(me, Stage::Func, message));
                        }
                    });
                }
                (_, None) => {}
            }
            return Ran::Waits;
        }
        self.recent.add(of.call);
        match result {
            Ok(own) => Ran::Replied(own),
            Err(message) => {
                let mut coverage = Coverage::all(Status::Failed, 1);
                coverage.push(Status::Unreached, ids - 1);
                let cause = Cause::new(me, Stage::Func, message);
                if let Asker::Here { watch: true, .. } = asker {
                    coverage = coverage.without_first();
                }
                Ran::Answered(Answer::Failed(Box::new(Failure { cause, coverage })))
            }
        }
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
            self.liveness.begin(now.plus(heartbeat.every));
        }
        if let Asker::Here { ticket, .. } = asker {
            self.tickets.insert(ticket, of.call);
        }
        let spots = self.spots();
        let mut spot = spots.fresh()?;
        spot.call = of.call;
        spot.asker = asker;
        let left_us = u64::from(of.left) * 1000;
        let later = |us: u64| Time::from_nanos(now.as_nanos().saturating_add(us.saturating_mul(1000)));
        spot.begun = now;
        spot.deadline = later(of.limit);
        spot.until = later(left_us.max(of.limit));
        spot.age = of.age;
        spot.wait_for_all();
        let left = match left_us >= of.limit {
            true => of.left,
            false => u32::try_from(of.limit.div_ceil(1000)).unwrap_or(u32::MAX),
        };
        let plan = &*spot.plan;
        // Children that have nobody below them get one frame, but for their ids: where there are some it is made once.
        let mut frame = std::mem::take(&mut spots.frame);
        frame.clear();
        for &index in &plan.order {
            let child = &plan.children[index as usize];
            let (template, alone) = plan.template(child);
            let limit = child_limit_us(of.limit, child.below);
            let particulars = Particulars { limit, left, ..*of };
            let same = alone.is_some() && plan.has_many_alone();
            if same && frame.is_empty() {
                template.fill(&particulars, None, &mut frame);
            }
            let frame = Some(&frame[..]).filter(|_| same);
            send(ToChild { to: child.id, template, alone, particulars, frame, group: child.group, plan });
        }
        spots.frame = frame;
        spots.put(spot)
    }

    /// Whether room for calls on the spot is kept that a node without any is not to keep for long.
    pub fn holds_room(&self) -> bool {
        self.spots.as_ref().is_some_and(|spots| spots.holds_room())
    }

    /// Gives back what ended calls on the spot have left for those to come.
    pub fn release_room(&mut self) {
        self.spots.iter_mut().for_each(|spots| spots.release_room());
    }

    /// What answers a call that has [ended](Ran::Replied) with its func: the fixed part of its frame and the rest; or, if it is not short, the answer the long way.
    pub fn spot_answers<'a>(
        &'a self,
        call: CallId,
        own: &'a Reply,
    ) -> Option<(ResponseHead, ShortAnswer<'a>)> {
        let spots = self.spots.as_ref()?;
        let plan = spots.plans.found()?;
        let (merged, wanted) = (plan.key().callback().is_some(), plan.reply_wanted);
        let answer = ShortAnswer { call, own: Some(own), replies: &spots.nothing, merged, wanted };
        Some((answer.head(self.config.reply_max)?, answer))
    }

    /// The answer of a call that has ended with its func, the long way.
    pub fn spot_answers_long(&self, own: Reply) -> Answer {
        let me = self.config.me;
        let plan = self.spots.as_ref().and_then(|spots| spots.plans.found());
        let (wanted, merged) =
            plan.map_or((false, false), |plan| (plan.reply_wanted, plan.key().callback().is_some()));
        gather::alone(me, wanted, merged, own, self.config.reply_max).unwrap_or_else(|cause| {
            Answer::Failed(Box::new(Failure { cause, coverage: Coverage::all(Status::Failed, 1) }))
        })
    }

    /// A child answers a call.
    pub fn spot_heard(&mut self, now: Time, from: Id, response: &ShortResponse<'_>) -> Heard {
        self.now = self.now.max(now);
        let Some(spots) = self.spots.as_deref_mut() else { return Heard::Unusual };
        let Some(place) = spots.find(response.call) else { return Heard::Unusual };
        let last = spots.last_child;
        let Some(spot) = spots.get_mut(place) else { return Heard::Unusual };
        let Some(index) = spot.awaited_child_at(last, from) else { return Heard::Unusual };
        let length = response.reply.map_or(0, |(header, data)| header.len() + data.len());
        let kept = match (spot.plan.reply_wanted, response.reply) {
            _ if length as u64 > self.config.reply_max => false,
            (true, Some((header, data))) => spot.replies.push(index, response.level, header, data),
            (false, _) => true,
            (true, None) => false,
        };
        if !kept {
            return Heard::Unusual;
        }
        let complete = spot.answered(index);
        spots.last_child = index;
        self.liveness.heard(from, self.now);
        if complete { Heard::Complete(place) } else { Heard::Waits }
    }

    /// The answer of a call whose every child has answered, and the parent to which it goes; none if it goes the long way, or nowhere but to the application.
    pub fn spot_complete(&self, place: Place) -> Option<(Id, ResponseHead, ShortAnswer<'_>)> {
        let spot = self.spots.as_ref()?.get(place)?;
        let Asker::Parent(parent) = spot.asker else { return None };
        let answer = spot.answer();
        Some((parent, answer.head(self.config.reply_max)?, answer))
    }

    /// The answer of a complete call has been given.
    pub fn spot_ends(&mut self, place: Place) {
        let Some(spots) = self.spots.as_deref_mut() else { return };
        let Some(spot) = spots.remove(place) else { return };
        match spot.asker {
            // No peer may take a name that this id gives, whether its call has ended or not.
            Asker::Here { ticket, .. } => drop(self.tickets.remove(&ticket)),
            Asker::Parent(_) => self.recent.add(spot.call),
        }
        spots.recycle(spot);
        self.end_if_idle();
    }

    /// Ends a complete call whose answer does not go to a parent in a short frame: gives what the application gets, or goes the long way.
    pub fn spot_ends_here(&mut self, place: Place, outputs: &mut Outputs) -> Option<Ended> {
        let spot = self.spots.as_ref()?.get(place)?;
        let (answer, call) = (spot.answer(), spot.call);
        if let (Asker::Here { ticket, .. }, Some(head)) = (spot.asker, answer.head(self.config.reply_max)) {
            let reply = RootReply::of(&answer, &head);
            self.spot_ends(place);
            return Some(Ended { ticket, call, reply });
        }
        self.outside(outputs, |node| {
            if let Some(slot) = node.take_over(call) {
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

    /// Where a call is in the tables; one on the spot is taken over into them.
    pub(super) fn find(&mut self, call: CallId) -> Option<Slot> {
        self.calls.find(call).or_else(|| self.take_over(call))
    }

    /// Takes a call on the spot over into the tables, as if it had come the long way.
    pub(super) fn take_over(&mut self, call: CallId) -> Option<Slot> {
        let spots = self.spots.as_deref_mut()?;
        let place = spots.find(call)?;
        let mut spot = spots.remove(place)?;
        let (request, origin) = (long_request(&spot)?, origin(&spot));
        let slot = self.calls.insert(request.into(), origin, spot.begun);
        let call = self.calls.get_mut(slot)?;
        (call.deadline, call.until) = (spot.deadline, spot.until);
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
    let limit = u64::try_from(spot.deadline.since(spot.begun).as_micros()).unwrap_or(u64::MAX);
    let left = spot.until.since(spot.begun).as_micros().div_ceil(1000);
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    let of = Particulars { call: spot.call, limit, age: spot.age, left, header: &[], data: &[] };
    spot.plan.request(&of, Group { start: 0, len: spot.plan.ids.len() })
}

fn origin(spot: &Spot) -> Origin {
    match spot.asker {
        Asker::Here { ticket, watch } => Origin::Here { ticket, watch },
        // Its request was consumed when func had run.
        Asker::Parent(id) => Origin::Parent { id, skipped: 0, credit_owed: false },
    }
}
