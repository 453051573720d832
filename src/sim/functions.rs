//! What functions do: what they give, when they end, and which of them fail, hang, answer later, or take the data of their request as they come.

use bytes::Bytes;
use gpc_trees::Id;

use super::check::{FunctionEnd, Observation, merged, no_function, part, reason, reply_header};
use super::faults::{Act, Fault};
use super::random::Random;
use super::world::{CallState, Event, FEW, LARGE, World};
use crate::chain::{Input, Job, JobResult, Reply, Taken, Work};
use crate::wire::{CallId, Reason, Request};

/// What of a deferred reply is given after its function has ended, nanoseconds beyond twice what that takes.
const LATER_NS: u64 = 20_000;

/// Latest that the second answer of a token comes behind the first, nanoseconds.
const AGAIN_NS: u64 = 100_000;

/// One of so many functions waits for something while it runs.
const WAIT_PARTS: u64 = 8;

/// Whether a func that is to answer twice uses its token and replies all the same, instead of using its token twice.
fn gives_two(id: Id, call: CallId) -> bool {
    Random::new(call.sequence ^ u64::from(id) << 24).chance(1, 3)
}

impl World {
    /// Runs a function: what it does is known at once, when it ends is its cost.
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
            Work::More(Taken(left)) => {
                // Of a call that has another job's left, nothing was taken that could be gone on with.
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

    /// func runs, and has taken so many bytes of its data before: it ends, or goes on when more have come.
    fn func(&mut self, id: Id, request: &Request, taken: u64) {
        let (call, told, ns) = (request.call, self.told(request), self.takes(id, self.scenario.func_ns));
        if self.takes_as_they_come(call) {
            let whole = self.take(request, taken);
            let Some(true) = whole else {
                let result = match whole {
                    Some(false) => {
                        let left: (CallId, u64) = (call, request.data.taken());
                        JobResult::Taken(Taken(Box::new(left)))
                    }
                    _ => JobResult::Replied(self.of_nobody(id)),
                };
                return self.ends(id, call, ns, result);
            };
        }
        // Drivers have brought the data into one place; a node does without that.
        let reply = if told { self.parts_given(id, call) } else { self.of_nobody(id) };
        self.act(id, call, ns, reply);
    }

    /// Takes what is there of a request's data, behind what was taken before: whether that was all; `None` if something else is there.
    fn take(&self, request: &Request, taken: u64) -> Option<bool> {
        let data = self.checkers.data_of(request.call)?;
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

    /// func has all that it needs, and does what it does at this id.
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
                // It uses its token, and then replies as if it had none: its reply counts.
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

    /// A function ends so much later. One that takes no time ends with what began it where it runs in the node's own loop.
    fn ends(&mut self, id: Id, call: CallId, ns: u64, result: JobResult) {
        if ns == 0 && self.runs_at_once(id) {
            return self.ended.push_back((call, result));
        }
        let (run, result) = (self.hosts.run(id), self.results.put(result));
        self.work(id, ns, Event::Ran { id, run, call: call.into(), result });
    }

    /// Whether the functions of an id run in its node's own loop, as quick ones do: in a large world with faults those of most, where nobody has said how long they take. Each would be an event that its node wakes up for.
    fn runs_at_once(&self, id: Id) -> bool {
        self.profile.times_drawn && self.takes_in_at_once() && !id.is_multiple_of(FEW)
    }

    /// How long a function takes at an id that elsewhere takes so long.
    fn takes(&self, id: Id, ns: u64) -> u64 {
        if self.runs_at_once(id) { 0 } else { ns * self.slowness(id) }
    }

    /// A function has ended, and its node is to learn it.
    pub(super) fn ran(&mut self, id: Id, call: CallId, result: &JobResult) {
        self.trace.fold([self.now, 2, id.into(), call.sequence]);
        self.trace.say(self.now, format_args!("{id} ends a function of {call}"));
        let end = match result {
            JobResult::Deferred => FunctionEnd::Deferred,
            JobResult::Taken(_) => FunctionEnd::Unfinished,
            JobResult::Failed(_) | JobResult::Refused(_) => FunctionEnd::Failed,
            JobResult::Replied(_) => FunctionEnd::Through,
        };
        self.observe(&Observation::Ran { id, call, end });
    }

    /// Some functions wait for something until half of their time is over, and tell their node.
    fn waits_meanwhile(&mut self, id: Id, call: CallId, ns: u64) {
        let waits = Random::new(call.sequence ^ u64::from(id) << 32).chance(1, WAIT_PARTS);
        if waits && self.mishaps.is_some() && self.scenario.n <= LARGE {
            let run = self.hosts.run(id);
            self.queue.push(self.now, Event::Waits { id, run, call, begins: true });
            self.queue.push(self.now + ns / 2, Event::Waits { id, run, call, begins: false });
        }
    }

    /// What it waits for is somebody else's, and not looked at.
    pub(super) fn function_waits(&mut self, id: Id, run: u32, call: CallId, begins: bool) {
        if self.hosts.is_up(id) && self.hosts.run(id) == run {
            let what = format!("id {id} waits for what is not in this world");
            self.trace.say(self.now, format_args!("{what}: {begins}"));
            self.input(id, Input::Waits { call, what: begins.then(|| what.into()) });
        }
    }

    /// What a function gives that answers later, and when that is: its token may be used before it has returned.
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

    /// callback has merged a child's reply, or fails; at once or later.
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
        let reply = if fails { Err(reason(Fault::Callback, id)) } else { Ok(own) };
        let ns = self.takes(id, self.scenario.callback_ns);
        let result = match later {
            true => self.later(id, call, ns, reply).0,
            false => reply.map_or_else(JobResult::Failed, JobResult::Replied),
        };
        self.ends(id, call, ns, result);
    }

    /// A callback that is to fail does so with the first reply, or with a later one, when others are merged and some may wait.
    fn fails_now(&mut self, id: Id, call: CallId) -> bool {
        let well = Random::new(call.sequence ^ u64::from(id) << 16).below(3) as u32;
        let index = self.names.get(&call).copied();
        let state = index.and_then(|index| self.calls.get_mut(index));
        let merged = state.map(|state| state.merged_well.entry(id).or_default());
        merged.is_none_or(|merged| {
            *merged += 1;
            *merged > well
        })
    }

    /// Whether func takes the data of a call as they come.
    pub(super) fn takes_as_they_come(&self, call: CallId) -> bool {
        self.call(call).is_some_and(|state| state.plan.carries.as_they_come)
    }

    /// Whether a request says what its caller means.
    fn told(&self, request: &Request) -> bool {
        let Some(CallState { plan, .. }) = self.call(request.call) else { return false };
        let data =
            || request.data.as_bytes().is_some_and(|given| self.checkers.is_data(request.call, &given));
        request.func == plan.carries.func && (plan.carries.as_they_come || data())
    }

    /// What func gives at an id, its data in one place.
    pub(super) fn given(&self, id: Id, call: CallId) -> Reply {
        let mut reply = self.parts_given(id, call);
        reply.settle();
        reply
    }

    /// What func gives at an id: its own part, and a header. The data are shared at some, partly or all of them.
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

    /// A reply of nobody: the checkers will say so.
    fn of_nobody(&self, id: Id) -> Reply {
        Reply { data: (!id).to_le_bytes().repeat(3), header: vec![0xff; 3], ..Default::default() }
    }
}
