//! Ends that nobody has ordered: killed helpers, nodes and processes leave nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpc_pmix::server::{Event, Order, Process, Upcall, remove_leftovers};

use crate::node::{World, first_event, refusal, wait};
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
    world.run("job", &program, &["late"]);
    // Before that, Open MPI creates its folders again if they are gone, and only the next helper would remove them.
    world.serve_until("both are beyond MPI_Init", |_| fs::exists(folder.path().join("late")).unwrap());
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
    let process = world.started[1].process.clone();
    world.started[1].child.kill().unwrap();
    world.started[1].child.wait().unwrap();
    // As a node does; the order may overtake the end of the connection.
    world.order(0, &Order::Ended(process));
    world.serve_until("node one is at its fence, too", |world| {
        world.upcalls.iter().filter(|upcall| is_fence(upcall)).count() > before
    });
    world.finish();
    world.end();
}

/// libpmix never answers for a process that ends before it has data, and another node waited for it.
#[test]
fn a_request_for_data_that_never_come_ends_with_its_process() {
    let Some(mut world) = World::start(&["one"]) else { return };
    world.register("job", &["one"], &[vec![0, 1]], None);
    let process = |rank| Process { namespace: "job".into(), rank };
    for rank in 0..2 {
        world.prepare(0, &process(rank));
        world.order(0, &Order::Data { serial: rank.into(), process: process(rank) });
    }
    let of = |event: &Event| matches!(event, Event::Data { .. });
    world.order(0, &Order::Ended(process(1)));
    assert_eq!(world.answer(0, of), Event::Data { serial: 1, data: Err(-46) });
    world.order(0, &Order::Data { serial: 5, process: process(1) });
    assert_eq!(world.answer(0, of), Event::Data { serial: 5, data: Err(-46) });
    world.order(0, &Order::Forget("job".into()));
    assert_eq!(world.answer(0, of), Event::Data { serial: 0, data: Err(-46) });
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

#[test]
fn a_library_that_is_missing_or_unknown_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libpmix.so.2");
    fs::write(&library, "no library").unwrap();
    let why = refusal(folder.path(), &[]);
    assert!(why.contains("libpmix.so.2") && why.contains("install PMIx (Debian: libpmix2)"), "{why}");
    if stand_in(folder.path()).is_none() {
        return;
    }
    for version in ["PMIx 3.2.3", "OpenPMIx 7.0.0", ""] {
        let why = refusal(folder.path(), &[("STUB_VERSION", version)]);
        let expected = format!("libpmix.so.2 is `{version}`, and a server needs version 4, 5 or 6; install");
        assert!(why.starts_with(&expected), "{why}");
    }
    // Asked for, it is used: and has no server.
    let why = refusal(folder.path(), &[("STUB_VERSION", "OpenPMIx 7.0.0"), ("GPC_PMIX_ANY_VERSION", "1")]);
    assert!(why.contains("has no PMIx_server_init"), "{why}");
}

/// Groups of PMIx of Open MPI 5 failed with the libpmix 4 of the system, though Open MPI has brought a newer one.
#[test]
fn the_library_of_the_programs_counts_if_its_version_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = stand_in(folder.path()) else { return };
    let own = ["one", library.to_str().unwrap()];
    let why = |event| match event {
        Event::Failed(why) => why,
        _ => String::new(),
    };
    let known = why(first_event(&own, &[("STUB_VERSION", "OpenPMIx 5.0.11")]));
    assert!(known.contains("has no PMIx_server_init"), "{known}");
    // Otherwise it is unloaded: that of the system has the same name.
    for arguments in [&own[..], &["one", "/none/libpmix.so.2"]] {
        assert!(!why(first_event(arguments, &[("STUB_VERSION", "OpenPMIx 7.0.0")])).contains("7.0.0"));
    }
}

/// The stand-in for libpmix, compiled into a folder.
fn stand_in(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libpmix.so.2");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in/libpmix.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libpmix.so.2", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    if compiled.is_ok_and(|status| status.success()) {
        return Some(library);
    }
    println!("skipped: needs a C compiler");
    None
}
