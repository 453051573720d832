//! Collective operations: each process brings something, and gets what all have brought.
//!
//! A fence is a chained call with deferred replies: process 0 asks all, down a tree, and each answers when it has come.
//! A second call passes on what all have brought.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::runtime::FunctionResult;
use chained_gpc::{Deferred, Loss, Reply, Request};

use super::levels;
use super::mutex::lock;
use super::shared::{Layer, Meeting, Operation, Shared};
use crate::error::{Error, Result};
use crate::status::{CGPC_ERR_CALL, CGPC_ERR_DATA};

/// How often a process that waits asks whether process 0 is still there: losses end a wait within a moment, and a wait
/// of days costs nothing.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Brings bytes, waits for all, and returns what each process has brought, by its number. The processes also learn what
/// the others have freed.
///
/// # Errors
/// If a process has died or left, and in a handler.
pub(super) fn exchange(layer: &Layer, mine: Vec<u8>) -> Result<Vec<Bytes>> {
    levels::outside_handlers("a collective operation")?;
    let freed = lock(&layer.shared.memory).freed();
    let mut brought = (freed.len() as u64).to_le_bytes().to_vec();
    freed.iter().for_each(|number| brought.extend_from_slice(&number.to_le_bytes()));
    brought.extend_from_slice(&mine);
    let all = meet(layer, brought)?;
    let mut memory = lock(&layer.shared.memory);
    memory.told(&freed);
    let wrong = || Error::new(CGPC_ERR_DATA, "a process has told what it has freed in another form");
    let mut rest = Vec::with_capacity(all.len());
    for (process, mut part) in all.into_iter().enumerate() {
        let count = take_number(&mut part).ok_or_else(wrong)?;
        for _ in 0..count {
            memory.freed_at(process, take_number(&mut part).ok_or_else(wrong)?);
        }
        rest.push(part);
    }
    Ok(rest)
}

/// Takes a number from the begin of bytes.
fn take_number(bytes: &mut Bytes) -> Option<u64> {
    match bytes.len() {
        0..8 => None,
        _ => Some(u64::from_le_bytes(bytes.split_to(8).as_ref().try_into().ok()?)),
    }
}

/// Brings bytes, waits for all, and returns what each process has brought.
fn meet(layer: &Layer, mine: Vec<u8>) -> Result<Vec<Bytes>> {
    let shared = &layer.shared;
    let number = bring(shared, mine);
    if layer.me == 0 {
        let all = gather(layer, number);
        let (flag, data) = match &all {
            Ok(all) => (0, all.clone()),
            Err(error) => (1, Bytes::from(error.message.clone())),
        };
        let mut header = number.to_le_bytes().to_vec();
        header.push(flag);
        let call = layer.call_of(layer.numbers.leave)?.ids(0..layer.count).header(header).data(data);
        // Those that are left are told, even if one has gone.
        layer.run(call.partial())?;
    }
    // Terminates: process 0 says how the operation has ended, or it is lost.
    loop {
        let mut meeting = lock(&shared.collective);
        if let Some(Operation::Ended(_)) = meeting.operations.get(&number)
            && let Some(Operation::Ended(ended)) = meeting.operations.remove(&number)
        {
            let all = ended.map_err(|why| Error::new(CGPC_ERR_CALL, why))?;
            return parts(&all, layer.count);
        }
        if let Some(why) = &meeting.lost {
            return Err(Error::new(CGPC_ERR_CALL, why.clone()));
        }
        let waited = shared.met.wait_timeout(meeting, LOOK_AGAIN);
        let (meeting, pause) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(meeting);
        if pause.timed_out()
            && let Some(loss) = layer.context.root_left()?
        {
            root_lost(layer, loss);
        }
    }
}

/// Tells all that process 0 has gone: others may not notice it themselves.
fn root_lost(layer: &Layer, loss: Loss) {
    let how = if loss == Loss::Left { "has left" } else { "was lost" };
    let why = format!("process 0, which leads the collective operations, {how}: {loss:?}");
    fail_all(&layer.shared, why.clone());
    let others = (1..layer.count).filter(|id| *id != layer.me).collect::<Vec<u32>>();
    if others.is_empty() {
        return;
    }
    let call = layer
        .call_of(layer.numbers.lost)
        .map(|call| call.ids(others).watch().partial().no_reply().data(why).limit(TELL_LIMIT));
    // A process that cannot be told notices it by itself, or is lost.
    if let Ok(call) = call.and_then(|call| layer.context.call(call)) {
        call.detach();
    }
}

/// How long others may take to learn that process 0 was lost.
const TELL_LIMIT: Duration = Duration::from_secs(60);

fn fail_all(shared: &Shared, why: String) {
    lock(&shared.collective).lost.get_or_insert(why);
    shared.met.notify_all();
}

/// Process 0 has gone, as another process has noticed.
pub(super) fn lost(shared: &Arc<Shared>, request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
    fail_all(shared, String::from_utf8_lossy(request.data()).into_owned());
    Ok(())
}

/// Leaves bytes for process 0, and returns the number of the operation.
fn bring(shared: &Shared, mine: Vec<u8>) -> u64 {
    let mut meeting = lock(&shared.collective);
    let number = meeting.next;
    meeting.next += 1;
    match meeting.operations.remove(&number) {
        Some(Operation::Requested(token)) => {
            drop(meeting);
            token.reply(Reply { data: mine, ..Reply::default() });
        }
        // Another process has gone, and the operation has failed without this one.
        Some(ended @ Operation::Ended(_)) => drop(meeting.operations.insert(number, ended)),
        Some(Operation::Brought(_)) | None => {
            meeting.operations.insert(number, Operation::Brought(mine));
        }
    }
    number
}

/// What all have brought: the length of each part, and the part.
fn gather(layer: &Layer, number: u64) -> Result<Bytes> {
    let call = layer.call_of(layer.numbers.arrive)?.ids(0..layer.count).header(number.to_le_bytes().to_vec());
    let outcome = layer.run(call)?;
    let mut all = Vec::new();
    for reply in outcome.replies_ref()? {
        all.extend_from_slice(&(reply.data.len() as u64).to_le_bytes());
        all.extend_from_slice(reply.data);
    }
    Ok(all.into())
}

fn parts(all: &Bytes, count: u32) -> Result<Vec<Bytes>> {
    let mut rest = all.clone();
    let mut next = || {
        let length = usize::try_from(take_number(&mut rest)?).ok().filter(|length| *length <= rest.len())?;
        Some(rest.split_to(length))
    };
    let parts: Option<Vec<Bytes>> = (0..count).map(|_| next()).collect();
    parts.ok_or_else(|| Error::new(CGPC_ERR_DATA, "a collective operation has ended with wrong data"))
}

impl Meeting {
    /// The number of the operation that a request is about: the one under way here, or the next one. So peers fill no
    /// table with others.
    fn current(&self, request: &Request<'_>) -> std::result::Result<u64, &'static str> {
        let number = request.header().get(..8).and_then(|bytes| bytes.try_into().ok());
        let number = number.map(u64::from_le_bytes).ok_or("the request has no number")?;
        match number == self.next || number.checked_add(1) == Some(self.next) {
            true => Ok(number),
            false => Err("the processes take part in different collective operations"),
        }
    }
}

/// Answers process 0 with what this process has brought, now or when it comes.
pub(super) fn arrive(shared: &Arc<Shared>, request: &Request<'_>, token: Deferred) {
    let mut meeting = lock(&shared.collective);
    let number = match meeting.current(request) {
        Ok(number) => number,
        Err(why) => {
            drop(meeting);
            return token.fail(why);
        }
    };
    match meeting.operations.remove(&number) {
        Some(Operation::Brought(mine)) => {
            drop(meeting);
            token.reply(Reply { data: mine, ..Reply::default() });
        }
        Some(ended @ Operation::Ended(_)) => {
            meeting.operations.insert(number, ended);
            drop(meeting);
            token.fail("the collective operation has ended");
        }
        Some(Operation::Requested(_)) | None => {
            meeting.operations.insert(number, Operation::Requested(token));
        }
    }
}

/// Ends a collective operation at this process.
pub(super) fn leave(shared: &Arc<Shared>, request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
    let data = request.data_bytes();
    let ended = match request.header().get(8) {
        Some(0) => Ok(data),
        _ => Err(String::from_utf8_lossy(&data).into_owned()),
    };
    let mut meeting = lock(&shared.collective);
    let number = meeting.current(request)?;
    let before = meeting.operations.insert(number, Operation::Ended(ended));
    drop(meeting);
    drop(before);
    shared.met.notify_all();
    Ok(())
}
