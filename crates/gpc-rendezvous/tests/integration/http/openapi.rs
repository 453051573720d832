//! The file `openapi.json`, and a server that conforms to it.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use gpc_rendezvous::FaultKind;
use gpc_rendezvous::http::OPENAPI;
use serde_json::Value;

use crate::http::declared::{FILE, SEEN, check, check_schema, resolved};
use crate::http::raw::{ask, connect, create, register, server, server_with_page, started, token};

#[test]
fn it_is_served_to_everybody() {
    let (token, _) = token();
    let server = started(|options| options.token = Some(token));
    let answer = ask(&server, "GET /openapi.json", "", "");
    assert_eq!((answer.status, answer.text()), (200, OPENAPI));
    assert_eq!(ask(&server, "GET /rendezvous/x", "", "").problem(), (401, "unauthorized".into()));
}

#[test]
fn every_fault_has_its_code_there() {
    let declared = FILE["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
    let codes: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(declared.iter().map(|code| code.as_str().unwrap()).collect::<Vec<_>>(), codes);
}

/// Every reference resolves, and every path declares its parameters.
#[test]
fn it_is_whole() {
    fn references(value: &Value) {
        resolved(value);
        match value {
            Value::Object(members) => members.values().for_each(references),
            Value::Array(items) => items.iter().for_each(references),
            _ => {}
        }
    }
    references(&FILE);
    let mut ids = BTreeSet::new();
    for (path, item) in FILE["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            assert!(ids.insert(operation["operationId"].as_str().unwrap()));
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = parameters.iter().map(resolved).filter(|parameter| parameter["in"] == "path");
            let named: BTreeSet<&str> =
                in_path.map(|parameter| parameter["name"].as_str().unwrap()).collect();
            let in_template =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(named, in_template, "{path}");
        }
    }
}

/// The successful answer of every operation.
#[test]
fn every_operation_answers_as_it_says() {
    let (server, line) = server_with_page();
    let page_token = line.trim().rsplit(' ').next().unwrap();
    let job = "00112233445566778899aabbccddeeff";
    let path = create(&server, &format!(r#"{{"capacity":2,"job":"{job}"}}"#));
    let id = path.rsplit('/').next().unwrap().to_owned();
    let mine = "Registrant-Token: mine\r\n";
    let ask = |line: &str, lines: &str, body: &str, status| {
        let answer = ask(&server, line, lines, body);
        assert_eq!(answer.status, status, "{line}: {answer:?}");
    };
    ask(&format!("GET /rendezvous?{id}"), "", "", 308);
    ask(&format!("GET {path}"), "", "", 200);
    ask(&format!("PUT {path}/controllers/own?lease=60"), mine, r#"{"name":"launcher"}"#, 204);
    ask(&format!("DELETE {path}/controllers/own"), mine, "", 204);
    ask(&format!("POST {path}/registrants?rank=1"), mine, "data", 201);
    ask(&format!("GET {path}/completion?wait=0"), "", "", 204);
    ask(&format!("DELETE {path}/registrants/1"), mine, "", 204);
    register(&server, &path, b"one");
    register(&server, &path, b"two");
    ask(&format!("GET {path}/registrants/0"), "", "", 200);
    ask(&format!("GET {path}/completion"), "", "", 200);
    ask(&format!("GET {path}/completion"), "Accept: application/json\r\n", "", 200);
    ask(&format!("GET {path}/events"), "", "", 200);
    ask(&format!("DELETE /jobs/{job}"), "", "", 200);
    let other = create(&server, r#"{"capacity":1}"#);
    ask(&format!("DELETE {other}"), "", "", 204);
    ask("GET /openapi.json", "", "", 200);
    for path in ["/page.css", "/page.js"] {
        ask(&format!("GET {path}"), "", "", 200);
    }
    ask("GET /", &line, "", 200);
    ask("GET /", "", "", 401);
    ask("POST /login", "", &format!("token={}", page_token), 303);
    let mut looking = connect(server.address());
    looking.send(format!("GET /events HTTP/1.1\r\nHost: localhost\r\n{line}\r\n"));
    let head = looking.head().unwrap();
    check("GET /events", &head);
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let operations = FILE["paths"].as_object().unwrap().values();
    for operation in operations.flat_map(|item| item.as_object().unwrap().values()) {
        let id = operation["operationId"].as_str().unwrap();
        let fine = operation["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap());
        for status in fine.filter(|status: &u16| *status < 400) {
            assert!(seen.contains(&(id.to_owned(), status)), "{id} has never answered {status}");
        }
    }
}

/// The checker detects undeclared content.
#[test]
fn what_is_not_declared_is_seen() {
    let refused = |name: &'static str, text: &'static str| {
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(std::panic::catch_unwind(|| check_schema(name, &value)).is_err(), "{name} {text}");
    };
    check_schema("Tally", &serde_json::json!({"tally": 1, "capacity": 2}));
    refused("Tally", r#"{"tally":1}"#);
    refused("Tally", r#"{"tally":1,"capacity":2,"more":3}"#);
    refused("Tally", r#"{"tally":"1","capacity":2}"#);
    refused("Problem", r#"{"type":"","title":"","status":400,"detail":"","code":"other"}"#);
    let server = server();
    let mut answer = ask(&server, "GET /rendezvous/x", "", "");
    check("GET /rendezvous/x", &answer);
    answer.status = 418;
    assert!(std::panic::catch_unwind(|| check("GET /rendezvous/x", &answer)).is_err());
}
