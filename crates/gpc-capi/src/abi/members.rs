//! Membership: peers that come and go, and their events.

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::runtime::PeerEvent;
use chained_gpc::{CallHandle, Events, Ids, Loss, NoEvent, Node, Peer, PeerEventKind, PolledNode, PublicKey};

use super::pointers::{Pointers, border, handle, object, opaque};
use super::types::{cgpc_call, cgpc_context, cgpc_event, cgpc_events};
use crate::calls::InFlight;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::handles::{Kind, Object, insert, remove};
use crate::status::*;

/// A kind of cgpc_event: the link is up.
pub const CGPC_PEER_UP: i32 = 1;
/// A kind of cgpc_event: the link was lost.
pub const CGPC_PEER_LOST: i32 = 2;

/// A loss of cgpc_event: the peer left in order.
pub const CGPC_LOSS_LEFT: i32 = 1;
/// A loss of cgpc_event: the connection broke; its process may have died.
pub const CGPC_LOSS_BROKEN: i32 = 2;
/// A loss of cgpc_event: the peer was silent for too long.
pub const CGPC_LOSS_SILENT: i32 = 3;
/// A loss of cgpc_event: another connection has replaced it.
pub const CGPC_LOSS_REPLACED: i32 = 4;
/// A loss of cgpc_event: this process was told to forget the peer.
pub const CGPC_LOSS_FORGOTTEN: i32 = 5;
/// A loss of cgpc_event: one side closed an idle link in order.
pub const CGPC_LOSS_CLOSED: i32 = 6;

struct Subscription(Events);

impl Object for Subscription {
    const KIND: Kind = Kind::Events;
}

/// Sets the address of a peer, and its public key of 32 bytes, which may be null. Calls that start later reach it
/// there. May be called from any thread. Errors: CGPC_ERR_ARGUMENT for this process itself, CGPC_ERR_BUSY,
/// CGPC_ERR_ENDED; on a polled context as for cgpc_progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_learn(
    context: *mut cgpc_context,
    id: u32,
    address: *const c_char,
    key: *const u8,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let context = object::<Context, _>(context)?;
            let peer = peer(c, id, address, key)?;
            context.with_node(|node| Ok(node.learn(peer.clone())?), |node| Ok(node.learn(peer.clone())?))?;
            Ok(CGPC_OK)
        })
    }
}

/// Removes the address of a peer, and closes the link with it in order. As cgpc_learn. May be called where cgpc_learn
/// may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_forget(context: *mut cgpc_context, id: u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<Context, _>(context)?
                .with_node(|node| Ok(node.forget(id)?), |node| Ok(node.forget(id)?))?;
            Ok(CGPC_OK)
        })
    }
}

/// Makes every known id learn a peer, by a partial call, and stores its handle: see cgpc_call_start. May be called
/// where cgpc_learn may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_announce(
    context: *mut cgpc_context,
    id: u32,
    address: *const c_char,
    key: *const u8,
    call: *mut *mut cgpc_call,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            object::<Context, _>(context)?;
            let peer = peer(c, id, address, key)?;
            spread(c, context, call, |node| node.announce(peer.clone()), |node| node.announce(peer.clone()))
        })
    }
}

/// Makes every known id forget an id, by a partial call, and stores its handle: see cgpc_call_start. May be called
/// where cgpc_learn may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_withdraw(
    context: *mut cgpc_context,
    id: u32,
    call: *mut *mut cgpc_call,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| spread(c, context, call, |node| node.withdraw(id), |node| node.withdraw(id))) }
}

/// Waits until there is a link to each of these ids, at most `limit_us` microseconds. Drives a polled context. Not from
/// within functions. Errors: CGPC_ERR_ABSENT, CGPC_ERR_IDS, CGPC_ERR_DEADLOCK, CGPC_ERR_BUSY, CGPC_ERR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_wait_for_peers(
    context: *mut cgpc_context,
    ids: *const u32,
    id_count: usize,
    limit_us: u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let ids: Ids = c.items(ids, id_count, "ids")?.into();
            let limit = Duration::from_micros(limit_us);
            object::<Context, _>(context)?.with_node(
                |node| Ok(node.wait_for_peers(ids.clone(), limit)?),
                |node| Ok(node.wait_for_peers(ids.clone(), limit)?),
            )?;
            Ok(CGPC_OK)
        })
    }
}

/// Subscribes to the events of peers, and stores a handle that cgpc_events_free frees. First come the links that are
/// up. Errors as for cgpc_learn. May be called where cgpc_learn may.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_events_open(
    context: *mut cgpc_context,
    events: *mut *mut cgpc_events,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(events, "events")?;
            let opened = object::<Context, _>(context)?
                .with_node(|node| Ok(node.events()?), |node| Ok(node.events()?))?;
            c.store(events, opaque(insert(Arc::new(Subscription(opened)))?), "events")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the next event; waits for it at most `limit_us` microseconds. Set `event->size` before. Returns CGPC_NONE
/// if there is none, and CGPC_ERR_ENDED if the context has ended and all events were taken. The thread that drives a
/// polled context passes 0. May be called from any thread, several at once: each event is stored once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_events_next(
    events: *mut cgpc_events,
    limit_us: u64,
    event: *mut cgpc_event,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let events = object::<Subscription, _>(events)?;
            c.sized(event.cast_const())?;
            let taken = match limit_us {
                0 => events.0.try_recv(),
                limit => events.0.recv_within(Duration::from_micros(limit)),
            };
            match taken {
                Ok(taken) => c.fill_sized(event, &converted(&taken)).map(|()| CGPC_OK),
                Err(NoEvent::Yet) => Ok(CGPC_NONE),
                Err(error @ NoEvent::Ended) => Err(Error::new(CGPC_ERR_ENDED, error.to_string())),
            }
        })
    }
}

/// Stores the number of events that were dropped because the queue was full. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_events_missed(events: *const cgpc_events, missed: *mut u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(missed, object::<Subscription, _>(events)?.0.missed(), "missed")?;
            Ok(CGPC_OK)
        })
    }
}

/// Ends a subscription. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_events_free(events: *mut cgpc_events) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Subscription>(handle(events))?;
            Ok(CGPC_OK)
        })
    }
}

fn peer(c: &Pointers<'_>, id: u32, address: *const c_char, key: *const u8) -> Result<Peer> {
    let peer = Peer::new(id, c.text(address, "address")?.parse()?);
    if key.is_null() {
        return Ok(peer);
    }
    let key: [u8; 32] = c.items(key, 32, "key")?.try_into().unwrap_or_default();
    Ok(peer.known_by(PublicKey(key)))
}

fn spread(
    c: &Pointers<'_>,
    context: *mut cgpc_context,
    call: *mut *mut cgpc_call,
    running: impl FnOnce(&Node) -> std::result::Result<CallHandle, chained_gpc::CallError>,
    polled: impl FnOnce(&mut PolledNode) -> std::result::Result<CallHandle, chained_gpc::CallError>,
) -> Result<c_int> {
    c.needs(call, "call")?;
    let context = object::<Context, _>(context)?;
    let started = context.with_node(|node| Ok(running(node)?), |node| Ok(polled(node)?))?;
    c.store(call, opaque(insert(Arc::new(InFlight::new(context.shared(), started)))?), "call")?;
    Ok(CGPC_OK)
}

fn converted(event: &PeerEvent) -> cgpc_event {
    let mut converted = cgpc_event {
        size: 0,
        id: event.id,
        kind: CGPC_PEER_UP,
        incarnation: event.incarnation,
        loss: 0,
        reason: [0; 244],
    };
    if let PeerEventKind::Lost { loss, reason } = &event.kind {
        converted.kind = CGPC_PEER_LOST;
        converted.loss = match loss {
            Loss::Left => CGPC_LOSS_LEFT,
            Loss::Silent => CGPC_LOSS_SILENT,
            Loss::Replaced => CGPC_LOSS_REPLACED,
            Loss::Forgotten => CGPC_LOSS_FORGOTTEN,
            Loss::Closed => CGPC_LOSS_CLOSED,
            _ => CGPC_LOSS_BROKEN,
        };
        // The last byte stays zero.
        let room = converted.reason.len() - 1;
        let bytes = reason.bytes().filter(|byte| *byte != 0).take(room);
        converted.reason.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte as c_char);
    }
    converted
}
