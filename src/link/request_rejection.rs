//! Rejects requests before the chain gets them. The peer may lack permission or may not read its responses; the ids may
//! not fit into memory, or may not arrive in time.
//!
//! The response to a rejected request is a small failure, and the request counts as consumed. Nothing is executed.

use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::state::Link;
use crate::chain::Time;
use crate::wire::message::Answer;
use crate::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Request, Response, Stage, Status,
};

/// Maximum time for the ids, the shape and the header of a request to arrive, even if its time limit is longer. It
/// suffices for the longest ones over a slow line.
const UNFINISHED_MAX: Duration = Duration::from_secs(300);

impl Link {
    /// Returns the reason to reject a request whose peer does not read its responses. A request from an adopter goes to
    /// the chain: its response may be retained already.
    pub(super) fn rejection(&mut self, request: &Request) -> Option<Reason> {
        if !self.outbox.is_full() || request.adopted || !self.outbox.update_full() {
            return None;
        }
        let has_credit = self.unacknowledged < self.hiwater();
        has_credit.then(|| Reason::new(CauseKind::NoMemory, self.outbox.refusal()))
    }

    /// Rejects a complete request.
    pub(super) fn reject_request(&mut self, me: Id, request: &Request, reason: Reason) -> Result<(), String> {
        self.reject(me, request.call, unstarted_coverage(me, &request.ids), reason)
    }

    /// Sends a failure as the response to a request, and counts the request as consumed.
    ///
    /// # Errors
    /// If the peer had no credit for it.
    pub(super) fn reject(
        &mut self,
        me: Id,
        call: CallId,
        coverage: Coverage,
        reason: Reason,
    ) -> Result<(), String> {
        if !self.admit() {
            return Err(self.credit_error());
        }
        self.inbox.drop_request(call);
        self.outbox.push(rejection_response(me, call, coverage, reason));
        self.consume();
        Ok(())
    }

    /// Sets the deadline for the ids, shape and header of a request that has begun to arrive. A link has one deadline,
    /// the soonest.
    pub(super) fn begin_request(&mut self, now: Time, call: CallId, limit: Duration) {
        let at = rest_deadline(now, limit);
        if self.inbox.set_deadline(call, at) && self.request_deadline.is_none_or(|before| before > at) {
            self.request_deadline = Some(at);
        }
    }

    /// Clears the deadline of the link after its last incomplete request.
    pub(super) fn clear_request_deadline(&mut self) {
        if self.inbox.next_deadline().is_none() {
            self.request_deadline = None;
        }
    }

    /// Rejects the requests that have not arrived in time, at the [deadline](Link::request_deadline), and sets the next
    /// deadline.
    ///
    /// # Errors
    /// If the peer had no credit for one of them.
    pub fn expire_unfinished(&mut self, now: Time, me: Id) -> Result<(), String> {
        let (calls, next) = self.inbox.expire(now);
        self.request_deadline = next;
        for call in calls {
            let message = "its ids, shape and header did not come within its time limit";
            self.reject(me, call, Coverage::new(), Reason::new(CauseKind::TimeLimit, message))?;
        }
        Ok(())
    }
}

/// The coverage of a rejected request: it has not been forwarded.
fn unstarted_coverage(me: Id, ids: &IdList) -> Coverage {
    let own = u32::from(ids.first() == Some(me));
    let mut coverage = Coverage::all(Status::Failed, own);
    coverage.push(Status::Unreached, ids.len() - own);
    coverage
}

/// Returns the deadline for the ids, shape and header of a request with this time limit.
fn rest_deadline(now: Time, limit: Duration) -> Time {
    now.plus(limit.min(UNFINISHED_MAX))
}

/// The response to a rejected request.
fn rejection_response(me: Id, call: CallId, coverage: Coverage, reason: Reason) -> Message {
    let failure = Failure { cause: Cause::of(me, Stage::Setup, reason), coverage };
    Message::Response(Response { call, answer: Answer::Failed(Box::new(failure)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Context, HIWATER, Phase};
    use crate::wire::frame::{FrameHeader, Kind};
    use crate::wire::head::RequestHead;
    use crate::wire::prefix::request_head;

    #[test]
    fn only_this_id_of_a_rejected_request_has_failed() {
        let counts = |me, ids| unstarted_coverage(me, &IdList::range(ids)).counts();
        let (asked, passed_on) = (counts(3, 3..7), counts(3, 4..7));
        assert_eq!((asked.failed, asked.unreached), (1, 3));
        assert_eq!((passed_on.failed, passed_on.unreached), (0, 3));
    }

    fn at(seconds: u64) -> Time {
        Time::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_request_arrives_within_its_time_limit_and_within_the_bound() {
        let now = at(7);
        for limit in [Duration::from_secs(1), UNFINISHED_MAX] {
            assert_eq!(rest_deadline(now, limit), now.plus(limit));
        }
        assert_eq!(rest_deadline(now, UNFINISHED_MAX * 2), now.plus(UNFINISHED_MAX));
    }

    /// A node that awaits no response and has no trees.
    struct Nothing;

    impl Context for Nothing {
        fn tree(&self, _: u64) -> Option<gpc_trees::Tree> {
            None
        }

        fn awaits(&self, _: CallId) -> bool {
            false
        }

        fn reply_max(&self) -> u64 {
            0
        }
    }

    /// The first frame of a request whose header does not fit into it.
    fn begin_of_request(call: CallId, limit: Duration) -> Vec<u8> {
        let header = vec![1; 100].into();
        let request = Request { limit, header, ..Request::new(call, IdList::range(1..2)) };
        let length = RequestHead::LENGTH as u32;
        let mut frame = FrameHeader { length, kind: Kind::Request, flags: 0 }.emit().to_vec();
        request_head(&request).emit(&mut frame);
        frame
    }

    /// Starts a request with each of these limits, in seconds.
    fn begun(link: &mut Link, limits: &[(u64, u64)]) {
        let mut events = Vec::new();
        for &(sequence, seconds) in limits {
            let begin = begin_of_request(CallId { root: 0, sequence }, Duration::from_secs(seconds));
            link.inbox.feed(&begin, &Nothing, &mut events).unwrap();
        }
        for event in events {
            let effects = link.handle_event(at(0), (1, 0), event, |_, _| Ok(())).unwrap();
            assert!(effects.input.is_none(), "the chain does not have it yet: {effects:?}");
        }
    }

    fn link() -> Link {
        let mut link = Link::new(Phase::Up(0));
        link.inbox.skip_hello();
        link
    }

    /// After the first of several unfinished requests had expired, the others had no time limit.
    #[test]
    fn each_unfinished_request_expires_at_its_own_limit() {
        let mut link = link();
        begun(&mut link, &[(1, 8), (2, 3), (3, 5)]);
        assert_eq!(link.request_deadline, Some(at(3)), "a link has one deadline, the soonest");
        for (expires, next) in [(3, Some(at(5))), (5, Some(at(8))), (8, None)] {
            let refused = link.unacknowledged;
            link.expire_unfinished(at(expires), 1).unwrap();
            assert_eq!(link.request_deadline, next, "after {expires} s");
            assert!(link.outbox.queued() > 0 && link.unacknowledged <= refused + 1);
        }
        assert!(link.inbox.is_idle());
        // All have expired, so the deadline of a later one counts again.
        begun(&mut link, &[(4, 9)]);
        assert_eq!(link.request_deadline, Some(at(9)));
    }

    /// A peer that respects its credit keeps its link, however many of its requests are rejected.
    #[test]
    fn rejected_requests_return_their_credit() {
        let mut link = link();
        for sequence in 0..2 * u64::from(HIWATER) {
            begun(&mut link, &[(sequence, 3)]);
            link.expire_unfinished(at(3), 1).unwrap();
        }
        assert!(link.unacknowledged < HIWATER, "{} are not acknowledged", link.unacknowledged);
    }

    /// An expired request of a peer without credit closes the link.
    #[test]
    fn an_expired_request_without_credit_closes_the_link() {
        let mut link = link();
        begun(&mut link, &[(1, 3)]);
        link.unacknowledged = HIWATER;
        let why = link.expire_unfinished(at(3), 1).unwrap_err();
        assert!(why.contains("more than the 256 requests that it has credit for"), "{why}");
    }
}
