//! The part of every other task in a meeting: provides its data, and waits for the announcement of the controlling
//! task.

use std::time::Duration;

use chained_gpc::{Call, CallError, CallHandle, CauseKind, Clock, Events, Loss, Node, PeerEventKind};

use super::lead::rank;
use super::message::question;
use super::resource::RENEW;
use super::shared::{Shared, controller_lost};
use super::{Gathering, MeetError, MeetingOutcome, Plan};
use crate::machine::{Answer, Completion, RankChoice};
use crate::native::{LIMIT_MAX, decode_answer};
use crate::service_thread::draw_token;

/// Interval at which a waiting task checks its link with the controlling task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Time before the controlling task is asked first: most meetings are over by then.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// Interval of later questions. A question in progress detects a silent controlling task.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Provides this task's data, and waits for the announcement.
pub(super) fn follow(
    shared: &Shared,
    node: &Node,
    clock: &Clock,
    meeting: u64,
    plan: &Plan,
) -> Result<Completion, MeetError> {
    let until = clock.limit(plan.limit.min(LIMIT_MAX));
    let events = node.events()?;
    let (token, wanted) = (draw_token()?, RankChoice::Rank(rank(&plan.ids, node.id())));
    let register = || match &plan.gathering {
        Gathering::Call => Ok(()),
        Gathering::Resource(resource) => resource.register(wanted, &token, plan.data.clone()).map(drop),
    };
    register()?;
    let (mut lease, now) = (clock.limit(RENEW), clock.now());
    let state = Watching::new(now, plan.start);
    let mut watch = Watcher { shared, node, clock, meeting, events, asked: None, state };
    // Ends: when the time limit has passed.
    loop {
        let left = until.left().unwrap_or_default();
        if let Some(ended) = shared.wait(meeting, left.min(POLL_INTERVAL)) {
            return Ok(ended?);
        }
        if let Some(ended) = watch.poll(left) {
            // An announcement that arrived before the loss counts.
            return Ok(shared.wait(meeting, Duration::ZERO).unwrap_or(ended)?);
        }
        if lease.is_over() {
            // Renews the lease, if the task's liveness is not tracked by its link. The controlling task announces any
            // fault, so errors are ignored here.
            drop(register());
            lease = clock.limit(RENEW);
        }
        if left.is_zero() {
            return Err(MeetError::Late { from: shared.controlling, limit: plan.limit });
        }
    }
}

/// A task that watches the controlling task.
struct Watcher<'a> {
    shared: &'a Shared,
    node: &'a Node,
    clock: &'a Clock,
    meeting: u64,
    events: Events,
    asked: Option<CallHandle>,
    state: Watching,
}

/// What a task knows about the controlling task. No I/O: times are arguments.
#[derive(Debug)]
struct Watching {
    /// Time that the controlling task may take to start, during which its address does not answer.
    start: Duration,
    /// Whether a link with it has been up: before that, it may not have started.
    linked: bool,
    /// Since when its address does not answer.
    absent: Option<Duration>,
    ask_next: Duration,
}

impl Watching {
    fn new(now: Duration, start: Duration) -> Watching {
        Watching { start, linked: false, absent: None, ask_next: now + ASK_AFTER }
    }

    /// Whether to ask the controlling task now. The next question follows after [`ASK_EVERY`].
    fn asks(&mut self, now: Duration) -> bool {
        let is_due = now >= self.ask_next;
        if is_due {
            self.ask_next = now + ASK_EVERY;
        }
        is_due
    }

    /// It has answered.
    fn answered(&mut self) {
        (self.linked, self.absent) = (true, None);
    }

    /// A question has failed for this reason. Returns whether the controlling task is lost. `spoken` says whether it
    /// has sent anything, and so has started.
    fn failed(&mut self, now: Duration, kind: CauseKind, spoken: bool) -> bool {
        match kind {
            CauseKind::LinkLost | CauseKind::LostIncarnation => true,
            CauseKind::Unreachable => {
                let absent = now - *self.absent.get_or_insert(now);
                self.ask_next = now + ASK_AFTER;
                self.linked || spoken || absent >= self.start
            }
            _ => false,
        }
    }
}

impl Watcher<'_> {
    /// The outcome of the meeting, as far as the link and the controlling task's answer show it.
    fn poll(&mut self, left: Duration) -> Option<MeetingOutcome> {
        let controlling = self.shared.controlling;
        while let Ok(event) = self.events.try_recv() {
            match event.kind {
                _ if event.id != controlling => {}
                PeerEventKind::Up => self.state.linked = true,
                // The controlling task lives on, and the next question opens the link again.
                PeerEventKind::Lost { loss: Loss::Closed | Loss::Replaced, .. } => {}
                PeerEventKind::Lost { reason, .. } => return Some(Err(controller_lost(controlling, reason))),
                _ => {}
            }
        }
        if let Some(answer) = self.asked.as_mut().and_then(CallHandle::test) {
            self.asked = None;
            return self.handle_reply(answer);
        }
        if self.asked.is_none() && self.state.asks(self.clock.now()) {
            let call = Call::new(self.shared.functions.announced).ids([controlling]).watch();
            // If the node has ended, its link events report it at the next check.
            self.asked =
                self.node.call(call.header(question(self.meeting)).limit(left.max(POLL_INTERVAL))).ok();
        }
        None
    }

    fn handle_reply(&mut self, answer: Result<chained_gpc::Outcome, CallError>) -> Option<MeetingOutcome> {
        let error = match answer {
            Ok(outcome) => {
                self.state.answered();
                let reply = outcome.replies().ok()?.into_iter().next()?;
                return match decode_answer(&reply.header, reply.data).ok()? {
                    Ok(Answer::Completed(completion)) => Some(Ok(completion)),
                    Ok(_) => None,
                    Err(fault) => Some(Err(fault)),
                };
            }
            Err(error) => error,
        };
        let lost = self.state.failed(self.clock.now(), error.kind()?, self.shared.has_spoken());
        lost.then(|| Err(controller_lost(self.shared.controlling, error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(10);
    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_question_comes_after_half_a_second_and_others_every_five() {
        let begin = Duration::from_secs(100);
        let mut state = Watching::new(begin, START);
        assert!(!state.asks(begin + ASK_AFTER - MILLI));
        assert!(state.asks(begin + ASK_AFTER));
        assert!(!state.asks(begin + ASK_AFTER + ASK_EVERY - MILLI));
        assert!(state.asks(begin + ASK_AFTER + ASK_EVERY));
        // If the address does not answer, the next question follows soon.
        let now = begin + ASK_AFTER + ASK_EVERY + MILLI;
        assert!(!state.failed(now, CauseKind::Unreachable, false));
        assert!(!state.asks(now + ASK_AFTER - MILLI));
        assert!(state.asks(now + ASK_AFTER));
    }

    #[test]
    fn a_controlling_task_may_take_its_time_to_start() {
        let begin = Duration::from_secs(100);
        let unreachable = CauseKind::Unreachable;
        let mut state = Watching::new(begin, START);
        assert!(!state.failed(begin, unreachable, false));
        assert!(!state.failed(begin + START - MILLI, unreachable, false));
        assert!(state.failed(begin + START, unreachable, false));
        // An answer ends the absence; and a task that has started does not start again.
        let mut state = Watching::new(begin, START);
        assert!(!state.failed(begin, unreachable, false));
        state.answered();
        assert_eq!(state.absent, None);
        assert!(state.failed(begin + MILLI, unreachable, false));
        assert!(Watching::new(begin, START).failed(begin, unreachable, true));
        assert!(Watching::new(begin, Duration::ZERO).failed(begin, unreachable, false));
    }

    #[test]
    fn a_lost_link_is_a_lost_task_and_other_failures_are_not() {
        for kind in [CauseKind::LinkLost, CauseKind::LostIncarnation] {
            assert!(Watching::new(START, START).failed(START, kind, false), "{kind:?}");
        }
        for kind in [CauseKind::Busy, CauseKind::NoMemory, CauseKind::Failed, CauseKind::UnknownFunction] {
            assert!(!Watching::new(START, START).failed(2 * START, kind, true), "{kind:?}");
        }
    }
}
