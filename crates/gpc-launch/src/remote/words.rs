//! Escaped words in a line: white space, control characters, `%` and bytes that are not ASCII become `%` and two
//! hexadecimal digits each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Maximum length of a word, bytes: longer than any path that systems take.
pub(super) const WORD_MAX: usize = 8192;

/// Escapes a word.
pub(super) fn written(word: &OsStr) -> String {
    word.as_bytes().iter().fold(String::with_capacity(word.len()), |mut text, &byte| {
        match byte {
            b'!'..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
        text
    })
}

/// Unescapes a word; `None` if the text has an invalid escape or character, or is too long.
pub(super) fn read(text: &str) -> Option<OsString> {
    if text.len() > 3 * WORD_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.as_bytes().split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = digit(digits[0])? << 4 | digit(digits[1])?;
        bytes.push(u8::try_from(byte).ok()?);
        bytes.extend_from_slice(rest);
    }
    (bytes.len() <= WORD_MAX).then(|| OsString::from_vec(bytes))
}

/// What stands for the name of the host in a command that reaches it.
const HOST: &str = "{host}";

/// Returns the words of a command that reaches this host: with the name in place of each `{host}`, or as the last word
/// if no word has that.
pub(super) fn with_host(words: &[OsString], name: &str) -> Vec<OsString> {
    let mut is_named = false;
    let mut filled: Vec<OsString> = words
        .iter()
        .map(|word| match word.to_str().filter(|word| word.contains(HOST)) {
            Some(word) => {
                is_named = true;
                word.replace(HOST, name).into()
            }
            None => word.clone(),
        })
        .collect();
    filled.extend((!is_named).then(|| name.into()));
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_read_as_they_are_written(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let word = OsString::from_vec(bytes);
            let text = written(&word);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            prop_assert_eq!(read(&text), Some(word));
        }

        #[test]
        fn any_text_is_a_word_or_refused(text in ".{0,20}") {
            if let Some(word) = read(&text) {
                prop_assert_eq!(read(&written(&word)), Some(word));
            }
        }
    }

    #[test]
    fn a_command_names_the_host_where_it_says_so_or_at_its_end() {
        let filled = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            with_host(&words, "b1").join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(filled("ssh -o BatchMode=yes"), "ssh -o BatchMode=yes b1");
        assert_eq!(filled("srun --nodelist={host} -n1"), "srun --nodelist=b1 -n1");
        assert_eq!(filled("x {host} {host}.local {hosts}"), "x b1 b1.local {hosts}");
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for text in ["%", "%2", "%zz", "a b", "é", "a%2g", &"a".repeat(WORD_MAX + 1)] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(written(OsStr::new("a b%")), "a%20b%25");
    }
}
