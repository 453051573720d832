//! The texts that people write for `gpc run` and `gpc mpiexec`: rank files, files of `-configfile`, and lines of
//! hydra's `mpiexec`.
//!
//! An accepted text is the same when it is written and read again; the words behind a program stay as they are. A
//! refused one has an error for people.
//!
//! Input: a byte that chooses the kind of text, and the text. A line has a word on each of its lines.
//!
//! The parsers are parts of the command, so this module names them as its crate does; a fuzzer takes in their files
//! alone.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;

use crate::mpiexec::config_file;
use crate::mpiexec::translation::{Surroundings, Translation, translate};
use crate::run::rank_file;

/// Longest error, in bytes. It quotes a few words at most.
const ERROR_MAX: usize = 8192;

/// Reads a text.
pub fn run(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind % 4 {
        0 => ranks(text),
        1 => file(text),
        _ => line(text, kind / 4),
    }
}

fn ranks(text: &str) {
    let Some(places) = read(rank_file::parse(text)) else { return };
    let lines = text.lines().filter(|line| !line.split('#').next().unwrap_or_default().trim().is_empty());
    assert_eq!(places.len(), lines.count(), "each line places a rank");
    let line = |(rank, place): (usize, &rank_file::RankPlace)| {
        let cpus = place.cpus.as_ref().map(|cpus| format!(" slot={cpus}")).unwrap_or_default();
        format!("rank {rank}={}{cpus}\n", place.host)
    };
    let printed: String = places.iter().enumerate().map(line).collect();
    assert_eq!(rank_file::parse(&printed).as_ref(), Ok(&places), "{printed}");
}

fn file(text: &str) {
    let Some(words) = read(config_file::words(text)) else { return };
    // Each character stands in quotes, so the words are those of one line.
    let quote = |letter: char| match letter {
        '\'' => "\"'\"".to_owned(),
        letter => format!("'{letter}'"),
    };
    let quoted = |word: &String| match word.is_empty() {
        true => "''".to_owned(),
        false => word.chars().map(quote).collect(),
    };
    let printed = words.iter().map(quoted).collect::<Vec<String>>().join(" ");
    assert_eq!(config_file::words(&printed).as_ref(), Ok(&words), "{printed}");
}

fn line(text: &str, choice: u8) {
    let words: Vec<OsString> = text.split('\n').map(OsString::from).collect();
    let own = ["A", "B"].map(OsString::from);
    let surroundings = Surroundings {
        timeout: (choice & 1 != 0).then(|| OsStr::new("60")),
        variables: &own,
        in_allocation: choice & 2 != 0,
    };
    // A file has the same text.
    let file = |_: &OsStr| Ok(text.replace('\n', " "));
    if let Some(Translation::Run { words: ours, .. }) = read(translate(&words, surroundings, &file)) {
        assert!(!ours.is_empty(), "a line without a program");
    }
    if words.iter().any(|word| word == ":") {
        return;
    }
    let behind = [&["-l".into(), "p".into()], &words[..]].concat();
    match translate(&behind, Surroundings::default(), &file) {
        Ok(Translation::Run { words: ours, .. }) => assert_eq!(ours[1..], behind[1..]),
        other => panic!("the words of a program are read: {other:?}"),
    }
}

/// The value, if the text is accepted; otherwise its error is one for people.
fn read<T, E: Display>(parsed: Result<T, E>) -> Option<T> {
    let error = match parsed {
        Ok(value) => return Some(value),
        Err(error) => error.to_string(),
    };
    assert!((1..ERROR_MAX).contains(&error.len()), "{error}");
    assert!(!error.chars().any(char::is_control), "an error has control characters: {error:?}");
    None
}
