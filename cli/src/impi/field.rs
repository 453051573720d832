//! The spelling that other implementations of IMPI have for their commands: `-server N -port P -auth LIST -v`, and `-client RANK HOST:PORT`.
//!
//! It becomes this command's own before clap sees it: clap would take `-server` for `-s -e -r …`. Scripts expect exit status 1 where it is wrong.

use std::ffi::{OsStr, OsString};

/// Options of one letter behind the dash or more, and what they are here.
const OPTIONS: [(&str, &str); 3] = [("-port", "--port"), ("-auth", "--auth"), ("-v", "--trace")];

/// The sub-commands, and how many words follow them.
const COMMANDS: [(&str, &str, usize); 2] = [("-server", "server", 1), ("-client", "client", 2)];

/// The arguments in this command's own spelling, where they are in that of the field: `None` where they are in our own. What neither knows stays as it is, for clap to complain of.
pub(crate) fn rewritten(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let [program, impi, words @ ..] = arguments else { return None };
    let known = |word: &OsString| OPTIONS.iter().any(|(theirs, _)| word == theirs);
    let is_field = words.first().is_some_and(|word| command(word).is_some() || known(word));
    if impi != "impi" || !is_field {
        return None;
    }
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    // Ends: each round takes a word.
    while let Some(word) = words.next() {
        match command(word) {
            Some((ours, count)) if first.is_empty() => {
                first.push(ours.into());
                // What looks like an option is one: `-server -port 5` lacks its number.
                let following = words.as_slice().iter().take(count);
                let count = following.take_while(|word| !word.as_encoded_bytes().starts_with(b"-")).count();
                first.extend(words.by_ref().take(count).cloned());
            }
            _ => rest.push(option(word)),
        }
    }
    Some([vec![program.clone(), impi.clone()], first, rest].concat())
}

fn command(word: &OsStr) -> Option<(&'static str, usize)> {
    COMMANDS.iter().find(|(theirs, _, _)| word == *theirs).map(|(_, ours, count)| (*ours, *count))
}

fn option(word: &OsString) -> OsString {
    let ours = OPTIONS.iter().find(|(theirs, _)| word == theirs);
    ours.map_or_else(|| word.clone(), |(_, ours)| ours.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let words = rewritten(&words)?;
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

    /// clap complains of it, as it does of our own spelling.
    #[test]
    fn what_is_wrong_in_it_stays_wrong() {
        for (theirs, ours) in [
            ("gpc impi -server", "gpc impi server"),
            ("gpc impi -server -port 5", "gpc impi server --port 5"),
            ("gpc impi -server 2 -server 3", "gpc impi server 2 -server 3"),
            ("gpc impi -port 5", "gpc impi --port 5"),
            ("gpc impi -client 1", "gpc impi client 1"),
            ("gpc impi -server 2 -frobnicate", "gpc impi server 2 -frobnicate"),
        ] {
            assert_eq!(of(theirs).as_deref(), Some(ours), "{theirs}");
        }
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
