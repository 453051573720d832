//! MPI programs, compiled by whatever `mpicc` there is.

use std::process::Command;

use super::support::*;

/// A program that sends around, adds up and says so.
const RING: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, from = -1, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &from, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(&from, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (argc > 1 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 42);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d of %d: %d, sum %d\n", rank, size, from, sum);
  MPI_Finalize();
  return 0;
}
"#;

/// The program as each compiler makes it that there is; says so if there is none.
fn programs(place: &Place) -> Vec<String> {
    let source = place.path("ring.c");
    std::fs::write(&source, RING).unwrap();
    let compiled = ["mpicc.mpich", "mpicc"].into_iter().filter_map(|compiler| {
        let program = place.path(&format!("ring-{compiler}"));
        let made = Command::new(compiler).args(["-O1", "-o", &program, &source]).output();
        let linked = || {
            Command::new("ldd").arg(&program).output().is_ok_and(|output| {
                // Open MPI speaks PMIx alone.
                !String::from_utf8_lossy(&output.stdout).contains("libopen-")
            })
        };
        (made.is_ok_and(|made| made.status.success()) && linked()).then_some(program)
    });
    let programs: Vec<String> = compiled.collect();
    if programs.is_empty() {
        // Where a test has not run, whoever looks sees it.
        #[allow(clippy::print_stderr, reason = "a test says that it was skipped")]
        {
            eprintln!("skipped: needs mpicc of MPICH");
        }
    }
    programs
}

fn ring(place: &Place, program: &str, words: &str, count: u32) {
    let words = ["run"].into_iter().chain(words.split_whitespace()).chain([program]);
    let ended = ended(place.gpc(words));
    let sum: u32 = (0..count).sum();
    let expected: Vec<String> = (0..count)
        .map(|rank| format!("rank {rank} of {count}: {}, sum {sum}", (rank + count - 1) % count))
        .collect();
    assert_eq!(
        (ended.status, ended.lines()),
        (0, expected.iter().map(String::as_str).collect()),
        "{}",
        ended.err
    );
    place.empty();
}

#[test]
fn an_mpi_program_runs_unchanged() {
    let place = Place::new();
    for program in programs(&place) {
        ring(&place, &program, "-n 4", 4);
        ring(&place, &program, "-n 1", 1);
        ring(&place, &program, "-n 4 --pmi-port", 4);
    }
}

#[test]
fn an_mpi_program_runs_on_several_nodes() {
    let place = Place::new();
    for program in programs(&place) {
        ring(&place, &program, "-n 5 --nodes 2", 5);
    }
}

#[test]
fn an_mpi_program_aborts_with_its_status() {
    let place = Place::new();
    for program in programs(&place) {
        let ended = ended(place.gpc(["run", "-n", "3", &program, "abort"]));
        assert_eq!(ended.status, 42, "{}", ended.err);
        assert!(ended.err.contains("gpc: g1.1 has ended the job with status 42"), "{}", ended.err);
        place.empty();
    }
}
