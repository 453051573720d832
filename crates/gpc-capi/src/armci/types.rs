//! Types of the headers of this layer: handles of calls, and the forms of handlers.

use std::ffi::c_int;

/// Length of the numbers before the data of a plain call: handler, rhlen, rdlen.
pub(super) const EXEC_PREFIX: usize = 12;

/// Length of the numbers before the data of a chained call: func, callback, TREE.
pub(super) const CHAINED_PREFIX: usize = 12;

/// A function of the application. Its arguments depend on the call that names it.
pub(super) type Handler = unsafe extern "C-unwind" fn() -> i32;

pub(super) type Plain = unsafe extern "C-unwind" fn(
    to: c_int,
    from: c_int,
    hdr: *mut u8,
    hlen: c_int,
    data: *mut u8,
    dlen: c_int,
    rhdr: *mut u8,
    rhlen: c_int,
    rhsize: *mut c_int,
    rdata: *mut u8,
    rdlen: c_int,
    rdsize: *mut c_int,
    rtype: c_int,
) -> c_int;

pub(super) type ChainedFunc = unsafe extern "C-unwind" fn(
    func: c_int,
    callback: c_int,
    hdr: *mut u8,
    hlen: c_int,
    data: *mut u8,
    dlen: c_int,
    rhdr: *mut u8,
    rhlen: *mut c_int,
    rdata: *mut u8,
    rdlen: *mut c_int,
    idlen: c_int,
    idlst: *mut c_int,
    tree: c_int,
) -> c_int;

pub(super) type ChainedCallback = unsafe extern "C-unwind" fn(
    from: c_int,
    hdr: *mut u8,
    hlen: c_int,
    data: *mut u8,
    dlen: c_int,
    rhdr: *mut u8,
    rhlen: *mut c_int,
    rdata: *mut u8,
    rdlen: *mut c_int,
    idlen: c_int,
    idlst: *mut c_int,
    nbh: *mut gpc_hdl_t,
) -> c_int;

/// The handle of a call of ARMCI: as large as programs know it.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct gpc_hdl_t {
    /// The process, or the root of a chained call.
    pub proc_: c_int,
    /// The old handle, which has the rest.
    pub ahdl: armci_hdl_t,
}

/// The old handle of a nonblocking operation.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct armci_hdl_t {
    /// The number of the call, in two parts. In a callback: two lengths.
    pub data: [c_int; 4],
    /// The application's.
    pub dummy: [f64; 72],
}

impl gpc_hdl_t {
    /// A handle without a call.
    pub(super) const EMPTY: gpc_hdl_t =
        gpc_hdl_t { proc_: 0, ahdl: armci_hdl_t { data: [0; 4], dummy: [0.0; 72] } };
}
