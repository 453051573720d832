//! Functions of the application as functions of the library.

use std::ffi::{c_int, c_void};
use std::process;
use std::sync::Arc;

use chained_gpc::runtime::{FunctionError, FunctionResult};
use chained_gpc::{ChildReply, Deferred, Phase, Reply, Request, Streaming, WithCode};

use super::frames;
use super::pointers::opaque;
use super::types::*;
use crate::error::{Error, Result};
use crate::handles::{Handle, insert, remove};
use crate::registry::Code;
use crate::tokens::Token;

/// The argument of a function, and what releases it.
pub(super) struct Argument {
    arg: *mut c_void,
    release: cgpc_release_fn,
}

// SAFETY: the library never follows the pointer. The application's functions do, and the documentation of registration
// says that they run on threads of the context, and that the release may run on any.
unsafe impl Send for Argument {}
// SAFETY: as above.
unsafe impl Sync for Argument {}

impl Argument {
    pub(super) fn new(arg: *mut c_void, release: cgpc_release_fn) -> Argument {
        Argument { arg, release }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.arg
    }
}

impl Drop for Argument {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            // SAFETY: the application passed the function for this argument, and this is its only call.
            no_unwind(|| unsafe { release(self.arg) });
        }
    }
}

/// A value of the application at one id of a call.
pub(super) struct Value(Argument);

impl Value {
    pub(super) fn new(value: *mut c_void, release: cgpc_release_fn) -> Value {
        Value(Argument::new(value, release))
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.0.pointer()
    }
}

/// Ends the process if a function of the application throws: an exception must not pass through this library, which
/// would stay in an undefined state.
struct Throws;

impl Drop for Throws {
    #[allow(clippy::print_stderr, reason = "the last words of a process that ends")]
    fn drop(&mut self) {
        eprintln!(
            "chained_gpc: a function of the application threw an exception; the process ends. In C++, register functions \
            with the wrappers of the header, or catch all exceptions"
        );
        process::abort();
    }
}

/// Calls a function of the application that must not throw.
pub(crate) fn no_unwind<T>(function: impl FnOnce() -> T) -> T {
    let throws = Throws;
    let result = function();
    std::mem::forget(throws);
    result
}

/// The result of a function of the application.
#[inline]
fn result((code, message): (c_int, Option<String>)) -> FunctionResult {
    if code == 0 { Ok(()) } else { Err(failure(code, message)) }
}

#[cold]
#[inline(never)]
fn failure(code: c_int, message: Option<String>) -> FunctionError {
    let message = message.unwrap_or_else(|| format!("the function returned {code}"));
    WithCode::new(code.into(), message).into()
}

#[cold]
#[inline(never)]
fn null(name: &str) -> Error {
    Error::argument(format!("`{name}` is null"))
}

pub(super) fn func(context: Handle, func: cgpc_func_fn, argument: Argument) -> Result<Code> {
    let func = func.ok_or_else(|| null("func"))?;
    Ok(Code::Func(Box::new(move |request: &Request<'_>, reply: &mut Reply| {
        let arg = argument.pointer();
        result(frames::run(context, request, Some(reply), |request, reply| {
            // SAFETY: the application registered this function; the handles are valid while it runs.
            no_unwind(|| unsafe { func(opaque(request), opaque(reply), arg) })
        }))
    })))
}

/// The child's reply as a structure of C.
fn of_child(child: &ChildReply<'_>) -> cgpc_child {
    cgpc_child {
        from: child.from,
        header: child.header.as_ptr().cast(),
        header_len: child.header.len(),
        data: child.data.as_ptr().cast(),
        data_len: child.data.len(),
    }
}

pub(super) fn callback(context: Handle, callback: cgpc_callback_fn, argument: Argument) -> Result<Code> {
    let callback = callback.ok_or_else(|| null("callback"))?;
    Ok(Code::Callback(Box::new(move |request: &Request<'_>, child: &ChildReply<'_>, own: &mut Reply| {
        let (arg, child) = (argument.pointer(), of_child(child));
        result(frames::run(context, request, Some(own), |request, own| {
            // SAFETY: as in `func`; `child` lives until the function has returned.
            no_unwind(|| unsafe { callback(opaque(request), &raw const child, opaque(own), arg) })
        }))
    })))
}

pub(super) fn phased(context: Handle, phased: cgpc_callback_fn, argument: Argument) -> Result<Code> {
    let phased = phased.ok_or_else(|| null("phased"))?;
    Ok(Code::Phased(Box::new(move |phase: Phase<'_>, request: &Request<'_>, own: &mut Reply| {
        let child = match phase {
            Phase::Init => None,
            Phase::Wait(child) => Some(of_child(child)),
        };
        let (arg, child) =
            (argument.pointer(), child.as_ref().map_or(std::ptr::null(), |child| &raw const *child));
        result(frames::run(context, request, Some(own), |request, own| {
            // SAFETY: as in `callback`.
            no_unwind(|| unsafe { phased(opaque(request), child, opaque(own), arg) })
        }))
    })))
}

pub(super) fn deferring(context: Handle, deferring: cgpc_deferring_fn, argument: Argument) -> Result<Code> {
    let deferring = deferring.ok_or_else(|| null("deferring"))?;
    Ok(Code::Deferring(Box::new(move |request: &Request<'_>, deferred: Deferred| {
        let token = match insert(Arc::new(Token::new(deferred))) {
            Ok(token) => token,
            // The token was dropped, which sends a failure.
            Err(error) => {
                error.record();
                return;
            }
        };
        let arg = argument.pointer();
        let (code, message) = frames::run(context, request, None, |request, _| {
            // SAFETY: as in `func`.
            no_unwind(|| unsafe { deferring(opaque(request), opaque(token), arg) })
        });
        if code != 0
            && let Ok(token) = remove::<Token>(token)
        {
            let message = message.unwrap_or_else(|| format!("the function returned {code}"));
            token.fail(code.into(), &message);
        }
    })))
}

/// A streaming function of the application, with its state for one call.
struct Receiver {
    context: Handle,
    state: Argument,
    segment: unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize) -> c_int,
    finish: unsafe extern "C-unwind" fn(*mut c_void, *const cgpc_request, *mut cgpc_reply) -> c_int,
}

impl Streaming for Receiver {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        let state = self.state.pointer();
        // SAFETY: the application registered this function for the state that its `begin` has stored.
        let run = || no_unwind(|| unsafe { (self.segment)(state, bytes.as_ptr().cast(), bytes.len()) });
        result(frames::run_bare(self.context, run))
    }

    fn finish(&mut self, request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
        let (state, finish) = (self.state.pointer(), self.finish);
        result(frames::run(self.context, request, Some(reply), |request, reply| {
            // SAFETY: as in `segment`; the handles are valid while the function runs.
            no_unwind(|| unsafe { finish(state, opaque(request), opaque(reply)) })
        }))
    }
}

pub(super) fn streaming(context: Handle, code: cgpc_streaming, argument: Argument) -> Result<Code> {
    let begin = code.begin.ok_or_else(|| null("begin"))?;
    let segment = code.segment.ok_or_else(|| null("segment"))?;
    let finish = code.finish.ok_or_else(|| null("finish"))?;
    let release = code.release;
    Ok(Code::Streaming(Box::new(move |request: &Request<'_>| {
        let (arg, mut state) = (argument.pointer(), std::ptr::null_mut());
        result(frames::run(context, request, None, |request, _| {
            // SAFETY: as in `func`; the place of the state is valid while the function runs.
            no_unwind(|| unsafe { begin(opaque(request), &raw mut state, arg) })
        }))?;
        let state = Argument::new(state, release);
        let receiver: Box<dyn Streaming> = Box::new(Receiver { context, state, segment, finish });
        Ok::<_, FunctionError>(receiver)
    })))
}
