//! The program that has loaded the library, for registration.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::*;
use crate::callees;
use crate::failure::{Failure, Result, c_text};
use crate::refused::Refused;
use crate::reply::Reply;
use crate::request::{Child, Request};
use crate::token::Token;

/// The program, for registration. Functions have names of 1 to 255 bytes, which no other function of the program has.
#[derive(Clone, Copy)]
pub struct Plugin {
    gpc: &'static cgpc_plugin_table,
    context: *mut cgpc_context,
    flags: u32,
}

// SAFETY: the program uses the context from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Returns the same program. Functions that are registered with it run on the thread that drives the node: they
    /// are short, and never wait.
    #[must_use]
    pub fn inline(self) -> Plugin {
        Plugin { flags: self.flags | CGPC_INLINE, ..self }
    }

    /// Returns the same program. Callbacks that are registered with it get the replies as they arrive, and not in the
    /// order of the ids.
    #[must_use]
    pub fn commutative(self) -> Plugin {
        Plugin { flags: self.flags | CGPC_COMMUTATIVE, ..self }
    }

    /// Registers a func, which a call executes at each id: it reads the request and fills the id's own reply.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn func<F>(&self, name: &str, func: F) -> Result<(), Refused>
    where
        F: Fn(&Request<'_>, &mut Reply<'_>) -> Result + Send + Sync + 'static,
    {
        self.add(name, func, |name, arg, options| {
            // SAFETY: the table's function gets what chained_gpc.h says; `arg` is that of this trampoline.
            unsafe {
                (self.add_table().func)(
                    self.context,
                    name,
                    Some(callees::func::<F>),
                    arg,
                    options,
                    ptr::null_mut(),
                )
            }
        })
    }

    /// Registers a callback, which merges a child's reply into the id's own: one child after the other.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn callback<F>(&self, name: &str, callback: F) -> Result<(), Refused>
    where
        F: Fn(&Request<'_>, &Child<'_>, &mut Reply<'_>) -> Result + Send + Sync + 'static,
    {
        self.add(name, callback, |name, arg, options| {
            // SAFETY: as in `func`.
            unsafe {
                (self.add_table().callback)(
                    self.context,
                    name,
                    Some(callees::callback::<F>),
                    arg,
                    options,
                    ptr::null_mut(),
                )
            }
        })
    }

    /// Registers one function for both phases: without a child it executes as a func, with a child it merges as a
    /// callback.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn phased<F>(&self, name: &str, phased: F) -> Result<(), Refused>
    where
        F: Fn(&Request<'_>, Option<&Child<'_>>, &mut Reply<'_>) -> Result + Send + Sync + 'static,
    {
        self.add(name, phased, |name, arg, options| {
            // SAFETY: as in `func`.
            unsafe {
                (self.add_table().phased)(
                    self.context,
                    name,
                    Some(callees::phased::<F>),
                    arg,
                    options,
                    ptr::null_mut(),
                )
            }
        })
    }

    /// Registers a func that replies later: it keeps the token, returns, and replies from any thread.
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn deferring<F>(&self, name: &str, func: F) -> Result<(), Refused>
    where
        F: Fn(&Request<'_>, Token) + Send + Sync + 'static,
    {
        self.add(name, func, |name, arg, options| {
            // SAFETY: as in `func`.
            unsafe {
                (self.add_table().deferring)(
                    self.context,
                    name,
                    Some(callees::deferring::<F>),
                    arg,
                    options,
                    ptr::null_mut(),
                )
            }
        })
    }

    /// Registers a tree. `split` gets the number of ids of a slice, at least 2, of which the first is the receiver. It
    /// cuts the others into consecutive groups, and returns their lengths, which add up to one less. The first id of a
    /// group is a child, and the group is its subtree. Every process returns the same.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn tree<F>(&self, name: &str, split: F) -> Result<(), Refused>
    where
        F: Fn(u32) -> Vec<u32> + Send + Sync + 'static,
    {
        let name = c_name(name)?;
        let arg = callees::argument(self.gpc, split);
        // SAFETY: as in `func`. The program releases `arg`, also if it returns an error.
        let status = unsafe {
            let (split, release) = (Some(callees::split::<F> as _), Some(callees::release::<F> as _));
            (self.add_table().tree)(self.context, name.as_ptr(), split, arg, release)
        };
        self.checked(status)
    }

    fn add_table(&self) -> &'static cgpc_plugin_add {
        // SAFETY: the tables of the program are valid for ever.
        unsafe { &*self.gpc.add }
    }

    /// Registers code under a name.
    fn add<F>(
        &self,
        name: &str,
        code: F,
        register: impl FnOnce(*const c_char, *mut c_void, *const cgpc_function_options) -> c_int,
    ) -> Result<(), Refused> {
        let name = c_name(name)?;
        let options = cgpc_function_options {
            size: mem::size_of::<cgpc_function_options>(),
            flags: self.flags,
            access: 0,
            executor: ptr::null(),
            access_ids: ptr::null(),
            access_count: 0,
            release: Some(callees::release::<F>),
        };
        let arg = callees::argument(self.gpc, code);
        // The program releases `arg`, also if it returns an error: the options are right.
        self.checked(register(name.as_ptr(), arg, &raw const options))
    }

    /// The error of a status.
    fn checked(&self, status: c_int) -> Result<(), Refused> {
        if status >= 0 {
            return Ok(());
        }
        let mut last = cgpc_error {
            size: mem::size_of::<cgpc_error>(),
            status: 0,
            has_cause: 0,
            id: 0,
            stage: 0,
            kind: 0,
            code: 0,
            message: ptr::null(),
        };
        // SAFETY: the tables are valid for ever, and the structure has its size. The message is valid until the next
        // error of this thread.
        unsafe {
            ((*self.gpc.error).last)(&raw mut last);
            Err(Refused(match last.message.is_null() {
                true => format!("the program returned {status}"),
                false => CStr::from_ptr(last.message).to_string_lossy().into_owned(),
            }))
        }
    }
}

fn c_name(name: &str) -> Result<CString, Refused> {
    CString::new(name).map_err(|_| Refused(format!("the name {name:?} has a zero byte")))
}

/// Runs the function of [`plugin!`](crate::plugin): registers everything, or says why not.
///
/// # Safety
/// The program that has loaded the library passes its tables and a context.
pub unsafe fn start(
    gpc: *const cgpc_plugin_table,
    context: *mut cgpc_context,
    load: fn(&Plugin) -> std::result::Result<(), Refused>,
) -> c_int {
    // SAFETY: the caller's promise; the tables are valid for ever.
    let gpc: &'static cgpc_plugin_table = unsafe { &*gpc };
    let plugin = Plugin { gpc, context, flags: 0 };
    let refused = match catch_unwind(AssertUnwindSafe(|| load(&plugin))) {
        Ok(Ok(())) => return 0,
        Ok(Err(refused)) => refused.0,
        Err(panic) => Failure::of_panic(&*panic).to_string(),
    };
    // SAFETY: the table's function copies the text.
    unsafe { ((*gpc.error).refuse)(c_text(&refused).as_ptr()) }
}
