//! Translates the command spelling of other IMPI implementations: `-server N -port P -auth LIST -v`, and
//! `-client RANK HOST:PORT`.
//!
//! The words are translated to the spelling of this command before clap reads them: clap would take `-server` for
//! `-s -e -r …`. Error messages of clap and of this command are translated back. Scripts expect exit status 1 for wrong
//! arguments.

use std::ffi::{OsStr, OsString};

/// Options in the other spelling, and in ours.
const OPTIONS: [(&str, &str); 4] =
    [("-port", "--port"), ("-auth", "--auth"), ("-v", "--trace"), ("-help", "--help")];

/// Sub-commands in the other spelling and in ours, and the number of their words.
const COMMANDS: [(&str, &str, usize); 2] = [("-server", "server", 1), ("-client", "client", 2)];

/// Usage of both, in the other spelling.
const USAGE: &str = "write `gpc impi -server N [-port P] [-auth LIST] [-v]` or `gpc impi -client RANK HOST:PORT --hosts FILE [-auth LIST] [-v]`";

/// An error found before clap reads the words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FieldError {
    /// An option that neither sub-command has.
    #[error("there is no argument `{}`: {USAGE}", chained_gpc::Shown(.0))]
    Unknown(String),
    /// More than one of -server and -client.
    #[error("{0} comes after {1}, and one process is either: {USAGE}")]
    Twice(&'static str, &'static str),
    /// Neither -server nor -client.
    #[error("-server or -client is missing: {USAGE}")]
    Neither,
}

/// Longest quoted word, in characters.
const QUOTED_MAX: usize = 80;

/// Translates the arguments to our spelling; `None` if they already have it.
///
/// # Errors
/// If an option is unknown that clap would read as several, or if -server and -client are missing or repeated.
pub(crate) fn rewritten(arguments: &[OsString]) -> Option<Result<Vec<OsString>, FieldError>> {
    let [program, impi, words @ ..] = arguments else { return None };
    let is_field = words.first().is_some_and(|word| command(word).is_some() || option(word).is_some());
    if impi != "impi" || !is_field {
        return None;
    }
    Some(rest(words).map(|rest| [vec![program.clone(), impi.clone()], rest].concat()))
}

/// Returns the words after `impi`: first the sub-command with its words, then the options.
fn rest(words: &[OsString]) -> Result<Vec<OsString>, FieldError> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut named = None;
    let mut words = words.iter();
    // Ends: each round takes a word.
    while let Some(word) = words.next() {
        match (command(word), option(word), named) {
            (Some((theirs, ..)), _, Some(before)) => return Err(FieldError::Twice(theirs, before)),
            (Some((theirs, ours, count)), _, None) => {
                named = Some(theirs);
                first.push(ours.into());
                // A word that looks like an option is one: `-server -port 5` lacks its number.
                let following = words.as_slice().iter().take(count);
                let count = following.take_while(|word| !word.as_encoded_bytes().starts_with(b"-")).count();
                first.extend(words.by_ref().take(count).cloned());
            }
            (None, Some(ours), _) => rest.push(ours.into()),
            (None, None, _) if is_unknown(word) => {
                return Err(FieldError::Unknown(word.to_string_lossy().chars().take(QUOTED_MAX).collect()));
            }
            (None, None, _) => rest.push(word.clone()),
        }
    }
    let asks = rest.iter().any(|word| word == "--help" || word == "-h");
    match named.is_none() && !asks {
        true => Err(FieldError::Neither),
        false => Ok([first, rest].concat()),
    }
}

/// Translates a message from our spelling to the other one.
pub(crate) fn in_the_field(text: &str) -> String {
    let words = [("gpc impi -server", "gpc impi server"), ("gpc impi -client", "gpc impi client")];
    let all = words.iter().chain(&OPTIONS);
    all.fold(text.to_owned(), |text, (theirs, ours)| text.replace(ours, theirs))
}

fn command(word: &OsStr) -> Option<(&'static str, &'static str, usize)> {
    COMMANDS.iter().find(|(theirs, ..)| word == *theirs).copied()
}

fn option(word: &OsStr) -> Option<&'static str> {
    OPTIONS.iter().find(|(theirs, _)| word == *theirs).map(|(_, ours)| *ours)
}

/// Whether a word has one dash, is not a number, and is not `-h`.
fn is_unknown(word: &OsStr) -> bool {
    let is_option =
        matches!(word.as_encoded_bytes(), [b'-', second, ..] if !matches!(second, b'-' | b'0'..=b'9'));
    is_option && word != "-h"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = rewritten(&words)?.unwrap_or_else(|error| vec![error.to_string().into()]);
        Some(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_spelling_of_the_field_is_understood_in_any_order() {
        for (theirs, ours) in [
            ("gpc impi -server 2", "gpc impi server 2"),
            (
                "gpc impi -server 32 -port 4100 -auth none,key -v",
                "gpc impi server 32 --port 4100 --auth none,key --trace",
            ),
            ("gpc impi -v -port 4100 -server 2", "gpc impi server 2 --trace --port 4100"),
            ("gpc impi -client 1 10.0.0.1:4100 --hosts f", "gpc impi client 1 10.0.0.1:4100 --hosts f"),
            ("gpc impi -client 0 [::1]:4100", "gpc impi client 0 [::1]:4100"),
        ] {
            assert_eq!(of(theirs).as_deref(), Some(ours), "{theirs}");
        }
    }

    /// clap reports the error, as in our own spelling.
    #[test]
    fn what_is_wrong_in_it_stays_wrong() {
        for (theirs, ours) in [
            ("gpc impi -server", "gpc impi server"),
            ("gpc impi -server -port 5", "gpc impi server --port 5"),
            ("gpc impi -server 2 -port -5", "gpc impi server 2 --port -5"),
            ("gpc impi -client 1", "gpc impi client 1"),
            ("gpc impi -client 0 a:1 --hosts -", "gpc impi client 0 a:1 --hosts -"),
            ("gpc impi -help", "gpc impi --help"),
            ("gpc impi -v -h", "gpc impi --trace -h"),
        ] {
            assert_eq!(of(theirs).as_deref(), Some(ours), "{theirs}");
        }
    }

    /// clap read `-bogus` as `-b -o …`, and reported `-b`.
    #[test]
    fn what_clap_would_misread_is_said_in_the_spelling_of_the_field() {
        for (theirs, expected) in [
            ("gpc impi -server 2 -bogus", "there is no argument `-bogus`"),
            ("gpc impi -server 2 -x", "there is no argument `-x`"),
            ("gpc impi -server 2 -server 3", "-server comes after -server"),
            ("gpc impi -server 2 -client 0 a:1", "-client comes after -server"),
            ("gpc impi -port 5", "-server or -client is missing"),
        ] {
            let said = of(theirs).unwrap();
            assert!(said.contains(expected) && said.contains("gpc impi -server N [-port P]"), "{said}");
        }
        let long = of(&format!("gpc impi -server 2 -{}", "x".repeat(10_000))).unwrap();
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn what_is_said_of_our_own_spelling_is_put_into_theirs() {
        let theirs = in_the_field("--port 7x: write a whole number; `gpc impi server --help` lists them");
        assert_eq!(theirs, "-port 7x: write a whole number; `gpc impi -server -help` lists them");
    }

    #[test]
    fn our_own_spelling_is_left_alone() {
        for line in
            ["gpc", "gpc impi", "gpc impi server 2", "gpc impi --help", "gpc call -server", "gpc -server 2"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
