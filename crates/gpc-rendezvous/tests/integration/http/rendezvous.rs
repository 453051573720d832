//! Whole rendezvous over HTTP, from creation to end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpc_rendezvous::machine::{Change, Millis, StoredResource, StoredState};
use gpc_rendezvous::{ResourceId, Store, StoreError, Token};

use crate::http::raw::{ask, connect, create, register, server, started, until};

/// The golden vector of the source: two subjobs of two processes, each with the bytes 1 2 3.
const GOLDEN: &str = "MiAyIDMgAQIDMyABAgMyIDMgAQIDMyABAgM=";

#[test]
fn two_levels_meet() {
    let server = server();
    let top = create(&server, r#"{"capacity":2,"level":2,"joint":true}"#);
    for rank in 0..2 {
        let path = create(&server, r#"{"capacity":2}"#);
        assert_eq!([register(&server, &path, &[1, 2, 3]), register(&server, &path, &[1, 2, 3])], [0, 1]);
        let answer = ask(&server, &format!("GET {path}/completion?wait=10"), "", "");
        assert_eq!((answer.status, answer.header("rendezvous-level")), (200, Some("1")));
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        assert_eq!(register(&server, &top, &answer.body), rank);
    }
    let answer = ask(&server, &format!("GET {top}/completion"), "Accept: application/json\r\n", "");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let json = answer.json();
    assert_eq!((&json["level"], &json["data"]), (&2.into(), &GOLDEN.into()));
    assert_eq!(json["joint"]["secret"].as_str().unwrap().len(), 64);
    assert_eq!(json["joint"]["job"].as_str().unwrap().len(), 32);
    let answer = ask(&server, &format!("GET {top}/registrants/1"), "", "");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"2 3 \x01\x02\x033 \x01\x02\x03"[..]));
}

#[test]
fn a_handle_leads_to_the_properties() {
    let server = server();
    let mut client = connect(server.address());
    let created = client.ask("POST /rendezvous", "", br#"{"capacity":3,"lifetime":1.5}"#);
    let (handle, id) = (created.json()["handle"].clone(), created.json()["id"].clone());
    let id = id.as_str().unwrap();
    assert_eq!(handle, format!("{}?{id}", server.url()));
    let answer = client.ask(&format!("GET /rendezvous?{id}"), "", b"");
    assert_eq!((answer.status, answer.header("location")), (308, created.header("location")));
    let path = answer.header("location").unwrap().to_owned();
    client.ask(&format!("POST {path}/registrants?rank=1"), "", b"abc");
    let json = client.ask(&format!("GET {path}"), "", b"").json();
    assert_eq!(json["id"], id);
    assert_eq!((&json["capacity"], &json["tally"], &json["bytes"]), (&3.into(), &1.into(), &3.into()));
    assert_eq!(json["missing"], serde_json::json!([0, 2]));
    assert_eq!(json["expires"].as_u64().unwrap() - json["created"].as_u64().unwrap(), 1500);
    assert_eq!((&json["failed"], &json["job"]), (&serde_json::Value::Null, &serde_json::Value::Null));
}

#[test]
fn waits_are_answered_when_the_last_task_registers() {
    let server = server();
    let path = create(&server, r#"{"capacity":2}"#);
    register(&server, &path, b"one");
    let mut waiting = connect(server.address());
    waiting.send(format!("GET {path}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let answer = ask(&server, &format!("GET {path}/completion?wait=0"), "", "");
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    register(&server, &path, b"two");
    let answer = waiting.answer();
    assert_eq!((answer.status, answer.text()), (200, "2 3 one3 two"));
}

/// A store with a resource of one registrant.
struct OfOne(Option<(ResourceId, StoredResource)>);

impl Store for OfOne {
    fn load(&mut self) -> Result<StoredState, StoreError> {
        Ok(StoredState { resources: self.0.take().into_iter().collect(), ..StoredState::default() })
    }

    fn save(&mut self, _now: Millis, _changes: &[Change]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The end of a wait was computed by the machine's clock: when that was set back by an hour, every long poll was
/// answered immediately. To a service whose time is an hour ahead, the machine's clock appears to be set back.
#[test]
fn a_wait_is_as_long_as_it_was_asked_whatever_the_machines_clock_says() {
    let apart = create_time(&server()) + 3_600_000;
    let (job, joint, parent, failed, token) = (None, None, None, None, Token::new("t").unwrap());
    let (capacity, level, created, expires) = (1, 1, apart, apart + 3_600_000);
    let kept = StoredResource { capacity, level, created, expires, job, joint, parent, token, failed };
    let server = started(|options| {
        options.store = Some(Box::new(OfOne(Some((ResourceId([7; 16]), kept)))));
    });
    assert!(create_time(&server) >= apart, "the service's time goes on from what was kept");
    let path = format!("/rendezvous/{}", ResourceId([7; 16]));
    let mut waiting = connect(server.address());
    waiting.send(format!("GET {path}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    until(|| ask(&server, &format!("GET {path}"), "", "").json()["waiting"] != 0);
    register(&server, &path, b"one");
    let answer = waiting.answer();
    assert_eq!((answer.status, answer.text()), (200, "1 3 one"));
}

/// The creation time that a server reports for a new resource.
fn create_time(server: &gpc_rendezvous::http::Server) -> u64 {
    let path = create(server, r#"{"capacity":1}"#);
    ask(server, &format!("GET {path}"), "", "").json()["created"].as_u64().unwrap()
}

#[test]
fn a_registrant_asks_again_and_withdraws() {
    let server = server();
    let path = create(&server, r#"{"capacity":2}"#);
    let mine = "Registrant-Token: mine\r\n";
    for _ in 0..2 {
        let answer = ask(&server, &format!("POST {path}/registrants?rank=1&lease=60"), mine, "data");
        assert_eq!(answer.status, 201);
        assert_eq!(answer.text(), r#"{"rank":1,"tally":1,"capacity":2,"token":"mine"}"#);
    }
    let withdraw = format!("DELETE {path}/registrants/1");
    assert_eq!(ask(&server, &withdraw, "Registrant-Token: other\r\n", "").problem().0, 404);
    assert_eq!(ask(&server, &withdraw, mine, "").status, 204);
    assert_eq!(ask(&server, &format!("GET {path}"), "", "").json()["tally"], 0);
    let drawn = ask(&server, &format!("POST {path}/registrants"), "", "").json();
    assert_eq!(drawn["token"].as_str().unwrap().len(), 64);
}

#[test]
fn long_data_come_back_as_they_are() {
    let server = server();
    let data: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    let path = create(&server, r#"{"capacity":1}"#);
    register(&server, &path, &data);
    let answer = ask(&server, &format!("GET {path}/registrants/0"), "", "");
    assert!(answer.body == data);
    let answer =
        ask(&server, &format!("GET {path}/completion"), "Accept: text/html, application/json;q=0.9\r\n", "");
    let level = STANDARD.decode(answer.json()["data"].as_str().unwrap()).unwrap();
    assert!(level == [&b"1 3000001 "[..], &data].concat());
}

#[test]
fn a_job_ends_with_its_resources() {
    let server = server();
    let job = "00112233445566778899aabbccddeeff";
    let json = format!(r#"{{"capacity":1,"job":"{job}"}}"#);
    let paths = [create(&server, &json), create(&server, &json)];
    let mut waiting = connect(server.address());
    waiting.send(format!("GET {}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[0]));
    assert_eq!(ask(&server, &format!("DELETE /jobs/{job}"), "", "").text(), r#"{"ended":2}"#);
    assert_eq!(waiting.answer().problem(), (410, "job-ended".into()));
    assert_eq!(ask(&server, &format!("DELETE /jobs/{job}"), "", "").text(), r#"{"ended":0}"#);
}

/// At the end of the server, waits get an answer, and new requests are rejected.
#[test]
fn waits_are_answered_when_the_server_ends() {
    let server = server();
    let path = create(&server, r#"{"capacity":1}"#);
    let mut idle = connect(server.address());
    assert_eq!(idle.ask(&format!("GET {path}"), "", b"").status, 200);
    let mut waiting = connect(server.address());
    waiting.send(format!("GET {path}/completion?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    // The properties show when it waits.
    until(|| idle.ask(&format!("GET {path}"), "", b"").json()["waiting"] != 0);
    server.shutdown(crate::http::raw::LIMIT);
    let answer = waiting.answer();
    assert_eq!(answer.problem(), (503, "unavailable".into()));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(idle.rest().is_empty());
}
