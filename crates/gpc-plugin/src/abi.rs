//! The types of `chained_gpc_plugin.h`, without the library that defines them. A test of `gpc-capi` compares both.
#![allow(non_camel_case_types, reason = "types have their names of C")]
#![allow(missing_docs, reason = "chained_gpc.h documents them")]

use std::ffi::{c_char, c_int, c_void};

pub enum cgpc_context {}
pub enum cgpc_request {}
pub enum cgpc_reply {}
pub enum cgpc_token {}

pub type cgpc_function = u64;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_child {
    pub from: u32,
    pub header: *const c_void,
    pub header_len: usize,
    pub data: *const c_void,
    pub data_len: usize,
}

pub type cgpc_func_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        reply: *mut cgpc_reply,
        arg: *mut c_void,
    ) -> c_int,
>;

pub type cgpc_callback_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        child: *const cgpc_child,
        own: *mut cgpc_reply,
        arg: *mut c_void,
    ) -> c_int,
>;

pub type cgpc_deferring_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        token: *mut cgpc_token,
        arg: *mut c_void,
    ) -> c_int,
>;

pub type cgpc_begin_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        state: *mut *mut c_void,
        arg: *mut c_void,
    ) -> c_int,
>;

pub type cgpc_segment_fn =
    Option<unsafe extern "C-unwind" fn(state: *mut c_void, bytes: *const c_void, len: usize) -> c_int>;

pub type cgpc_finish_fn = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        request: *const cgpc_request,
        reply: *mut cgpc_reply,
    ) -> c_int,
>;

pub type cgpc_release_fn = Option<unsafe extern "C-unwind" fn(arg: *mut c_void)>;

pub type cgpc_split_fn = Option<
    unsafe extern "C-unwind" fn(count: u32, groups: *mut u32, capacity: usize, arg: *mut c_void) -> usize,
>;

pub type cgpc_part_fn =
    Option<unsafe extern "C-unwind" fn(bytes: *const c_void, len: usize, arg: *mut c_void) -> c_int>;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_function_options {
    pub size: usize,
    pub flags: u32,
    pub access: i32,
    pub executor: *const c_char,
    pub access_ids: *const u32,
    pub access_count: usize,
    pub release: cgpc_release_fn,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_streaming {
    pub size: usize,
    pub begin: cgpc_begin_fn,
    pub segment: cgpc_segment_fn,
    pub finish: cgpc_finish_fn,
    pub release: cgpc_release_fn,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_error {
    pub size: usize,
    pub status: i32,
    pub has_cause: i32,
    pub id: u32,
    pub stage: u32,
    pub kind: u32,
    pub code: i64,
    pub message: *const c_char,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_leveled {
    pub level: u16,
    pub data: *const c_void,
    pub data_len: usize,
}

pub const CGPC_INLINE: u32 = 1;
pub const CGPC_COMMUTATIVE: u32 = 2;

pub const CGPC_PLUGIN_MAGIC: u64 = 0x6775_6c70_6370_6763;
pub const CGPC_PLUGIN_VERSION: u32 = 1000;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin {
    pub magic: u64,
    pub version: u32,
    pub reserved: u32,
    pub load: Option<
        unsafe extern "C-unwind" fn(gpc: *const cgpc_plugin_table, context: *mut cgpc_context) -> c_int,
    >,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_table {
    pub size: usize,
    pub version: u32,
    pub add: *const cgpc_plugin_add,
    pub request: *const cgpc_plugin_request,
    pub reply: *const cgpc_plugin_reply,
    pub token: *const cgpc_plugin_token,
    pub level: *const cgpc_plugin_level,
    pub error: *const cgpc_plugin_error,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_add {
    pub func: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        func: cgpc_func_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    pub callback: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        callback: cgpc_callback_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    pub phased: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        phased: cgpc_callback_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    pub deferring: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        deferring: cgpc_deferring_fn,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    pub streaming: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        streaming: *const cgpc_streaming,
        arg: *mut c_void,
        options: *const cgpc_function_options,
        function: *mut cgpc_function,
    ) -> c_int,
    pub tree: unsafe extern "C" fn(
        context: *mut cgpc_context,
        name: *const c_char,
        split: cgpc_split_fn,
        arg: *mut c_void,
        release: cgpc_release_fn,
    ) -> c_int,
    pub release: unsafe extern "C" fn(context: *mut cgpc_context, function: cgpc_function) -> c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_request {
    pub me: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    pub parent: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    pub root: unsafe extern "C" fn(request: *const cgpc_request, id: *mut u32) -> c_int,
    pub sequence: unsafe extern "C" fn(request: *const cgpc_request, sequence: *mut u64) -> c_int,
    pub position: unsafe extern "C" fn(request: *const cgpc_request, position: *mut u32) -> c_int,
    pub total: unsafe extern "C" fn(request: *const cgpc_request, total: *mut u32) -> c_int,
    pub header: unsafe extern "C" fn(
        request: *const cgpc_request,
        header: *mut *const c_void,
        length: *mut usize,
    ) -> c_int,
    pub data: unsafe extern "C" fn(
        request: *const cgpc_request,
        data: *mut *const c_void,
        length: *mut usize,
    ) -> c_int,
    pub data_length: unsafe extern "C" fn(request: *const cgpc_request, length: *mut u64) -> c_int,
    pub ids: unsafe extern "C" fn(
        request: *const cgpc_request,
        ids: *mut u32,
        capacity: usize,
        count: *mut usize,
    ) -> c_int,
    pub func: unsafe extern "C" fn(request: *const cgpc_request, function: *mut cgpc_function) -> c_int,
    pub callback: unsafe extern "C" fn(request: *const cgpc_request, function: *mut cgpc_function) -> c_int,
    pub reply_limits:
        unsafe extern "C" fn(request: *const cgpc_request, header_max: *mut u64, data_max: *mut u64) -> c_int,
    pub tree: unsafe extern "C" fn(
        request: *const cgpc_request,
        buffer: *mut c_char,
        capacity: usize,
        length: *mut usize,
    ) -> c_int,
    pub set_value: unsafe extern "C" fn(
        request: *const cgpc_request,
        value: *mut c_void,
        release: cgpc_release_fn,
    ) -> c_int,
    pub value: unsafe extern "C" fn(request: *const cgpc_request, value: *mut *mut c_void) -> c_int,
    pub reply_wanted: unsafe extern "C" fn(request: *const cgpc_request, wanted: *mut c_int) -> c_int,
    pub remaining: unsafe extern "C" fn(request: *const cgpc_request, left_us: *mut u64) -> c_int,
    pub is_cancelled: unsafe extern "C" fn(request: *const cgpc_request, cancelled: *mut c_int) -> c_int,
    pub defer: unsafe extern "C" fn(request: *const cgpc_request, token: *mut *mut cgpc_token) -> c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_reply {
    pub set_header:
        unsafe extern "C" fn(reply: *mut cgpc_reply, header: *const c_void, length: usize) -> c_int,
    pub set_data: unsafe extern "C" fn(reply: *mut cgpc_reply, data: *const c_void, length: usize) -> c_int,
    pub append: unsafe extern "C" fn(reply: *mut cgpc_reply, data: *const c_void, length: usize) -> c_int,
    pub resize: unsafe extern "C" fn(reply: *mut cgpc_reply, length: usize, data: *mut *mut c_void) -> c_int,
    pub data:
        unsafe extern "C" fn(reply: *mut cgpc_reply, data: *mut *mut c_void, length: *mut usize) -> c_int,
    pub header:
        unsafe extern "C" fn(reply: *mut cgpc_reply, header: *mut *mut c_void, length: *mut usize) -> c_int,
    pub explain: unsafe extern "C" fn(reply: *mut cgpc_reply, message: *const c_char) -> c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_token {
    pub reply: unsafe extern "C" fn(
        token: *mut cgpc_token,
        header: *const c_void,
        header_len: usize,
        data: *const c_void,
        data_len: usize,
    ) -> c_int,
    pub fail: unsafe extern "C" fn(token: *mut cgpc_token, code: i64, message: *const c_char) -> c_int,
    pub is_cancelled: unsafe extern "C" fn(token: *const cgpc_token, cancelled: *mut c_int) -> c_int,
    pub free: unsafe extern "C" fn(token: *mut cgpc_token) -> c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_level {
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
    pub each: unsafe extern "C" fn(
        level: u16,
        data: *const c_void,
        length: usize,
        part: cgpc_part_fn,
        arg: *mut c_void,
    ) -> c_int,
    pub count: unsafe extern "C" fn(level: u16, data: *const c_void, length: usize, count: *mut u64) -> c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_plugin_error {
    pub last: unsafe extern "C" fn(error: *mut cgpc_error) -> c_int,
    pub text: extern "C" fn(status: c_int) -> *const c_char,
    pub refuse: unsafe extern "C" fn(message: *const c_char) -> c_int,
}
