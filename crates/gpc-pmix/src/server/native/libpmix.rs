//! The calls of libpmix's server side.
//!
//! Conditions, in addition to those of [`library`](crate::library): the helper's main thread makes all calls. A call
//! without a callback returns when libpmix's own thread has done it, so its arguments are not used any longer.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString, c_char, c_void};
use std::ops::RangeInclusive;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::{env, fs, io};

use super::copied::{list, texts, variables};
use super::lent::{Lent, proc};
use super::replies::Reply;
use super::upcalls;
use crate::abi::server as calls;
use crate::abi::{self, Status};
use crate::library::{Opened, free, words};
use crate::server::orders::{ALL, Answer, Info, Process, Value, Variables};
use crate::server::outbox::Outbox;
use crate::server::values::Items;

/// The versions whose structures were compared with this crate's, and that read uncompressed lists.
const VERSIONS: RangeInclusive<u32> = 4..=6;

/// A variable that allows other versions of libpmix.
const ANY_VERSION: &str = "GPC_PMIX_ANY_VERSION";

/// Settings of libpmix. Job data and values are stored in memory and sent to each process; the other stores map files,
/// whose layout a client of another version may not know.
const SETTINGS: [(&str, &str); 1] = [("PMIX_MCA_gds", "hash")];

/// Variables of an outer launcher of PMIx, whose client this helper is not.
const FOREIGN: [&str; 6] = [
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_HOSTNAME",
    "PMIX_LAUNCHER_RNDZ_URI",
    "PMIX_KEEPALIVE_PIPE",
    "PMIX_GDS_MODULE",
];

/// A namespace without processes.
const NOBODY: &str = "gpc-nobody";

/// Work for libpmix's thread.
type Work = Box<dyn FnOnce() + Send>;

/// A running server.
pub(in crate::server) struct Libpmix {
    version: String,
    major: Option<u32>,
    error_string: abi::ErrorString,
    register_namespace: calls::RegisterNamespace,
    deregister_namespace: calls::DeregisterNamespace,
    register_client: calls::RegisterClient,
    deregister_client: calls::DeregisterClient,
    setup_fork: calls::SetupFork,
    request_data: calls::RequestData,
    notify_event: calls::NotifyEvent,
    finalize: calls::ServerFinalize,
    free: abi::Free,
}

/// Sets the variables that libpmix reads.
///
/// # Errors
/// This process has other threads, which may read variables.
pub(in crate::server) fn set_variables() -> io::Result<()> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "a PMIx server must begin with one thread, and there are {threads}"
        )));
    }
    let of_servers = env::vars_os().map(|(name, _)| name);
    let of_servers = of_servers.filter(|name| name.as_encoded_bytes().starts_with(b"PMIX_SERVER_"));
    let foreign: Vec<OsString> = of_servers.chain(FOREIGN.map(Into::into)).collect();
    // SAFETY: this process has one thread, which runs this function: no other one reads or changes variables.
    unsafe {
        foreign.iter().for_each(|name| env::remove_var(name));
        SETTINGS.iter().for_each(|(name, value)| env::set_var(name, value));
    }
    Ok(())
}

impl Libpmix {
    /// Loads the library and starts its server on the node that is named `host`. `own` is the library of the programs,
    /// which counts if it has a known version.
    ///
    /// # Errors
    /// A message: what is missing, and what to install.
    pub(in crate::server) fn start(
        folder: &Path,
        host: &str,
        own: Option<&Path>,
        outbox: &Arc<Outbox>,
    ) -> Result<Libpmix, String> {
        let opened = match own.and_then(|path| Opened::open_at(path, &VERSIONS)) {
            Some(opened) => opened,
            None => Opened::open()?,
        };
        let is_known = opened.major().is_some_and(|major| VERSIONS.contains(&major));
        if !is_known && env::var_os(ANY_VERSION).is_none() {
            return Err(format!(
                "libpmix.so.2 is `{}`, and a server needs version 4, 5 or 6; install one of these (Debian: libpmix2), or set {ANY_VERSION}=1 to try this one",
                opened.version.escape_debug()
            ));
        }
        // SAFETY: the functions have these types in all versions in VERSIONS, and in others if the user is right.
        let (server, init) = unsafe {
            let init: calls::ServerInit = opened.symbol("PMIx_server_init")?;
            let server = Libpmix {
                error_string: opened.symbol("PMIx_Error_string")?,
                register_namespace: opened.symbol("PMIx_server_register_nspace")?,
                deregister_namespace: opened.symbol("PMIx_server_deregister_nspace")?,
                register_client: opened.symbol("PMIx_server_register_client")?,
                deregister_client: opened.symbol("PMIx_server_deregister_client")?,
                setup_fork: opened.symbol("PMIx_server_setup_fork")?,
                request_data: opened.symbol("PMIx_server_dmodex_request")?,
                notify_event: opened.symbol("PMIx_Notify_event")?,
                finalize: opened.symbol("PMIx_server_finalize")?,
                free: free()?,
                major: opened.major(),
                version: opened.version,
            };
            (server, init)
        };
        upcalls::start(Arc::clone(outbox));
        server.init(init, folder, host)?;
        Ok(server)
    }

    fn init(&self, init: calls::ServerInit, folder: &Path, host: &str) -> Result<(), String> {
        let info = |key: &str, value| Info::new(key, value);
        let folder = folder.to_string_lossy();
        let infos = [
            info("pmix.srvr.tmpdir", Value::text(&folder)),
            info("pmix.sys.tmpdir", Value::text(&folder)),
            info("pmix.srv.nspace", Value::text(&format!("gpc-server-{}", std::process::id()))),
            info("pmix.srv.rank", Value::rank(0)),
            info("pmix.hname", Value::text(host)),
            info("pmix.srvr.tool", Value::boolean(false)),
            info("pmix.srvr.remote", Value::boolean(false)),
        ];
        let mut lent = Lent::default();
        let first = lent.infos(&infos).map_err(|error| error.to_string())?;
        let mut module = upcalls::module(self.major);
        // SAFETY: the module has room for more pointers than any version has; libpmix copies it and the pairs before it
        // returns.
        let status = unsafe { init(&raw mut module, first, infos.len()) };
        self.succeeded(status).map_err(|why| format!("PMIx_server_init has failed: {why}"))
    }

    /// The version, as the library reports it.
    pub(in crate::server) fn version(&self) -> &str {
        &self.version
    }

    /// Registers a job with this many processes of this node.
    pub(in crate::server) fn register(
        &self,
        namespace: &str,
        local: usize,
        infos: &[Info],
    ) -> Result<(), String> {
        let namespace = zero_ended(namespace)?;
        let local = i32::try_from(local).map_err(|error| error.to_string())?;
        let mut lent = Lent::default();
        let first = lent.infos(infos).map_err(|error| error.to_string())?;
        // SAFETY: the arguments outlive the call, which returns when it is done.
        let status = unsafe {
            (self.register_namespace)(namespace.as_ptr(), local, first, infos.len(), None, ptr::null_mut())
        };
        self.succeeded(status)
    }

    /// Forgets a job.
    pub(in crate::server) fn deregister(&self, namespace: &str) {
        upcalls::forget(namespace);
        if let Ok(namespace) = zero_ended(namespace) {
            // SAFETY: as for `register`.
            unsafe { (self.deregister_namespace)(namespace.as_ptr(), None, ptr::null_mut()) };
        }
    }

    /// Sends the reply to an upcall.
    pub(in crate::server) fn reply(&self, reply: Reply, answer: Result<Answer, Status>) {
        if !reply.is_bound_to_thread() {
            return reply.send(answer);
        }
        self.run_on_its_thread(Box::new(move || reply.send(answer)));
    }

    /// Runs work on libpmix's thread, after all that was ordered before.
    fn run_on_its_thread(&self, work: Work) {
        let nobody = proc(&Process { namespace: NOBODY.to_owned(), rank: 0 });
        let kept = Box::into_raw(Box::new(work)).cast::<c_void>();
        // SAFETY: the process outlives the call, which copies it. libpmix calls `run_work` once, on its own thread:
        // there is nothing else to do for a process of an unknown job.
        unsafe { (self.deregister_client)(&raw const nobody, Some(run_work), kept) };
    }

    /// Registers a process of this node, and returns the variables that it needs.
    pub(in crate::server) fn prepare(
        &self,
        process: &Process,
        (user, group): (u32, u32),
    ) -> Result<Variables, String> {
        let proc = proc(process);
        // SAFETY: the process outlives the calls, which return when they are done. `all` is a list of the C library
        // that `setup_fork` allocates: this function frees it.
        unsafe {
            let status =
                (self.register_client)(&raw const proc, user, group, ptr::null_mut(), None, ptr::null_mut());
            self.succeeded(status)?;
            let mut all: *mut *mut c_char = ptr::null_mut();
            let status = (self.setup_fork)(&raw const proc, &raw mut all);
            let found = variables(&texts(all));
            self.free_texts(all);
            if let Err(why) = self.succeeded(status) {
                (self.deregister_client)(&raw const proc, None, ptr::null_mut());
                return Err(why);
            }
            Ok(found)
        }
    }

    /// Frees a list of texts.
    ///
    /// # Safety
    /// The pointer is null, or points to a list that ends with a null pointer; the list and its texts are of `malloc`,
    /// and are not used any longer.
    unsafe fn free_texts(&self, all: *mut *mut c_char) {
        let mut next = all;
        // SAFETY: the caller guarantees it.
        unsafe {
            while !next.is_null() && !(*next).is_null() {
                (self.free)((*next).cast());
                next = next.add(1);
            }
            if !all.is_null() {
                (self.free)(all.cast());
            }
        }
    }

    /// Forgets a process that has ended.
    ///
    /// For a process that had connected, libpmix does so when it sees the connection close, and only then it no longer
    /// counts on the process in collective calls.
    pub(in crate::server) fn forget(&self, process: &Process) {
        if upcalls::ended(process) {
            return;
        }
        let proc = proc(process);
        // SAFETY: the process outlives the call, which returns when it is done.
        unsafe { (self.deregister_client)(&raw const proc, None, ptr::null_mut()) };
    }

    /// Requests the data of a local process; [`Event::Data`] answers.
    pub(in crate::server) fn request_data(&self, serial: u64, process: &Process) {
        let proc = proc(process);
        upcalls::open_request(serial, process);
        let Ok(number) = usize::try_from(serial) else {
            return upcalls::answer_request(serial, Err(abi::ERROR));
        };
        // SAFETY: libpmix copies the process before it returns. The last argument is a number, which only `on_data`
        // uses.
        let status = unsafe {
            (self.request_data)(&raw const proc, Some(on_data), ptr::without_provenance_mut(number))
        };
        if !matches!(status, abi::SUCCESS | abi::OPERATION_SUCCEEDED) {
            upcalls::answer_request(serial, Err(status));
        } else if upcalls::has_ended(process) {
            // What libpmix has, it has answered by then.
            self.run_on_its_thread(Box::new(move || upcalls::answer_request(serial, Err(abi::NOT_FOUND))));
        }
    }

    /// Notifies the local processes of a job of an event.
    pub(in crate::server) fn notify(
        &self,
        code: Status,
        source: &Process,
        to: &str,
        mut infos: Vec<Info>,
    ) -> Result<(), String> {
        let all = Value::process(&Process { namespace: to.to_owned(), rank: ALL });
        let targets = Value::array(&Items::Others(abi::PROC, vec![all.bytes]));
        infos.push(Info::new("pmix.evrange", targets));
        let mut lent = Lent::default();
        let first = lent.infos(&infos).map_err(|error| error.to_string())?;
        let source = proc(source);
        // SAFETY: libpmix copies all arguments before it returns.
        let status = unsafe {
            (self.notify_event)(
                code,
                &raw const source,
                abi::RANGE_CUSTOM,
                first,
                infos.len(),
                None,
                ptr::null_mut(),
            )
        };
        self.succeeded(status)
    }

    /// Ends the server.
    pub(in crate::server) fn finalize(&self) -> Result<(), String> {
        // SAFETY: the call has no arguments.
        let status = unsafe { (self.finalize)() };
        self.succeeded(status)
    }

    fn succeeded(&self, status: Status) -> Result<(), String> {
        match status {
            abi::SUCCESS | abi::OPERATION_SUCCEEDED => Ok(()),
            status => Err(words(self.error_string, status)),
        }
    }
}

/// Takes the data of a local process.
unsafe extern "C" fn on_data(status: Status, data: *mut c_char, size: usize, serial: *mut c_void) {
    // SAFETY: libpmix passes as many bytes, and frees them when this function has returned.
    let data = unsafe { list(data.cast::<u8>(), size) };
    let data = if status == abi::SUCCESS { Ok(data.to_vec()) } else { Err(status) };
    upcalls::answer_request(serial.addr() as u64, data);
}

/// Runs work on libpmix's thread.
unsafe extern "C" fn run_work(_status: Status, kept: *mut c_void) {
    // SAFETY: libpmix passes the pointer of `run_on_its_thread` once.
    let work = unsafe { Box::from_raw(kept.cast::<Work>()) };
    work();
}

fn zero_ended(namespace: &str) -> Result<CString, String> {
    CString::new(namespace).map_err(|_| "the namespace has a zero byte".to_owned())
}
