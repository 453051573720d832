//! Replies that are sent later.

use std::ffi::c_int;
use std::mem;
use std::thread;

use crate::abi::{cgpc_plugin_token, cgpc_token};
use crate::failure::{Failure, PANICKED};

/// The promise of a reply, from any thread. If it is dropped, the call fails at this id.
pub struct Token {
    table: &'static cgpc_plugin_token,
    of: *mut cgpc_token,
}

// SAFETY: the program takes a token from any thread.
unsafe impl Send for Token {}
// SAFETY: as above.
unsafe impl Sync for Token {}

impl Token {
    /// Makes the token of a deferring function.
    pub(crate) fn new(table: &'static cgpc_plugin_token, of: *mut cgpc_token) -> Token {
        Token { table, of }
    }

    /// Sends the reply. If the call has ended at this id, nothing is sent.
    pub fn reply(self, header: &[u8], data: &[u8]) {
        // SAFETY: the table's function copies the bytes, and frees the token, which is used once.
        unsafe {
            (self.table.reply)(
                self.of,
                header.as_ptr().cast(),
                header.len(),
                data.as_ptr().cast(),
                data.len(),
            );
        }
        mem::forget(self);
    }

    /// Fails the call at this id.
    pub fn fail(self, failure: impl Into<Failure>) {
        self.end(&failure.into());
        mem::forget(self);
    }

    /// Whether the call has ended at this id, so that the reply is not needed.
    pub fn is_cancelled(&self) -> bool {
        let mut cancelled: c_int = 0;
        // SAFETY: the table's function stores a number.
        let status = unsafe { (self.table.is_cancelled)(self.of, &raw mut cancelled) };
        status == 0 && cancelled != 0
    }

    fn end(&self, failure: &Failure) {
        // SAFETY: the table's function copies the text, and frees the token, which is not used again.
        unsafe { (self.table.fail)(self.of, failure.code().into(), failure.text().as_ptr()) };
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if thread::panicking() {
            return self.end(&Failure::new(PANICKED, "it panicked before it replied"));
        }
        // SAFETY: the token is used once.
        unsafe { (self.table.free)(self.of) };
    }
}
