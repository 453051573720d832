//! Observers: server-sent events of a resource and of the page.

use serde_json::Value;

use crate::http::declared::check_schema;
use crate::http::raw::{Client, ask, connect, create, register, server, server_with_page, until};

/// The next event: its name and its data.
fn event(client: &mut Client, text: &mut String) -> Option<(String, Value)> {
    while !text.contains("\n\n") {
        text.push_str(std::str::from_utf8(&client.chunk()?).unwrap());
    }
    let (one, rest) = text.split_once("\n\n").unwrap();
    let (name, data) = one.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
    let found = (name.to_owned(), serde_json::from_str(data).unwrap());
    *text = rest.to_owned();
    Some(found)
}

fn look(address: std::net::SocketAddr, path: &str, lines: &str) -> Client {
    let mut client = connect(address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
    let head = client.head().unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
    client
}

#[test]
fn a_resource_fills() {
    let server = server();
    let path = create(&server, r#"{"capacity":3}"#);
    let (mut client, mut text) = (look(server.address(), &format!("{path}/events"), ""), String::new());
    let mut tallies = Vec::new();
    let completed = loop {
        let (name, data) = event(&mut client, &mut text).unwrap();
        if name != "tally" {
            assert_eq!(name, "completed");
            break data;
        }
        check_schema("Tally", &data);
        tallies.push(data["tally"].as_u64().unwrap());
        if data["tally"] != 3 {
            register(&server, &path, b"x");
        }
    };
    assert_eq!(tallies, [0, 1, 2, 3]);
    check_schema("CompletedEvent", &completed);
    assert_eq!((&completed["level"], &completed["data"]), (&1.into(), &"MyAxIHgxIHgxIHg=".into()));
    assert_eq!(event(&mut client, &mut text), None, "the stream ends");
}

#[test]
fn who_comes_late_is_told_at_once() {
    let server = server();
    let path = create(&server, r#"{"capacity":1,"joint":true}"#);
    register(&server, &path, &vec![0; 2 << 20]);
    let (mut client, mut text) =
        (look(server.address(), &format!("{path}/events?of=top"), ""), String::new());
    let (name, data) = event(&mut client, &mut text).unwrap();
    assert_eq!((name.as_str(), &data["tally"]), ("tally", &1.into()));
    let (name, data) = event(&mut client, &mut text).unwrap();
    check_schema("CompletedEvent", &data);
    assert_eq!(name, "completed");
    assert!(data["data"].is_null(), "they are over 1 MiB");
    assert!(data["joint"]["secret"].is_string());
}

#[test]
fn a_rendezvous_that_will_not_be() {
    let server = server();
    let path = create(&server, r#"{"capacity":1}"#);
    let (mut client, mut text) = (look(server.address(), &format!("{path}/events"), ""), String::new());
    assert_eq!(event(&mut client, &mut text).unwrap().0, "tally");
    ask(&server, &format!("DELETE {path}"), "", "");
    let (name, data) = event(&mut client, &mut text).unwrap();
    check_schema("Problem", &data);
    assert_eq!((name.as_str(), &data["code"]), ("fault", &"destroyed".into()));
    assert_eq!(event(&mut client, &mut text), None);
}

/// A wait or a stream with a token suspends the token's lease. When the client disconnects, the lease runs and expires.
#[test]
fn who_waits_lives_and_who_goes_does_not() {
    let server = server();
    let path = create(&server, r#"{"capacity":2}"#);
    let tally = || ask(&server, &format!("GET {path}"), "", "").json()["tally"].as_u64().unwrap();
    let waiting = || ask(&server, &format!("GET {path}"), "", "").json()["waiting"].as_u64().unwrap();
    for (token, way) in [("one", "completion?wait=60"), ("two", "events")] {
        let line = format!("Registrant-Token: {token}\r\n");
        let mut client = connect(server.address());
        client.send(format!("GET {path}/{way} HTTP/1.1\r\nHost: localhost\r\n{line}\r\n"));
        until(|| waiting() > 0);
        let register = ask(&server, &format!("POST {path}/registrants?lease=0.01"), &line, "data");
        assert_eq!(register.status, 201);
        // Many times the lease.
        assert_eq!(ask(&server, &format!("GET {path}/completion?wait=0.3"), "", "").status, 204);
        assert_eq!(tally(), 1, "{way}");
        drop(client);
        until(|| tally() == 0);
        until(|| waiting() == 0);
    }
}

#[test]
fn many_look_on_at_one_resource() {
    let server = server();
    let path = create(&server, r#"{"capacity":1}"#);
    let mut clients: Vec<Client> =
        (0..100).map(|_| look(server.address(), &format!("{path}/events"), "")).collect();
    register(&server, &path, b"x");
    for client in &mut clients {
        let mut text = String::new();
        let names: Vec<String> = std::iter::from_fn(|| Some(event(client, &mut text)?.0)).collect();
        assert_eq!(names.last().unwrap(), "completed");
        assert!(names[..names.len() - 1].iter().all(|name| name == "tally"));
    }
}

#[test]
fn the_page_is_told_of_all_resources() {
    let (server, line) = server_with_page();
    let path = create(&server, r#"{"capacity":2,"level":1}"#);
    let (mut client, mut text) = (look(server.address(), "/events", &line), String::new());
    let (name, data) = event(&mut client, &mut text).unwrap();
    check_schema("Resources", &data);
    let id = path.rsplit('/').next().unwrap();
    assert_eq!((name.as_str(), data[0]["id"].as_str()), ("resources", Some(&id[..8])));
    assert_eq!((&data[0]["tally"], &data[0]["failed"]), (&0.into(), &Value::Null));
    register(&server, &path, b"x");
    let (_, data) = event(&mut client, &mut text).unwrap();
    assert_eq!(data[0]["tally"], 1);
    // A later observer gets the same state immediately.
    let (mut other, mut other_text) = (look(server.address(), "/events", &line), String::new());
    assert_eq!(event(&mut other, &mut other_text).unwrap().1[0]["tally"], 1);
    ask(&server, &format!("DELETE {path}"), "", "");
    assert_eq!(event(&mut client, &mut text).unwrap().1, serde_json::json!([]));
}
