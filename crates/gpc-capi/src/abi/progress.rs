//! Polled contexts: the application drives the node. One thread at a time.

use std::ffi::c_int;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use chained_gpc::Prepared;

use super::pointers::{border, object};
use super::types::cgpc_context;
use crate::context::Context;
use crate::status::{CGPC_OK, CGPC_PENDING};

/// Does up to about `budget` items of work that is ready (0: all of it), and never waits. An item is a message, a
/// call, a reply, a deadline. Functions run inside. `done` gets the number of items; it may be null. It disarms the
/// descriptor.
///
/// Errors: CGPC_ERR_UNSUPPORTED if the context has a thread of its own, CGPC_ERR_DEADLOCK in a function of the context,
/// CGPC_ERR_BUSY if another thread drives it, CGPC_ERR_SYSTEM. So for the functions below. From one thread at a time,
/// not from within functions of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_progress(context: *mut cgpc_context, budget: usize, done: *mut usize) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let items = object::<Context, _>(context)?.with_polled(|node| {
                Ok(match budget {
                    0 => node.progress(Duration::ZERO)?,
                    budget => node.progress_at_most(budget)?,
                })
            })?;
            c.store_if_wanted(done, items);
            Ok(CGPC_OK)
        })
    }
}

/// Stores the descriptor of the context, which is readable when there is work: for poll, epoll and the like. It belongs
/// to the context: never read or close it. Valid until cgpc_finalize. From one thread at a time, not from within
/// functions of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_fd(context: *mut cgpc_context, fd: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let descriptor = object::<Context, _>(context)?.with_polled(|node| Ok(node.as_raw_fd()))?;
            c.store(fd, descriptor, "fd")?;
            Ok(CGPC_OK)
        })
    }
}

/// Arms the descriptor before a sleep. CGPC_OK: there is no work, and the descriptor becomes readable as soon as there
/// is. CGPC_PENDING: there is work, so call cgpc_progress and do not sleep. No event is lost between this call and the
/// sleep. The next cgpc_progress or cgpc_disarm disarms it; arming it again before is allowed. From one thread at a
/// time, not from within functions of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_arm(context: *mut cgpc_context) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<Context, _>(context)?.with_polled(|node| {
                Ok(match node.prepare_wait()? {
                    Prepared::MaySleep => CGPC_OK,
                    Prepared::Ready => CGPC_PENDING,
                })
            })
        })
    }
}

/// Disarms the descriptor after cgpc_arm, for a loop that does not sleep: peers and other threads stop making system
/// calls to wake it. It does no work and loses none: a readable descriptor stays readable, and the next cgpc_arm
/// returns CGPC_PENDING if something has arrived. A loop that waits for edges alone calls cgpc_progress instead. From
/// one thread at a time, not from within functions of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_disarm(context: *mut cgpc_context) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<Context, _>(context)?.with_polled(|node| {
                node.cancel_wait();
                Ok(CGPC_OK)
            })
        })
    }
}

/// Tells the peers that the application will not drive the context for up to `length_us` microseconds, at most ten
/// minutes, because it computes: they do not give it up meanwhile. The next cgpc_progress ends the pause. From one
/// thread at a time, not from within functions of the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_pause(context: *mut cgpc_context, length_us: u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<Context, _>(context)?.with_polled(|node| {
                node.pause(Duration::from_micros(length_us))?;
                Ok(CGPC_OK)
            })
        })
    }
}
