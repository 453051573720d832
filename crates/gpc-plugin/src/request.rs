//! What a function asks of its request.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;
use std::time::Duration;

use crate::abi::{cgpc_child, cgpc_plugin_request, cgpc_request};

/// What a function is to execute. Exists while the function runs.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    table: &'a cgpc_plugin_request,
    of: *const cgpc_request,
}

/// The reply of a child's subtree, for a callback.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// The child.
    pub from: u32,
    /// Its reply header.
    pub header: &'a [u8],
    /// Its reply data.
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// Makes the request of a running function.
    pub(crate) fn new(table: &'a cgpc_plugin_request, of: *const cgpc_request) -> Request<'a> {
        Request { table, of }
    }

    /// The id that executes.
    pub fn me(&self) -> u32 {
        self.number(self.table.me).unwrap_or_default()
    }

    /// The id that sent the request; `None` at the root.
    pub fn parent(&self) -> Option<u32> {
        self.number(self.table.parent)
    }

    /// The id that made the call.
    pub fn root(&self) -> u32 {
        self.number(self.table.root).unwrap_or_default()
    }

    /// The position of this id in the tree, in preorder: 0 at the root.
    pub fn position(&self) -> u32 {
        self.number(self.table.position).unwrap_or_default()
    }

    /// Number of ids of the whole call.
    pub fn total(&self) -> u32 {
        self.number(self.table.total).unwrap_or_default()
    }

    /// The header: extra arguments.
    pub fn header(&self) -> &'a [u8] {
        self.bytes(self.table.header)
    }

    /// The data.
    pub fn data(&self) -> &'a [u8] {
        self.bytes(self.table.data)
    }

    /// Whether the caller wants replies; otherwise they are dropped.
    pub fn reply_wanted(&self) -> bool {
        self.number::<c_int>(self.table.reply_wanted).unwrap_or_default() != 0
    }

    /// Whether the call has ended at this id while the function runs. A long function asks now and then.
    pub fn is_cancelled(&self) -> bool {
        self.number::<c_int>(self.table.is_cancelled).unwrap_or_default() != 0
    }

    /// The rest of the time limit.
    pub fn remaining(&self) -> Duration {
        Duration::from_micros(self.number(self.table.remaining).unwrap_or_default())
    }

    /// The number that the program stores, if there is one.
    fn number<T: Default>(
        &self,
        ask: unsafe extern "C" fn(*const cgpc_request, *mut T) -> c_int,
    ) -> Option<T> {
        let mut number = T::default();
        // SAFETY: the table's function stores a number of this type.
        let status = unsafe { ask(self.of, &raw mut number) };
        (status == 0).then_some(number)
    }

    fn bytes(
        &self,
        ask: unsafe extern "C" fn(*const cgpc_request, *mut *const c_void, *mut usize) -> c_int,
    ) -> &'a [u8] {
        let (mut start, mut length) = (ptr::null(), 0);
        // SAFETY: the table's function stores where the bytes are, which live as long as the request.
        unsafe {
            match ask(self.of, &raw mut start, &raw mut length) {
                0 => view(start, length),
                _ => &[],
            }
        }
    }
}

impl<'a> Child<'a> {
    /// Makes the child of a callback.
    ///
    /// # Safety
    /// The bytes live for `'a`.
    pub(crate) unsafe fn new(of: &'a cgpc_child) -> Child<'a> {
        // SAFETY: the caller's promise.
        unsafe {
            Child { from: of.from, header: view(of.header, of.header_len), data: view(of.data, of.data_len) }
        }
    }
}

/// Bytes that the program lends. No bytes may be at null.
///
/// # Safety
/// The bytes are there, and unchanged for `'a`.
unsafe fn view<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    match length {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { slice::from_raw_parts(start.cast(), length) },
    }
}
