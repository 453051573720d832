//! Runs the example `exchange` as a process of a job. The job is under Open MPI's launcher, under a launcher that is
//! gone, or uses a libpmix that misbehaves.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helper panics like the test itself")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The example, which cargo builds before it runs the tests of a package.
fn exchange() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/exchange");
    assert!(path.is_file(), "run `cargo build --package gpc-pmix --example exchange` first");
    path
}

/// The example without the variables of a real PMIx launcher.
fn alone(folder: &Path) -> Command {
    let mut command = Command::new(exchange());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PMIX_")) {
            command.env_remove(name);
        }
    }
    command.env("LD_LIBRARY_PATH", folder);
    command
}

/// The example as rank 0 of a job.
fn of_a_job(folder: &Path) -> Command {
    let mut command = alone(folder);
    command.env("PMIX_NAMESPACE", "stub").env("PMIX_RANK", "0");
    command
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Compiles a libpmix that the environment controls; `None` if there is no C compiler.
fn build_libpmix(folder: &Path) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in/libpmix.c");
    let library = folder.join("libpmix.so.2");
    let compiler = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).output();
    let Ok(compiled) = compiler else {
        println!("skipped: needs a C compiler");
        return None;
    };
    assert!(compiled.status.success(), "{}", said(&compiled));
    Some(())
}

#[test]
fn without_a_launcher_libpmix_is_not_even_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libpmix.so.2"), "no library").unwrap();
    let output = alone(folder.path()).output().unwrap();
    assert_eq!(
        (said(&output), output.status.code()),
        ("started by nobody who speaks PMIx\n".into(), Some(0))
    );
}

/// A process that found no library acted as a job of one, and each process of a job printed its line.
#[test]
fn without_a_library_a_process_of_a_job_fails_and_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libpmix.so.2"), "no library").unwrap();
    let output = of_a_job(folder.path()).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("PMIx: loading libpmix: ") && said.contains("install PMIx"), "{said}");
    let output = of_a_job(folder.path()).env_remove("PMIX_RANK").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_library_that_misbehaves_is_an_error_and_never_a_job_of_one() {
    let folder = tempfile::tempdir().unwrap();
    if build_libpmix(folder.path()).is_none() {
        return;
    }
    let whole = of_a_job(folder.path()).output().unwrap();
    assert_eq!(said(&whole), "0 of 1: id-0; one host: true; nothing: id-0\n");
    let wrong = [
        (
            "STUB_VERSION",
            "PMIx 2.2.5",
            "loading libpmix: libpmix.so.2 is `PMIx 2.2.5`, and versions 3 to 5 can be used",
        ),
        ("STUB_VERSION", "OpenPMIx 6.0.0", "and versions 3 to 5 can be used"),
        ("STUB_VERSION", "", "and versions 3 to 5 can be used"),
        ("STUB_INIT", "-25", "connecting with the launcher's server: UNREACHABLE (status -25); "),
        ("STUB_INIT", "-1", r"server: STUB\u{1b}[2J (status -1)"),
        (
            "STUB_NAMESPACE",
            "singleton.7",
            "it takes this process for rank 0 of `singleton.7`, and its variables say rank 0 of `stub`",
        ),
        ("STUB_SIZE", "0", "asking for the size of the job: there are 0 processes, and this one is rank 0"),
        ("STUB_PUT", "-27", "putting exchange.id: "),
        ("STUB_COMMIT", "-27", "putting exchange.id: "),
        ("STUB_FENCE", "-61", "waiting for all processes of the job: "),
        ("STUB_GET", "-46", "asking for the size of the job: "),
        ("STUB_VALUE", "none", "it has succeeded, and gives nothing"),
        ("STUB_VALUE", "long", "getting exchange.id of id 0: the value is a text of 1048575 bytes"),
        ("STUB_VALUE", "strange", "getting exchange.id of id 0: the value is of type 27"),
        ("STUB_FINALIZE", "-25", "telling the launcher that this process ends: "),
    ];
    for (variable, value, expected) in wrong {
        let output = of_a_job(folder.path()).env(variable, value).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{variable}={value}: {said}");
        assert!(said.starts_with("PMIx: ") && said.contains(expected), "{variable}={value}: {said}");
    }
    let long = "n".repeat(300);
    let output = of_a_job(folder.path()).env("STUB_NAMESPACE", long).output().unwrap();
    assert!(said(&output).contains(&"n".repeat(256)), "{}", said(&output));
}

/// Values were freed by the C library's `free`, though the program had another allocator: it crashed.
#[test]
fn values_are_freed_by_the_allocator_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    if build_libpmix(folder.path()).is_none() {
        return;
    }
    // The address sanitizer is an allocator that reports blocks which are not its own.
    let found = Command::new("cc").arg("-print-file-name=libasan.so").output().unwrap();
    let sanitizer = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    if !Path::new(&sanitizer).is_absolute() {
        return println!("skipped: needs the address sanitizer of cc");
    }
    let mut process = of_a_job(folder.path());
    let output = process.env("LD_PRELOAD", sanitizer).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap();
    assert_eq!(said(&output), "0 of 1: id-0; one host: true; nothing: id-0\n");
}

#[test]
fn a_library_that_blocks_is_given_up_after_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    if build_libpmix(folder.path()).is_none() {
        return;
    }
    let blocked = [
        ("STUB_INIT", "connecting with the launcher's server: "),
        ("STUB_FENCE", "waiting for all processes of the job: "),
        ("STUB_GET", "asking for the size of the job: "),
        ("STUB_FINALIZE", "telling the launcher that this process ends: "),
    ];
    // All at once: each takes its limit, which is long enough for the steps before on a busy machine.
    let started = blocked.map(|(variable, expected)| {
        let mut process = of_a_job(folder.path());
        process.arg("5000").env(variable, "block").stdout(Stdio::piped()).stderr(Stdio::piped());
        (process.spawn().unwrap(), expected)
    });
    for (process, expected) in started {
        let output = process.wait_with_output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.contains("no answer within "), "{said}");
    }
}

#[test]
fn processes_of_open_mpi_get_what_the_others_have_put() {
    let mut mpirun = Command::new("mpirun");
    // Ignores an outer launcher: this `mpirun` starts a job of its own.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PMIX_") || name.starts_with("OMPI_")) {
            mpirun.env_remove(name);
        }
    }
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let Ok(version) = Command::new("mpirun").arg("--version").output() else {
        println!("skipped: needs Open MPI (Debian: openmpi-bin)");
        return;
    };
    if !said(&version).contains("Open MPI") {
        println!("skipped: needs Open MPI (Debian: openmpi-bin), and mpirun is another");
        return;
    }
    let output = mpirun.args(["--oversubscribe", "-n", "8"]).arg(exchange()).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let all = "id-0 id-1 id-2 id-3 id-4 id-5 id-6 id-7";
    let expected: Vec<String> = (0..8)
        .map(|id| format!("{id} of 8: {all}; one host: true; nothing: NOT-FOUND (status -46)"))
        .collect();
    assert_eq!(lines, expected);
}
