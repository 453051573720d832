//! Programs in C and C++, compiled as users compile them, and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of this package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the libraries: that of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Whether a compiler is there; says so if it is not.
pub(crate) fn has_compiler(compiler: &str) -> bool {
    let found = Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: needs the compiler {compiler}");
    }
    found
}

/// Options that find wrong uses of memory and undefined behaviour, if the compiler has them.
pub(crate) fn sanitizers(compiler: &str) -> &'static [&'static str] {
    static FOUND: OnceLock<bool> = OnceLock::new();
    const OPTIONS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let has = || {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (package().join("tests/c/header.c"), folder.path().join("program"));
        let mut command = Command::new(compiler);
        let command = command.args(OPTIONS).arg("-I").arg(package().join("include")).arg(source);
        let found = command.arg("-o").arg(program).output().is_ok_and(|output| output.status.success());
        if !found {
            println!("without sanitizers: the compiler lacks them");
        }
        found
    };
    if *FOUND.get_or_init(has) { OPTIONS } else { &[] }
}

/// Compiles a program without a warning.
pub(crate) fn compile(compiler: &str, standard: &str, options: &[&str], source: &str, program: &Path) {
    let output = Command::new(compiler)
        .args(options)
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-pthread"])
        .arg("-I")
        .arg(package().join("include"))
        .arg("-I")
        .arg(package().join("include/armci"))
        .arg("-I")
        .arg(package().join("tests/c"))
        .arg(package().join("tests/c").join(source))
        .arg("-o")
        .arg(program)
        .arg(libraries().join("libgpc_capi.so"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a program with the shared library and variables, for a minute at most.
fn run(program: &Path, option: &str, variables: &[(&str, &str)]) -> Output {
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .envs(variables.iter().copied())
        .env("LD_LIBRARY_PATH", library_folder(program))
        // Memory that the system does not have is an error of the library's functions, and no end of the test.
        .env("ASAN_OPTIONS", format!("allocator_may_return_null=1:{option}"))
        .output()
        .unwrap()
}

/// A folder in which the library has the name by which programs load it.
pub(crate) fn library_folder(program: &Path) -> PathBuf {
    let folder = program.parent().unwrap().to_owned();
    let link = folder.join("libchained_gpc.so.0");
    if !link.exists() {
        std::os::unix::fs::symlink(libraries().join("libgpc_capi.so"), link).unwrap();
    }
    folder
}

/// Compiles a program, and runs it to a successful end.
pub(crate) fn succeeds(compiler: &str, standard: &str, source: &str) {
    succeeds_with(compiler, standard, source, "detect_leaks=1");
}

/// The same with an option of the address sanitizer.
pub(crate) fn succeeds_with(compiler: &str, standard: &str, source: &str, option: &str) {
    succeeds_in(compiler, standard, source, option, &[]);
}

/// The same with variables of the environment.
pub(crate) fn succeeds_in(
    compiler: &str,
    standard: &str,
    source: &str,
    option: &str,
    variables: &[(&str, &str)],
) {
    if !has_compiler(compiler) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile(compiler, standard, sanitizers(compiler), source, &program);
    let output = run(&program, option, variables);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{source}: {:?}\n{out}\n{err}", output.status);
    assert!(out.ends_with("done\n"), "{source}: {out}\n{err}");
}

#[test]
fn a_call_and_its_outcome() {
    succeeds("cc", "c99", "call.c");
}

#[test]
fn calls_in_flight_tokens_streams_and_trees() {
    succeeds("cc", "gnu11", "async.c");
}

#[test]
fn replies_as_they_arrive() {
    succeeds("cc", "gnu11", "replies.c");
}

#[test]
fn wrong_uses_are_errors() {
    succeeds("cc", "gnu11", "hostile.c");
}

#[test]
fn a_forked_child_cannot_use_its_parents_handles() {
    // A child lacks the threads whose stacks refer to the parent's memory, so that looks leaked there.
    succeeds_with("cc", "gnu11", "fork.c", "detect_leaks=0");
}

#[test]
fn a_polled_context_has_no_thread() {
    succeeds("cc", "gnu11", "polled.c");
}

#[test]
fn inline_functions_take_turns_with_those_of_the_default_workers() {
    succeeds("cc", "gnu11", "turns.c");
}

#[test]
fn exceptions_stay_in_the_wrappers() {
    succeeds("c++", "c++17", "wrappers.cpp");
}

#[test]
fn an_exception_without_a_wrapper_ends_the_process_with_a_message() {
    if !has_compiler("c++") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile("c++", "c++17", &[], "throws.cpp", &program);
    let output = run(&program, "", &[]);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("threw an exception"), "{output:?}");
}

/// Warnings that careful programs ask for. A parameter of a wrapper shadowed a type.
const STRICT: [&str; 5] = ["-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wundef", "-Wcast-qual"];

#[test]
fn the_header_compiles_without_a_warning_by_every_standard() {
    let folder = tempfile::tempdir().unwrap();
    let (c, cpp) = (["c99", "c11", "c17"].as_slice(), ["c++11", "c++14", "c++17", "c++20"].as_slice());
    for (compiler, standards, source) in [
        ("cc", c, "header.c"),
        ("clang", c, "header.c"),
        ("c++", cpp, "header.cpp"),
        ("clang++", cpp, "header.cpp"),
    ] {
        if !has_compiler(compiler) {
            continue;
        }
        let program = folder.path().join("program");
        for standard in standards {
            compile(compiler, standard, &STRICT, source, &program);
        }
        if source == "header.cpp" {
            compile(compiler, "c++17", &["-fno-exceptions", "-fno-rtti"], source, &program);
        }
    }
}

#[test]
fn calls_go_over_a_network_of_the_application() {
    succeeds("cc", "gnu11", "network.c");
}

#[test]
fn exchanges_members_levels_and_secrets() {
    succeeds("cc", "gnu11", "world.c");
}

/// A launcher that speaks PMI-1, and one that speaks PMIx, with the arguments before the number of processes.
const LAUNCHERS: [&[&str]; 2] =
    [&["mpiexec.mpich", "-n"], &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"]];

/// Compiles a program, and runs it by each launcher with these numbers of processes.
fn succeeds_launched(standard: &str, source: &str, arguments: &[&str], counts: &[&str]) {
    if !has_compiler("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compile("cc", standard, sanitizers("cc"), source, &program);
    for launcher in LAUNCHERS {
        if Command::new(launcher[0]).arg("--version").output().is_err() {
            println!("skipped: needs {}", launcher[0]);
            continue;
        }
        for count in counts {
            let output = Command::new("timeout")
                .arg("60")
                .args(launcher)
                .arg(count)
                .arg(&program)
                .args(arguments)
                .env("LD_LIBRARY_PATH", library_folder(&program))
                // The library of the launcher keeps memory until its end.
                .env("ASAN_OPTIONS", "detect_leaks=0")
                .output()
                .unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{launcher:?} {count}: {:?}\n{err}", output.status);
            assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
        }
    }
}

#[test]
fn processes_of_a_launcher_know_each_other() {
    succeeds_launched("gnu11", "launched.c", &[], &["1", "4"]);
}

#[test]
fn polled_processes_of_a_launcher_know_each_other() {
    succeeds_launched("gnu11", "launched.c", &["polled"], &["1", "4", "9"]);
}

/// A Rust program ignores SIGPIPE, so only a program in C died when a peer had gone.
#[test]
fn a_peer_that_dies_sends_no_signal() {
    succeeds_with("cc", "gnu11", "sigpipe.c", "detect_leaks=0");
}
