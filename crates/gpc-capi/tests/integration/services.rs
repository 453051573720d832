//! `gpc_rendezvous.h` and `impi.h`: programs and examples at real servers, beside clients in other languages, and at
//! servers that are silent, slow, endless, or close.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gpc_impi::client::{ClientSettings, Cluster, Host, Proc, from_ip};
use gpc_impi::serve::Listener;
use gpc_impi::server::Settings;
use gpc_impi::session::Session;
use gpc_impi::wire::Methods;
use gpc_rendezvous::client::{Client, ClientOptions};
use gpc_rendezvous::http::{Options, Server, Tls};
use gpc_rendezvous::{Handle, Parent, RankChoice, Spec};
use tempfile::TempDir;

use crate::package::{flags, has, install, page, program, succeeds};
use crate::programs::{package, sanitizers, succeeds_in};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rendezvous service. Over https it has a certificate of its own.
pub(crate) struct Service {
    server: Server,
    folder: TempDir,
}

impl Service {
    pub(crate) fn start() -> Service {
        Service { server: Server::start(options()).unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn secure() -> Service {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&cert, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut options = options();
        options.tls = Some(Tls { cert, key });
        Service { server: Server::start(options).unwrap(), folder }
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// The file with its certificate.
    fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }
}

fn options() -> Options {
    Options::new(([127, 0, 0, 1], 0).into())
}

/// A server of IMPI for so many clients; its address.
pub(crate) fn impi_server(clients: u32) -> String {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = Settings { limit: PATIENCE, ..Settings::new(clients, Methods { none: true, key: None }) };
    // It ends with its session, or with the process.
    thread::spawn(move || listener.serve(settings, |_, _| {}));
    address
}

/// A server that serves each connection with this function, on a thread each; its address. It ends with the process.
fn serving(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (serve, stream) = (serve.clone(), stream.unwrap());
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Servers that are no good ones, by the names that the programs know.
fn bad_servers() -> [(&'static str, String); 4] {
    // Until the client closes.
    let silent = serving(|mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let closing = serving(drop);
    let nonsense = serving(|mut stream| {
        let _ = stream.write_all(b"SSH-2.0-nothing that a client of these would know\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let endless = serving(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
        // Ends: when the client has closed.
        while stream.write_all(&[b' '; 4096]).is_ok() {}
    });
    [("SILENT", silent), ("CLOSING", closing), ("NONSENSE", nonsense), ("ENDLESS", endless)]
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    event: tally\ndata: {\"tally\":1,\"capacity\":2}\n\n";
const LAST: &str = "event: completed\ndata: {\"level\":1,\"data\":\"MiAxIGEwIA==\",\"joint\":null}\n\n";

/// A service whose stream ends. So many connections are closed at once then, and the next one has the completion.
fn restarting(closed: u32) -> String {
    let connections = Arc::new(AtomicU32::new(0));
    serving(move |mut stream| {
        let index = connections.fetch_add(1, Ordering::SeqCst);
        let _ = stream.read(&mut [0; 4096]);
        let _ = match index {
            0 => stream.write_all(EVENTS.as_bytes()),
            _ if index <= closed => Ok(()),
            _ => stream.write_all(format!("{EVENTS}{LAST}").as_bytes()),
        };
    })
}

#[test]
fn a_client_of_rendezvous_over_http_and_https() {
    for service in [Service::start(), Service::secure()] {
        let services = [("RESTARTED", restarting(3)), ("LEAVING", restarting(u32::MAX))];
        let bad: Vec<(&str, String)> = bad_servers()
            .into_iter()
            .chain(services)
            .map(|(name, address)| (name, format!("http://{address}/rendezvous")))
            .collect();
        let certificate = service.certificate();
        let mut variables: Vec<(&str, &str)> = bad.iter().map(|(name, url)| (*name, url.as_str())).collect();
        variables.push(("SERVICE", service.url()));
        if certificate.exists() {
            variables.push(("GPC_RENDEZVOUS_CA_FILE", certificate.to_str().unwrap()));
        }
        // A forked child lacks the threads of its parent, whose memory looks leaked there.
        succeeds_in("cc", "gnu11", "rendezvous.c", "detect_leaks=0", &variables);
    }
}

#[test]
fn a_function_of_a_subscription_that_throws() {
    let service = Service::start();
    succeeds_in("c++", "c++17", "rendezvous.cpp", "detect_leaks=1", &[("SERVICE", service.url())]);
}

#[test]
fn a_client_of_impi() {
    let bad = bad_servers();
    let mut variables: Vec<(&str, &str)> = bad.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let (one, two) = (impi_server(1), impi_server(2));
    // The other client of the second joins, and says nothing.
    let mut other = TcpStream::connect(&two).unwrap();
    other.write_all(b"AUTH\0\0\0\x04\0\0\0\x01IMPI\0\0\0\x04\0\0\0\x01").unwrap();
    variables.extend([("SERVER", one.as_str()), ("SERVER_OF_TWO", two.as_str())]);
    succeeds_in("cc", "gnu11", "impi.c", "detect_leaks=0", &variables);
}

/// Compiles an example with the installed library; none if something that it needs is not there.
pub(crate) fn example(prefix: &Path, name: &str) -> Option<PathBuf> {
    if !(has("cc") && has("make") && has("pkg-config")) {
        return None;
    }
    install(prefix);
    let program = prefix.join(name);
    succeeds(
        Command::new("cc")
            .arg("-std=c11")
            .args(sanitizers("cc"))
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-pthread"])
            .arg(package().join("examples").join(name).with_extension("c"))
            .args(flags(prefix, &["--cflags", "--libs"]))
            .arg("-o")
            .arg(&program),
    );
    Some(program)
}

/// Starts a program with a limit of two minutes.
fn start(program: &Path, prefix: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).args(arguments).envs(variables.iter().copied());
    command.env("LD_LIBRARY_PATH", prefix.join("lib")).env("MEET_SECONDS", "100");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn prints(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The clusters of the source's examples: three clients with 3, 2 and 2 hosts. The last one is in C, or in Rust.
#[test]
fn three_clients_of_impi_with_3_2_and_2_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = example(folder.path(), "clusters") else { return };
    let expected = "3 clients, 7 hosts, packets of 4000 bytes, ports 5001 5002 5003 6001 6002 7001 7002\n";
    for in_c in [3, 2] {
        let server = impi_server(3);
        let clients: Vec<Child> = ["3", "2", "2"][..in_c]
            .iter()
            .enumerate()
            .map(|(rank, hosts)| start(&program, folder.path(), &[&server, &rank.to_string(), hosts], &[]))
            .collect();
        let rust = (in_c == 2).then(|| {
            let address = from_ip(Ipv4Addr::LOCALHOST.into());
            let host = |port: u16| Host::new(address, port, vec![Proc::new(address, port.into())]);
            let cluster = Cluster { datalen: Some(4000), ..Cluster::new(vec![host(7001), host(7002)]) };
            let settings = ClientSettings::new(2, Methods { none: true, key: None }, cluster);
            Session::join(&server, settings, PATIENCE, |_| {}).unwrap()
        });
        for client in clients {
            assert_eq!(prints(client), expected);
        }
        if let Some(session) = rust {
            assert_eq!(session.learned().clusters[0].hosts.len(), 3);
            session.finish().unwrap();
        }
    }
}

const SIX: &str = "a:7000\na:7001\na:7002\nb:7000\nb:7001\nb:7002\n";

/// Two subjobs of three tasks, as in the source: the tasks in C alone, and beside the clients in Python and shell. The
/// service registers the subjobs above, or the task of rank 0 does.
#[test]
fn two_subjobs_of_three_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = example(folder.path(), "meet") else { return };
    let clients = package().join("../gpc-rendezvous/examples/clients");
    let mut languages = vec![program];
    for (name, interpreter) in [("meet.py", "python3"), ("meet.sh", "curl")] {
        if has(interpreter) {
            languages.push(clients.join(name));
        }
    }
    let service = Service::start();
    let client = Client::new(&ClientOptions::default()).unwrap();
    let url = service.url().parse().unwrap();
    let create = |spec: Spec| client.create(&url, &spec).unwrap();
    for (mixed, by_service) in [(false, false), (false, true), (true, false), (true, true)] {
        let top: Handle = create(Spec { level: Some(2), ..Spec::new(2) });
        let mut tasks = Vec::new();
        for (subjob, host) in ["a", "b"].into_iter().enumerate() {
            let rank = RankChoice::Rank(subjob as u64);
            let parent = by_service.then(|| Parent { handle: top.clone(), rank });
            let job = create(Spec { parent, ..Spec::new(3) }).to_string();
            for rank in 0..3 {
                let language = if mixed { (3 * subjob + rank) % languages.len() } else { 0 };
                let (top, subjob) = (top.to_string(), subjob.to_string());
                let variables = [
                    ("GLOBUS_GRAM_JOB_HANDLE", job.as_str()),
                    ("GLOBUS_GRAM_MULTIJOB_HANDLE", &top),
                    ("GLOBUS_GRAM_SUBJOB_RANK", &subjob),
                ];
                let arguments = [&*format!("{host}:700{rank}"), &rank.to_string()];
                tasks.push(start(&languages[language], folder.path(), &arguments, &variables));
            }
        }
        for task in tasks {
            assert_eq!(prints(task), SIX);
        }
    }
}

/// The time limit of a request ended with the head of its answer: the client in Java waited for a content without an
/// end. And it allocated memory for the level of a completion, whatever that was.
#[test]
fn a_client_in_java_at_bad_services() {
    if !has("java") {
        return;
    }
    let head_only = "HTTP/1.1 201 Created\r\ncontent-length: 99\r\n\r\n{";
    let registered = "HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\n{\"rank\": 0}";
    let deep = "HTTP/1.1 200 OK\r\nrendezvous-level: 2000000000\r\ncontent-length: 0\r\n\r\n";
    let client = package().join("../gpc-rendezvous/examples/clients/Meet.java");
    for (registers, completes, why) in
        [(head_only, deep, "there was no completion within 2 s"), (registered, deep, "a level from 1 to 64")]
    {
        let service = serving(move |mut stream| {
            let mut request = [0; 4096];
            // Ends: when the client has closed. The head and the content of a request may come apart.
            while let Ok(1..) = stream.read(&mut request) {
                let answer = match request[0] {
                    b'P' => registers,
                    b'G' => completes,
                    _ => continue,
                };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let handle = format!("http://{service}/rendezvous?000102030405060708090a0b0c0d0e0f");
        let mut command = Command::new("timeout");
        command.args(["100", "java"]).arg(&client).arg("a:7000");
        let output = command.envs([("GPC_JOB_HANDLE", &*handle), ("MEET_SECONDS", "2")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{said}");
    }
}

/// What a reader of the page adds to its rendezvous and its session of IMPI.
const USES_SERVICES: &str = r#"
int main(int count, char **arguments) {
    if (count == 2) meet(arguments[1], "contact");
    else printf("%d hosts\n", hosts_of_all(arguments[1], 0, 3));
    return 0;
}
"#;

#[test]
fn the_services_of_the_page_hold() {
    if !(has("cc") && has("make") && has("pkg-config")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let [first, _, _, _, rendezvous, impi, _] = page();
    let begin = first.split("static int square").next().unwrap();
    let code = [begin, &rendezvous, &impi, USES_SERVICES].concat();
    let program = program(folder.path(), "services", &code);
    let service = Service::start();
    let client = Client::new(&ClientOptions::default()).unwrap();
    let resource = client.create(&service.url().parse().unwrap(), &Spec::new(1)).unwrap().to_string();
    let said = prints(start(&program, folder.path(), &[&resource], &[]));
    assert!(said.lines().any(|line| line == "contact"), "{said}");
    let session = start(&program, folder.path(), &[&impi_server(1), "impi"], &[]);
    assert_eq!(prints(session), "3 hosts\n");
}
