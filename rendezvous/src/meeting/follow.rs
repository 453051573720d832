//! The part of every other task: it brings its data, and waits for what the controlling task announces.
#![allow(clippy::disallowed_methods, reason = "a meeting has a time limit")]

use std::time::{Duration, Instant};

use chained_gpc::{Call, CallError, CallHandle, CauseKind, Events, Loss, Node, PeerEventKind};

use super::lead::rank;
use super::resource::RENEW;
use super::tasks::{Shared, controller_lost, question};
use super::{Ended, Gathering, MeetError, Plan, Until};
use crate::keeper::draw_token;
use crate::machine::{Answer, Completion, Wanted};
use crate::native::decode_answer;

/// How often who waits looks at the link with the controlling task.
const LOOK: Duration = Duration::from_millis(250);

/// When the controlling task is asked for the first time: most meetings are over by then.
const ASK_AFTER: Duration = Duration::from_millis(500);

/// How often it is asked then. While the question is under way, silence is noticed.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Brings this task's data, and waits.
pub(super) fn follow(
    shared: &Shared,
    node: &Node,
    meeting: u64,
    plan: &Plan,
) -> Result<Completion, MeetError> {
    let until = Until::after(plan.limit);
    let events = node.events()?;
    let (token, wanted) = (draw_token()?, Wanted::Rank(rank(&plan.ids, node.id())));
    let register = || match &plan.gathering {
        Gathering::Call => Ok(()),
        Gathering::Resource(resource) => resource.register(wanted, &token, plan.data.clone()).map(drop),
    };
    register()?;
    let mut renewed = Instant::now();
    let ask_next = Instant::now() + ASK_AFTER;
    let mut watch = Watch {
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
    // Ends: the time passes.
    loop {
        let left = until.left();
        if let Some(ended) = shared.wait(meeting, left.min(LOOK)) {
            return Ok(ended?);
        }
        if let Some(ended) = watch.look(left) {
            // What it had announced before it was lost counts.
            return Ok(shared.wait(meeting, Duration::ZERO).unwrap_or(ended)?);
        }
        if renewed.elapsed() >= RENEW {
            // It is seen to live by that, where its link does not show it. What is wrong the controlling task says.
            drop(register());
            renewed = Instant::now();
        }
        if left.is_zero() {
            return Err(MeetError::Late { from: shared.controlling, limit: plan.limit });
        }
    }
}

/// What is known of the controlling task.
struct Watch<'a> {
    shared: &'a Shared,
    /// How long it may be on its way, while nobody answers at its address.
    start: Duration,
    node: &'a Node,
    meeting: u64,
    events: Events,
    /// Whether a link with it has stood: before that, it may not have been started.
    linked: bool,
    /// Since when nobody answers at its address.
    absent: Option<Instant>,
    asked: Option<CallHandle>,
    ask_next: Instant,
}

impl Watch<'_> {
    /// What has become of the meeting, as far as the link and the controlling task tell.
    fn look(&mut self, left: Duration) -> Option<Ended> {
        let controlling = self.shared.controlling;
        while let Ok(event) = self.events.try_recv() {
            match event.kind {
                _ if event.id != controlling => {}
                PeerEventKind::Up => self.linked = true,
                // It goes on, and the next question opens the link again.
                PeerEventKind::Lost { loss: Loss::Closed | Loss::Replaced, .. } => {}
                PeerEventKind::Lost { reason, .. } => return Some(Err(controller_lost(controlling, reason))),
                _ => {}
            }
        }
        if let Some(answer) = self.asked.as_mut().and_then(CallHandle::test) {
            self.asked = None;
            return self.heed(answer);
        }
        if self.asked.is_none() && Instant::now() >= self.ask_next {
            self.ask_next = Instant::now() + ASK_EVERY;
            let call = Call::new(self.shared.functions.announced).ids([controlling]).watch();
            // Where the node has ended, the next look at its links says so.
            self.asked = self.node.call(call.header(question(self.meeting)).limit(left.max(LOOK))).ok();
        }
        None
    }

    fn heed(&mut self, answer: Result<chained_gpc::Outcome, CallError>) -> Option<Ended> {
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
