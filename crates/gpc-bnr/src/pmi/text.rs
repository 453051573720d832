//! PMI-1 lines of words `name=value`, and the text that they may contain.

use std::str::FromStr;

use crate::fault::Fault;

/// Names whose value is the rest of the line, including blanks. Programs choose these values.
const REST: [&[u8]; 2] = [b"value", b"message"];

/// Most characters of a reason in an answer. Clients read lines of 1,024 bytes.
const REASON_MAX: usize = 200;

/// The value of a name in a line.
pub(super) fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = line;
    // Terminates: each iteration consumes a word.
    loop {
        rest = rest.trim_ascii_start_of(b' ');
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let (key, value) = split(word);
        if REST.contains(&key) {
            return (key == name.as_bytes()).then(|| split(rest).1);
        }
        if key == name.as_bytes() {
            return Some(value);
        }
        rest = behind;
    }
}

/// Splits at the first `=`.
pub(super) fn split(word: &[u8]) -> (&[u8], &[u8]) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(at) => (&word[..at], &word[at + 1..]),
        None => (word, &[]),
    }
}

trait TrimStart {
    fn trim_ascii_start_of(&self, blank: u8) -> &Self;
}

impl TrimStart for [u8] {
    fn trim_ascii_start_of(&self, blank: u8) -> &[u8] {
        let blanks = self.iter().take_while(|byte| **byte == blank).count();
        &self[blanks..]
    }
}

/// Parses a number.
pub(super) fn number<N: FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The name of a database. A name that is not UTF-8 matches no database.
pub(super) fn name(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Whether a text can be a word of a line: no character in it ends a word or the line.
pub(super) fn is_word(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// Whether a text can be the rest of a line.
pub(super) fn is_rest(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, b'\n' | 0))
}

/// A reason as one word.
pub(super) fn reason(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-,:/()".contains(c);
    text.chars().take(REASON_MAX).map(|c| if plain(c) { c } else { '_' }).collect()
}

/// The message of a fault as one word.
pub(super) fn fault(fault: &Fault) -> String {
    reason(&fault.message)
}

/// Exit status of a job that was aborted with this code. The system keeps the low eight bits; a code other than 0 never
/// becomes 0.
pub(crate) fn status(code: Option<i64>) -> u8 {
    match code {
        Some(0) => 0,
        Some(code) => u8::try_from(code & 0xff).unwrap_or(1).max(1),
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_rest_of_the_line() {
        let line = b"cmd=put kvsname=K  key=k value=a b key=z =  -";
        assert_eq!(field(line, "cmd"), Some(&b"put"[..]));
        assert_eq!(field(line, "key"), Some(&b"k"[..]));
        assert_eq!(field(line, "value"), Some(&b"a b key=z =  -"[..]));
        assert_eq!(field(line, "nothing"), None);
        assert_eq!(field(b"cmd=put value=x key=k", "key"), None);
        assert_eq!(field(b"cmd=get key= kvsname", "key"), Some(&b""[..]));
        assert_eq!(field(b"cmd=get key= kvsname", "kvsname"), Some(&b""[..]));
        assert_eq!(field(b"cmd=put value=", "value"), Some(&b""[..]));
        assert_eq!(field(b"", "cmd"), None);
    }

    #[test]
    fn a_reason_is_a_word() {
        assert_eq!(reason("g1.0 was killed by signal 9\n"), "g1.0_was_killed_by_signal_9_");
        assert_eq!(reason(&"ö=\\".repeat(500)).len(), REASON_MAX);
    }

    #[test]
    fn a_failure_is_never_a_success() {
        let all =
            [(Some(0), 0), (Some(42), 42), (Some(-1), 255), (Some(256), 1), (Some(1 << 40), 1), (None, 1)];
        for (code, expected) in all {
            assert_eq!(status(code), expected, "{code:?}");
        }
    }
}
