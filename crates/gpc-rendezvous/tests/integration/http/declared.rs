//! Checks every answer in these tests against `openapi.json`.
//!
//! The checker supports the part of JSON Schema that the file uses, and fails on anything else.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use gpc_rendezvous::http::OPENAPI;
use serde_json::{Map, Value};

use crate::http::raw::Answer;

pub(crate) static FILE: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(OPENAPI).unwrap());

/// Operations and statuses that tests have seen.
pub(crate) static SEEN: Mutex<BTreeSet<(String, u16)>> = Mutex::new(BTreeSet::new());

/// Resolves a reference.
pub(crate) fn resolved(value: &Value) -> &Value {
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

/// Checks an answer to a request; `line` is its method and path.
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

/// Checks a value against the schema with this name.
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
