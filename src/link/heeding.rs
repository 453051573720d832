//! What the events of a link change: on the link itself, and beyond it.
//!
//! Source: docs/wire.md. The first frame of a connection is a hello, and the others are for the chain or for the link
//! itself.

use std::time::Duration;

use gpc_trees::Id;

use super::event::{Event, Refused};
use super::loss::Loss;
use super::peering::Proof;
use super::state::Link;
use crate::chain::{Input, PAUSE_MAX, Time};
use crate::hint::unlikely;
use crate::wire::frame::WINDOW;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::message::Answer;
use crate::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Request, Response, Stage};

/// What an event changes beyond its link.
#[derive(Debug, Default)]
pub struct Heeded {
    /// An input for the chain.
    pub input: Option<Input>,
    /// Whether the link has something to write.
    pub writes: bool,
    /// Whether data have arrived that other links may pass on.
    pub stirs: bool,
    /// Whether the sender of long data is to be told how far it may continue, when some of them have left.
    pub grants: bool,
    /// Whether the peer has answered a heartbeat request.
    pub answers: bool,
    /// The pause that the peer has announced; zero ends one.
    pub pause: Option<Duration>,
}

impl Heeded {
    fn writes() -> Heeded {
        Heeded { writes: true, ..Heeded::default() }
    }

    fn input(input: Input) -> Heeded {
        Heeded { input: Some(input), ..Heeded::default() }
    }

    fn message(from: Id, message: Message) -> Heeded {
        Heeded::input(Input::Message { from, message })
    }
}

impl Link {
    /// Handles an event of a link that is up, at node `me`, from the peer `from`. `permits` decides whether a request
    /// may be executed for a peer that is proved in this way.
    ///
    /// # Errors
    /// If the peer ends the link or violates the protocol; the link is to be closed. The text is for people.
    pub fn heed(
        &mut self,
        now: Time,
        (me, from): (Id, Id),
        event: Event,
        permits: impl FnOnce(&Request, Proof) -> Result<(), Reason>,
    ) -> Result<Heeded, String> {
        Ok(match event {
            Event::Request(request) => {
                if unlikely(self.unfinished.is_some()) {
                    self.rest_has_come();
                }
                let refusal = permits(&request, self.proof).err().or_else(|| self.refuses(&request));
                if let Some(reason) = refusal {
                    self.refuse_whole(me, &request, reason)?;
                    return Ok(Heeded::writes());
                }
                if !self.admit() {
                    return Err(self.too_many());
                }
                let grants = request.body().len() > WINDOW;
                // It may complete data that a lost parent has begun to send.
                let stirs = request.skipped > 0;
                Heeded { grants, stirs, ..Heeded::message(from, Message::Request(request)) }
            }
            Event::Response(_)
            | Event::ReplyArrived(_)
            | Event::ReplyBegun
            | Event::Unwanted(_)
            | Event::ReplyRefused { .. }
            | Event::Oversized { .. } => self.heed_reply((me, from), event),
            Event::Cancel(call) => {
                self.outbox.unwanted(call);
                Heeded::message(from, Message::Cancel(call))
            }
            Event::Release(call) => Heeded::message(from, Message::Release(call)),
            Event::Moved(call) => {
                // Its call may end here before the rest of the data has come.
                self.outbox.answered(call);
                Heeded { writes: true, ..Heeded::message(from, Message::Moved(call)) }
            }
            Event::Ping => Heeded::message(from, Message::Ping),
            Event::Pong => Heeded { answers: true, ..Heeded::message(from, Message::Pong) },
            Event::Pause(length) => self.heed_pause(now, from, length),
            Event::DataGrew => Heeded { stirs: true, ..Heeded::default() },
            Event::DataArrived(call) | Event::DataDue(call) => {
                Heeded { stirs: true, ..Heeded::input(Input::DataArrived(call)) }
            }
            Event::Begun { .. } | Event::Abandoned | Event::Refused(_) => {
                return self.heed_unfinished(now, me, event);
            }
            Event::DataRefused { call, why } => Heeded::input(Input::DataRefused { call, why }),
            Event::Window(window) => {
                self.outbox.widen(&window);
                Heeded::writes()
            }
            Event::Credit(count) => {
                self.outbox.grant(count);
                Heeded::writes()
            }
            Event::Goodbye(goodbye) => return Err(self.part(&goodbye)),
            Event::Hello(_) => return Err("it sent a second hello".into()),
        })
    }

    /// Handles an event of a response.
    fn heed_reply(&mut self, (me, from): (Id, Id), event: Event) -> Heeded {
        match event {
            Event::Response(response) => {
                let whole = !matches!(response.answer, Answer::Arriving(_));
                if whole {
                    self.outbox.answered(response.call);
                }
                Heeded { writes: whole, ..Heeded::message(from, Message::Response(response)) }
            }
            Event::ReplyArrived(call) => {
                self.outbox.answered(call);
                Heeded { writes: true, stirs: true, ..Heeded::input(Input::ReplyArrived { from, call }) }
            }
            Event::ReplyBegun => Heeded { grants: true, ..Heeded::default() },
            Event::Unwanted(call) => {
                // Otherwise the peer's reply would wait for its send window.
                self.outbox.push(Message::Cancel(call));
                Heeded::writes()
            }
            Event::ReplyRefused { call, why } => Heeded::input(Input::ReplyRefused { from, call, why }),
            Event::Oversized { call, bytes, most } => {
                let message =
                    format!("its reply of {bytes} bytes is over the limit of id {me}, which takes {most}");
                let cause = Cause::new(from, Stage::Reply, CauseKind::OverLimit, message);
                Heeded::message(from, failed(call, cause))
            }
            _ => Heeded::default(),
        }
    }

    /// The peer announces a pause, or its end.
    fn heed_pause(&mut self, now: Time, from: Id, length: Duration) -> Heeded {
        let granted = length.min(PAUSE_MAX);
        self.back = (!granted.is_zero()).then(|| now.plus(granted));
        Heeded { pause: Some(granted), ..Heeded::message(from, Message::Pause(length)) }
    }

    /// Handles an event of an incomplete request, which the chain does not have.
    fn heed_unfinished(&mut self, now: Time, me: Id, event: Event) -> Result<Heeded, String> {
        match event {
            Event::Begun { call, limit } => {
                self.begin_request(now, call, limit);
                Ok(Heeded::default())
            }
            Event::Refused(Refused { call, why }) => {
                self.rest_has_come();
                self.refuse(me, call, Coverage::new(), Reason::new(CauseKind::NoMemory, why))?;
                Ok(Heeded::writes())
            }
            Event::Abandoned => {
                self.rest_has_come();
                self.unacknowledged += 1;
                Ok(Heeded { writes: self.consume(), ..Heeded::default() })
            }
            _ => Ok(Heeded::default()),
        }
    }

    /// The error of a peer that exceeds its credit.
    pub(super) fn too_many(&self) -> String {
        format!("it sent more than the {} requests that it has credit for", self.hiwater())
    }

    /// The peer ends the link: returns why it is lost.
    fn part(&mut self, goodbye: &Goodbye) -> String {
        self.loss = loss_of(goodbye.reason);
        format!("it said goodbye: {}", goodbye.text)
    }
}

/// How a link is lost whose peer sends a goodbye.
fn loss_of(reason: GoodbyeReason) -> Loss {
    match reason {
        GoodbyeReason::Shutdown => Loss::Left,
        GoodbyeReason::Duplicate => Loss::Replaced,
        GoodbyeReason::LinkClosed => Loss::Closed,
        // These are for hellos: the peer violates the protocol.
        GoodbyeReason::Refused | GoodbyeReason::OtherJob => Loss::Broken,
    }
}

/// The response that an id would send if it had failed by itself.
fn failed(call: CallId, cause: Cause) -> Message {
    let failure = Failure { cause, coverage: Coverage::new() };
    Message::Response(Response { call, answer: Answer::Failed(Box::new(failure)) })
}

#[cfg(test)]
mod tests {
    use gpc_trees::IdList;

    use super::*;
    use crate::link::{HIWATER, Phase};

    fn at(seconds: u64) -> Time {
        Time::default().plus(Duration::from_secs(seconds))
    }

    fn heed(link: &mut Link, now: Time, event: Event) -> Heeded {
        link.heed(now, (1, 0), event, |_, _| Ok(())).unwrap()
    }

    #[test]
    fn a_pause_counts_up_to_its_bound_and_until_its_end() {
        let (mut link, now) = (Link::new(Phase::Up(0)), at(1));
        assert_eq!(link.answers_from(now), now);
        for length in [Duration::from_secs(5), PAUSE_MAX, PAUSE_MAX + Duration::from_secs(1)] {
            let heeded = heed(&mut link, now, Event::Pause(length));
            let granted = length.min(PAUSE_MAX);
            assert_eq!((heeded.pause, link.answers_from(now)), (Some(granted), now.plus(granted)));
            let late = now.plus(granted + Duration::from_secs(1));
            assert_eq!(link.answers_from(late), late, "it has passed");
        }
        heed(&mut link, now, Event::Pause(Duration::ZERO));
        assert_eq!(link.answers_from(now), now);
    }

    #[test]
    fn a_request_without_credit_ends_the_link_and_a_forbidden_one_does_not() {
        let request =
            || Event::Request(Request::new(CallId { root: 0, sequence: 1 }, IdList::range(1..2)).into());
        let mut link = Link::new(Phase::Up(0));
        let forbids = |_: &Request, _| Err(Reason::new(CauseKind::NotAuthorised, "it may not"));
        let heeded = link.heed(at(0), (1, 0), request(), forbids).unwrap();
        assert!(heeded.writes && heeded.input.is_none() && link.outbox.queued() > 0, "{heeded:?}");
        for _ in link.unacknowledged..HIWATER {
            assert!(heed(&mut link, at(0), request()).input.is_some());
        }
        let why = link.heed(at(0), (1, 0), request(), |_, _| Ok(())).unwrap_err();
        assert!(why.contains("that it has credit for"), "{why}");
    }

    #[test]
    fn a_request_that_has_not_begun_to_leave_gives_its_credit_back() {
        let call = CallId { root: 0, sequence: 1 };
        let answered = Event::Response(Response { call, answer: Answer::Completed });
        for ends in [Some(answered), None] {
            let mut link = Link::new(Phase::Up(1));
            let (data, _) = crate::wire::Body::arriving(WINDOW);
            link.outbox.grant(1);
            link.push(Message::Request(Request { data, ..Request::new(call, IdList::range(1..2)) }.into()));
            assert_eq!(link.outbox.credit(), 0);
            match ends {
                Some(answered) => drop(heed(&mut link, at(0), answered)),
                None => link.push(Message::Cancel(call)),
            }
            assert!(link.outbox.credit() == 1 && link.outbox.is_idle());
        }
    }

    /// A child that had another parent was still sent the data of its request. Where the call ended before they had
    /// come, the link waited for them for ever, and held what it had.
    #[test]
    fn a_child_with_another_parent_gets_no_more_data() {
        let (mut link, call) = (Link::new(Phase::Up(1)), CallId { root: 0, sequence: 1 });
        let (data, mut writer) = crate::wire::Body::arriving(2 * WINDOW);
        writer.push(&[1; 100_000]);
        link.outbox.grant(1);
        link.push(Message::Request(Request { data, ..Request::new(call, IdList::range(1..2)) }.into()));
        assert!(link.outbox.is_ready());
        let left = link.outbox.queued();
        link.written(left);
        assert!(link.outbox.is_streaming());
        let heeded = heed(&mut link, at(0), Event::Moved(call));
        assert!(heeded.writes && !link.outbox.is_streaming());
        let left = link.outbox.queued();
        assert!(left > 0, "the child drops what it has");
        link.written(left);
        assert!(link.outbox.is_idle());
    }

    #[test]
    fn a_goodbye_says_how_the_link_is_lost() {
        for (reason, loss) in [
            (GoodbyeReason::Shutdown, Loss::Left),
            (GoodbyeReason::Duplicate, Loss::Replaced),
            (GoodbyeReason::LinkClosed, Loss::Closed),
            (GoodbyeReason::Refused, Loss::Broken),
        ] {
            let mut link = Link::new(Phase::Up(0));
            let goodbye = Event::Goodbye(Goodbye { reason, text: "so long".into() });
            let why = link.heed(at(0), (1, 0), goodbye, |_, _| Ok(())).unwrap_err();
            assert_eq!((why.as_str(), link.loss), ("it said goodbye: so long", loss));
        }
    }
}
