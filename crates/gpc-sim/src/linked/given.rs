//! Messages that a link was given and that have not arrived: what arrives was given, once and in order, and on a link
//! that lasts everything arrives that nobody has taken back.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::call_of::call_of;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::short::SHORT_MAX;
use chained_gpc::wire::{CallId, Message, Request};

/// Origin of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    ByNode,
    /// Sent by the world in the name of a node.
    Forged,
    /// The same, and its sender has no part in the call.
    Lie,
}

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Request,
    Response,
    Cancel,
    Release,
    Moved,
    Ping,
    Pong,
    Stragglers,
    Pause,
}

/// Kind of a message, and the call that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub(super) kind: Kind,
    pub(super) call: Option<CallId>,
}

impl Name {
    pub(super) fn of(message: &Message) -> Name {
        let kind = match message {
            Message::Request(_) => Kind::Request,
            Message::Response(_) => Kind::Response,
            Message::Cancel(_) => Kind::Cancel,
            Message::Release(_) => Kind::Release,
            Message::Moved(_) => Kind::Moved,
            Message::Ping => Kind::Ping,
            Message::Pong => Kind::Pong,
            Message::Stragglers(_) => Kind::Stragglers,
            Message::Pause(_) => Kind::Pause,
        };
        Name { kind, call: call_of(message) }
    }

    pub(super) fn request(call: CallId) -> Name {
        Name { kind: Kind::Request, call: Some(call) }
    }

    pub(super) fn response(call: CallId) -> Name {
        Name { kind: Kind::Response, call: Some(call) }
    }
}

/// A message that a link was given.
#[derive(Debug)]
pub(super) struct GivenMessage {
    name: Name,
    pub(super) origin: Origin,
    /// Time at which its node sent it.
    pub(super) sent: u64,
    /// Age of a request and the rest of its root's limit, exact: frames carry whole milliseconds.
    times: Option<[Duration; 2]>,
    /// Whether its times do not change any more while it waits.
    framed: bool,
    /// Whether it leaves as one frame behind those before it.
    in_order: bool,
    /// Whether it need not arrive any more.
    taken_back: bool,
    /// Whether all of it has left.
    has_left: bool,
}

impl GivenMessage {
    pub(super) fn new(message: &Message, origin: Origin, sent: u64) -> GivenMessage {
        let times = match message {
            Message::Request(request) => Some([request.age, request.left]),
            _ => None,
        };
        let in_order = match message {
            Message::Request(_) | Message::Ping | Message::Pong | Message::Stragglers(_) => false,
            Message::Response(Response { answer, .. }) => is_short(answer),
            _ => true,
        };
        GivenMessage {
            name: Name::of(message),
            origin,
            sent,
            times,
            framed: false,
            in_order,
            // It does not leave if a PONG waits.
            taken_back: matches!(message, Message::Stragglers(_)),
            has_left: false,
        }
    }

    /// Whether it is the request of one of these calls.
    pub(super) fn is_request_of(&self, calls: &BTreeSet<CallId>) -> bool {
        !self.taken_back
            && self.name.kind == Kind::Request
            && self.name.call.is_some_and(|call| calls.contains(&call))
    }

    pub(super) fn kind(&self) -> Kind {
        self.name.kind
    }

    /// It waits for its link, and was cut into frames before.
    pub(super) fn note_framed(&mut self) {
        self.framed = true;
    }

    /// It has waited for its link.
    pub(super) fn waited_until(&mut self, now: u64) {
        if let Some([age, left]) = self.times.as_mut().filter(|_| !self.framed) {
            let waited = Duration::from_nanos(now - self.sent);
            (*age, *left) = (*age + waited, left.saturating_sub(waited));
        }
    }

    /// Whether a request has these times in whole milliseconds.
    fn fits(&self, message: &Message) -> bool {
        match (self.times, message) {
            (Some(times), Message::Request(request)) => {
                times.map(|time| time.as_nanos().div_ceil(1_000_000))
                    == [request.age, request.left].map(|time| time.as_millis())
            }
            _ => true,
        }
    }

    /// The request with its times as they were when it left.
    pub(super) fn exact(&self, request: Request) -> Request {
        match self.times {
            Some([age, left]) => Request { age, left, ..request },
            None => request,
        }
    }
}

fn is_short(answer: &Answer) -> bool {
    match answer {
        Answer::Completed => true,
        Answer::Reply(reply) => reply.len() <= SHORT_MAX as u64,
        Answer::Failed(_) | Answer::Partial(_) | Answer::Arriving(_) => false,
    }
}

/// The messages of one direction of a connection.
#[derive(Default, Debug)]
pub(super) struct GivenMessages {
    messages: VecDeque<GivenMessage>,
    /// Questions and answers that were given and have to leave.
    beats: [u64; 2],
}

impl GivenMessages {
    /// A link is given a heartbeat, of which so many were written. One that waits tells as much as two.
    pub(super) fn push_beat(&mut self, mut message: GivenMessage, written: [u64; 2], asks: bool) {
        let place = usize::from(message.name.kind == Kind::Pong);
        message.taken_back = self.beats[place] > written[place] || place == 0 && asks;
        self.beats[place] += u64::from(!message.taken_back);
        self.push(message);
    }

    /// A link is given a message.
    pub(super) fn push(&mut self, message: GivenMessage) {
        let Name { kind, call } = message.name;
        let mut message = message;
        match (kind, call) {
            // Of a request that waits for credit, neither it nor its cancel leaves.
            (Kind::Cancel, Some(call)) => message.taken_back = self.take_back(Name::request(call)),
            // The last answer to a call stands in place of those before.
            (Kind::Response, Some(call)) => drop(self.take_back(Name::response(call))),
            _ => {}
        }
        self.messages.push_back(message);
    }

    /// Messages of this name need not arrive any more. Returns whether there are any.
    pub(super) fn take_back(&mut self, name: Name) -> bool {
        let mut any = false;
        for message in self.messages.iter_mut().filter(|message| message.name == name) {
            (message.taken_back, any) = (true, true);
        }
        any
    }

    /// A message arrives: takes it out. `Err` if one before it that leaves in order has not come.
    pub(super) fn arrived(&mut self, message: &Message) -> Option<Result<GivenMessage, Name>> {
        let name = Name::of(message);
        let named = |given: &GivenMessage| given.name == name;
        // It may have been taken back before it left, and sent again.
        let rank = |given: &GivenMessage| (!given.fits(message), given.taken_back);
        let all = self.messages.iter().enumerate().filter(|(_, given)| named(given));
        let (place, _) = all.min_by_key(|(_, given)| rank(given))?;
        let in_order = self.messages[place].in_order;
        let skipped =
            self.messages.range(..place).find(|before| in_order && before.in_order && !before.taken_back);
        let skipped = skipped.map(|before| before.name);
        let message = self.messages.remove(place)?;
        if let Name { kind: Kind::Cancel, call: Some(call) } = name {
            // What it ends does not come any more.
            let mut before = place;
            self.messages.retain(|given| {
                let ended = before > 0 && given.name == Name::request(call);
                before = before.saturating_sub(1);
                !ended
            });
        }
        Some(skipped.map_or(Ok(message), Err))
    }

    /// All messages have left.
    pub(super) fn note_left(&mut self) {
        self.messages.iter_mut().for_each(|message| message.has_left = true);
    }

    /// If requests have not left, and nothing that ends them: whether they were on a link before.
    pub(super) fn unsent(&self) -> Option<bool> {
        let counts = |message: &&GivenMessage| !message.has_left && message.name.kind != Kind::Stragglers;
        let here = || self.messages.iter().filter(counts);
        let mut requests = here().filter(|message| message.name.kind == Kind::Request).peekable();
        requests.peek()?;
        let ended = here().any(|message| message.taken_back || message.name.kind == Kind::Cancel);
        (!ended).then(|| requests.any(|request| request.framed))
    }

    /// Whether any of the messages needs a link.
    pub(super) fn needs_link(&self) -> bool {
        let needs = |message: &GivenMessage| matches!(message.name.kind, Kind::Request | Kind::Ping);
        self.messages.iter().any(|message| needs(message) && !message.taken_back)
    }

    /// Whether a message of this name has not arrived.
    pub(super) fn has(&self, name: Name) -> bool {
        self.messages.iter().any(|message| message.name == name && !message.taken_back)
    }

    /// The messages, which go on another connection.
    pub(super) fn take(&mut self) -> impl Iterator<Item = GivenMessage> + use<> {
        std::mem::take(&mut self.messages).into_iter()
    }

    /// A message that has not arrived and should have, if all is quiet.
    pub(super) fn missing(&self) -> Option<Name> {
        self.messages.iter().find(|message| !message.taken_back).map(|message| message.name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gpc_trees::IdList;

    use super::*;

    const CALL: CallId = CallId { root: 0, sequence: 1 };

    fn request(sequence: u64, age: Duration) -> Message {
        let call = CallId { sequence, ..CALL };
        Message::Request(Arc::new(Request { age, ..Request::new(call, IdList::range(1..2)) }))
    }

    fn completed() -> Message {
        Message::Response(Response { call: CALL, answer: Answer::Completed })
    }

    fn given(messages: &[Message]) -> GivenMessages {
        let mut all = GivenMessages::default();
        messages.iter().for_each(|message| all.push(GivenMessage::new(message, Origin::ByNode, 5)));
        all
    }

    #[test]
    fn a_message_arrives_once_and_short_ones_in_order() {
        let mut all = given(&[Message::Release(CALL), request(1, Duration::ZERO), completed()]);
        assert!(all.arrived(&completed()).is_some_and(|it| it.is_err()), "before the release");
        let mut all = given(&[Message::Release(CALL), request(1, Duration::ZERO), completed()]);
        assert!(all.arrived(&request(1, Duration::ZERO)).is_some_and(|it| it.is_ok()));
        assert!(all.arrived(&request(1, Duration::ZERO)).is_none(), "twice");
        assert!(all.missing().is_some_and(|name| name.kind == Kind::Release));
        assert!(all.arrived(&Message::Release(CALL)).is_some_and(|it| it.is_ok()));
        assert!(all.arrived(&completed()).is_some_and(|it| it.is_ok()) && all.missing().is_none());
    }

    #[test]
    fn what_was_taken_back_may_be_missing() {
        let all = given(&[request(1, Duration::ZERO), Message::Cancel(CALL), completed(), completed()]);
        assert_eq!(all.missing(), Some(Name::response(CALL)), "the last answer");
        let mut all = given(&[completed(), Message::Cancel(CALL)]);
        assert!(all.take_back(Name::response(CALL)));
        assert!(all.missing().is_some_and(|name| name.kind == Kind::Cancel), "no request waits with it");
    }

    #[test]
    fn requests_that_have_not_left_go_out_again_once() {
        let mut all = given(&[request(1, Duration::ZERO)]);
        all.note_left();
        assert!(all.unsent().is_none() && given(&[Message::Release(CALL)]).unsent().is_none());
        all.push(GivenMessage::new(&request(2, Duration::ZERO), Origin::ByNode, 5));
        assert_eq!(all.unsent(), Some(false), "the first has left");
        let mut again = GivenMessage::new(&request(3, Duration::ZERO), Origin::ByNode, 5);
        again.note_framed();
        all.push(again);
        assert_eq!(all.unsent(), Some(true), "the last was on a link before");
        all.push(GivenMessage::new(&Message::Cancel(CallId { sequence: 2, ..CALL }), Origin::ByNode, 5));
        assert_eq!(all.unsent(), None, "it was cancelled");
    }

    #[test]
    fn nothing_comes_behind_its_cancel_and_cancels_need_no_link() {
        let mut all = given(&[request(1, Duration::ZERO), Message::Cancel(CALL)]);
        assert!(!all.needs_link() && given(&[Message::Ping]).needs_link());
        assert!(all.arrived(&Message::Cancel(CALL)).is_some());
        assert!(all.arrived(&request(1, Duration::ZERO)).is_none(), "it was ended");
        let mut all = given(&[Message::Cancel(CALL), request(1, Duration::ZERO)]);
        assert!(all.arrived(&Message::Cancel(CALL)).is_some() && all.needs_link());
        assert!(all.arrived(&request(1, Duration::ZERO)).is_some(), "it came after the cancel");
    }

    #[test]
    fn a_heartbeat_that_waits_tells_as_much_as_two() {
        let beat = |message| GivenMessage::new(&message, Origin::ByNode, 5);
        let mut all = GivenMessages::default();
        all.push_beat(beat(Message::Pong), [0, 0], false);
        all.push_beat(beat(Message::Pong), [0, 0], false);
        assert!(all.arrived(&Message::Pong).is_some() && all.missing().is_none());
        all.push_beat(beat(Message::Pong), [0, 1], false);
        assert!(all.missing().is_some_and(|name| name.kind == Kind::Pong));
        let mut all = GivenMessages::default();
        all.push_beat(beat(Message::Ping), [1, 0], true);
        assert!(all.missing().is_none(), "the last one has not left");
    }

    #[test]
    fn a_request_has_the_times_that_it_left_with() {
        let mut all =
            given(&[request(1, Duration::from_nanos(7)), request(1, Duration::from_nanos(1_000_001))]);
        let arrives = |all: &mut GivenMessages, age| {
            let message = request(1, Duration::from_millis(age));
            let Message::Request(request) = &message else { panic!("{message:?}") };
            let given = all.arrived(&message).unwrap().unwrap();
            given.exact(Request::clone(request)).age
        };
        assert_eq!(arrives(&mut all, 2), Duration::from_nanos(1_000_001));
        assert_eq!(arrives(&mut all, 1), Duration::from_nanos(7));
        let mut waits = GivenMessage::new(&request(1, Duration::from_nanos(7)), Origin::ByNode, 5);
        waits.waited_until(8);
        assert_eq!(waits.times.map(|[age, _]| age), Some(Duration::from_nanos(10)));
        waits.note_framed();
        waits.waited_until(100);
        assert_eq!(waits.times.map(|[age, _]| age), Some(Duration::from_nanos(10)));
    }
}
