//! Values and directives of PMIx: keys that begin with `pmix.`.

use std::time::Duration;

use gpc_pmix::server::{Info, Value};

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

/// A persistence: the value is removed when it is read.
pub(super) const FIRST_READ: u64 = 1;

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
