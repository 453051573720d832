//! Collective operations: each process brings something, and gets what all have brought.
//!
//! A fence is a chained call with deferred replies: process 0 asks all, down a tree, and each answers when it has come.
//! A second call passes on what all have brought.

use std::sync::PoisonError;

use bytes::Bytes;
use chained_gpc::runtime::FunctionResult;
use chained_gpc::{Deferred, Reply, Request};

use super::shared::{Layer, Meeting, Shared, lock};
use crate::error::{Error, Result};
use crate::status::{CGPC_ERR_CALL, CGPC_ERR_DATA};

/// Brings bytes, waits for all, and returns what each process has brought, by its number.
///
/// # Errors
/// If a process has died or left.
pub(super) fn exchange(layer: &Layer, mine: Vec<u8>) -> Result<Vec<Bytes>> {
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
    let mut meeting = lock(&shared.collective);
    // Terminates: process 0 says how the operation has ended, or its link is lost and the launcher ends this process.
    loop {
        match meeting.ended.remove(&number) {
            Some(Ok(all)) => return parts(&all, layer.count),
            Some(Err(why)) => return Err(Error::new(CGPC_ERR_CALL, why)),
            None => meeting = shared.met.wait(meeting).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Leaves bytes for process 0, and returns the number of the operation.
fn bring(shared: &Shared, mine: Vec<u8>) -> u64 {
    let mut meeting = lock(&shared.collective);
    let number = meeting.next;
    meeting.next += 1;
    match meeting.asked.remove(&number) {
        Some(token) => {
            drop(meeting);
            token.reply(Reply { data: mine, ..Reply::default() });
        }
        None => drop(meeting.brought.insert(number, mine)),
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
        if rest.len() < 8 {
            return None;
        }
        let length = u64::from_le_bytes(rest.split_to(8).as_ref().try_into().ok()?);
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
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
pub(super) fn arrive(shared: &Shared, request: &Request<'_>, token: Deferred) {
    let mut meeting = lock(&shared.collective);
    let number = match meeting.current(request) {
        Ok(number) => number,
        Err(why) => {
            drop(meeting);
            return token.fail(why);
        }
    };
    match meeting.brought.remove(&number) {
        Some(mine) => {
            drop(meeting);
            token.reply(Reply { data: mine, ..Reply::default() });
        }
        None => drop(meeting.asked.insert(number, token)),
    }
}

/// Ends a collective operation at this process.
pub(super) fn leave(shared: &Shared, request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
    let data = request.data_bytes();
    let ended = match request.header().get(8) {
        Some(0) => Ok(data),
        _ => Err(String::from_utf8_lossy(&data).into_owned()),
    };
    let mut meeting = lock(&shared.collective);
    let number = meeting.current(request)?;
    meeting.brought.remove(&number);
    meeting.ended.insert(number, ended);
    shared.met.notify_all();
    Ok(())
}
