//! Many processes, and the memory of each.

use crate::support::{Gpc, coverage, is_debug_build, json_of};

/// Most memory of its own of a process that does nothing special, KiB.
pub(crate) const OWN_KIB_MAX: u64 = 2 << 10;

/// The same of the command, which has read its arguments. Without optimizations what describes them is larger, and so is what the loader writes to.
fn command_kib_max() -> u64 {
    if is_debug_build() { 7 << 9 } else { OWN_KIB_MAX }
}

/// Most resident memory of a node process that does nothing special, with its code, KiB: all but a few hundred are pages of the program, which all nodes share, and the system maps those beside a page that it needs as far as it has them at hand, so that one and the same program takes 6.6 to 7.4 MiB. Without optimizations that is larger, up to 20.1 MiB, and grows with the whole program, of which a node uses little: there the bound says only that no node maps all of it.
fn resident_kib_max() -> u64 {
    if is_debug_build() { 24 << 10 } else { 8 << 10 }
}

#[test]
fn a_thousand_processes_answer() {
    for link in ["unix", "tcp"] {
        let value = json_of(&format!("call sum -n 1024 --tree kary:8 --link {link} --time-limit 2m"));
        // 1024 * 1025 * 2049 / 6
        assert_eq!(value["replies"][0]["data"], "358438400");
        assert_eq!(coverage(&value), [1024, 0, 0, 0]);
    }
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
    for process in (1..64).map(|id| call.node(id)) {
        let (own, arguments) = (process.own_kib_max(), process.arguments());
        assert!((1..OWN_KIB_MAX).contains(&own), "{arguments:?} has had {own} KiB of its own");
    }
    // Id 0 is the command, which has read its arguments with more code.
    for node in (1..64).map(|id| call.node(id)) {
        let resident = node.resident_kib_max();
        assert!(resident < resident_kib_max(), "{:?} has had {resident} KiB", node.arguments());
    }
    call.process().kill(rustix::process::Signal::INT);
    assert_eq!(call.end().code(), Some(130));
}
