//! Programs of MPICH, compiled with any available `mpicc` of MPICH, and a program that implements PMI-1 itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use gpc_bnr::Spec;
use tempfile::TempDir;

use crate::pmi::world::{Job, Ran, run};

/// Compiles a program of `tests/mpi`; `None` if the compiler is missing or fails.
fn compile(folder: &TempDir, compiler: &str, name: &str) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi").join(format!("{name}.c"));
    let program = folder.path().join(name).to_str()?.to_owned();
    let made = Command::new(compiler).args(["-O1", "-o", &program]).arg(source).output().ok()?;
    made.status.success().then_some(program)
}

/// The program compiled with each available compiler of MPICH, and the major version of each MPICH.
fn programs(folder: &TempDir, name: &str) -> Vec<(String, u32)> {
    let mut programs = Vec::new();
    for compiler in ["mpicc.mpich", "mpicc"] {
        let place = folder.path().join(compiler);
        std::fs::create_dir(&place).unwrap();
        let version = "#include <mpi.h>\n#include <stdio.h>\n#ifdef MPICH_VERSION\nint main(void) { puts(MPICH_VERSION); return 0; }\n#endif\n";
        let (source, shown) = (place.join("version.c"), place.join("version"));
        std::fs::write(&source, version).unwrap();
        let made = Command::new(compiler).arg("-o").args([&shown, &source]).output();
        let told = Command::new(&shown).output();
        if let (true, Ok(told)) = (made.is_ok_and(|made| made.status.success()), told)
            && let Some(program) = compile(folder, compiler, name)
            && let Ok(major) = String::from_utf8_lossy(&told.stdout).split('.').next().unwrap().parse()
        {
            let kept = format!("{}/{name}", place.to_str().unwrap());
            std::fs::rename(program, &kept).unwrap();
            programs.push((kept, major));
        }
    }
    programs
}

/// Reports that a test was skipped.
#[allow(clippy::print_stderr, reason = "whoever looks at the test sees it")]
fn skipped(why: &str) {
    eprintln!("skipped: needs {why}");
}

fn job(program: &str, count: u32, args: &[&str]) -> Job {
    let args = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    let spec = Spec { count, program: program.into(), args, ..Spec::default() };
    Job { spec, groups: false }
}

/// Checks that all processes ended normally, with these lines.
fn well(ran: &Ran, lines: &[String]) {
    assert!(ran.ends.values().all(|status| status.success()), "{}\n{ran:?}", ran.errors);
    assert_eq!(ran.lines, lines.iter().cloned().collect::<BTreeSet<String>>(), "{ran:?}");
    assert_eq!((&ran.closed[..], &ran.aborted), (&[][..], &None), "{ran:?}");
}

/// Slurm's PMI-2 client, where it is installed.
#[test]
fn a_library_of_pmi_2_finds_all() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&folder, "cc", "pmi2") else { return skipped("cc") };
    let without = Command::new(&program).output().unwrap();
    if without.status.code() == Some(77) {
        return skipped("libpmi2.so.0");
    }
    let ran = run(job(&program, 4, &[]));
    well(&ran, &(0..4).map(|rank| format!("rank {rank} of 4: all is there")).collect::<Vec<String>>());
    assert_eq!(ran.fences, 4);
}

fn rounds(count: u32) -> Vec<String> {
    let line = |rank| {
        let left = (rank + count - 1) % count;
        format!("rank {rank} of {count}: from {left} sum {}", (0..count).sum::<u32>())
    };
    (0..count).map(line).collect()
}

#[test]
fn keys_and_values_of_the_longest_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(&folder, "cc", "pmi1") else { return skipped("cc") };
    let ran = run(job(&program, 5, &["4", "3", "blanks"]));
    let lines: Vec<String> = (0..5).map(|rank| format!("rank {rank} of 5: 60 gets in 4 fences")).collect();
    well(&ran, &lines);
    assert_eq!(ran.fences, 4);
}

#[test]
fn mpi_programs_begin_speak_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(&folder, "rounds");
    if programs.is_empty() {
        return skipped("mpicc of MPICH");
    }
    for (program, _) in programs {
        for count in [1, 4] {
            well(&run(job(&program, count, &[])), &rounds(count));
        }
        // MPICH 5 uses group barriers if the server offers them.
        let ran = run(Job { groups: true, ..job(&program, 3, &[]) });
        well(&ran, &rounds(3));
    }
}

#[test]
fn mpi_programs_abort_with_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(&folder, "abort");
    if programs.is_empty() {
        return skipped("mpicc of MPICH");
    }
    for (program, _) in programs {
        let ran = run(job(&program, 3, &[]));
        assert_eq!(ran.aborted.as_ref().map(|(code, _)| *code), Some(42), "{ran:?}");
        assert!(ran.ends.values().all(|status| !status.success()) && ran.closed.is_empty(), "{ran:?}");
    }
}

/// The program for MPICH 5. Debian's MPICH cannot start other processes with its device.
fn dynamic(folder: &TempDir, name: &str) -> Option<String> {
    let program = programs(folder, name).into_iter().find(|(_, major)| *major >= 5);
    if program.is_none() {
        skipped("mpicc of MPICH 5");
    }
    program.map(|(program, _)| program)
}

#[test]
fn mpi_programs_start_others() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = dynamic(&folder, "spawn") else { return };
    let lines = [
        "spawned 3",
        "spawned 4",
        "child 0 of 4 is program 0 with a word with blanks",
        "child 1 of 4 is program 0 with a word with blanks",
        "child 2 of 4 is program 0 with a word with blanks",
        "child 3 of 4 is program 1 with second",
        "refused",
    ]
    .map(str::to_owned);
    for groups in [false, true] {
        well(&run(Job { groups, ..job(&program, 2, &["3", "refused"]) }), &lines);
    }
}

#[test]
fn mpi_programs_meet_by_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = dynamic(&folder, "ports") else { return };
    let lines = ["accepted 2", "connected 2", "the-name is gone"].map(str::to_owned);
    well(&run(job(&program, 4, &["the-name"])), &lines);
}
