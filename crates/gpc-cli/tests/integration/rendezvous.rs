//! `gpc rendezvous` and `gpc level` as users run them: real services and real tasks, some of which are killed.

#![cfg(feature = "rendezvous")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use gpc_rendezvous::client::{Client, ClientOptions, draw_token};
use gpc_rendezvous::{FaultKind, Unit};
use gpc_test_support::process::{self, Owned};
use gpc_test_support::waiting::until_some;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, prlimit, waitid};

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// The golden vector of the source document, in base64: two subjobs of two processes, each with the bytes 1 2 3.
const GOLDEN: &str = "MiAyIDMgAQIDMyABAgMyIDMgAQIDMyABAgM=";

fn gpc(words: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(words).stdin(Stdio::null());
    for name in gpc_rendezvous::variables::ALL.into_iter().chain(["GPC_SECRET_FILE", "GPC_KEY_FILE"]) {
        command.env_remove(name);
    }
    command
}

/// Returns exit status, standard output and standard error.
fn finished(mut command: Command, input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input has closed it.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code(), stdout, String::from_utf8(stderr).unwrap())
}

/// Returns the output of a command that succeeds.
fn done(command: Command, input: &[u8]) -> String {
    let (status, out, error) = finished(command, input);
    assert_eq!(status, Some(0), "{error}");
    String::from_utf8(out).unwrap().trim_end().to_owned()
}

/// A job: its folder and its secret.
struct Job {
    folder: tempfile::TempDir,
}

impl Job {
    fn new() -> Job {
        let job = Job { folder: tempfile::tempdir().unwrap() };
        assert_eq!(finished(gpc(&["secret", &job.secret()]), b"").0, Some(0));
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn secret(&self) -> String {
        self.path("secret").display().to_string()
    }

    /// Returns a command that knows the secret.
    fn gpc(&self, words: &[&str]) -> Command {
        let mut command = gpc(words);
        command.env("GPC_SECRET_FILE", self.secret());
        command
    }

    fn serve(&self, more: &[&str]) -> Service {
        let mut words = vec!["rendezvous", "serve"];
        words.extend(more);
        Service::start(self.gpc(&words))
    }

    fn create(&self, service: &str, more: &[&str]) -> String {
        let mut words = vec!["rendezvous", "create", "--service", service];
        words.extend(more);
        done(self.gpc(&words), b"")
    }

    fn register(&self, handle: &str, data: &str, rank: &str) -> String {
        let words = ["rendezvous", "register", handle, "--data", "-", "--rank", rank, "--token", data];
        done(self.gpc(&words), data.as_bytes())
    }

    /// Starts a wait in another process.
    fn waiting(&self, handle: &str, more: &[&str]) -> Child {
        let mut words = vec!["rendezvous", "wait", handle];
        words.extend(more);
        let mut command = self.gpc(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn ended(child: Child) -> process::Ended {
    process::ended(child.wait_with_output().unwrap())
}

/// A running service.
struct Service {
    child: Owned,
    url: String,
}

impl Service {
    fn start(mut command: Command) -> Service {
        let mut child = process::spawn_piped(&mut command);
        let url = process::first_line(&mut child);
        if url.is_empty() {
            let mut error = String::new();
            child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("no service: {error}");
        }
        Service { child: Owned(child), url }
    }

    /// Returns its address in the form of `--listen`.
    fn address(&self) -> String {
        self.url.trim_start_matches("http://").trim_end_matches("/rendezvous").to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.0.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Stops the service. A signal takes effect on all threads of a process at some time after it was sent: until then
    /// the service answered, on a busy machine.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_raw(self.child.0.id().cast_signed()).unwrap();
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        assert!(waitid(WaitId::Pid(pid), stopped).unwrap().is_some_and(|status| status.stopped()));
    }

    /// Ends the service with a signal. Returns its exit status and its error output.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let status = self.child.0.wait().unwrap().code();
        let mut said = String::new();
        self.child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }
}

#[test]
fn the_golden_vector_goes_both_ways() {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.decode(GOLDEN).unwrap();
    let (status, json, error) = finished(gpc(&["level", "decode", "--depth", "2"]), &data);
    assert_eq!((status, error.as_str()), (Some(0), ""));
    let (status, back, _) = finished(gpc(&["level", "encode"]), &json);
    assert_eq!((status, back), (Some(0), data.clone()));
    let (status, _, error) = finished(gpc(&["level", "decode", "--depth", "3"]), &data);
    assert!(status == Some(1) && error.starts_with("gpc: standard input: level data: byte "), "{error}");
    let (status, _, error) = finished(gpc(&["level", "encode", "--depth", "1"]), &json);
    assert!(status == Some(1) && error.contains("a list where a byte string is expected"), "{error}");
}

#[test]
fn wrong_arguments_are_told_from_what_cannot_be_done() {
    for (line, said) in [
        ("rendezvous show", "set GPC_JOB_HANDLE or GLOBUS_GRAM_JOB_HANDLE"),
        ("rendezvous wait --multijob", "set GPC_MULTIJOB_HANDLE or GLOBUS_GRAM_MULTIJOB_HANDLE"),
        ("rendezvous show http://a:1/rendezvous", "this has no `?`: quote it in a shell"),
        ("rendezvous create --service ftp://a --capacity 1", "neither http:// nor https://"),
        ("rendezvous create --service http://a --capacity 1 --rank 0", "--parent <HANDLE>"),
        ("rendezvous register --data x --rank -2", "write a number from 0 on, or `assign`"),
        // The service was asked first, and its answer did not name the argument.
        ("rendezvous create --service http://a --capacity 0", "--capacity 0: write a number of at least 1"),
        (
            "rendezvous create --service http://a --capacity 1 --level 0",
            "--level 0: write a number of at least 1",
        ),
        ("rendezvous create --service http://a --capacity 1 --lifetime 0s", "lives for 1ms at least"),
        ("rendezvous run -n 2 --service http://a", "<PROGRAM>"),
        ("rendezvous run -n 2 true", "name the service: --rendezvous URL"),
        ("run -n 2 --joint true", "--rendezvous is missing"),
        (
            "run --parent http://a/rendezvous?00112233445566778899aabbccddeeff --rank 1 true",
            "--parent goes with --rendezvous URL",
        ),
        // The rank was dropped without an error, and the processes had none.
        (
            "rendezvous run -n 2 --service http://a --parent http://a/rendezvous?00112233445566778899aabbccddeeff --rank 4294967296 -- true",
            "--rank 4294967296: ranks go from 0 to 4294967295",
        ),
        ("rendezvous token", "--secret-file FILE"),
        ("rendezvous destroy --job 00112233445566778899aabbccddeeff", "--service is missing"),
        ("rendezvous serve --tls-cert x", "--tls-key is missing"),
        ("level decode --depth 0", "--depth 0: write a number from 1 to "),
    ] {
        let (status, out, error) = finished(gpc(&line.split(' ').collect::<Vec<_>>()), b"");
        assert!(status == Some(2) && out.is_empty() && error.contains(said), "{line}: {error}");
    }
    let nobody = "http://127.0.0.1:1/rendezvous?00112233445566778899aabbccddeeff";
    for (line, said) in [
        (
            format!("rendezvous show {nobody} --try-for 10ms"),
            "http://127.0.0.1:1/rendezvous cannot be reached: ",
        ),
        (format!("rendezvous show {nobody} --secret-file /nowhere"), "/nowhere: No such file"),
        ("rendezvous serve --listen 0.0.0.0:0".to_owned(), "listen on 127.0.0.1"),
    ] {
        let (status, out, error) = finished(gpc(&line.split(' ').collect::<Vec<_>>()), b"");
        assert!(status == Some(1) && out.is_empty() && error.contains(said), "{line}: {error}");
    }
    let mut disagree = gpc(&["rendezvous", "show"]);
    disagree.env("GPC_JOB_HANDLE", nobody).env("GLOBUS_GRAM_JOB_HANDLE", nobody.replace("00", "01"));
    let (status, _, error) = finished(disagree, b"");
    assert!(status == Some(1) && error.contains("mean the same, and have different values"), "{error}");
}

/// Two services: one has the top and the other the units. The service of the units is their controlling task.
#[test]
fn three_levels_meet_over_two_services() {
    let job = Job::new();
    let (above, below) = (job.serve(&[]), job.serve(&[]));
    let top = job.create(&above.url, &["--capacity", "2", "--level", "3", "--joint"]);
    let middle = ["0", "1"].map(|rank| {
        job.create(&below.url, &["--capacity", "1", "--level", "2", "--parent", &top, "--rank", rank])
    });
    let low = middle
        .map(|middle| job.create(&above.url, &["--capacity", "2", "--parent", &middle, "--rank", "assign"]));
    let waiting = low.each_ref().map(|low| job.waiting(low, &["--of", "top", "--output", "json"]));
    assert_eq!(job.register(&low[0], "a1", "1"), "1");
    assert_eq!(job.register(&low[0], "a0", "assign"), "0");
    assert_eq!(job.register(&low[1], "b0", "assign"), "0");
    assert_eq!(job.register(&low[1], "b1", "assign"), "1");
    let answers = waiting.map(|child| {
        let (status, out, error) = ended(child);
        assert_eq!(status, Some(0), "{error}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    });
    assert_eq!(answers[0]["data"], serde_json::json!([[["a0", "a1"]], [["b0", "b1"]]]));
    assert_eq!((&answers[0]["level"], &answers[0]), (&3.into(), &answers[1]));
    assert_eq!(answers[0]["joint"]["secret"].as_str().unwrap().len(), 64);
    let shown = done(job.gpc(&["rendezvous", "show", &top]), b"");
    assert!(shown.contains("state       complete\n") && shown.contains("registered  2 of 2\n"), "{shown}");
    done(job.gpc(&["rendezvous", "destroy", &top]), b"");
    let (status, _, error) = finished(job.gpc(&["rendezvous", "wait", &top]), b"");
    assert_eq!((status, error.as_str()), (Some(1), "gpc: the resource was destroyed on request\n"));
    for service in [above, below] {
        assert_eq!(service.end(Signal::TERM).0, Some(0));
    }
}

/// The service is killed between registration and completion, and restarted at the same address. No registration is
/// lost, handles stay valid, and waiting clients continue.
#[test]
fn a_service_that_is_killed_goes_on_from_its_store() {
    let job = Job::new();
    let store = job.path("store").display().to_string();
    let service = job.serve(&["--store", &store]);
    let handle = job.create(&service.url, &["--capacity", "2"]);
    assert_eq!(job.register(&handle, "first", "assign"), "0");
    let waiting = job.waiting(&handle, &[]);
    // From then on the client is waiting.
    let waits =
        || done(job.gpc(&["rendezvous", "show", &handle, "--output", "json"]), b"").contains("\"waiting\":1");
    while !waits() {}
    let address = service.address();
    assert_eq!(service.end(Signal::KILL).0, None);
    // A client that finds no service tries again.
    let words = ["rendezvous", "register", &handle, "--data", "/dev/null", "--try-for", "1m"];
    let second = job.gpc(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let service = job.serve(&["--listen", &address, "--store", &store]);
    // The client repeats the request, as if the first answer had been lost.
    assert_eq!(job.register(&handle, "first", "assign"), "0");
    let (status, out, error) = ended(second);
    assert_eq!((status, out.as_str()), (Some(0), "1\n"), "{error}");
    let (status, out, error) = ended(waiting);
    assert_eq!((status, out.as_str()), (Some(0), "2 5 first0 "), "{error}");
    drop(service);
}

/// A store that grew over the limit on file sizes ended the service by a signal, without a message; the limit is like a
/// full disk. Later the registration counted although it was refused, and its error was that the service cannot be
/// reached.
#[test]
fn a_service_outlives_the_limit_on_the_size_of_its_store() {
    let job = Job::new();
    let store = job.path("store").display().to_string();
    let service = job.serve(&["--store", &store]);
    let handle = job.create(&service.url, &["--capacity", "2"]);
    let most = |bytes| {
        let process = Pid::from_raw(service.child.0.id().cast_signed());
        prlimit(process, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    };
    // The file has free pages: only longer data make it grow.
    let data = vec![b'x'; 3 << 20];
    most(Some(fs::metadata(&store).unwrap().len()));
    let words = ["rendezvous", "register", &handle, "--data", "-", "--try-for", "1s"];
    let (status, _, error) = finished(job.gpc(&words), &data);
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("File too large") && error.contains("try again later"), "{error}");
    assert!(error.contains("free disk space") && !error.contains("reached"), "{error}");
    let shown = done(job.gpc(&["rendezvous", "show", &handle]), b"");
    assert!(shown.contains("registered  0 of 2\n"), "{shown}");
    most(None);
    let words = ["rendezvous", "register", &handle, "--data", "-", "--try-for", "1m"];
    assert_eq!(done(job.gpc(&words), &data), "0");
    assert_eq!(service.end(Signal::TERM).0, Some(0));
}

/// The end of a unit's resource is reported above with the name of its controlling task, which is its service.
#[test]
fn a_unit_that_ends_is_named_to_those_who_wait_above() {
    let job = Job::new();
    let (above, below) = (job.serve(&[]), job.serve(&[]));
    let top = job.create(&above.url, &["--capacity", "2", "--level", "2"]);
    let unit = job.create(&below.url, &["--capacity", "2", "--parent", &top, "--rank", "1"]);
    let waiting = job.waiting(&top, &[]);
    done(job.gpc(&["rendezvous", "destroy", &unit]), b"");
    let (status, _, error) = ended(waiting);
    assert_eq!(status, Some(1));
    assert!(
        error.contains("the controlling task of the unit with rank 1, service ")
            && error.contains(&below.url),
        "{error}"
    );
}

/// Only the lease reveals that a service is gone, which takes half a minute.
#[test]
fn a_controlling_service_that_is_killed_is_named_to_those_who_wait_above() {
    let job = Job::new();
    let (above, below) = (job.serve(&[]), job.serve(&[]));
    let top = job.create(&above.url, &["--capacity", "2", "--level", "2"]);
    job.create(&below.url, &["--capacity", "2", "--parent", &top, "--rank", "1"]);
    let mut options = ClientOptions::default();
    options.token = Some(done(job.gpc(&["rendezvous", "token"]), b"").parse().unwrap());
    let client = Client::new(&options).unwrap();
    let (handle, token) = (top.parse().unwrap(), draw_token().unwrap());
    client.control(&handle, Unit::Rank(0), "the test", &token, None).unwrap();
    // A token is for one unit, so the request is refused in either case; the fault differs once the service has
    // registered.
    let refused = || client.control(&handle, Unit::Rank(1), "the test", &token, None).unwrap_err();
    while refused().fault().unwrap().kind != FaultKind::ControllerTaken {}
    let waiting = job.waiting(&top, &["--limit", "2m"]);
    below.signal(Signal::KILL);
    let (status, _, error) = ended(waiting);
    assert_eq!(status, Some(1));
    assert!(error.contains(&below.url) && error.contains("is lost: it has not been heard of"), "{error}");
}

#[test]
fn who_has_no_token_is_told_how_to_name_one() {
    let job = Job::new();
    let service = job.serve(&[]);
    let words = ["rendezvous", "create", "--service", &service.url, "--capacity", "1"];
    let (status, out, error) = finished(gpc(&words), b"");
    assert!(
        status == Some(1) && out.is_empty() && error.contains("--token-file FILE or --secret-file"),
        "{error}"
    );
    let token = done(job.gpc(&["rendezvous", "token"]), b"");
    assert!(token.len() == 64 && !error.contains(&token));
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    let secret = fs::read_to_string(job.path("secret")).unwrap();
    let told: Vec<String> =
        lines.filter(|line| line.contains(&token) || line.contains(secret.trim())).collect();
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_token_file_lets_started_tasks_in_and_goes_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let service = Service::start(gpc(&["rendezvous", "serve", "--token-file", &path.display().to_string()]));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let words = ["rendezvous", "create", "--service", &service.url, "--capacity", "1"];
    assert_eq!(finished(gpc(&words), b"").0, Some(1));
    let mut told = gpc(&words);
    told.env("GPC_RENDEZVOUS_TOKEN_FILE", &path);
    assert!(done(told, b"").starts_with(&service.url));
    assert_eq!(service.end(Signal::INT).0, Some(0));
    assert!(!path.exists());
}

#[test]
fn the_token_of_the_page_stands_in_a_file_that_goes_with_the_service() {
    let service = Service::start(gpc(&["rendezvous", "serve"]));
    let words = ["rendezvous", "create", "--service", &service.url, "--capacity", "1"];
    done(gpc(&words), b"");
    let (status, said) = service.end(Signal::TERM);
    let file = said.lines().find_map(|line| line.split_once("asks for a token, which is in ")).unwrap().1;
    assert_eq!((status, Path::new(file).exists()), (Some(0), false), "{said}");
}

/// Script of a task of `run`: registers, waits for all, and prints the result.
const TASK: &str = "printf %s \"$GPC_SUBJOB_RANK\" | \"$GPC\" rendezvous register --data - >&2 && \"$GPC\" rendezvous wait --of top";

#[test]
fn processes_that_are_started_meet() {
    let job = Job::new();
    let service = job.serve(&[]);
    let top = job.create(&service.url, &["--capacity", "2", "--level", "2"]);
    let run = |rank: &str| {
        let words = ["run", "-n", "3", "--rendezvous", &service.url, "--parent", &top];
        let mut command = job.gpc(&words);
        // The processes get the token only through its file, not through variables inherited from this process.
        command
            .args(["--rank", rank, "--", "env", "-u", "GPC_SECRET_FILE", "sh", "-c", TASK])
            .env("GPC", EXE);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for child in [run("0"), run("1")] {
        let (status, out, error) = ended(child);
        assert_eq!((status, out), (Some(0), "2 3 1 01 01 03 1 11 11 1".repeat(3)), "{error}");
    }
}

/// The token and the certificates of the service are on one host, and the processes on others.
#[test]
fn processes_on_other_hosts_get_the_token() {
    let job = Job::new();
    // The second run finds room only if the first one has destroyed its resource.
    let service = job.serve(&["--resources-max", "1"]);
    let rsh = job.path("rsh");
    fs::write(&rsh, "#!/bin/sh\nshift\nunset GPC_SECRET_FILE\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&rsh, fs::Permissions::from_mode(0o700)).unwrap();
    let rsh = rsh.display().to_string();
    // The token stands in no argument and in no variable of any process.
    let find = "grep -lf $GPC_RENDEZVOUS_TOKEN_FILE /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null";
    let script = format!("{find}; {TASK}");
    for place in [vec!["--hosts", "a,b,c", "--rsh", &rsh], vec!["-n", "3", "--nodes", "2"]] {
        let mut command = job.gpc(&["run", "--rendezvous", &service.url]);
        command.args(place).args(["env", "-u", "GPC_SECRET_FILE", "sh", "-c", &script]).env("GPC", EXE);
        // A handle of an earlier job is not inherited.
        command.env("GPC_MULTIJOB_HANDLE", "http://127.0.0.1:1/rendezvous?00112233445566778899aabbccddeeff");
        let (status, out, error) = finished(command, b"");
        assert_eq!((status, String::from_utf8(out).unwrap()), (Some(0), "3 0 0 0 ".repeat(3)), "{error}");
    }
}

/// A run that fails destroys its resource: the service has room for one.
#[test]
fn a_process_that_fails_is_named_and_its_status_is_that_of_the_run() {
    let job = Job::new();
    let service = job.serve(&["--resources-max", "1"]);
    let run = |more: &[&str]| {
        let mut words = vec!["rendezvous", "run", "-n", "1", "--service", &service.url];
        words.extend(more);
        finished(job.gpc(&words), b"")
    };
    let (status, _, error) = run(&["--", "sh", "-c", "exit 3"]);
    let lines = "gpc: g1.0: ended with status 3\ngpc: 0 of 1 have registered at the rendezvous\n";
    assert_eq!((status, error.as_str()), (Some(3), lines));
    let (status, _, error) = run(&["--", "/nowhere/program"]);
    let line = "gpc: cannot start /nowhere/program (rank 0";
    assert!(status == Some(127) && error.starts_with(line) && error.contains("such program"), "{error}");
    let (status, _, error) = run(&["--time-limit", "200ms", "--", "sleep", "600"]);
    assert!(status == Some(124) && error.contains("longer than 200ms\ngpc: 0 of 1 have"), "{error}");
    // The error was only the service's message about lifetimes.
    let (status, _, error) = run(&["--time-limit", "30d", "--", "true"]);
    assert!(status == Some(2) && error.contains("--time-limit 30d: ") && error.contains("90 s"), "{error}");
    let words = ["run", "--rendezvous", &service.url, "true"];
    let (status, _, error) = finished(gpc(&words), b"");
    assert!(status == Some(1) && error.contains("the service wants another token"), "{error}");
    let (status, _, error) = run(&["true"]);
    assert_eq!((status, error.as_str()), (Some(0), ""));
}

/// The other processes waited for the one that had failed, until the run was ended by hand.
#[test]
fn the_others_are_ended_when_one_fails_before_all_have_registered() {
    let job = Job::new();
    let service = job.serve(&[]);
    // One of the two, whichever comes first, fails.
    let script = "if mkdir \"$ONE\"; then exit 3; fi 2>/dev/null; exec $OTHER";
    let run = |name: &str, other: &str, more: &[&str]| {
        let mut command = job.gpc(&["rendezvous", "run", "-n", "2", "--service", &service.url]);
        command.args(more).args(["--", "sh", "-c", script]);
        command.env("ONE", job.path(name)).env("OTHER", other);
        finished(command, b"")
    };
    let (status, _, error) = run("first", "sleep 600", &[]);
    assert_eq!(status, Some(3), "{error}");
    assert!(error.contains("ended with status 3\n") && error.contains("0 of 2 have registered"), "{error}");
    assert!(error.contains("one more process of g1 was killed since then"), "{error}");
    for keep in [&["--keep-going"][..], &["--on-death", "notify"]] {
        let (status, _, error) = run(keep[0], "sleep 2", keep);
        assert!(status == Some(3) && !error.contains("killed"), "{error}");
    }
}

/// The service was queried with the whole limit of `--try-for` on the thread that handles signals: a run whose service
/// was down ignored signals. Later a signal while the resource was destroyed had no effect.
#[test]
fn a_run_whose_service_is_down_heeds_signals_when_a_process_fails() {
    let job = Job::new();
    let service = job.serve(&[]);
    let script =
        "if mkdir \"$ONE\" 2>/dev/null; then read -r _ <\"$GO\"; exit 3; fi; echo here; exec sleep 600";
    let go = job.path("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let mut command = job.gpc(&["rendezvous", "run", "-n", "2", "--service", &service.url]);
    command.args(["--try-for", "1h", "--", "sh", "-c", script]);
    command.env("ONE", job.path("one")).env("GO", &go);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // The service is down, but does not refuse connections.
    service.stop();
    fs::write(&go, "\n").unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap());
    line.clear();
    while !line.contains("how many have registered at the rendezvous is not known") {
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "{line}");
    }
    assert!(line.contains("ended with status 3\n"), "{line}");
    // A signal that comes before the wait for the service is one that has ended the job.
    let ended = || {
        kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        run.try_wait().unwrap()
    };
    let status = until_some("the end", ended);
    said.read_to_string(&mut line).unwrap();
    assert!(line.contains("stays until its lifetime ends: a signal has ended the wait"), "{line}");
    assert_eq!(status.code(), Some(3));
    service.signal(Signal::CONT);
}

/// The service is killed after the start, and restarted while the processes try to register.
#[test]
fn processes_meet_though_the_service_is_down_for_some_time() {
    let job = Job::new();
    let store = job.path("store").display().to_string();
    let service = job.serve(&["--store", &store]);
    let script = "echo up; read -r line; printf %s a | \"$GPC\" rendezvous register --data - --try-for 1m >&2; \"$GPC\" rendezvous wait";
    let mut command = job.gpc(&["run", "-n", "2", "--rendezvous", &service.url, "--stdin", "all"]);
    command.args(["sh", "-c", script]).env("GPC", EXE);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut out = BufReader::new(run.stdout.take().unwrap());
    let mut text = String::new();
    for _ in 0..2 {
        out.read_line(&mut text).unwrap();
    }
    let address = service.address();
    assert_eq!(service.end(Signal::KILL).0, None);
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let service = job.serve(&["--listen", &address, "--store", &store, "--resources-max", "1"]);
    out.read_to_string(&mut text).unwrap();
    let (status, _, error) = ended(run);
    assert_eq!((status, text.as_str()), (Some(0), "up\nup\n2 1 a1 a2 1 a1 a"), "{error}");
    // The resource was destroyed: there is room for another one.
    job.create(&service.url, &["--capacity", "1"]);
}

/// A service that is gone at the end delays the end for `--try-for`, and the status is that of the job.
#[test]
fn a_resource_that_cannot_be_destroyed_is_said() {
    let job = Job::new();
    let service = job.serve(&[]);
    let words =
        ["run", "--rendezvous", &service.url, "--try-for", "100ms", "sh", "-c", "echo up; read -r line"];
    let mut command = job.gpc(&words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = service.url.clone();
    service.end(Signal::KILL);
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (status, _, error) = ended(run);
    assert_eq!(status, Some(0), "{error}");
    assert!(error.starts_with("gpc: the resource of the job stays until its lifetime ends: "), "{error}");
    assert!(error.contains(&format!("{url} cannot be reached")), "{error}");
}

/// Signals went to the process alone, and its descendants lived on.
#[test]
fn what_a_process_has_started_ends_with_the_run() {
    let job = Job::new();
    let service = job.serve(&[]);
    // The second ignores SIGTERM, and the third is an orphan.
    for script in [
        "sleep 600 & echo $!; wait",
        "(trap '' TERM; exec sleep 600) & echo $!; wait",
        "(sh -c 'sleep 600 & echo $!'); exec sleep 600",
    ] {
        let words = ["rendezvous", "run", "-n", "1", "--service", &service.url, "--", "sh", "-c", script];
        let mut run = job.gpc(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let (status, _, error) = ended(run);
        assert_eq!((status, is_gone(pid)), (Some(143), true), "{script}: {error}");
    }
    // A process that remains after its parent ended by itself.
    let words = ["rendezvous", "run", "-n", "1", "--service", &service.url, "--", "sh", "-c"];
    let mut command = job.gpc(&words);
    command.arg("sleep 600 >/dev/null 2>&1 & echo $!");
    let pid = Pid::from_raw(done(command, b"").parse().unwrap()).unwrap();
    assert!(is_gone(pid));
}

/// Without a secret, a restart generated another token, and every client with a handle was refused.
#[test]
fn a_service_with_a_store_keeps_its_token() {
    let job = Job::new();
    let [store, token] = ["store", "token"].map(|name| job.path(name).display().to_string());
    let words = ["rendezvous", "serve", "--store", &store, "--token-file", &token];
    let service = Service::start(gpc(&words));
    let asks = ["--token-file", &token];
    let mut create = gpc(&["rendezvous", "create", "--service", &service.url, "--capacity", "1"]);
    create.args(asks);
    let handle = done(create, b"");
    let address = service.address();
    assert_eq!(service.end(Signal::TERM).0, Some(0));
    let mut again = gpc(&words);
    again.args(["--listen", &address]);
    let _service = Service::start(again);
    let mut show = gpc(&["rendezvous", "show", &handle]);
    show.args(asks);
    assert!(done(show, b"").contains("registered  0 of 1"));
}

/// The folder with the token was never removed.
#[test]
fn what_a_killed_service_has_left_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = gpc(&["rendezvous", "serve"]);
        command.env("XDG_RUNTIME_DIR", folder.path());
        Service::start(command)
    };
    let count = || fs::read_dir(folder.path()).unwrap().count();
    let (killed, _other) = (start(), start());
    assert_eq!(count(), 2);
    assert_eq!(killed.end(Signal::KILL).0, None);
    assert_eq!(count(), 2);
    let _next = start();
    // The folder of the other running service, and its own.
    assert_eq!(count(), 2);
}

/// Processes that become nodes under `run` needed a resource above, since only `create` had `--joint`.
#[test]
fn processes_of_one_run_become_one_set() {
    let job = Job::new();
    let service = job.serve(&[]);
    let words = ["rendezvous", "run", "-n", "3", "--joint", "--service", &service.url, "--", EXE];
    let mut command = job.gpc(&words);
    command.args(["call", "facts", "--output", "json"]).env("GPC_HOST_ADDRESS", "127.0.0.1");
    let printed: serde_json::Value = serde_json::from_str(&done(command, b"")).unwrap();
    assert_eq!((&printed["nodes"], &printed["coverage"]["done"]), (&3.into(), &3.into()), "{printed}");
}

/// Starts a run whose process prints its number and its handle, and stays.
fn staying(job: &Job, service: &Service) -> (Child, Pid, String) {
    let words = ["rendezvous", "run", "-n", "1", "--service", &service.url, "--", "sh", "-c"];
    let mut command = job.gpc(&words);
    command.arg("echo $$ \"$GPC_JOB_HANDLE\"; exec sleep 600").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (pid, handle) = line.trim().split_once(' ').unwrap();
    (run, Pid::from_raw(pid.parse().unwrap()).unwrap(), handle.to_owned())
}

/// Whether the process is gone, or a zombie.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
}

#[test]
fn a_run_that_is_interrupted_leaves_neither_processes_nor_resources() {
    let job = Job::new();
    let service = job.serve(&[]);
    let (run, pid, handle) = staying(&job, &service);
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, _, error) = ended(run);
    assert_eq!((status, is_gone(pid)), (Some(130), true), "{error}");
    let (status, _, error) = finished(job.gpc(&["rendezvous", "show", &handle]), b"");
    assert!(status == Some(1) && error.contains("has ended that the resource belonged to"), "{error}");
}

#[test]
fn processes_die_with_the_run_that_has_started_them() {
    let job = Job::new();
    let service = job.serve(&[]);
    let (mut run, pid, _) = staying(&job, &service);
    run.kill().unwrap();
    run.wait().unwrap();
    while !is_gone(pid) {
        std::thread::yield_now();
    }
}
