//! Malformed answers. A child reports too few or too many ids, or blames an id that it was not sent to. Or it sends a
//! reply that is not level-n data, or that has not one part for each id that is done.
//!
//! Malformed input must be harmless. Its reader learns nothing of the ids below, as if the answer had not arrived. What
//! it reports of other ids stays true. In a partial call without a callback every hop counts the parts of replies, and
//! only the child is lost. In other calls the bytes of a reply may go up unread, and then the whole reply of the call
//! cannot be parsed.

use bytes::Bytes;
use gpc_trees::Id;

use super::check::Observation;
use super::faults::Fault;
use super::large::LARGE;
use super::world::World;
use chained_gpc::wire::level::{Leaves, Leveled, Limits, aggregate, level0, validate};
use chained_gpc::wire::message::{Answer, Partial, Response, SubtreeReply};
use chained_gpc::wire::{Cause, CauseKind, Coverage, Failure, Message, Payload, Report, Stage, Status};

impl World {
    /// Replaces a few answers by malformed ones.
    pub(super) fn perhaps_malformed(&mut self, from: Id, message: Message) -> Message {
        let Message::Response(Response { call, ref answer }) = message else { return message };
        let now = self.now;
        let Some(mishaps) = &mut self.mishaps else { return message };
        if self.scenario.n > LARGE || !mishaps.count_answer(now) {
            return message;
        }
        let way = self.random.below(7);
        let merges = self.call(call).is_some_and(|state| state.plan.callback);
        let values = self.call(call).is_some_and(|state| state.plan.callback && state.plan.partial)
            && self.profile.history.random.chance(2, 3);
        let bad = match answer {
            Answer::Partial(partial) if values && GARBLES.contains(&way) => bad_values(partial, way),
            _ if way == BLAMES => blaming(answer, call.root),
            _ => malformed(answer, way),
        };
        let Some(answer) = bad else { return message };
        let garbled = match &answer {
            Answer::Reply(_) => GARBLES.contains(&way),
            Answer::Partial(partial) if GARBLES.contains(&way) => {
                // By chance the reply may still be valid.
                if !merges && fits(partial) {
                    return message;
                }
                merges
            }
            _ => false,
        };
        self.inject(Fault::Malformed, &[from]);
        self.observe(&Observation::Malformed { from, call, garbled });
        Message::Response(Response { call, answer })
    }
}

/// Longest reply that an id makes up, bytes: limits beyond it are not exceeded.
const MADE_UP_MAX: u64 = 1 << 16;

impl World {
    /// Makes a few combined replies longer than the call takes: their sender has to check them.
    pub(super) fn perhaps_unchecked(&mut self, from: Id, mut message: Message) -> Message {
        let Message::Response(Response { call, ref mut answer }) = message else { return message };
        let Some(plan) = self.call(call).map(|state| state.plan.clone()) else { return message };
        let most = plan.carries.reply_limits.data_max;
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Partial(partial) => &mut partial.reply,
            Answer::Completed | Answer::Failed(_) | Answer::Arriving(_) => return message,
        };
        let now = self.now;
        if !plan.callback || !plan.reply_wanted || reply.level > 0 || most > MADE_UP_MAX {
            return message;
        }
        if !self.mishaps.as_mut().is_some_and(|mishaps| mishaps.count_limited(now)) {
            return message;
        }
        reply.data = Payload::copy_from_slice(&vec![0; most as usize + 1]);
        self.inject(Fault::LongReply, &[from]);
        self.observe(&Observation::Malformed { from, call, garbled: false });
        message
    }
}

/// Ways that change the bytes of a reply.
const GARBLES: std::ops::Range<u64> = 2..6;

/// The way that blames an id outside the sender's subtree.
const BLAMES: u64 = 6;

/// Makes an answer blame the root, which is below no child.
fn blaming(answer: &Answer, root: Id) -> Option<Answer> {
    let lie = Cause::new(root, Stage::Func, CauseKind::Failed, "a lie");
    Some(match answer {
        Answer::Failed(failure) => {
            Answer::Failed(Box::new(Failure { cause: lie, coverage: failure.coverage.clone() }))
        }
        Answer::Partial(partial) => {
            let mut lying = partial.clone();
            lying.report.causes.insert(0, lie);
            Answer::Partial(lying)
        }
        _ => return None,
    })
}

/// Whether a reply has one part for each id that is done.
fn fits(Partial { reply, report }: &Partial) -> bool {
    let done = u64::from(report.coverage.counts().done);
    let has = |part: &Payload| validate(reply.level, &part.to_bytes(), Limits::default()) == Ok(done);
    has(&reply.header) && has(&reply.data)
}

/// Makes an answer malformed in one of six ways; `None` if the way does not apply to it.
fn malformed(answer: &Answer, way: u64) -> Option<Answer> {
    Some(match (answer, way) {
        (Answer::Completed, 0 | 1) => Answer::Partial(Box::default()),
        (Answer::Reply(_), 0) => Answer::Completed,
        (Answer::Reply(reply), 1) => {
            Answer::Partial(Box::new(Partial { reply: reply.clone(), report: Report::default() }))
        }
        (Answer::Reply(reply), _) => Answer::Reply(garbled(reply, way)?),
        (Answer::Partial(partial), 0 | 1) => {
            let coverage = miscounted(&partial.report.coverage, way);
            let report = Report { coverage, ..partial.report.clone() };
            Answer::Partial(Box::new(Partial { reply: partial.reply.clone(), report }))
        }
        (Answer::Partial(partial), _) => {
            let reply = garbled(&partial.reply, way)?;
            Answer::Partial(Box::new(Partial { reply, report: partial.report.clone() }))
        }
        (Answer::Failed(failure), 0 | 1) => {
            let mut failure = failure.clone();
            failure.coverage = miscounted(&failure.coverage, way);
            Answer::Failed(failure)
        }
        (Answer::Completed | Answer::Failed(_) | Answer::Arriving(_), _) => return None,
    })
}

/// Invalid values for a callback: bytes without meaning, two values with one header, or values of values.
fn bad_values(partial: &Partial, way: u64) -> Option<Answer> {
    let one = || Leveled { level: 0, data: level0(Bytes::from_static(b"value")) };
    let values = |count| aggregate(None, &vec![one(); count]).ok();
    let (mut header, mut data) = (values(2)?, values(2)?);
    match way {
        2 => data = Leveled { data: level0(Bytes::from_static(b"9")), ..data },
        3 => header = values(1)?,
        _ => (header, data) = (aggregate(None, &[header]).ok()?, aggregate(None, &[data]).ok()?),
    }
    let reply =
        SubtreeReply { level: data.level, header: header.data, data: data.data, ..SubtreeReply::default() };
    Some(Answer::Partial(Box::new(Partial { reply, report: partial.report.clone() })))
}

/// Coverage of one id more, or of all ids but the first.
fn miscounted(coverage: &Coverage, way: u64) -> Coverage {
    if way == 0 && !coverage.is_empty() {
        return coverage.without_first();
    }
    let mut more = coverage.clone();
    more.push(Status::Done, 1);
    more
}

/// Invalid reply: bytes without meaning, as many or fewer; a header for fewer ids than the data; or both for fewer ids
/// than are done.
fn garbled(reply: &SubtreeReply, way: u64) -> Option<SubtreeReply> {
    if way == 4 {
        return Some(SubtreeReply { header: without_last(reply, &reply.header)?, ..reply.clone() });
    }
    if way == 5 {
        let [header, data] = [&reply.header, &reply.data].map(|part| without_last(reply, part));
        return Some(SubtreeReply { header: header?, data: data?, ..reply.clone() });
    }
    let mut data = reply.data.to_bytes().to_vec();
    let last = data.pop()?;
    if way == 2 {
        data.push(!last);
        data.reverse();
    }
    Some(SubtreeReply { data: Payload::copy_from_slice(&data), ..reply.clone() })
}

/// Header or data of a reply without the part of the last id; above level 1, without the last byte.
fn without_last(reply: &SubtreeReply, whole: &Payload) -> Option<Payload> {
    let bytes = whole.to_bytes();
    if reply.level != 1 {
        return Some(Payload::copy_from_slice(bytes.split_last()?.1));
    }
    let of_level_0 = |part: &[u8]| Leveled { level: 0, data: level0(Bytes::copy_from_slice(part)) };
    let parts: Vec<Leveled> =
        Leaves::new(1, &bytes, Limits::default()).map_while(|part| Some(of_level_0(part.ok()?))).collect();
    let fewer = aggregate(None, parts.split_last()?.1).ok()?;
    Some(Payload::copy_from_slice(&fewer.data.to_bytes()))
}
