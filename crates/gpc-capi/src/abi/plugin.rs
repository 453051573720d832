//! Plug-ins: what a library of functions exports, and the tables of functions that it gets. `gpc --load` loads one.
//!
//! A plug-in links nothing of this library. It calls it through the tables, which have the functions of the header
//! under shorter names. A table only grows: an added function raises the minor number of [`CGPC_PLUGIN_VERSION`],
//! any other change its major number.

use std::ffi::{c_char, c_int, c_void};
use std::mem;

use super::types::*;
use super::{errors, functions, level, reply, request, token, tree};
use crate::error::Error;
use crate::status::CGPC_ERR_UNSUPPORTED;

/// The first bytes of what a plug-in exports: "cgpcplug", as a little-endian number.
pub const CGPC_PLUGIN_MAGIC: u64 = 0x6775_6c70_6370_6763;
/// Version of the tables: major * 1000 + minor. A plug-in is loaded if its major number is equal, and its minor number
/// at most that of the program.
pub const CGPC_PLUGIN_VERSION: u32 = 1000;

/// What a plug-in exports, under the name cgpc_plugin_entry. CGPC_PLUGIN of chained_gpc_plugin.h defines it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin {
    /// CGPC_PLUGIN_MAGIC.
    pub magic: u64,
    /// CGPC_PLUGIN_VERSION of the header that the plug-in was compiled with.
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// Registers functions and trees in a context, which has no node of its own: it serves for registration alone.
    /// Called once, before the node starts. The tables are valid for ever. Returns 0; otherwise the program ends, with
    /// the last error as its message: that of a failed function, or of gpc->error->refuse.
    pub load: Option<
        unsafe extern "C-unwind" fn(gpc: *const cgpc_plugin_table, context: *mut cgpc_context) -> c_int,
    >,
}

/// The functions that a plug-in may call, by what they are for.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_table {
    /// Size of this structure in the program.
    pub size: usize,
    /// CGPC_PLUGIN_VERSION of the program, which may be higher than that of the plug-in.
    pub version: u32,
    /// Registration.
    pub add: *const cgpc_plugin_add,
    /// The request of a running function.
    pub request: *const cgpc_plugin_request,
    /// The reply of a running function.
    pub reply: *const cgpc_plugin_reply,
    /// Deferred replies.
    pub token: *const cgpc_plugin_token,
    /// Level-n data.
    pub level: *const cgpc_plugin_level,
    /// Errors.
    pub error: *const cgpc_plugin_error,
}

// SAFETY: the pointers lead to constants.
unsafe impl Sync for cgpc_plugin_table {}

/// Registration: as the function of chained_gpc.h whose name stands at each. May be called at any time.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_add {
    /// cgpc_register
    pub func: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        func: cgpc_func_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    /// cgpc_register_callback
    pub callback: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        callback: cgpc_callback_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    /// cgpc_register_phased
    pub phased: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        phased: cgpc_callback_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    /// cgpc_register_deferring
    pub deferring: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        deferring: cgpc_deferring_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    /// cgpc_register_streaming
    pub streaming: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        streaming: *const cgpc_streaming,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    /// cgpc_tree_register
    pub tree: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        split: cgpc_split_fn,
        arg: *mut c_void,
        release: cgpc_release_fn,
    ) -> c_int,
    /// cgpc_release
    pub release: unsafe extern "C" fn(context: *mut cgpc_context, function: cgpc_function) -> c_int,
}

/// Functions named cgpc_request_... in chained_gpc.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_request {
    /// cgpc_request_me
    pub me: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    /// cgpc_request_parent
    pub parent: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    /// cgpc_request_root
    pub root: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    /// cgpc_request_sequence
    pub sequence: unsafe extern "C" fn(request: *const cgpc_request, sequence: *mut u64) -> c_int,
    /// cgpc_request_position
    pub position: unsafe extern "C" fn(request: *const cgpc_request, position: *mut u32) -> c_int,
    /// cgpc_request_total
    pub total: unsafe extern "C" fn(request: *const cgpc_request, total: *mut u32) -> c_int,
    /// cgpc_request_header
    pub header: unsafe extern "C" fn(
        request: *const cgpc_request,
        header: *mut *const c_void,
        length: *mut usize,
    ) -> c_int,
    /// cgpc_request_data
    pub data: unsafe extern "C" fn(
        request: *const cgpc_request,
        data: *mut *const c_void,
        length: *mut usize,
    ) -> c_int,
    /// cgpc_request_data_length
    pub data_length: unsafe extern "C" fn(request: *const cgpc_request, length: *mut u64) -> c_int,
    /// cgpc_request_ids
    pub ids: unsafe extern "C" fn(
        request: *const cgpc_request,
        ids: *mut u32,
        capacity: usize,
        count: *mut usize,
    ) -> c_int,
    /// cgpc_request_func
    pub func: unsafe extern "C" fn(request: *const cgpc_request, function: *mut cgpc_function) -> c_int,
    /// cgpc_request_callback
    pub callback: unsafe extern "C" fn(request: *const cgpc_request, function: *mut cgpc_function) -> c_int,
    /// cgpc_request_reply_limits
    pub reply_limits:
        unsafe extern "C" fn(request: *const cgpc_request, header_max: *mut u64, data_max: *mut u64) -> c_int,
    /// cgpc_request_tree
    pub tree: unsafe extern "C" fn(
        request: *const cgpc_request,
        buffer: *mut c_char,
        capacity: usize,
        length: *mut usize,
    ) -> c_int,
    /// cgpc_request_set_value
    pub set_value: unsafe extern "C" fn(
        request: *const cgpc_request,
        value: *mut c_void,
        release: cgpc_release_fn,
    ) -> c_int,
    /// cgpc_request_value
    pub value: unsafe extern "C" fn(request: *const cgpc_request, value: *mut *mut c_void) -> c_int,
    /// cgpc_request_reply_wanted
    pub reply_wanted: unsafe extern "C" fn(request: *const cgpc_request, wanted: *mut c_int) -> c_int,
    /// cgpc_request_remaining
    pub remaining: unsafe extern "C" fn(request: *const cgpc_request, left_us: *mut u64) -> c_int,
    /// cgpc_request_is_cancelled
    pub is_cancelled: unsafe extern "C" fn(request: *const cgpc_request, cancelled: *mut c_int) -> c_int,
    /// cgpc_request_defer
    pub defer: unsafe extern "C" fn(request: *const cgpc_request, token: *mut *mut cgpc_token) -> c_int,
}

/// Functions named cgpc_reply_... in chained_gpc.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_reply {
    /// cgpc_reply_set_header
    pub set_header:
        unsafe extern "C" fn(reply: *mut cgpc_reply, header: *const c_void, length: usize) -> c_int,
    /// cgpc_reply_set_data
    pub set_data: unsafe extern "C" fn(reply: *mut cgpc_reply, data: *const c_void, length: usize) -> c_int,
    /// cgpc_reply_append
    pub append: unsafe extern "C" fn(reply: *mut cgpc_reply, data: *const c_void, length: usize) -> c_int,
    /// cgpc_reply_resize
    pub resize: unsafe extern "C" fn(reply: *mut cgpc_reply, length: usize, data: *mut *mut c_void) -> c_int,
    /// cgpc_reply_data
    pub data:
        unsafe extern "C" fn(reply: *mut cgpc_reply, data: *mut *mut c_void, length: *mut usize) -> c_int,
    /// cgpc_reply_header
    pub header:
        unsafe extern "C" fn(reply: *mut cgpc_reply, header: *mut *mut c_void, length: *mut usize) -> c_int,
    /// cgpc_reply_explain
    pub explain: unsafe extern "C" fn(reply: *mut cgpc_reply, message: *const c_char) -> c_int,
}

/// Functions named cgpc_token_... in chained_gpc.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_token {
    /// cgpc_token_reply
    pub reply: unsafe extern "C" fn(
        token: *mut cgpc_token,
        header: *const c_void,
        header_len: usize,
        data: *const c_void,
        data_len: usize,
    ) -> c_int,
    /// cgpc_token_fail
    pub fail: unsafe extern "C" fn(token: *mut cgpc_token, code: i64, message: *const c_char) -> c_int,
    /// cgpc_token_is_cancelled
    pub is_cancelled: unsafe extern "C" fn(token: *const cgpc_token, cancelled: *mut c_int) -> c_int,
    /// cgpc_token_free
    pub free: unsafe extern "C" fn(token: *mut cgpc_token) -> c_int,
}

/// Functions named cgpc_level_... in chained_gpc.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_level {
    /// cgpc_level_aggregate
    pub aggregate: unsafe extern "C" fn(
        own: *const c_void,
        own_len: usize,
        children: *const cgpc_leveled,
        child_count: usize,
        buffer: *mut c_void,
        capacity: usize,
        length: *mut usize,
        level: *mut u16,
    ) -> c_int,
    /// cgpc_level_each
    pub each: unsafe extern "C" fn(
        level: u16,
        data: *const c_void,
        length: usize,
        part: cgpc_part_fn,
        arg: *mut c_void,
    ) -> c_int,
    /// cgpc_level_count
    pub count: unsafe extern "C" fn(level: u16, data: *const c_void, length: usize, count: *mut u64) -> c_int,
}

/// Errors.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_error {
    /// cgpc_last_error
    pub last: unsafe extern "C" fn(error: *mut cgpc_error) -> c_int,
    /// cgpc_strerror
    pub text: extern "C" fn(status: c_int) -> *const c_char,
    /// Makes a message the last error of the thread, and returns CGPC_ERR_UNSUPPORTED: for a plug-in that cannot be
    /// used here, which returns the status from `load`. The text is copied.
    pub refuse: unsafe extern "C" fn(message: *const c_char) -> c_int,
}

static ADD: cgpc_plugin_add = cgpc_plugin_add {
    func: functions::cgpc_register,
    callback: functions::cgpc_register_callback,
    phased: functions::cgpc_register_phased,
    deferring: functions::cgpc_register_deferring,
    streaming: functions::cgpc_register_streaming,
    tree: tree::cgpc_tree_register,
    release: functions::cgpc_release,
};

static REQUEST: cgpc_plugin_request = cgpc_plugin_request {
    me: request::cgpc_request_me,
    parent: request::cgpc_request_parent,
    root: request::cgpc_request_root,
    sequence: request::cgpc_request_sequence,
    position: request::cgpc_request_position,
    total: request::cgpc_request_total,
    header: request::cgpc_request_header,
    data: request::cgpc_request_data,
    data_length: request::cgpc_request_data_length,
    ids: request::cgpc_request_ids,
    func: request::cgpc_request_func,
    callback: request::cgpc_request_callback,
    reply_limits: request::cgpc_request_reply_limits,
    tree: request::cgpc_request_tree,
    set_value: request::cgpc_request_set_value,
    value: request::cgpc_request_value,
    reply_wanted: request::cgpc_request_reply_wanted,
    remaining: request::cgpc_request_remaining,
    is_cancelled: request::cgpc_request_is_cancelled,
    defer: token::cgpc_request_defer,
};

static REPLY: cgpc_plugin_reply = cgpc_plugin_reply {
    set_header: reply::cgpc_reply_set_header,
    set_data: reply::cgpc_reply_set_data,
    append: reply::cgpc_reply_append,
    resize: reply::cgpc_reply_resize,
    data: reply::cgpc_reply_data,
    header: reply::cgpc_reply_header,
    explain: reply::cgpc_reply_explain,
};

static TOKEN: cgpc_plugin_token = cgpc_plugin_token {
    reply: token::cgpc_token_reply,
    fail: token::cgpc_token_fail,
    is_cancelled: token::cgpc_token_is_cancelled,
    free: token::cgpc_token_free,
};

static LEVEL: cgpc_plugin_level = cgpc_plugin_level {
    aggregate: level::cgpc_level_aggregate,
    each: level::cgpc_level_each,
    count: level::cgpc_level_count,
};

static ERROR: cgpc_plugin_error =
    cgpc_plugin_error { last: errors::cgpc_last_error, text: errors::cgpc_strerror, refuse };

/// The tables of this library.
pub(super) static TABLE: cgpc_plugin_table = cgpc_plugin_table {
    size: mem::size_of::<cgpc_plugin_table>(),
    version: CGPC_PLUGIN_VERSION,
    add: &raw const ADD,
    request: &raw const REQUEST,
    reply: &raw const REPLY,
    token: &raw const TOKEN,
    level: &raw const LEVEL,
    error: &raw const ERROR,
};

/// Makes a message the last error: see [`cgpc_plugin_error`].
unsafe extern "C" fn refuse(message: *const c_char) -> c_int {
    // SAFETY: the documentation demands a valid pointer.
    unsafe { super::pointers::border(|c| Err(Error::new(CGPC_ERR_UNSUPPORTED, c.text(message, "message")?))) }
}
