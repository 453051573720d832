//! `gpc mpiexec`, and links to the program with the name `mpiexec` or `mpirun`: `gpc run` in the spelling of the MPI
//! standard and of hydra.
//!
//! The line is translated to the words of `gpc run`, which are parsed and checked as if they had been written.

mod binding;
pub(crate) mod config_file;
mod options;
pub(crate) mod translation;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use chained_gpc::wire::Shown;
use clap::CommandFactory as _;

use self::options::{Meaning, OPTIONS};
use self::translation::{Surroundings, Translation};
use crate::allocated::would_take_allocation;
use crate::args::mpiexec::MpiexecArgs;
use crate::args::{Args, Command};
use crate::files::read_text;
use crate::refused::Refused;
use crate::{CommandResult, run, say, stdout, usage};

/// Variable with the time limit in seconds.
const TIMEOUT: &str = "MPIEXEC_TIMEOUT";

/// Variables that describe this host, its terminal or this shell.
const OF_THIS_HOST: [&str; 10] =
    ["DISPLAY", "HOME", "HOST", "HOSTNAME", "OLDPWD", "PWD", "SHLVL", "TERM", "TMPDIR", "_"];

/// Names of links to this program that stand for `gpc mpiexec`.
const LINKS: [&str; 2] = ["mpiexec", "mpirun"];

/// Returns the arguments of `gpc mpiexec` if the program was started by a link of that name, and otherwise the same.
pub(crate) fn by_its_name(arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| LINKS.iter().any(|link| name == *link)) {
        return arguments;
    }
    let rest = arguments.into_iter().skip(1);
    [OsString::from("gpc"), "mpiexec".into()].into_iter().chain(rest).collect()
}

/// Runs `gpc mpiexec`.
pub(crate) fn start(args: &MpiexecArgs) -> CommandResult {
    let timeout = env::var_os(TIMEOUT);
    let read = |file: &OsStr| read_text(Path::new(file), "file of -configfile");
    let variables = variables();
    let in_allocation = would_take_allocation();
    let surroundings = Surroundings { timeout: timeout.as_deref(), variables: &variables, in_allocation };
    let translation = translation::translate(&args.words, surroundings, &read);
    let words = match translation.map_err(|error| Refused::Usage(error.to_string()))? {
        Translation::Run { words, verbose } => {
            if verbose {
                say(&format!("this is `gpc run {}`", shown(&words)));
            }
            words
        }
        Translation::Help => return answer(&help()),
        Translation::Version => return answer(&Args::command().render_version()),
    };
    let words: Vec<OsString> = [OsString::from("gpc"), "run".into()].into_iter().chain(words).collect();
    match Args::read(words.clone()) {
        Ok(Args { command: Command::Run(args) }) => {
            run::run(&args).map_err(|error| match error.downcast_ref() {
                Some(Refused::Usage(text)) => Refused::Usage(in_their_spelling(text)).into(),
                _ => error,
            })
        }
        Ok(_) => Err("the translated line is not one of `gpc run`".into()),
        Err(error) => Err(Refused::Usage(in_their_spelling(&usage::of(&error, &words))).into()),
    }
}

/// Returns the names of the variables for processes on other hosts: all but those of a launcher, and those that
/// describe this host or this shell.
fn variables() -> Vec<OsString> {
    let mut command = std::process::Command::new(".");
    chained_gpc::bootstrap::scrub(&mut command);
    let scrubbed: Vec<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
    let names = env::vars_os().map(|(name, _)| name);
    names.filter(|name| !scrubbed.contains(&&**name) && !is_of_this_host(name)).collect()
}

fn is_of_this_host(name: &OsStr) -> bool {
    let name = name.as_bytes();
    OF_THIS_HOST.iter().any(|own| name == own.as_bytes())
        || [&b"SSH_"[..], b"XDG_", b"BASH_FUNC_"].iter().any(|prefix| name.starts_with(prefix))
}

fn answer(text: &str) -> CommandResult {
    stdout::write(|out| out.write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn help() -> String {
    let mut command = Args::command();
    command.find_subcommand_mut("mpiexec").map(|own| own.render_help().to_string()).unwrap_or_default()
}

/// Names options of `gpc run` in an error as the line named them.
fn in_their_spelling(text: &str) -> String {
    let pairs = OPTIONS.iter().filter_map(|(names, meaning)| match meaning {
        Meaning::Shared(ours) | Meaning::Own(ours) if ours.starts_with("--") => Some((names[0], *ours)),
        Meaning::BindTo => Some((names[0], "--bind")),
        Meaning::MapBy => Some((names[0], "--map-by")),
        _ => None,
    });
    pairs.fold(text.to_owned(), |text, (theirs, ours)| {
        text.replace(&format!("{ours} "), &format!("-{theirs} "))
    })
}

/// Returns words for a shell: quoted where a shell would split or expand them.
fn shown(words: &[OsString]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=./:,%+@".contains(byte);
    let quoted = |word: &OsString| {
        let text = word.to_string_lossy();
        match !text.is_empty() && word.as_bytes().iter().all(is_plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', r"'\''")),
        }
    };
    let line = words.iter().map(quoted).collect::<Vec<_>>().join(" ");
    Shown(&line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_that_name_is_mpiexec() {
        let of = |line: &str| {
            let words = by_its_name(line.split(' ').map(OsString::from).collect());
            words.join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(of("/opt/bin/mpiexec -n 2 a"), "gpc mpiexec -n 2 a");
        assert_eq!(of("mpirun mpirun"), "gpc mpiexec mpirun");
        assert_eq!(of("/opt/mpirun/gpc run mpiexec"), "/opt/mpirun/gpc run mpiexec");
        assert!(by_its_name(Vec::new()).is_empty());
    }

    #[test]
    fn the_help_has_every_option() {
        let help = help();
        for (names, meaning) in OPTIONS {
            for name in *names {
                let is_shown = help.split([' ', ',', '\n']).any(|word| word == format!("-{name}"));
                assert_eq!(is_shown, !matches!(meaning, Meaning::Refused(_)), "-{name}");
            }
        }
    }

    #[test]
    fn a_line_is_shown_as_a_shell_takes_it() {
        let words = ["-n", "2", "sh", "-c", "echo 'a b'", ""].map(OsString::from);
        assert_eq!(shown(&words), r"-n 2 sh -c 'echo '\''a b'\''' ''");
    }

    #[test]
    fn errors_name_the_options_of_the_line() {
        assert_eq!(in_their_spelling("--bind x: write none or core"), "-bind-to x: write none or core");
    }
}
