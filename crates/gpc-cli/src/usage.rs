//! Formats the errors of clap like all errors of this command, in one line: what is wrong, where, why, and what to do.

use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseIntError};

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::Args;
use super::suggestion::{did_you_mean, meant};

/// Returns the line for an error that clap found in these arguments, the name of the command first.
pub(super) fn of(error: &clap::Error, arguments: &[OsString]) -> String {
    let one = |kind| strings(error, kind).into_iter().next();
    let argument = one(ContextKind::InvalidArg).unwrap_or_default();
    let listed = format!("`{} --help` lists them", command(arguments));
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => value(error, &argument),
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let close = did_you_mean(one(ContextKind::SuggestedArg));
            format!("there is no argument `{argument}`{close}; {listed}")
        }
        ErrorKind::UnknownArgument => {
            format!("`{argument}` is one word too many; `{} --help` says which there are", command(arguments))
        }
        ErrorKind::InvalidSubcommand => {
            let word = one(ContextKind::InvalidSubcommand).unwrap_or_default();
            let close = did_you_mean(one(ContextKind::SuggestedSubcommand));
            format!("there is no sub-command `{word}`{close}; {listed}")
        }
        ErrorKind::MissingRequiredArgument => missing(error, arguments),
        ErrorKind::ArgumentConflict => conflict(error, &argument),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            format!("{}; see `{} --help`", line.strip_prefix("error: ").unwrap_or(line), command(arguments))
        }
    }
}

/// Returns the line for a value that is missing, or that the argument rejects.
fn value(error: &clap::Error, argument: &str) -> String {
    let argument = bare(argument);
    let value = strings(error, ContextKind::InvalidValue).concat();
    let known = strings(error, ContextKind::ValidValue);
    let why = match std::error::Error::source(error) {
        Some(source) => reason(source),
        None if known.is_empty() => "it needs a value".into(),
        None => {
            let close = did_you_mean(meant(&value, known.iter().map(String::as_str)));
            return format!("{argument} {value}: write {}{close}", either(&known));
        }
    };
    // Most reasons quote the value.
    let is_quoted = ["`", "\"", "'"].iter().any(|quote| why.contains(&format!("{quote}{value}{quote}")));
    match value.is_empty() || is_quoted {
        true => format!("{argument}: {why}"),
        false => format!("{argument} {value}: {why}"),
    }
}

/// Returns why a value is invalid, and what to write if its parser does not say that.
fn reason(source: &(dyn std::error::Error + 'static)) -> String {
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "the number is too large".into(),
            _ => "write a whole number".into(),
        };
    }
    if source.is::<AddrParseError>() {
        return match source.to_string().contains("socket") {
            true => "write IP:PORT, such as 127.0.0.1:4000 or [::1]:4000".into(),
            false => "write an IP address, such as 127.0.0.1 or ::1".into(),
        };
    }
    let text = source.to_string();
    let range = text.split_once(" is not in ").and_then(|(_, range)| range.split_once(".."));
    match range.map(|(least, most)| (least, most.trim_start_matches('='))) {
        Some((least, most)) if most.is_empty() || most.len() > 18 => {
            format!("write a number of at least {least}")
        }
        Some((least, most)) => format!("write a number from {least} to {most}"),
        None => text,
    }
}

fn missing(error: &clap::Error, arguments: &[OsString]) -> String {
    let names: Vec<String> = strings(error, ContextKind::InvalidArg).iter().map(|name| bare(name)).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let mut lines = usage.lines().map(|line| line.trim_start_matches("Usage:").trim());
    let has_all =
        |line: &&str| names.iter().all(|name| line.contains(name.split(' ').next().unwrap_or(name)));
    let todo = match lines.find(has_all) {
        Some(line) => format!("write `{line}`"),
        None => format!("see `{} --help`", command(arguments)),
    };
    format!("{} {are} missing: {todo}", names.join(" and "))
}

fn conflict(error: &clap::Error, argument: &str) -> String {
    let (argument, others) = (bare(argument), strings(error, ContextKind::PriorArg));
    let others: Vec<String> = others.iter().map(|other| bare(other)).collect();
    match &others[..] {
        [] => format!("{argument} does not go with the other arguments: leave one out"),
        [same] if *same == argument => format!("{argument} stands there twice: leave one out"),
        others => {
            format!("{argument} cannot be used with {}: leave one out", others.join(" and "))
        }
    }
}

/// Returns the strings of one kind in an error.
fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// Returns the name of an argument without its value, or of a value without its brackets: `--tree` of `--tree <TREE>`,
/// `N` of `[N]`.
fn bare(argument: &str) -> String {
    match argument.strip_prefix('-') {
        Some(_) => argument.split([' ', '=', '[']).next().unwrap_or_default().to_owned(),
        None => argument.replace('|', " or ").replace(['<', '>', '[', ']'], "").replace("...", ""),
    }
}

/// Joins words as a choice: `tcp, unix or shm`.
fn either(words: &[String]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.concat(),
    }
}

/// Returns the command that the arguments name, down to its sub-command.
fn command(arguments: &[OsString]) -> String {
    let (mut command, mut line) = (Args::command(), "gpc".to_owned());
    for word in arguments.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)).cloned() else { break };
        line = format!("{line} {}", next.get_name());
        command = next;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let words: Vec<OsString> =
            std::iter::once("gpc").chain(line.split(' ')).map(OsString::from).collect();
        of(&Args::read(words.clone()).unwrap_err(), &words)
    }

    /// The errors of clap had another form, of several lines, with a wrong tip (`tip: to pass '-l' as a value, use '--
    /// -l'`).
    #[test]
    fn what_clap_finds_is_one_line_with_what_to_do() {
        for (line, expected) in [
            ("cal echo", "there is no sub-command `cal` (did you mean `call`?); `gpc --help` lists them"),
            ("call echo -n 4 -l", "there is no argument `-l`; `gpc call --help` lists them"),
            (
                "call echo -n 4 --dat x",
                "there is no argument `--dat` (did you mean `--data`?); `gpc call --help` lists them",
            ),
            ("call", "FUNC is missing: write `gpc call <FUNC> -n <N> [OPTIONS]`"),
            (
                "call echo --peers p",
                "--id is missing: write `gpc call <FUNC> --peers <FILE> --id <I> [OPTIONS]`",
            ),
            ("run --peers p echo", "--id is missing: see `gpc run --help`"),
            ("call echo -n 0", "-n 0: write a number from 1 to 4096"),
            ("call echo -n x", "-n x: write a whole number"),
            ("call echo -n 2 -n 3", "-n stands there twice: leave one out"),
            ("call echo -n 2 --peers p --id 0", "-n cannot be used with --peers: leave one out"),
            ("call echo -n 2 --link tpc", "--link tpc: write tcp, unix or shm (did you mean `tcp`?)"),
            ("call echo -n 2 --output xml", "--output xml: write table, json or level"),
            (
                "call echo -n 2 --wait spin",
                "--wait spin: write block, adaptive or spin:TIME, such as spin:50us",
            ),
            ("node", "--id and --peers are missing: write `gpc node --id <I> --peers <FILE> [OPTIONS]`"),
            ("tree", "TREE or --check FILE is missing: write `gpc tree <TREE|--check <FILE>> [N]`"),
            ("tree binary 4 5", "`5` is one word too many; `gpc tree --help` says which there are"),
            ("tree binary x", "N x: write a whole number"),
        ] {
            assert_eq!(said(line), expected, "{line}");
        }
        let quoted = said("call echo -n 4 --time-limit 5");
        assert!(quoted.starts_with("--time-limit: `5` is no length of time: "), "{quoted}");
    }

    #[test]
    fn a_word_that_is_close_is_meant() {
        let known = ["binary", "binomial", "chain", "flat", "sum"];
        assert_eq!(meant("binry", known), Some("binary"));
        assert_eq!(meant("binom", known), Some("binomial"));
        assert_eq!(meant("sm", known), Some("sum"));
        assert_eq!((meant("oak", known), meant("", known)), (None, None));
    }
}
