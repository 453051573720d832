//! Many processes, and the memory of each.

use crate::processes::support::{Gpc, is_debug_build};

/// Maximum private memory of a process that does nothing special, in KiB.
pub(crate) const OWN_KIB_MAX: u64 = 2 << 10;

/// Returns the same for a node that the command starts. Without optimizations the pages that the loader writes grow
/// with the whole program: a node had 2,052 KiB of its own, and 540 in the program that users install.
fn node_kib_max() -> u64 {
    if is_debug_build() { 5 << 9 } else { OWN_KIB_MAX }
}

/// Returns the same for the command, which has parsed its arguments. Without optimizations the descriptions of
/// arguments are larger, and so are the pages that the loader writes.
fn command_kib_max() -> u64 {
    if is_debug_build() { 7 << 9 } else { OWN_KIB_MAX }
}

/// Returns the maximum resident memory of a node process that does nothing special, with its code, in KiB. All but a
/// few hundred KiB are pages of the program, which all nodes share. The system also maps neighbouring pages that it has
/// in memory, so the same program takes 6.6 to 7.4 MiB. Without optimizations it takes up to 20.1 MiB, and grows with
/// the whole program, of which a node uses little. There the bound only ensures that no node maps all of it.
fn resident_kib_max() -> u64 {
    if is_debug_build() { 24 << 10 } else { 8 << 10 }
}

#[test]
fn a_node_process_is_small() {
    let call = Gpc::start(
        "call sleep -n 64 --tree binomial --forward-first --header 10m --time-limit 10m --output json",
    );
    (0..64).for_each(|id| call.until_asleep(id));
    let processes = call.processes();
    assert_eq!(processes.len(), 64);
    let command = call.process().own_kib_max();
    assert!((1..command_kib_max()).contains(&command), "the command has had {command} KiB of its own");
    let mut most: Vec<u64> = (1..64).map(|id| call.node(id).own_kib_max()).collect();
    for process in (1..64).map(|id| call.node(id)) {
        let (own, arguments) = (process.own_kib(), process.arguments());
        assert!((1..node_kib_max()).contains(&own), "{arguments:?} has {own} KiB of its own");
    }
    // If the system reclaims pages of the program, the peak of a process seems higher by as much.
    most.sort_unstable();
    assert!(
        (1..node_kib_max()).contains(&most[most.len() / 2]),
        "the processes have had {most:?} KiB of their own"
    );
    // Id 0 is the command, which has parsed its arguments with more code.
    for node in (1..64).map(|id| call.node(id)) {
        let resident = node.resident_kib_max();
        assert!(resident < resident_kib_max(), "{:?} has had {resident} KiB", node.arguments());
    }
    call.process().kill(rustix::process::Signal::INT);
    assert_eq!(call.end().code(), Some(130));
}
