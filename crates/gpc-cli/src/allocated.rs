//! The allocation of a batch system that includes this process, from its environment and the file that it names.

use std::path::Path;

use crate::files::read_text;
use crate::refused::Refused;
use chained_gpc::bootstrap::{Allocation, BatchSystem, SlotList, Variables};

/// An allocation with its hosts.
pub(crate) struct Allocated {
    /// The batch system, and whether this process is one of its tasks.
    pub(crate) allocation: Allocation,
    /// The hosts and their slots.
    pub(crate) hosts: SlotList,
}

/// Returns the allocation; `None` outside of one.
///
/// # Errors
/// If its variables or its file are invalid.
pub(crate) fn allocated() -> Result<Option<Allocated>, Refused> {
    let Some(allocation) = Allocation::find(&environment()) else { return Ok(None) };
    let text = match allocation.file() {
        None => String::new(),
        Some(path) => read_text(Path::new(path), "hosts of the allocation").map_err(Refused::File)?,
    };
    let hosts = allocation.hosts(&text).map_err(|error| Refused::File(error.to_string()))?;
    Ok(Some(Allocated { allocation, hosts }))
}

/// Returns the hosts of the allocation.
///
/// # Errors
/// If there is none, or it is invalid.
pub(crate) fn hosts_of_allocation() -> Result<SlotList, Refused> {
    let none = || {
        let variables = BatchSystem::VARIABLES;
        Refused::File(format!(
            "--hosts alloc: this process is in no allocation, since none of {variables} is set: run it within a job, or name the hosts"
        ))
    };
    allocated()?.map(|allocated| allocated.hosts).ok_or_else(none)
}

/// Whether these hosts are in an allocation of Slurm that includes this process. An allocation that cannot be read does
/// not count: the caller needs only the hosts that it has.
pub(crate) fn are_of_slurm(hosts: &SlotList) -> bool {
    let Ok(Some(Allocated { allocation, hosts: all })) = allocated() else { return false };
    let all: std::collections::BTreeSet<&str> = all.iter().map(|host| host.name.as_str()).collect();
    allocation.system() == BatchSystem::Slurm && hosts.iter().all(|host| all.contains(host.name.as_str()))
}

/// The variables of this process that are text.
fn environment() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
