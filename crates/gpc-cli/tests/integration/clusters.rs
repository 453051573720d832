//! The command in clusters that meet by IMPI: real processes and the real server, with some processes killed.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![cfg(feature = "impi")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use gpc_test_support::process::{first_line, text};

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

const LAUNCHER: &str = "mpiexec.mpich";

/// Enough for any machine: this time passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a secret, for the clusters of one test.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        assert!(gpc(&["secret"]).arg(place.secret()).stderr(Stdio::null()).status().unwrap().success());
        place
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("secret")
    }
}

fn gpc(arguments: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(arguments).stdin(Stdio::null());
    for name in ["GPC_IMPI_SERVER", "GPC_IMPI_RANK", "GPC_SECRET_FILE", "GPC_HOST_ADDRESS", "IMPI_AUTH_KEY"] {
        command.env_remove(name);
    }
    command
}

/// The server of `gpc impi server`.
struct Server {
    process: Child,
    address: String,
    /// Lines of its standard error.
    said: Receiver<String>,
}

impl Server {
    fn start(clients: usize) -> Server {
        Server::of(gpc(&["impi", "server", &clients.to_string(), "--trace"])).unwrap()
    }

    /// Starts a server that prints its address.
    fn of(mut command: Command) -> std::io::Result<Server> {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let address = first_line(&mut process);
        let (said, lines) = channel();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(said.send(line))));
        Ok(Server { process, address, said: lines })
    }

    /// Waits until the server reports for each of these clients that it has sent this.
    fn hears(&self, clients: &[u32], what: &str) {
        let mut missing = clients.to_vec();
        while !missing.is_empty() {
            let line = self.said.recv_timeout(PATIENCE).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let is = |client: u32| words.contains(&"client") && words.contains(&client.to_string().as_str());
            if line.contains(what) {
                missing.retain(|client| !is(*client));
            }
        }
    }

    fn ends(mut self) -> bool {
        self.process.wait().unwrap().success()
    }
}

/// Starts a process of a cluster as a step of Slurm on one node does: no launcher ends the other processes if it fails.
fn process(server: &Server, place: &Place, (cluster, count): (u32, u32), id: u32) -> Child {
    let mut command = gpc(&["call", "facts", "--tree", "hosts+binomial", "--wait-for-peers", "50s"]);
    // Steps of other sessions need other names.
    let job = u32::from(server.port()) * 64 + cluster;
    command.env("GPC_IMPI_SERVER", &server.address).env("GPC_IMPI_RANK", cluster.to_string());
    command.env("GPC_SECRET_FILE", place.secret());
    command.env("GPC_HOST_ADDRESS", format!("127.1.{cluster}.{}", id + 1));
    command
        .env("SLURM_JOB_ID", job.to_string())
        .env("SLURM_STEP_ID", "0")
        .env("SLURM_PROCID", id.to_string());
    command.env("SLURM_STEP_NUM_TASKS", count.to_string()).env("SLURM_STEP_NODELIST", "here");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

impl Server {
    fn port(&self) -> u16 {
        self.address.rsplit(':').next().unwrap().parse().unwrap()
    }
}

fn processes(server: &Server, place: &Place, cluster: u32, count: u32) -> Vec<Child> {
    (0..count).map(|id| process(server, place, (cluster, count), id)).collect()
}

fn ended(process: Child) -> Output {
    process.wait_with_output().unwrap()
}

/// Returns the error output of processes that have failed.
fn failures(processes: Vec<Child>) -> Vec<String> {
    let failure = |process| {
        let output = ended(process);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
        text(&output.stderr)
    };
    processes.into_iter().map(failure).collect()
}

/// Kills one process, and waits until it is gone. Returns its number.
fn kill(processes: &mut Vec<Child>, id: usize) -> u32 {
    let mut process = processes.remove(id);
    process.kill().unwrap();
    process.wait().unwrap();
    process.id()
}

#[track_caller]
fn is_whole(output: &Output, count: usize) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{out}\n{err}");
    let rows: Vec<&str> = out.lines().filter(|line| line.contains("host=")).collect();
    assert_eq!(rows.len(), count, "{out}");
    assert!(out.contains(&format!("done {count} of {count}")), "{out}");
}

#[test]
fn clusters_of_a_launcher_make_one_call() {
    let (place, server) = (Place::new(), Server::start(3));
    let cluster = |rank: u32, hosts: u32| {
        let script = format!(
            "GPC_HOST_ADDRESS=127.1.{rank}.$((PMI_RANK+1)) exec {EXE} call facts --tree hosts+binomial --secret-file {}",
            place.secret().display()
        );
        let mut command = Command::new(LAUNCHER);
        command.args(["-n", &hosts.to_string(), "sh", "-c", &script]).stdin(Stdio::null());
        command.env("GPC_IMPI_SERVER", &server.address).env("GPC_IMPI_RANK", rank.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let clusters: Result<Vec<Child>, _> =
        [(0, 3), (1, 2), (2, 2)].map(|(rank, hosts)| cluster(rank, hosts)).into_iter().collect();
    let Ok(clusters) = clusters else {
        let mut server = server;
        server.process.kill().unwrap();
        server.process.wait().unwrap();
        return println!("skipped: needs {LAUNCHER}");
    };
    let outputs: Vec<Output> = clusters.into_iter().map(ended).collect();
    is_whole(&outputs[0], 7);
    for other in &outputs[1..] {
        assert!(other.status.success(), "{}", text(&other.stderr));
        assert_eq!(text(&other.stdout) + &text(&other.stderr), "");
    }
    // The server has received FINI from all three.
    assert!(server.ends());
}

/// A process without a launcher is a cluster by itself.
#[test]
fn processes_alone_are_clusters() {
    let (place, server) = (Place::new(), Server::start(2));
    let start = |rank: &str| {
        let mut command = gpc(&["call", "facts", "--secret-file"]);
        command.arg(place.secret()).env("GPC_IMPI_SERVER", &server.address).env("GPC_IMPI_RANK", rank);
        command.env("GPC_HOST_ADDRESS", "127.0.0.1").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let other = start("1");
    is_whole(&ended(start("0")), 2);
    assert!(ended(other).status.success() && server.ends());
}

/// A process that is lost before all clusters are there ends its own cluster. Another cluster can take its place.
#[test]
fn a_cluster_that_is_lost_can_come_again() {
    let (place, server) = (Place::new(), Server::start(2));
    for lost in [0, 1, 3] {
        let mut cluster = processes(&server, &place, 0, 4);
        server.hears(&[0], "IMPI");
        let pid = kill(&mut cluster, lost);
        for said in failures(cluster) {
            let named = match lost {
                0 => "the root of this cluster, client 0, has gone before".to_owned(),
                _ => format!("process {lost} of this cluster (pid {pid} on host "),
            };
            assert!(said.contains(&named), "{lost}: {said}");
        }
        server.hears(&[0], "lost");
    }
    let (other, cluster) = (processes(&server, &place, 1, 1), processes(&server, &place, 0, 4));
    let outputs: Vec<Output> = cluster.into_iter().chain(other).map(ended).collect();
    is_whole(&outputs[0], 5);
    assert!(outputs[1..].iter().all(|output| output.status.success()));
    assert!(server.ends());
}

/// Starts a client that is silent after all have joined, so that the others wait for it.
fn silent(server: &Server, rank: u8) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"AUTH\0\0\0\x04\0\0\0\x01IMPI\0\0\0\x04\0\0\0").unwrap();
    stream.write_all(&[rank]).unwrap();
    stream
}

#[test]
fn whoever_is_lost_within_the_session_ends_it_for_all() {
    for lost in [Some(0), Some(2), None] {
        let (place, mut server) = (Place::new(), Server::start(3));
        let (mut one, other) = (processes(&server, &place, 0, 4), processes(&server, &place, 1, 2));
        let mut silent = silent(&server, 2);
        server.hears(&[0, 1], "C_VERSION");
        match lost {
            Some(lost) => drop(kill(&mut one, lost)),
            None => server.process.kill().unwrap(),
        }
        for said in failures(one) {
            let expected = match lost {
                Some(0) => "the root of this cluster, client 0, has gone before",
                Some(_) => "process 2 of this cluster",
                None => "client 0 at 127.0.0.1",
            };
            assert!(said.contains(expected), "{lost:?}: {said}");
        }
        for said in failures(other) {
            assert!(
                said.contains("client 1") && said.contains("while waiting for COLL C_VERSION"),
                "{lost:?}: {said}"
            );
        }
        assert!(!server.ends());
        // Its connection is closed, too.
        let mut rest = Vec::new();
        let _ = silent.read_to_end(&mut rest);
    }
}

/// The reference server accepts the labels of this project, but does not return them.
#[test]
fn a_server_that_carries_no_ports_is_enough_for_one_process_on_each_host() {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpc-impi/tests/integration/peers/reference_like.py");
    let start = || {
        let mut python = Command::new("python3");
        python.arg(&script).arg("2").env("IMPI_AUTH_NONE", "").stdin(Stdio::null());
        Server::of(python)
    };
    let (Ok(server), place) = (start(), Place::new()) else { return println!("skipped: needs python3") };
    let clusters = [processes(&server, &place, 0, 3), processes(&server, &place, 1, 2)];
    let mut outputs: Vec<Output> = clusters.into_iter().flatten().map(ended).collect();
    // The root of each cluster reports the effect.
    for root in [0, 3] {
        let err = text(&std::mem::take(&mut outputs[root].stderr));
        let missed = "has not carried the labels of this project: the public keys of processes are not known";
        assert!(err.contains(missed) && err.lines().count() == 1, "{err}");
    }
    is_whole(&outputs[0], 5);
    assert!(outputs[1..].iter().all(|output| output.status.success() && output.stderr.is_empty()));
    assert!(server.ends());

    // Two processes of one host share one port there.
    let server = start().unwrap();
    let start = |rank: &str| {
        let mut command = Command::new(LAUNCHER);
        command.args(["-n", "2", EXE, "call", "facts"]).stdin(Stdio::null()).env("GPC_IMPI_RANK", rank);
        command.env("GPC_IMPI_SERVER", &server.address).env("GPC_SECRET_FILE", place.secret());
        command.env("GPC_HOST_ADDRESS", "127.1.9.1").stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    let clusters: Result<Vec<Child>, _> = ["0", "1"].map(start).into_iter().collect();
    let mut process = server.process;
    match clusters {
        Ok(clusters) => {
            for cluster in clusters {
                let output = ended(cluster);
                let err = text(&output.stderr);
                assert!(!output.status.success(), "{err}");
                assert!(err.contains("has 2 processes, and the server at 127.0.0.1:"), "{err}");
            }
        }
        Err(_) => println!("skipped: needs {LAUNCHER}"),
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn what_is_missing_is_an_error() {
    let said = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = gpc(arguments).envs(variables.iter().copied()).output().unwrap();
        assert_eq!(text(&output.stdout), "");
        (output.status.code(), text(&output.stderr))
    };
    let call = ["call", "facts"];
    let (status, err) = said(&[("GPC_IMPI_RANK", "0")], &call);
    assert!(status == Some(1) && err.contains("GPC_IMPI_RANK is set and GPC_IMPI_SERVER is not"), "{err}");
    let nobody =
        [("GPC_IMPI_SERVER", "127.0.0.1:1"), ("GPC_IMPI_RANK", "0"), ("GPC_HOST_ADDRESS", "127.0.0.1")];
    let (status, err) = said(&nobody, &call);
    assert!(
        status == Some(1) && err.contains("no file of a secret is named") && err.contains("gpc secret FILE"),
        "{err}"
    );
    let place = Place::new();
    let secret = place.secret();
    let call = ["call", "facts", "--secret-file", secret.to_str().unwrap()];
    let (status, err) = said(&nobody, &call);
    assert!(status == Some(1) && err.contains("no connection to the IMPI server `127.0.0.1:1`"), "{err}");
    let far = [("GPC_IMPI_SERVER", "192.0.2.1:1"), nobody[1], nobody[2]];
    let (status, err) = said(&far, &call);
    assert!(status == Some(1) && err.contains("(at 127.0.0.1:") && err.contains("GPC_HOST_ADDRESS"), "{err}");
    for arguments in
        [&["call", "facts", "-n", "2", "--secret-file", "x"][..], &["call", "facts", "--secret-file", "x"]]
    {
        let (status, err) = said(&[], arguments);
        assert!(status == Some(2) && err.contains("--secret-file goes with --peers FILE"), "{err}");
    }
    let missing = Path::new("/nowhere/secret");
    let (status, err) = said(&nobody, &["call", "facts", "--secret-file", missing.to_str().unwrap()]);
    assert!(status == Some(1) && err.contains("the secret of the job: /nowhere/secret"), "{err}");
}
