//! `bnr.h`: spawns, and their hints.
//!
//! Source: BNR, `BNR_Spawn_multiple` and `BNR_I_Spawn`, with the types of MPI; `BNR_Spawn` of the facts.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use gpc_bnr::request::Pair;
use gpc_bnr::{FaultKind, OnDeath, Spec};

use super::bnr::{answered, linked};
use super::bnr_types::*;
use super::pointers::{Pointers, handle, object, opaque};
use crate::bnr::specs::{Hint, spec, words};
use crate::bnr::{Info, fault, group, number, whole};
use crate::error::{Error, Result};
use crate::handles::{insert, remove};

/// Most programs of a spawn.
const PROGRAMS_MAX: c_int = 1 << 20;

/// Adds `count` processes to an open group, with the next ranks. They start when it is closed. Not collective, and
/// repeatable. All texts are copied.
///
/// `args` and `env` are words, which blanks separate; quotes and `\` keep blanks in a word. `args` has the arguments
/// without the program's name, and `env` words NAME=VALUE. Both may be null, and `info` BNR_INFO_NULL.
///
/// `notify_fn`, which may be null, receives the death of each of these processes, once, well or not. It runs in a call
/// of a BNR function of this process, at its end, from BNR_Close_group on, and on no other thread. Only BNR_Wait waits
/// for a death. It may call BNR functions. It must not throw and not longjmp. If other processes spawn into the group
/// as well, it receives the deaths of all its processes.
///
/// Errors: BNR_ERR_GROUP_CLOSED, BNR_ERR_NO_GROUP, BNR_ERR_TOO_LARGE, BNR_ERR_BAD_REQUEST; BNR_ERR_NOT_MEMBER if
/// `notify_fn` is not null and this process has not opened the group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Spawn(
    remote: BNR_Group,
    count: c_int,
    command: *mut c_char,
    args: *mut c_char,
    env: *mut c_char,
    info: BNR_Info,
    notify_fn: BNR_Notify_fn,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let group = group(remote)?;
            let split =
                |text| c.zero_ended_if_any(text).map_or(Ok(Vec::new()), |text| words(text.to_bytes()));
            let program = c.zero_ended(command, "command")?;
            let (spec, on_death) = spec(count, program, split(args)?, split(env)?, hints(info)?)?;
            let count = spec.count;
            session.may_spawn(group, notify_fn)?;
            session.process.spawn(group, vec![spec], Vec::new(), on_death)?;
            session.spawned(group, count, notify_fn);
            Ok(())
        })
    }
}

/// Starts `count` programs as one new group: maxprocs[i] processes of cmds[i], with the arguments argvs[i] and the
/// hints infos[i]. The types are those of MPI_Comm_spawn_multiple: argvs[i] ends with null, and has no program name;
/// `argvs`, argvs[i] and `infos` may be null. The hint `soft` makes maxprocs[i] an upper bound. Not collective. All
/// texts are copied.
///
/// `errors`, which may be null, gets a number for each requested process: 0, an errno if it was not started, or
/// BNR_LEFT_OUT. `pg` gets the group: release it with BNR_Free_group. `same_domain`, which may be null, gets 1: groups
/// start in the domain of the caller.
///
/// Errors: BNR_ERR_NOT_STARTED as for BNR_Close_group: then `errors` and `pg` are stored. BNR_ERR_BAD_REQUEST,
/// BNR_ERR_TOO_LARGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Spawn_multiple(
    count: c_int,
    cmds: *mut *mut c_char,
    argvs: *mut *mut *mut c_char,
    maxprocs: *mut c_int,
    infos: *mut BNR_Info,
    errors: *mut c_int,
    pg: *mut BNR_Group,
    same_domain: *mut bool_t,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            c.needs(pg, "pg")?;
            let (specs, on_death) = programs(c, count, (cmds, argvs, maxprocs, infos))?;
            let spawned = session.process.spawn_multiple(specs, Vec::<Pair>::new(), on_death)?;
            c.store(pg, number(spawned.group.0)?, "pg")?;
            c.store_if_wanted(same_domain, spawned.same_domain.into());
            if !errors.is_null() {
                for (index, error) in spawned.errors.iter().enumerate() {
                    c.store_if_wanted(errors.wrapping_add(index), *error);
                }
            }
            whole(&spawned)
        })
    }
}

/// Starts up to `maxproc` processes of a program as a new group, as BNR_Spawn_multiple of one program. The hint
/// `dbname` names the database that BNR_DB_Get_my_name returns in them. Errors: those of BNR_Spawn_multiple.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_I_Spawn(
    cmd: *mut c_char,
    argv: *mut *mut c_char,
    maxproc: c_int,
    info: BNR_Info,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        linked(|c, session| {
            let args = owned(c.list(argv, "argv")?);
            let (spec, on_death) = spec(maxproc, c.zero_ended(cmd, "cmd")?, args, Vec::new(), hints(info)?)?;
            let on_death = on_death.unwrap_or_default();
            whole(&session.process.spawn_multiple(vec![spec], Vec::<Pair>::new(), on_death)?)
        })
    }
}

/// The lists of a spawn: programs, their arguments, numbers and hints.
type Lists = (*mut *mut c_char, *mut *mut *mut c_char, *mut c_int, *mut BNR_Info);

fn programs(
    c: &Pointers<'_>,
    count: c_int,
    (cmds, argvs, maxprocs, infos): Lists,
) -> Result<(Vec<Spec>, OnDeath)> {
    if !(1..=PROGRAMS_MAX).contains(&count) {
        return Err(Error::argument(format!("`count` is {count}: pass the number of programs, at least 1")));
    }
    let (mut specs, mut on_death) = (Vec::new(), OnDeath::default());
    for index in 0..count as usize {
        let program = c.zero_ended(c.load(cmds.wrapping_add(index), "cmds")?, "cmds")?;
        let argv = match argvs.is_null() {
            true => Vec::new(),
            false => c.list(c.load(argvs.wrapping_add(index), "argvs")?, "argvs")?,
        };
        let info = match infos.is_null() {
            true => std::ptr::null_mut(),
            false => c.load(infos.wrapping_add(index), "infos")?,
        };
        let processes = c.load(maxprocs.wrapping_add(index), "maxprocs")?;
        let (spec, effect) = spec(processes, program, owned(argv), Vec::new(), hints(info)?)?;
        specs.push(spec);
        on_death = effect.unwrap_or(on_death);
    }
    Ok((specs, on_death))
}

fn owned(texts: Vec<&[u8]>) -> Vec<Vec<u8>> {
    texts.into_iter().map(<[u8]>::to_vec).collect()
}

fn hints(info: BNR_Info) -> Result<Vec<Hint>> {
    if info.is_null() { Ok(Vec::new()) } else { Ok(object::<Info, _>(info)?.hints()) }
}

/// Makes an info without hints. Free it with BNR_Info_free. May be called from anywhere, also before BNR_Init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Info_create(info: *mut BNR_Info) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        answered(|c| {
            c.needs(info, "info")?;
            c.store(info, opaque(insert(Arc::new(Info::default()))?), "info")
        })
    }
}

/// Adds a hint; the texts are copied. Of several with the same key the last one counts, except for `env` and
/// `private-file`. Keys: `dbname`, a database for the processes; `env`, NAME=VALUE; `on-death`, `kill` (the default) or
/// `notify`: what the death of a process does to the others of its group; and `host`, `soft`, `wdir`, `path`, `start`
/// and the others of docs/bnr.md. Unknown keys are ignored, as in MPI. May be called from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Info_set(info: BNR_Info, key: *mut c_char, value: *mut c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        answered(|c| {
            let (key, value) = (c.text(key, "key")?, c.zero_ended(value, "value")?);
            if key.is_empty() {
                return Err(fault(FaultKind::BadRequest, "a hint without a key"));
            }
            object::<Info, _>(info)?.add(key.to_owned(), value.to_vec())
        })
    }
}

/// Frees an info, and stores BNR_INFO_NULL in its place. Spawns that have used it keep what they need. May be called
/// from anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BNR_Info_free(info: *mut BNR_Info) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        answered(|c| {
            remove::<Info>(handle(c.load(info, "info")?))?;
            c.store(info, std::ptr::null_mut(), "info")
        })
    }
}
