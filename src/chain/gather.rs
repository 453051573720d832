//! What a node answers when all of its subtree is done.
//!
//! Source: chained-gpc.md, "The action for any response" 2; the default aggregation is ws-rendezvous.html, "Data format": level-n data.

use bytes::Bytes;

use super::Reply;
use super::call::{Call, ChildAnswer, Origin, Own};
use crate::wire::level::{LevelLimit, Leveled, aggregate};
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::{Cause, Stage};

/// The answer of a call whose every child is done. Takes the replies out of the call.
pub(super) fn answer(call: &mut Call, reply_max: u64) -> Result<Answer, Cause> {
    let me = call.request.ids.first().unwrap_or_default();
    let own = match std::mem::replace(&mut call.own, Own::Lent) {
        Own::Ready(reply) => reply,
        _ => Reply::default(),
    };
    if !call.request.reply_wanted {
        return Ok(Answer::Completed);
    }
    let reply = match call.request.callback {
        Some(_) => Ok(SubtreeReply { level: 0, header: own.header.into(), data: own.data.into() }),
        None => aggregated(call, own),
    };
    let reply = reply.map_err(|error| Cause::new(me, Stage::Reply, error.to_string()))?;
    if reply.len() > reply_max {
        let message =
            format!("the subtree's reply of {} bytes is over the limit of {reply_max}", reply.len());
        return Err(Cause::new(me, Stage::Reply, message));
    }
    Ok(Answer::Reply(reply))
}

/// Own data first, then the children's in list order, headers beside data.
fn aggregated(call: &mut Call, own: Reply) -> Result<SubtreeReply, LevelLimit> {
    let contributes = !matches!(call.origin, Origin::Here { watch: true, .. });
    let own_part = |bytes: Vec<u8>| contributes.then(|| Bytes::from(bytes));
    let children = call.children.as_deref_mut().unwrap_or_default();
    let replies = children.iter_mut().filter_map(|child| match &mut child.answer {
        ChildAnswer::Done(reply) => reply.take(),
        ChildAnswer::Awaited => None,
    });
    let (headers, data): (Vec<Leveled>, Vec<Leveled>) = replies.map(split).unzip();
    let header = aggregate(own_part(own.header), &headers)?;
    let data = aggregate(own_part(own.data), &data)?;
    Ok(SubtreeReply { level: data.level, header: header.data, data: data.data })
}

fn split(reply: SubtreeReply) -> (Leveled, Leveled) {
    let SubtreeReply { level, header, data } = reply;
    (Leveled { level, data: header }, Leveled { level, data })
}
