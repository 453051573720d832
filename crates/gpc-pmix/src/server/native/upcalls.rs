//! The functions that libpmix calls when a process asks for something.
//!
//! Each copies its arguments into a message, queues the message and returns: they run on libpmix's own thread and wait
//! for nothing. A panic in one ends the helper with its message, as the ABI `C` does.
//!
//! libpmix gives an upcall no pointer of its server, so the state of the upcalls is global: [`start`] sets it once.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::copied::{application, directives, list, pairs, process, processes, text, texts};
use super::replies::{Caller, Reply};
use crate::abi::server::{
    GROUP_CONSTRUCT, GROUP_DESTRUCT, GroupUpcall, InfoCallback, LateUpcalls, LookupCallback, MODULE_POINTERS,
    ModexCallback, Module, OpCallback, SpawnCallback,
};
use crate::abi::{
    App, Info, NOT_FOUND, NOT_SUPPORTED, OPERATION_SUCCEEDED, OUT_OF_RESOURCE, Proc, SUCCESS, Status,
};
use crate::server::collective::{as_failed, is_local_destruct};
use crate::server::orders::{Application, Event, Process, Upcall};
use crate::server::outbox::Outbox;
use crate::server::pending::Pending;
use crate::server::requests::Requests;

/// The state of the upcalls.
struct Upcalls {
    outbox: Arc<Outbox>,
    pending: Mutex<Pending<Open>>,
    requests: Mutex<Requests>,
    /// Processes that have connected and not ended.
    connected: Mutex<BTreeSet<Process>>,
    /// Processes that have ended, of the registered jobs.
    ended: Mutex<BTreeSet<Process>>,
}

/// An unanswered upcall.
struct Open {
    reply: Reply,
    /// The process whose data are fetched.
    fetched: Option<Process>,
}

static UPCALLS: OnceLock<Upcalls> = OnceLock::new();

/// Makes upcalls go to this queue.
pub(in crate::server) fn start(outbox: Arc<Outbox>) {
    // A helper has one server, so this is the first time.
    let _ = UPCALLS.set(Upcalls {
        outbox,
        pending: Mutex::new(Pending::new()),
        requests: Mutex::new(Requests::new()),
        connected: Mutex::new(BTreeSet::new()),
        ended: Mutex::new(BTreeSet::new()),
    });
}

/// Takes the reply of an upcall that the node has answered.
pub(in crate::server) fn take(serial: u64) -> Option<Reply> {
    Some(lock(&UPCALLS.get()?.pending).take(serial)?.reply)
}

/// Answers the open fetches of a job that is forgotten: libpmix frees what their callbacks need.
pub(super) fn forget(namespace: &str) {
    let Some(upcalls) = UPCALLS.get() else { return };
    let is_of_job = |open: &Open| open.fetched.as_ref().is_some_and(|process| process.namespace == namespace);
    let all = lock(&upcalls.pending).take_all(is_of_job);
    all.into_iter().for_each(|open| open.reply.send(Err(NOT_FOUND)));
    upcalls.close_requests(|process| process.namespace == namespace);
    for processes in [&upcalls.connected, &upcalls.ended] {
        lock(processes).retain(|process| process.namespace != namespace);
    }
}

/// Closes what is open for a process that has ended. Returns whether it had connected.
pub(super) fn ended(process: &Process) -> bool {
    let Some(upcalls) = UPCALLS.get() else { return false };
    upcalls.close_requests(|of| of == process);
    lock(&upcalls.ended).insert(process.clone());
    lock(&upcalls.connected).remove(process)
}

/// Whether a process of a registered job has ended.
pub(super) fn has_ended(process: &Process) -> bool {
    UPCALLS.get().is_some_and(|upcalls| lock(&upcalls.ended).contains(process))
}

/// Opens a request for the data of a process.
pub(super) fn open_request(serial: u64, process: &Process) {
    if let Some(upcalls) = UPCALLS.get() {
        lock(&upcalls.requests).insert(serial, process.clone());
    }
}

/// Answers a request for data, if it is open.
pub(super) fn answer_request(serial: u64, data: Result<Vec<u8>, Status>) {
    let Some(upcalls) = UPCALLS.get() else { return };
    if lock(&upcalls.requests).close(serial) && upcalls.outbox.put(&Event::Data { serial, data }).is_err() {
        // They are too long.
        let _ = upcalls.outbox.put(&Event::Data { serial, data: Err(OUT_OF_RESOURCE) });
    }
}

impl Upcalls {
    /// Answers the requests for data of these processes: they have none.
    fn close_requests(&self, is_it: impl FnMut(&Process) -> bool) {
        for serial in lock(&self.requests).close_all(is_it) {
            // It is short.
            let _ = self.outbox.put(&Event::Data { serial, data: Err(NOT_FOUND) });
        }
    }

    /// Asks the node.
    ///
    /// # Errors
    /// The reply, which is still to be used, and the reason.
    fn ask(&self, reply: Reply, upcall: Result<Upcall, String>) -> Result<(), (Reply, Status)> {
        let Ok(upcall) = upcall else { return Err((reply, NOT_SUPPORTED)) };
        let fetched = match &upcall {
            Upcall::Fetch { process, .. } => Some(process.clone()),
            _ => None,
        };
        let serial = lock(&self.pending).insert(Open { reply, fetched });
        let serial = serial.map_err(|open| (open.reply, OUT_OF_RESOURCE))?;
        if self.outbox.put(&Event::Upcall { serial, upcall }).is_ok() {
            return Ok(());
        }
        match lock(&self.pending).take(serial) {
            Some(open) => Err((open.reply, OUT_OF_RESOURCE)),
            None => Ok(()),
        }
    }
}

/// No code under these locks panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the node. libpmix takes the success as the promise that the reply is used once.
fn ask(reply: Reply, upcall: Result<Upcall, String>) -> Status {
    let Some(upcalls) = UPCALLS.get() else { return NOT_SUPPORTED };
    upcalls.ask(reply, upcall).map_or_else(|(_, status)| status, |()| SUCCESS)
}

/// Asks the node on behalf of several processes. libpmix ignores an error that is returned if it calls up because a
/// process has died, and the others would wait for ever: so errors are replies. The node learns that the call fails,
/// and the other nodes from it.
fn ask_for_all(reply: Reply, upcall: Result<Upcall, String>) -> Status {
    let Some(upcalls) = UPCALLS.get() else { return NOT_SUPPORTED };
    let failed = upcall.as_ref().ok().and_then(|upcall| as_failed(upcall, OUT_OF_RESOURCE));
    if let Err((reply, status)) = upcalls.ask(reply, upcall) {
        if let Some(upcall) = failed {
            // The answer of the node to this number finds no reply.
            let serial = lock(&upcalls.pending).number();
            let _ = upcalls.outbox.put_beyond(&Event::Upcall { serial, upcall });
        }
        reply.send(Err(status));
    }
    SUCCESS
}

/// Reports to the node what needs no answer. The status says that it is done, and that no callback follows.
fn report(upcall: Result<Upcall, String>) -> Status {
    let (Some(upcalls), Ok(upcall)) = (UPCALLS.get(), upcall) else { return NOT_SUPPORTED };
    let serial = lock(&upcalls.pending).number();
    let is_queued = upcalls.outbox.put(&Event::Upcall { serial, upcall }).is_ok();
    if is_queued { OPERATION_SUCCEEDED } else { OUT_OF_RESOURCE }
}

/// The major version whose groups are supported: a server of version 4 sends replies that clients of version 5, such as
/// those of Open MPI 5, misread, and version 6 leaves the data of the members to its host.
const GROUP_VERSION: u32 = 5;

/// The functions for a libpmix of this major version.
pub(in crate::server) fn module(major: Option<u32>) -> Module {
    let has_groups = major == Some(GROUP_VERSION);
    Module {
        client_connected: Some(client_connected),
        client_finalized: Some(client_finalized),
        abort: Some(abort),
        fence_nb: Some(fence),
        direct_modex: Some(fetch),
        publish: Some(publish),
        lookup: Some(lookup),
        unpublish: Some(unpublish),
        spawn: Some(spawn),
        connect: Some(connect),
        disconnect: Some(disconnect),
        register_events: Some(register_events),
        deregister_events: Some(deregister_events),
        listener: None,
        notify_event: Some(notify_event),
        null_before_control: [None; 4],
        job_control: Some(job_control),
        null_after_control: [None; 5],
        late: LateUpcalls {
            group: has_groups.then_some(group as GroupUpcall),
            fabric: None,
            client_connected2: Some(client_connected2),
            null_at_end: [None; MODULE_POINTERS - 28],
        },
    }
}

/// The answer is at once: from version 6 on, a plain success means that the callback was called.
unsafe extern "C" fn client_connected(
    proc: *const Proc,
    _object: *mut c_void,
    _callback: Option<OpCallback>,
    _data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes one complete process.
    let connected = unsafe { one(proc) };
    if let (Some(upcalls), Ok(process)) = (UPCALLS.get(), &connected) {
        lock(&upcalls.connected).insert(process.clone());
    }
    report(connected.map(Upcall::Connected))
}

unsafe extern "C" fn client_connected2(
    proc: *const Proc,
    object: *mut c_void,
    _info: *mut Info,
    _info_size: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the arguments are those of libpmix.
    unsafe { client_connected(proc, object, callback, data) }
}

unsafe extern "C" fn client_finalized(
    proc: *const Proc,
    _object: *mut c_void,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes one complete process.
    let finalized = unsafe { one(proc) };
    if let (Some(upcalls), Ok(process)) = (UPCALLS.get(), &finalized) {
        upcalls.close_requests(|of| of == process);
    }
    ask(Reply::Done(callback, Caller(data)), finalized.map(Upcall::Finalized))
}

unsafe extern "C" fn abort(
    proc: *const Proc,
    _object: *mut c_void,
    status: c_int,
    message: *const c_char,
    procs: *mut Proc,
    count: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, a text and a list, the last two of which may be null.
    let upcall = unsafe {
        one(proc).map(|process| {
            let (message, processes) = (text(message), processes(procs, count));
            Upcall::Abort { process, status, message, processes }
        })
    };
    ask(Reply::Done(callback, Caller(data)), upcall)
}

unsafe extern "C" fn fence(
    procs: *const Proc,
    count: usize,
    info: *const Info,
    info_size: usize,
    bytes: *mut c_char,
    size: usize,
    callback: Option<ModexCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes lists of these sizes, which may be null.
    let upcall = unsafe {
        directives(info, info_size).map(|info| {
            let data = list(bytes.cast::<u8>(), size).to_vec();
            Upcall::Fence { processes: processes(procs, count), data, info }
        })
    };
    ask_for_all(Reply::Data(callback, Caller(data)), upcall)
}

/// A job that is registered while a process fetches from it makes libpmix ask again for the same caller.
unsafe extern "C" fn fetch(
    proc: *const Proc,
    info: *const Info,
    info_size: usize,
    callback: Option<ModexCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, and a list of this size.
    let upcall = unsafe { of_one(proc, info, info_size) };
    let upcall = upcall.map(|(process, info)| Upcall::Fetch { process, info });
    let is_same = |open: &Open| open.fetched.is_some() && open.reply.is_of(data);
    if UPCALLS.get().is_some_and(|upcalls| lock(&upcalls.pending).has(is_same)) {
        return SUCCESS;
    }
    ask(Reply::Data(callback, Caller(data)), upcall)
}

unsafe extern "C" fn publish(
    proc: *const Proc,
    info: *const Info,
    info_size: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, and a list of this size.
    let upcall =
        unsafe { pairs(info, info_size).and_then(|info| Ok(Upcall::Publish { process: one(proc)?, info })) };
    ask(Reply::Done(callback, Caller(data)), upcall)
}

unsafe extern "C" fn lookup(
    proc: *const Proc,
    keys: *mut *mut c_char,
    info: *const Info,
    info_size: usize,
    callback: Option<LookupCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, a list that ends with a null pointer, and a list of this size.
    let (upcall, keys) = unsafe { (of_one(proc, info, info_size), names(keys)) };
    let upcall = upcall.map(|(process, info)| Upcall::Lookup { process, keys, info });
    ask(Reply::Found(callback, Caller(data)), upcall)
}

unsafe extern "C" fn unpublish(
    proc: *const Proc,
    keys: *mut *mut c_char,
    info: *const Info,
    info_size: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, a list that ends with a null pointer or is null, and a list of this
    // size.
    let (upcall, keys) = unsafe { (of_one(proc, info, info_size), names(keys)) };
    let upcall = upcall.map(|(process, info)| Upcall::Unpublish { process, keys, info });
    ask(Reply::Done(callback, Caller(data)), upcall)
}

unsafe extern "C" fn spawn(
    proc: *const Proc,
    info: *const Info,
    info_size: usize,
    apps: *const App,
    count: usize,
    callback: Option<SpawnCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, and lists of these sizes with complete elements.
    let upcall = unsafe {
        of_one(proc, info, info_size).and_then(|(process, info)| {
            let applications = list(apps, count).iter().map(|app| application(app));
            let applications = applications.collect::<Result<Vec<Application>, String>>()?;
            Ok(Upcall::Spawn { process, info, applications })
        })
    };
    ask(Reply::Spawned(callback, Caller(data)), upcall)
}

unsafe extern "C" fn connect(
    procs: *const Proc,
    count: usize,
    info: *const Info,
    info_size: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes lists of these sizes.
    let (processes, info) = unsafe { (processes(procs, count), directives(info, info_size)) };
    ask_for_all(Reply::Done(callback, Caller(data)), info.map(|info| Upcall::Connect { processes, info }))
}

unsafe extern "C" fn disconnect(
    procs: *const Proc,
    count: usize,
    info: *const Info,
    info_size: usize,
    callback: Option<OpCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes lists of these sizes.
    let (processes, info) = unsafe { (processes(procs, count), directives(info, info_size)) };
    ask_for_all(Reply::Done(callback, Caller(data)), info.map(|info| Upcall::Disconnect { processes, info }))
}

/// A destruct that concerns this node alone is done at once: some libpmix 5 call up twice if it is not, and use the
/// reply twice.
unsafe extern "C" fn group(
    operation: c_int,
    name: *mut c_char,
    procs: *const Proc,
    count: usize,
    info: *const Info,
    info_size: usize,
    callback: Option<InfoCallback>,
    data: *mut c_void,
) -> Status {
    let constructs = match operation {
        GROUP_CONSTRUCT => true,
        GROUP_DESTRUCT => false,
        _ => return NOT_SUPPORTED,
    };
    // SAFETY: libpmix passes a text and lists of these sizes.
    let (name, processes, info) =
        unsafe { (text(name), processes(procs, count), directives(info, info_size)) };
    let name = String::from_utf8_lossy(&name).into_owned();
    let upcall = info.map(|info| Upcall::Group { constructs, name, processes, info });
    if upcall.as_ref().is_ok_and(is_local_destruct) {
        return OPERATION_SUCCEEDED;
    }
    ask_for_all(Reply::Info(callback, Caller(data)), upcall)
}

/// A node notifies of every event that concerns a local process, whether it is registered or not.
unsafe extern "C" fn register_events(
    _codes: *mut Status,
    _count: usize,
    _info: *const Info,
    _info_size: usize,
    _callback: Option<OpCallback>,
    _data: *mut c_void,
) -> Status {
    OPERATION_SUCCEEDED
}

unsafe extern "C" fn deregister_events(
    _codes: *mut Status,
    _count: usize,
    _callback: Option<OpCallback>,
    _data: *mut c_void,
) -> Status {
    OPERATION_SUCCEEDED
}

/// libpmix 4.2.2 frees what the callback of a notification needs when this function returns.
unsafe extern "C" fn notify_event(
    code: Status,
    source: *const Proc,
    range: u8,
    info: *mut Info,
    info_size: usize,
    _callback: Option<OpCallback>,
    _data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, and a list of this size.
    let upcall = unsafe { of_one(source, info, info_size) };
    report(upcall.map(|(source, info)| Upcall::Event { code, source, range, info }))
}

unsafe extern "C" fn job_control(
    proc: *const Proc,
    targets: *const Proc,
    count: usize,
    info: *const Info,
    info_size: usize,
    callback: Option<InfoCallback>,
    data: *mut c_void,
) -> Status {
    // SAFETY: libpmix passes a complete process, and lists of these sizes.
    let (upcall, targets) = unsafe { (of_one(proc, info, info_size), processes(targets, count)) };
    let upcall = upcall.map(|(process, info)| Upcall::Control { process, targets, info });
    ask(Reply::Info(callback, Caller(data)), upcall)
}

/// A process that must be there.
unsafe fn one(proc: *const Proc) -> Result<Process, String> {
    // SAFETY: the caller guarantees that the pointer is null or points to a complete process.
    unsafe { list(proc, 1) }.first().map(process).ok_or_else(|| "no process".to_owned())
}

/// A process and its directives.
unsafe fn of_one(
    proc: *const Proc,
    info: *const Info,
    info_size: usize,
) -> Result<(Process, Vec<crate::server::orders::Info>), String> {
    // SAFETY: the caller guarantees that the process and the list are complete, or null.
    unsafe { Ok((one(proc)?, directives(info, info_size)?)) }
}

/// Keys.
unsafe fn names(keys: *mut *mut c_char) -> Vec<String> {
    // SAFETY: the caller guarantees that the list ends with a null pointer, or is null.
    let keys = unsafe { texts(keys) };
    keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect()
}
