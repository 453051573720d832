//! Clients of a rendezvous in other languages (crates/gpc-rendezvous/examples/clients): tasks in shell, Python, C and
//! Java meet through `gpc rendezvous serve`, and each receives the contacts of all.

#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpc_test_support::process::first_line;
use tempfile::TempDir;

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// Time limit of a client, in seconds: it passes only if something is broken.
const PATIENCE: &str = "100";

/// Returns the folder of the clients.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpc-rendezvous/examples/clients")
}

fn is_there(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A client: the name of its language, and its path.
#[derive(Clone)]
struct Client(&'static str, PathBuf);

/// Returns the clients that can run here; prints what the others need.
fn clients() -> &'static [Client] {
    static CLIENTS: OnceLock<(Vec<Client>, TempDir)> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let mut found = Vec::new();
        match is_there("curl", "--version") {
            true => found.push(Client("shell", sources().join("meet.sh"))),
            false => println!("skipped: needs curl"),
        }
        match is_there("python3", "--version") {
            true => found.push(Client("Python", sources().join("meet.py"))),
            false => println!("skipped: needs python3"),
        }
        match is_there("cc", "--version") {
            true => found.push(Client("C", built_c(folder.path()))),
            false => println!("skipped: needs a C compiler"),
        }
        match is_there("javac", "-version") {
            true => found.push(Client("Java", built_java(folder.path()))),
            false => println!("skipped: needs a JDK"),
        }
        (found, folder)
    };
    &CLIENTS.get_or_init(build).0
}

fn built_c(folder: &Path) -> PathBuf {
    let program = folder.join("meet");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    assert!(compile.arg(&program).arg(sources().join("meet.c")).status().unwrap().success());
    program
}

/// Returns a script that runs the compiled class: `java Meet.java` would compile it for each task.
fn built_java(folder: &Path) -> PathBuf {
    let mut compile = Command::new("javac");
    compile.args(["--release", "11", "-Xlint:all", "-Werror", "-d"]).arg(folder);
    assert!(compile.arg(sources().join("Meet.java")).status().unwrap().success());
    let script = folder.join("meet-java");
    let options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";
    let text = format!("#!/bin/sh\nexec java {options} -cp '{}' Meet \"$@\"\n", folder.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    script
}

/// Returns what a client decodes from level-n data: its lines, or its error.
fn decoded(client: &Client, level: u16, data: &[u8]) -> Result<String, String> {
    let mut command = Command::new(&client.1);
    command.args(["--decode", &level.to_string()]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A client that rejects the data early closes its input.
    let _ = child.stdin.take().unwrap().write_all(data);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    match status.success() {
        true => Ok(String::from_utf8(stdout).unwrap()),
        false => Err(String::from_utf8(stderr).unwrap()),
    }
}

#[test]
fn each_client_decodes_the_original_vector() {
    let data = STANDARD.decode("MiAyIDMgAQIDMyABAgMyIDMgAQIDMyABAgM=").unwrap();
    for client in clients() {
        assert_eq!(decoded(client, 2, &data), Ok("\\x01\\x02\\x03\n".repeat(4)), "{}", client.0);
    }
}

#[test]
fn each_client_decodes_all_good_data_alike() {
    let all: Vec<u8> = (1..=255).collect();
    let mut printed = Vec::new();
    for byte in &all {
        match byte {
            0..32 | b'\\' | 127 => printed.extend(format!("\\x{byte:02x}").bytes()),
            _ => printed.push(*byte),
        }
    }
    for client in clients() {
        for (level, data, lines) in [
            (0, "2 ab", "ab\n"),
            (0, "0 ", "\n"),
            (1, "0 ", ""),
            (1, "3 0 1  2 1 ", "\n \n1 \n"),
            (2, "2 0 0 ", ""),
            (2, "2 1 2 ab0 ", "ab\n"),
            (3, "1 1 1 5 1 1 1", "1 1 1\n"),
            (1, "1 2 ü", "ü\n"),
        ] {
            assert_eq!(decoded(client, level, data.as_bytes()), Ok(lines.into()), "{}: {data}", client.0);
        }
        let mut child = Command::new(&client.1);
        child.args(["--decode", "0"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&[b"255 ", &all[..]].concat()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", client.0);
        assert_eq!(output.stdout, [&printed[..], b"\n"].concat(), "{}", client.0);
    }
}

#[test]
fn each_client_refuses_bad_data() {
    for client in clients() {
        for (level, data) in [
            (0, ""),
            (0, "1"),
            (0, "2 a"),
            (0, "1 ab"),
            (1, "1 "),
            (1, "01 1 a"),
            (1, " "),
            (1, "-1 1 a"),
            (1, "+1 1 a"),
            (1, "1\n1 a"),
            (1, "1 9999999999999999 a"),
            (1, "99999999999999999999999 1 a"),
            (2, "2 1 1 a"),
            (2, "2 0 0 0 "),
            (2, "1 1 1 a "),
        ] {
            let refused = decoded(client, level, data.as_bytes());
            assert!(refused.is_err_and(|why| why.contains("data")), "{}: {data:?}", client.0);
        }
    }
}

/// A service of this test; it ends with this value.
struct Service {
    process: Child,
    url: String,
    folder: TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    fn start() -> Service {
        let folder = tempfile::tempdir().unwrap();
        let (process, url) = Service::serve(folder.path(), "127.0.0.1:0", &[]);
        Service { process, url, folder }
    }

    /// Starts a service that stores acknowledged data in this folder. Returns it with its URL.
    fn serve(folder: &Path, listen: &str, more: &[&str]) -> (Child, String) {
        let mut serve = Command::new(EXE);
        serve.args(["rendezvous", "serve", "--listen", listen, "--token-file"]).arg(folder.join("token"));
        serve.arg("--store").arg(folder.join("store")).args(more).current_dir(folder);
        serve.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = serve.spawn().unwrap();
        let url = first_line(&mut process);
        assert!(url.ends_with("/rendezvous"), "{url:?}");
        (process, url)
    }

    /// Returns its address.
    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix("/rendezvous").unwrap()
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// Returns the output of a sub-command of `gpc rendezvous`.
    fn gpc(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(EXE);
        command.arg("rendezvous").args(arguments).env("GPC_RENDEZVOUS_TOKEN_FILE", self.token_file());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn create(&self, capacity: &str, more: &[&str]) -> String {
        let arguments = ["create", "--service", &self.url, "--capacity", capacity];
        self.gpc(&[&arguments[..], more].concat())
    }

    /// Starts a task with this rank.
    fn task(&self, client: &Client, rank: &str, contact: &str, variables: &[(&str, &str)]) -> Child {
        let mut command = Command::new(&client.1);
        command.args([contact, rank]).env("MEET_SECONDS", PATIENCE);
        command.env("GPC_RENDEZVOUS_TOKEN_FILE", self.token_file()).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Checks that every task succeeds, with these lines.
#[track_caller]
fn all_print(tasks: Vec<Child>, lines: &str) {
    for task in tasks {
        let output = task.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), lines);
    }
}

/// Returns the languages of the tasks, in order: each client alone, and all of them mixed.
fn mixtures() -> Vec<Vec<Client>> {
    let mut all: Vec<Vec<Client>> = clients().iter().map(|client| vec![client.clone()]).collect();
    all.push(clients().to_vec());
    all.retain(|languages| !languages.is_empty());
    all
}

/// Returns the code blocks of a page, each with its language.
fn blocks(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.split_once('\n'))
        .map(|(language, text)| (language.to_owned(), text.to_owned() + "\n"))
        .collect()
}

/// The commands in docs/rendezvous.md have the output that the page shows.
#[test]
fn the_rendezvous_by_hand_is_true() {
    if !clients().iter().any(|client| client.0 == "shell") {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rendezvous.md");
    let blocks = blocks(&std::fs::read_to_string(page).unwrap());
    let [(sh, serve), (again, meet), (text, shown), ..] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!([sh, again, text], ["sh", "sh", "text"]);
    let folder = tempfile::tempdir().unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::os::unix::fs::symlink(crates, folder.path().join("crates")).unwrap();
    let path = format!("{}:{}", Path::new(EXE).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&folder).env("PATH", &path).env("MEET_SECONDS", PATIENCE);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    };

    const THERE: &str = "127.0.0.1:4100";
    assert!(serve.contains(THERE) && meet.contains(THERE));
    let mut process =
        shell(&serve.replace(THERE, "127.0.0.1:0").replace("gpc rendezvous", "exec gpc rendezvous"))
            .spawn()
            .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let url = lines.map(Result::unwrap).find(|line| line.starts_with("http://")).unwrap();
    let service = Service { process, url, folder: tempfile::tempdir().unwrap() };
    let output = shell(&meet.replace(THERE, service.address())).output().unwrap();
    assert!(output.status.success());
    assert_eq!(&String::from_utf8(output.stdout).unwrap(), shown);
}

const SIX: &str = "a:7000\na:7001\na:7002\nb:7000\nb:7001\nb:7002\n";

#[test]
fn two_subjobs_of_three_meet_through_two_levels() {
    let service = Service::start();
    for languages in mixtures() {
        let top = service.create("2", &["--level", "2"]);
        let mut tasks = Vec::new();
        for (subjob, host) in ["a", "b"].into_iter().enumerate() {
            let job = service.create("3", &["--parent", &top, "--rank", &subjob.to_string()]);
            for rank in 0..3 {
                let client = &languages[(3 * subjob + rank) % languages.len()];
                let contact = format!("{host}:700{rank}");
                let variables = [("GPC_JOB_HANDLE", job.as_str()), ("GPC_MULTIJOB_HANDLE", top.as_str())];
                tasks.push(service.task(client, &rank.to_string(), &contact, &variables));
            }
        }
        all_print(tasks, SIX);
    }
}

/// As in the source document, the task of rank 0 is the controlling task of its subjob; the service does nothing by
/// itself.
#[test]
fn the_task_of_rank_0_registers_its_subjob_above() {
    let service = Service::start();
    for languages in mixtures() {
        let top = service.create("2", &["--level", "2"]);
        let mut tasks = Vec::new();
        for (subjob, host) in ["a", "b"].into_iter().enumerate() {
            let (job, subjob_rank) = (service.create("3", &[]), subjob.to_string());
            for rank in 0..3 {
                let client = &languages[(3 * subjob + rank) % languages.len()];
                let variables = [
                    ("GLOBUS_GRAM_JOB_HANDLE", job.as_str()),
                    ("GLOBUS_GRAM_MULTIJOB_HANDLE", top.as_str()),
                    ("GLOBUS_GRAM_SUBJOB_RANK", subjob_rank.as_str()),
                ];
                tasks.push(service.task(client, &rank.to_string(), &format!("{host}:700{rank}"), &variables));
            }
        }
        all_print(tasks, SIX);
    }
}

#[test]
fn two_by_two_by_two_meet_through_three_levels() {
    let service = Service::start();
    let Some(languages) = mixtures().pop() else { return };
    let top = service.create("2", &["--level", "3"]);
    let (mut tasks, mut contacts) = (Vec::new(), String::new());
    for site in 0..2 {
        let above = ["--level", "2", "--parent", &top, "--rank", &site.to_string()];
        let multijob = service.create("2", &above);
        for subjob in 0..2 {
            let job = service.create("2", &["--parent", &multijob, "--rank", &subjob.to_string()]);
            for rank in 0..2 {
                let contact = format!("{site}-{subjob}-{rank}");
                let client = &languages[tasks.len() % languages.len()];
                let variables = [("GPC_JOB_HANDLE", job.as_str())];
                tasks.push(service.task(client, &rank.to_string(), &contact, &variables));
                contacts += &(contact + "\n");
            }
        }
    }
    all_print(tasks, &contacts);
}

/// Forwards requests of clients to the service, and drops every other answer after the service has sent it. Returns its
/// address; ends with the process of the test.
fn lossy(service: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, service) = (listener.local_addr().unwrap().to_string(), service.to_owned());
    let pass = move |mut client: TcpStream, lost: bool| {
        let mut upstream = TcpStream::connect(&service).unwrap();
        for stream in [&client, &upstream] {
            stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        }
        let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        let asking = thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let mut first = [0; 1];
        if upstream.read(&mut first).unwrap_or(0) == 1 && !lost {
            let _ = client.write_all(&first);
            let _ = std::io::copy(&mut upstream, &mut client);
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = asking.join();
    };
    thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            let pass = pass.clone();
            thread::spawn(move || pass(client, number % 2 == 0));
        }
    });
    address
}

#[test]
fn who_asks_again_after_a_lost_answer_is_no_second_registrant() {
    let service = Service::start();
    for client in clients() {
        let job = service.create("1", &[]);
        let (at, rest) = job.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let through = format!("http://{}/{rest}", lossy(at));
        // The first answer to the registration is lost, and the first one to the wait.
        let task = service.task(client, "assign", "a:7000", &[("GPC_JOB_HANDLE", &through)]);
        all_print(vec![task], "a:7000\n");
    }
}

/// Polls until a rendezvous has this number of registrants.
fn until_there_are(service: &Service, tally: u64, handle: &str) {
    // Each poll starts a process, so all of them take minutes.
    for _ in 0..10_000 {
        let shown = service.gpc(&["show", handle, "--output", "json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        if shown["tally"] == tally {
            return;
        }
    }
    panic!("{tally} have never been there");
}

#[test]
fn tasks_meet_though_the_service_is_killed_between() {
    let mut service = Service::start();
    for languages in mixtures() {
        let job = service.create("3", &[]);
        let task = |service: &Service, rank: usize| {
            let client = &languages[rank % languages.len()];
            service.task(client, &rank.to_string(), &format!("a:700{rank}"), &[("GPC_JOB_HANDLE", &job)])
        };
        let mut tasks = vec![task(&service, 0), task(&service, 1)];
        until_there_are(&service, 2, &job);
        // On Unix this is SIGKILL.
        service.process.kill().unwrap();
        service.process.wait().unwrap();
        tasks.push(task(&service, 2));
        let (process, url) = Service::serve(service.folder.path(), service.address(), &[]);
        assert_eq!(url, service.url);
        service.process = process;
        all_print(tasks, "a:7000\na:7001\na:7002\n");
    }
}

/// Script that creates an authority, and a certificate for 127.0.0.1 that it has signed.
const CERTIFICATES: &str = "
exec 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca -addext keyUsage=critical,keyCertSign
openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=service
printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' >extensions
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile extensions
chmod 600 key.pem
";

#[test]
fn tasks_meet_over_tls_and_trust_no_other_certificate() {
    if !is_there("openssl", "version") {
        println!("skipped: needs openssl");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", CERTIFICATES]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let (process, url) = Service::serve(folder.path(), "127.0.0.1:0", &tls);
    let service = Service { process, url, folder };
    assert!(service.url.starts_with("https://"), "{}", service.url);
    let authority = service.folder.path().join("ca.pem");
    let authority = authority.to_str().unwrap();
    let empty = service.folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let empty = ("GPC_RENDEZVOUS_CA_FILE", empty.to_str().unwrap());
    for client in clients().iter().filter(|client| client.0 != "C") {
        let job = service.create("1", &["--ca", authority]);
        let handle = ("GPC_JOB_HANDLE", job.as_str());
        // Java said of an empty file that the service had ended the handshake.
        for variables in [&[handle][..], &[handle, empty]] {
            let output = service.task(client, "0", "a:7000", variables).wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("certificate"), "{}: {said}", client.0);
        }
        let task = service.task(client, "0", "a:7000", &[handle, ("GPC_RENDEZVOUS_CA_FILE", authority)]);
        all_print(vec![task], "a:7000\n");
    }
}

#[test]
fn what_the_service_refuses_is_said() {
    let service = Service::start();
    for client in clients() {
        let job = service.create("2", &[]);
        let taken = service.task(client, "0", "a:7000", &[("GPC_JOB_HANDLE", &job)]);
        let says = |task: Child, what: &str| {
            let output = task.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(what), "{}: {said}", client.0);
            assert_eq!(output.stdout, b"", "{}", client.0);
        };
        let beyond = service.task(client, "2", "a:7002", &[("GPC_JOB_HANDLE", &job)]);
        says(beyond, "rank-out-of-range");
        let with_file = |file: &str| {
            let variables = [("GPC_JOB_HANDLE", job.as_str()), ("GPC_RENDEZVOUS_TOKEN_FILE", file)];
            service.task(client, "1", "a:7001", &variables)
        };
        let wrong = service.folder.path().join("wrong");
        std::fs::write(&wrong, "0".repeat(64) + "\n").unwrap();
        says(with_file(wrong.to_str().unwrap()), "unauthorized");
        says(with_file("/dev/null"), "has no token");
        service.gpc(&["destroy", &job]);
        says(taken, "destroyed");
    }
}
