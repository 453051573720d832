//! Checks how calls end at each id. The id informs the ids below at once, and forwards news from below at once. It
//! drops a call that its parent has ended.
//!
//! An id that ends a call cancels the children that it still awaits. The root of a partial call releases those that
//! have answered, and they forward the release. A failure goes up unchanged. If a child is lost, a partial call asks
//! the child's children. Each duty is judged at the end of the input that caused it. Not judged: ids that were asked
//! more than once, and calls with copied requests, which an observer cannot know.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use crate::by_call::ByCall;
use crate::ranges::forget;
use chained_gpc::chain::RETENTION;
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::{CallId, Cause, CauseKind, Request};

const NAME: &str = "farewell";

/// Tolerance for a duty at a given time: simultaneous events are observed one after the other.
const LATE_NS: u64 = 1_000;

/// State of an id that was asked, towards the asking id.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Tie {
    #[default]
    None,
    Asked,
    /// It has answered, and retains its answer in a partial call.
    Answered,
    /// It has failed, its link is lost, or the end of the call has been sent to it.
    Over,
}

/// State of an id towards its parents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Upward {
    /// Number of requests; two stands for more.
    asked: u8,
    ended: bool,
    /// Its parent has cancelled, or is lost.
    dismissed: bool,
    released: bool,
    /// It has answered with a failure, or was given up.
    failed: bool,
    /// It was given up: the ids below have another parent.
    moved: bool,
    /// Whether it has given its part of a partial call, and its last receiver.
    gave: bool,
    given: Id,
    /// It retains the part for that receiver.
    retains: bool,
    /// It may still retain its answer.
    may_retain: bool,
    /// Sender of the last request.
    requester: Id,
    /// It had no memory for an answer; the child retains that answer until its time is over, and is not released.
    full: bool,
}

/// One call.
#[derive(Default)]
struct Ties {
    /// By position: tie with the parent in the tree.
    by_parent: Vec<Tie>,
    /// Ties with other ids, by the asking id and the position asked.
    by_others: BTreeMap<(Id, u32), Tie>,
    upward: Vec<Upward>,
    /// In a partial call, by position: latest end of the root's time, as far as the id knows.
    over: BTreeMap<u32, u64>,
    /// By position: end of its own time; it adopts no id after that.
    limits: BTreeMap<u32, u64>,
}

/// A duty of an id, due before its next input.
#[derive(Clone, Debug)]
enum Due {
    /// Send the end to every id that it awaits; if released, to every id that has answered as well.
    Tell { released: bool },
    /// The call has ended at this id.
    End(&'static str),
    /// The call has ended at this id with this cause.
    Pass(Cause),
    /// The children of this position have been asked.
    Adopt(u32),
}

/// Ties of all calls, and duties of the id that handles an input.
#[derive(Default)]
pub(super) struct Farewell {
    calls: ByCall<Ties>,
    due: Vec<(Id, CallId, Due)>,
}

impl Farewell {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } => {
                let n = plan.ids.len() as usize;
                let (by_parent, upward) = (vec![Tie::None; n], vec![Upward::default(); n]);
                let ties = Ties { by_parent, upward, ..Ties::default() };
                self.calls.insert(*call, ties);
            }
            Observation::Received { at, from, message } => {
                self.received(book, *at, *from, message, findings.at)
            }
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                self.link_ended(book, *at, *peer);
            }
            Observation::GivenUp { call } => {
                let root =
                    book.calls.get(call).filter(|record| !book.root_ended(record)).and_then(Record::root);
                root.into_iter()
                    .for_each(|root| self.due.push((root, *call, Due::End("its caller gave it up"))));
            }
            Observation::Sent { from, to, message } => {
                if let Message::Response(Response { call, answer: Answer::Partial(partial) }) = message {
                    self.note_full(book, *from, *call, &partial.report.causes, false);
                }
                let wrong = self.sent(book, *from, *to, message);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("{from} -> {to}: {what}")));
            }
            Observation::Executed { id, call, .. } if self.is_dismissed(book, *id, *call) => {
                findings.add(NAME, format!("id {id} executes call {call} after its parent has ended it"));
            }
            Observation::Finished { call, outcome } => {
                let Some(root) = book.calls.get(call).and_then(Record::root) else { return };
                let causes = outcome.report.as_ref().map_or(&[][..], |report| &report.causes);
                let hidden = book.calls.get(call).is_some_and(|record| book.may_hide_lack(record, outcome));
                self.note_full(book, root, *call, causes, hidden);
                self.settle(root, *call, outcome.result.as_ref().err().map(|failure| &failure.cause));
                self.end(root, *call, 0, true);
            }
            Observation::Ended { id } => self.forget(book, *id),
            Observation::Held { id, held, .. } => {
                if !self.due.is_empty() && !held.goes_on {
                    self.judge(book, *id, findings);
                }
                if held.retained_answers > 0 {
                    self.counts(book, *id, held.retained_answers, findings);
                }
            }
            _ => {}
        }
    }

    /// Whether the only parent of an id has ended a call.
    fn is_dismissed(&self, book: &Book, id: Id, call: CallId) -> bool {
        let place = book
            .calls
            .get(&call)
            .and_then(|record| record.position(id).filter(|&place| !record.is_forged(place)));
        let upward =
            self.calls.get(&call).zip(place).and_then(|(ties, place)| ties.upward.get(place as usize));
        upward.is_some_and(|state| state.asked == 1 && state.dismissed)
    }

    /// Records that an id had no memory for an answer, or may have been unable to report that.
    fn note_full(&mut self, book: &Book, id: Id, call: CallId, causes: &[Cause], hidden: bool) {
        let full = |cause: &Cause| (cause.id, cause.kind) == (id, CauseKind::NoMemory);
        let place = book.calls.get(&call).and_then(|record| record.position(id));
        let state = self
            .calls
            .get_mut(&call)
            .zip(place)
            .and_then(|(ties, place)| ties.upward.get_mut(place as usize));
        state.into_iter().for_each(|state| state.full |= hidden || causes.iter().any(full));
    }

    /// The call has ended at an id, which must inform the ids below.
    fn end(&mut self, id: Id, call: CallId, position: u32, released: bool) {
        let Some(state) = self.calls.get_mut(&call).and_then(|ties| ties.upward.get_mut(position as usize))
        else {
            return;
        };
        state.ended = true;
        self.due.push((id, call, Due::Tell { released }));
    }

    /// An id has answered: duties with this cause are done.
    fn settle(&mut self, id: Id, call: CallId, cause: Option<&Cause>) {
        let settled = |due: &Due| matches!(due, Due::Pass(passed) if Some(passed) == cause);
        self.due.retain(|(at, of, due)| !(*at == id && *of == call && settled(due)));
    }

    fn received(&mut self, book: &Book, at: Id, from: Id, message: &Message, now: u64) {
        let Some(call) = message_call(message) else { return };
        let (Some(record), Some(ties)) = (book.calls.get(&call), self.calls.get_mut(&call)) else { return };
        let (Some(place), Some(other)) = (record.position(at), record.position(from)) else { return };
        let state = ties.upward[place as usize];
        let below = ties.tie(record, at, other);
        let was_asked = below == Some(Tie::Asked);
        let alone = place == 0 || state.asked == 1 && state.requester == from;
        // An id with several requests knows which one counts; an observer does not.
        let certain = place == 0 || state.asked == 1;
        // A malformed answer may not be part of this id's answer.
        let none = record.is_malformed(from);
        match message {
            Message::Request(request) => {
                if record.plan.partial {
                    ties.accept_limits(place, request, now);
                }
                ties.upward[place as usize].asked = (state.asked + 1).min(2);
                ties.upward[place as usize].requester = from;
            }
            Message::Response(response) if was_asked => {
                let failed = match &response.answer {
                    Answer::Failed(failure) => Some(failure.cause.clone()),
                    _ => None,
                };
                let tie = match &response.answer {
                    Answer::Failed(_) => Tie::Over,
                    // It is awaited until its data have arrived.
                    Answer::Arriving(_) => Tie::Asked,
                    Answer::Completed | Answer::Reply(_) | Answer::Partial(_) => Tie::Answered,
                };
                ties.set(record, at, other, tie);
                let due = failed.map(|cause| of_failure(record, other, cause));
                due.into_iter()
                    .filter(|_| certain && !state.ended)
                    .for_each(|due| self.due.push((at, call, due)));
            }
            Message::Cancel(_) if alone && !state.ended => {
                ties.upward[place as usize].dismissed = true;
                self.end(at, call, place, true);
            }
            Message::Release(_)
                if (alone || state.retains && state.given == from) && state.ended && !state.failed =>
            {
                ties.upward[place as usize].released = true;
                ties.upward[place as usize].lets_go(from);
                // Later the answer may have been dropped by itself, and with limits even earlier.
                if now < record.started + record.plan.limit_ns && book.limits.is_none() {
                    self.due.push((at, call, Due::Tell { released: true }));
                }
            }
            // An id that has answered drops its retained answer, if that includes the part of the child that moved.
            Message::Moved(_) if below.is_some() && !certain => {
                ties.upward[place as usize].retains = false;
                ties.upward[place as usize].may_retain &= below != Some(Tie::Answered) || state.full || none;
            }
            Message::Moved(_) if below.is_some() && certain && place > 0 => {
                ties.upward[place as usize].may_retain &= below != Some(Tie::Answered) || state.full || none;
                ties.upward[place as usize].failed = true;
                ties.upward[place as usize].moved = !state.ended;
                if !state.ended {
                    self.due.push((at, call, Due::End("its children have another parent")));
                }
            }
            _ => {}
        }
    }

    fn link_ended(&mut self, book: &Book, at: Id, peer: Id) {
        let known: Vec<CallId> = self.calls.keys().copied().collect();
        for call in known {
            let (Some(record), Some(ties)) = (book.calls.get(&call), self.calls.get_mut(&call)) else {
                continue;
            };
            let (Some(place), Some(other)) = (record.position(at), record.position(peer)) else { continue };
            let state = ties.upward[place as usize];
            let asked = ties.tie(record, at, other) == Some(Tie::Asked);
            if asked {
                ties.set(record, at, other, Tie::Over);
            }
            if state.ended || place > 0 && state.asked != 1 {
                continue;
            }
            match record.plan.partial {
                true if asked => self.due.push((at, call, Due::Adopt(other))),
                false if asked => self.due.push((at, call, Due::End("an id that it waits for is lost"))),
                false if place > 0 && state.requester == peer => {
                    ties.upward[place as usize].dismissed = true;
                    self.end(at, call, place, false);
                }
                _ => {}
            }
        }
    }

    fn sent(&mut self, book: &Book, from: Id, to: Id, message: &Message) -> Option<String> {
        let call = message_call(message)?;
        let (record, ties) = (book.calls.get(&call)?, self.calls.get_mut(&call)?);
        let (place, other) = (record.position(from)?, record.position(to)?);
        let state = ties.upward[place as usize];
        let below = ties.tie(record, from, other);
        let certain = state.asked == 1 && !record.is_forged(place);
        match message {
            Message::Request(_) => ties.set(record, from, other, Tie::Asked),
            Message::Cancel(_) | Message::Release(_) if below.is_some() => {
                ties.set(record, from, other, Tie::Over);
                if matches!(message, Message::Cancel(_)) && certain && state.moved {
                    return Some(format!("a cancel of call {call} from one that was given up"));
                }
                let early = !state.released && !state.dismissed && !state.failed;
                if matches!(message, Message::Release(_)) && place > 0 && certain && early {
                    return Some(format!("a release of call {call} before its own parent has released it"));
                }
            }
            // A root that is asked for its own call refuses, and continues.
            Message::Response(_) if place == 0 => {}
            Message::Response(response) => {
                let failure = match &response.answer {
                    Answer::Failed(failure) => Some(&failure.cause),
                    _ => None,
                };
                ties.upward[place as usize].failed |= failure.is_some();
                if matches!(response.answer, Answer::Partial(_)) {
                    let state = &mut ties.upward[place as usize];
                    (state.given, state.gave, state.retains, state.may_retain) = (to, true, true, true);
                }
                self.settle(from, call, failure);
                if !certain {
                    return None;
                }
                if state.dismissed {
                    return Some(format!("an answer to call {call} after its parent has ended it"));
                }
                // The call continues until the data from below have arrived.
                if matches!(response.answer, Answer::Arriving(_)) {
                    return None;
                }
                // An id that was given up sends nothing to the ids below.
                if !state.failed && !state.ended {
                    self.end(from, call, place, false);
                }
                self.calls.get_mut(&call)?.upward[place as usize].ended = true;
            }
            _ => {}
        }
        None
    }

    /// Forgets a process that ended: the next run of its id knows nothing.
    fn forget(&mut self, book: &Book, id: Id) {
        for (call, ties) in self.calls.iter_mut() {
            let Some(record) = book.calls.get(call) else { continue };
            let Some(place) = record.position(id) else { continue };
            ties.upward[place as usize] = Upward::default();
            record.groups(place).for_each(|group| ties.by_parent[group.start as usize] = Tie::None);
            forget(&mut ties.by_others, (id, 0)..=(id, u32::MAX));
        }
    }

    /// Checks that an id retains only answers that it has given and that were not released, and no longer than they may
    /// be asked for.
    fn counts(&self, book: &Book, id: Id, retained: usize, findings: &mut Findings) {
        // A paused process drops nothing.
        let awake = book.resumed.get(&id).copied().unwrap_or_default();
        let may_keep = |(call, ties): &(&CallId, &Ties)| {
            let Some(record) = book.calls.get(call) else { return false };
            let Some(place) = record.position(id) else { return false };
            let over = ties.over.get(&place).map(|over| over.saturating_add(RETENTION.as_nanos() as u64));
            let over = over.is_some_and(|over| findings.at > over.max(awake).saturating_add(LATE_NS));
            record.is_forged(place) || ties.upward[place as usize].may_retain && !over
        };
        let most = self.calls.iter().filter(may_keep).count();
        if retained > most {
            findings
                .add(NAME, format!("id {id} keeps {retained} answers, and all but {most} it was to let go"));
        }
    }

    /// Number of ids that an id has adopted in its other calls. All calls count here, so this is at least the number in
    /// calls of one parent. The calls that end with the present input count as well.
    fn adopted_beside(&self, book: &Book, id: Id, call: CallId, ending: &[CallId]) -> usize {
        let others = self.calls.iter().filter(|(other, _)| **other != call);
        let in_flight = others.filter(|(other, ties)| {
            let place = book.calls.get(other).and_then(|record| record.position(id));
            let ended = |place: u32| ties.upward[place as usize].ended && !ending.contains(other);
            place.is_some_and(|place| place > 0 && !ended(place))
        });
        in_flight.map(|(_, ties)| ties.adopted(id)).sum()
    }

    /// Judges the duties of an id at the end of an input.
    fn judge(&mut self, book: &Book, id: Id, findings: &mut Findings) {
        let mut all = std::mem::take(&mut self.due);
        let ends = |(at, _, due): &&(Id, CallId, Due)| *at == id && matches!(due, Due::Tell { .. });
        let ending: Vec<CallId> = all.iter().filter(ends).map(|(_, call, _)| *call).collect();
        for (at, call, due) in all.drain(..) {
            let (Some(record), Some(ties)) = (book.calls.get(&call), self.calls.get(&call)) else { continue };
            let place = record.position(at).filter(|&place| at == id && !record.is_forged(place));
            let Some(place) = place else { continue };
            let ended = ties.upward[place as usize].ended;
            let wrong = match due {
                Due::Tell { released } => {
                    // An id whose parent has ended the call could not report a lack of memory.
                    let state = ties.upward[place as usize];
                    let full = state.full || state.dismissed && book.has_little_memory();
                    let all = released && record.plan.partial && !full;
                    let left = ties.left(record, id, place, all);
                    left.map(|left| format!("ends call {call}, and does not tell {left}"))
                }
                Due::End(why) => (!ended).then(|| format!("goes on with call {call}, though {why}")),
                Due::Pass(cause) => Some(format!("does not pass on at once why call {call} fails: {cause}")),
                // No orphan could answer in time.
                Due::Adopt(_) if ties.is_late(record, place, findings.at) => None,
                Due::Adopt(lost) => {
                    let asked = |start| ties.tie(record, id, start).is_some();
                    let orphans = || record.groups(lost);
                    // Either all orphans are adopted, or, if they are too many, none.
                    let most = book.limits.map_or(u32::MAX, |limits| limits.adopted_max);
                    let unbounded = most == u32::MAX || place == 0;
                    let beside = if unbounded { 0 } else { self.adopted_beside(book, id, call, &ending) };
                    let all = ties.adopted(id) + beside + orphans().count();
                    let mut orphans = orphans()
                        .map(|group| group.start)
                        .filter(|_| u32::try_from(all).is_ok_and(|all| all <= most));
                    let left = orphans.find(|&start| !ended && !asked(start));
                    left.and_then(|left| record.plan.ids.id(left)).map(|left| {
                        format!("has lost the parent of {left} in call {call}, and does not adopt it")
                    })
                }
            };
            wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {id} {what}")));
        }
        self.due = all;
    }
}

/// Duty of an id whose child fails.
fn of_failure(record: &Record, child: Id, cause: Cause) -> Due {
    // A cause with an id outside the child's slice is invented.
    match record.plan.partial {
        true => Due::Adopt(child),
        false if record.slice(child).contains(cause.id) => Due::Pass(cause),
        false => Due::End("its child blames an id that is not below it"),
    }
}

impl Upward {
    /// The receiver of its answer releases it.
    fn lets_go(&mut self, from: Id) {
        self.may_retain &= !(self.gave && self.given == from);
    }
}

impl Ties {
    /// Records the time limits of a request of a partial call: the call is over at this position once the time of the
    /// request has passed.
    fn accept_limits(&mut self, place: u32, request: &Request, now: u64) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let over = self.over.entry(place).or_default();
        *over = now.saturating_add(ns(request.left.max(request.limit))).max(*over);
        self.limits.entry(place).or_insert(now.saturating_add(ns(request.limit)));
    }

    /// Whether the time limit has passed at a position.
    fn is_late(&self, record: &Record, place: u32, now: u64) -> bool {
        let root = record.started.saturating_add(record.plan.limit_ns);
        let limit = if place == 0 { Some(root) } else { self.limits.get(&place).copied() };
        limit.is_some_and(|limit| limit <= now + LATE_NS)
    }

    /// Tie of a position with an id that may have asked it; `None` if it was not asked.
    fn tie(&self, record: &Record, above: Id, place: u32) -> Option<Tie> {
        let tie = match record.is_parent(above, place) {
            true => *self.by_parent.get(place as usize)?,
            false => *self.by_others.get(&(above, place))?,
        };
        (tie != Tie::None).then_some(tie)
    }

    fn set(&mut self, record: &Record, above: Id, place: u32, tie: Tie) {
        match record.is_parent(above, place) {
            true => self.by_parent[place as usize] = tie,
            false => drop(self.by_others.insert((above, place), tie)),
        }
    }

    /// Number of ids other than its own children that an id has asked.
    fn adopted(&self, id: Id) -> usize {
        self.by_others.range((id, 0)..=(id, u32::MAX)).count()
    }

    /// An id that was asked and to which the end of the call has not been sent.
    fn left(&self, record: &Record, id: Id, place: u32, released: bool) -> Option<Id> {
        let left = |tie: Tie| tie == Tie::Asked || released && tie == Tie::Answered;
        let own = record.groups(place).map(|group| group.start);
        let own = own.filter(|&start| left(self.by_parent[start as usize]));
        let others = self.by_others.range((id, 0)..=(id, u32::MAX));
        let others = others.filter(|(_, tie)| left(**tie)).map(|((_, start), _)| *start);
        let mut left = own.chain(others).filter_map(|start| record.plan.ids.id(start));
        // If its answer was to a copied request or malformed, it counts as failed.
        let none = |below: Id| record.plan.partial && record.is_malformed(below);
        left.find(|&below| !record.is_misled(below, id) && !none(below))
    }
}

/// Call that a message is about.
fn message_call(message: &Message) -> Option<CallId> {
    match message {
        Message::Request(request) => Some(request.call),
        Message::Response(response) => Some(response.call),
        Message::Cancel(call) | Message::Release(call) | Message::Moved(call) => Some(*call),
        Message::Ping | Message::Pong | Message::Stragglers(_) | Message::Pause(_) => None,
    }
}
