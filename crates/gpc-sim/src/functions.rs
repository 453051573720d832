//! Simulated functions: what they reply, when they end, and which of them fail, hang, defer their reply, or take the
//! data of their request as they arrive.

use bytes::Bytes;
use gpc_trees::Id;

use super::calls::CallState;
use super::check::{FunctionEnd, Observation, merged, no_function, part, reason, reply_header};
use super::event::Event;
use super::faults::{Act, Fault};
use super::large::{FEW, LARGE};
use super::random::Random;
use super::world::World;
use chained_gpc::chain::{FuncState, Input, Job, JobResult, Reply, Work};
use chained_gpc::wire::{CallId, Reason, Request};

/// Latest time of a deferred reply, nanoseconds beyond twice the run time of its function.
const LATER_NS: u64 = 20_000;

/// Latest that the second use of a token follows the first, nanoseconds.
const AGAIN_NS: u64 = 100_000;

/// One of this many functions waits while it runs.
const WAIT_PARTS: u64 = 8;

/// Whether a func that is to answer twice uses its token once and also returns a reply, instead of using its token
/// twice.
fn gives_two(id: Id, call: CallId) -> bool {
    Random::new(call.sequence ^ u64::from(id) << 24).chance(1, 3)
}

impl World {
    /// Runs a function: its result is decided at once, and its end follows from its cost.
    pub(super) fn execute(&mut self, id: Id, job: Job) {
        let call = job.call;
        let until = Some(job.until.as_nanos());
        self.observe(&Observation::Job { id, job: &job });
        self.observe(&Observation::Began { id, call, until });
        match job.work {
            Work::Func => {
                let run = self.hosts.run(id);
                self.trace.say(self.now, format_args!("{id} executes {call}"));
                self.observe(&Observation::Executed { id, run, call });
                self.func(id, &job.request, 0);
            }
            Work::More(FuncState(left)) => {
                // State left by another call's job: no data of this call were taken that could be continued.
                let (of, taken) = left.downcast().map_or((call, u64::MAX), |left| *left);
                self.func(id, &job.request, if of == call { taken } else { u64::MAX });
            }
            Work::Callback { from, child, mut own } => {
                let data = std::mem::take(own.own_data());
                own.data = merged(data, &child.data.as_slice());
                own.header = merged(own.header, &child.header.as_slice());
                self.trace.say(self.now, format_args!("{id} merges the reply of {from} in {call}"));
                self.callback(id, &job.request, own);
            }
        }
    }

    /// Runs func, which has taken `taken` bytes of its data before. It ends, or continues when more data arrive.
    fn func(&mut self, id: Id, request: &Request, taken: u64) {
        let (call, as_sent, ns) =
            (request.call, self.is_as_sent(id, request), self.takes(id, self.scenario.func_ns));
        if self.takes_as_they_come(call) {
            let whole = self.take(id, request, taken);
            let Some(true) = whole else {
                let result = match whole {
                    Some(false) => {
                        let left: (CallId, u64) = (call, request.data.taken());
                        JobResult::Taken(FuncState(Box::new(left)))
                    }
                    _ => JobResult::Replied(self.of_nobody(id)),
                };
                return self.ends(id, call, ns, result);
            };
        }
        // A driver joins the data of a reply into one buffer; a node accepts them in parts as well.
        let reply = if as_sent { self.parts_given(id, call) } else { self.of_nobody(id) };
        self.act(id, call, ns, reply);
    }

    /// Takes the data of a request beyond the first `taken` bytes. Returns whether they are complete, or `None` if they
    /// are wrong.
    fn take(&self, id: Id, request: &Request, taken: u64) -> Option<bool> {
        let data = self.checkers.data_of(request.call, id)?;
        let mut taken = taken;
        loop {
            let bytes = request.data.read(taken, data.len());
            if bytes.is_empty() {
                return Some(taken == data.len() as u64).filter(|_| taken <= data.len() as u64);
            }
            let from = usize::try_from(taken).ok().filter(|from| *from <= data.len())?;
            if !data[from..].starts_with(&bytes) {
                return None;
            }
            taken += bytes.len() as u64;
            request.data.passed(taken);
        }
    }

    /// Acts as planned for this id: all data that func needs are there.
    fn act(&mut self, id: Id, call: CallId, mut ns: u64, reply: Reply) {
        let run = self.hosts.run(id);
        let act = self.call(call).and_then(|state| state.acts.get(&id)).copied();
        let fault = match act {
            Some(Act::Fail | Act::Refuse | Act::FailLater) => Some(Fault::Fail),
            Some(Act::Panic) => Some(Fault::Panic),
            Some(Act::Hang(_)) => Some(Fault::Hang),
            Some(Act::Twice) => Some(Fault::Twice),
            Some(Act::Defer) | None => None,
        };
        fault.into_iter().for_each(|fault| self.inject(fault, &[id]));
        self.perhaps_too_long(id, call, &reply);
        self.waits_meanwhile(id, call, ns);
        let result = match act {
            None => JobResult::Replied(reply),
            Some(Act::Fail) => JobResult::Failed(reason(Fault::Fail, id)),
            Some(Act::Refuse) => JobResult::Refused(no_function(id)),
            Some(Act::Panic) => JobResult::Failed(reason(Fault::Panic, id)),
            Some(Act::Hang(more)) => {
                ns += more;
                JobResult::Replied(reply)
            }
            Some(Act::Defer) => self.later(id, call, ns, Ok(reply)).0,
            Some(Act::FailLater) => self.later(id, call, ns, Err(reason(Fault::Fail, id))).0,
            Some(Act::Twice) if gives_two(id, call) => {
                // The function uses its token and then returns a reply as well: the returned reply counts.
                let (before, reply_of_nobody) = (self.now + self.random.below(ns + 1), self.of_nobody(id));
                let early = Box::new(Ok(reply_of_nobody));
                self.queue.push(before, Event::Answered { id, run, call: call.into(), reply: early });
                JobResult::Replied(reply)
            }
            Some(Act::Twice) => {
                let (deferred, first) = self.later(id, call, ns, Ok(reply));
                let again = first + self.random.below(AGAIN_NS);
                let reply = Box::new(Ok(self.of_nobody(id)));
                self.queue.push(again, Event::Answered { id, run, call: call.into(), reply });
                deferred
            }
        };
        self.ends(id, call, ns, result);
    }

    /// Ends a function after `ns` nanoseconds. An inline function that takes no time ends within the input that started
    /// it.
    fn ends(&mut self, id: Id, call: CallId, ns: u64, result: JobResult) {
        if ns == 0 && self.runs_at_once(id) {
            return self.buffers.ended.push_back((call, result));
        }
        let (run, result) = (self.hosts.run(id), Box::new(result));
        self.work(id, ns, Event::Ran { id, run, call: call.into(), result });
    }

    /// Whether the functions of an id run inline on its event loop. In a large world with faults most do, unless the
    /// scenario sets their times: each would otherwise be an event of its own.
    fn runs_at_once(&self, id: Id) -> bool {
        self.profile.times_drawn && self.takes_in_at_once() && !id.is_multiple_of(FEW)
    }

    /// Run time of a function at an id, given its normal run time.
    fn takes(&self, id: Id, ns: u64) -> u64 {
        if self.runs_at_once(id) { 0 } else { ns * self.slowness(id) }
    }

    /// Records the end of a function, of which its node is about to learn.
    pub(super) fn ran(&mut self, id: Id, call: CallId, result: &JobResult) {
        self.trace.fold([self.now, 2, id.into(), call.sequence]);
        self.trace.say(self.now, format_args!("{id} ends a function of {call}"));
        let end = match result {
            JobResult::Replied(reply) if self.is_too_long(call, reply) => FunctionEnd::Failed,
            JobResult::Deferred => FunctionEnd::Deferred,
            JobResult::Taken(_) => FunctionEnd::Unfinished,
            JobResult::Failed(_) | JobResult::Refused(_) => FunctionEnd::Failed,
            JobResult::Replied(_) => FunctionEnd::Through,
        };
        self.observe(&Observation::Ran { id, call, end });
    }

    /// Has some functions report a wait to their node for the first half of their run time.
    fn waits_meanwhile(&mut self, id: Id, call: CallId, ns: u64) {
        let waits = Random::new(call.sequence ^ u64::from(id) << 32).chance(1, WAIT_PARTS);
        if waits && self.mishaps.is_some() && self.scenario.n <= LARGE {
            let run = self.hosts.run(id);
            self.queue.push(self.now, Event::Waits { id, run, call, begins: true });
            self.queue.push(self.now + ns / 2, Event::Waits { id, run, call, begins: false });
        }
    }

    /// The object of the wait is outside this world.
    pub(super) fn function_waits(&mut self, id: Id, run: u32, call: CallId, begins: bool) {
        if self.hosts.is_up(id) && self.hosts.run(id) == run {
            let what = format!("id {id} waits for what is not in this world");
            self.trace.say(self.now, format_args!("{what}: {begins}"));
            self.input(id, Input::Waits { call, what: begins.then(|| what.into()) });
        }
    }

    /// Defers a reply: returns the result of the function, and the time of the reply, which may be before the function
    /// returns.
    fn later(
        &mut self,
        id: Id,
        call: CallId,
        ns: u64,
        reply: Result<Reply, Box<Reason>>,
    ) -> (JobResult, u64) {
        let (at, run) = (self.now + self.random.below(2 * ns + LATER_NS), self.hosts.run(id));
        self.queue.push(at, Event::Answered { id, run, call: call.into(), reply: Box::new(reply) });
        (JobResult::Deferred, at)
    }

    /// Ends a callback that has merged a child's reply, or fails it; at once or deferred.
    fn callback(&mut self, id: Id, request: &Request, mut own: Reply) {
        let call = request.call;
        let state = self.call(call);
        let is_to_fail = state.is_some_and(|state| state.callbacks_fail.contains(&id));
        let later = state.is_some_and(|state| state.callbacks_later.contains(&id));
        let fails = is_to_fail && self.fails_now(id, call);
        if fails {
            self.inject(Fault::Callback, &[id]);
        }
        if !self.calls_callback(request) {
            own = self.of_nobody(id);
        }
        own.settle();
        if !fails {
            self.perhaps_too_long(id, call, &own);
        }
        let reply = if fails { Err(reason(Fault::Callback, id)) } else { Ok(own) };
        let ns = self.takes(id, self.scenario.callback_ns);
        let result = match later {
            true => self.later(id, call, ns, reply).0,
            false => reply.map_or_else(JobResult::Failed, JobResult::Replied),
        };
        self.ends(id, call, ns, result);
    }

    /// Whether a reply exceeds the limits of its call.
    fn is_too_long(&self, call: CallId, reply: &Reply) -> bool {
        let data = reply.len() - reply.header.len();
        self.call(call).is_some_and(|state| state.plan.is_exceeded(reply.header.len(), data))
    }

    /// A function writes more than its call takes.
    fn perhaps_too_long(&mut self, id: Id, call: CallId, reply: &Reply) {
        if self.is_too_long(call, reply) {
            self.inject(Fault::LongReply, &[id]);
        }
    }

    /// Whether a callback that is to fail fails now: at the first reply or at a later one, when some replies are merged
    /// and others may wait.
    fn fails_now(&mut self, id: Id, call: CallId) -> bool {
        let well = Random::new(call.sequence ^ u64::from(id) << 16).below(3) as u32;
        let index = self.calls.names.get(&call).copied();
        let state = index.and_then(|index| self.calls.all.get_mut(index));
        let merged = state.map(|state| state.merged_well.entry(id).or_default());
        merged.is_none_or(|merged| {
            *merged += 1;
            *merged > well
        })
    }

    /// Whether func takes the data of a call as they arrive.
    pub(super) fn takes_as_they_come(&self, call: CallId) -> bool {
        self.call(call).is_some_and(|state| state.plan.carries.as_they_come)
    }

    /// Whether a request carries what its caller sent.
    fn is_as_sent(&self, id: Id, request: &Request) -> bool {
        let Some(CallState { plan, .. }) = self.call(request.call) else { return false };
        let data =
            || request.data.as_bytes().is_some_and(|given| self.checkers.is_data(request.call, id, &given));
        request.func == plan.carries.func && (plan.carries.as_they_come || data())
    }

    /// Reply of func at an id, its data in one buffer.
    pub(super) fn given(&self, id: Id, call: CallId) -> Reply {
        let mut reply = self.parts_given(id, call);
        reply.settle();
        reply
    }

    /// Reply of func at an id: its part of the data, and a header. At some ids part or all of the data are shared
    /// bytes.
    fn parts_given(&self, id: Id, call: CallId) -> Reply {
        let plan = self.call(call).map(|state| &state.plan);
        let (len, header) = plan.map_or((4, 0), |plan| (plan.reply_bytes, plan.carries.reply_header_bytes));
        let (mut data, header) = (part(call, id, len), reply_header(call, id, header));
        let mut random = Random::new(call.sequence ^ u64::from(id) << 40);
        let owned = match random.below(4) {
            _ if self.mishaps.is_none() => data.len(),
            0 => 0,
            1 => random.below(data.len() as u64 + 1) as usize,
            _ => data.len(),
        };
        let shared = Bytes::from(data.split_off(owned));
        Reply { data, header, shared }
    }

    fn calls_callback(&self, request: &Request) -> bool {
        let state = self.call(request.call);
        state.is_some_and(|state| request.callback == Some(state.plan.carries.callback))
    }

    /// A reply that fits no id, which the checkers report.
    fn of_nobody(&self, id: Id) -> Reply {
        Reply { data: (!id).to_le_bytes().repeat(3), header: vec![0xff; 3], ..Default::default() }
    }
}
