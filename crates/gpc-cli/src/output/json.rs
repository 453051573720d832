//! Writes JSON for programs. It may also be shown on a terminal, so terminal control characters are written as
//! `\u....`, which means the same.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use chained_gpc::wire::shown::is_obeyed;

/// Writes a JSON value and a line feed.
///
/// # Errors
/// If the output fails.
pub(crate) fn write_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Harmless))?;
    writeln!(out)
}

/// Formats as compactly as serde_json. The serializer itself escapes the control characters of ASCII.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_obeyed(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_means_the_same() {
        let text = "a\x1b[31m\n\u{9b}2J\u{7f}\u{202e}\"ö\u{feff}";
        let mut out = Vec::new();
        write_json(&text, &mut out).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert_eq!(json, "\"a\\u001b[31m\\n\\u009b2J\\u007f\\u202e\\\"ö\\ufeff\"\n");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
