//! The part of libpmix's C interface that this crate uses, written by hand from `pmix.h`, `pmix_common.h` and
//! `pmix_server.h` of OpenPMIx 4.2.2. Versions 3 to 6 have the same layout (compared: 4.2.2, 5.0.11, 6.1.0).
//!
//! `src/abi/tests.rs` compares sizes, offsets and numbers with the headers where they are installed.

mod kinds;
pub(crate) mod server;

use std::ffi::{c_char, c_int, c_void};

pub(crate) use kinds::*;

/// Bytes of a `pmix_nspace_t`, including the terminating zero byte.
pub(crate) const NAMESPACE_BYTES: usize = 256;

/// Bytes of a `pmix_key_t`, including the terminating zero byte.
pub(crate) const KEY_BYTES: usize = 512;

/// `pmix_status_t`: 0, or a negative error.
pub(crate) type Status = c_int;

/// `PMIX_SUCCESS`
pub(crate) const SUCCESS: Status = 0;

/// `PMIX_RANK_WILDCARD`: the whole job.
pub(crate) const RANK_WILDCARD: u32 = u32::MAX - 1;

/// `PMIX_GLOBAL`: visible to processes on every host.
pub(crate) const GLOBAL: u8 = 3;

/// `PMIX_BOOL`
pub(crate) const BOOL: u16 = 1;

/// `PMIX_STRING`
pub(crate) const STRING: u16 = 3;

/// `PMIX_INT`
pub(crate) const INT: u16 = 6;

/// `PMIX_UINT32`
pub(crate) const UINT32: u16 = 14;

/// `PMIX_PROC`
pub(crate) const PROC: u16 = 22;

/// `PMIX_INFO`
pub(crate) const INFO: u16 = 24;

/// `PMIX_BYTE_OBJECT`
pub(crate) const BYTE_OBJECT: u16 = 27;

/// `PMIX_DATA_ARRAY`
pub(crate) const DATA_ARRAY: u16 = 39;

/// `PMIX_PROC_RANK`
pub(crate) const PROC_RANK: u16 = 40;

/// `PMIX_UINT16`
pub(crate) const UINT16: u16 = 13;

/// `PMIX_INFO_REQD`: the directive must be obeyed, or the call fails.
pub(crate) const INFO_REQUIRED: u32 = 1;

/// `PMIX_RANGE_CUSTOM`: the processes that an info names.
pub(crate) const RANGE_CUSTOM: u8 = 6;

/// `PMIX_ERROR`
pub(crate) const ERROR: Status = -1;

/// `PMIX_ERR_OUT_OF_RESOURCE`
pub(crate) const OUT_OF_RESOURCE: Status = -29;

/// `PMIX_ERR_NOT_FOUND`
pub(crate) const NOT_FOUND: Status = -46;

/// `PMIX_ERR_NOT_SUPPORTED`
pub(crate) const NOT_SUPPORTED: Status = -47;

/// `PMIX_OPERATION_SUCCEEDED`: done already; no callback will be called.
pub(crate) const OPERATION_SUCCEEDED: Status = -157;

/// `PMIX_JOB_SIZE`: number of processes of the job.
pub(crate) const JOB_SIZE: &str = "pmix.job.size";

/// `PMIX_LOCAL_SIZE`: number of the job's processes on this host.
pub(crate) const LOCAL_SIZE: &str = "pmix.local.size";

/// `PMIX_COLLECT_DATA`: whether a fence distributes all puts to every host.
pub(crate) const COLLECT_DATA: &str = "pmix.collect";

/// `PMIX_TIMEOUT`: in whole seconds.
pub(crate) const TIMEOUT: &str = "pmix.timeout";

/// `PMIX_IMMEDIATE`: whether to answer only from the data of this host's server.
pub(crate) const IMMEDIATE: &str = "pmix.immediate";

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Proc {
    pub(crate) namespace: [c_char; NAMESPACE_BYTES],
    pub(crate) rank: u32,
}

/// The union in a `pmix_value_t`. Its largest member in C has three words (`pmix_envar_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Data {
    pub(crate) flag: bool,
    pub(crate) integer: c_int,
    pub(crate) uint32: u32,
    pub(crate) string: *mut c_char,
    pub(crate) pointer: *mut c_void,
    pub(crate) object: ByteObject,
    pub(crate) bytes: [u8; 24],
    pub(crate) words: [usize; 3],
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ByteObject {
    pub(crate) bytes: *mut c_char,
    pub(crate) size: usize,
}

/// `pmix_data_array_t`
#[repr(C)]
pub(crate) struct DataArray {
    pub(crate) kind: u16,
    pub(crate) size: usize,
    pub(crate) array: *mut c_void,
}

/// `pmix_value_t`
#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: u16,
    pub(crate) data: Data,
}

/// `pmix_info_t`
#[repr(C)]
pub(crate) struct Info {
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

/// `pmix_pdata_t`
#[repr(C)]
pub(crate) struct PublishedData {
    pub(crate) process: Proc,
    pub(crate) key: [c_char; KEY_BYTES],
    pub(crate) value: Value,
}

/// `pmix_app_t`
#[repr(C)]
pub(crate) struct App {
    pub(crate) program: *mut c_char,
    /// Ends with a null pointer, as does `environment`.
    pub(crate) arguments: *mut *mut c_char,
    pub(crate) environment: *mut *mut c_char,
    pub(crate) folder: *mut c_char,
    pub(crate) count: c_int,
    pub(crate) info: *mut Info,
    pub(crate) info_size: usize,
}

/// `PMIx_Get_version`
pub(crate) type GetVersion = unsafe extern "C" fn() -> *const c_char;

/// `PMIx_Error_string`
pub(crate) type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

/// `PMIx_Init`
pub(crate) type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;

/// `PMIx_Put`
pub(crate) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;

/// `PMIx_Commit`
pub(crate) type Commit = unsafe extern "C" fn() -> Status;

/// `PMIx_Fence`
pub(crate) type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status;

/// `PMIx_Get`
pub(crate) type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;

/// `PMIx_Finalize`
pub(crate) type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;

/// `free` of the C library, which frees what libpmix allocates for its callers.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

#[cfg(test)]
mod tests;
