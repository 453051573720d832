//! The server against `openapi.json`: every answer that a test of this folder gets is looked up there.
//!
//! The checker knows the part of JSON Schema that the file uses, and fails on anything else.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use gpc_rendezvous::FaultKind;
use gpc_rendezvous::http::OPENAPI;
use serde_json::{Map, Value};

use crate::raw::{Answer, ask, connect, create, options, register, server, token};

static FILE: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(OPENAPI).unwrap());

/// Operations with their statuses that a test has seen.
static SEEN: Mutex<BTreeSet<(String, u16)>> = Mutex::new(BTreeSet::new());

/// What a reference means.
fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str() {
        Some(path) => FILE.pointer(path.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{path}")),
        None => value,
    }
}

/// The template of a path.
fn template(path: &str) -> Option<(&'static str, &'static Map<String, Value>)> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let template: Vec<&str> = template.split('/').collect();
        let same = |(one, other): (&&str, &&str)| one == other || one.starts_with('{') && !other.is_empty();
        template.len() == parts.len() && template.iter().zip(&parts).all(same)
    };
    let found = FILE["paths"].as_object().unwrap().iter().find(|(template, _)| fits(template));
    found.map(|(template, item)| (template.as_str(), item.as_object().unwrap()))
}

/// Checks an answer to a request, `line` being its method and path.
pub(crate) fn check(line: &str, answer: &Answer) {
    let (method, path) = line.split_once(' ').unwrap();
    let (path, method) = (path.split('?').next().unwrap(), method.to_ascii_lowercase());
    let Some((template, item)) = template(path) else {
        assert!([401, 403, 404, 414].contains(&answer.status), "{line}: {answer:?}");
        return;
    };
    let Some(operation) = item.get(&method) else {
        assert!([401, 403, 405].contains(&answer.status), "{line}: {answer:?}");
        return;
    };
    let declared = &operation["responses"][answer.status.to_string()];
    assert!(declared.is_object(), "{line}: status {} is not declared: {answer:?}", answer.status);
    let declared = resolved(declared);
    for (name, _) in declared["headers"].as_object().into_iter().flatten() {
        let json = answer.header("content-type") == Some("application/json");
        let there = answer.header(&name.to_ascii_lowercase()).is_some();
        assert!(there || json && name == "Rendezvous-Level", "{line}: {name} is missing: {answer:?}");
    }
    match (declared["content"].as_object(), answer.header("content-type")) {
        (None, None) => assert!(answer.body.is_empty(), "{line}: a body that is not declared: {answer:?}"),
        (None, Some(media)) => panic!("{line}: {media} is not declared for {}", answer.status),
        (Some(_), None) => panic!("{line}: {} has no type: {answer:?}", answer.status),
        (Some(content), Some(media)) => {
            let content = content.get(media).unwrap_or_else(|| panic!("{line}: {media} is not declared"));
            if media.contains("json") {
                fits(&content["schema"], &answer.json(), line);
            }
        }
    }
    let operation = operation["operationId"].as_str().unwrap();
    assert!(!template.is_empty());
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert((operation.to_owned(), answer.status));
}

/// Checks a value against one of the schemas by name.
pub(crate) fn check_schema(name: &str, value: &Value) {
    fits(&FILE["components"]["schemas"][name], value, name);
}

fn fits(schema: &Value, value: &Value, at: &str) {
    let schema = resolved(schema);
    for (keyword, wanted) in schema.as_object().unwrap_or_else(|| panic!("{at}: no schema")) {
        match keyword.as_str() {
            "type" => {
                let names = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
                assert!(
                    names.iter().any(|name| is(name.as_str().unwrap(), value)),
                    "{at}: {value} is no {wanted}"
                );
            }
            "anyOf" => {
                let fitting = |schema: &&Value| is(resolved(schema)["type"].as_str().unwrap(), value);
                let schema = wanted.as_array().unwrap().iter().find(fitting);
                fits(schema.unwrap_or_else(|| panic!("{at}: {value} fits none")), value, at);
            }
            "enum" => {
                assert!(wanted.as_array().unwrap().contains(value), "{at}: {value} is none of {wanted}")
            }
            "minimum" => assert!(value.as_f64() >= wanted.as_f64(), "{at}: {value}"),
            "maxItems" => assert!(value.as_array().unwrap().len() as u64 <= wanted.as_u64().unwrap(), "{at}"),
            "minLength" => assert!(value.as_str().unwrap().len() as u64 >= wanted.as_u64().unwrap(), "{at}"),
            "maxLength" => assert!(value.as_str().unwrap().len() as u64 <= wanted.as_u64().unwrap(), "{at}"),
            "required" if value.is_object() => {
                for name in wanted.as_array().unwrap() {
                    assert!(
                        value.get(name.as_str().unwrap()).is_some(),
                        "{at}: {name} is missing in {value}"
                    );
                }
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let schema = wanted.get(name).unwrap_or_else(|| panic!("{at}: {name} is not declared"));
                    fits(schema, member, &format!("{at}.{name}"));
                }
            }
            "items" => {
                for item in value.as_array().unwrap() {
                    fits(wanted, item, at);
                }
            }
            "required" | "additionalProperties" | "description" | "contentEncoding" | "format" => {}
            other => panic!("{at}: the checker does not know {other}"),
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the checker does not know {other}"),
    }
}

#[test]
fn it_is_served_to_everybody() {
    let (token, _) = token();
    let mut options = options();
    options.token = Some(token);
    let server = gpc_rendezvous::http::Server::start(options).unwrap();
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

/// Every reference leads somewhere, and every path says which parameters it has.
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

/// What every operation answers when it does what it is for.
#[test]
fn every_operation_answers_as_it_says() {
    let mut with_page = options();
    let (page_token, line) = token();
    with_page.page_token = Some(page_token.clone());
    let server = gpc_rendezvous::http::Server::start(with_page).unwrap();
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
    ask("POST /login", "", &format!("token={}", page_token.to_text().as_str()), 303);
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

/// The checker is not blind.
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
