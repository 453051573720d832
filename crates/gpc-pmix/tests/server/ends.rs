//! Ends that nobody has ordered: killed helpers, nodes and processes leave nothing behind.

use std::fs;
use std::path::PathBuf;

use gpc_pmix::server::{Upcall, remove_leftovers};

use crate::node::{World, wait};
use crate::open_mpi::program;

/// The session folders of a process.
fn session_folders(pid: u32) -> Vec<PathBuf> {
    let parents = ["/dev/shm", "/tmp"].into_iter().filter_map(|parent| fs::read_dir(parent).ok());
    let paths = parents.flatten().flatten().map(|entry| entry.path());
    let prefix = format!("gpc-pmix-{pid:x}-");
    paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&prefix)).collect()
}

#[test]
fn a_killed_helper_is_cleaned_up_after_by_its_node() {
    let Some(mut world) = World::start(&["one"]) else { return };
    world.register("job", &["one"], &[vec![0, 1]], None);
    let pid = world.helpers[0].child.id();
    assert_eq!(session_folders(pid).len(), 1);
    world.helpers[0].child.kill().unwrap();
    world.helpers[0].child.wait().unwrap();
    remove_leftovers();
    assert_eq!(session_folders(pid), Vec::<PathBuf>::new());
}

/// As after `kill -9` of the node: the socket closes, and no word comes.
#[test]
fn a_helper_without_its_node_ends_with_its_processes_still_running() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let Some(mut world) = World::start(&["one"]) else { return };
    world.register("job", &["one"], &[vec![0, 1]], None);
    world.run("job", &program, &["hang"]);
    world.serve_until("both have connected", |world| {
        world.upcalls.iter().filter(|upcall| matches!(upcall, Upcall::Connected(_))).count() == 2
    });
    let socket = world.helpers[0].socket.take().unwrap();
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(wait(&mut world.helpers[0].child).success());
    assert_eq!(session_folders(world.helpers[0].child.id()), Vec::<PathBuf>::new());
}

/// The processes that arrived at a fence would wait for ever if the server went on counting on the one that was killed.
#[test]
fn the_death_of_a_process_completes_the_fence_that_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let Some(mut world) = World::start(&["one", "two"]) else { return };
    world.register("job", &["one", "two"], &[vec![0, 1], vec![2]], None);
    world.run("job", &program, &["late"]);
    let is_fence = |upcall: &Upcall| matches!(upcall, Upcall::Fence { .. });
    // Rank 1 stays away from the fence at the end of MPI_Finalize.
    world.serve_until("node two is at its last fence", |world| {
        let started = world.started[1].process.rank == 1;
        started && fs::exists(folder.path().join("late")).unwrap() && world.waits()
    });
    let before = world.upcalls.iter().filter(|upcall| is_fence(upcall)).count();
    world.started[1].child.kill().unwrap();
    world.serve_until("node one is at its fence, too", |world| {
        world.upcalls.iter().filter(|upcall| is_fence(upcall)).count() > before
    });
    let status = world.upcalls.iter().rev().find_map(|upcall| match upcall {
        Upcall::Fence { info, .. } => info.iter().find(|info| info.key == "pmix.loc.col.st").cloned(),
        _ => None,
    });
    assert_ne!(status.unwrap().value.bytes, [0; 4], "the node sees that a member was lost");
    world.finish();
    world.end();
}

#[test]
fn bytes_that_are_no_orders_end_the_helper_with_an_error() {
    use std::io::Write as _;
    let Some(mut world) = World::start(&["one"]) else { return };
    world.helpers[0].socket.as_mut().unwrap().write_all(&[1, 0, 0, 0, 99]).unwrap();
    assert!(!wait(&mut world.helpers[0].child).success());
    assert_eq!(session_folders(world.helpers[0].child.id()), Vec::<PathBuf>::new());
}
