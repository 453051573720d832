//! Sessions that succeed.

use std::process::Stdio;
use std::thread;

use super::support::*;

#[test]
fn two_clients_learn_of_each_other() {
    let server = Server::start("server 2");
    let mut clients = server.clients(2);
    let versions = [0u8; 8];
    for client in &mut clients {
        client.send(&coll(C_VERSION, &versions));
    }
    for client in &mut clients {
        assert_eq!(client.frame(), answer(C_VERSION, 3, &[0; 16]));
    }
    // One of the two clients omits the ports.
    clients[0].send(&coll(C_NHOSTS, &[0, 0, 0, 1]));
    clients[1].send(&coll(C_NHOSTS, &[0, 0, 0, 2]));
    clients[1].send(&coll(H_PORT, &[0, 0, 16, 0, 0, 0, 16, 1]));
    clients.iter_mut().for_each(Client::done);
    for client in &mut clients {
        let versions = answer(C_VERSION, 3, &[0; 16]);
        let hosts = answer(C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 2]);
        let ports = answer(H_PORT, 2, &[0, 0, 16, 0, 0, 0, 16, 1]);
        // C_VERSION was received before.
        let expected = all(&[versions, hosts, ports])[1..].to_vec();
        assert_eq!(client.until_done(), expected);
    }
    clients[0].fini();
    drop(clients.remove(0));
    clients[0].fini();
    clients[0].closed();
    let (status, said) = server.ended();
    assert!(
        status == Some(0)
            && said.starts_with("gpc: COLL H_PORT: client 0 left it out, ")
            && said.lines().count() == 1,
        "{said}"
    );
}

/// A foreign client sent C_NPROCS before C_NHOSTS and waited for each answer. The server broadcast C_NHOSTS without it,
/// and again when it had sent the label: the client of gpc, which was then waiting for C_DATALEN, failed.
#[test]
fn a_client_of_gpc_beside_one_that_sends_its_labels_in_another_order() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "10.0.0.1:7000 1\n").unwrap();
    let server = Server::start("server 2");
    let mut own =
        gpc(&format!("impi client 0 {} --plain --output json --hosts {}", server.address, hosts.display()));
    let own = own.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut foreign = server.joining(1);
    assert_eq!(foreign.frame(), frame("IMPI", &[2]));
    foreign.send(&coll(C_VERSION, &[0; 8]));
    assert_eq!(foreign.frame(), answer(C_VERSION, 3, &[0; 16]));
    foreign.send(&coll(C_NPROCS, &[0, 0, 0, 2]));
    assert_eq!(foreign.frame(), answer(C_NHOSTS, 1, &[0, 0, 0, 1]));
    assert_eq!(foreign.frame(), answer(C_NPROCS, 3, &[0, 0, 0, 1, 0, 0, 0, 2]));
    foreign.send(&coll(C_NHOSTS, &[0, 0, 0, 1]));
    assert_eq!(foreign.frame(), answer(C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 1]));
    foreign.done();
    foreign.until_done();
    foreign.fini();
    let (status, out, error) = told(own.wait_with_output().unwrap());
    assert_eq!((status, error.as_str()), (Some(0), ""));
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let procs = json["clients"][1]["hosts"][0]["procs"].as_array().map(Vec::len);
    assert_eq!(procs, Some(2), "{out}");
    let (status, said) = server.ended();
    let warning = "gpc: COLL C_NHOSTS: client 1 has not sent it yet, and some clients";
    assert!(status == Some(0) && said.starts_with(warning) && said.lines().count() == 1, "{said}");
}

/// One client sends everything at once, including its FINI; the other begins when the first one is done.
#[test]
fn what_was_sent_before_an_early_done_is_not_lost() {
    let server = Server::start("server 2 --check off");
    let mut clients = server.clients(2);
    let early = [coll(C_VERSION, &[0; 8]), coll(H_PORT, b"portport"), coll(0x9000, b"other")].concat();
    clients[1].send(&[early, frame("DONE", &[]), frame("FINI", &[])].concat());
    clients[0].send(&coll(0x9000, b"own"));
    clients[0].done();
    let sent =
        [answer(0x9000, 3, b"ownother"), answer(C_VERSION, 2, &[0; 8]), answer(H_PORT, 2, b"portport")];
    assert_eq!(clients[0].until_done(), all(&sent));
    clients[0].fini();
    assert_eq!(server.ended(), (Some(0), String::new()));
}

/// The reference server served one connection after another, so a silent one delayed all.
#[test]
fn thirty_two_clients_are_not_delayed_by_a_hundred_that_say_nothing() {
    let server = Server::start("server 32 --time-limit 5m");
    let mut silent: Vec<Client> = (0..100).map(|_| server.client()).collect();
    // Half a command head counts as silence, too.
    silent.iter_mut().skip(90).for_each(|silent| silent.send(b"AUT"));
    let address = server.address;
    let client = move |rank: u32| {
        let mut client = Client::to(address);
        client.auth(3, 0);
        client.send(&frame("IMPI", &[rank]));
        assert_eq!(client.frame(), frame("IMPI", &[32]));
        for label in KNOWN {
            client.send(&coll(label, &rank.to_be_bytes()));
            let all: Vec<u8> = (0..32u32).flat_map(u32::to_be_bytes).collect();
            assert_eq!(client.frame(), answer(label, u32::MAX, &all));
        }
        client.done();
        assert_eq!(client.frame(), frame("DONE", &[]));
        client.fini();
        client.closed();
    };
    let clients: Vec<_> = (0..32).map(|rank| thread::spawn(move || client(rank))).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let (status, said) = server.ended();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("is closed"), "{said}");
    silent.iter_mut().for_each(Client::closed);
}

#[test]
fn a_client_may_speak_byte_by_byte() {
    let mut command = gpc("impi server 1");
    command.env("IMPI_AUTH_KEY", "258");
    let server = Server::of(command);
    let mut client = server.client();
    let mut slowly = |bytes: &[u8]| bytes.chunks(1).for_each(|byte| client.send(byte));
    slowly(&frame("AUTH", &[2]));
    slowly(&258u64.to_be_bytes());
    slowly(&frame("IMPI", &[0]));
    slowly(&coll(C_VERSION, &[0; 8]));
    slowly(&frame("DONE", &[]));
    assert_eq!(client.bytes(8), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(client.frame(), frame("IMPI", &[1]));
    assert_eq!(client.frame(), answer(C_VERSION, 1, &[0; 8]));
    assert_eq!(client.until_done(), all(&[answer(C_VERSION, 1, &[0; 8])])[1..]);
    frame("FINI", &[]).chunks(1).for_each(|byte| client.send(byte));
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[test]
fn two_clients_of_gpc_print_what_they_have_learned() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let key = "ab".repeat(32);
    let hosts = [
        file("a", "10.0.0.1:7000 4711\n10.0.0.1:7001 4712\n10.0.0.2:7000\n".into()),
        file("b", format!("[fd00::2]:7000 - {key}\n")),
    ];
    let run = |outputs: [&str; 2], more: &str| {
        let server = Server::start("server 2");
        let start = |rank: usize| {
            let words = format!(
                "impi client {rank} {} --hosts {} --output {} {more}",
                server.address, hosts[rank], outputs[rank]
            );
            gpc(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let clients = [0, 1].map(start);
        let told = clients.map(|client| told(client.wait_with_output().unwrap()));
        assert_eq!(server.ended(), (Some(0), String::new()));
        told.map(|(status, out, error)| {
            assert_eq!(status, Some(0), "{error}");
            (out, error)
        })
    };
    let silent = |outputs: [&str; 2]| {
        run(outputs, "").map(|(out, error)| {
            assert_eq!(error, "");
            out
        })
    };
    let [table, json] = silent(["table", "json"]);
    assert!(
        table.starts_with(
            "client  host  address   port  procs  pids        ports of processes\n     0     0  10.0.0.1  7000      2  4711, 4712  7000, 7001\n"
        ),
        "{table}"
    );
    assert!(table.contains("(of gpc) with the other clients"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["clients"][1]["hosts"][0]["procs"][0]["key"], key.as_str());
    assert_eq!((&json["rank"], &json["own_labels"]), (&1.into(), &true.into()));
    let [peers, hosts_file] = silent(["peers", "hosts"]);
    assert_eq!(peers, format!("0 10.0.0.1:7000\n1 10.0.0.1:7001\n2 10.0.0.2:7000\n3 [fd00::2]:7000 {key}\n"));
    assert_eq!(
        hosts_file,
        "0 client-0/10.0.0.1\n1 client-0/10.0.0.1\n2 client-0/10.0.0.2\n3 client-1/fd00::2\n"
    );
    // Without the ports of processes, only the first process of a host is listed.
    let [(peers, said), (json, silence)] = run(["peers", "json"], "--plain");
    assert_eq!(
        (peers.as_str(), silence.as_str()),
        ("0 10.0.0.1:7000\n1 10.0.0.2:7000\n2 [fd00::2]:7000\n", "")
    );
    assert!(said.contains("are left out of files of peers and hosts: 1 of 3 of client 0."), "{said}");
    assert!(said.contains("have not named gpc's version: 1."), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["clients"][1]["version"], &json["own_labels"]), (&"0.0".into(), &false.into()));
}

/// The session of a client ended as soon as all had met, and the server lost the only sign of its cluster, which then
/// runs its own program. FINI now follows the end of the program, whose exit status is that of the client.
#[test]
fn a_session_lasts_as_long_as_the_program_of_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "10.0.0.1:7000 1\n10.0.0.1 2\n").unwrap();
    for (command, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let mut server = Server::start("server 1 --trace");
        let mut client =
            gpc(&format!("impi client 0 {} --hosts {} -- sh -c", server.address, hosts.display()));
        client.arg(format!("read line; {command}")).stdin(Stdio::piped());
        let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        server.until("DONE");
        assert!(client.try_wait().unwrap().is_none(), "the program waits for a line");
        drop(client.stdin.take());
        let (found, _, error) = told(client.wait_with_output().unwrap());
        assert_eq!((found, &*error), (Some(status), ""));
        let (status, said) = server.ended();
        assert!(status == Some(0) && said.contains("FINI"), "{said}");
    }
}

/// A session has one run of the command at each cluster, so one run must write all forms of output.
#[test]
fn files_of_peers_and_hosts_come_beside_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("hosts"), "10.0.0.1:7000\n10.0.0.1:8000\n").unwrap();
    let server = Server::start("server 1");
    let words = format!(
        "impi client 0 {} --hosts {} --output json --plain --ports plus-rank --peers-out {} --hosts-out {}",
        server.address,
        path("hosts"),
        path("peers"),
        path("groups")
    );
    let (status, out, error) = finished(gpc(&words));
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert_eq!(server.ended(), (Some(0), String::new()));
    assert!(out.starts_with('{'), "{out}");
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    // IMPI does not send the port that the file has for the second process.
    assert_eq!(read("peers"), "0 10.0.0.1:7000\n1 10.0.0.1:7001\n");
    assert_eq!(read("groups"), "0 client-0/10.0.0.1\n1 client-0/10.0.0.1\n");
    let server = Server::start("server 1");
    let words = format!(
        "impi client 0 {} --hosts {} --peers-out {}/none/peers",
        server.address,
        path("hosts"),
        folder.path().display()
    );
    let (status, out, error) = finished(gpc(&words));
    assert!(status == Some(1) && out.is_empty() && error.contains("cannot write"), "{error}");
}

/// Like MetaMPICH, whose client has no C_TAGUB, H_ACKMARK and H_HIWATER.
#[test]
fn a_client_says_the_values_that_it_is_told_and_leaves_labels_out() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "10.0.0.1:7000\n10.0.0.2:7000\n").unwrap();
    let run = |values: &str| {
        let server = Server::start("server 1 --trace");
        let words = format!(
            "impi client 0 {} --plain --output json --hosts {} {values}",
            server.address,
            hosts.display()
        );
        let (status, out, error) = finished(gpc(&words));
        assert_eq!((status, error.as_str()), (Some(0), ""));
        let (status, trace) = server.ended();
        assert_eq!(status, Some(0));
        (serde_json::from_str::<serde_json::Value>(&out).unwrap(), trace)
    };
    let (json, trace) = run("--tag-ub none --ackmark none --hiwater none --datalen 16384 --coll-xsize 0");
    let host = &json["clients"][0]["hosts"][1];
    assert_eq!((&json["tag_ub"], &host["ackmark"], &host["hiwater"]), (&().into(), &().into(), &().into()));
    assert_eq!((&json["datalen"], &json["coll_xsize"]), (&16_384.into(), &0.into()));
    for label in ["C_TAGUB", "H_ACKMARK", "H_HIWATER"] {
        let row = format!("{label:<16}           0 bytes  mask 0x00000000");
        assert!(trace.contains(&row), "{row}:\n{trace}");
    }
    let (json, _) = run("--tag-ub 32767 --hiwater 8 --coll-maxlinear -1 --coll-xsize none --datalen none");
    let host = &json["clients"][0]["hosts"][1];
    assert_eq!((&json["tag_ub"], &host["ackmark"], &host["hiwater"]), (&32_767.into(), &8.into(), &8.into()));
    assert_eq!(
        (&json["datalen"], &json["coll_xsize"], &json["coll_maxlinear"]),
        (&().into(), &1024.into(), &4.into())
    );
}

#[test]
fn a_trace_shows_the_session_label_by_label() {
    let server = Server::start("server 2 --trace");
    leave(&mut server.clients(2));
    let (status, said) = server.ended();
    assert_eq!(status, Some(0));
    let rows: Vec<&str> = said.lines().map(|line| line.split_at(12).1).collect();
    assert!(rows[0].starts_with("connection 0          from 127.0.0.1:"), "{said}");
    for row in [
        "connection 0    AUTH  none",
        "client  1       IMPI  connection 1",
        "all             IMPI  all clients have joined",
        "client  0       DONE",
        "all             COLL  C_VERSION                  0 bytes  mask 0x00000000",
        "all             COLL  P_PID                      0 bytes  mask 0x00000000",
        "all             DONE",
        "client  1       FINI",
    ] {
        assert!(rows.contains(&row), "{row}:\n{said}");
    }
}
