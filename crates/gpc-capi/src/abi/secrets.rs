//! Secrets, keys and jobs. May be called from anywhere.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use chained_gpc::bootstrap::{read_key, read_secret};
use chained_gpc::{Job, PrivateKey, Secret};

use super::pointers::{Pointers, border};
use crate::error::Result;
use crate::status::CGPC_OK;

/// Draws a job: stores 16 bytes. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_job_random(job: *mut u8) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| fixed(c, job, Job::random().0)) }
}

/// Draws a secret: stores 32 bytes. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_secret_random(secret: *mut u8) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let drawn = Secret::random()?;
            fixed::<32>(c, secret, drawn.as_bytes().try_into().unwrap_or([0; 32]))
        })
    }
}

/// Reads a secret from a file that only its owner can read, as `gpc secret` writes it, into a buffer of 1024 bytes or
/// fewer. `length` gets its length. Errors: CGPC_ERR_ARGUMENT, CGPC_ERR_TRUNCATED. May be called from any thread, not
/// from inline functions: it waits for the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_secret_read(
    path: *const c_char,
    secret: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let read = read_secret(Path::new(c.text(path, "path")?))?;
            c.copy(read.as_bytes(), (secret.cast::<c_void>(), capacity), length, "secret")
        })
    }
}

/// Draws a private key: stores 32 bytes. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_key_random(key: *mut u8) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| fixed(c, key, *PrivateKey::random()?.as_bytes())) }
}

/// Reads a private key from a file that only its owner can read, as `gpc key` writes it: stores 32 bytes. May be called
/// from any thread, not from inline functions: it waits for the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_key_read(path: *const c_char, key: *mut u8) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| fixed(c, key, *read_key(Path::new(c.text(path, "path")?))?.as_bytes())) }
}

/// Stores the public key of a private key: 32 bytes, by which others know this id. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_key_public(key: *const u8, public_key: *mut u8) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let key: [u8; 32] = c.items(key, 32, "key")?.try_into().unwrap_or_default();
            public(c, PrivateKey::new(key), public_key)
        })
    }
}

#[cfg(feature = "noise")]
fn public(c: &Pointers<'_>, key: PrivateKey, place: *mut u8) -> Result<c_int> {
    fixed(c, place, key.public().0)
}

#[cfg(not(feature = "noise"))]
fn public(_: &Pointers<'_>, _: PrivateKey, _: *mut u8) -> Result<c_int> {
    use crate::status::CGPC_ERR_UNSUPPORTED;
    Err(crate::error::Error::new(CGPC_ERR_UNSUPPORTED, "this library was built without the feature `noise`"))
}

fn fixed<const N: usize>(c: &Pointers<'_>, place: *mut u8, bytes: [u8; N]) -> Result<c_int> {
    c.store(place.cast::<[u8; N]>(), bytes, "result")?;
    Ok(CGPC_OK)
}
