//! The replies of a call as they arrive.

use std::ffi::{c_int, c_void};
use std::ptr;

use chained_gpc::Status;

use super::context::limit;
use super::outcome::view_if_wanted;
use super::pointers::{border, object};
use super::types::cgpc_call;
use crate::calls::InFlight;
use crate::status::*;

/// Returns the next reply of a call, and waits for it up to `limit_us` microseconds (0: does not wait, and does not
/// drive a polled node; CGPC_FOREVER: no limit). A child of the root brings the replies of its whole subtree at once;
/// with the tree `flat`, each reply arrives alone. With a callback there is one reply, the root's. Each id is returned
/// once, the root last; after cgpc_call_test or cgpc_call_wait the other replies are in the outcome alone. Stores the
/// id, its `state`, and where the header and the data of the reply are, until the next function of this call other than
/// cgpc_call_cancel. Each result may be null. An id of a partial call that has no reply has another state than
/// CGPC_DONE, and null as header and data.
///
/// Returns CGPC_NONE after the last reply, and if the call fails: then cgpc_call_wait has the outcome or the error.
/// CGPC_PENDING: the time has passed. cgpc_call_cancel cancels the call; CGPC_NONE follows the replies that have
/// arrived. May be called where cgpc_call_wait may, with its other errors; the call goes on after CGPC_ERR_DEADLOCK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_call_next_reply(
    call: *mut cgpc_call,
    limit_us: u64,
    id: *mut u32,
    state: *mut c_int,
    header: *mut *const c_void,
    header_len: *mut usize,
    data: *mut *const c_void,
    data_len: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let limit = limit(limit_us);
            let taken = object::<InFlight, _>(call)?.next_reply(limit, |next| {
                let Some(next) = next else { return Ok(CGPC_NONE) };
                let (of, status) = match next {
                    Ok(reply) => {
                        view_if_wanted(c, &reply.header, header, header_len);
                        view_if_wanted(c, &reply.data, data, data_len);
                        (reply.id, Status::Done)
                    }
                    Err(lost) => {
                        for (bytes, length) in [(header, header_len), (data, data_len)] {
                            c.store_if_wanted(bytes, ptr::null());
                            c.store_if_wanted(length, 0);
                        }
                        (lost.id, lost.status)
                    }
                };
                c.store_if_wanted(id, of);
                c.store_if_wanted(state, c_int::from(status as u8));
                Ok(CGPC_OK)
            })?;
            Ok(taken.unwrap_or(CGPC_PENDING))
        })
    }
}
