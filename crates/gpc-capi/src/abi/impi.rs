//! `impi.h`, sessions of IMPI: connect, authenticate, exchange labels, done, fini.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use gpc_impi::client::ExchangeSettings;
use gpc_impi::session::ExchangeSession;
use gpc_impi::wire::{Key, Label, Methods};

use super::impi_types::*;
use super::pointers::{Pointers, border, handle, object, opaque};
use crate::error::{Error, Result};
use crate::handles::{insert, remove};
use crate::impi::{self, Session};
use crate::status::*;

/// Connects to the server at HOST:PORT, within `limit_us`, and stores the session. Free it with cgpc_impi_free. It has
/// no thread; a name is looked up on one, for as long as that takes.
///
/// Errors: CGPC_ERR_ARGUMENT if the address or an option is wrong, CGPC_ERR_SERVER if the server is not reached. May be
/// called from any thread, and in a forked child.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_connect(
    server: *const c_char,
    options: *const cgpc_impi_options,
    limit_us: u64,
    client: *mut *mut cgpc_impi,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            c.needs(client, "client")?;
            let (server, options) = (c.text(server, "server")?, c.sized(options)?);
            let mut settings = ExchangeSettings::new(options.rank, methods(c, &options)?);
            if options.bytes_max > 0 {
                settings.bytes_max = usize::try_from(options.bytes_max).unwrap_or(usize::MAX);
            }
            let made = ExchangeSession::connect(server, settings, Duration::from_micros(limit_us))?;
            c.store(client, opaque(insert(Arc::new(Session::new(made)))?), "client")?;
            Ok(CGPC_OK)
        })
    }
}

/// Authenticates, sends the rank, and waits for the number of clients, at most `limit_us`. `clients` may be null.
///
/// Each wait of a session, here and below, returns CGPC_PENDING if its limit passes: what was begun goes on, and the
/// same call waits again. With a limit of 0 it never blocks, and cgpc_impi_fd says when to call it again: before you
/// wait for the descriptor, call every function again that was pending. One call reads for all.
///
/// Errors, here and below: CGPC_ERR_SERVER if the server is lost or breaks the protocol, CGPC_ERR_STATE if the session
/// is at another stage, CGPC_ERR_BUSY if another thread uses it. After CGPC_ERR_SERVER every call that waits returns
/// that; values that were broadcast remain. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_join(client: *mut cgpc_impi, limit_us: u64, clients: *mut u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            object::<Session, _>(client)?.with(|session| {
                let status = impi::wait(session, limit_us, |session| {
                    session.exchange().clients().is_some() && session.exchange().fault().is_none()
                })?;
                c.store_if_wanted(clients, session.exchange().clients().unwrap_or(0));
                Ok(status)
            })
        })
    }
}

/// Sends the values of a label, big-endian bytes, and waits until the server has broadcast those of all clients, at
/// most `limit_us`. The label may be one of your own. If it was sent before, this only waits. From one thread at a
/// time.
///
/// Errors: CGPC_ERR_LENGTH if the length does not fit the label, and those of cgpc_impi_join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_exchange(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    values: *const c_void,
    length: usize,
    limit_us: u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|c| exchange(client, label, c.bytes(values, length, "values")?, limit_us)) }
}

/// As cgpc_impi_exchange, with integers of 4 bytes in the order of this machine: for all labels of the source but
/// addresses and IMPI_P_PID. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_exchange_int4(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    values: *const IMPI_Int4,
    count: usize,
    limit_us: u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let values = c.items(values, count, "values")?;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
            exchange(client, label, &bytes, limit_us)
        })
    }
}

/// As cgpc_impi_exchange, with integers of 8 bytes in the order of this machine: for IMPI_P_PID. From one thread at a
/// time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_exchange_uint8(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    values: *const IMPI_Uint8,
    count: usize,
    limit_us: u64,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let values = c.items(values, count, "values")?;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
            exchange(client, label, &bytes, limit_us)
        })
    }
}

/// Copies what the server has broadcast under a label, also one that only other clients have sent: the mask of the
/// clients with values (bit i for client i), and the values by ascending rank, big-endian bytes. The mask may lack
/// clients, and a server may broadcast a label again with more of them until all are done: check it before you divide
/// the values. `mask` and `length` may be null. Returns CGPC_NONE and stores zeros if there was no broadcast so far,
/// and CGPC_ERR_TRUNCATED if the buffer is too small. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_values(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    mask: *mut IMPI_Uint4,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let sizes = (mask, length);
            values(c, client, label, sizes, |bytes| c.copy(bytes, (buffer, capacity), length, "buffer"))
        })
    }
}

/// As cgpc_impi_values, with integers of 4 bytes in the order of this machine. `capacity` and `count` are numbers of
/// integers. CGPC_ERR_DATA if the length is not a multiple of 4. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_values_int4(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    mask: *mut IMPI_Uint4,
    buffer: *mut IMPI_Int4,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            values(c, client, label, (mask, count), |bytes| {
                let (words, rest) = bytes.as_chunks();
                let found = words.iter().map(|word| IMPI_Int4::from_be_bytes(*word));
                numbers(c, found, rest, (buffer, capacity), count)
            })
        })
    }
}

/// As cgpc_impi_values_int4, with integers of 8 bytes. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_values_uint8(
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    mask: *mut IMPI_Uint4,
    buffer: *mut IMPI_Uint8,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            values(c, client, label, (mask, count), |bytes| {
                let (words, rest) = bytes.as_chunks();
                let found = words.iter().map(|word| IMPI_Uint8::from_be_bytes(*word));
                numbers(c, found, rest, (buffer, capacity), count)
            })
        })
    }
}

/// Sends DONE, and waits until all clients are done, at most `limit_us`. If it was sent before, this only waits. From
/// one thread at a time. Errors: those of cgpc_impi_join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_done(client: *mut cgpc_impi, limit_us: u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|_| object::<Session, _>(client)?.with(|session| impi::done(session, limit_us))) }
}

/// Sends FINI, because the processes of the client have ended, and waits until it has left, at most `limit_us`. Then
/// free the session. From one thread at a time. Errors: those of cgpc_impi_join.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_fini(client: *mut cgpc_impi, limit_us: u64) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { border(|_| object::<Session, _>(client)?.with(|session| impi::fini(session, limit_us))) }
}

/// Stores the descriptor of the session, for poll, epoll and the like, level-triggered only, and whether to wait until
/// it is writable, too (0 or 1). It belongs to the session: never read or close it. From one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_fd(client: *mut cgpc_impi, fd: *mut c_int, writes: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            object::<Session, _>(client)?.with(|session| {
                c.store(fd, session.as_raw_fd(), "fd")?;
                c.store_if_wanted(writes, (!session.is_flushed()).into());
                Ok(CGPC_OK)
            })
        })
    }
}

/// Frees a session, and closes its connection. Before FINI, the server reports a lost client. From one thread at a
/// time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_impi_free(client: *mut cgpc_impi) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            remove::<Session>(handle(client))?;
            Ok(CGPC_OK)
        })
    }
}

/// The methods that the options and the environment enable.
fn methods(c: &Pointers<'_>, options: &cgpc_impi_options) -> Result<Methods> {
    let none = match options.without_key {
        0 | 1 => options.without_key == 1,
        other => return Err(Error::argument(format!("`without_key` is {other}: it is 0 or 1"))),
    };
    let given = c.text_if_any(options.key, "key")?.map(str::to_owned);
    let (none, key) = match given {
        Some(key) => (none, Some(key)),
        None => impi::environment(none)?,
    };
    let parsed = key.map(|key| key.parse::<Key>()).transpose();
    // The error does not quote the key.
    let key = parsed.map_err(|error| Error::argument(format!("the key of IMPI: {error}")))?;
    Ok(Methods { none, key }.offered())
}

fn exchange(client: *mut cgpc_impi, label: IMPI_Int4, bytes: &[u8], limit_us: u64) -> Result<c_int> {
    let label = Label(label as u32);
    object::<Session, _>(client)?.with(|session| impi::exchange(session, label, bytes, limit_us))
}

fn values(
    c: &Pointers<'_>,
    client: *mut cgpc_impi,
    label: IMPI_Int4,
    (mask, count): (*mut IMPI_Uint4, *mut usize),
    copy: impl FnOnce(&[u8]) -> Result<c_int>,
) -> Result<c_int> {
    object::<Session, _>(client)?.with(|session| {
        session.progress();
        let Some((found, bytes)) = session.exchange().broadcast(Label(label as u32)) else {
            c.store_if_wanted(mask, 0);
            c.store_if_wanted(count, 0);
            return impi::fault(session).map_or(Ok(CGPC_NONE), Err);
        };
        c.store_if_wanted(mask, found);
        copy(bytes)
    })
}

fn numbers<T: Copy>(
    c: &Pointers<'_>,
    found: impl ExactSizeIterator<Item = T>,
    rest: &[u8],
    (buffer, capacity): (*mut T, usize),
    count: *mut usize,
) -> Result<c_int> {
    if !rest.is_empty() {
        let message = format!("the values are not a number of integers of {} bytes", size_of::<T>());
        return Err(Error::new(CGPC_ERR_DATA, message));
    }
    if buffer.is_null() && capacity > 0 {
        return Err(Error::argument(format!("`buffer` is null, and has room for {capacity}")));
    }
    let all = found.len();
    c.store_if_wanted(count, all);
    for (index, number) in found.take(capacity).enumerate() {
        c.store_if_wanted(buffer.wrapping_add(index), number);
    }
    match all <= capacity {
        true => Ok(CGPC_OK),
        false => {
            let message = format!("`buffer` has room for {capacity} of {all} integers");
            Err(Error::new(CGPC_ERR_TRUNCATED, message))
        }
    }
}
