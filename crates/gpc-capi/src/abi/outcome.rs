//! Outcomes: replies, and the state of each id.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use chained_gpc::{Cause, Status};

use super::pointers::{Pointers, border, handle, object};
use super::types::{cgpc_coverage, cgpc_outcome};
use crate::calls::Ended;
use crate::error::{Error, Result};
use crate::handles::remove;
use crate::status::*;

/// A state of an id: it executed the call, once.
pub const CGPC_DONE: c_int = 0;
/// A state of an id: it reported a failure.
pub const CGPC_FAILED: c_int = 1;
/// A state of an id: it surely never got the request. Safe to call again.
pub const CGPC_UNREACHED: c_int = 2;
/// A state of an id: it may have executed the call.
pub const CGPC_UNKNOWN: c_int = 3;

/// Stage of a cause: receive and queue the request.
pub const CGPC_STAGE_SETUP: u32 = 1;
/// Stage of a cause: execute func.
pub const CGPC_STAGE_FUNC: u32 = 2;
/// Stage of a cause: send the request to the children.
pub const CGPC_STAGE_FORWARD: u32 = 3;
/// Stage of a cause: merge a child's reply.
pub const CGPC_STAGE_CALLBACK: u32 = 4;
/// Stage of a cause: send or await a reply.
pub const CGPC_STAGE_REPLY: u32 = 5;
/// Stage of a cause: the connection to the id.
pub const CGPC_STAGE_LINK: u32 = 6;
/// Stage of a cause: the caller cancelled the call.
pub const CGPC_STAGE_CANCELLED: u32 = 7;

/// Kind of a cause: a function returned a failure. The code is its own.
pub const CGPC_KIND_FAILED: u32 = 1;
/// Kind of a cause: a function panicked.
pub const CGPC_KIND_PANICKED: u32 = 2;
/// Kind of a cause: the token of a deferred reply was freed without a reply.
pub const CGPC_KIND_NO_ANSWER: u32 = 3;
/// Kind of a cause: the time limit passed.
pub const CGPC_KIND_TIME_LIMIT: u32 = 4;
/// Kind of a cause: the caller cancelled the call.
pub const CGPC_KIND_CANCELLED: u32 = 5;
/// Kind of a cause: no link to the id could be opened.
pub const CGPC_KIND_UNREACHABLE: u32 = 6;
/// Kind of a cause: the link to the id was lost.
pub const CGPC_KIND_LINK_LOST: u32 = 7;
/// Kind of a cause: another run of the id has replaced the called one.
pub const CGPC_KIND_LOST_INCARNATION: u32 = 8;
/// Kind of a cause: the id has no function of this name.
pub const CGPC_KIND_UNKNOWN_FUNCTION: u32 = 9;
/// Kind of a cause: the function is of another kind than the call needs.
pub const CGPC_KIND_WRONG_FUNCTION: u32 = 10;
/// Kind of a cause: the id has no tree of this name.
pub const CGPC_KIND_UNKNOWN_TREE: u32 = 11;
/// Kind of a cause: the tree does not fit the ids.
pub const CGPC_KIND_BAD_TREE: u32 = 12;
/// Kind of a cause: the id has no executor of the name that the function requires.
pub const CGPC_KIND_UNKNOWN_EXECUTOR: u32 = 13;
/// Kind of a cause: the id has too many calls at the moment.
pub const CGPC_KIND_BUSY: u32 = 14;
/// Kind of a cause: a length exceeds a limit.
pub const CGPC_KIND_OVER_LIMIT: u32 = 15;
/// Kind of a cause: the memory for peers is used up.
pub const CGPC_KIND_NO_MEMORY: u32 = 16;
/// Kind of a cause: the id is shutting down.
pub const CGPC_KIND_SHUTTING_DOWN: u32 = 17;
/// Kind of a cause: another parent has sent the request, too.
pub const CGPC_KIND_SECOND_PARENT: u32 = 18;
/// Kind of a cause: the call has ended at this id.
pub const CGPC_KIND_ALREADY_ENDED: u32 = 19;
/// Kind of a cause: a permission is missing.
pub const CGPC_KIND_NOT_AUTHORISED: u32 = 20;
/// Kind of a cause: the request is invalid.
pub const CGPC_KIND_BAD_REQUEST: u32 = 21;
/// Kind of a cause: the reply does not fit the request.
pub const CGPC_KIND_BAD_REPLY: u32 = 22;
/// Kind of a cause: a function would have waited for itself.
pub const CGPC_KIND_DEADLOCK: u32 = 23;

/// Frees an outcome. Pointers that its functions stored are not valid afterwards. May be called from anywhere; the
/// functions below as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_free(outcome: *mut cgpc_outcome) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Ended>(handle(outcome))?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores where the reply header of the whole tree is, until the outcome is freed: the result of the callback, or
/// level-n data. Of a failed call: CGPC_ERR_CALL. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_header(
    outcome: *const cgpc_outcome,
    header: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| view(c, object::<Ended, _>(outcome)?.outcome()?.header(), header, length)) }
}

/// Stores where the reply data of the whole tree are; as cgpc_outcome_header. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_data(
    outcome: *const cgpc_outcome,
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| view(c, object::<Ended, _>(outcome)?.outcome()?.data(), data, length)) }
}

/// Stores the level of the aggregated replies: the height of the tree; 0 with a callback. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_level(outcome: *const cgpc_outcome, level: *mut u16) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(level, object::<Ended, _>(outcome)?.outcome()?.level(), "level")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the number of replies: of the ids that are done, or 1 with a callback. 0 if no reply was requested. Errors:
/// CGPC_ERR_CALL of a failed call, CGPC_ERR_DATA if the replies are not valid. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_reply_count(outcome: *const cgpc_outcome, count: *mut usize) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.store(count, object::<Ended, _>(outcome)?.replies()?.len(), "count")?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the id, the header and the data of a reply by its index, in the caller's order, where they are until the
/// outcome is freed. Each result may be null. Returns CGPC_NONE if there is no such index, and errors as
/// cgpc_outcome_reply_count. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_reply_at(
    outcome: *const cgpc_outcome,
    index: usize,
    id: *mut u32,
    header: *mut *const c_void,
    header_len: *mut usize,
    data: *mut *const c_void,
    data_len: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let ended = object::<Ended, _>(outcome)?;
            let Some(reply) = ended.replies()?.get(index) else { return Ok(CGPC_NONE) };
            c.store_if_wanted(id, reply.id);
            view_if_wanted(c, &reply.header, header, header_len);
            view_if_wanted(c, &reply.data, data, data_len);
            Ok(CGPC_OK)
        })
    }
}

/// Stores the header and the data of an id's reply, where they are until the outcome is freed. Each result may be null.
/// Returns CGPC_NONE if the id has no reply: it is not done, or a callback has merged it into the root's. May be called
/// from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_reply(
    outcome: *const cgpc_outcome,
    id: u32,
    header: *mut *const c_void,
    header_len: *mut usize,
    data: *mut *const c_void,
    data_len: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let ended = object::<Ended, _>(outcome)?;
            let Some(reply) = ended.outcome()?.reply(id) else { return Ok(CGPC_NONE) };
            view_if_wanted(c, reply.header, header, header_len);
            view_if_wanted(c, reply.data, data, data_len);
            Ok(CGPC_OK)
        })
    }
}

/// Returns CGPC_OK if every id is done, and CGPC_NONE if some are not, or the call failed. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_is_complete(outcome: *const cgpc_outcome) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|_| Ok(if object::<Ended, _>(outcome)?.is_complete() { CGPC_OK } else { CGPC_NONE })) }
}

/// Stores the number of ids with each state. Set `coverage->size` before. Also of a failed call. May be called from
/// anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_coverage(
    outcome: *const cgpc_outcome,
    coverage: *mut cgpc_coverage,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let counts = object::<Ended, _>(outcome)?.coverage().counts();
            let chained_gpc::CoverageCounts { done, failed, unreached, unknown } = counts;
            c.fill_sized(coverage, &cgpc_coverage { size: 0, done, failed, unreached, unknown })?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the state of an id: CGPC_DONE, CGPC_FAILED, CGPC_UNREACHED or CGPC_UNKNOWN. Returns CGPC_NONE if the id is
/// not of the call. Also of a failed call. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_state(
    outcome: *const cgpc_outcome,
    id: u32,
    state: *mut c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let Some(status) = object::<Ended, _>(outcome)?.status(id) else { return Ok(CGPC_NONE) };
            c.store(state, c_int::from(status as u8), "state")?;
            Ok(CGPC_OK)
        })
    }
}

/// Copies the ids with a state, in the caller's order. `count` gets their number. Errors: CGPC_ERR_TRUNCATED if `ids`
/// has room for fewer; it has the first ones then. Also of a failed call. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_ids(
    outcome: *const cgpc_outcome,
    state: c_int,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let status = u8::try_from(state).ok().and_then(Status::from_wire);
            let status = status.ok_or_else(|| Error::argument(format!("{state} is not a state of an id")))?;
            let list = object::<Ended, _>(outcome)?.ids_with(status);
            c.copy_ids(&list, (ids, capacity), count)
        })
    }
}

/// Makes the cause of an id's failure the last error of this thread, for cgpc_last_error: in a partial call of any id
/// that was left out, in a failed call of the id that failed first. Returns CGPC_NONE if the id has no known cause. May
/// be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_outcome_cause(outcome: *const cgpc_outcome, id: u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            let ended = object::<Ended, _>(outcome)?;
            let Some(cause) = ended.cause(id) else { return Ok(CGPC_NONE) };
            record(cause);
            Ok(CGPC_OK)
        })
    }
}

fn record(cause: &Cause) {
    Error::of_cause(cause).record();
}

fn view(c: &Pointers<'_>, bytes: &Bytes, place: *mut *const c_void, length: *mut usize) -> Result<c_int> {
    c.needs(place, "place")?;
    c.store(length, bytes.len(), "length")?;
    c.store(place, bytes.as_ptr().cast(), "place")?;
    Ok(CGPC_OK)
}

pub(super) fn view_if_wanted(c: &Pointers<'_>, bytes: &[u8], place: *mut *const c_void, length: *mut usize) {
    c.store_if_wanted(place, bytes.as_ptr().cast());
    c.store_if_wanted(length, bytes.len());
}
