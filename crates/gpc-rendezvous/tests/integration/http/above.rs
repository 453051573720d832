//! A server as the controlling task of units whose parents are at other servers, some of them hostile.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use gpc_rendezvous::http::Server;

use crate::http::raw::{Answer, ask, create, register, server, started, token};

/// A unit of one task with this parent.
fn unit(server: &Server, parent: &str, rank: u32) -> String {
    create(server, &format!(r#"{{"capacity":1,"parent":{{"handle":"{parent}","rank":{rank}}}}}"#))
}

fn handle(server: &Server, path: &str) -> String {
    format!("{}?{}", server.url(), path.rsplit('/').next().unwrap())
}

/// All services shared the same 128 permits. So units with parents at a silent service, which accepted connections and
/// never answered, delayed the lease renewals of all others, and their parents gave them up.
#[test]
fn a_silent_service_above_holds_up_no_other() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/rendezvous?{}", silent.local_addr().unwrap(), "1".repeat(32));
    let (above, below) = (server(), server());
    for rank in 0..300 {
        let path = unit(&below, &nowhere, rank);
        // Half of the units try to register, the others to announce their controlling task.
        if rank % 2 == 0 {
            register(&below, &path, b"data");
        }
    }
    let top = create(&above, r#"{"capacity":1,"level":2}"#);
    let path = unit(&below, &handle(&above, &top), 0);
    register(&below, &path, b"met");
    let met = ask(&below, &format!("GET {path}/completion?of=top&wait=15"), "", "");
    assert_eq!((met.status, &met.body[..]), (200, &b"1 1 3 met"[..]));
}

/// A resource of level 1 accepted the data of a unit as the bytes of one task. The unit's service cannot know its
/// parent's level when the unit is created; it checks the level before it registers anything there.
#[test]
fn a_unit_that_does_not_fit_another_service_is_refused() {
    let (above, below) = (server(), server());
    for (level, said, expected) in [
        (1, "", "create it with a level of at least 2"),
        (3, "", "a unit below it is of level 2, not 1"),
        (2, r#""level":2,"#, "a unit below it is of level 1, not 2"),
    ] {
        let top = create(&above, &format!(r#"{{"capacity":1,"level":{level}}}"#));
        for rank in ["0", r#""assign""#] {
            let parent = handle(&above, &top);
            let spec = format!(r#"{{"capacity":1,{said}"parent":{{"handle":"{parent}","rank":{rank}}}}}"#);
            let path = create(&below, &spec);
            let told = ask(&below, &format!("GET {path}/completion?of=top&wait=15"), "", "");
            assert_eq!(told.problem(), (400, "level-out-of-range".into()), "{rank}");
            assert!(told.text().contains(expected), "{}", told.text());
        }
    }
    // If both belong to the same service, the level is checked immediately.
    let top = create(&above, r#"{"capacity":1}"#);
    let parent = handle(&above, &top);
    let spec = format!(r#"{{"capacity":1,"parent":{{"handle":"{parent}","rank":0}}}}"#);
    assert_eq!(ask(&above, "POST /rendezvous", "", spec).problem(), (400, "level-out-of-range".into()));
}

/// Runs a rendezvous of a unit at a server with a token and a parent at another server with the same token, which is
/// reached as `host`. If `named`, the first server lists the second in its `above` option.
fn met(host: &str, named: bool) -> Answer {
    let (secret, line) = token();
    let above = started(|options| options.token = Some(secret.clone()));
    let url = format!("http://{host}:{}/rendezvous", above.address().port());
    let below = started(|options| {
        options.token = Some(secret);
        options.above.extend(named.then(|| url.parse().unwrap()));
    });
    let made = ask(&above, "POST /rendezvous", &line, r#"{"capacity":1,"level":2}"#);
    let handle = format!("{url}?{}", made.json()["id"].as_str().unwrap());
    let spec = format!(r#"{{"capacity":1,"parent":{{"handle":"{handle}","rank":0}}}}"#);
    let made = ask(&below, "POST /rendezvous", &line, spec);
    let path = made.header("location").unwrap().to_owned();
    assert_eq!(ask(&below, &format!("POST {path}/registrants"), &line, "met").status, 201);
    ask(&below, &format!("GET {path}/completion?of=top&wait=15"), &line, "")
}

/// The token was sent to any host that a client named for the parent resource, even over plain HTTP.
#[test]
fn the_token_goes_to_other_hosts_that_are_named_alone() {
    // An address of this machine that does not count as loopback.
    let refused = met("0.0.0.0", false);
    assert_eq!(refused.problem(), (502, "above-failed".into()));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("--above http://0.0.0.0:"), "{detail}");
    for (host, named) in [("0.0.0.0", true), ("127.0.0.1", false), ("localhost", false)] {
        let met = met(host, named);
        assert_eq!((met.status, &met.body[..]), (200, &b"1 1 3 met"[..]), "{host}");
    }
}

/// The fault quoted the answer of a host that was not a service: so a client could read what only the service can
/// reach.
#[test]
fn what_is_no_service_above_is_not_read_to_clients() {
    for content in ["PRIVATE words", r#"{"code":"PRIVATE","detail":"PRIVATE"}"#, r#"{"rank":"PRIVATE"}"#] {
        for status in ["200 OK", "201 Created", "404 PRIVATE", "409 Conflict"] {
            let other = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = other.local_addr().unwrap();
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: PRIVATE\r\n");
            let answer = format!("{head}content-length: {}\r\n\r\n{content}", content.len());
            thread::spawn(move || {
                // Ends: with the test.
                for stream in other.incoming() {
                    let mut stream = stream.unwrap();
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
            let below = server();
            let path = unit(&below, &format!("http://{at}/rendezvous?{}", "1".repeat(32)), 0);
            register(&below, &path, b"data");
            let told = ask(&below, &format!("GET {path}/completion?of=top&wait=15"), "", "");
            assert_eq!(told.problem(), (502, "above-failed".into()));
            assert!(!told.text().contains("PRIVATE"), "{told:?}");
            assert!(told.text().contains(&format!("{} bytes", content.len())), "{told:?}");
        }
    }
}
