//! Builds a node's answer when its whole subtree is done.
//!
//! Source: the ARMCI design of chained GPC (2007), "The action for any response" 2. The default aggregation is level-n
//! data, from the rendezvous web service of Globus (WS Rendezvous), "Data format".

use bytes::Bytes;

use gpc_trees::Id;

use super::Reply;
use super::call::{Call, Origin, OwnPart};
use crate::wire::frame::REPORT_MAX;
use crate::wire::level::{Leaves, LevelLimit, Leveled, Limits, aggregate, aggregate_parts, level0};
use crate::wire::message::{Answer, Partial, SubtreeReply};
use crate::wire::{Cause, CauseKind, Coverage, Failure, Stage, Status};

/// Returns the answer of a call whose children are all done. It takes the replies out of the call.
pub(super) fn answer(call: &mut Call, reply_max: u64) -> Result<Answer, Cause> {
    let me = call.request.ids.first().unwrap_or_default();
    let own = match std::mem::replace(&mut call.own, OwnPart::Lent) {
        OwnPart::Ready(reply) => reply,
        _ => Reply::default(),
    };
    if !call.request.reply_wanted {
        return Ok(Answer::Completed);
    }
    let reply = match call.request.callback {
        Some(_) => Ok(merged_alone(own)),
        None => {
            let own = Some(own).filter(|_| !matches!(call.origin, Origin::Application { watch: true, .. }));
            aggregated(call, own)
        }
    };
    let reply = reply.map_err(|error| over_level(me, error))?;
    within_limit(me, reply, reply_max)
}

/// Returns the answer of an id without children; `merged` is whether a callback would merge its reply with others.
pub(super) fn alone(
    me: Id,
    reply_wanted: bool,
    merged: bool,
    own: Reply,
    reply_max: u64,
) -> Result<Answer, Cause> {
    match (reply_wanted, merged) {
        (false, _) => Ok(Answer::Completed),
        (true, true) => within_limit(me, merged_alone(own), reply_max),
        (true, false) => {
            let (header, data) = own.into_parts();
            let reply = SubtreeReply {
                level: 0,
                header: level0(header),
                data: level0(data),
                ..SubtreeReply::default()
            };
            within_limit(me, reply, reply_max)
        }
    }
}

/// Like [`alone`]; a reply that is too long is a failure of that id.
pub(super) fn alone_or_failed(me: Id, wanted: bool, merged: bool, own: Reply, reply_max: u64) -> Answer {
    alone(me, wanted, merged, own, reply_max).unwrap_or_else(|cause| {
        Answer::Failed(Box::new(Failure { cause, coverage: Coverage::all(Status::Failed, 1) }))
    })
}

/// Returns the result of a callback.
fn merged_alone(own: Reply) -> SubtreeReply {
    let (header, data) = own.into_parts();
    SubtreeReply { level: 0, header: header.into(), data: data.into(), trace: Bytes::new() }
}

fn within_limit(me: Id, reply: SubtreeReply, reply_max: u64) -> Result<Answer, Cause> {
    if reply.len() > reply_max {
        return Err(over_limit(me, reply.len(), reply_max));
    }
    Ok(Answer::Reply(reply))
}

pub(super) fn over_limit(me: Id, len: u64, reply_max: u64) -> Cause {
    let message = format!("the subtree's reply of {len} bytes is over the limit of {reply_max}");
    Cause::new(me, Stage::Reply, CauseKind::OverLimit, message)
}

/// Returns the cause for a tree with more levels than an aggregate can have.
pub(super) fn over_level(me: Id, error: LevelLimit) -> Cause {
    Cause::new(me, Stage::Reply, CauseKind::OverLimit, error.to_string())
}

/// Aggregates own data first, then the children's in list order; headers likewise.
fn aggregated(call: &mut Call, own: Option<Reply>) -> Result<SubtreeReply, LevelLimit> {
    let (own_header, own_data) = own.map(Reply::into_parts).unzip();
    let replies = call.arrived.in_list_order().iter().map(|(_, reply)| reply);
    let header = aggregate_parts(own_header, replies.clone().map(|reply| (reply.level, &reply.header)))?;
    let data = aggregate_parts(own_data, replies.map(|reply| (reply.level, &reply.data)))?;
    call.arrived.clear();
    Ok(SubtreeReply { level: data.level, header: header.data, data: data.data, ..SubtreeReply::default() })
}

/// Returns the available part of a partial call's answer, and the report on its ids. It takes the replies out of the
/// call.
pub(super) fn partial(call: &mut Call, reply_max: u64) -> Partial {
    let me = call.request.ids.first().unwrap_or_default();
    let mut report = call.take_report();
    let reply = match (call.request.callback, call.request.reply_wanted) {
        (_, false) => Ok(SubtreeReply::default()),
        (Some(_), true) => merged(call),
        (None, true) => {
            let own = match std::mem::replace(&mut call.own, OwnPart::Failed) {
                OwnPart::Ready(reply) if !matches!(call.origin, Origin::Application { watch: true, .. }) => {
                    Some(reply)
                }
                _ => None,
            };
            aggregated(call, own)
        }
    };
    let fault = match &reply {
        Ok(_) if report.emitted_len() > REPORT_MAX => {
            report.coverage = Coverage::all(Status::Unknown, call.request.ids.len());
            Some("the subtree's ids fared too differently for one report".to_string())
        }
        Ok(reply) if reply.len() <= reply_max => None,
        Ok(reply) => {
            let len = reply.len();
            Some(format!("the subtree's reply of {len} bytes is over the limit of {reply_max}"))
        }
        Err(error) => Some(error.to_string()),
    };
    let Some(message) = fault else { return Partial { reply: reply.unwrap_or_default(), report } };
    // All ids have done their part, but none of it reaches the caller.
    report.add(Cause::new(me, Stage::Reply, CauseKind::OverLimit, message));
    report.coverage = without_parts(&report.coverage);
    Partial { reply: nothing(), report }
}

/// Returns the merged value of a partial call with a callback: one value at level 0, or at level 1 those that could not
/// be merged here.
fn merged(call: &mut Call) -> Result<SubtreeReply, LevelLimit> {
    let arrived = call.unmerged();
    // A root that only watches has no value of its own, except what callback has merged from others.
    let watches = matches!(call.origin, Origin::Application { watch: true, .. });
    let nothing_own = watches && call.partial.merged.is_empty() && !arrived.is_empty();
    let mut parts: Vec<SubtreeReply> = match std::mem::replace(&mut call.own, OwnPart::Failed) {
        OwnPart::Ready(_) if nothing_own => arrived,
        OwnPart::Ready(own) => std::iter::once(merged_alone(own)).chain(arrived).collect(),
        _ => std::mem::take(&mut call.partial.merged).into_iter().chain(arrived).collect(),
    };
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    let leveled = |bytes: Bytes| Leveled { level: 0, data: level0(bytes) };
    let (headers, data): (Vec<Leveled>, Vec<Leveled>) = parts
        .into_iter()
        .map(|part| (leveled(part.header.into_bytes()), leveled(part.data.into_bytes())))
        .unzip();
    let (header, data) = (aggregate(None, &headers)?, aggregate(None, &data)?);
    Ok(SubtreeReply { level: 1, header: header.data, data: data.data, ..SubtreeReply::default() })
}

/// Returns the values of a child's partial reply for a callback: one value, or those that could not be merged below.
/// `None` if the reply does not have that form.
pub(super) fn parts(reply: SubtreeReply) -> Option<Vec<SubtreeReply>> {
    match reply.level {
        0 => return Some(vec![reply]),
        1 => {}
        _ => return None,
    }
    let (header, data) = (reply.header.into_bytes(), reply.data.into_bytes());
    let leaves = |bytes: &Bytes| -> Option<Vec<Bytes>> {
        Leaves::new(1, bytes, Limits::default())
            .map(|leaf| leaf.ok().map(|leaf| bytes.slice_ref(leaf)))
            .collect()
    };
    let (headers, data) = (leaves(&header)?, leaves(&data)?);
    let part = |(header, data): (Bytes, Bytes)| SubtreeReply {
        level: 0,
        header: header.into(),
        data: data.into(),
        ..SubtreeReply::default()
    };
    (headers.len() == data.len()).then(|| headers.into_iter().zip(data).map(part).collect())
}

/// Returns an aggregate of no parts.
fn nothing() -> SubtreeReply {
    let empty = || Bytes::from_static(b"0 ").into();
    SubtreeReply { level: 1, header: empty(), data: empty(), ..SubtreeReply::default() }
}

/// Returns the coverage of a subtree whose reply is lost: its first id failed, the others may have executed.
fn without_parts(coverage: &Coverage) -> Coverage {
    let mut without = Coverage::new();
    without.push(Status::Failed, u32::from(!coverage.is_empty()));
    for &(status, count) in coverage.without_first().runs() {
        without.push(if status == Status::Done { Status::Unknown } else { status }, count);
    }
    without
}
