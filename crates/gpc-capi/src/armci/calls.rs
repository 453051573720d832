//! Calls of ARMCI: plain ones to one process, and the chained call.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::{Call, TreeName};

use super::handlers::check;
use super::levels;
use super::shared::{Layer, layer};
use super::types::{CHAINED_PREFIX, EXEC_PREFIX, armci_hdl_t, gpc_hdl_t};
use crate::abi::pointers::{Pointers, border};
use crate::calls::{Ended, Finished, InFlight};
use crate::error::{Error, Result};
use crate::handles::{Handle, Kind, Object, get, insert, remove};
use crate::status::*;

/// A call in flight, and the buffers for its reply.
struct Pending {
    call: InFlight,
    /// The process of a plain call; `None` for a chained one, whose reply is that of the whole tree.
    proc: Option<u32>,
    rhdr: Buffer,
    rdata: Buffer,
}

/// A buffer of the application, which stays there until the call has been waited for.
#[derive(Clone, Copy)]
struct Buffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the headers say that the buffers of a call belong to the library until the call has been waited for.
unsafe impl Send for Buffer {}
// SAFETY: as above; only the thread that takes the outcome writes.
unsafe impl Sync for Buffer {}

impl Object for Pending {
    const KIND: Kind = Kind::Gpc;
}

/// The longest header of a request, and 1: a header is shorter.
const HLEN: c_int = 65_536;

/// Calls a handler at one process: see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_exec(
    h: c_int,
    p: c_int,
    hdr: *mut u8,
    hlen: c_int,
    data: *mut u8,
    dlen: c_int,
    rhdr: *mut u8,
    rhlen: c_int,
    rdata: *mut u8,
    rdlen: c_int,
    nbh: *mut gpc_hdl_t,
) -> c_int {
    // SAFETY: the header demands valid pointers.
    unsafe {
        border(|c| {
            let layer = layer()?;
            check(&layer.shared, h)?;
            let (rhdr, rdata) = (buffer(rhdr, rhlen, "rhdr")?, buffer(rdata, rdlen, "rdata")?);
            let call = layer.call_at(layer.numbers.exec[levels::of_call()?], p)?;
            let call = with_request(c, call, (hdr, hlen), (data, dlen), [h, rhlen, rdlen])?;
            start(c, &layer, call, nbh, p, Some(p as u32), (rhdr, rdata))
        })
    }
}

/// Calls func at each process of a list, down a tree, and merges the replies by callback: see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_chained_exec(
    func: c_int,
    callback: c_int,
    hdr: *mut u8,
    hlen: c_int,
    data: *mut u8,
    dlen: c_int,
    rhdr: *mut u8,
    rhlen: c_int,
    rdata: *mut u8,
    rdlen: c_int,
    idlen: c_int,
    idlst: *mut c_int,
    nbh: *mut gpc_hdl_t,
    TREE: c_int,
) -> c_int {
    // SAFETY: the header demands valid pointers.
    unsafe {
        border(|c| {
            let layer = layer()?;
            check(&layer.shared, func)?;
            let (rhdr, rdata) = (buffer(rhdr, rhlen, "rhdr")?, buffer(rdata, rdlen, "rdata")?);
            let listed = c.items(idlst.cast_const(), length(idlen, "idlen")?, "idlst")?;
            let ids: Vec<u32> = listed.iter().map(|&id| id as u32).collect();
            if let Some(id) = listed.iter().find(|id| **id < 0 || **id as u32 >= layer.count) {
                return Err(Error::new(CGPC_ERR_IDS, format!("there is no process {id}")));
            }
            let name: TreeName = TREE.to_string().parse()?;
            let tree = layer.context.registry.functions().named_tree(&name)?;
            let level = levels::of_call()?;
            let mut call = layer.call_of(layer.numbers.chained[level])?.ids(ids).tree(tree);
            if callback != 0 {
                check(&layer.shared, callback)?;
                call = call.callback(layer.context.registry.callback(layer.numbers.merge[level])?);
            }
            call = match rhdr.start.is_null() && rdata.start.is_null() {
                true => call.no_reply().reply_limits(0, 0),
                false => call.reply_limits(rhdr.len as u64, rdata.len as u64),
            };
            let call = with_request(c, call, (hdr, hlen), (data, dlen), [func, callback, TREE])?;
            start(c, &layer, call, nbh, layer.me as c_int, None, (rhdr, rdata))
        })
    }
}

/// Prepares a handle for a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_init_handle(nbh: *mut gpc_hdl_t) {
    // SAFETY: the header demands valid pointers.
    unsafe { border(|c| c.store(nbh, gpc_hdl_t::EMPTY, "nbh").map(|()| CGPC_OK)) };
}

/// Waits for the call of a handle, and stores its reply. 0, or a negative status. A handle without a call is ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_wait(nbh: *mut gpc_hdl_t) -> c_int {
    // SAFETY: the header demands valid pointers.
    unsafe {
        border(|c| {
            finish(c, nbh, |layer, call| levels::while_waiting(&layer.shared.turn, || call.wait(None)))
        })
    }
}

/// Tests the call of a handle: 0 if it has ended, and its reply is stored; 1 if not; or a negative status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_test(nbh: *mut gpc_hdl_t) -> c_int {
    // SAFETY: the header demands valid pointers.
    unsafe { border(|c| finish(c, nbh, |_, call| call.wait(Some(Duration::ZERO)))) }
}

/// The limit of a header: it is shorter.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_get_hlen() -> c_int {
    HLEN
}

/// The limit of data.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_get_dlen() -> c_int {
    c_int::MAX
}

/// As ARMCI_Gpc_get_hlen: the name in the old header.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Get_gpc_hlen() -> c_int {
    HLEN
}

/// As ARMCI_Gpc_get_dlen: the name in the old header.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Get_gpc_dlen() -> c_int {
    c_int::MAX
}

fn length(length: c_int, name: &str) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::argument(format!("`{name}` is {length}")))
}

/// A buffer for a reply: none if it is null or has no room.
fn buffer(start: *mut u8, len: c_int, name: &str) -> Result<Buffer> {
    let len = length(len, name)?;
    match (start.is_null(), len) {
        (true, 1..) => Err(Error::argument(format!("`{name}` is null, and its length is {len}"))),
        (false, 1..) => Ok(Buffer { start, len }),
        (_, 0) => Ok(Buffer { start: ptr::null_mut(), len: 0 }),
    }
}

/// Adds header and data to a call: the numbers of this layer come first in the data.
fn with_request(
    c: &Pointers<'_>,
    call: Call,
    (hdr, hlen): (*mut u8, c_int),
    (data, dlen): (*mut u8, c_int),
    numbers: [c_int; 3],
) -> Result<Call> {
    if hlen >= HLEN {
        return Err(Error::new(
            CGPC_ERR_LENGTH,
            format!("hlen is {hlen}: a header is shorter than {HLEN} bytes"),
        ));
    }
    let header = c.bytes(hdr.cast(), length(hlen, "hlen")?, "hdr")?;
    let bytes = c.bytes(data.cast(), length(dlen, "dlen")?, "data")?;
    let mut sent = Vec::with_capacity(EXEC_PREFIX.max(CHAINED_PREFIX) + bytes.len());
    numbers.iter().for_each(|number| sent.extend_from_slice(&number.to_le_bytes()));
    sent.extend_from_slice(bytes);
    Ok(call.header(header.to_vec()).data(sent))
}

/// Starts a call, and waits for it unless it has a handle.
fn start(
    c: &Pointers<'_>,
    layer: &Layer,
    call: Call,
    nbh: *mut gpc_hdl_t,
    target: c_int,
    proc: Option<u32>,
    (rhdr, rdata): (Buffer, Buffer),
) -> Result<c_int> {
    let handle = match nbh.is_null() {
        true => None,
        false => Some(c.load(nbh, "nbh")?),
    };
    if handle.is_some_and(|handle| get::<Pending>(number(&handle)).is_ok()) {
        return Err(Error::new(
            CGPC_ERR_STATE,
            "the handle has a call that was not waited for: ARMCI_Gpc_wait",
        ));
    }
    let call = InFlight::new(layer.context.clone(), layer.context.call(call)?);
    let pending = Pending { call, proc, rhdr, rdata };
    let Some(handle) = handle else {
        return match levels::while_waiting(&layer.shared.turn, || pending.call.wait(None))? {
            Some(ended) => pending.deliver(layer, ended),
            None => Ok(CGPC_PENDING),
        };
    };
    let Handle(started) = insert(Arc::new(pending))?;
    let (low, high) = (started as c_int, (started >> 32) as c_int);
    let ahdl = armci_hdl_t { data: [low, high, 0, 0], ..handle.ahdl };
    let handle = gpc_hdl_t { proc_: target, ahdl };
    c.store(nbh, handle, "nbh")?;
    Ok(CGPC_OK)
}

/// The number of the call of a handle.
fn number(handle: &gpc_hdl_t) -> Handle {
    let [low, high, ..] = handle.ahdl.data;
    Handle(u64::from(low as u32) | u64::from(high as u32) << 32)
}

fn finish(
    c: &Pointers<'_>,
    nbh: *mut gpc_hdl_t,
    wait: impl FnOnce(&Layer, &InFlight) -> Result<Option<Finished>>,
) -> Result<c_int> {
    let handle = c.load(nbh, "nbh")?;
    if handle.ahdl.data[..2] == [0, 0] {
        return Ok(CGPC_OK);
    }
    let (layer, pending) = (layer()?, get::<Pending>(number(&handle))?);
    let Some(ended) = wait(&layer, &pending.call)? else { return Ok(CGPC_PENDING) };
    remove::<Pending>(number(&handle))?;
    let ahdl = armci_hdl_t { data: [0; 4], ..handle.ahdl };
    c.store(nbh, gpc_hdl_t { ahdl, ..handle }, "nbh")?;
    pending.deliver(&layer, ended)
}

impl Pending {
    /// Copies the reply into the buffers.
    fn deliver(&self, layer: &Layer, ended: Finished) -> Result<c_int> {
        let (ended, _) = Ended::new(ended)?;
        let outcome = ended.outcome().map_err(|error| layer.explained(error))?;
        let copied = match self.proc {
            Some(proc) => match outcome.reply(proc) {
                Some(reply) => self.rhdr.fill(reply.header).and(self.rdata.fill(reply.data)),
                None => Ok(()),
            },
            None => self.rhdr.fill(outcome.header()).and(self.rdata.fill(outcome.data())),
        };
        copied.map(|()| CGPC_OK)
    }
}

impl Buffer {
    /// Copies bytes into the buffer.
    ///
    /// # Errors
    /// If they are more than it has; it has the first ones then. A buffer that is not there wants none.
    fn fill(self, bytes: &[u8]) -> Result<()> {
        if self.start.is_null() {
            return Ok(());
        }
        let fits = bytes.len().min(self.len);
        // SAFETY: the header says that the buffer has this length, and is the library's until now.
        unsafe { ptr::copy(bytes.as_ptr(), self.start, fits) };
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(Error::new(
                CGPC_ERR_TRUNCATED,
                format!("the reply has {} bytes, and its buffer {}", bytes.len(), self.len),
            )),
        }
    }
}
