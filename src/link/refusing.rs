//! Requests that are rejected before they reach the chain. Either the peer may not send them, or it does not read its
//! replies; or their ids do not fit into memory, or do not arrive in time.
//!
//! A rejected request is answered with a small failure, and counts as consumed. Nothing is executed.

use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::state::Link;
use crate::chain::Time;
use crate::wire::message::Answer;
use crate::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Request, Response, Stage, Status,
};

/// Maximum time for the ids, the shape and the header of a request to arrive, even if its time limit is longer: the
/// longest possible ones over a slow line.
const UNFINISHED_MAX: Duration = Duration::from_secs(300);

impl Link {
    /// Returns why a request is rejected whose peer does not read its responses. A request from an adopter goes to the
    /// chain: its response may be retained already.
    pub(super) fn refuses(&mut self, request: &Request) -> Option<Reason> {
        if !self.outbox.was_full() || request.adopted || !self.outbox.is_full() {
            return None;
        }
        let has_credit = self.unacknowledged < self.hiwater();
        has_credit.then(|| Reason::new(CauseKind::NoMemory, self.outbox.refusal()))
    }

    /// Rejects a request that has arrived.
    pub(super) fn refuse_whole(&mut self, me: Id, request: &Request, reason: Reason) -> Result<(), String> {
        self.refuse(me, request.call, none_begun(me, &request.ids), reason)
    }

    /// Answers a request with a failure, and counts it as consumed.
    ///
    /// # Errors
    /// If the peer had no credit for it.
    pub(super) fn refuse(
        &mut self,
        me: Id,
        call: CallId,
        coverage: Coverage,
        reason: Reason,
    ) -> Result<(), String> {
        if !self.admit() {
            return Err(self.too_many());
        }
        self.inbox.drop_request(call);
        self.outbox.push(refusal(me, call, coverage, reason));
        self.consume();
        Ok(())
    }

    /// A request has begun to arrive: sets the deadline of its ids, shape and header. A link has one deadline, the
    /// soonest.
    pub(super) fn begin_request(&mut self, now: Time, call: CallId, limit: Duration) {
        let at = end_of_rest(now, limit);
        if self.inbox.limit(call, at) && self.unfinished.is_none_or(|before| before > at) {
            self.unfinished = Some(at);
        }
    }

    /// A request has arrived, or will not: the deadline goes with the last one.
    pub(super) fn rest_has_come(&mut self) {
        if self.inbox.next_limit().is_none() {
            self.unfinished = None;
        }
    }

    /// Rejects the requests that have not arrived in time, at the [deadline](Link::unfinished), and sets the next
    /// deadline.
    ///
    /// # Errors
    /// If the peer had no credit for one of them.
    pub fn expire_unfinished(&mut self, now: Time, me: Id) -> Result<(), String> {
        let (calls, next) = self.inbox.expire(now);
        self.unfinished = next;
        for call in calls {
            let message = "its ids, shape and header did not come within its time limit";
            self.refuse(me, call, Coverage::new(), Reason::new(CauseKind::TimeLimit, message))?;
        }
        Ok(())
    }
}

/// The coverage of a rejected request: it has not been forwarded.
fn none_begun(me: Id, ids: &IdList) -> Coverage {
    let own = u32::from(ids.first() == Some(me));
    let mut coverage = Coverage::all(Status::Failed, own);
    coverage.push(Status::Unreached, ids.len() - own);
    coverage
}

/// When ids, shape and header of a request must have arrived that has this time limit.
fn end_of_rest(now: Time, limit: Duration) -> Time {
    now.plus(limit.min(UNFINISHED_MAX))
}

/// The response to a rejected request.
fn refusal(me: Id, call: CallId, coverage: Coverage, reason: Reason) -> Message {
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
    fn of_a_rejected_request_only_an_id_that_was_asked_has_failed() {
        let counts = |me, ids| none_begun(me, &IdList::range(ids)).counts();
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
            assert_eq!(end_of_rest(now, limit), now.plus(limit));
        }
        assert_eq!(end_of_rest(now, UNFINISHED_MAX * 2), now.plus(UNFINISHED_MAX));
    }

    /// Awaits no answer and knows no tree.
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

    /// Begins a request with each of these limits, in seconds.
    fn begun(link: &mut Link, limits: &[(u64, u64)]) {
        let mut events = Vec::new();
        for &(sequence, seconds) in limits {
            let begin = begin_of_request(CallId { root: 0, sequence }, Duration::from_secs(seconds));
            link.inbox.feed(&begin, &Nothing, &mut events).unwrap();
        }
        for event in events {
            let heeded = link.heed(at(0), (1, 0), event, |_, _| Ok(())).unwrap();
            assert!(heeded.input.is_none(), "the chain does not have it yet: {heeded:?}");
        }
    }

    fn link() -> Link {
        let mut link = Link::new(Phase::Up(0));
        link.inbox.greeted();
        link
    }

    /// After the first of several unfinished requests had expired, the others had no time limit.
    #[test]
    fn each_unfinished_request_expires_at_its_own_limit() {
        let mut link = link();
        begun(&mut link, &[(1, 8), (2, 3), (3, 5)]);
        assert_eq!(link.unfinished, Some(at(3)), "a link has one deadline, the soonest");
        for (expires, next) in [(3, Some(at(5))), (5, Some(at(8))), (8, None)] {
            let refused = link.unacknowledged;
            link.expire_unfinished(at(expires), 1).unwrap();
            assert_eq!(link.unfinished, next, "after {expires} s");
            assert!(link.outbox.queued() > 0 && link.unacknowledged <= refused + 1);
        }
        assert!(link.inbox.is_idle());
        // None of them is left, so a later one counts again.
        begun(&mut link, &[(4, 9)]);
        assert_eq!(link.unfinished, Some(at(9)));
    }

    /// However many requests are refused, a peer that keeps to its credit is not cut off.
    #[test]
    fn refused_requests_give_their_credit_back() {
        let mut link = link();
        for sequence in 0..2 * u64::from(HIWATER) {
            begun(&mut link, &[(sequence, 3)]);
            link.expire_unfinished(at(3), 1).unwrap();
        }
        assert!(link.unacknowledged < HIWATER, "{} are not acknowledged", link.unacknowledged);
    }

    /// A peer without credit is not answered for what it has begun to send: its link ends.
    #[test]
    fn who_has_no_credit_is_not_refused_politely() {
        let mut link = link();
        begun(&mut link, &[(1, 3)]);
        link.unacknowledged = HIWATER;
        let why = link.expire_unfinished(at(3), 1).unwrap_err();
        assert!(why.contains("more than the 256 requests that it has credit for"), "{why}");
    }
}
