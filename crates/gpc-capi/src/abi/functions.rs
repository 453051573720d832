//! Functions: registered, released and named.

use std::ffi::{c_char, c_int, c_void};

use chained_gpc::{Access, IdList, Placement};

use super::callees::{self, Argument};
use super::pointers::{Pointers, border, object};
use super::types::*;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::handles::Handle;
use crate::registry::{Code, Terms};
use crate::status::CGPC_OK;

/// A flag of cgpc_function_options: the function runs on the thread that drives the node. It must be short and never
/// wait. It takes turns with the functions of the default workers: while all of these are busy it waits. Functions that
/// wait long have an executor of their own, which delays no other function.
pub const CGPC_INLINE: u32 = 1;
/// A flag of cgpc_function_options: a callback, or a phased function, whose result does not depend on the order of the
/// replies. It gets them as they arrive.
pub const CGPC_COMMUTATIVE: u32 = 2;

/// An access of cgpc_function_options: from any link.
pub const CGPC_ACCESS_ANYONE: i32 = 0;
/// An access of cgpc_function_options: over TCP from links that are proved by the secret of the job.
pub const CGPC_ACCESS_PROVED: i32 = 1;
/// An access of cgpc_function_options: over TCP from ids that are proved by the key that the peers list for them.
pub const CGPC_ACCESS_LISTED: i32 = 2;
/// An access of cgpc_function_options: from the ids in `access_ids`, proved in the same way.
pub const CGPC_ACCESS_IDS: i32 = 3;

/// Sets all fields to 0, and `size` to `size`: pass sizeof(cgpc_function_options). May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_function_options_init(
    options: *mut cgpc_function_options,
    size: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| c.clear(options, size)) }
}

/// Registers a func under a name of 1 to 255 bytes, and stores its number. Each process registers it for itself, before
/// or after its start; the number is the same everywhere. `arg` is passed to the func. `options` and `function` may be
/// null.
///
/// May be called from any thread and from within functions. Errors: CGPC_ERR_FUNCTION if the name is taken,
/// CGPC_ERR_ARGUMENT. With any error but a wrong `options`, `arg` is released as the options say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_register(
    context: *mut cgpc_context,
    name: *const c_char,
    func: cgpc_func_fn,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| register(c, context, name, arg, options, function, |to, arg| callees::func(to, func, arg)))
    }
}

/// Registers a callback, which merges the replies of the children into the reply of an id: one after the other, in the
/// order of the list. The rest is as for cgpc_register. May be called from any thread and from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_register_callback(
    context: *mut cgpc_context,
    name: *const c_char,
    callback: cgpc_callback_fn,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            register(c, context, name, arg, options, function, |to, arg| callees::callback(to, callback, arg))
        })
    }
}

/// Registers one function for both phases: with a null child it executes as a func, with a child it merges as a
/// callback. A call names it as its func, and no callback. The rest is as for cgpc_register. May be called from any
/// thread and from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_register_phased(
    context: *mut cgpc_context,
    name: *const c_char,
    phased: cgpc_callback_fn,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            register(c, context, name, arg, options, function, |to, arg| callees::phased(to, phased, arg))
        })
    }
}

/// Registers a func that replies later, from any thread: it gets a token. The rest is as for cgpc_register. May be
/// called from any thread and from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_register_deferring(
    context: *mut cgpc_context,
    name: *const c_char,
    deferring: cgpc_deferring_fn,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            register(c, context, name, arg, options, function, |to, arg| {
                callees::deferring(to, deferring, arg)
            })
        })
    }
}

/// Registers a func that receives its data while they arrive. `streaming` is copied. The rest is as for cgpc_register.
/// May be called from any thread and from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_register_streaming(
    context: *mut cgpc_context,
    name: *const c_char,
    streaming: *const cgpc_streaming,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let code = |to, arg| callees::streaming(to, c.sized(streaming)?, arg);
            register(c, context, name, arg, options, function, code)
        })
    }
}

/// Releases a function of this process: calls that reach this id later fail here. Runs in progress end normally; then
/// its argument is released. The name can be registered again, in the same form with the same options.
///
/// May be called from any thread and from within functions, also the function itself. Errors: CGPC_ERR_FUNCTION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_release(context: *mut cgpc_context, function: cgpc_function) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            object::<Context, _>(context)?.registry.release(function)?;
            Ok(CGPC_OK)
        })
    }
}

/// Stores the number of a function that other processes have registered, so that this one can call it, and only watch.
/// `phased` says whether it was registered with cgpc_register_phased: 0 or 1. Errors as for cgpc_register. May be
/// called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_function_named(
    context: *mut cgpc_context,
    name: *const c_char,
    phased: c_int,
    function: *mut cgpc_function,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(function, "function")?;
            let number = object::<Context, _>(context)?.registry.know(c.text(name, "name")?, phased != 0)?;
            c.store(function, number, "function")?;
            Ok(CGPC_OK)
        })
    }
}

fn register(
    c: &Pointers<'_>,
    context: *mut cgpc_context,
    name: *const c_char,
    arg: *mut c_void,
    options: *const cgpc_function_options,
    function: *mut cgpc_function,
    code: impl FnOnce(Handle, Argument) -> Result<Code>,
) -> Result<c_int> {
    let options = match options.is_null() {
        true => c.zeroed(),
        false => c.sized(options)?,
    };
    let argument = Argument::new(arg, options.release);
    let context = object::<Context, _>(context)?;
    let terms = terms(c, &options)?;
    let code = code(context.handle(), argument)?;
    let number = context.registry.register(c.text(name, "name")?, code, terms)?;
    c.store_if_wanted(function, number);
    Ok(CGPC_OK)
}

fn terms(c: &Pointers<'_>, options: &cgpc_function_options) -> Result<Terms> {
    let cgpc_function_options { flags, access, executor, access_ids, access_count, .. } = *options;
    if flags & !(CGPC_INLINE | CGPC_COMMUTATIVE) != 0 {
        return Err(Error::argument(format!("the field `flags` has unknown bits: {flags:#x}")));
    }
    let placement = match (flags & CGPC_INLINE, c.text_if_any(executor, "executor")?) {
        (0, None) => Placement::Default,
        (0, Some(executor)) => Placement::Executor(executor.to_owned().into()),
        (_, None) => Placement::Inline,
        (_, Some(_)) => return Err(Error::argument("an inline function has no executor")),
    };
    let access = match access {
        CGPC_ACCESS_ANYONE => Access::Anyone,
        CGPC_ACCESS_PROVED => Access::Proved,
        CGPC_ACCESS_LISTED => Access::Listed,
        CGPC_ACCESS_IDS => {
            let ids = c.items(access_ids, access_count, "access_ids")?.iter().copied();
            Access::Ids(IdList::from_ids(ids).map_err(|error| Error::argument(error.to_string()))?)
        }
        other => {
            return Err(Error::argument(format!(
                "the field `access` is {other}: use one of CGPC_ACCESS_..."
            )));
        }
    };
    Ok(Terms { placement, access, commutative: flags & CGPC_COMMUTATIVE != 0 })
}
