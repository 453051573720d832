//! Handles the events of a link: changes its state, and returns the effects beyond it.
//!
//! Source: docs/wire.md. After the hello, an event is an input of the chain, a change of the link, or both.

use std::time::Duration;

use gpc_trees::Id;

use super::event::{Event, RefusedRequest};
use super::loss::Loss;
use super::peering::Proof;
use super::state::Link;
use crate::branch_hint::unlikely;
use crate::chain::{Input, PAUSE_MAX, Time};
use crate::wire::frame::WINDOW;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::message::Answer;
use crate::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Reason, Request, Response, Stage};

/// Effects of an event beyond its link.
#[derive(Debug, Default)]
pub struct EventEffects {
    /// An input for the chain.
    pub input: Option<Input>,
    /// Whether the link has something to write.
    pub needs_write: bool,
    /// Whether data have arrived that other links forward.
    pub has_stream_data: bool,
    /// Whether the sender of long data needs a WINDOW once some of the data have been forwarded.
    pub needs_window: bool,
    /// Whether the peer has answered a heartbeat request.
    pub has_pong: bool,
    /// The pause that the peer has announced; zero ends one.
    pub pause: Option<Duration>,
}

impl EventEffects {
    fn write() -> EventEffects {
        EventEffects { needs_write: true, ..EventEffects::default() }
    }

    fn input(input: Input) -> EventEffects {
        EventEffects { input: Some(input), ..EventEffects::default() }
    }

    fn message(from: Id, message: Message) -> EventEffects {
        EventEffects::input(Input::Message { from, message })
    }
}

impl Link {
    /// Handles an event of a link that is up, at node `me`, from the peer `from`. `permits` decides whether a peer with
    /// this proof may have a request executed.
    ///
    /// # Errors
    /// If the peer ends the link or violates the protocol; the link is to be closed. The text is for people.
    pub fn handle_event(
        &mut self,
        now: Time,
        (me, from): (Id, Id),
        event: Event,
        permits: impl FnOnce(&Request, Proof) -> Result<(), Reason>,
    ) -> Result<EventEffects, String> {
        Ok(match event {
            Event::Request(request) => {
                if unlikely(self.request_deadline.is_some()) {
                    self.clear_request_deadline();
                }
                let refusal = permits(&request, self.proof).err().or_else(|| self.rejection(&request));
                if let Some(reason) = refusal {
                    self.reject_request(me, &request, reason)?;
                    return Ok(EventEffects::write());
                }
                if !self.admit() {
                    return Err(self.credit_error());
                }
                let needs_window = request.body().len() > WINDOW;
                // The request may continue data that a lost parent has begun to send.
                let has_stream_data = request.skipped > 0;
                EventEffects {
                    needs_window,
                    has_stream_data,
                    ..EventEffects::message(from, Message::Request(request))
                }
            }
            Event::Response(_)
            | Event::ReplyArrived(_)
            | Event::ReplyStarted
            | Event::UnawaitedReply(_)
            | Event::ReplyRefused { .. }
            | Event::Oversized { .. } => self.handle_reply((me, from), event),
            Event::Cancel(call) => {
                self.outbox.stop_response(call);
                EventEffects::message(from, Message::Cancel(call))
            }
            Event::Release(call) => EventEffects::message(from, Message::Release(call)),
            Event::Moved(call) => {
                // The call may end here before the rest of its data arrives.
                self.outbox.stop_request(call);
                EventEffects { needs_write: true, ..EventEffects::message(from, Message::Moved(call)) }
            }
            Event::Ping => EventEffects::message(from, Message::Ping),
            Event::Pong => EventEffects { has_pong: true, ..EventEffects::message(from, Message::Pong) },
            Event::Stragglers(stragglers) => EventEffects::message(from, Message::Stragglers(stragglers)),
            Event::Pause(length) => self.handle_pause(now, from, length),
            Event::DataGrew => EventEffects { has_stream_data: true, ..EventEffects::default() },
            Event::DataArrived(call) | Event::StreamedData(call) => {
                EventEffects { has_stream_data: true, ..EventEffects::input(Input::DataArrived(call)) }
            }
            Event::RequestStarted { .. } | Event::RequestAbandoned | Event::RequestRefused(_) => {
                return self.handle_unfinished(now, me, event);
            }
            Event::DataRefused { call, why } => EventEffects::input(Input::DataRefused { call, why }),
            Event::Window(window) => {
                self.outbox.extend_window(&window);
                EventEffects::write()
            }
            Event::Credit(count) => {
                self.outbox.add_credit(count);
                EventEffects::write()
            }
            Event::Goodbye(goodbye) => return Err(self.handle_goodbye(&goodbye)),
            Event::Hello(_) => return Err("it sent a second hello".into()),
        })
    }

    /// Handles an event of a response.
    fn handle_reply(&mut self, (me, from): (Id, Id), event: Event) -> EventEffects {
        match event {
            Event::Response(response) => {
                let whole = !matches!(response.answer, Answer::Arriving(_));
                if whole {
                    self.outbox.stop_request(response.call);
                }
                EventEffects {
                    needs_write: whole,
                    ..EventEffects::message(from, Message::Response(response))
                }
            }
            Event::ReplyArrived(call) => {
                self.outbox.stop_request(call);
                EventEffects {
                    needs_write: true,
                    has_stream_data: true,
                    ..EventEffects::input(Input::ReplyArrived { from, call })
                }
            }
            Event::ReplyStarted => EventEffects { needs_window: true, ..EventEffects::default() },
            Event::UnawaitedReply(call) => {
                // Without the CANCEL, the reply of the peer would wait for its send window.
                self.outbox.push(Message::Cancel(call));
                EventEffects::write()
            }
            Event::ReplyRefused { call, why } => EventEffects::input(Input::ReplyRefused { from, call, why }),
            Event::Oversized { call, bytes, most } => {
                let message =
                    format!("its reply of {bytes} bytes is over the limit of id {me}, which takes {most}");
                let cause = Cause::new(from, Stage::Reply, CauseKind::OverLimit, message);
                EventEffects::message(from, failed(call, cause))
            }
            _ => EventEffects::default(),
        }
    }

    /// Handles the announcement of a pause, or of its end.
    fn handle_pause(&mut self, now: Time, from: Id, length: Duration) -> EventEffects {
        let granted = length.min(PAUSE_MAX);
        self.pause_end = (!granted.is_zero()).then(|| now.plus(granted));
        EventEffects { pause: Some(granted), ..EventEffects::message(from, Message::Pause(length)) }
    }

    /// Handles an event of an incomplete request, which the chain does not have.
    fn handle_unfinished(&mut self, now: Time, me: Id, event: Event) -> Result<EventEffects, String> {
        match event {
            Event::RequestStarted { call, limit } => {
                self.begin_request(now, call, limit);
                Ok(EventEffects::default())
            }
            Event::RequestRefused(RefusedRequest { call, why }) => {
                self.clear_request_deadline();
                self.reject(me, call, Coverage::new(), Reason::new(CauseKind::NoMemory, why))?;
                Ok(EventEffects::write())
            }
            Event::RequestAbandoned => {
                self.clear_request_deadline();
                self.unacknowledged += 1;
                Ok(EventEffects { needs_write: self.consume(), ..EventEffects::default() })
            }
            _ => Ok(EventEffects::default()),
        }
    }

    /// The error of a peer that exceeds its credit.
    pub(super) fn credit_error(&self) -> String {
        format!("it sent more than the {} requests that it has credit for", self.hiwater())
    }

    /// Records how the link is lost, and returns the reason.
    fn handle_goodbye(&mut self, goodbye: &Goodbye) -> String {
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

/// Returns the response of an id that has failed.
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

    fn handle_event(link: &mut Link, now: Time, event: Event) -> EventEffects {
        link.handle_event(now, (1, 0), event, |_, _| Ok(())).unwrap()
    }

    #[test]
    fn a_pause_is_bounded_and_can_be_ended() {
        let (mut link, now) = (Link::new(Phase::Up(0)), at(1));
        assert_eq!(link.earliest_response(now), now);
        for length in [Duration::from_secs(5), PAUSE_MAX, PAUSE_MAX + Duration::from_secs(1)] {
            let effects = handle_event(&mut link, now, Event::Pause(length));
            let granted = length.min(PAUSE_MAX);
            assert_eq!((effects.pause, link.earliest_response(now)), (Some(granted), now.plus(granted)));
            let late = now.plus(granted + Duration::from_secs(1));
            assert_eq!(link.earliest_response(late), late, "it has passed");
        }
        handle_event(&mut link, now, Event::Pause(Duration::ZERO));
        assert_eq!(link.earliest_response(now), now);
    }

    #[test]
    fn a_request_without_credit_closes_the_link_and_a_forbidden_one_does_not() {
        let request =
            || Event::Request(Request::new(CallId { root: 0, sequence: 1 }, IdList::range(1..2)).into());
        let mut link = Link::new(Phase::Up(0));
        let forbids = |_: &Request, _| Err(Reason::new(CauseKind::NotAuthorised, "it may not"));
        let effects = link.handle_event(at(0), (1, 0), request(), forbids).unwrap();
        assert!(effects.needs_write && effects.input.is_none() && link.outbox.queued() > 0, "{effects:?}");
        for _ in link.unacknowledged..HIWATER {
            assert!(handle_event(&mut link, at(0), request()).input.is_some());
        }
        let why = link.handle_event(at(0), (1, 0), request(), |_, _| Ok(())).unwrap_err();
        assert!(why.contains("that it has credit for"), "{why}");
    }

    #[test]
    fn an_unsent_request_returns_its_credit() {
        let call = CallId { root: 0, sequence: 1 };
        let answered = Event::Response(Response { call, answer: Answer::Completed });
        for ends in [Some(answered), None] {
            let mut link = Link::new(Phase::Up(1));
            let (data, _) = crate::wire::Body::arriving(WINDOW);
            link.outbox.add_credit(1);
            link.push(Message::Request(Request { data, ..Request::new(call, IdList::range(1..2)) }.into()));
            assert_eq!(link.outbox.credit(), 0);
            match ends {
                Some(answered) => drop(handle_event(&mut link, at(0), answered)),
                None => link.push(Message::Cancel(call)),
            }
            assert!(link.outbox.credit() == 1 && link.outbox.is_idle());
        }
    }

    /// A child that had another parent was still sent the data of its request. If the call ended before the data had
    /// arrived, the link waited for them for ever and retained its copy.
    #[test]
    fn a_child_with_another_parent_gets_no_more_data() {
        let (mut link, call) = (Link::new(Phase::Up(1)), CallId { root: 0, sequence: 1 });
        let (data, mut writer) = crate::wire::Body::arriving(2 * WINDOW);
        writer.push(&[1; 100_000]);
        link.outbox.add_credit(1);
        link.push(Message::Request(Request { data, ..Request::new(call, IdList::range(1..2)) }.into()));
        assert!(link.outbox.prepare());
        let left = link.outbox.queued();
        link.mark_written(left);
        assert!(link.outbox.is_streaming());
        let effects = handle_event(&mut link, at(0), Event::Moved(call));
        assert!(effects.needs_write && !link.outbox.is_streaming());
        let left = link.outbox.queued();
        assert!(left > 0, "the child drops what it has");
        link.mark_written(left);
        assert!(link.outbox.is_idle());
    }

    #[test]
    fn the_reason_of_a_goodbye_decides_the_kind_of_loss() {
        for (reason, loss) in [
            (GoodbyeReason::Shutdown, Loss::Left),
            (GoodbyeReason::Duplicate, Loss::Replaced),
            (GoodbyeReason::LinkClosed, Loss::Closed),
            (GoodbyeReason::Refused, Loss::Broken),
        ] {
            let mut link = Link::new(Phase::Up(0));
            let goodbye = Event::Goodbye(Goodbye { reason, text: "so long".into() });
            let why = link.handle_event(at(0), (1, 0), goodbye, |_, _| Ok(())).unwrap_err();
            assert_eq!((why.as_str(), link.loss), ("it said goodbye: so long", loss));
        }
    }
}
