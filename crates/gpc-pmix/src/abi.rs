//! The part of libpmix's C interface that this crate uses, written by hand from `pmix.h` and `pmix_common.h` of
//! OpenPMIx 4.2.2. Versions 3 to 5 have the same layout.
//!
//! `src/abi/tests.rs` compares sizes, offsets and numbers with the headers where they are installed.

use std::ffi::{c_char, c_int, c_void};

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
    pub(crate) words: [usize; 3],
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
