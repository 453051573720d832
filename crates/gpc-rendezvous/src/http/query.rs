//! Parser of queries and forms: `key=value&key=value`, percent-encoded. It is strict: unknown keys and malformed values
//! are rejected.

use chained_gpc::Shown;

use super::problem::Problem;

/// Most pairs in a query: more than any request has.
const PARTS_MAX: usize = 16;

/// Longest time that is accepted, seconds: over 30 years.
const SECONDS_MAX: f64 = 1e9;

/// Parsed pairs of a query.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query with these keys, each at most once.
    pub(super) fn parse(text: &str, known: &[&str]) -> Result<Query, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(key), Some(value)) = (decoded(key), decoded(value)) else {
                let message = format!("`{}` is not percent-encoded UTF-8", Shown(part));
                return Err(Problem::bad(message));
            };
            if !known.contains(&key.as_str()) {
                let known = if known.is_empty() { "nothing".into() } else { known.join(", ") };
                let message = format!("`{}` means nothing here; what does: {known}", Shown(&key));
                return Err(Problem::bad(message));
            }
            if found.len() == PARTS_MAX || found.iter().any(|(other, _)| *other == key) {
                return Err(Problem::bad(format!("`{}` is there twice", Shown(&key))));
            }
            found.push((key, value));
        }
        Ok(Query(found))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }

    /// The value of a key that is a time in seconds, converted to milliseconds.
    pub(super) fn millis(&self, key: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(key) else { return Ok(None) };
        match text.parse().ok().and_then(millis) {
            Some(millis) => Ok(Some(millis)),
            None => {
                Err(Problem::bad(format!("`{key}` is a time in seconds, such as 2.5, not `{}`", Shown(text))))
            }
        }
    }
}

/// Converts seconds to milliseconds, rounded up so that a short time does not become 0; `None` if the value is out of
/// range.
pub(super) fn millis(seconds: f64) -> Option<u64> {
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| (seconds * 1000.0).ceil() as u64)
}

/// Decodes percent-encoding; `None` if it is malformed or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_keys_and_values() {
        let query = Query::parse("rank=-1&lease=2.5&&why=a%20b+c%3D", &["rank", "lease", "why"]).unwrap();
        assert_eq!(query.get("rank"), Some("-1"));
        assert_eq!(query.millis("lease").unwrap(), Some(2500));
        assert_eq!(query.get("why"), Some("a b c="));
        assert_eq!(query.get("wait"), None);
        assert!(query.millis("why").is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in
            ["rank=%", "rank=%2", "rank=%zz", "rank=%ff", "rank=1&rank=2", "other=1", "%ff=1", "rank=%+1"]
        {
            assert!(Query::parse(text, &["rank"]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_not_negative_and_not_endless() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert_eq!(millis(seconds), None, "{seconds}");
        }
        assert_eq!((millis(0.0), millis(0.000_1), millis(1.0)), (Some(0), Some(1), Some(1000)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,64}") {
            let _ = Query::parse(&text, &["rank"]);
        }

        #[test]
        fn what_is_encoded_is_read_back(value: String) {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let query = Query::parse(&format!("why={encoded}"), &["why"]).unwrap();
            prop_assert_eq!(query.get("why"), Some(value.as_str()));
        }
    }
}
