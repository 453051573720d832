//! The allocation of a batch system that includes this process, from its environment and the file that it names.

use std::path::Path;

use crate::files::read_text;
use crate::refused::Refused;
use crate::say;
use chained_gpc::bootstrap::{Allocation, BatchSystem, SlotList, Variables};

/// Variables of the processes of a launcher: the rank of each.
const RANKS: [&str; 2] = ["PMI_RANK", "PMIX_RANK"];

/// An allocation with its hosts.
struct Allocated {
    allocation: Allocation,
    hosts: SlotList,
}

/// Returns the allocation; `None` outside of one.
///
/// # Errors
/// If its variables or its file are invalid.
fn allocated() -> Result<Option<Allocated>, Refused> {
    let Some(allocation) = Allocation::find(&environment()) else { return Ok(None) };
    let hosts = hosts_of(&allocation)?;
    Ok(Some(Allocated { allocation, hosts }))
}

/// Returns the hosts of an allocation. Reads its file.
fn hosts_of(allocation: &Allocation) -> Result<SlotList, Refused> {
    let text = match allocation.file() {
        None => String::new(),
        Some(path) => read_text(Path::new(path), "hosts of the allocation").map_err(Refused::File)?,
    };
    allocation.hosts(&text).map_err(|error| Refused::File(error.to_string()))
}

/// Whether a command that names no host takes those of an allocation. It stays on this machine outside of one, and if
/// this machine is the only host. A process of a launcher stays as well: otherwise each of them would start everything.
///
/// # Errors
/// If the allocation is invalid.
pub(crate) fn takes_allocation() -> Result<bool, Refused> {
    let variables = environment();
    let Some(allocation) = Allocation::find(&variables) else { return Ok(false) };
    if is_of_launcher(&allocation, &variables) {
        let system = allocation.system();
        say(&format!(
            "a launcher has started this process within a job of {system}: it stays on this machine; --hosts alloc takes all hosts of the job"
        ));
        return Ok(false);
    }
    is_elsewhere(&allocation, &variables)
}

/// As [`takes_allocation`], without a message. An invalid allocation does not count: the command reports it.
pub(crate) fn would_take_allocation() -> bool {
    let variables = environment();
    Allocation::find(&variables).is_some_and(|allocation| {
        !is_of_launcher(&allocation, &variables) && is_elsewhere(&allocation, &variables).unwrap_or(false)
    })
}

/// Whether a launcher has started this process.
fn is_of_launcher(allocation: &Allocation, variables: &Variables) -> bool {
    allocation.is_task() || RANKS.iter().any(|name| variables.contains_key(*name))
}

/// Whether an allocation has another host than this one.
fn is_elsewhere(allocation: &Allocation, variables: &Variables) -> Result<bool, Refused> {
    let hosts = hosts_of(allocation)
        .map_err(|error| Refused::File(format!("{error}; --here stays on this machine")))?;
    let own = variables.get("SLURMD_NODENAME").cloned();
    let own = own.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    Ok(hosts.len() > 1 || hosts.iter().any(|host| short(&host.name) != short(&own)))
}

/// Returns the hosts of the allocation.
///
/// # Errors
/// If this process is in no allocation, or the allocation is invalid.
pub(crate) fn hosts_of_allocation() -> Result<SlotList, Refused> {
    let none = || {
        let variables = BatchSystem::VARIABLES;
        Refused::File(format!(
            "--hosts alloc: this process is in no allocation, since none of {variables} is set: run it within a job, or name the hosts"
        ))
    };
    allocated()?.map(|allocated| allocated.hosts).ok_or_else(none)
}

/// The batch system of the allocation that includes this process and all of these hosts. An allocation that cannot be
/// read does not count: the caller needs only the hosts that it has.
pub(crate) fn system_of(hosts: &SlotList) -> Option<BatchSystem> {
    let Ok(Some(Allocated { allocation, hosts: all })) = allocated() else { return None };
    let all: std::collections::BTreeSet<&str> = all.iter().map(|host| host.name.as_str()).collect();
    hosts.iter().all(|host| all.contains(host.name.as_str())).then(|| allocation.system())
}

/// The variables of this process that are text.
fn environment() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
