//! Unsent requests of a lost link: no byte of them was sent, so the next link to the same peer can send them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Outbox, Stream};
use crate::wire::frame::{FRAME_HEADER, FrameHeader, Kind, flags};
use crate::wire::head::{CallRef, RequestHead};
use crate::wire::{CallId, Request};

/// The unsent requests of an outbox.
#[derive(Debug)]
pub struct UnsentRequests {
    /// The frames that were cut.
    frames: Vec<u8>,
    streams: VecDeque<Stream>,
    waiting: VecDeque<Arc<Request>>,
    /// Number of requests that have taken credit.
    begun: u32,
    calls: BTreeSet<CallId>,
}

impl UnsentRequests {
    /// The calls of the requests.
    pub fn calls(&self) -> &BTreeSet<CallId> {
        &self.calls
    }
}

impl Outbox {
    /// Takes the queued requests, if no byte of the queue was sent; other messages are lost with the link. Returns
    /// `None` for requests that were taken before, so a peer whose links break repeatedly is not retried for ever.
    pub fn take_unsent(&mut self) -> Option<UnsentRequests> {
        if self.has_begun {
            return None;
        }
        let queued = self.ready.iter().map(|part| &part[..]).chain([&self.tail[..]]);
        let (frames, mut calls) = requests_of(&queued.collect::<Vec<_>>().concat())?;
        let mut streams = std::mem::take(&mut self.streams);
        streams.retain(|stream| stream.kind == Kind::Request);
        // A part of the other streams was sent, or is among the frames.
        calls.extend(streams.iter().filter(|stream| stream.head.is_some()).map(|stream| stream.call));
        if streams.iter().any(|stream| !calls.contains(&stream.call)) {
            return None;
        }
        let begun = u32::try_from(calls.len()).ok()?;
        let waiting = std::mem::take(&mut self.waiting_requests);
        calls.extend(waiting.iter().map(|request| request.call));
        Some(UnsentRequests { frames, streams, waiting, begun, calls })
            .filter(|unsent| !unsent.calls.is_empty())
    }

    /// Queues the requests that another link has not sent. Returns false if the peer gives less credit than they have
    /// taken.
    pub fn resend(&mut self, unsent: UnsentRequests) -> bool {
        let UnsentRequests { frames, streams, waiting, begun, .. } = unsent;
        let Some(credit) = self.credit.checked_sub(begun) else { return false };
        self.credit = credit;
        self.tail.extend_from_slice(&frames);
        self.queued += frames.len();
        self.streams.extend(streams);
        self.waiting_requests.extend(waiting);
        self.has_begun = true;
        self.start_waiting();
        true
    }
}

/// Returns the frames of requests, and their calls; `None` if a part of a request was sent before.
fn requests_of(mut frames: &[u8]) -> Option<(Vec<u8>, BTreeSet<CallId>)> {
    let (mut requests, mut calls) = (Vec::new(), BTreeSet::new());
    while let Some((header, rest)) = frames.split_first_chunk::<FRAME_HEADER>() {
        let header = FrameHeader::parse(*header).ok()?;
        let (payload, rest) = rest.split_at_checked(header.length as usize)?;
        let frame = &frames[..frames.len() - rest.len()];
        frames = rest;
        match header.kind {
            Kind::Request => {
                calls.insert(RequestHead::parse(header.flags, payload).ok()?.call);
            }
            Kind::Segment if header.flags & flags::OF_RESPONSE == 0 => {
                calls.get(&call_of(header.kind, payload)?)?;
            }
            Kind::Cancel if calls.contains(&call_of(header.kind, payload)?) => return None,
            // The link is new, or has ended; or descriptors were passed, which the next link does not have.
            Kind::Hello | Kind::Goodbye | Kind::Extent => return None,
            _ => continue,
        }
        requests.extend_from_slice(frame);
    }
    frames.is_empty().then_some((requests, calls))
}

fn call_of(kind: Kind, payload: &[u8]) -> Option<CallId> {
    let start = payload.get(..CallRef::LENGTH)?;
    CallRef::parse(kind, start).ok().map(|CallRef(call)| call)
}

#[cfg(test)]
mod tests {
    use gpc_trees::IdList;
    use smallvec::SmallVec;

    use super::*;
    use crate::wire::frame::SEGMENT;
    use crate::wire::{Body, Message};

    fn call(sequence: u64) -> CallId {
        CallId { root: 1, sequence }
    }

    fn request(sequence: u64, data: usize) -> Message {
        let ids = IdList::from_ids(vec![5, 6]).unwrap();
        let data = Body::whole(vec![sequence as u8; data]);
        Message::Request(Arc::new(Request { data, ..Request::new(call(sequence), ids) }))
    }

    fn outbox(credit: u32, messages: impl IntoIterator<Item = Message>) -> Outbox {
        let mut outbox = Outbox::new();
        outbox.add_credit(credit);
        messages.into_iter().for_each(|message| outbox.push(message));
        outbox
    }

    /// Returns all bytes that the outbox sends.
    fn bytes(outbox: &mut Outbox) -> Vec<u8> {
        let mut all = Vec::new();
        while outbox.prepare() {
            let mut parts = SmallVec::new();
            outbox.parts(&mut parts);
            let written: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            drop(parts);
            outbox.mark_written(written.len());
            all.extend(written);
        }
        all
    }

    /// An idle link that had died lost the next request: the call failed, although no byte of the request had been
    /// sent.
    #[test]
    fn only_unsent_requests_move_to_the_next_link() {
        // The second is cut into segments by `prepare`; the last waits for credit.
        let requests = || [request(1, 10), request(2, 3 * SEGMENT), request(3, 0)];
        for looked_at in [false, true] {
            let mut first = outbox(2, requests());
            first.push_credit(7);
            first.push(Message::Pong);
            first.push(Message::Cancel(call(9)));
            if looked_at {
                assert!(first.prepare());
            }
            let unsent = first.take_unsent().unwrap();
            assert_eq!(*unsent.calls(), BTreeSet::from([call(1), call(2), call(3)]));
            let mut next = outbox(2, []);
            assert!(next.resend(unsent));
            assert_eq!(next.credit, 0);
            let mut bytes_of_next = bytes(&mut next);
            next.add_credit(1);
            bytes_of_next.extend(bytes(&mut next));
            let mut as_if_first = outbox(3, requests());
            let mut expected = bytes(&mut as_if_first);
            // Short requests come before the rest of long ones.
            expected.sort_unstable();
            bytes_of_next.sort_unstable();
            assert_eq!(bytes_of_next, expected, "looked at: {looked_at}");
        }
    }

    #[test]
    fn partly_sent_requests_are_lost() {
        let mut begun = outbox(9, [request(1, 10), request(2, 10)]);
        assert!(begun.prepare());
        begun.mark_written(1);
        assert!(begun.take_unsent().is_none());
        // All bytes were sent: later requests are new.
        let left = begun.queued();
        begun.mark_written(left);
        assert!(begun.take_unsent().is_none(), "there is none");
        begun.push(request(3, 0));
        assert_eq!(*begun.take_unsent().unwrap().calls(), BTreeSet::from([call(3)]));

        let mut long = outbox(9, [request(1, 9 * SEGMENT)]);
        assert!(long.prepare());
        let left = long.queued();
        long.mark_written(left);
        long.push(request(2, 0));
        assert!(long.take_unsent().is_none(), "the first segments of one have left");
    }

    /// A link broke after the head of a request whose data had the form of a frame. The next link sent these data as a
    /// request that no id had sent.
    #[test]
    fn data_are_never_sent_as_a_request() {
        let data = bytes(&mut outbox(9, [request(7, 0)]));
        let ids = IdList::from_ids(vec![5, 6]).unwrap();
        let whole = Request { data: Body::whole(data.clone()), ..Request::new(call(1), ids) };
        let mut begun = outbox(9, [Message::Request(Arc::new(whole)), request(2, 0)]);
        assert!(begun.prepare());
        let behind = data.len() + bytes(&mut outbox(9, [request(2, 0)])).len();
        begun.mark_written(begun.queued() - behind);
        assert!(begun.take_unsent().is_none());
    }

    #[test]
    fn a_request_is_retried_on_one_more_link_only() {
        let unsent = outbox(9, [request(1, 0)]).take_unsent().unwrap();
        let mut next = outbox(9, []);
        assert!(next.resend(unsent) && next.take_unsent().is_none());
        assert!(!bytes(&mut next).is_empty());
        next.push(request(2, 0));
        assert!(next.take_unsent().is_some(), "that link has sent something");
    }

    #[test]
    fn a_cancelled_request_is_not_sent_again() {
        let mut both = outbox(9, [request(1, 0), Message::Cancel(call(1))]);
        assert!(both.take_unsent().is_none());
    }

    #[test]
    fn a_peer_that_gives_less_credit_gets_no_more_requests() {
        let unsent = outbox(9, [request(1, 0), request(2, 0)]).take_unsent().unwrap();
        assert!(!outbox(1, []).resend(unsent));
    }
}
