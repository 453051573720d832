//! Programs of Open MPI, which speak PMIx alone: each node has a server for them, in a helper process. `tests/mpi/run`
//! has more programs.

use std::process::Command;

use rustix::process::Signal;

use super::mpi::{compiled, each_says};
use super::support::*;

/// Compiles a program with Open MPI's compiler; prints a note if there is none.
fn program(place: &Place, source: &str) -> Option<String> {
    let program = compiled(place, "mpicc.openmpi", source);
    if program.is_none() {
        skipped("mpicc of Open MPI");
    }
    program
}

/// Returns the helpers of the nodes.
fn helpers(place: &Place) -> Vec<Process> {
    place.with(" pmix-serve ")
}

#[test]
fn a_program_of_open_mpi_runs_unchanged() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    for (words, count) in [("-n 4", 4), ("-n 1", 1), ("-n 4 --pmix always", 4), ("-n 5 --nodes 2", 5)] {
        let sum: u32 = (0..count).sum();
        each_says(&place, words, &[&program], count, |rank| {
            format!("rank {rank} of {count}: from {} sum {sum}", (rank + count - 1) % count)
        });
        place.nothing_left();
    }
    // Through a shell, whose file says nothing.
    let script = format!("'{program}'");
    each_says(&place, "-n 2", &["sh", "-c", &script], 2, |rank| {
        format!("rank {rank} of 2: from {} sum 1", 1 - rank)
    });
}

#[test]
fn a_program_of_open_mpi_aborts_with_its_status() {
    let place = Place::new();
    let Some(program) = program(&place, "abort") else { return };
    for words in ["-n 3", "-n 3 --nodes 2"] {
        let words = ["run"].into_iter().chain(words.split_whitespace()).chain([program.as_str(), "17"]);
        let ended = ended(place.gpc(words));
        assert_eq!(ended.status, 17, "{}", ended.err);
        assert!(ended.err.contains("gpc: g1.2 has ended the job with status 17"), "{}", ended.err);
        place.nothing_left();
    }
}

/// Each process of an Open MPI program was `rank 0 of 1`, and the exit status was 0.
#[test]
fn a_program_of_open_mpi_is_refused_where_it_has_no_server() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    for words in ["-n 2", "-n 2 --nodes 2"] {
        let words = ["run", "--pmix", "never"].into_iter().chain(words.split_whitespace());
        let ended = ended(place.gpc(words.chain([program.as_str()])));
        ended.failed(1, &format!("gpc: cannot start {program} (rank 0"));
        assert_eq!(ended.out, "");
        assert!(ended.err.contains("it is a program of Open MPI (libmpi.so."), "{}", ended.err);
        assert!(ended.err.contains("`--pmix never`"), "it says what to do: {}", ended.err);
        place.nothing_left();
    }
}

#[test]
fn programs_of_two_mpis_are_not_one_world() {
    let place = Place::new();
    let Some(open) = program(&place, "rounds") else { return };
    let Some(mpich) = compiled(&place, "mpicc.mpich", "rounds") else { return skipped("mpicc of MPICH") };
    let ended = ended(place.gpc(["run", "-n", "2", &open, ":", "-n", "1", &mpich]));
    ended.failed(1, &format!("gpc: cannot start {mpich} (rank 2"));
    assert!(ended.err.contains("libmpich.so.") && ended.err.contains("cannot be one world"), "{}", ended.err);
    place.nothing_left();
}

/// A process that loads Open MPI at run time, as Python does, was not detected by its file.
#[test]
fn a_process_that_loads_open_mpi_without_a_server_ends_its_job() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    let linked = Command::new("ldd").arg(&program).output().unwrap();
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let library =
        linked.lines().find_map(|line| line.trim().strip_prefix("libmpi.so.40 => ")?.split(' ').next());
    let Some(library) = library else { return skipped("libmpi.so.40") };
    let mut command = place.gpc(["run", "-n", "2", "sleep", "1000"]);
    command.env("LD_PRELOAD", library);
    // The command itself uses no MPI.
    let ended = ended(command);
    ended.failed(1, "gpc: g1.");
    assert!(ended.err.contains("it has loaded Open MPI (libmpi.so.40"), "{}", ended.err);
    assert!(ended.err.contains("`--pmix always`"), "it says what to do: {}", ended.err);
    place.nothing_left();
}

/// The job waits in a fence for a process that has been stopped.
fn waiting(place: &Place, program: &str, words: &str) -> Run {
    let script = format!("[ \"$PMIX_RANK\" = 2 ] && echo up && kill -STOP $$; exec '{program}'");
    let words = ["run"].into_iter().chain(words.split_whitespace());
    let run = Run::start(place.gpc(words.chain(["bash", "-c", &script])));
    run.says("up", 1);
    run
}

#[test]
fn a_helper_that_is_killed_ends_its_job() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    for words in ["-n 3", "-n 3 --nodes 2"] {
        let run = waiting(&place, &program, words);
        helpers(&place).first().expect("a node has a helper").signal(Signal::KILL);
        let ended = run.ended();
        assert_eq!(ended.status, 1, "{}", ended.err);
        assert!(ended.err.contains("the PMIx server of node "), "{}", ended.err);
        assert!(ended.err.contains("is gone: it has ended: signal: 9"), "{}", ended.err);
        place.nothing_left();
    }
}

#[test]
fn a_rank_that_is_killed_while_others_fence_ends_its_job() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    for words in ["-n 3", "-n 3 --nodes 2"] {
        let run = waiting(&place, &program, words);
        place.member("g1.2").signal(Signal::KILL);
        let ended = run.ended();
        assert_eq!(ended.status, 137, "{}", ended.err);
        // A process that dies while it connects to the server makes libpmix print a line of its own.
        let own = ended.err.lines().find(|line| !line.contains("PMIX ERROR"));
        assert_eq!(own, Some("gpc: g1.2: killed by signal 9 (SIGKILL)"), "{}", ended.err);
        place.nothing_left();
    }
}

#[test]
fn nothing_is_left_of_a_command_that_is_killed() {
    let place = Place::new();
    let Some(program) = program(&place, "rounds") else { return };
    for words in ["-n 3", "-n 3 --nodes 2"] {
        let run = waiting(&place, &program, words);
        run.signal(Signal::KILL);
        run.ended();
        place.nothing_left();
    }
}
