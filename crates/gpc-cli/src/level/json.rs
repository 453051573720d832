//! Converts level-n data to and from JSON: nested arrays, whose leaves are strings, or `{"base64": "AQID"}` for bytes
//! that are not plain text.

use std::cell::RefCell;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chained_gpc::wire::level::{LevelError, Limits, Token, Tokens, validate};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Deserializer, Serialize, Serializer};

use crate::args::LEVEL_MAX;

/// Key of a leaf that is not plain text.
const BASE64: &str = "base64";

/// Valid level-n data, to be written as JSON.
#[derive(Debug)]
pub(crate) struct Leveled<'a> {
    level: u16,
    data: &'a [u8],
}

impl<'a> Leveled<'a> {
    /// Checks data of a level from 1 on.
    ///
    /// # Errors
    /// If they are not level-n data of this level.
    pub(crate) fn new(level: u16, data: &'a [u8]) -> Result<Leveled<'a>, LevelError> {
        // A level above the maximum nesting of JSON is refused.
        let limits = Limits { level: LEVEL_MAX, ..Limits::default() };
        validate(level, data, limits)?;
        Ok(Leveled { level, data })
    }
}

impl Serialize for Leveled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tokens = RefCell::new(Tokens::new(self.level, self.data, Limits::default()));
        // Skips the opening of the outermost list, with which valid data always begin.
        let _open = tokens.borrow_mut().next();
        List(&tokens).serialize(serializer)
    }
}

/// A list whose opening has been read.
struct List<'a, 'b>(&'b RefCell<Tokens<'a>>);

impl Serialize for List<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        // Ends with the list, or with the data.
        loop {
            let token = self.0.borrow_mut().next();
            match token.transpose().map_err(S::Error::custom)? {
                Some(Token::Open { .. }) => list.serialize_element(&List(self.0))?,
                Some(Token::Leaf(bytes)) => list.serialize_element(&Leaf(bytes))?,
                Some(Token::Close) | None => return list.end(),
            }
        }
    }
}

struct Leaf<'a>(&'a [u8]);

impl Serialize for Leaf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0)
            && !text.chars().any(char::is_control)
        {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(BASE64, &STANDARD.encode(self.0))?;
        map.end()
    }
}

/// Parses JSON, and returns its level and the level-n data.
///
/// # Errors
/// If it is not JSON, or not level-n data of one level, the wanted one if that is given. The message has line and
/// column.
pub(crate) fn encoded(json: &[u8], wanted: Option<u16>) -> Result<(u16, Vec<u8>), serde_json::Error> {
    let mut seen = Seen { leaves: wanted, lists: 0 };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = Place { depth: 0, seen: &mut seen }.deserialize(&mut reader)?;
    reader.end()?;
    let level = seen.leaves.unwrap_or(seen.lists);
    let mut data = Vec::with_capacity(json.len());
    put(&value, &mut data);
    Ok((level, data))
}

enum Value {
    Leaf(Vec<u8>),
    List(Vec<Value>),
}

/// Recurses only as deep as lists are nested, which is bounded.
fn put(value: &Value, out: &mut Vec<u8>) {
    let count = match value {
        Value::Leaf(bytes) => bytes.len(),
        Value::List(members) => members.len(),
    };
    out.extend_from_slice(count.to_string().as_bytes());
    out.push(b' ');
    match value {
        Value::Leaf(bytes) => out.extend_from_slice(bytes),
        Value::List(members) => members.iter().for_each(|member| put(member, out)),
    }
}

/// Nesting depths found so far.
struct Seen {
    /// Depth of all leaves; `None` until there is one, unless the level is given.
    leaves: Option<u16>,
    /// Depth of the deepest list, which includes the list itself.
    lists: u16,
}

/// Position of a value: the number of lists around it.
struct Place<'a> {
    depth: u16,
    seen: &'a mut Seen,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Place<'_> {
    fn leaf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Value, E> {
        let Place { depth, seen } = self;
        if depth == 0 {
            return Err(E::custom(
                "a byte string alone is no level-n data: write a list of them, as in [\"a\"]",
            ));
        }
        let level = *seen.leaves.get_or_insert(depth);
        if level != depth || seen.lists > depth {
            return Err(unequal(depth, level.max(seen.lists)));
        }
        Ok(Value::Leaf(bytes))
    }
}

fn unequal<E: serde::de::Error>(here: u16, there: u16) -> E {
    E::custom(format!(
        "a byte string inside {}, where others, or the level that is asked for, have {}: all stand equally deep",
        lists(here),
        lists(there)
    ))
}

fn lists(count: u16) -> String {
    format!("{count} list{}", if count == 1 { "" } else { "s" })
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, a string, or bytes as {\"base64\": \"AQID\"}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.leaf(text.as_bytes().to_vec())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.leaf(text.into_bytes())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Value, M::Error> {
        let shape = || M::Error::custom("bytes are written as {\"base64\": \"AQID\"}");
        let Some((key, text)) = map.next_entry::<String, String>()? else { return Err(shape()) };
        if key != BASE64 || map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            return Err(shape());
        }
        let bytes = STANDARD.decode(text).map_err(|error| M::Error::custom(format!("no base64: {error}")))?;
        self.leaf(bytes)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Value, S::Error> {
        let Place { depth, seen } = self;
        let inside = depth + 1;
        if inside > LEVEL_MAX {
            return Err(S::Error::custom(format!("lists are nested deeper than {LEVEL_MAX}")));
        }
        if seen.leaves.is_some_and(|level| inside > level) {
            return Err(S::Error::custom(format!(
                "a list where a byte string is expected, inside {}",
                lists(depth)
            )));
        }
        seen.lists = seen.lists.max(inside);
        let mut members = Vec::new();
        while let Some(member) = list.next_element_seed(Place { depth: inside, seen: &mut *seen })? {
            members.push(member);
        }
        Ok(Value::List(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(level: u16, data: &[u8]) -> String {
        serde_json::to_string(&Leveled::new(level, data).unwrap()).unwrap()
    }

    fn fault(json: &str, wanted: Option<u16>) -> String {
        encoded(json.as_bytes(), wanted).unwrap_err().to_string()
    }

    /// The golden vector of the source document: two subjobs of two processes, each with the bytes 1 2 3.
    #[test]
    fn the_golden_vector_goes_both_ways() {
        let data = STANDARD.decode("MiAyIDMgAQIDMyABAgMyIDMgAQIDMyABAgM=").unwrap();
        let json = decoded(2, &data);
        let leaf = r#"{"base64":"AQID"}"#;
        assert_eq!(json, format!("[[{leaf},{leaf}],[{leaf},{leaf}]]"));
        assert_eq!(encoded(json.as_bytes(), None).unwrap(), (2, data.clone()));
        assert_eq!(encoded(json.as_bytes(), Some(2)).unwrap(), (2, data));
    }

    #[test]
    fn what_is_no_level_data_is_refused_with_its_place() {
        for (json, wanted, said) in [
            ("\"a\"", None, "alone is no level-n data"),
            ("[\"a\", [\"b\"]]", None, "a list where a byte string is expected, inside 1 list"),
            ("[[\"b\"], \"a\"]", None, "a byte string inside 1 list, where others"),
            ("[[], \"a\"]", None, "inside 1 list, where others"),
            ("[\"a\"]", Some(2), "have 2 lists"),
            ("[[\"a\"]]", Some(1), "a list where a byte string"),
            ("[1]", None, "expected a list, a string"),
            ("[{}]", None, "bytes are written as"),
            ("[{\"base64\": \"AQID\", \"more\": 1}]", None, "bytes are written as"),
            ("[{\"base64\": \"A\"}]", None, "no base64"),
            ("[\"a\"] x", None, "trailing characters"),
            ("[", None, "EOF"),
        ] {
            let error = fault(json, wanted);
            assert!(error.contains(said) && error.contains(" at line 1 column "), "{json}: {error}");
        }
        let deep = "[".repeat(usize::from(LEVEL_MAX) + 1);
        assert!(fault(&deep, None).contains("nested deeper than 100"));
        assert!(Leveled::new(2, b"1 1 a").unwrap_err().to_string().contains("byte"));
        assert!(Leveled::new(LEVEL_MAX + 1, b"0 ").is_err());
    }

    #[test]
    fn empty_lists_have_the_level_that_is_asked_for() {
        assert_eq!(encoded(b"[]", None).unwrap(), (1, b"0 ".to_vec()));
        assert_eq!(encoded(b"[[], []]", Some(3)).unwrap(), (3, b"2 0 0 ".to_vec()));
        assert_eq!(decoded(3, b"2 0 0 "), "[[],[]]");
    }

    fn values(level: u32) -> BoxedStrategy<serde_json::Value> {
        let text = "\\PC{0,5}".prop_map(serde_json::Value::from);
        let bytes = prop::collection::vec(0_u8..32, 1..6);
        let bytes = bytes.prop_map(|bytes| serde_json::json!({ BASE64: STANDARD.encode(bytes) }));
        let mut value = prop_oneof![text, bytes].boxed();
        for _ in 0..level {
            value = prop::collection::vec(value, 1..4).prop_map(serde_json::Value::from).boxed();
        }
        value
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded((level, value) in (1_u32..5).prop_flat_map(|level| (Just(level), values(level)))) {
            let level = level as u16;
            let (found, data) = encoded(value.to_string().as_bytes(), None).unwrap();
            prop_assert_eq!(found, level);
            let back: serde_json::Value = serde_json::from_str(&decoded(level, &data)).unwrap();
            prop_assert_eq!(back, value);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), level in 1_u16..5) {
            let _ = encoded(&bytes, None);
            if Leveled::new(level, &bytes).is_ok() {
                let (found, data) = encoded(decoded(level, &bytes).as_bytes(), Some(level)).unwrap();
                prop_assert_eq!((found, data), (level, bytes));
            }
        }

        #[test]
        fn any_json_is_read_or_refused(text in "[\\[\\]{}\",a: ]{0,40}") {
            if let Ok((level, data)) = encoded(text.as_bytes(), None) {
                prop_assert!(Leveled::new(level, &data).is_ok());
            }
        }
    }
}
