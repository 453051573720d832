//! libpmix, loaded at run time, and the calls of its client side. `server` has those of its server side.
//!
//! General conditions, in addition to those at each call:
//! - The types of [`abi`](crate::abi) have the same layout as in C. That holds for versions 3 to 6; any other version
//!   is refused before any function except the version query is called. A server uses another one if the user asks for
//!   it by `GPC_PMIX_ANY_VERSION`, and then answers for it.
//! - libpmix is never unloaded, since its own threads run its code until the process ends. So its functions stay valid
//!   for ever.
//! - One thread makes all calls, and each call returns before the memory lent to it is freed. libpmix retains no
//!   pointer: each call used here copies its arguments (`PMIx_Put`) or has finished with them when it returns.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::{CStr, CString, c_char};
use std::mem::ManuallyDrop;
use std::ops::RangeInclusive;
use std::path::Path;
use std::ptr;

use crate::abi::{self, Data, Info, Proc, Status, Value};

/// The library's file. Its name has not changed since version 2.
const FILE: &str = "libpmix.so.2";

/// The versions with a known layout.
const VERSIONS: RangeInclusive<u32> = 3..=5;

/// The functions of a libpmix that stays loaded.
pub(crate) struct Library {
    error_string: abi::ErrorString,
    init: abi::Init,
    put: abi::Put,
    commit: abi::Commit,
    fence: abi::Fence,
    get: abi::Get,
    finalize: abi::Finalize,
    free: abi::Free,
}

/// The result of a get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Got {
    Number(u32),
    Text(Vec<u8>),
    /// A value of another type. It stays allocated, since the way to free it depends on its type.
    Other(u16),
}

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    /// A message: what is missing, and what to install.
    pub(crate) fn load() -> Result<Library, String> {
        let opened = Opened::open()?;
        // SAFETY: the functions have these types in all versions in VERSIONS.
        let found = unsafe {
            Library {
                error_string: opened.symbol("PMIx_Error_string")?,
                init: opened.symbol("PMIx_Init")?,
                put: opened.symbol("PMIx_Put")?,
                commit: opened.symbol("PMIx_Commit")?,
                fence: opened.symbol("PMIx_Fence")?,
                get: opened.symbol("PMIx_Get")?,
                finalize: opened.symbol("PMIx_Finalize")?,
                free: free()?,
            }
        };
        match opened.major() {
            Some(major) if VERSIONS.contains(&major) => Ok(found),
            _ => Err(format!("{FILE} is `{}`, and versions 3 to 5 can be used", opened.version)),
        }
    }

    /// Connects to the launcher's server. Returns the namespace and the rank of this process.
    pub(crate) fn init(&self) -> Result<(Vec<u8>, u32), Status> {
        let mut me = Proc { namespace: [0; abi::NAMESPACE_BYTES], rank: u32::MAX };
        // SAFETY: `me` is a whole `pmix_proc_t` that the call may write; no info is passed.
        succeeded(unsafe { (self.init)(&raw mut me, ptr::null_mut(), 0) })?;
        let bytes = me.namespace.map(|byte| byte.cast_unsigned());
        Ok((bytes.into_iter().take_while(|&byte| byte != 0).collect(), me.rank))
    }

    /// Puts a text for processes on every host, and passes it to this host's server.
    pub(crate) fn put(&self, key: &CStr, text: &CStr) -> Result<(), Status> {
        let mut value = Value { kind: abi::STRING, data: Data { string: text.as_ptr().cast_mut() } };
        // SAFETY: both texts end with a zero byte and outlive the call, which copies them and writes to neither.
        succeeded(unsafe { (self.put)(abi::GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: the call has no arguments.
        succeeded(unsafe { (self.commit)() })
    }

    /// Waits for all processes of the job, and brings all puts to this host's server.
    pub(crate) fn fence(&self) -> Result<(), Status> {
        let info = [info(abi::COLLECT_DATA, abi::BOOL, Data { flag: true })];
        // SAFETY: a null process list means the whole job; the info outlives the call, which blocks until the fence is
        // over.
        succeeded(unsafe { (self.fence)(ptr::null(), 0, info.as_ptr(), info.len()) })
    }

    /// The value that a process has put, or with rank [`abi::RANK_WILDCARD`] the launcher's information about the job.
    pub(crate) fn get(&self, namespace: &[u8], rank: u32, key: &CStr, seconds: i32) -> Result<Got, Status> {
        let of = Proc { namespace: characters(namespace), rank };
        let info = [
            info(abi::TIMEOUT, abi::INT, Data { integer: seconds }),
            info(abi::IMMEDIATE, abi::BOOL, Data { flag: true }),
        ];
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: all arguments outlive the call, which blocks until it is done and writes only the pointer.
        succeeded(unsafe {
            (self.get)(&raw const of, key.as_ptr(), info.as_ptr(), info.len(), &raw mut value)
        })?;
        // SAFETY: after a successful get, the caller owns the value.
        unsafe { self.take(value) }
    }

    /// Reads a value and frees it.
    ///
    /// # Safety
    /// The pointer is null, or points to a value that libpmix allocated and that the caller owns; it is not used
    /// afterwards.
    unsafe fn take(&self, value: *mut Value) -> Result<Got, Status> {
        if value.is_null() {
            return Err(abi::SUCCESS);
        }
        // SAFETY: the value is complete. Its kind says which member of the union was written; a text is a pointer to
        // bytes that end with a zero byte. Texts and values are allocated by `malloc`, and nothing else refers to them
        // (`PMIX_VALUE_RELEASE` frees them the same way).
        unsafe {
            let got = match ((*value).kind, (*value).data) {
                (abi::UINT32, data) => Got::Number(data.uint32),
                (abi::STRING, Data { string }) if !string.is_null() => {
                    let text = CStr::from_ptr(string).to_bytes().to_vec();
                    (self.free)(string.cast());
                    Got::Text(text)
                }
                (kind, _) => return Ok(Got::Other(kind)),
            };
            (self.free)(value.cast());
            Ok(got)
        }
    }

    /// Reports to the launcher that this process ends normally.
    pub(crate) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: no info is passed.
        succeeded(unsafe { (self.finalize)(ptr::null(), 0) })
    }

    /// A status as text.
    pub(crate) fn words(&self, status: Status) -> String {
        words(self.error_string, status)
    }
}

/// A libpmix that stays loaded, before its version is checked.
pub(crate) struct Opened {
    library: ManuallyDrop<libloading::Library>,
    /// The version, as the library reports it.
    pub(crate) version: String,
}

impl Opened {
    /// Loads the library.
    ///
    /// # Errors
    /// A message: what is missing, and what to install.
    pub(crate) fn open() -> Result<Opened, String> {
        // SAFETY: the constructors of libpmix and of its dependencies only set up their own variables. Unloading is
        // prevented below.
        let library = unsafe { libloading::Library::new(FILE) }
            .map_err(|error| format!("{}; install PMIx (Debian: libpmix2), or let LD_LIBRARY_PATH name the folder of the launcher's own", causes(&error)))?;
        let version = version(&library)?;
        Ok(Opened { library: ManuallyDrop::new(library), version })
    }

    /// Loads the library at a path; `None` if it cannot be loaded, or has another major version than these. Then it is
    /// unloaded: no function of it was called that starts a thread.
    pub(crate) fn open_at(path: &Path, versions: &RangeInclusive<u32>) -> Option<Opened> {
        // SAFETY: as in `open`.
        let library = unsafe { libloading::Library::new(path) }.ok()?;
        let version = version(&library).ok()?;
        let is_known = major(&version).is_some_and(|major| versions.contains(&major));
        is_known.then(|| Opened { library: ManuallyDrop::new(library), version })
    }

    /// The first number of the version.
    pub(crate) fn major(&self) -> Option<u32> {
        major(&self.version)
    }

    /// A function of the library.
    ///
    /// # Safety
    /// The function has the type `T`.
    pub(crate) unsafe fn symbol<T: Copy>(&self, name: &str) -> Result<T, String> {
        // SAFETY: the caller guarantees it, and the library is never unloaded.
        unsafe { symbol(&self.library, name) }
    }
}

/// The version that a library reports.
fn version(library: &libloading::Library) -> Result<String, String> {
    // SAFETY: the function has this type in all versions, and returns a text that is part of the library, or null. The
    // library is loaded during the call.
    unsafe {
        let version: abi::GetVersion = symbol(library, "PMIx_Get_version")?;
        Ok(text(version()))
    }
}

/// An error with its causes: the loader's message is the cause of one without details.
fn causes(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", causes(source)),
        None => error.to_string(),
    }
}

/// `free`, which frees what libpmix allocates for its callers.
///
/// The search is that of the linker for libpmix itself: the program, preloaded libraries, then the C library. A search
/// through libpmix's dependencies would pass over an allocator of the program.
pub(crate) fn free() -> Result<abi::Free, String> {
    let process = libloading::os::unix::Library::this().into();
    // SAFETY: `free` has the type of the C standard, and the program is never unloaded.
    unsafe { symbol(&process, "free") }
}

/// A status as text.
pub(crate) fn words(error_string: abi::ErrorString, status: Status) -> String {
    // SAFETY: the returned text is part of the library.
    let words = unsafe { text(error_string(status)) };
    format!("{words} (status {status})")
}

/// A function of a library.
///
/// # Safety
/// The function has the type `T`, and the library is never unloaded.
unsafe fn symbol<T: Copy>(library: &libloading::Library, name: &str) -> Result<T, String> {
    let zero_ended = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the caller guarantees it.
    let found = unsafe { library.get::<T>(zero_ended.as_bytes_with_nul()) };
    found
        .map(|symbol| *symbol)
        .map_err(|error| format!("{FILE} has no {name}: {error}; install another version"))
}

/// A text; empty if the pointer is null.
///
/// # Safety
/// The pointer is null, or points to bytes that end with a zero byte and do not change during the call.
pub(crate) unsafe fn text(characters: *const c_char) -> String {
    if characters.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(characters) }.to_string_lossy().into_owned()
}

fn succeeded(status: Status) -> Result<(), Status> {
    if status == abi::SUCCESS { Ok(()) } else { Err(status) }
}

/// A directive of a call.
fn info(key: &str, kind: u16, data: Data) -> Info {
    Info { key: characters(key.as_bytes()), flags: 0, value: Value { kind, data } }
}

/// Bytes as C characters, truncated so that a zero byte ends them.
pub(crate) fn characters<const ROOM: usize>(bytes: &[u8]) -> [c_char; ROOM] {
    let mut characters = [0; ROOM];
    let room = ROOM - 1;
    for (character, byte) in characters[..room].iter_mut().zip(bytes) {
        *character = byte.cast_signed();
    }
    characters
}

/// The first number of a text such as `OpenPMIx 4.2.2 (PMIx Standard: 4.1, ...)`.
fn major(version: &str) -> Option<u32> {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_the_library_says() {
        assert_eq!(major("OpenPMIx 4.2.2 (PMIx Standard: 4.1, Stable ABI: 0.0)"), Some(4));
        assert_eq!(major("PMIx 12.0.1a1"), Some(12));
        assert_eq!(major("OpenPMIx"), None);
        assert_eq!(major(""), None);
    }

    #[test]
    fn characters_end_with_a_zero_byte_whatever_they_are_made_of() {
        assert_eq!(characters::<4>(b"ab"), [97, 98, 0, 0]);
        assert_eq!(characters::<4>(b"abcdef"), [97, 98, 99, 0]);
    }
}
