//! Memory that the processes of a host share, and addresses in it.

use std::ffi::{CString, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

use chained_gpc::Job;

use super::addresses::Segments;
use super::collective::exchange;
use super::mutex::lock;
use super::shared::{Layer, layer};
use crate::abi::pointers::border;
use crate::error::{Error, Result};
use crate::status::{CGPC_ERR_DATA, CGPC_ERR_SYSTEM, CGPC_OK};

/// Allocates a segment in each process, and stores in `ptr_arr` where this process has each of them: null for a segment
/// of 0 bytes, and the owner's address for one of another host. Collective. 0, or a negative status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Malloc(ptr_arr: *mut *mut c_void, bytes: c_long) -> c_int {
    // SAFETY: the header demands an array with an element for each process.
    unsafe {
        border(|c| {
            let layer = layer()?;
            c.needs(ptr_arr, "ptr_arr")?;
            let length = usize::try_from(bytes);
            let length = length.map_err(|_| Error::argument(format!("`bytes` is {bytes}")))?;
            for (owner, address) in allocate(&layer, length)?.into_iter().enumerate() {
                let address = ptr::with_exposed_provenance_mut(address as usize);
                c.store(ptr_arr.wrapping_add(owner), address, "ptr_arr")?;
            }
            Ok(CGPC_OK)
        })
    }
}

/// Frees the segments of one ARMCI_Malloc in this process, by its own one; null is the one of 0 bytes. Others keep
/// theirs until they free them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Free(address: *mut c_void) -> c_int {
    // SAFETY: the address is looked up among those that were handed out.
    unsafe {
        border(|_| {
            let layer = layer()?;
            if address.is_null() {
                return Ok(CGPC_OK);
            }
            let (me, address) = (layer.me as usize, address.addr() as u64);
            let none =
                || Error::argument("this is not an address that ARMCI_Malloc gave this process as its own");
            let segments = lock(&layer.shared.memory).remove(me, address).ok_or_else(none)?;
            unmap(&segments, me);
            Ok(CGPC_OK)
        })
    }
}

/// The address in process `proc` of what process `from` has at `ptr`: of memory of ARMCI_Malloc on one host. Null if
/// there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Gpc_translate(ptr: *mut c_void, proc: c_int, from: c_int) -> *mut c_void {
    let mut translated = ptr::null_mut();
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let layer = layer()?;
            let id = |process: c_int| usize::try_from(process).ok().filter(|id| *id < layer.count as usize);
            let both = id(proc).zip(id(from));
            let (proc, from) = both.ok_or_else(|| Error::argument("there is no such process"))?;
            let address = ptr.addr() as u64;
            if let Some(found) = lock(&layer.shared.memory).translate(address, proc, from) {
                translated = ptr::with_exposed_provenance_mut(found as usize);
            }
            Ok(CGPC_OK)
        })
    };
    translated
}

/// Unmaps all segments of all allocations in this process.
pub(super) fn unmap_all(layer: &Layer) {
    for segments in lock(&layer.shared.memory).take_all() {
        unmap(&segments, layer.me as usize);
    }
}

fn unmap(segments: &Segments, me: usize) {
    segments.views[me].iter().zip(&segments.lengths).for_each(|(view, length)| unmap_one(*view, *length));
}

fn unmap_one(view: u64, length: u64) {
    if view != 0 {
        // SAFETY: `open` has mapped it, with this length, and the application has freed it.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(view as usize), length as usize) };
    }
}

/// Makes a segment in each process, and maps those of this host. Returns where this process has each of them, or where
/// its owner on another host has it.
fn allocate(layer: &Layer, length: usize) -> Result<Vec<u64>> {
    let name = format!("/gpc-armci-{}", Job::random());
    let own = match length {
        0 => Ok(0),
        _ => open(&name, Some(length)),
    };
    let result = share(layer, &name, length, own.as_ref().copied().ok());
    if length > 0 && own.is_ok() {
        unlink(&name);
    }
    let segments = match (result, own) {
        (_, Err(error)) => return Err(error.into()),
        (Err(error), Ok(own)) => {
            unmap_one(own, length as u64);
            return Err(error);
        }
        (Ok(segments), Ok(_)) => segments,
    };
    let me = layer.me as usize;
    let homes = segments.views.iter().enumerate().map(|(owner, views)| views[owner]);
    let places =
        segments.views[me].iter().zip(homes).map(|(view, home)| if *view == 0 { home } else { *view });
    let places = places.collect();
    lock(&layer.shared.memory).add(segments);
    // No process uses the memory before all can translate its addresses.
    exchange(layer, Vec::new())?;
    Ok(places)
}

/// Tells the others of this process's segment, which is `None` if it could not be made, and maps theirs.
fn share(layer: &Layer, name: &str, length: usize, own: Option<u64>) -> Result<Segments> {
    let mut mine = own.map_or(u64::MAX, |_| length as u64).to_le_bytes().to_vec();
    mine.extend_from_slice(name.as_bytes());
    let number = lock(&layer.shared.collective).next;
    let others = exchange(layer, mine)?;
    let wrong = || Error::new(CGPC_ERR_DATA, "a process has told of its memory in another form");
    let (mut lengths, mut views) = (Vec::new(), Vec::new());
    for (owner, part) in (0..).zip(&others) {
        let (length, name) = part.split_at_checked(8).ok_or_else(wrong)?;
        let length = u64::from_le_bytes(length.try_into().map_err(|_| wrong())?);
        if length == u64::MAX {
            // The caller unmaps the own one.
            let others = views.iter().zip(&lengths).filter(|(view, _)| own != Some(**view));
            others.for_each(|(view, length)| unmap_one(*view, *length));
            return Err(Error::new(
                CGPC_ERR_SYSTEM,
                format!("process {owner} cannot make its shared memory"),
            ));
        }
        lengths.push(length);
        views.push(match own {
            Some(own) if owner == layer.me => own,
            _ if length == 0 => 0,
            // Memory of another host is not there.
            _ => std::str::from_utf8(name).ok().and_then(|name| open(name, None).ok()).unwrap_or(0),
        });
    }
    let views = exchange(layer, views.iter().flat_map(|view| view.to_le_bytes()).collect())?;
    let row = |part: &bytes::Bytes| {
        part.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes)).collect::<Vec<u64>>()
    };
    let views: Vec<Vec<u64>> = views.iter().map(row).collect();
    match views.iter().all(|row| row.len() == layer.count as usize) {
        true => Ok(Segments { number, views, lengths }),
        false => Err(wrong()),
    }
}

/// Makes shared memory of a length, or opens it with the length that it has; maps it, and returns its address.
fn open(name: &str, length: Option<usize>) -> io::Result<u64> {
    let name = CString::new(name)?;
    let flags = if length.is_some() { libc::O_RDWR | libc::O_CREAT | libc::O_EXCL } else { libc::O_RDWR };
    // SAFETY: the name is a text that ends with a zero.
    let descriptor = unsafe { libc::shm_open(name.as_ptr(), flags, 0o600) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else has it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let length = match length {
        Some(length) => {
            file.set_len(length as u64)?;
            length
        }
        None => file.metadata()?.len() as usize,
    };
    let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, at an address that the system chooses, of a file that has this length.
    let address = unsafe { libc::mmap(ptr::null_mut(), length, access, shared, file.as_raw_fd(), 0) };
    match address == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(address.expose_provenance() as u64),
    }
}

fn unlink(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name is a text that ends with a zero.
        unsafe { libc::shm_unlink(name.as_ptr()) };
    }
}
