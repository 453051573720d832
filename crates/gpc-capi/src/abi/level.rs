//! Level-n data, the format in which replies are aggregated. Pure functions; may be called from anywhere.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use chained_gpc::wire::Payload;
use chained_gpc::wire::level::{Leaves, Leveled, Limits, aggregate, validate};

use super::callees::no_unwind;
use super::pointers::border;
use super::types::{cgpc_leveled, cgpc_part_fn};
use crate::error::Error;
use crate::status::CGPC_OK;

/// Aggregates own bytes and data of children: own first. `own` null and `own_len` 0: nothing of its own; for empty
/// bytes of its own pass a pointer that is not null. Copies the result into `buffer`, `length` gets its length, and
/// `level` its level: one more than the highest child's. Errors: CGPC_ERR_TRUNCATED, CGPC_ERR_LENGTH if the level is
/// too high. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_level_aggregate(
    own: *const c_void,
    own_len: usize,
    children: *const cgpc_leveled,
    child_count: usize,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    level: *mut u16,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let mine = c.bytes(own, own_len, "own")?;
            let mine = (!own.is_null()).then(|| Bytes::copy_from_slice(mine));
            let mut leveled = Vec::new();
            for child in c.items(children, child_count, "children")? {
                let data = Bytes::copy_from_slice(c.bytes(child.data, child.data_len, "data of a child")?);
                leveled.push(Leveled { level: child.level, data: Payload::from(data) });
            }
            let result = aggregate(mine, &leveled)?;
            c.store_if_wanted(level, result.level);
            c.copy(&result.data.to_bytes(), (buffer, capacity), length, "buffer")
        })
    }
}

/// Passes each part of level-n data to a function, in order, until it returns another value than 0, which is returned
/// then if it is positive. Checks the data as far as it reads them. Errors: CGPC_ERR_DATA. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_level_each(
    level: u16,
    data: *const c_void,
    length: usize,
    part: cgpc_part_fn,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let part = part.ok_or_else(|| Error::argument("`part` is null"))?;
            for leaf in Leaves::new(level, c.bytes(data, length, "data")?, Limits::default()) {
                let leaf = leaf?;
                // SAFETY: the documentation of `cgpc_part_fn` says what the function gets.
                let code = no_unwind(|| part(leaf.as_ptr().cast(), leaf.len(), arg));
                if code != 0 {
                    return Ok(code.max(CGPC_OK));
                }
            }
            Ok(CGPC_OK)
        })
    }
}

/// Checks level-n data, and stores the number of their parts. Errors: CGPC_ERR_DATA. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_level_count(
    level: u16,
    data: *const c_void,
    length: usize,
    count: *mut u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let parts = validate(level, c.bytes(data, length, "data")?, Limits::default())?;
            c.store(count, parts, "count")?;
            Ok(CGPC_OK)
        })
    }
}
