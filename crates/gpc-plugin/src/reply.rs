//! What a function does with its reply.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::slice;

use crate::abi::{cgpc_plugin_reply, cgpc_reply};
use crate::failure::Failure;

/// The reply of this id, empty before its func. Exists while the function runs.
pub struct Reply<'a> {
    table: &'a cgpc_plugin_reply,
    of: *mut cgpc_reply,
}

impl<'a> Reply<'a> {
    /// Makes the reply of a running function.
    pub(crate) fn new(table: &'a cgpc_plugin_reply, of: *mut cgpc_reply) -> Reply<'a> {
        Reply { table, of }
    }

    /// Sets the reply header.
    pub fn set_header(&mut self, header: &[u8]) {
        self.write(self.table.set_header, header);
    }

    /// Sets the reply data.
    pub fn set_data(&mut self, data: &[u8]) {
        self.write(self.table.set_data, data);
    }

    /// Appends to the reply data.
    pub fn append(&mut self, data: &[u8]) {
        self.write(self.table.append, data);
    }

    /// The reply header, which may be changed in place.
    pub fn header(&mut self) -> &mut [u8] {
        self.view(self.table.header)
    }

    /// The reply data, which may be changed in place.
    pub fn data(&mut self) -> &mut [u8] {
        self.view(self.table.data)
    }

    pub(crate) fn explain(&mut self, failure: &Failure) {
        // SAFETY: the table's function copies the text. If it fails, the code alone says why.
        let _ = unsafe { (self.table.explain)(self.of, failure.text().as_ptr()) };
    }

    fn write(
        &mut self,
        write: unsafe extern "C" fn(*mut cgpc_reply, *const c_void, usize) -> c_int,
        bytes: &[u8],
    ) {
        // SAFETY: the table's function copies the bytes. A reply of a running function takes any.
        let _ = unsafe { write(self.of, bytes.as_ptr().cast(), bytes.len()) };
    }

    fn view(
        &mut self,
        ask: unsafe extern "C" fn(*mut cgpc_reply, *mut *mut c_void, *mut usize) -> c_int,
    ) -> &mut [u8] {
        let (mut start, mut length) = (ptr::null_mut::<c_void>(), 0);
        // SAFETY: the table's function stores where the bytes are. They stay there until this reply is changed, which
        // needs the reference that the result borrows.
        unsafe {
            match ask(self.of, &raw mut start, &raw mut length) {
                0 if length > 0 => slice::from_raw_parts_mut(start.cast(), length),
                _ => &mut [],
            }
        }
    }
}
