//! Hostile clients: they send wrong lengths, hang, send too much, or do not take their answers.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use gpc_rendezvous::http::Server;

use crate::http::raw::{Client, ask, connect, create, register, server, started, token, until};

/// Time limit of clients in these tests.
const SHORT: Duration = Duration::from_millis(300);

fn impatient() -> Server {
    started(|options| {
        (options.times.head, options.times.idle, options.times.silent) = (SHORT, SHORT, SHORT);
    })
}

fn begin(server: &Server, path: &str, head: &str, body: &[u8]) -> Client {
    let mut client = connect(server.address());
    client.send(format!("POST {path}/registrants HTTP/1.1\r\nHost: localhost\r\n{head}\r\n"));
    client.send(body);
    client
}

fn tally(server: &Server, path: &str) -> u64 {
    ask(server, &format!("GET {path}"), "", "").json()["tally"].as_u64().unwrap()
}

/// After a request was served, the time limit of the next head was not checked, because nothing caused the stream to be
/// polled again. The connection stayed for as long as its client wished.
#[test]
fn a_head_that_hangs_ends_the_connection() {
    let server = impatient();
    for part in
        ["", "G", "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n", "GET /openapi.json HTTP/1.1\r\nX: "]
    {
        let mut client = connect(server.address());
        client.send(part);
        assert_eq!(client.rest(), b"", "{part}");
        // The same after an earlier request.
        let mut client = connect(server.address());
        assert_eq!(client.ask("GET /openapi.json", "", b"").status, 200);
        client.send(part);
        assert_eq!(client.rest(), b"", "{part}");
    }
}

/// A head that arrives byte by byte has the same time limit as one that hangs.
#[test]
fn a_head_that_comes_byte_by_byte_ends_the_connection() {
    let server = impatient();
    let mut client = connect(server.address());
    client.stream.get_ref().set_read_timeout(Some(SHORT / 10)).unwrap();
    client.send("GET / HTTP/1.1\r\nX: ");
    let ended = std::iter::repeat_with(|| {
        let sent = client.stream.get_mut().write_all(b"x").is_err();
        sent || matches!(client.stream.read(&mut [0; 64]), Ok(0))
    });
    assert!(ended.take(1000).any(|ended| ended));
}

#[test]
fn a_body_that_hangs_is_refused() {
    let server = impatient();
    let path = create(&server, r#"{"capacity":1}"#);
    for (head, body) in [
        ("Content-Length: 10\r\n", &b"five!"[..]),
        ("Content-Length: 10\r\n", b""),
        ("Transfer-Encoding: chunked\r\n", b"5\r\nfive!\r\n"),
        ("Transfer-Encoding: chunked\r\n", b""),
        ("Content-Length: 10\r\nExpect: 100-continue\r\n", b""),
    ] {
        let mut client = begin(&server, &path, head, body);
        assert_eq!(client.answer().problem(), (408, "bad-request".into()), "{head}");
        client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(tally(&server, &path), 0);
}

/// Two `Transfer-Encoding` headers were accepted as one. A proxy that uses the other one sees another end of the body,
/// and forwards the rest as a separate request.
#[test]
fn a_body_whose_end_is_not_certain_is_refused() {
    let server = server();
    let path = create(&server, r#"{"capacity":9}"#);
    for head in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
    ] {
        let behind = format!("0\r\n\r\nDELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut client = begin(&server, &path, head, behind.as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{head}");
        assert_eq!(client.rest(), b"", "{head}: the connection ends");
    }
    assert_eq!(tally(&server, &path), 0);
}

/// A request with `Transfer-Encoding` and `Content-Length` was accepted. A proxy that goes by the length sees another
/// end of the body.
#[test]
fn a_body_with_two_ends_is_refused() {
    let server = server();
    let path = create(&server, r#"{"capacity":9}"#);
    for head in [
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "content-length: 0\r\nX: y\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let behind = format!("5\r\nfive!\r\n0\r\n\r\nDELETE {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut client = begin(&server, &path, head, behind.as_bytes());
        assert_eq!(client.answer().problem(), (400, "bad-request".into()), "{head}");
        assert_eq!(client.rest(), b"", "{head}: the connection ends");
        // The same after an earlier request.
        let mut client = connect(server.address());
        assert_eq!(client.ask("GET /openapi.json", "", b"").status, 200);
        client.send(format!("POST {path}/registrants HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{behind}"));
        assert_eq!(client.answer().problem(), (400, "bad-request".into()), "{head}");
    }
    assert_eq!(tally(&server, &path), 0);
    // One of the two is enough, on one connection as well.
    let mut client = connect(server.address());
    for name in ["a", "b"] {
        let chunked = "Transfer-Encoding: chunked\r\nX: Content-Length: 5\r\n";
        client.send(format!("POST {path}/registrants HTTP/1.1\r\nHost: localhost\r\n{chunked}"));
        client.send(format!("Registrant-Token: {name}\r\n\r\n5\r\nfive!\r\n0\r\n\r\n"));
        assert_eq!(client.answer().status, 201);
        let (line, token) = (format!("POST {path}/registrants"), format!("Registrant-Token: {name}2\r\n"));
        assert_eq!(client.ask(&line, &token, b"five!").status, 201);
    }
    assert_eq!(tally(&server, &path), 4);
}

#[test]
fn a_body_that_comes_byte_by_byte_is_refused() {
    let server = impatient();
    let path = create(&server, r#"{"capacity":1}"#);
    let mut client = begin(&server, &path, "Content-Length: 1000000\r\n", b"");
    client.stream.get_ref().set_read_timeout(Some(SHORT / 10)).unwrap();
    let mut answer = Vec::new();
    for _ in 0..1000 {
        let mut bytes = [0; 4096];
        let read = client.stream.read(&mut bytes).unwrap_or(0);
        answer.extend_from_slice(&bytes[..read]);
        if !answer.is_empty() || client.stream.get_mut().write_all(b"x").is_err() {
            break;
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(tally(&server, &path), 0);
}

#[test]
fn a_body_that_ends_half_way_registers_nothing() {
    let server = server();
    let path = create(&server, r#"{"capacity":1}"#);
    for (head, body) in [
        ("Content-Length: 10\r\n", &b"five!"[..]),
        ("Transfer-Encoding: chunked\r\n", b"5\r\nfive!\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"zz\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"ffffffffffffffffffff\r\n"),
    ] {
        let mut client = begin(&server, &path, head, body);
        client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
        let rest = client.rest();
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 400 "), "{head}: {rest:?}");
    }
    assert_eq!(tally(&server, &path), 0);
}

#[test]
fn lengths_that_cannot_be() {
    let server = started(|options| options.limits.data = 1 << 20);
    let path = create(&server, r#"{"capacity":1}"#);
    for length in ["1048577", "1000000000000000"] {
        let mut client = begin(&server, &path, &format!("Content-Length: {length}\r\n"), b"x");
        assert_eq!(client.answer().problem(), (413, "data-too-long".into()), "{length}");
    }
    for length in ["-1", "x", "18446744073709551614", "99999999999999999999999", "1\r\nContent-Length: 2"] {
        let mut client = begin(&server, &path, &format!("Content-Length: {length}\r\n"), b"x");
        assert!([400, 431].contains(&client.answer().status), "{length}");
    }
    assert_eq!(tally(&server, &path), 0);
}

/// A client that sends everything before it reads still gets the fault.
#[test]
fn too_much_is_refused_and_the_client_is_told() {
    let server = started(|options| options.limits.data = 1 << 20);
    let path = create(&server, r#"{"capacity":1}"#);
    let line = format!("POST {path}/registrants");
    let answer = ask(&server, &line, "", vec![0; 8 << 20]);
    assert_eq!(answer.problem(), (413, "data-too-long".into()));
    let mut client = begin(&server, &path, "Transfer-Encoding: chunked\r\n", b"");
    for _ in 0..64 {
        client.send("20000\r\n");
        client.send([0; 0x20000]);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.answer().problem(), (413, "data-too-long".into()));
    let mut client = begin(&server, &path, "Content-Length: 2000000\r\nExpect: 100-continue\r\n", b"");
    assert_eq!(client.head().unwrap().status, 413, "before a byte of it is sent");
    let answer = ask(&server, &line, "Content-Encoding: gzip\r\n", "x");
    assert_eq!(answer.problem(), (415, "bad-request".into()));
    assert_eq!(tally(&server, &path), 0);
    assert_eq!(ask(&server, &line, "", vec![0; 1 << 20]).status, 201);
}

#[test]
fn all_bodies_together_have_a_bound() {
    let server = started(|options| options.bodies = 1000);
    let path = create(&server, r#"{"capacity":3}"#);
    let half = || begin(&server, &path, "Content-Length: 801\r\n", &[0; 800]);
    let mut first = half();
    // An incomplete body counts as soon as its bytes have arrived.
    let line = format!("POST {path}/registrants");
    let mut refused = None;
    until(|| {
        let answer = ask(&server, &line, "Registrant-Token: other\r\n", [0; 800]);
        if answer.status != 201 {
            refused = Some(answer);
            return true;
        }
        // The other request may have arrived first, so that the first one was rejected.
        let stream = first.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let answered = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        if answered {
            first = half();
        }
        false
    });
    let answer = refused.unwrap();
    assert_eq!(answer.problem(), (503, "service-full".into()));
    assert_eq!(answer.header("retry-after"), Some("1"));
    first.send([0]);
    assert_eq!(first.answer().status, 201);
    assert_eq!(ask(&server, &format!("POST {path}/registrants"), "", [0; 800]).status, 201);
}

#[test]
fn heads_have_a_limit() {
    let server = server();
    let status = |head: String| {
        let mut client = connect(server.address());
        client.send(head);
        client.answer().status
    };
    assert_eq!(status(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(5000))), 414);
    assert_eq!(
        status(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(40_000))),
        431
    );
    let many: String = (0..100).map(|number| format!("X-{number}: y\r\n")).collect();
    assert_eq!(status(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")), 431);
    for head in [
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(status(head.into()), 400, "{head:?}");
    }
    // The preface of HTTP/2, which is not supported.
    let preface = connect_and("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &server);
    assert!(preface.is_empty() || preface.starts_with(b"HTTP/1.1 4"), "{preface:?}");
}

fn connect_and(bytes: &str, server: &Server) -> Vec<u8> {
    let mut client = connect(server.address());
    client.send(bytes);
    client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    client.rest()
}

#[test]
fn requests_may_come_before_the_answers_are_taken() {
    let server = server();
    let path = create(&server, r#"{"capacity":100}"#);
    let mut client = connect(server.address());
    let requests: String = (0..100)
        .map(|rank| {
            format!("POST {path}/registrants?rank={rank} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
        })
        .collect();
    client.send(requests);
    for rank in 0..100 {
        assert_eq!(client.answer().json()["rank"], rank);
    }
}

#[test]
fn who_goes_while_waiting_waits_no_longer() {
    let server = server();
    let path = create(&server, r#"{"capacity":1}"#);
    let waiting = || ask(&server, &format!("GET {path}"), "", "").json()["waiting"].as_u64().unwrap();
    let clients: Vec<Client> = (0..50)
        .map(|_| {
            let mut client = connect(server.address());
            client.send(format!("GET {path}/completion?wait=300 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            client
        })
        .collect();
    until(|| waiting() == 50);
    drop(clients);
    until(|| waiting() == 0);
}

/// A client requests long data and does not take them: the server closes the connection, although the client keeps it
/// open.
#[test]
fn who_does_not_take_an_answer_is_cut_off() {
    let server = impatient();
    let path = create(&server, r#"{"capacity":1}"#);
    register(&server, &path, &vec![7; 32 << 20]);
    let mut client = connect(server.address());
    client.send(format!("GET {path}/completion HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let whole = 32 << 20;
    // Waits until data have arrived, then until the server has given up.
    client.stream.get_ref().peek(&mut [0]).unwrap();
    wait_for_end(&server, &client);
    assert!(client.rest().len() < whole);
}

/// Waits until the system's table of connections has no connection between the server and this client.
fn wait_for_end(server: &Server, client: &Client) {
    let port = |address: std::net::SocketAddr| format!(":{:04X}", address.port());
    let (own, other) = (port(server.address()), port(client.stream.get_ref().local_addr().unwrap()));
    let established = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|word| word.ends_with(&own))
            && words.next().is_some_and(|word| word.ends_with(&other))
            && words.next() == Some("01")
    };
    until(|| !std::fs::read_to_string("/proc/self/net/tcp").unwrap().lines().any(established));
}

#[test]
fn connections_have_a_bound_and_the_idle_make_room() {
    let server = started(|options| options.connections = 10);
    let path = create(&server, r#"{"capacity":1}"#);
    let mut idle: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = connect(server.address());
            assert_eq!(client.ask(&format!("GET {path}"), "", b"").status, 200);
            client
        })
        .collect();
    // Repeated until all slots are busy: a connection whose request is yet to be read may be closed for the next one.
    let (mut busy, mut refused) = (Vec::new(), None);
    until(|| {
        let mut client = connect(server.address());
        client.send(format!("GET {path}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client.stream.get_ref().set_read_timeout(Some(SHORT)).unwrap();
        let answered = client.stream.get_ref().peek(&mut [0; 12]).is_ok_and(|read| read > 0);
        client.stream.get_ref().set_read_timeout(Some(crate::http::raw::LIMIT)).unwrap();
        match answered {
            true => refused = String::from_utf8(client.rest()).ok(),
            false => busy.push(client),
        }
        refused.is_some()
    });
    for client in &mut idle {
        assert_eq!(client.rest(), b"", "the idle are closed");
    }
    assert!(busy.len() >= 10);
    let refused = refused.unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}", body.len())), "{refused}");
    crate::http::declared::check_schema("Problem", &serde_json::from_str(body).unwrap());
    let mut last = busy.pop().unwrap();
    drop(busy);
    // Closed connections have made room.
    let register =
        format!("POST {path}/registrants HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    // The client reads to the end: otherwise a registration without an answer might be repeated.
    until(|| {
        let mut client = connect(server.address());
        client.stream.get_mut().write_all(register.as_bytes()).is_ok()
            && client.rest().starts_with(b"HTTP/1.1 201")
    });
    assert_eq!(last.answer().status, 200);
}

/// Incomplete logins took all slots, without a token. Each was a request in progress, so none was closed to make room,
/// and each could take half a minute and start again.
#[test]
fn who_has_no_token_locks_nobody_out() {
    let (token, line) = token();
    let server = started(|options| {
        (options.connections, options.token) = (20, Some(token));
        options.times.head = Duration::from_secs(3600);
    });
    let login = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nfive!";
    let mut halves: Vec<Client> = Vec::new();
    let full = (0..40).find_map(|_| {
        let mut half = connect(server.address());
        half.send(login);
        // It is either rejected immediately, or its form is awaited.
        half.stream.get_ref().set_read_timeout(Some(SHORT)).unwrap();
        let refused = half.stream.get_ref().peek(&mut [0]).is_ok();
        half.stream.get_ref().set_read_timeout(Some(crate::http::raw::LIMIT)).unwrap();
        halves.push(half);
        refused.then_some(halves.len())
    });
    assert_eq!(full, Some(17));
    assert_eq!(halves.pop().unwrap().answer().problem(), (503, "service-full".into()));
    // Clients with the token are admitted and take all slots: their connections displace the incomplete logins, which
    // nothing else ends.
    let path = ask(&server, "POST /rendezvous", &line, br#"{"capacity":1}"#);
    let path = path.header("location").unwrap().to_owned();
    let tasks: Vec<Client> = (0..20)
        .map(|_| {
            let mut task = connect(server.address());
            task.send(format!("GET {path}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n{line}\r\n"));
            task.stream.get_ref().set_read_timeout(Some(SHORT)).unwrap();
            assert!(task.stream.get_ref().peek(&mut [0]).is_err(), "it waits");
            task
        })
        .collect();
    for half in &mut halves {
        assert_eq!(half.rest(), b"", "closed without an answer");
    }
    drop(tasks);
}

/// The form of a login had the time limit of a body, for which a token is needed.
#[test]
fn a_login_that_hangs_is_refused() {
    let server = started(|options| {
        options.times.head = SHORT;
        options.times.silent = Duration::from_secs(3600);
    });
    let mut client = connect(server.address());
    client.send("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nfive!");
    assert_eq!(client.answer().problem(), (408, "bad-request".into()));
}

/// Clients without a token that left a body unsent kept their slots while they could read the rejection. Each new
/// connection waited in vain for one of them, one after another.
#[test]
fn who_is_given_time_to_read_a_refusal_makes_room() {
    let (token, line) = token();
    let server = started(|options| (options.connections, options.token) = (4, Some(token)));
    let mut strangers: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = connect(server.address());
            client.send("POST /rendezvous HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
            assert_eq!(client.answer().status, 401);
            client
        })
        .collect();
    let mut rightful: Vec<Client> = (0..4).map(|_| connect(server.address())).collect();
    for client in &mut rightful {
        assert_eq!(client.ask("POST /rendezvous", &line, br#"{"capacity":1}"#).status, 201);
    }
    for client in &mut strangers {
        assert_eq!(client.rest(), b"");
    }
}
