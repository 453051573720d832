//! Programs with ARMCI's interface, alone and as several processes of a launcher.

use std::path::Path;
use std::process::{Command, Output};

use crate::programs::{compile, has_compiler, library_folder, sanitizers, succeeds};

/// Compiles a program for several processes; says so if that is not possible.
fn compiled(source: &str, program: &Path) -> bool {
    let has_launcher = Command::new("mpiexec.mpich").arg("--version").output().is_ok();
    if !has_compiler("cc") || !has_launcher {
        println!("skipped: needs mpiexec.mpich (mpich)");
        return false;
    }
    compile("cc", "gnu17", sanitizers("cc"), source, program);
    true
}

/// Runs processes of a launcher, for so many seconds at most.
fn run(program: &Path, processes: u32, limit: &str, command: &[&str]) -> Output {
    Command::new("timeout")
        .args([limit, "mpiexec.mpich", "-n", &processes.to_string()])
        .args(command)
        .env("LD_LIBRARY_PATH", library_folder(program))
        .output()
        .unwrap()
}

/// Runs a program as several processes, to a successful end.
fn succeeds_by_several(source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    if !compiled(source, &program) {
        return;
    }
    for processes in [2, 5] {
        let output = run(&program, processes, "120", &[program.to_str().unwrap()]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{processes} processes: {:?}\n{err}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{err}");
    }
}

#[test]
fn armci_of_one_process() {
    succeeds("cc", "gnu17", "armci.c");
}

#[test]
fn armci_of_several_processes() {
    succeeds_by_several("armci.c");
}

/// Handlers that waited held the only worker: two that called each other waited for ever, and so did one that took a
/// lock. Early calls held it, too.
#[test]
fn handlers_make_calls_take_locks_and_are_called_early() {
    succeeds("cc", "gnu17", "armci_nested.c");
    succeeds_by_several("armci_nested.c");
}

/// Runs a program, and ends when it has ended in all processes: a launcher ends the others when one dies.
const OUTLIVES: &str = r#""$0" "$1"
: >"$2/done-$PMI_RANK"
for _ in $(seq 1000); do
    [ "$(ls "$2" | grep -c '^done-')" = "$3" ] && exit 0
    sleep 0.1
done"#;

/// Runs processes some of which die; returns their output, and how many have ended within 20 seconds.
fn run_with_deaths(program: &Path, processes: u32, case: &str) -> (Output, usize) {
    let ended = tempfile::tempdir().unwrap();
    let (path, count) = (ended.path().to_str().unwrap(), processes.to_string());
    let command = ["sh", "-c", OUTLIVES, program.to_str().unwrap(), case, path, &count];
    let output = run(program, processes, "20", &command);
    (output, std::fs::read_dir(ended.path()).unwrap().count())
}

/// Of four processes one dies by `kill -9`. Others that waited for it, or for its lock, waited for ever.
#[test]
fn processes_that_wait_for_one_that_dies_fail() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    if !compiled("armci_lost.c", &program) {
        return;
    }
    for (case, expected) in [
        ("root", ["1 failed", "2 failed", "3 failed"].as_slice()),
        ("member", &["0 failed", "1 failed", "2 failed"]),
        ("holder", &["0 has had it", "1 has had it", "2 has had it"]),
        ("owner", &["0 failed", "2 failed", "3 failed"]),
        ("handler", &["0 failed", "2 failed", "3 failed"]),
        ("barrier", &[]),
    ] {
        let (output, ended) = run_with_deaths(&program, 4, case);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<&str> =
            out.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
        lines.sort_unstable();
        assert_eq!(lines, expected, "{case}: {:?}\n{out}\n{err}", output.status);
        assert_eq!(ended, 4, "{case}: processes waited: {:?}\n{err}", output.status);
        if case == "barrier" {
            let failed = err.matches("ARMCI_Barrier failed with -5: process 0, which leads").count();
            assert_eq!(failed, 3, "{err}");
        }
    }
}

/// A process whose parent in the tree had left in order, because id 0 was lost, took that for an orderly end.
#[test]
fn all_processes_that_serve_notice_the_loss_of_id_0() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    if !compiled("lost_root.c", &program) {
        return;
    }
    let (output, ended) = run_with_deaths(&program, 8, "");
    let err = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!((out.matches("lost it").count(), ended), (7, 8), "{out}\n{err}");
}
