//! Every fault over HTTP: status and code.

use gpc_rendezvous::http::Server;

use crate::http::raw::{Answer, ask, connect, create, register, server, started, token, until};

/// Status and code of the fault that this request returns.
fn refused(server: &Server, line: &str, lines: &str, body: &str) -> (u16, String) {
    ask(server, line, lines, body).problem()
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn what_a_resource_cannot_be() {
    let server = server();
    let mut client = connect(server.address());
    let mut create = |json: &str| client.ask("POST /rendezvous", "", json.as_bytes()).problem();
    assert_eq!(create(r#"{"capacity":0}"#), is(400, "capacity-zero"));
    assert_eq!(create(r#"{"capacity":10000000000}"#), is(400, "capacity-over"));
    for level in ["0", "65", "70000"] {
        assert_eq!(create(&format!(r#"{{"capacity":1,"level":{level}}}"#)), is(400, "level-out-of-range"));
    }
    for lifetime in ["0", "-1", "1e9", "1e300"] {
        let json = format!(r#"{{"capacity":1,"lifetime":{lifetime}}}"#);
        assert_eq!(create(&json), is(400, "lifetime-out-of-range"), "{lifetime}");
    }
    let bad = [
        "",
        "{",
        "[]",
        "{}",
        r#"{"capacity":-1}"#,
        r#"{"capacity":1.5}"#,
        r#"{"capacity":"1"}"#,
        r#"{"capacity":1,"capacity":2}"#,
        r#"{"capacity":1,"other":2}"#,
        r#"{"capacity":1,"job":"1"}"#,
        r#"{"capacity":1,"parent":{"handle":"nowhere","rank":0}}"#,
        r#"{"capacity":1,"parent":{"handle":"http://a/?00112233445566778899aabbccddeeff","rank":"any"}}"#,
        "{\"capacity\":1}\0",
        "\u{ff}",
    ];
    for json in bad {
        assert_eq!(create(json), is(400, "bad-request"), "{json}");
    }
    let rank = r#"{"capacity":1,"parent":{"handle":"http://a/?00112233445566778899aabbccddeeff","rank":-2}}"#;
    assert_eq!(create(rank), is(400, "rank-out-of-range"));
    assert_eq!(create(&"[".repeat(10_000)), is(400, "bad-request"));
    assert_eq!(create(&" ".repeat(100_000)), is(413, "data-too-long"));
}

#[test]
fn what_a_registrant_cannot_do() {
    let server = server();
    let path = create(&server, r#"{"capacity":2}"#);
    let at = |query: &str| format!("POST {path}/registrants{query}");
    assert_eq!(ask(&server, &at("?rank=1"), "Registrant-Token: one\r\n", "data").status, 201);
    let taken = ask(&server, &at("?rank=1"), "", "data");
    assert_eq!((taken.problem(), &taken.json()["rank"]), (is(409, "rank-taken"), &1.into()));
    for rank in ["2", "-2", "99999999999999999999999", "18446744073709551615"] {
        assert_eq!(refused(&server, &at(&format!("?rank={rank}")), "", ""), is(400, "rank-out-of-range"));
    }
    for query in [
        "?rank=",
        "?rank=one",
        "?rank=+1",
        "?rank=1&rank=1",
        "?lease=0",
        "?lease=-1",
        "?lease=x",
        "?tally=1",
        "?rank=%",
    ] {
        assert_eq!(refused(&server, &at(query), "", ""), is(400, "bad-request"), "{query}");
    }
    let mine = "Registrant-Token: one\r\n";
    assert_eq!(refused(&server, &at(""), mine, "other data"), is(409, "token-reused"));
    assert_eq!(refused(&server, &at("?rank=0"), mine, "data"), is(409, "token-reused"));
    for token in ["", "a b", "\u{e4}", &"x".repeat(129), "a\r\nRegistrant-Token: b"] {
        let line = format!("Registrant-Token: {token}\r\n");
        assert_eq!(refused(&server, &at(""), &line, ""), is(400, "bad-request"), "{token}");
    }
    assert_eq!(refused(&server, &format!("GET {path}/registrants/0"), "", ""), is(404, "not-registered"));
    assert_eq!(refused(&server, &format!("GET {path}/registrants/2"), "", ""), is(400, "rank-out-of-range"));
    assert_eq!(refused(&server, &format!("GET {path}/registrants/x"), "", ""), is(400, "bad-request"));
    assert_eq!(refused(&server, &format!("DELETE {path}/registrants/1"), "", ""), is(400, "bad-request"));
    assert_eq!(register(&server, &path, b""), 0);
    assert_eq!(refused(&server, &at(""), "", ""), is(409, "capacity-reached"));
    assert_eq!(
        refused(&server, &format!("DELETE {path}/registrants/1"), mine, ""),
        is(409, "already-complete")
    );
    let above = create(&server, r#"{"capacity":1,"level":2}"#);
    let malformed = refused(&server, &format!("POST {above}/registrants"), "", "no level-1 data");
    assert_eq!(malformed, is(400, "malformed-data"));
    // Long data are validated on another thread, with the same result.
    let long = format!("1 {}", "1 a".repeat(100_000));
    assert_eq!(refused(&server, &format!("POST {above}/registrants"), "", &long), is(400, "malformed-data"));
}

#[test]
fn where_there_is_nothing() {
    let server = server();
    let nowhere = "/rendezvous/00112233445566778899aabbccddeeff";
    for line in [
        format!("GET {nowhere}"),
        format!("DELETE {nowhere}"),
        format!("POST {nowhere}/registrants"),
        format!("GET {nowhere}/registrants/0"),
        format!("GET {nowhere}/completion"),
        format!("GET {nowhere}/events"),
    ] {
        assert_eq!(refused(&server, &line, "", ""), is(404, "unknown-resource"), "{line}");
    }
    for id in ["x", "0011", "00112233445566778899aabbccddeef%67", "00112233445566778899aabbccddeeff0", "%ff"]
    {
        assert_eq!(
            refused(&server, &format!("GET /rendezvous/{id}"), "", ""),
            is(400, "bad-request"),
            "{id}"
        );
        assert_eq!(
            refused(&server, &format!("GET /rendezvous?{id}"), "", ""),
            is(400, "bad-request"),
            "{id}"
        );
    }
    assert_eq!(refused(&server, "GET /rendezvous", "", ""), is(400, "bad-request"));
    assert_eq!(refused(&server, "DELETE /jobs/1", "", ""), is(400, "bad-request"));
    for path in
        ["/other", "/rendezvous/", "/rendezvous/x/y", "//", "/rendezvous/../openapi.json", "/%2e%2e/x"]
    {
        assert_eq!(refused(&server, &format!("GET {path}"), "", ""), is(404, "bad-request"), "{path}");
    }
    for (line, allowed) in [
        ("PUT /rendezvous", ["POST", "GET"]),
        ("POST /rendezvous/x", ["GET", "DELETE"]),
        ("BREW /rendezvous/x", ["GET", "DELETE"]),
    ] {
        let answer = ask(&server, line, "", "");
        assert_eq!(answer.problem(), is(405, "bad-request"));
        let allow = answer.header("allow").unwrap();
        assert!(allowed.iter().all(|method| allow.split(',').any(|other| other == *method)), "{allow}");
    }
}

#[test]
fn the_ends_of_resources() {
    let server = server();
    let wait = |path: &str| refused(&server, &format!("GET {path}/completion"), "", "");
    let path = create(&server, r#"{"capacity":1}"#);
    assert_eq!(ask(&server, &format!("DELETE {path}"), "", "").status, 204);
    assert_eq!(wait(&path), is(410, "destroyed"));
    assert_eq!(refused(&server, &format!("DELETE {path}"), "", ""), is(410, "destroyed"));
    assert_eq!(refused(&server, &format!("POST {path}/registrants"), "", ""), is(410, "destroyed"));
    let path = create(&server, r#"{"capacity":1,"lifetime":0.05}"#);
    assert_eq!(wait(&path), is(410, "expired"));
    let path = create(&server, r#"{"capacity":1}"#);
    for wait in ["301", "-1", "x", "inf", "nan"] {
        let line = format!("GET {path}/completion?wait={wait}");
        assert_eq!(refused(&server, &line, "", ""), is(400, "bad-request"), "{wait}");
    }
    assert_eq!(refused(&server, &format!("GET {path}/completion?of=all"), "", ""), is(400, "bad-request"));
}

#[test]
fn what_a_controlling_task_cannot_do() {
    let server = server();
    let path = create(&server, r#"{"capacity":2}"#);
    let unit = |unit: &str| format!("PUT {path}/controllers/{unit}");
    let (one, two) = ("Registrant-Token: one\r\n", "Registrant-Token: two\r\n");
    let name = r#"{"name":"launcher on node 7"}"#;
    assert_eq!(ask(&server, &unit("1"), one, name).status, 204);
    let taken = ask(&server, &unit("1"), two, name);
    assert_eq!(taken.problem(), is(409, "controller-taken"));
    assert_eq!(taken.json()["task"], "launcher on node 7");
    assert_eq!(refused(&server, &unit("own"), one, name), is(409, "token-reused"));
    assert_eq!(refused(&server, &unit("own"), "", name), is(400, "bad-request"));
    assert_eq!(refused(&server, &unit("own"), two, "{}"), is(400, "bad-request"));
    assert_eq!(refused(&server, &unit("own"), two, r#"{"name":""}"#), is(400, "bad-request"));
    assert_eq!(refused(&server, &unit("mine"), two, name), is(400, "bad-request"));
    assert_eq!(refused(&server, &unit("5000000000"), two, name), is(400, "rank-out-of-range"));
    let release = format!("DELETE {path}/controllers/1");
    assert_eq!(refused(&server, &release, two, ""), is(404, "not-registered"));
    assert_eq!(ask(&server, &format!("{release}?lost=out%20of%20memory"), one, "").status, 204);
    let lost = ask(&server, &format!("GET {path}/completion"), "", "");
    assert_eq!(lost.problem(), is(410, "controller-lost"));
    assert_eq!((&lost.json()["task"], &lost.json()["rank"]), (&"launcher on node 7".into(), &1.into()));
    assert!(lost.json()["detail"].as_str().unwrap().contains("out of memory"), "{lost:?}");
    let properties = ask(&server, &format!("GET {path}"), "", "").json();
    assert_eq!(properties["failed"]["code"], "controller-lost");
    let silent = create(&server, r#"{"capacity":2}"#);
    assert_eq!(ask(&server, &format!("PUT {silent}/controllers/own?lease=0.05"), one, name).status, 204);
    assert_eq!(refused(&server, &format!("GET {silent}/completion"), "", ""), is(410, "controller-lost"));
}

#[test]
fn a_service_that_is_full() {
    let server = started(|options| {
        options.limits.resources = 1;
        options.limits.waiting = 1;
        options.limits.data = 1000;
        options.limits.held = 2000;
        options.streams = 1;
    });
    let full = |answer: Answer| {
        assert_eq!(answer.problem(), is(503, "service-full"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    };
    let path = create(&server, r#"{"capacity":5}"#);
    full(ask(&server, "POST /rendezvous", "", r#"{"capacity":5}"#));
    register(&server, &path, &[0; 900]);
    full(ask(&server, &format!("POST {path}/registrants"), "", [0; 900]));
    let too_long = ask(&server, &format!("POST {path}/registrants"), "", [0; 1001]);
    assert_eq!(too_long.problem(), is(413, "data-too-long"));
    let mut looking = connect(server.address());
    looking.send(format!("GET {path}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(looking.head().unwrap().status, 200);
    full(ask(&server, &format!("GET {path}/events"), "", ""));
    // Its wait is registered with its first event, or soon after.
    looking.chunk().unwrap();
    until(|| ask(&server, &format!("GET {path}"), "", "").json()["waiting"] != 0);
    full(ask(&server, &format!("GET {path}/completion"), "", ""));
    // A closed stream makes room.
    drop(looking);
    until(|| ask(&server, &format!("GET {path}/completion?wait=0.01"), "", "").status == 204);
}

#[test]
fn a_service_with_a_token() {
    let (token, line) = token();
    let server = started(|options| options.token = Some(token));
    let missing = ask(&server, "POST /rendezvous", "", r#"{"capacity":1}"#);
    assert_eq!(missing.problem(), is(401, "unauthorized"));
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    let wrong = "Authorization: Bearer 0000000000000000000000000000000000000000000000000000000000000000\r\n";
    for line in [
        wrong,
        "Authorization: Bearer\r\n",
        "Authorization: Basic YTpi\r\n",
        &format!("{line}{wrong}"),
        "Cookie: gpc-rendezvous=1\r\n",
    ] {
        for path in ["POST /rendezvous", "GET /rendezvous/x", "GET /other", "PUT /rendezvous"] {
            assert_eq!(refused(&server, path, line, ""), is(401, "unauthorized"), "{path} {line}");
        }
    }
    assert_eq!(ask(&server, "POST /rendezvous", &line, r#"{"capacity":1}"#).status, 201);
    let other = line.replace("Bearer", "bearer  ");
    assert_eq!(ask(&server, "POST /rendezvous", &other, r#"{"capacity":1}"#).status, 201);
}

/// A service without a token rejects any token.
#[test]
fn a_service_without_a_token() {
    let server = server();
    let (_, line) = token();
    assert_eq!(refused(&server, "POST /rendezvous", &line, r#"{"capacity":1}"#), is(401, "unauthorized"));
}

/// What is exactly at a limit is taken.
#[test]
fn what_is_at_its_limit() {
    let server = started(|options| options.limits.data = 1000);
    let path = create(&server, r#"{"capacity":1}"#);
    assert_eq!(ask(&server, &format!("POST {path}/registrants"), "", [0; 1001]).status, 413);
    assert_eq!(register(&server, &path, &[0; 1000]), 0);
    assert_eq!(ask(&server, &format!("GET {path}/completion?wait=300"), "", "").status, 200);
    assert_eq!(ask(&server, &format!("GET {path}/completion?wait=300.001"), "", "").status, 400);
}
