//! Authentication, and keys that are shown nowhere.

use std::fs;
use std::process::Command;

use super::support::*;

/// The key as people write it.
const KEY: &str = "1311768467294899695";

/// The key on the wire.
const BYTES: [u8; 8] = 0x1234_5678_90ab_cdef_u64.to_be_bytes();

fn server(words: &str, more: &[(&str, &str)]) -> Server {
    let mut command = gpc(&format!("impi {words}"));
    command.env("IMPI_AUTH_KEY", KEY).envs(more.iter().copied());
    Server::of(command)
}

/// Connects a client that has sent this key.
fn with_key(server: &Server, mask: u32, key: &[u8]) -> Client {
    let mut client = server.client();
    client.auth(mask, 1);
    client.send(key);
    client
}

#[test]
fn strangers_are_turned_away_and_the_session_goes_on() {
    let mut server = server("server 2", &[("GPC_LOG", "trace")]);
    // Another key, no common method, no AUTH, and unknown ranks.
    let mut wrong = with_key(&server, 2, &1u64.to_be_bytes());
    wrong.closed();
    server.until("the key is another one");
    let mut none = server.client();
    none.send(&frame("AUTH", &[1]));
    none.closed();
    server.until("no method in common");
    let mut early = server.client();
    early.send(&frame("IMPI", &[0]));
    early.closed();
    server.until("connection 2 is closed: IMPI");
    for rank in [2, u32::MAX] {
        let mut client = with_key(&server, 2, &BYTES);
        client.send(&frame("IMPI", &[rank]));
        client.closed();
        server.until("the ranks are 0 to 1");
    }
    let mut clients: Vec<Client> = (0..2)
        .map(|rank| {
            let mut client = with_key(&server, 3, &BYTES);
            client.send(&frame("IMPI", &[rank]));
            client
        })
        .collect();
    let mut late = server.client();
    late.closed();
    clients.iter_mut().for_each(|client| assert_eq!(client.frame(), frame("IMPI", &[2])));
    leave(&mut clients);
    let (status, said) = server.ended();
    assert_eq!(status, Some(0));
    assert!(!said.contains(KEY) && !said.to_lowercase().contains("1234567890abcdef"), "{said}");
}

/// Checked by strace, if there is one: the server writes its key nowhere, and the client only to the server.
#[test]
#[allow(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn a_key_is_written_nowhere_but_to_the_server() {
    let traces = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !traces.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: needs strace");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hosts"), "10.0.0.1:7000\n").unwrap();
    let traced = |name: &str, line: &str| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-xx", "-yy", "-s", "100000", "-e", "signal=none"]);
        strace.args(["-e", "trace=write,writev,pwrite64,sendto,sendmsg,execve", "-o"]);
        strace.arg(folder.path().join(name)).arg(EXE);
        let mut command = clean(strace, line);
        command.env("IMPI_AUTH_KEY", KEY).env("GPC_LOG", "trace");
        command
    };
    let server = Server::of(traced("server", "impi server 1 --trace"));
    let hosts = folder.path().join("hosts");
    let line = format!("impi client 0 {} --trace --hosts {}", server.address, hosts.display());
    let (status, _, error) = finished(traced("client", &line));
    assert_eq!(status, Some(0), "{error}");
    assert_eq!(server.ended().0, Some(0));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let written = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let lines_with = |name: &str, bytes: &[u8]| -> Vec<String> {
        written(name).lines().filter(|line| line.contains(&hex(bytes))).map(str::to_owned).collect()
    };
    assert!(!lines_with("server", b"AUTH").is_empty(), "the trace has what is written");
    for name in ["server", "client"] {
        assert_eq!(lines_with(name, KEY.as_bytes()), Vec::<String>::new(), "{name}");
    }
    assert_eq!(lines_with("server", &BYTES), Vec::<String>::new());
    let sent = lines_with("client", &BYTES);
    assert!(sent.len() == 1 && sent[0].contains("<TCP"), "{sent:?}");
}

#[test]
fn keys_that_are_none_are_refused_without_showing_them() {
    for (words, key, status) in [
        ("server 2", "123456789x", 2),
        ("server 2 --auth key", "123456789x", 2),
        ("-server 2 -auth key", "123456789x", 1),
        ("client 0 127.0.0.1:1 --hosts /dev/null", "123456789x", 2),
    ] {
        let mut command = gpc(&format!("impi {words}"));
        command.env("IMPI_AUTH_KEY", key);
        let (found, out, error) = finished(command);
        assert_eq!((found, out.as_str()), (Some(status), ""), "{words}: {error}");
        assert!(error.contains("IMPI_AUTH_KEY") && !error.contains("12345"), "{error}");
    }
    let (status, _, error) = finished(gpc("impi server 2 --auth key"));
    assert!(
        status == Some(2) && error.contains("IMPI_AUTH_KEY in the environment, which is not set"),
        "{error}"
    );
}

#[test]
fn beyond_loopback_somebody_must_have_asked_for_no_proof() {
    let (status, out, error) = finished(gpc("impi server 2 --bind 0.0.0.0"));
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(error.contains("IMPI_AUTH_KEY") && error.contains("--auth none"), "{error}");
}

/// If the server listens at all addresses, it prints the one by which others reach the machine.
#[test]
#[allow(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn a_server_that_listens_everywhere_prints_one_address() {
    if !chained_gpc::bootstrap::host_addresses().iter().any(|address| address.is_ipv4()) {
        eprintln!("skipped: needs a route to the rest of the world");
        return;
    }
    let mut command = gpc("impi server 1 --bind 0.0.0.0");
    command.env("IMPI_AUTH_NONE", "");
    let server = Server::of(command);
    assert!(!server.address.ip().is_unspecified() && !server.address.ip().is_loopback());
    leave(&mut server.clients(1));
    assert_eq!(server.ended().0, Some(0));
}
