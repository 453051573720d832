//! Functions of a plug-in as functions of C. No panic leaves them.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::*;
use crate::failure::{Failure, Result};
use crate::reply::Reply;
use crate::request::{Child, Request};
use crate::token::Token;

/// The argument of a function: its code, and the program.
struct Argument<F> {
    gpc: &'static cgpc_plugin_table,
    code: F,
}

impl<F> Argument<F> {
    fn request(&self, of: *const cgpc_request) -> Request<'static> {
        // SAFETY: the tables are valid for ever.
        Request::new(unsafe { &*self.gpc.request }, of)
    }

    fn reply(&self, of: *mut cgpc_reply) -> Reply<'static> {
        // SAFETY: the tables are valid for ever.
        Reply::new(unsafe { &*self.gpc.reply }, of)
    }
}

/// Makes the argument of a function.
pub(crate) fn argument<F>(gpc: &'static cgpc_plugin_table, code: F) -> *mut c_void {
    Box::into_raw(Box::new(Argument { gpc, code })).cast()
}

/// The argument of the running function.
///
/// # Safety
/// [`argument`] has made it for this code, and it has not been released.
unsafe fn argument_of<'a, F>(arg: *mut c_void) -> &'a Argument<F> {
    // SAFETY: the caller's promise. Code is shared by threads, which its type allows.
    unsafe { &*arg.cast() }
}

/// Releases an argument, once.
pub(crate) unsafe extern "C-unwind" fn release<F>(arg: *mut c_void) {
    // SAFETY: the program calls it once, for the argument that it was registered with.
    let argument: Box<Argument<F>> = unsafe { Box::from_raw(arg.cast()) };
    // A panic of a destructor is lost: nothing waits for it.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(argument)));
}

/// Runs code that may panic.
fn caught(run: impl FnOnce() -> Result) -> Result {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
}

/// The code of a result, which the reply explains.
fn finished(result: Result, reply: &mut Reply<'_>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            reply.explain(&failure);
            failure.code()
        }
    }
}

pub(crate) unsafe extern "C-unwind" fn func<F>(
    request: *const cgpc_request,
    reply: *mut cgpc_reply,
    arg: *mut c_void,
) -> c_int
where
    F: Fn(&Request<'_>, &mut Reply<'_>) -> Result,
{
    // SAFETY: the program passes the argument that the function was registered with.
    let argument = unsafe { argument_of::<F>(arg) };
    let (request, mut reply) = (argument.request(request), argument.reply(reply));
    let result = caught(|| (argument.code)(&request, &mut reply));
    finished(result, &mut reply)
}

pub(crate) unsafe extern "C-unwind" fn callback<F>(
    request: *const cgpc_request,
    child: *const cgpc_child,
    own: *mut cgpc_reply,
    arg: *mut c_void,
) -> c_int
where
    F: Fn(&Request<'_>, &Child<'_>, &mut Reply<'_>) -> Result,
{
    // SAFETY: as in `func`; the child lives while the function runs.
    let (argument, child) = unsafe { (argument_of::<F>(arg), Child::new(&*child)) };
    let (request, mut own) = (argument.request(request), argument.reply(own));
    let result = caught(|| (argument.code)(&request, &child, &mut own));
    finished(result, &mut own)
}

pub(crate) unsafe extern "C-unwind" fn phased<F>(
    request: *const cgpc_request,
    child: *const cgpc_child,
    own: *mut cgpc_reply,
    arg: *mut c_void,
) -> c_int
where
    F: Fn(&Request<'_>, Option<&Child<'_>>, &mut Reply<'_>) -> Result,
{
    // SAFETY: as in `callback`; there is no child in the first phase.
    let (argument, child) = unsafe { (argument_of::<F>(arg), child.as_ref().map(|child| Child::new(child))) };
    let (request, mut own) = (argument.request(request), argument.reply(own));
    let result = caught(|| (argument.code)(&request, child.as_ref(), &mut own));
    finished(result, &mut own)
}

pub(crate) unsafe extern "C-unwind" fn deferring<F>(
    request: *const cgpc_request,
    token: *mut cgpc_token,
    arg: *mut c_void,
) -> c_int
where
    F: Fn(&Request<'_>, Token),
{
    // SAFETY: as in `func`; the tables are valid for ever.
    let (argument, table) = unsafe {
        let argument = argument_of::<F>(arg);
        (argument, &*argument.gpc.token)
    };
    let request = argument.request(request);
    let token = Token::new(table, token);
    // A panic has ended the call by the token, unless the function gave the token away before.
    let _ = caught(|| {
        (argument.code)(&request, token);
        Ok(())
    });
    0
}

pub(crate) unsafe extern "C-unwind" fn split<F>(
    count: u32,
    groups: *mut u32,
    capacity: usize,
    arg: *mut c_void,
) -> usize
where
    F: Fn(u32) -> Vec<u32>,
{
    // SAFETY: as in `func`.
    let argument = unsafe { argument_of::<F>(arg) };
    // No groups are no split of two ids or more, so a panic is an error of the tree.
    let lengths = catch_unwind(AssertUnwindSafe(|| (argument.code)(count))).unwrap_or_default();
    for (place, &length) in lengths.iter().take(capacity).enumerate() {
        // SAFETY: the place is below the capacity.
        unsafe { groups.add(place).write(length) };
    }
    lengths.len()
}
