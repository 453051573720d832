//! The part of every other task in a meeting: provides its data, and waits for the announcement of the controlling
//! task.
#![allow(clippy::disallowed_methods, reason = "a meeting has a time limit")]

use std::time::{Duration, Instant};

use chained_gpc::{Call, CallError, CallHandle, CauseKind, Events, Loss, Node, PeerEventKind};

use super::lead::rank;
use super::message::question;
use super::resource::RENEW;
use super::shared::{Shared, controller_lost};
use super::{Deadline, Gathering, MeetError, MeetingOutcome, Plan};
use crate::machine::{Answer, Completion, RankChoice};
use crate::native::decode_answer;
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
    meeting: u64,
    plan: &Plan,
) -> Result<Completion, MeetError> {
    let until = Deadline::after(plan.limit);
    let events = node.events()?;
    let (token, wanted) = (draw_token()?, RankChoice::Rank(rank(&plan.ids, node.id())));
    let register = || match &plan.gathering {
        Gathering::Call => Ok(()),
        Gathering::Resource(resource) => resource.register(wanted, &token, plan.data.clone()).map(drop),
    };
    register()?;
    let mut renewed = Instant::now();
    let ask_next = Instant::now() + ASK_AFTER;
    let mut watch = Watcher {
        shared,
        start: plan.start,
        node,
        meeting,
        events,
        linked: false,
        absent: None,
        asked: None,
        ask_next,
    };
    // Ends: when the time limit has passed.
    loop {
        let left = until.left();
        if let Some(ended) = shared.wait(meeting, left.min(POLL_INTERVAL)) {
            return Ok(ended?);
        }
        if let Some(ended) = watch.poll(left) {
            // An announcement that arrived before the loss counts.
            return Ok(shared.wait(meeting, Duration::ZERO).unwrap_or(ended)?);
        }
        if renewed.elapsed() >= RENEW {
            // Renews the lease, if the task's liveness is not tracked by its link. The controlling task announces any
            // fault, so errors are ignored here.
            drop(register());
            renewed = Instant::now();
        }
        if left.is_zero() {
            return Err(MeetError::Late { from: shared.controlling, limit: plan.limit });
        }
    }
}

/// State of a task that watches the controlling task.
struct Watcher<'a> {
    shared: &'a Shared,
    /// Time that the controlling task may take to start, during which its address does not answer.
    start: Duration,
    node: &'a Node,
    meeting: u64,
    events: Events,
    /// Whether a link with it has been up: before that, it may not have started.
    linked: bool,
    /// Since when its address does not answer.
    absent: Option<Instant>,
    asked: Option<CallHandle>,
    ask_next: Instant,
}

impl Watcher<'_> {
    /// The outcome of the meeting, as far as the link and the controlling task's answer show it.
    fn poll(&mut self, left: Duration) -> Option<MeetingOutcome> {
        let controlling = self.shared.controlling;
        while let Ok(event) = self.events.try_recv() {
            match event.kind {
                _ if event.id != controlling => {}
                PeerEventKind::Up => self.linked = true,
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
        if self.asked.is_none() && Instant::now() >= self.ask_next {
            self.ask_next = Instant::now() + ASK_EVERY;
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
                (self.linked, self.absent) = (true, None);
                let reply = outcome.replies().ok()?.into_iter().next()?;
                return match decode_answer(&reply.header, reply.data).ok()? {
                    Ok(Answer::Completed(completion)) => Some(Ok(completion)),
                    Ok(_) => None,
                    Err(fault) => Some(Err(fault)),
                };
            }
            Err(error) => error,
        };
        let lost = match error.kind()? {
            CauseKind::LinkLost | CauseKind::LostIncarnation => true,
            CauseKind::Unreachable => {
                let absent = self.absent.get_or_insert_with(Instant::now).elapsed();
                self.ask_next = Instant::now() + ASK_AFTER;
                self.linked || self.shared.has_spoken() || absent >= self.start
            }
            _ => false,
        };
        lost.then(|| Err(controller_lost(self.shared.controlling, error)))
    }
}
