//! The examples, compiled with the installed library and with sanitizers, as processes of MPICH. Each checks its own
//! result.

use std::process::Command;

use crate::package::{flags, has, install, succeeds};
use crate::programs::{package, sanitizers};

/// Runs an example as so many processes; its last line must be this one.
fn example(compiler: &str, name: &str, options: &[&str], runs: &[(u32, &str)]) {
    if !(has(compiler) && has("make") && has("pkg-config") && has("mpiexec.mpich")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path();
    install(prefix);
    let program = prefix.join("example");
    succeeds(
        Command::new(compiler)
            .args(options)
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g"])
            .arg(package().join("examples").join(name))
            .args(flags(prefix, &["--cflags", "--libs"]))
            .arg("-o")
            .arg(&program),
    );
    for (processes, expected) in runs {
        let output = succeeds(
            // On a busy machine mpiexec writes to a helper that has ended, and is ended by the signal.
            Command::new("env")
                .args(["--ignore-signal=PIPE", "timeout", "120"])
                .args(["mpiexec.mpich", "-n", &processes.to_string()])
                .arg(&program)
                .env("LD_LIBRARY_PATH", prefix.join("lib"))
                // MPICH keeps memory until its end.
                .env(
                    "ASAN_OPTIONS",
                    if name.ends_with("mpi.c") { "detect_leaks=0" } else { "detect_leaks=1" },
                ),
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{expected}\n"), "{name} {processes}");
    }
}

/// An example in C11.
fn in_c(name: &str, runs: &[(u32, &str)]) {
    example("cc", name, &[&["-std=c11"], sanitizers("cc")].concat(), runs);
}

#[test]
fn calls_go_along_trees_of_the_application() {
    in_c("tree.c", &[(1, "1 ids, 0 wrong parents"), (8, "8 ids, 0 wrong parents")]);
}

#[test]
fn a_reduction_keeps_the_order_of_the_ids() {
    in_c("reduce.c", &[(1, "1 ids, products in order: yes"), (7, "7 ids, products in order: yes")]);
}

#[test]
fn a_distributed_table_has_all_entries() {
    in_c(
        "table.c",
        &[
            (1, "1 processes, 256 entries, 0 wrong at process 0"),
            (4, "4 processes, 1024 entries, 0 wrong at process 0"),
        ],
    );
}

#[test]
fn random_updates_leave_no_trace_when_they_are_made_twice() {
    in_c("gups.c", &[(1, "16384 updates by 1 processes: right"), (4, "65536 updates by 4 processes: right")]);
}

#[test]
fn an_event_loop_drives_the_library() {
    in_c("epoll.c", &[(1, "20 calls of 1 processes, 0 failed"), (5, "20 calls of 5 processes, 0 failed")]);
}

#[test]
fn an_mpi_program_hands_over_its_communicator() {
    let options = [&["-std=c11"], sanitizers("cc")].concat();
    example("mpicc.mpich", "mpi.c", &options, &[(4, "rank 3, rank 0, rank 1, rank 2")]);
}

#[test]
fn calls_go_over_messages_of_mpi() {
    let options = [&["-std=c11"], sanitizers("cc")].concat();
    let expected = [(1, "1 of 1 replies over MPI are right"), (5, "5 of 5 replies over MPI are right")];
    example("mpicc.mpich", "network_mpi.c", &options, &expected);
}

#[test]
fn calls_go_over_a_pair_of_pipes() {
    in_c("network_pipes.c", &[(1, "1048576 bytes through pipes and back: right")]);
}

#[test]
fn a_lambda_is_a_function() {
    let options = [&["-std=c++17"], sanitizers("c++")].concat();
    example("c++", "lambda.cpp", &options, &[(4, "4 processes, sum 18: right")]);
}
