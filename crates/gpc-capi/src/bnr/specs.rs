//! What a spawn starts: words of a command line, variables, and the hints that this library uses itself.

use gpc_bnr::{OnDeath, Spec};

use super::Result;
use crate::error::Error;

/// The variable that names the database of a process, if its spawn has chosen one.
pub(super) const DATABASE_VARIABLE: &str = "GPC_BNR_DATABASE";

/// The hint with the name of the database that the processes use.
const DATABASE: &str = "dbname";

/// The hint with a variable, `NAME=VALUE`. It may occur several times.
const VARIABLE: &str = "env";

/// The hint for the effect of a death: `kill` or `notify`.
const ON_DEATH: &str = "on-death";

/// A hint: key and value.
pub(crate) type Hint = (String, Vec<u8>);

/// The processes to start, and the effect of the death of one, if the hints have it. `env` has words `NAME=VALUE`.
///
/// # Errors
/// A number, a variable or a hint is invalid.
pub(crate) fn spec(
    count: i32,
    program: &[u8],
    args: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
    hints: Vec<Hint>,
) -> Result<(Spec, Option<OnDeath>)> {
    let number = u32::try_from(count).ok().filter(|count| *count > 0);
    let count = number.ok_or_else(|| {
        Error::argument(format!("{count} processes cannot be started: pass a number of at least 1"))
    })?;
    let mut spec = Spec { count, program: program.to_vec(), args, ..Spec::default() };
    for word in env {
        spec.env.push(variable(&word)?);
    }
    let mut on_death = None;
    for (key, value) in hints {
        match &*key {
            DATABASE => spec.env.push((DATABASE_VARIABLE.as_bytes().to_vec(), value)),
            VARIABLE => spec.env.push(variable(&value)?),
            ON_DEATH => on_death = Some(effect(&value)?),
            _ => spec.info.push((key, value)),
        }
    }
    Ok((spec, on_death))
}

fn effect(value: &[u8]) -> Result<OnDeath> {
    match value {
        b"kill" => Ok(OnDeath::Kill),
        b"notify" => Ok(OnDeath::Notify),
        other => {
            let other = String::from_utf8_lossy(other);
            Err(Error::argument(format!("the hint {ON_DEATH} is `{other}`: it is kill or notify")))
        }
    }
}

fn variable(word: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    match word.iter().position(|&byte| byte == b'=') {
        Some(at @ 1..) => Ok((word[..at].to_vec(), word[at + 1..].to_vec())),
        _ => {
            let word = String::from_utf8_lossy(word);
            Err(Error::argument(format!("`{word}` is not a variable: write NAME=VALUE")))
        }
    }
}

/// The words of a text, which blanks separate. Quotes (`'`, `"`) keep blanks in a word, and a `\` keeps the character
/// after it, except between `'`.
///
/// # Errors
/// A quote has no end, or a `\` has no character after it.
pub(crate) fn words(text: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => {
                let kept = bytes.next().ok_or_else(|| {
                    Error::argument("a \\ ends the text: write \\\\ for the character itself")
                })?;
                word.get_or_insert_default().push(kept);
            }
            (byte, Some(open)) if byte == open => quote = None,
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    match quote {
        None => {
            words.extend(word);
            Ok(words)
        }
        Some(quote) => Err(Error::argument(format!("the quote {} has no end", char::from(quote)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let words = words(text.as_bytes()).unwrap();
        words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn blanks_separate_words_and_quotes_keep_them() {
        assert_eq!(split("  a 'b c'd\t\"e 'f'\" \n''"), ["a", "b cd", "e 'f'", ""]);
        assert_eq!(split(r#"\ a\"b "c\" d" 'e\' \\"#), [" a\"b", "c\" d", "e\\", "\\"]);
        assert_eq!((split(""), split(" ")), (vec![], vec![]));
        for (wrong, why) in [("a 'b", "the quote '"), ("\"", "the quote \""), ("a \\", "a \\ ends")] {
            assert!(words(wrong.as_bytes()).unwrap_err().message.contains(why), "{wrong}");
        }
    }

    #[test]
    fn hints_of_this_library_are_not_passed_on() {
        let hints = [("dbname", "db"), ("wdir", "/tmp"), ("env", "A=1=2"), ("on-death", "notify")];
        let hints = hints.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).to_vec();
        let (made, on_death) = spec(2, b"p", vec![b"x".to_vec()], vec![b"B=".to_vec()], hints).unwrap();
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(made.env, [pair("B", ""), pair("GPC_BNR_DATABASE", "db"), pair("A", "1=2")]);
        assert_eq!(made.info, [("wdir".to_owned(), b"/tmp".to_vec())]);
        assert_eq!((made.count, on_death), (2, Some(OnDeath::Notify)));
    }

    #[test]
    fn wrong_numbers_variables_and_hints_are_errors() {
        let made = |count, env: &str, key: &str, value: &str| {
            let hints = vec![(key.to_owned(), value.as_bytes().to_vec())];
            spec(count, b"p", Vec::new(), words(env.as_bytes()).unwrap(), hints).map(drop)
        };
        assert!(made(1, "A=b", "on-death", "kill").is_ok());
        for (count, env, key, value, why) in [
            (0, "", "k", "v", "0 processes"),
            (-1, "", "k", "v", "-1 processes"),
            (1, "=b", "k", "v", "`=b` is not a variable"),
            (1, "", "env", "B", "`B` is not a variable"),
            (1, "", "on-death", "mourn", "`mourn`: it is kill or notify"),
        ] {
            let message = made(count, env, key, value).unwrap_err().message.clone();
            assert!(message.contains(why), "{message}");
        }
    }
}
