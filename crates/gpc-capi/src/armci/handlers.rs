//! Handlers: functions of the application, by the numbers that ARMCI gives them.

use std::ffi::c_int;
use std::time::Instant;

use chained_gpc::runtime::FunctionResult;
use chained_gpc::{ChildReply, Reply, Request, WithCode};

use super::shared::{Handler, Shared, layer, lock};
use crate::abi::callees::no_unwind;
use crate::abi::frames;
use crate::abi::pointers::border;
use crate::error::{Error, Result};
use crate::status::{CGPC_ERR_FUNCTION, CGPC_ERR_LENGTH, CGPC_OK};

/// The number of the first handler; the next ones count down from it, as ARMCI's do.
const FIRST: c_int = -100;

/// Phases and results of plain handlers.
const GPC_INIT: c_int = 1;
const GPC_WAIT: c_int = 3;
const GPC_DONE: c_int = 4;

/// Length of the numbers before the data of a plain call: handler, rhlen, rdlen.
pub(super) const EXEC_PREFIX: usize = 12;

/// Length of the numbers before the data of a chained call: func, callback, TREE.
pub(super) const CHAINED_PREFIX: usize = 12;

/// Longest reply header or data that a handler gets room for: the length is the caller's word.
const ROOM_MAX: u64 = 256 << 20;

type Plain = unsafe extern "C-unwind" fn(
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

type ChainedFunc = unsafe extern "C-unwind" fn(
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

type ChainedCallback = unsafe extern "C-unwind" fn(
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

/// Registers a handler, and returns its number, which is negative; processes that register in the same order have the
/// same numbers. No process waits for another one. 0: `func` is null, or ARMCI has not been initialized.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_register(func: Option<Handler>) -> c_int {
    let mut number = 0;
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let shared = layer()?.shared.clone();
            let mut handlers = lock(&shared.handlers);
            let func = func.ok_or_else(|| Error::argument("`func` is null"))?;
            number = FIRST - handlers.len() as c_int;
            handlers.push(Some(func));
            shared.registered.notify_all();
            Ok(CGPC_OK)
        })
    };
    number
}

/// Releases a handler: calls that reach this process later fail here. Its number is not used again.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_release(handle: c_int) {
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let layer = layer()?;
            if let Some(handler) = lock(&layer.shared.handlers).get_mut(place(handle)) {
                *handler = None;
            }
            Ok(CGPC_OK)
        })
    };
}

fn place(handle: c_int) -> usize {
    usize::try_from(i64::from(FIRST) - i64::from(handle)).unwrap_or(usize::MAX)
}

/// Whether this process has registered a handler.
pub(super) fn check(shared: &Shared, handle: c_int) -> Result<()> {
    match lock(&shared.handlers).get(place(handle)) {
        Some(Some(_)) => Ok(()),
        _ => {
            Err(Error::new(CGPC_ERR_FUNCTION, format!("{handle} is not the number of a registered function")))
        }
    }
}

/// The handler with a number. Processes register on their own, so a call may arrive before its handler: it waits for
/// the registration.
#[allow(clippy::disallowed_methods, reason = "a worker waits by its own clock")]
fn handler(shared: &Shared, handle: c_int, request: &Request<'_>) -> std::result::Result<Handler, WithCode> {
    let until = Instant::now().checked_add(REGISTRATION_LIMIT.min(request.remaining()));
    let mut handlers = lock(&shared.handlers);
    let missing = |why| WithCode::new(CGPC_ERR_FUNCTION.into(), format!("the handler {handle} {why}"));
    loop {
        match handlers.get(place(handle)) {
            Some(Some(handler)) => return Ok(*handler),
            Some(None) => return Err(missing("was released here")),
            None => {}
        }
        let left = until.map_or(POLL, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() || request.is_cancelled() || place(handle) == usize::MAX {
            return Err(missing("is not registered here"));
        }
        let waited = shared.registered.wait_timeout(handlers, left.min(POLL));
        handlers = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
}

/// How long a call waits for its handler, at most: the processes of a job start within this time.
const REGISTRATION_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// How often a call that waits for a registration checks whether it is still wanted.
const POLL: std::time::Duration = std::time::Duration::from_millis(100);

/// The numbers before the data, and the data.
fn parted<const N: usize>(data: &[u8]) -> std::result::Result<([c_int; N], Vec<u8>), WithCode> {
    let (numbers, rest) = data.split_at_checked(4 * N).ok_or_else(|| {
        WithCode::new(CGPC_ERR_LENGTH.into(), "the request is not one of this library's ARMCI layer")
    })?;
    let mut parsed = [0; N];
    for (number, bytes) in parsed.iter_mut().zip(numbers.chunks_exact(4)) {
        *number = c_int::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    // Copied: handlers may change it, and expect it aligned.
    Ok((parsed, rest.to_vec()))
}

/// A buffer of a handler, and its length as C has it. Its memory is taken when it is written.
fn room(max: u64) -> std::result::Result<(Vec<u8>, c_int), WithCode> {
    let length = c_int::try_from(max).ok().filter(|_| max <= ROOM_MAX).ok_or_else(|| {
        let message =
            format!("the caller takes replies of {max} bytes, and a handler has room for {ROOM_MAX} at most");
        WithCode::new(CGPC_ERR_LENGTH.into(), message)
    })?;
    Ok((vec![0; length as usize], length))
}

/// Cuts a buffer to what a handler says that it has written.
fn cut(mut buffer: Vec<u8>, written: c_int, name: &str) -> std::result::Result<Vec<u8>, WithCode> {
    let length = usize::try_from(written).ok().filter(|length| *length <= buffer.len()).ok_or_else(|| {
        let message =
            format!("the handler set {name} to {written}, and the buffer has {} bytes", buffer.len());
        WithCode::new(CGPC_ERR_LENGTH.into(), message)
    })?;
    buffer.truncate(length);
    Ok(buffer)
}

fn failed(code: c_int) -> FunctionResult {
    Err(WithCode::new(code.into(), format!("the handler returned {code}")).into())
}

/// Executes a plain handler, until it is done.
pub(super) fn exec(shared: &Shared, request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
    let ([handle, rhlen, rdlen], mut data) = parted::<3>(request.data())?;
    let handler = handler(shared, handle, request)?;
    // SAFETY: the application registered it for plain calls, whose handlers have this type; the argument of the call
    // says which type a number has.
    let handler: Plain = unsafe { std::mem::transmute::<Handler, Plain>(handler) };
    let mut header = request.header().to_vec();
    let (mut rhdr, rhlen) = room(u64::try_from(rhlen).unwrap_or_default())?;
    let (mut rdata, rdlen) = room(u64::try_from(rdlen).unwrap_or_default())?;
    let (to, from) = (request.me() as c_int, request.root() as c_int);
    let (mut rhsize, mut rdsize, mut phase) = (0, 0, GPC_INIT);
    let code = loop {
        let (code, _) = frames::run(shared.context(), request, None, |_, _| {
            // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
            no_unwind(|| unsafe {
                handler(
                    to,
                    from,
                    header.as_mut_ptr(),
                    header.len() as c_int,
                    data.as_mut_ptr(),
                    data.len() as c_int,
                    rhdr.as_mut_ptr(),
                    rhlen,
                    &raw mut rhsize,
                    rdata.as_mut_ptr(),
                    rdlen,
                    &raw mut rdsize,
                    phase,
                )
            })
        });
        if code <= 0 || code == GPC_DONE || request.is_cancelled() {
            break code;
        }
        phase = GPC_WAIT;
        std::thread::yield_now();
    };
    if code < 0 {
        return failed(code);
    }
    (reply.header, reply.data) = (cut(rhdr, rhsize, "rhsize")?, cut(rdata, rdsize, "rdsize")?);
    Ok(())
}

/// The ids of a subtree, as C has them.
fn ids_of(request: &Request<'_>) -> Vec<c_int> {
    request.ids().iter().map(|id| id as c_int).collect()
}

/// Executes the func of a chained call.
pub(super) fn chained(shared: &Shared, request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
    let ([func, callback, tree], mut data) = parted::<3>(request.data())?;
    let handler = handler(shared, func, request)?;
    // SAFETY: the application passed it as the func of a chained call, which has this type.
    let handler: ChainedFunc = unsafe { std::mem::transmute::<Handler, ChainedFunc>(handler) };
    request.set_context(gpc_hdl_t { proc_: request.root() as c_int, ..gpc_hdl_t::EMPTY });
    let limits = request.reply_limits();
    let mut header = request.header().to_vec();
    let ((mut rhdr, mut rhlen), (mut rdata, mut rdlen)) = (room(limits.header_max)?, room(limits.data_max)?);
    let mut ids = ids_of(request);
    let (code, _) = frames::run(shared.context(), request, None, |_, _| {
        // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
        no_unwind(|| unsafe {
            handler(
                func,
                callback,
                header.as_mut_ptr(),
                header.len() as c_int,
                data.as_mut_ptr(),
                data.len() as c_int,
                rhdr.as_mut_ptr(),
                &raw mut rhlen,
                rdata.as_mut_ptr(),
                &raw mut rdlen,
                ids.len() as c_int,
                ids.as_mut_ptr(),
                tree,
            )
        })
    });
    if code < 0 {
        return failed(code);
    }
    (reply.header, reply.data) = (cut(rhdr, rhlen, "rhlen")?, cut(rdata, rdlen, "rdlen")?);
    Ok(())
}

/// Extends a reply to the room that a callback may use; returns the buffer and its length.
fn extended(part: &[u8], max: u64) -> std::result::Result<(Vec<u8>, c_int), WithCode> {
    let (mut buffer, room) = room(max)?;
    buffer.resize(buffer.len().max(part.len()), 0);
    buffer[..part.len()].copy_from_slice(part);
    Ok((buffer, room))
}

/// Merges a child's reply of a chained call by its callback.
pub(super) fn merge(
    shared: &Shared,
    request: &Request<'_>,
    child: &ChildReply<'_>,
    own: &mut Reply,
) -> FunctionResult {
    let ([_, callback, _], _) = parted::<3>(request.data().get(..CHAINED_PREFIX).unwrap_or_default())?;
    let handler = handler(shared, callback, request)?;
    // SAFETY: the application passed it as the callback of a chained call, which has this type.
    let handler: ChainedCallback = unsafe { std::mem::transmute::<Handler, ChainedCallback>(handler) };
    let limits = request.reply_limits();
    let (mut header, mut data) = (child.header.to_vec(), child.data.to_vec());
    let had = [own.header.len() as c_int, own.own_data().len() as c_int];
    let (mut rhdr, mut rhlen) = extended(&std::mem::take(&mut own.header), limits.header_max)?;
    let (mut rdata, mut rdlen) = extended(&std::mem::take(own.own_data()), limits.data_max)?;
    let mut ids = ids_of(request);
    let mut context = request.take_context::<gpc_hdl_t>().unwrap_or(gpc_hdl_t::EMPTY);
    // The lengths of this id's own reply: on entry, rhlen and rdlen are the room.
    context.ahdl.data[2..].copy_from_slice(&had);
    let (code, _) = frames::run(shared.context(), request, None, |_, _| {
        // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
        no_unwind(|| unsafe {
            handler(
                child.from as c_int,
                header.as_mut_ptr(),
                header.len() as c_int,
                data.as_mut_ptr(),
                data.len() as c_int,
                rhdr.as_mut_ptr(),
                &raw mut rhlen,
                rdata.as_mut_ptr(),
                &raw mut rdlen,
                ids.len() as c_int,
                ids.as_mut_ptr(),
                &raw mut context,
            )
        })
    });
    request.set_context(context);
    if code < 0 {
        return failed(code);
    }
    (own.header, own.data) = (cut(rhdr, rhlen, "rhlen")?, cut(rdata, rdlen, "rdlen")?);
    Ok(())
}
