//! Rejects requests before they reach the chain. Either the peer may not send them, or it does not read its replies; or
//! their ids do not fit into memory, or do not arrive in time.
//!
//! A rejected request is answered with a small failure, and counts as consumed. Nothing is executed.

use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::deadline_queue::DeadlineOwner;
use super::functions::Functions;
use super::links::Links;
use super::reading::too_many;
use crate::chain::Time;
use crate::link::peering::LinkKey;
use crate::link::{Event, HIWATER, Refused};
use crate::wire::message::Answer;
use crate::wire::{
    CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Request, Response, Stage, Status,
};

/// Maximum time for the ids, the shape and the header of a request to arrive, even if its time limit is longer: the
/// longest possible ones over a slow line.
const UNFINISHED_MAX: Duration = Duration::from_secs(300);

impl Links {
    /// Rejects a request that this id may not send over this link; returns whether it has. The root does not matter: it
    /// is known only from the parent.
    ///
    /// # Errors
    /// If the peer had no credit for it.
    pub(super) fn forbids(
        &mut self,
        functions: &Functions,
        key: LinkKey,
        from: Id,
        request: &Request,
    ) -> Result<bool, String> {
        let Some(link) = self.links.link_mut(key) else { return Ok(false) };
        // Without a child there is nothing to merge.
        let callback = request.callback.filter(|_| request.ids.len() > 1);
        match functions.permit(request.func, callback, link.proof, from) {
            Ok(()) => Ok(false),
            Err(reason) => self
                .refuse_request(key, request.call, none_begun(self.me, &request.ids), reason)
                .map(|()| true),
        }
    }

    /// Rejects a request of a peer that does not read its responses; returns whether it has. A request from an adopter
    /// goes to the chain: its response may be retained already.
    pub(super) fn refuses(&mut self, key: LinkKey, request: &Request) -> bool {
        let Some(link) = self.links.link_mut(key).filter(|link| link.outbox.was_full()) else { return false };
        if request.adopted || !link.outbox.is_full() || link.unacknowledged >= HIWATER {
            return false;
        }
        let reason = Reason::new(CauseKind::NoMemory, link.outbox.refusal());
        self.refuse_request(key, request.call, none_begun(self.me, &request.ids), reason).is_ok()
    }

    /// Answers a request with a failure, and counts it as consumed.
    ///
    /// # Errors
    /// If the peer had no credit for it.
    pub(super) fn refuse_request(
        &mut self,
        key: LinkKey,
        call: CallId,
        coverage: Coverage,
        reason: Reason,
    ) -> Result<(), String> {
        let me = self.me;
        let Some(link) = self.links.link_mut(key) else { return Ok(()) };
        link.unacknowledged += 1;
        if link.unacknowledged > HIWATER {
            return Err(too_many());
        }
        link.inbox.drop_request(call);
        link.outbox.push(refusal(me, call, coverage, reason));
        link.consume();
        link.mark(&mut self.dirty, key);
        Ok(())
    }

    /// Handles an event of an incomplete request, which the chain does not have yet.
    ///
    /// # Errors
    /// If the peer had no credit for it.
    pub(super) fn unfinished_event(&mut self, now: Time, key: LinkKey, event: Event) -> Result<(), String> {
        match event {
            Event::Begun { call, limit } => self.unfinished(now, key, call, limit),
            Event::Refused(Refused { call, why }) => {
                self.rest_has_come(key);
                let reason = Reason::new(CauseKind::NoMemory, why);
                return self.refuse_request(key, call, Coverage::new(), reason);
            }
            Event::Abandoned => {
                self.rest_has_come(key);
                if let Some(link) = self.links.link_mut(key) {
                    link.unacknowledged += 1;
                    if link.consume() {
                        link.mark(&mut self.dirty, key);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A request has begun to arrive: sets the deadline of its ids, shape and header.
    fn unfinished(&mut self, now: Time, key: LinkKey, call: CallId, limit: Duration) {
        let at = end_of_rest(now, limit);
        let Some(link) = self.links.link_mut(key) else { return };
        if link.inbox.limit(call, at) {
            self.wait_for_rest(key, at);
        }
    }

    /// Keeps one deadline for each link, the soonest.
    fn wait_for_rest(&mut self, key: LinkKey, at: Time) {
        let Some(link) = self.links.link_mut(key) else { return };
        if link.unfinished.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = link.unfinished.replace(at) {
            self.due.remove(before, DeadlineOwner::Request(key));
        }
        self.due.add(at, DeadlineOwner::Request(key));
    }

    /// A request has arrived, or will not: the deadline goes with the last one.
    pub(super) fn rest_has_come(&mut self, key: LinkKey) {
        let Some(link) = self.links.link_mut(key) else { return };
        if link.inbox.next_limit().is_none()
            && let Some(at) = link.unfinished.take()
        {
            self.due.remove(at, DeadlineOwner::Request(key));
        }
    }

    /// Rejects the requests of a link that have not arrived in time.
    pub(super) fn expire_unfinished(&mut self, now: Time, key: LinkKey) {
        let Some(link) = self.links.link_mut(key) else { return };
        link.unfinished = None;
        let (calls, next) = link.inbox.expire(now);
        for call in calls {
            let message = "its ids, shape and header did not come within its time limit";
            let reason = Reason::new(CauseKind::TimeLimit, message);
            if let Err(why) = self.refuse_request(key, call, Coverage::new(), reason) {
                self.close(now, key, &why);
            }
        }
        if let Some(at) = next {
            self.wait_for_rest(key, at);
        }
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
    use crate::link::Context;
    use crate::runtime::{LinkKind, Listener, Node};
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

    #[test]
    fn a_request_arrives_within_its_time_limit_and_within_the_bound() {
        let now = Time::default().plus(Duration::from_secs(7));
        for limit in [Duration::from_secs(1), UNFINISHED_MAX] {
            assert_eq!(end_of_rest(now, limit), now.plus(limit));
        }
        assert_eq!(end_of_rest(now, UNFINISHED_MAX * 2), now.plus(UNFINISHED_MAX));
    }

    #[test]
    fn a_link_with_unfinished_requests_has_one_deadline_the_soonest() {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let mut node = Node::builder(1).link(LinkKind::Tcp).listener(listener).polled().unwrap();
        let _stranger = std::net::TcpStream::connect(node.address().unwrap().to_string()).unwrap();
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().links;
        let key = links.links.iter().next().expect("it has connected").0;
        let at = |seconds| Time::default().plus(Duration::from_secs(seconds));
        for (rest, soonest) in [(5, 5), (8, 5), (3, 3), (3, 3)] {
            links.wait_for_rest(key, at(rest));
            assert_eq!(
                (links.due.next(), links.links.link(key).unwrap().unfinished),
                (Some(at(soonest)), Some(at(soonest)))
            );
        }
        assert_eq!((links.due.pop(at(3)), links.due.next()), (Some(DeadlineOwner::Request(key)), None));
        // None of them is left, so a later one counts again.
        links.expire_unfinished(at(3), key);
        assert_eq!(links.links.link(key).unwrap().unfinished, None);
        links.wait_for_rest(key, at(9));
        assert_eq!(links.due.next(), Some(at(9)));
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

    /// After the first of several unfinished requests had expired, the others had no time limit.
    #[test]
    fn each_unfinished_request_expires_at_its_own_limit() {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let mut node = Node::builder(1).link(LinkKind::Tcp).listener(listener).polled().unwrap();
        let _stranger = std::net::TcpStream::connect(node.address().unwrap().to_string()).unwrap();
        node.progress(Duration::from_secs(60)).unwrap();
        let links = &mut node.event_loop_mut().links;
        let key = links.links.iter().next().expect("it has connected").0;
        let at = |seconds| Time::default().plus(Duration::from_secs(seconds));
        let mut events = Vec::new();
        let connection = links.links.get_mut(key).unwrap();
        connection.link.inbox.greeted();
        for (sequence, seconds) in [(1, 8), (2, 3), (3, 5)] {
            let begin = begin_of_request(CallId { root: 0, sequence }, Duration::from_secs(seconds));
            connection.feed(&begin, &Nothing, &mut events).unwrap();
        }
        for event in events {
            links.unfinished_event(at(0), key, event).unwrap();
        }
        for (expires, next) in [(3, Some(at(5))), (5, Some(at(8))), (8, None)] {
            let refused = links.links.link(key).unwrap().unacknowledged;
            assert_eq!(links.due.pop(at(expires)), Some(DeadlineOwner::Request(key)));
            links.expire_unfinished(at(expires), key);
            let link = links.links.link(key).unwrap();
            assert_eq!((links.due.next(), link.unfinished), (next, next), "after {expires} s");
            assert!(link.outbox.queued() > 0 && link.unacknowledged <= refused + 1);
        }
        assert!(links.links.link(key).unwrap().inbox.is_idle());
    }
}
