//! Clusters that a real launcher starts and that meet by IMPI: which shapes become one set of nodes, by which tree, and
//! the errors if they do not.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![cfg(feature = "impi")]

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use gpc_test_support::process::{Owned, first_line, text};

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

const LAUNCHER: &str = "mpiexec.mpich";

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in [
        "GPC_IMPI_SERVER",
        "GPC_IMPI_RANK",
        "GPC_IMPI_PORTS",
        "GPC_SECRET_FILE",
        "GPC_HOST_ADDRESS",
        "IMPI_AUTH_KEY",
    ] {
        command.env_remove(name);
    }
    command
}

/// Whether the launcher exists; prints a note if it does not.
fn launches() -> bool {
    match command(LAUNCHER).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: needs {LAUNCHER}");
            false
        }
        tried => tried.unwrap().status.success(),
    }
}

/// Creates a secret in this folder.
fn secret(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    assert!(command(EXE).arg("secret").arg(&path).status().unwrap().success());
    path.to_str().unwrap().to_owned()
}

/// The server of `gpc impi server`.
struct Server {
    process: Owned,
    address: String,
}

impl Server {
    fn start(clients: usize) -> Server {
        let mut command = command(EXE);
        command.args(["impi", "server", &clients.to_string(), "--time-limit", "60s"]).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let address = first_line(&mut process);
        Server { process: Owned(process), address }
    }

    fn ends_well(mut self) -> bool {
        self.process.0.wait().unwrap().success()
    }
}

/// Starts a cluster of this number of processes, each with its own address. They run `gpc call` with these arguments.
fn cluster(server: &Server, secret: &str, (rank, count): (usize, u32), arguments: &str) -> Child {
    let script = format!("GPC_HOST_ADDRESS=127.3.{rank}.$((PMI_RANK+1)) exec {EXE} call {arguments}");
    let mut command = command(LAUNCHER);
    command.args(["-n", &count.to_string(), "sh", "-c", &script]);
    command.env("GPC_IMPI_SERVER", &server.address).env("GPC_IMPI_RANK", rank.to_string());
    command.env("GPC_SECRET_FILE", secret);
    command.spawn().unwrap()
}

/// Returns the outputs of clusters of these sizes, whose processes all have these arguments.
fn clusters(shape: &[u32], arguments: &str) -> Vec<Output> {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start(shape.len()));
    let secret = secret(folder.path(), "secret");
    let start = |cluster_of| cluster(&server, &secret, cluster_of, arguments);
    let clusters: Vec<Child> = shape.iter().copied().enumerate().map(start).collect();
    let outputs = clusters.into_iter().map(|cluster| cluster.wait_with_output().unwrap()).collect();
    // The server has received FINI from all clients.
    assert!(server.ends_well());
    outputs
}

/// The root of a cluster of one process under a launcher held no other process, and the call that holds them ended at
/// once. At its second check the root took this for a loss, and left the session before the other clusters had joined.
#[test]
fn a_cluster_of_one_process_meets_the_others() {
    if !launches() {
        return;
    }
    for shape in [&[1, 1][..], &[1, 2], &[2, 1], &[1]] {
        let count: u32 = shape.iter().sum();
        let outputs = clusters(shape, "facts");
        for output in &outputs {
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{shape:?}: {}",
                text(&output.stderr)
            );
        }
        let out = text(&outputs[0].stdout);
        assert!(out.contains(&format!("done {count} of {count}")), "{shape:?}: {out}");
    }
}

/// With the default tree of other calls, messages went back and forth between the clusters.
#[test]
fn clusters_are_kept_together_where_no_tree_is_named() {
    if !launches() {
        return;
    }
    for (arguments, tree) in [("echo", "hosts+binomial tree"), ("echo --tree binary", "binary tree")] {
        let outputs = clusters(&[3, 2, 2], arguments);
        let out = text(&outputs[0].stdout);
        assert!(out.contains(&format!("echo over 7 ids: {tree}")), "{out}");
    }
}

/// Of two clusters with different secrets, the one that refused the other reported no reason, and wrote no log.
#[test]
fn clusters_with_different_secrets_say_so() {
    if !launches() {
        return;
    }
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start(2));
    let secrets = [secret(folder.path(), "one"), secret(folder.path(), "other")];
    let start = |(rank, secret): (usize, &String)| cluster(&server, secret, (rank, 2), "facts --link tcp");
    let clusters: Vec<Child> = secrets.iter().enumerate().map(start).collect();
    let said: Vec<String> = clusters
        .into_iter()
        .map(|cluster| {
            let output = cluster.wait_with_output().unwrap();
            assert!(!output.status.success());
            text(&output.stderr)
        })
        .collect();
    // Which cluster connects to the other differs from run to run.
    let all = said.concat();
    assert!(all.contains("it refused the proof"), "{said:?}");
    assert!(
        all.contains("a connection is refused") && all.contains("its secret or its job differs"),
        "{said:?}"
    );
}
