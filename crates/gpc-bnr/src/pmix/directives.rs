//! Values and directives of PMIx: keys that begin with `pmix.`.

use std::time::Duration;

use gpc_pmix::server::{Info, LOCAL_ONLY, LOCAL_STATUS, Upcall, Value};

/// Prefix of the keys that are directives, not data.
pub(super) const PREFIX: &str = "pmix.";

/// The process that an event concerns.
pub(super) const AFFECTED: &str = "pmix.evproc";
pub(super) const TIMEOUT: &str = "pmix.timeout";
pub(super) const WAIT: &str = "pmix.wait";
pub(super) const PERSISTENCE: &str = "pmix.persist";
pub(super) const WDIR: &str = "pmix.wdir";
pub(super) const HOST: &str = "pmix.host";
pub(super) const KILL: &str = "pmix.jctrl.kill";
pub(super) const TERMINATE: &str = "pmix.jctrl.term";

/// Requests an identifier for a group.
pub(super) const ASSIGN_ID: &str = "pmix.grp.actxid";
/// The identifier of a group.
pub(super) const GROUP_ID: &str = "pmix.grp.ctxid";
/// The members of a group.
pub(super) const GROUP_MEMBERS: &str = "pmix.grp.mbrs";
/// What the members of a group give to each other.
pub(super) const GROUP_DATA: &str = "pmix.grp.endpt";

/// Members that are added to a group, and do not call.
const ADD_MEMBERS: &str = "pmix.grp.add";

const RANGE: &str = "pmix.range";
const COLLECT: &str = "pmix.collect";
/// Directives of groups. libpmix itself supports the last three; a construct is always a fence.
const OF_GROUP: [&str; 8] = [
    TIMEOUT,
    LOCAL_STATUS,
    ASSIGN_ID,
    GROUP_DATA,
    LOCAL_ONLY,
    "pmix.grp.info",
    "pmix.embed.barrier",
    "pmix.sorted.parr",
];

/// Directives of a fetch: libpmix itself supports all but the last, the key that the process needs.
const OF_FETCH: [&str; 5] = [TIMEOUT, "pmix.immediate", "pmix.optional", "pmix.get.refresh", "pmix.req.key"];

/// Ranges that are those of the domain: a session, and all.
const WIDE: [u64; 2] = [4, 5];

/// Persistences that are supported: until it is withdrawn, until it is read, as long as the session.
const KEPT: [u64; 3] = [0, FIRST_READ, 4];

/// A persistence: the value is removed when it is read.
pub(super) const FIRST_READ: u64 = 1;

/// Whether all directives that are required are supported. Others are hints.
pub(super) fn are_supported(upcall: &Upcall) -> bool {
    let (info, known): (&[Info], &[&str]) = match upcall {
        Upcall::Fence { info, .. } => (info, &[COLLECT, TIMEOUT, LOCAL_STATUS]),
        Upcall::Connect { info, .. } | Upcall::Disconnect { info, .. } => (info, &[TIMEOUT, LOCAL_STATUS]),
        // Members that do not call would be missing.
        Upcall::Group { info, .. } if info.iter().any(|info| info.key == ADD_MEMBERS) => return false,
        Upcall::Group { info, .. } => (info, &OF_GROUP),
        Upcall::Fetch { info, .. } => (info, &OF_FETCH),
        Upcall::Publish { info, .. } => (info, &[PERSISTENCE, RANGE]),
        Upcall::Lookup { info, .. } => (info, &[WAIT, TIMEOUT, RANGE]),
        Upcall::Unpublish { info, .. } => (info, &[RANGE]),
        Upcall::Control { info, .. } => (info, &[KILL, TERMINATE]),
        Upcall::Spawn { info, applications, .. } => {
            let of_all = applications.iter().flat_map(|application| &application.info).chain(info);
            return of_all.filter(|info| info.required).all(|info| [WDIR, HOST].contains(&&*info.key));
        }
        _ => return true,
    };
    // Other keys of a publish are what it publishes.
    let is_data = |info: &Info| matches!(upcall, Upcall::Publish { .. }) && !info.key.starts_with(PREFIX);
    info.iter().filter(|info| info.required && !is_data(info)).all(|info| is_supported(info, known))
}

fn is_supported(info: &Info, known: &[&str]) -> bool {
    let is_one_of = |values: &[u64]| number(&info.value).is_some_and(|value| values.contains(&value));
    known.contains(&&*info.key)
        && match &*info.key {
            RANGE => is_one_of(&WIDE),
            PERSISTENCE => is_one_of(&KEPT),
            _ => true,
        }
}

/// The value of a directive. If it occurs several times, the last one counts.
pub(super) fn find<'a>(info: &'a [Info], key: &str) -> Option<&'a Value> {
    info.iter().rfind(|info| info.key == key).map(|info| &info.value)
}

/// A number of any width up to 8 bytes; negative ones count as 0.
pub(super) fn number(value: &Value) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..value.bytes.len())?.copy_from_slice(&value.bytes);
    let is_negative = value.bytes.last().is_some_and(|byte| byte & 0x80 != 0) && value.bytes.len() > 1;
    Some(if is_negative { 0 } else { u64::from_le_bytes(bytes) })
}

/// Whether a flag is set. A flag without a value is.
pub(super) fn flag(info: &[Info], key: &str) -> bool {
    find(info, key).is_some_and(|value| value.bytes.first().is_none_or(|byte| *byte != 0))
}

/// The time limit; `None` for none, which 0 seconds mean as well.
pub(super) fn timeout(info: &[Info]) -> Option<Duration> {
    let seconds = find(info, TIMEOUT).and_then(number).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs)
}
