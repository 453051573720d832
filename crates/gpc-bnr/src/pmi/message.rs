//! PMI-2 messages: a length in six characters, followed by `cmd=...;name=value;...` of that length.
//!
//! MPICH right-aligns the length in its six characters, Slurm left-aligns it. A semicolon in a value is doubled.

use std::borrow::Cow;

/// Characters of the length.
pub(super) const LENGTH: usize = 6;

/// Longest message in bytes: the largest number of six digits.
pub(super) const MESSAGE_MAX: usize = 999_999;

/// Most fields of a message: enough for a spawn with sixty thousand arguments.
const FIELDS_MAX: usize = 1 << 16;

/// The length of the message at the start of the buffer; `None` while its six characters are incomplete.
///
/// # Errors
/// The buffer does not begin with a length.
pub(super) fn length(come: &[u8]) -> Result<Option<usize>, &'static str> {
    let begun = &come[..come.len().min(LENGTH)];
    if !begun.iter().all(|byte| byte.is_ascii_digit() || *byte == b' ') {
        return Err("a message that does not begin with its length in six characters");
    }
    let Some(text) = come.get(..LENGTH) else { return Ok(None) };
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim_matches(' ').parse().ok());
    number.map(Some).ok_or("a message whose length is no number")
}

/// A message: names and values of its fields, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fields<'a>(pub(super) Vec<(&'a [u8], Cow<'a, [u8]>)>);

impl<'a> Fields<'a> {
    /// Parses a message without its length.
    ///
    /// # Errors
    /// The message has too many fields.
    pub(super) fn of(mut message: &'a [u8]) -> Result<Fields<'a>, &'static str> {
        let mut fields = Vec::new();
        while !message.is_empty() {
            if fields.len() == FIELDS_MAX {
                return Err("a message of more than 65536 fields");
            }
            let (word, rest) = word(message);
            message = rest;
            let at = word.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((word, &[][..]), |at| (&word[..at], &word[at + 1..]));
            fields.push((name, undoubled(value)));
        }
        Ok(Fields(fields))
    }

    /// The first value of a name.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| value.as_ref())
    }

    /// Whether a field is present and true.
    pub(super) fn says(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case(b"true") || value == b"1")
    }
}

/// Splits at the first semicolon that is not doubled.
fn word(message: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    // Terminates: each iteration advances.
    while let Some(byte) = message.get(at) {
        match (byte, message.get(at + 1)) {
            (b';', Some(b';')) => at += 2,
            (b';', _) => return (&message[..at], &message[at + 1..]),
            _ => at += 1,
        }
    }
    (message, &[])
}

fn undoubled(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b';') {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        out.push(*byte);
        if *byte == b';' {
            // All semicolons in the word are doubled.
            bytes.next();
        }
    }
    Cow::Owned(out)
}

/// The reply to a command, with the thread id that came with it. `None` if it would be too long.
pub(super) fn reply(
    command: &str,
    thread: Option<&[u8]>,
    code: i32,
    fields: &[(&str, &[u8])],
) -> Option<Vec<u8>> {
    let mut body = format!("cmd={command}-response;").into_bytes();
    let code = code.to_string();
    let head = thread.map(|thread| ("thrid", thread)).into_iter().chain([("rc", code.as_bytes())]);
    for (name, value) in head.chain(fields.iter().copied()) {
        body.extend_from_slice(name.as_bytes());
        body.push(b'=');
        for byte in value {
            body.push(*byte);
            if *byte == b';' {
                body.push(b';');
            }
        }
        body.push(b';');
    }
    let framed = || [format!("{:>LENGTH$}", body.len()).as_bytes(), &body].concat();
    (body.len() <= MESSAGE_MAX).then(framed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ways_to_write_a_length_are_read() {
        for text in ["    13cmd=finalize;", "13    cmd=finalize;", "000013cmd=finalize;", "  13  "] {
            assert_eq!(length(text.as_bytes()), Ok(Some(13)), "{text}");
            assert_eq!(length(&text.as_bytes()[..5]), Ok(None));
        }
        for text in ["      cmd", "1 3   ", "-00013", "cmd=fi", "+13   ", "1x"] {
            assert!(length(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(length(b"999999"), Ok(Some(MESSAGE_MAX)));
    }

    #[test]
    fn fields_are_words_and_a_doubled_semicolon_is_one() {
        let fields = Fields::of(b"cmd=kvs-put;key=a;value=x;;y = z;;;empty=;bare;last=1").unwrap();
        let got = |name| fields.get(name);
        assert_eq!(got("cmd"), Some(&b"kvs-put"[..]));
        assert_eq!(got("value"), Some(&b"x;y = z;"[..]));
        assert_eq!(
            (got("empty"), got("bare"), got("last")),
            (Some(&b""[..]), Some(&b""[..]), Some(&b"1"[..]))
        );
        assert_eq!(got("none"), None);
        assert!(
            Fields::of(&b"a;".repeat(FIELDS_MAX)).is_ok()
                && Fields::of(&b"a;".repeat(FIELDS_MAX + 1)).is_err()
        );
    }

    proptest! {
        #[test]
        fn what_is_replied_is_read_again(
            values in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u8>(), Just(b';')], 0..20), 0..5),
            thread in prop::option::of("[0-9a-fx]{1,12}"),
        ) {
            // A value may end with semicolons; they are doubled, so the next value is unaffected.
            let fields: Vec<_> = values.iter().map(|value| ("value", &value[..])).collect();
            let bytes = reply("kvs-get", thread.as_deref().map(str::as_bytes), 0, &fields).unwrap();
            prop_assert_eq!(length(&bytes), Ok(Some(bytes.len() - LENGTH)));
            let read = Fields::of(&bytes[LENGTH..]).unwrap();
            prop_assert_eq!(read.get("cmd"), Some(&b"kvs-get-response"[..]));
            prop_assert_eq!(read.get("thrid"), thread.as_deref().map(str::as_bytes));
            let again: Vec<_> = read.0.iter().filter(|(name, _)| *name == b"value").map(|(_, value)| value.to_vec()).collect();
            prop_assert_eq!(again, values);
        }
    }
}
