//! `bnr.h`: begin and end, the own process, and databases.
//!
//! Source: BNR, "Thoughts from David and Brian", whose prototypes these functions have.

use std::ffi::{c_char, c_int};

use gpc_bnr::FaultKind;
use gpc_bnr::request::Pair;

use super::bnr_types::*;
use super::callees::no_unwind;
use super::pointers::{Pointers, border};
use crate::bnr::notices::Notice;
use crate::bnr::{Session, as_fault, fault, finalize, init, number, session};
use crate::error::Result;
use crate::status::CGPC_OK;

/// Runs the body of a function of BNR. Its error becomes the number of a fault.
///
/// # Safety
/// As for [`border`].
pub(super) unsafe fn answered(body: impl FnOnce(&Pointers<'_>) -> Result<()>) -> c_int {
    let mut kind = 0;
    let run = |c: &Pointers<'_>| {
        body(c).map(|()| CGPC_OK).map_err(|error| {
            let (error, number) = as_fault(error);
            kind = number;
            error
        })
    };
    // SAFETY: as for this function.
    match unsafe { border(run) } {
        CGPC_OK => BNR_SUCCESS,
        _ if kind > 0 => kind.into(),
        // A panic.
        _ => BNR_ERR_SYSTEM,
    }
}

/// The same for a process that is linked to its node. Afterwards the functions of the application receive the deaths
/// that the node has reported by then.
///
/// # Safety
/// As for [`border`].
pub(super) unsafe fn linked(body: impl FnOnce(&Pointers<'_>, &Session) -> Result<()>) -> c_int {
    // SAFETY: as for this function.
    unsafe {
        answered(|c| {
            let session = session()?;
            let result = body(c, &session);
            session.deliver(notify);
            result
        })
    }
}

/// Calls the function of a notice.
pub(super) fn notify(notice: Notice) {
    let member = notice.death.member;
    let (Some(function), Ok(group), Ok(rank)) =
        (notice.function, number(member.group.0), number(member.rank))
    else {
        return;
    };
    let code = notice.death.exit.status();
    // SAFETY: a function of the application, which takes numbers.
    no_unwind(|| unsafe { function(group, rank, code.into()) });
}

/// Stores a text of this many bytes at most, with its final zero.
///
/// # Errors
/// It is longer, or contains a zero: then nothing is stored.
pub(super) fn store_text(
    c: &Pointers<'_>,
    text: &[u8],
    (place, room): (*mut c_char, usize),
    name: &str,
) -> Result<()> {
    c.needs(place, name)?;
    if text.len() >= room {
        let message =
            format!("`{name}` has room for {room} bytes, and the text has {} and a zero", text.len());
        return Err(fault(FaultKind::TooLarge, message));
    }
    if text.contains(&0) {
        let message = format!("the bytes for `{name}` contain a zero: they are not a text of C");
        return Err(fault(FaultKind::Unsupported, message));
    }
    c.copy(&[text, &[0]].concat(), (place.cast(), room), std::ptr::null_mut(), name)?;
    Ok(())
}

/// The name of an attribute of a group, or a global name.
pub(super) fn attribute<'c>(c: &Pointers<'c>, attr: *const c_char) -> Result<&'c [u8]> {
    let attr = c.zero_ended(attr, "attr")?;
    short(attr, BNR_MAXATTRLEN, "attr")?;
    Ok(attr)
}

/// Refuses a text that does not fit this room with its final zero.
pub(super) fn short(text: &[u8], room: usize, name: &str) -> Result<()> {
    if text.len() < room {
        return Ok(());
    }
    let message = format!("`{name}` has {} bytes and a zero, and there is room for {room}", text.len());
    Err(fault(FaultKind::TooLarge, message))
}

/// Links this process to the node that has started it, under `gpc run`. A process calls it once. It starts a thread,
/// which reads the messages of the node.
///
/// Errors: BNR_ERR_UNSUPPORTED if `gpc run` has not started this process, or another launcher has; BNR_ERR_BAD_REQUEST
/// if it is linked; BNR_ERR_LINK after BNR_Finalize, in a forked child of a linked process, if the node is gone, and if
/// another program of the same process has taken part before.
#[unsafe(no_mangle)]
pub extern "C" fn BNR_Init() -> c_int {
    // SAFETY: it has no pointers.
    unsafe { answered(|_| init()) }
}

/// Stores the rank of this process in the group that it was started in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_rank(rank: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| c.store(rank, number(session.process.rank())?, "rank")) }
}

/// Stores the number of processes of the group that this process was started in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_size(size: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| c.store(size, number(session.process.size())?, "size")) }
}

/// Stores the group that this process was started in, and its rank there, which name it in the domain. Either may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_proc_id(group: *mut BNR_Group, rank: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            if group.is_null() {
                c.needs(rank, "rank")?;
            }
            let member = session.process.member();
            c.store_if_wanted(group, number(member.group.0)?);
            c.store_if_wanted(rank, number(member.rank)?);
            Ok(())
        })
    }
}

/// Waits for all processes of the own group. Brings what they have put and committed to all of them. Collective over
/// the own group. Errors: those of BNR_Fence.
#[unsafe(no_mangle)]
pub extern "C" fn BNR_Barrier() -> c_int {
    // SAFETY: it has no pointers.
    unsafe { linked(|_, session| Ok(session.process.barrier()?)) }
}

/// Ends the part of this process, whose end is no failure from now on. All later calls are BNR_ERR_LINK. It is the last
/// call that runs functions of BNR_Spawn. A BNR_Wait of another thread ends with BNR_ERR_LINK.
#[unsafe(no_mangle)]
pub extern "C" fn BNR_Finalize() -> c_int {
    // SAFETY: it has no pointers.
    unsafe {
        answered(|_| {
            session()?.deliver(notify);
            finalize()
        })
    }
}

/// Room for the name of a database, with its final zero. May be called from anywhere.
#[unsafe(no_mangle)]
pub extern "C" fn BNR_DB_Get_name_length_max() -> c_int {
    NAME_ROOM as c_int
}

/// What [`BNR_DB_Get_name_length_max`] returns.
pub(super) const NAME_ROOM: usize = 257;

/// Stores the name of the database of this process: that of its own group, or the one that its spawn has chosen by the
/// hint `dbname`. `dbname` has room for BNR_DB_Get_name_length_max() bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_DB_Get_my_name(dbname: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| store_text(c, session.database().as_bytes(), (dbname, NAME_ROOM), "dbname"))
    }
}

/// Creates a database, and stores its name, which the domain chooses. It exists until BNR_DB_Destroy, for all processes
/// of the domain that know the name. `dbname` has room for BNR_DB_Get_name_length_max() bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_DB_Create(dbname: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(dbname, "dbname")?;
            let name = session.process.create(None)?;
            store_text(c, name.as_bytes(), (dbname, NAME_ROOM), "dbname")
        })
    }
}

/// Removes a database everywhere. Errors: BNR_ERR_NO_DATABASE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_DB_Destroy(dbname: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| session.destroy(c.text(dbname, "dbname")?)) }
}

/// Puts a value under a key, and does not wait: BNR_Commit reports a put that was refused. The texts are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Put(dbname: *mut c_char, key: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let (key, value) = (c.zero_ended(key, "key")?, c.zero_ended(value, "value")?);
            Ok(session.process.put(c.text(dbname, "dbname")?, key, value, None)?)
        })
    }
}

/// Waits until the puts of this process into a database are stored at its node. Not collective. BNR_Barrier and
/// BNR_Fence bring them to other processes.
///
/// Errors: that of the first put that was refused since the last commit, such as BNR_ERR_NO_DATABASE and
/// BNR_ERR_TOO_LARGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Commit(dbname: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| Ok(session.process.commit(c.text(dbname, "dbname")?)?)) }
}

/// Stores the value of a key. `value` has room for BNR_MAX_VALUE_LEN bytes.
///
/// Errors: BNR_ERR_NOT_FOUND, BNR_ERR_NO_DATABASE, BNR_ERR_UNSUPPORTED if the value contains a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get(dbname: *mut c_char, key: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(value, "value")?;
            let (dbname, key) = (c.text(dbname, "dbname")?, c.zero_ended(key, "key")?);
            let found = session.process.get(dbname, key)?;
            store_text(c, &found, (value, BNR_MAX_VALUE_LEN), "value")
        })
    }
}

/// Stores the first pair of a database, by the order of keys, and begins an iteration over what it contains now on all
/// nodes. `key` has room for BNR_MAX_KEY_LEN bytes, and `val` for BNR_MAX_VALUE_LEN. A process iterates over a database
/// once at a time.
///
/// Errors: BNR_ERR_NOT_FOUND if there is no pair: then both texts are empty. BNR_ERR_UNSUPPORTED if the pair contains a
/// zero: the iteration goes on behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_DB_iter_first(dbname: *mut c_char, key: *mut c_char, val: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { pair(dbname, (key, val), Session::first_pair) }
}

/// Stores the next pair of an iteration. Errors: those of BNR_DB_iter_first, and BNR_ERR_BAD_REQUEST if no iteration of
/// this database is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_DB_iter_next(dbname: *mut c_char, key: *mut c_char, val: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { pair(dbname, (key, val), Session::next_pair) }
}

/// # Safety
/// As for [`border`].
unsafe fn pair(
    dbname: *const c_char,
    (key, val): (*mut c_char, *mut c_char),
    take: impl FnOnce(&Session, &str) -> Result<Option<Pair>>,
) -> c_int {
    // SAFETY: as for this function.
    unsafe {
        linked(|c, session| {
            let dbname = c.text(dbname, "dbname")?;
            c.needs(key, "key")?;
            c.needs(val, "val")?;
            let Some(pair) = take(session, dbname)? else {
                c.store(key, 0, "key")?;
                c.store(val, 0, "val")?;
                return Err(fault(FaultKind::NotFound, format!("{dbname} has no more pairs")));
            };
            store_text(c, &pair.key, (key, BNR_MAX_KEY_LEN), "key")?;
            store_text(c, &pair.value, (val, BNR_MAX_VALUE_LEN), "val")
        })
    }
}

/// Publishes a global name in the domain, at once and without a fence. Errors: BNR_ERR_NAME_EXISTS, BNR_ERR_TOO_LARGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Deposit(attr: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let (attr, value) = (attribute(c, attr)?, c.zero_ended(value, "value")?);
            // Another value could not be looked up.
            short(value, BNR_MAXVALLEN, "value")?;
            Ok(session.process.deposit(attr, value)?)
        })
    }
}

/// Withdraws a global name. If `value` is not null, only if it is the one that was deposited. Errors:
/// BNR_ERR_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Withdraw(attr: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let attr = c.zero_ended(attr, "attr")?;
            if let Some(value) = c.zero_ended_if_any(value)
                && session.process.lookup(attr)? != value.to_bytes()
            {
                let attr = String::from_utf8_lossy(attr);
                let message = format!("another value is deposited under {attr}");
                return Err(fault(FaultKind::NotFound, message));
            }
            Ok(session.process.withdraw(attr)?)
        })
    }
}

/// Stores the value of a global name. `value` has room for BNR_MAXVALLEN bytes. Errors: BNR_ERR_NOT_FOUND,
/// BNR_ERR_TOO_LARGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Lookup(attr: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(value, "value")?;
            let found = session.process.lookup(c.zero_ended(attr, "attr")?)?;
            store_text(c, &found, (value, BNR_MAXVALLEN), "value")
        })
    }
}
