//! Functions of C that run on this thread: what their handles of request and reply stand for.
//!
//! A request and a reply of a function exist while the function runs, on the thread that runs it. Their handles are
//! looked up among the running functions of the thread. So a handle that a function kept, or passed to another thread,
//! is an error.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use chained_gpc::{Reply, Request};

use crate::error::{Error, Result};
use crate::handles::{Handle, Kind, PLACE_BITS};
use crate::status::CGPC_ERR_STATE;

/// A running function. It lies on the stack of the thread, as long as the function runs.
struct Frame {
    place: u64,
    context: Handle,
    /// None for a segment of streamed data.
    request: Option<NonNull<Request<'static>>>,
    /// None also while the reply is being changed.
    reply: Cell<Option<NonNull<Reply>>>,
    /// What the function says about its failure.
    message: RefCell<Option<String>>,
    /// The frame of the function that called this one; null for the outermost frame.
    outer: *const Frame,
}

/// What a thread knows of its running functions.
struct Running {
    /// The innermost one; null if none runs.
    innermost: Cell<*const Frame>,
    /// The next place of a frame: the number of the thread, then a count; 0 before the first one.
    next: Cell<u64>,
}

thread_local! {
    static RUNNING: Running = const { Running { innermost: Cell::new(ptr::null()), next: Cell::new(0) } };
}

/// Bits of a place that count the frames of a thread. The others are the number of the thread.
const COUNT_BITS: u32 = 28;

/// The first place of this thread. Its upper bits differ from those of a million other threads.
#[cold]
#[inline(never)]
fn first_place() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    let number = THREADS.fetch_add(1, Ordering::Relaxed) % (1 << (PLACE_BITS - COUNT_BITS));
    number << COUNT_BITS | 1
}

impl Running {
    fn next_place(&self) -> u64 {
        let place = match self.next.get() {
            0 => first_place(),
            place => place,
        };
        let count = (1 << COUNT_BITS) - 1;
        self.next.set(place & !count | (place + 1) & count);
        place
    }

    /// The frames, the innermost one first.
    fn frames(&self) -> impl Iterator<Item = &Frame> {
        // SAFETY: a frame is in the list only until its function has returned, on this thread, and `self` is borrowed
        // for shorter: from within a function, whose frame and outer ones stay.
        let frame = |at: *const Frame| unsafe { at.as_ref() };
        std::iter::successors(frame(self.innermost.get()), move |inner| frame(inner.outer))
    }
}

/// Takes a frame out of the list when its function has returned, also by a panic.
struct Leave(*const Frame);

impl Drop for Leave {
    fn drop(&mut self) {
        RUNNING.with(|running| running.innermost.set(self.0));
    }
}

/// Runs a function of C with handles of its request and its reply, and returns its result and what it said about a
/// failure.
#[inline]
pub(crate) fn run<T>(
    context: Handle,
    request: &Request<'_>,
    reply: Option<&mut Reply>,
    function: impl FnOnce(Handle, Handle) -> T,
) -> (T, Option<String>) {
    enter(context, Some(NonNull::from(request).cast()), reply, |place| {
        function(Handle::new(Kind::Request, place), Handle::new(Kind::Reply, place))
    })
}

/// Runs a function of C that has neither a request nor a reply, and returns its result and what it said about a
/// failure.
pub(crate) fn run_bare<T>(context: Handle, function: impl FnOnce() -> T) -> (T, Option<String>) {
    enter(context, None, None, |_| function())
}

#[inline]
fn enter<T>(
    context: Handle,
    request: Option<NonNull<Request<'static>>>,
    reply: Option<&mut Reply>,
    function: impl FnOnce(u64) -> T,
) -> (T, Option<String>) {
    let (place, outer) = RUNNING.with(|running| (running.next_place(), running.innermost.get()));
    let reply = Cell::new(reply.map(NonNull::from));
    let frame = Frame { place, context, request, reply, message: RefCell::new(None), outer };
    let leave = Leave(outer);
    RUNNING.with(|running| running.innermost.set(&raw const frame));
    let result = function(place);
    drop(leave);
    (result, frame.message.into_inner())
}

fn with_frame<T>(handle: Handle, kind: Kind, look: impl FnOnce(&Frame) -> Result<T>) -> Result<T> {
    let place = handle.place(kind)?;
    RUNNING.with(|running| match running.frames().find(|frame| frame.place == place) {
        Some(frame) => look(frame),
        None => Err(no_frame(kind)),
    })
}

#[cold]
#[inline(never)]
fn no_frame(kind: Kind) -> Error {
    Error::argument(format!(
        "this {kind} is not of a function that runs on this thread: use it only while its function runs, there"
    ))
}

/// Looks at the request of a running function. `look` may run code of the application.
pub(crate) fn with_request<T>(handle: Handle, look: impl for<'r> FnOnce(&'r Request<'r>) -> T) -> Result<T> {
    with_frame(handle, Kind::Request, |frame| Ok(look(frame.request().ok_or_else(no_request)?)))
}

/// A frame without a request has no handle.
#[cold]
#[inline(never)]
fn no_request() -> Error {
    Error::argument("this function has no request")
}

impl Frame {
    /// The request, for as long as the frame is borrowed.
    fn request(&self) -> Option<&Request<'_>> {
        // SAFETY: `run` borrows the request until it returns, and this frame is a value of that run. The lifetimes of
        // what the request borrows are longer than that; here they become as short as this borrow.
        self.request.map(|request| unsafe { request.cast().as_ref() })
    }
}

/// The context of a running function.
pub(crate) fn context(handle: Handle) -> Result<Handle> {
    with_frame(handle, Kind::Request, |frame| Ok(frame.context))
}

/// Changes the reply of a running function. Code of the application that `change` runs finds no reply.
pub(crate) fn with_reply<T>(handle: Handle, change: impl FnOnce(&mut Reply) -> Result<T>) -> Result<T> {
    with_frame(handle, Kind::Reply, |frame| {
        let no_reply = || {
            Error::argument(
                "this function has no reply now: it replies later, by its token, or its reply is being changed",
            )
        };
        let mut reply = frame.reply.take().ok_or_else(no_reply)?;
        // SAFETY: `run` holds the exclusive reference, on this thread, while the frame exists. The frame does not have
        // it meanwhile, so no second reference is made.
        let changed = change(unsafe { reply.as_mut() });
        frame.reply.set(Some(reply));
        changed
    })
}

/// Keeps what a function says about its failure.
pub(crate) fn explain(handle: Handle, message: &str) -> Result<()> {
    with_frame(handle, Kind::Reply, |frame| {
        frame.message.replace(Some(message.into()));
        Ok(())
    })
}

/// Keeps what the innermost function of this thread says about its failure.
///
/// # Errors
/// If no function runs on this thread.
pub(crate) fn explain_innermost(message: &str) -> Result<()> {
    let none = || Error::new(CGPC_ERR_STATE, "no function of a context runs on this thread");
    RUNNING.with(|running| {
        running.frames().next().ok_or_else(none)?.message.replace(Some(message.into()));
        Ok(())
    })
}

/// Whether a function of this context runs on this thread.
pub(crate) fn runs(context: Handle) -> bool {
    RUNNING.with(|running| running.frames().any(|frame| frame.context == context))
}

/// The request of the innermost function of this context that runs on this thread.
#[inline]
pub(crate) fn innermost<T>(context: Handle, look: impl FnOnce(&Request<'_>) -> T) -> Option<T> {
    RUNNING.with(|running| {
        let mut of_context = running.frames().filter(|frame| frame.context == context);
        of_context.find_map(Frame::request).map(look)
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const OUTER: Handle = Handle(1);
    const INNER: Handle = Handle(2);

    #[test]
    fn functions_run_inside_each_other_and_each_has_its_own_message() {
        let ((), message) = run_bare(OUTER, || {
            let ((), message) = run_bare(INNER, || {
                assert!(runs(OUTER) && runs(INNER));
                explain_innermost("inner").unwrap();
            });
            assert_eq!(message.as_deref(), Some("inner"));
            assert!(runs(OUTER) && !runs(INNER));
            let panics = || run_bare(INNER, || panic!("in a test"));
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            assert!(runs(OUTER) && !runs(INNER));
            explain_innermost("outer").unwrap();
        });
        assert_eq!(message.as_deref(), Some("outer"));
        assert!(!runs(OUTER) && explain_innermost("none").is_err());
    }

    #[test]
    fn a_place_leads_to_its_frame_alone() {
        let found = |place| context(Handle::new(Kind::Request, place)).ok();
        let place = enter(OUTER, None, None, |outer| {
            enter(INNER, None, None, |inner| {
                assert_eq!((found(outer), found(inner)), (Some(OUTER), Some(INNER)));
                assert!(innermost(INNER, |_| ()).is_none(), "it has no request");
            });
            outer
        });
        let later = enter(OUTER, None, None, |later| (found(place.0), found(later)));
        assert_eq!(later.0, (None, Some(OUTER)));
        assert_eq!(found(place.0), None);
        std::thread::spawn(move || assert_eq!(enter(OUTER, None, None, |_| found(place.0)).0, None))
            .join()
            .unwrap();
    }
}
