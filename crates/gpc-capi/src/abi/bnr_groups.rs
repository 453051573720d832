//! `bnr.h`: groups, their attributes and fences, and the deaths of their processes.
//!
//! Source: BNR, "Classic Groups"; the interface of the facts.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use gpc_bnr::FaultKind;
use gpc_bnr::names::GroupId;

use super::bnr::{NAME_ROOM, attribute, linked, notify, short, store_text};
use super::bnr_types::*;
use super::pointers::Pointers;
use crate::bnr::{Session, fault, group, number};
use crate::error::{Error, Result};

/// Stores a group.
fn store(c: &Pointers<'_>, place: *mut BNR_Group, group: Option<GroupId>, name: &str) -> Result<()> {
    c.store(place, group.map_or(Ok(BNR_GROUP_NULL), |group| number(group.0))?, name)
}

/// Stores the group that this process was started in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_group(group: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| store(c, group, Some(session.process.group()), "group")) }
}

/// Stores the group of the process that has spawned the own group; BNR_GROUP_NULL if `gpc run` has started it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_parent(parent: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| store(c, parent, session.process.parent(), "parent")) }
}

/// BNR_Get_parent, as the source spells it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Get_Parent(parent: *mut BNR_Group) -> c_int {
    // SAFETY: as for this function.
    unsafe { BNR_Get_parent(parent) }
}

/// Opens a group, and stores it. Processes are spawned into it, and start when it is closed. Collective over the own
/// group. Release it with BNR_Free_group. Errors: those of BNR_Fence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Open_group(opened: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| open(c, session, session.process.group(), opened)) }
}

/// As BNR_Open_group, collective over the group `local`, which the caller belongs to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Open_group(local: BNR_Group, opened: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe { linked(|c, session| open(c, session, group(local)?, opened)) }
}

fn open(c: &Pointers<'_>, session: &Session, over: GroupId, opened: *mut BNR_Group) -> Result<()> {
    c.needs(opened, "opened")?;
    store(c, opened, Some(session.open(over)?), "opened")
}

/// Closes a group, which starts its processes, and waits until they run. Collective over those that have opened it.
///
/// Errors: BNR_ERR_NOT_STARTED if a process was not started: then the others were killed, unless the hint `start` is
/// `partial`. BNR_ERR_NOT_MEMBER if this process has not opened the group; those of BNR_Fence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Close_group(opened: BNR_Group) -> c_int {
    // SAFETY: it has no pointers.
    unsafe { linked(|_, session| session.close(group(opened)?)) }
}

/// Releases the number of a group. An open group is removed now, and so is a merged, split or duplicated one. A running
/// group is removed when its processes have ended. Errors: BNR_ERR_NO_GROUP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Free_group(freed: BNR_Group) -> c_int {
    // SAFETY: it has no pointers.
    unsafe { linked(|_, session| session.free(group(freed)?)) }
}

/// Makes a group of the processes of two groups, without common ones, and stores it. Collective over both: the caller
/// belongs to `local`. The processes of the group with the lower number have the lower ranks. Release it with
/// BNR_Free_group. Errors: those of BNR_Fence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Merge(local: BNR_Group, remote: BNR_Group, merged: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(merged, "merged")?;
            let made = session.process.merge(group(local)?, group(remote)?, None)?;
            store(c, merged, Some(made), "merged")
        })
    }
}

/// Makes groups of the processes of a group, one for each `color` from 0, and stores that of the caller's. With a
/// negative color, as BNR_UNDEFINED, the caller takes part and gets BNR_GROUP_NULL. Ranks are in the order of `key`; of
/// equal keys, in that of the old ranks. Collective over `local`, which the caller belongs to. Release it with
/// BNR_Free_group. Errors: those of BNR_Fence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Split(
    local: BNR_Group,
    color: c_int,
    key: c_int,
    made: *mut BNR_Group,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(made, "made")?;
            let part = session.process.split(group(local)?, u32::try_from(color).ok(), key, None)?;
            store(c, made, part, "made")
        })
    }
}

/// Makes a group of the same processes with the same ranks, and a database of its own, and stores it. Collective over
/// `local`, which the caller belongs to. Release it with BNR_Free_group. Errors: those of BNR_Fence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Dup(local: BNR_Group, made: *mut BNR_Group) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(made, "made")?;
            store(c, made, Some(session.process.dup(group(local)?, None)?), "made")
        })
    }
}

/// Kills all processes of a group, and what they have started: with SIGTERM, and 2 s later with SIGKILL. Waits until
/// nothing is left. Errors: BNR_ERR_NO_GROUP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Kill(pg: BNR_Group) -> c_int {
    // SAFETY: it has no pointers.
    unsafe { linked(|_, session| Ok(session.process.kill(group(pg)?)?)) }
}

/// Waits for all processes of a group, which the caller belongs to. Brings what they have put into its database to all
/// of them. Collective over the group.
///
/// Errors, the same at all: BNR_ERR_MEMBER_DIED, BNR_ERR_NODE_LOST, BNR_ERR_TIMED_OUT after 10 minutes,
/// BNR_ERR_MISMATCH. Also BNR_ERR_NO_GROUP and BNR_ERR_GROUP_OPEN; BNR_ERR_NOT_MEMBER, which a group that was freed may
/// be, too; and the error of a put that was refused: then the fence has taken place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Fence(over: BNR_Group) -> c_int {
    // SAFETY: it has no pointers.
    unsafe { linked(|_, session| session.fence(group(over)?)) }
}

/// Stores the rank of this process in a group that it belongs to. Errors: BNR_ERR_NOT_MEMBER, BNR_ERR_NO_GROUP,
/// BNR_ERR_GROUP_OPEN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Get_rank(of: BNR_Group, rank: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(rank, "rank")?;
            c.store(rank, number(session.rank_of(group(of)?)?)?, "rank")
        })
    }
}

/// Stores the number of processes of a group. Waits until the group is closed. Errors: BNR_ERR_NO_GROUP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Get_size(of: BNR_Group, size: *mut c_int) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(size, "size")?;
            c.store(size, number(session.process.size_of(group(of)?)?)?, "size")
        })
    }
}

/// Stores the processes of a group by rank: the group that each was started in, and its rank there, as
/// BNR_Get_proc_id has them in that process. `groups` and `ranks` have room for `capacity` of them, and may be null if
/// it is 0. `count` gets their number. Errors: BNR_ERR_TOO_LARGE if there are more than `capacity`: then the first ones
/// are stored. BNR_ERR_NO_GROUP, BNR_ERR_GROUP_OPEN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Get_members(
    of: BNR_Group,
    groups: *mut BNR_Group,
    ranks: *mut c_int,
    capacity: c_int,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(count, "count")?;
            let room = usize::try_from(capacity)
                .map_err(|_| Error::argument(format!("`capacity` is {capacity}: it is a number from 0")))?;
            if room > 0 {
                c.needs(groups, "groups")?;
                c.needs(ranks, "ranks")?;
            }
            let members = session.process.members_of(group(of)?)?;
            c.store(count, number(members.len())?, "count")?;
            for (index, member) in members.iter().take(room).enumerate() {
                store(c, groups.wrapping_add(index), Some(member.group), "groups")?;
                c.store(ranks.wrapping_add(index), number(member.rank)?, "ranks")?;
            }
            if members.len() > room {
                let message =
                    format!("`groups` and `ranks` have room for {room} of {} processes", members.len());
                return Err(fault(FaultKind::TooLarge, message));
            }
            Ok(())
        })
    }
}

/// Puts a value of an attribute into the database of a group, and does not wait: BNR_Fence reports a put that was
/// refused. `rank_advice` is the rank that will get the value, or -1. The texts are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Put(
    into: BNR_Group,
    attr: *mut c_char,
    val: *mut c_char,
    rank_advice: c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let (attr, val) = (attribute(c, attr)?, c.zero_ended(val, "val")?);
            short(val, BNR_MAXVALLEN, "val")?;
            let database = session.database_of(group(into)?)?;
            Ok(session.process.put(&database, attr, val, u32::try_from(rank_advice).ok())?)
        })
    }
}

/// Stores the value of an attribute of a group. `val` has room for BNR_MAXVALLEN bytes. Errors: BNR_ERR_NOT_FOUND,
/// BNR_ERR_TOO_LARGE, BNR_ERR_NO_GROUP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Get(of: BNR_Group, attr: *mut c_char, val: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(val, "val")?;
            let attr = attribute(c, attr)?;
            let found = session.process.get(&session.database_of(group(of)?)?, attr)?;
            store_text(c, &found, (val, BNR_MAXVALLEN), "val")
        })
    }
}

/// Stores the name of the database of a group, for the functions of databases. `dbname` has room for
/// BNR_DB_Get_name_length_max() bytes. Errors: BNR_ERR_NO_GROUP, BNR_ERR_GROUP_OPEN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_DB_Get_name(of: BNR_Group, dbname: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(dbname, "dbname")?;
            let name = session.database_of(group(of)?)?;
            store_text(c, name.as_bytes(), (dbname, NAME_ROOM), "dbname")
        })
    }
}

/// Calls `notify_fn` with each death in a group, once, also with those before. It runs as that of BNR_Spawn does, with
/// the group and the rank that a process was started with. Errors: BNR_ERR_NO_GROUP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Notify(of: BNR_Group, notify_fn: BNR_Notify_fn) -> c_int {
    // SAFETY: the documentation demands a function.
    unsafe {
        linked(|_, session| {
            if notify_fn.is_none() {
                return Err(Error::argument("`notify_fn` is null"));
            }
            session.subscribe(group(of)?, vec![(0..u32::MAX, notify_fn)])
        })
    }
}

/// Waits until a death is reported that a function of BNR_Spawn or BNR_Group_Notify receives, at most `limit_ms`
/// milliseconds, and calls the functions, with all deaths that are reported by then. If another thread calls them in a
/// function of its own, this returns after that. An earlier call may have reported some: count in the function. Errors:
/// BNR_ERR_TIMED_OUT; BNR_ERR_BAD_REQUEST from within such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Wait(limit_ms: c_int) -> c_int {
    // SAFETY: it has no pointers.
    unsafe {
        linked(|_, session| {
            let limit = u64::try_from(limit_ms)
                .map_err(|_| Error::argument(format!("`limit_ms` is {limit_ms}: it is a number from 0")))?;
            session.wait(Duration::from_millis(limit), notify)
        })
    }
}

/// Stores whether a process has ended, 0 or 1, and its exit status, as BNR_Notify_fn has it. `exit_code` may be null.
/// Errors: BNR_ERR_NO_GROUP, BNR_ERR_NO_MEMBER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Group_Get_status(
    of: BNR_Group,
    rank: c_int,
    has_ended: *mut c_int,
    exit_code: *mut c_int,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(has_ended, "has_ended")?;
            let status = session.process.status(group(of)?)?;
            let member = status.members.iter().find(|member| i64::from(member.rank) == i64::from(rank));
            let member = member.ok_or_else(|| {
                fault(FaultKind::NoMember, format!("{} has no process of rank {rank}", status.group))
            })?;
            c.store(has_ended, member.death.is_some().into(), "has_ended")?;
            c.store_if_wanted(exit_code, member.death.map_or(0, |death| death.exit.status().into()));
            Ok(())
        })
    }
}
