//! The environment of a process, in which a launcher describes it.

use std::collections::BTreeMap;

/// The environment of a process, without entries that are not UTF-8: all launchers' variables are UTF-8.
pub type Variables = BTreeMap<String, String>;

/// The variable that names the address at which other hosts reach this process.
pub const HOST_ADDRESS: &str = "GPC_HOST_ADDRESS";
