//! The node: takes every input and returns every output.

use gpc_trees::Id;

use super::calls::Calls;
use super::completed_calls::CompletedCalls;
use super::deadlines::Deadlines;
use super::fast_calls::FastCalls;
use super::liveness::Liveness;
use super::load::Load;
use super::recorder::Recorder;
use super::retained_answers::RetainedAnswers;
use super::run_queue::RunQueue;
use super::tickets::Tickets;
use super::time::sooner;
use super::urgent_calls::UrgentCalls;
use super::{Config, Heartbeat, Input, Output, Outputs, Time};
use crate::branch_hint::unlikely;
use crate::wire::message::Response;
use crate::wire::{CallId, Message};

/// The state machine of all calls at one id. See the [module](super) for the order of use.
#[derive(Debug)]
pub struct Node {
    pub(super) config: Config,
    pub(super) now: Time,
    pub(super) next_sequence: u64,
    pub(super) calls: Calls,
    /// The calls that were started here, by the driver's ticket.
    pub(super) tickets: Tickets<CallId>,
    pub(super) deadlines: Deadlines,
    pub(super) run_queue: RunQueue,
    pub(super) completed: CompletedCalls,
    /// Whether new calls are rejected.
    pub(super) closed: bool,
    pub(super) retained: RetainedAnswers,
    pub(super) liveness: Liveness,
    pub(super) load: Load,
    /// `None` before the first short call.
    pub(super) fast_calls: Option<Box<FastCalls>>,
    /// `None` before the first heartbeat request.
    pub(super) urgent: Option<Box<UrgentCalls>>,
    pub(super) recorder: Recorder,
    /// The driver's queue, while an input is processed.
    outputs: Outputs,
}

impl Node {
    /// Returns a node without calls.
    pub fn new(mut config: Config) -> Node {
        config.heartbeat = config.heartbeat.map(Heartbeat::asking_often);
        Node {
            now: Time::default(),
            next_sequence: config.incarnation,
            calls: Calls::new(config.seed),
            tickets: Tickets::default(),
            deadlines: Deadlines::default(),
            run_queue: RunQueue::new(std::iter::once(config.workers).chain(config.executors.iter().copied())),
            completed: CompletedCalls::new(config.seed, &config.sizes),
            closed: false,
            retained: RetainedAnswers::of(config.memory.clone(), config.me),
            liveness: Liveness::default(),
            load: Load::new(config.sizes.work),
            fast_calls: None,
            urgent: None,
            recorder: Recorder::new(config.me, config.recorded, config.metrics.clone(), config.seed),
            outputs: Outputs::new(),
            config,
        }
    }

    /// Processes one input, and appends the resulting actions to `outputs`.
    ///
    /// # Panics
    /// If outputs of the previous input have not been drained: they would be carried out in the wrong order.
    pub fn input(&mut self, now: Time, input: Input, outputs: &mut Outputs) {
        assert!(outputs.is_empty(), "drain every output of a node before its next input");
        std::mem::swap(&mut self.outputs, outputs);
        self.take(now, input);
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// Advances the time. The work at one time is bounded, and a later time renews the bound.
    #[inline(always)]
    pub(super) fn at(&mut self, now: Time) {
        if now > self.now {
            self.now = now;
            self.load.renew();
        }
    }

    fn take(&mut self, now: Time, input: Input) {
        self.at(now);
        let is_tick = matches!(input, Input::Tick);
        if let Input::Message { from, .. }
        | Input::ReplyArrived { from, .. }
        | Input::ReplyRefused { from, .. }
        | Input::Heartbeat(from) = &input
        {
            self.liveness.record_activity(*from, self.now);
        }
        match input {
            Input::Start { ticket, start } => self.start(ticket, *start),
            Input::GiveUp { ticket } => self.give_up(ticket),
            Input::Follow { ticket } => self.follow(ticket),
            Input::Message { from, message: Message::Request(request) } => self.request(from, request),
            Input::Message { from, message: Message::Response(Response { call, answer }) } => {
                self.response(from, call, answer);
            }
            Input::Message { from, message: Message::Cancel(call) } => self.cancelled(from, call),
            Input::Message { from, message: Message::Release(call) } => self.released(from, call),
            Input::Message { from, message: Message::Moved(call) } => self.moved(from, call),
            Input::Message { from, message: Message::Ping } => {
                self.report_stragglers(from);
                self.emit(Output::Send { to: from, message: Message::Pong });
            }
            Input::Message { from, message: Message::Pong } => self.liveness.pong_came(from),
            Input::Message { from, message: Message::Stragglers(stragglers) } => {
                self.liveness.store_report(from, self.now, stragglers);
            }
            Input::Message { from, message: Message::Pause(length) } => {
                self.liveness.pauses(from, self.now, length);
            }
            Input::DataArrived(call) => {
                if let Some(slot) = self.calls.find(call) {
                    self.advance(slot);
                }
            }
            Input::DataRefused { call, why } => self.data_refused(call, why),
            Input::ReplyArrived { from, call } => self.reply_arrived(from, call),
            Input::ReplyRefused { from, call, why } => self.reply_refused(from, call, &why),
            Input::Ran { call, result } => self.ran(call, result),
            Input::Waits { call, what } => self.run_queue.waits(call, what),
            Input::Answered { call, result } => self.answered(call, result),
            Input::LinkUp { peer, incarnation } => self.completed.linked(peer, incarnation),
            Input::LinkLost { peer, kind, why, unreached } => self.link_lost(peer, kind, &why, unreached),
            Input::Unreachable { peer, call, why } => self.unreachable(peer, call, &why),
            Input::Tick => {
                // After all other inputs of that time.
                self.completed.partial.expire(self.now);
                self.go_on_with_delayed();
            }
            Input::Heartbeat(_) => {}
            Input::PingLeft(peer) => self.liveness.question_left(peer, self.now),
        }
        self.run_heartbeats();
        self.expire();
        if is_tick {
            self.end_late();
        }
        // After the calls: one of them may have left an answer that has already expired.
        self.retained.expire(self.now);
        self.run_ready();
    }

    /// When the next [`Input::Tick`] is due, if anything is in flight.
    #[inline(always)]
    pub fn next_deadline(&self) -> Option<Time> {
        if unlikely(self.load.is_waiting()) {
            return Some(self.now);
        }
        if self.calls() == 0 && self.retained.len() == 0 {
            return self.completed.partial.next();
        }
        let fast_calls = self.fast_calls.as_ref().and_then(|fast_calls| fast_calls.next());
        let calls = sooner(self.deadlines.next(), fast_calls);
        let ended = sooner(self.completed.partial.next(), self.retained.next());
        sooner(calls, sooner(ended, self.liveness.next()))
    }

    /// Whether memory of ended calls is still allocated. A node without calls should release it soon.
    pub fn has_spare_memory(&self) -> bool {
        self.calls.has_spare_memory()
            | self.fast_calls.as_ref().is_some_and(|fast_calls| fast_calls.has_spare_memory())
    }

    /// Frees the memory that ended calls left for later calls.
    pub fn release_spare_memory(&mut self) {
        self.fast_calls.iter_mut().for_each(|fast_calls| fast_calls.release_spare_memory());
        self.calls.release_spare_memory();
        self.deadlines.release_spare_memory();
        self.run_queue.release_spare_memory();
        self.tickets.release_spare_memory();
        self.urgent = None;
    }

    /// Rejects new calls from now on; calls in flight go on.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Number of calls in flight.
    pub fn calls(&self) -> usize {
        self.calls.len() + self.fast_calls.as_ref().map_or(0, |fast_calls| fast_calls.len())
    }

    /// Number of answers retained for adopters.
    pub fn retained_answers(&self) -> usize {
        self.retained.len()
    }

    /// Number of jobs that were started and whose result is missing.
    pub fn jobs_running(&self) -> usize {
        self.run_queue.running()
    }

    /// Number of calls whose function waits for a worker.
    pub fn functions_waiting(&self) -> usize {
        self.run_queue.waiting()
    }

    /// Whether a call is in flight at this id.
    pub fn has_call(&self, call: CallId) -> bool {
        let fast_calls = self.fast_calls.as_ref();
        fast_calls.is_some_and(|fast_calls| fast_calls.find(call).is_some())
            || self.calls.named(call).is_some()
    }

    /// Whether a call here awaits an answer of this child.
    pub fn awaits(&self, child: Id, call: CallId) -> bool {
        let fast_calls = self.fast_calls.as_ref();
        let fast_call = fast_calls.and_then(|fast_calls| fast_calls.get(fast_calls.find(call)?));
        fast_call.is_some_and(|fast_call| fast_call.awaited_child(child).is_some())
            || self.calls.named(call).is_some_and(|call| call.awaited_child(child).is_some())
    }

    /// Configuration of the node.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn swap_outputs(&mut self, outputs: &mut Outputs) {
        std::mem::swap(&mut self.outputs, outputs);
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}
