//! Memory budgets: how much of the process's memory a node gives to messages of its peers.
//!
//! A node has half of what the process may have, or the value of its builder. Three quarters of it are for bodies,
//! replies and calls, of which one link has half at most. A quarter is for partly received frames and for unsent
//! messages. So a peer that fills the node with data cannot make it close the links of others.

use std::fs;
use std::num::NonZeroU32;

use gpc_trees::Id;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

use super::control_group::{files, number};
use crate::chain::Config;
use crate::wire::Budget;

/// The memory budgets of a node.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Data of requests, replies, and the calls themselves.
    pub(super) bodies: Budget,
    /// Partly received frames, and small frames that a peer does not read.
    pub(super) pieces: Budget,
}

impl Memory {
    /// Creates budgets of `most` bytes in all. If `most` is `None`, the node has half of what each of `processes`
    /// processes may have.
    pub(super) fn new(me: Id, most: Option<u64>, processes: NonZeroU32) -> Memory {
        let whole = match most {
            Some(most) => Budget::new(most, "this node"),
            None => Budget::found(move || half(processes), "this node"),
        };
        let bodies = whole.part(3, 4, format!("id {me}"));
        let pieces = whole.part(1, 4, format!("id {me} for frames that are under way"));
        Memory { bodies, pieces }
    }

    /// The budget of one link.
    pub(super) fn of_link(&self, me: Id) -> Budget {
        self.bodies.part(1, 2, format!("one link of id {me}"))
    }
}

/// Maximum length of the data of one request at a node of this process, bytes, if its [`Builder`](super::Builder) sets
/// no other bounds: the budget of one link. A caller that reads data from outside should read no more, since nodes with
/// as much memory would reject them. `processes` of one launch share this machine, as in
/// [`Builder::processes`](super::Builder::processes).
///
/// ```
/// use std::num::NonZeroU32;
///
/// assert!(chained_gpc::runtime::request_data_max(NonZeroU32::MIN) > 0);
/// ```
pub fn request_data_max(processes: NonZeroU32) -> u64 {
    Memory::new(0, Some(half(processes)), processes).of_link(0).most().min(Config::new(0, 1).data_max)
}

/// Minimum part of a control group's memory for each process, bytes, if the group has that much: a node needs it to
/// work at all.
const PART_MIN: u64 = 8 << 20;

/// The part of one process in the memory of a control group.
fn part(group: u64, processes: NonZeroU32) -> u64 {
    (group / u64::from(processes.get())).max(PART_MIN.min(group))
}

/// Half of the memory that each of these processes may have.
fn half(processes: NonZeroU32) -> u64 {
    let mapped = fs::read_to_string("/proc/self/statm").ok().and_then(|text| mapped(&text)).unwrap_or(0);
    // The program's own mappings count towards its address space.
    let addresses = getrlimit(Resource::As).current.map(|most| most.saturating_sub(mapped));
    let limits = files("memory", "memory.max", "memory.limit_in_bytes");
    let group = limits.iter().filter_map(|file| number(file)).min().map(|group| part(group, processes));
    let physical = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    // If the system reports nothing, the memory of the smallest machines is assumed.
    [addresses, group, physical].into_iter().flatten().min().unwrap_or(1 << 30) / 2
}

/// Size of the address space in use, bytes, from `/proc/self/statm`.
fn mapped(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    Some(pages.saturating_mul(page_size() as u64))
}

/// Memory of the machine, bytes, from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::super::control_group::files_of;
    use super::*;

    #[test]
    fn limits_are_found_where_systems_of_both_kinds_have_them() {
        let of = |text| {
            let files = files_of(text, "memory", "memory.max", "memory.limit_in_bytes");
            files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            of("0::/user.slice/one\n"),
            [
                "/sys/fs/cgroup/user.slice/one/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            of("3:cpu,cpuacct:/a\n2:hugetlb,memory:/a\n"),
            ["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert_eq!(of("nonsense\n\n7:\n"), [""; 0]);
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       16316412 kB\n"), Some(16_316_412 << 10));
        assert_eq!(total("MemTotal: much\n"), None);
        assert_eq!(mapped("3 2 1 0\n"), Some(3 * page_size() as u64));
        assert!(half(NonZeroU32::MIN) > 0);
    }

    /// Processes that shared a control group each took half of its memory: the kernel killed them.
    #[test]
    fn processes_of_a_launch_share_what_their_control_group_may_have() {
        let part = |group, processes| part(group, NonZeroU32::new(processes).unwrap());
        assert_eq!((part(64 << 20, 1), part(64 << 20, 4)), (64 << 20, 16 << 20));
        assert_eq!(part(64 << 20, 1000), PART_MIN);
        assert_eq!(part(1 << 20, 2), 1 << 20, "there is no more");
    }

    #[test]
    fn a_link_has_less_than_the_node_and_data_leave_room_for_frames() {
        let memory = Memory::new(7, Some(800), NonZeroU32::MIN);
        assert_eq!((memory.bodies.most(), memory.pieces.most()), (600, 200));
        let links = [memory.of_link(7), memory.of_link(7)];
        assert_eq!(links.each_ref().map(Budget::most), [300; 2]);
        assert!(!links[0].share().grow(301));
        let mut shares = links.each_ref().map(Budget::share);
        assert!(shares.iter_mut().all(|share| share.grow(300)) && memory.bodies.is_spent());
        assert!(!memory.pieces.is_spent() && memory.pieces.share().grow(200));
    }
}
