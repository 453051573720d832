//! MPI programs, compiled by any available `mpicc`, and a program that speaks PMI-1 without MPI.

use std::process::Command;

use super::support::*;

/// Folder of programs in C.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpc-bnr/tests/mpi");

/// Compiles a source; `None` if the compiler does not exist, or has no MPI.
pub(crate) fn compiled(place: &Place, compiler: &str, source: &str) -> Option<String> {
    let program = place.path(&format!("{source}-{compiler}"));
    let source = format!("{SOURCES}/{source}.c");
    let made = Command::new(compiler).args(["-O1", "-o", &program, &source]).output();
    made.is_ok_and(|made| made.status.success()).then_some(program)
}

/// Compiles a program with every available MPICH; prints a note if there is none.
fn programs(place: &Place, source: &str) -> Vec<String> {
    // Those of Open MPI have their own tests.
    let speaks = |program: &String| {
        let linked = Command::new("ldd").arg(program).output();
        linked.is_ok_and(|linked| !String::from_utf8_lossy(&linked.stdout).contains("libopen-"))
    };
    let compilers = ["mpicc.mpich", "mpicc"].into_iter();
    let programs: Vec<String> =
        compilers.filter_map(|compiler| compiled(place, compiler, source)).filter(speaks).collect();
    if programs.is_empty() {
        skipped("mpicc of MPICH");
    }
    programs
}

/// Runs a program with this number of processes, each of which prints a line.
#[track_caller]
pub(crate) fn each_says(
    place: &Place,
    words: &str,
    program: &[&str],
    count: u32,
    says: impl Fn(u32) -> String,
) {
    let words = ["run"].into_iter().chain(words.split_whitespace()).chain(program.iter().copied());
    let ended = ended(place.gpc(words));
    ended.well((0..count).map(says));
    place.empty();
}

#[test]
fn an_mpi_program_runs_unchanged() {
    let place = Place::new();
    for program in programs(&place, "rounds") {
        for (words, count) in [("-n 4", 4), ("-n 1", 1), ("-n 4 --pmi-port", 4), ("-n 5 --nodes 2", 5)] {
            let sum: u32 = (0..count).sum();
            each_says(&place, words, &[&program], count, |rank| {
                format!("rank {rank} of {count}: from {} sum {sum}", (rank + count - 1) % count)
            });
        }
    }
}

#[test]
fn an_mpi_program_aborts_with_its_status() {
    let place = Place::new();
    for program in programs(&place, "abort") {
        let ended = ended(place.gpc(["run", "-n", "3", &program, "17"]));
        assert_eq!((ended.status, ended.out.as_str()), (17, ""), "{}", ended.err);
        assert!(ended.err.contains("gpc: g1.2 has ended the job with status 17"), "{}", ended.err);
        place.empty();
    }
}

#[test]
fn puts_of_any_length_are_got_by_all() {
    let place = Place::new();
    let Some(program) = compiled(&place, "cc", "pmi1") else { return skipped("a C compiler") };
    for words in ["-n 6", "-n 6 --nodes 3"] {
        for blanks in ["", "blanks"] {
            let words = format!("{words} {program} 3 2 {blanks}");
            let (words, program) = words.split_at(words.find('/').unwrap());
            let program: Vec<&str> = program.split_whitespace().collect();
            each_says(&place, words, &program, 6, |rank| format!("rank {rank} of 6: 36 gets in 3 fences"));
        }
    }
}
