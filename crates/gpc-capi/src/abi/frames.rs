//! Functions of C that run on this thread: what their handles of request and reply stand for.
//!
//! A request and a reply of a function exist while the function runs, on the thread that runs it. Their handles are
//! looked up among the running functions of the thread. So a handle that a function kept, or passed to another thread,
//! is an error.

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use chained_gpc::{Reply, Request};

use crate::error::{Error, Result};
use crate::handles::{Handle, Kind, PLACE_BITS};
use crate::status::CGPC_ERR_STATE;

/// A running function.
struct Frame {
    place: u64,
    context: Handle,
    /// None for a segment of streamed data.
    request: Option<Request<'static>>,
    reply: Option<NonNull<Reply>>,
    /// What the function says about its failure.
    message: Option<String>,
}

thread_local! {
    /// The running functions of this thread, the innermost one last.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// The next place of a frame: the number of the thread, then a count.
    static NEXT: Cell<u64> = Cell::new(thread_number() << COUNT_BITS);
}

/// Bits of a place that count the frames of a thread. The others are the number of the thread.
const COUNT_BITS: u32 = 28;

/// A number of this thread, which differs from those of a million other threads.
fn thread_number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    THREADS.fetch_add(1, Ordering::Relaxed) % (1 << (PLACE_BITS - COUNT_BITS))
}

/// Removes a frame when its function has returned, also by a panic.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(Vec::pop);
    }
}

/// Runs a function of C with handles of its request and its reply, and returns its result and what it said about a
/// failure.
pub(crate) fn run<T>(
    context: Handle,
    request: &Request<'_>,
    reply: Option<&mut Reply>,
    function: impl FnOnce(Handle, Handle) -> T,
) -> (T, Option<String>) {
    // SAFETY: only the lifetime changes. The frame is removed before this function returns, so before the request ends,
    // and `with_request` lends the request for shorter.
    let request = unsafe { mem::transmute::<Request<'_>, Request<'static>>(*request) };
    enter(context, Some(request), reply, |place| {
        function(Handle::new(Kind::Request, place), Handle::new(Kind::Reply, place))
    })
}

/// Runs a function of C that has neither a request nor a reply, and returns its result and what it said about a
/// failure.
pub(crate) fn run_bare<T>(context: Handle, function: impl FnOnce() -> T) -> (T, Option<String>) {
    enter(context, None, None, |_| function())
}

fn enter<T>(
    context: Handle,
    request: Option<Request<'static>>,
    reply: Option<&mut Reply>,
    function: impl FnOnce(u64) -> T,
) -> (T, Option<String>) {
    let place = NEXT.get();
    NEXT.set(place & !((1 << COUNT_BITS) - 1) | (place + 1) & ((1 << COUNT_BITS) - 1));
    FRAMES.with_borrow_mut(|frames| {
        frames.push(Frame { place, context, request, reply: reply.map(NonNull::from), message: None });
    });
    let leave = Leave;
    let result = function(place);
    let message = FRAMES.with_borrow_mut(|frames| frames.last_mut().and_then(|frame| frame.message.take()));
    drop(leave);
    (result, message)
}

fn with_frame<T>(handle: Handle, kind: Kind, look: impl FnOnce(&mut Frame) -> Result<T>) -> Result<T> {
    let place = handle.place(kind)?;
    FRAMES.with_borrow_mut(|frames| match frames.iter_mut().rev().find(|frame| frame.place == place) {
        Some(frame) => look(frame),
        None => Err(Error::argument(format!(
            "this {kind} is not of a function that runs on this thread: use it only while its function runs, there"
        ))),
    })
}

/// Looks at the request of a running function. `look` may run code of the application: the list of frames is free.
pub(crate) fn with_request<T>(
    handle: Handle,
    look: impl for<'r> FnOnce(&'r Request<'r>) -> Result<T>,
) -> Result<T> {
    // The frame outlives this call, which its function makes.
    let request = with_frame(handle, Kind::Request, |frame| Ok(frame.request))?;
    look(request.as_ref().ok_or_else(no_request)?)
}

/// Looks at the request of a running function, in place. `look` runs no code of the application.
pub(crate) fn peek<T>(handle: Handle, look: impl FnOnce(&Request<'_>) -> T) -> Result<T> {
    with_frame(handle, Kind::Request, |frame| Ok(look(frame.request.as_ref().ok_or_else(no_request)?)))
}

/// A frame without a request has no handle.
fn no_request() -> Error {
    Error::argument("this function has no request")
}

/// The context of a running function.
pub(crate) fn context(handle: Handle) -> Result<Handle> {
    with_frame(handle, Kind::Request, |frame| Ok(frame.context))
}

/// Changes the reply of a running function. `change` runs no code of the application.
pub(crate) fn with_reply<T>(handle: Handle, change: impl FnOnce(&mut Reply) -> Result<T>) -> Result<T> {
    with_frame(handle, Kind::Reply, |frame| match &mut frame.reply {
        // SAFETY: `run` holds the exclusive reference, on this thread, while the frame exists. No second reference is
        // made meanwhile, because the list of frames stays borrowed.
        Some(reply) => change(unsafe { reply.as_mut() }),
        None => Err(Error::argument("this function has no reply: it replies later, by its token")),
    })
}

/// Keeps what a function says about its failure.
pub(crate) fn explain(handle: Handle, message: &str) -> Result<()> {
    with_frame(handle, Kind::Reply, |frame| {
        frame.message = Some(message.into());
        Ok(())
    })
}

/// Keeps what the innermost function of this thread says about its failure.
///
/// # Errors
/// If no function runs on this thread.
pub(crate) fn explain_innermost(message: &str) -> Result<()> {
    FRAMES.with_borrow_mut(|frames| {
        let none = || Error::new(CGPC_ERR_STATE, "no function of a context runs on this thread");
        frames.last_mut().ok_or_else(none)?.message = Some(message.into());
        Ok(())
    })
}

/// Whether a function of this context runs on this thread.
pub(crate) fn runs(context: Handle) -> bool {
    FRAMES.with_borrow(|frames| frames.iter().any(|frame| frame.context == context))
}

/// The request of the innermost function of this context that runs on this thread.
pub(crate) fn innermost<T>(context: Handle, look: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    FRAMES.with_borrow(|frames| {
        let of_context = frames.iter().rev().filter(|frame| frame.context == context);
        of_context.filter_map(|frame| frame.request.as_ref()).next().map(look)
    })
}
