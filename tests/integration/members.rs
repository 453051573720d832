//! The example `members`, which needs other processes: three of them, with a secret and a peers file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chained_gpc::Secret;
use chained_gpc::bootstrap::write_secret;
use gpc_test_support::ports;
use gpc_test_support::process::{Capture, Owned, spawn_piped};
use gpc_test_support::waiting::until;

/// The program of the example. `cargo test` builds it with the tests of this package, unless it is told to build this
/// test alone.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let program = test.parent().expect("it is in `deps`").with_file_name("examples").join("members");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/members.rs");
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    if modified(&program) < modified(&source) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", "members"]);
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo runs this test").success());
    }
    program
}

#[test]
fn three_processes_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let peers: String =
        (0..).zip(ports::free::<3>()).map(|(id, address)| format!("{id} {address}\n")).collect();
    let job = "job 5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60\n";
    std::fs::write(folder.path().join("peers.txt"), [job, &peers].concat()).expect("a new file");
    let secret = Secret::random().expect("the system is random");
    write_secret(&folder.path().join("job.secret"), &secret).expect("a new file");
    let program = program();
    let start = |id: u32| {
        let mut command = Command::new(&program);
        command.arg(id.to_string()).current_dir(folder.path()).stdin(Stdio::piped());
        Owned(spawn_piped(&mut command))
    };
    let [mut root, one, two] = [0, 1, 2].map(start);
    let printed = Capture::read(root.0.stdout.take().expect("it is piped"));
    let has_ended = |root: &mut Owned| root.0.try_wait().expect("it is a child").is_some();
    until("id 0 has called all, or has ended", || printed.so_far().ends_with('\n') || has_ended(&mut root));
    let ends = [root, one, two].map(Owned::ended);
    assert_eq!(printed.so_far(), "3 processes answered\n", "{ends:?}");
    assert_eq!(ends, [(); 3].map(|()| (Some(0), String::new(), String::new())));
}
