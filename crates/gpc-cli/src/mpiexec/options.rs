//! The options of `mpiexec` (the MPI standard's, and those of hydra) and their meaning in `gpc run`.

/// The meaning of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// Takes a value; the option of `gpc run` for all programs takes the same.
    Shared(&'static str),
    /// Takes what a process is bound to.
    BindTo,
    /// Takes the order in which processes get their places.
    MapBy,
    /// Takes no value; stands for this word of `gpc run`.
    Flag(&'static str),
    /// Takes a value; the option of `gpc run` for one program takes the same.
    Own(&'static str),
    /// Takes a name and a value, or both in one word, for these programs.
    Variable(Programs),
    /// Takes names of variables with commas between them, for these programs.
    Names(Programs),
    /// Takes no value: whether processes on other hosts get the variables of this command.
    Environment(bool),
    /// Takes a number of seconds.
    Timeout,
    /// Takes the name of a file with the rest of the line.
    ConfigFile,
    /// Prints the line of `gpc run`.
    Verbose,
    /// Prints the version.
    Version,
    /// Prints the help.
    Help,
    /// Is refused for this reason.
    Refused(&'static str),
}

/// The programs that an option is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Programs {
    /// All programs of the line.
    All,
    /// The program that follows.
    Next,
}

/// Names of an option without their dashes, and its meaning.
pub(super) type Known = (&'static [&'static str], Meaning);

/// Reason of a reserved option of the MPI standard.
const STANDARD: &str = "an option of the MPI standard that hydra has not either: leave it out";

/// All options.
pub(super) const OPTIONS: &[Known] = &[
    (&["n", "np"], Meaning::Own("-n")),
    (&["wdir", "wd"], Meaning::Own("--wdir")),
    (&["genv"], Meaning::Variable(Programs::All)),
    (&["env"], Meaning::Variable(Programs::Next)),
    (&["genvlist"], Meaning::Names(Programs::All)),
    (&["envlist"], Meaning::Names(Programs::Next)),
    (&["genvall", "envall"], Meaning::Environment(true)),
    (&["genvnone", "envnone"], Meaning::Environment(false)),
    (&["hosts", "host", "H"], Meaning::Shared("--hosts")),
    (&["f", "hostfile", "machinefile", "machine"], Meaning::Shared("--hostfile")),
    (&["ppn", "perhost"], Meaning::Shared("--per-host")),
    (&["launcher-exec", "bootstrap-exec"], Meaning::Shared("--rsh")),
    (&["launcher", "bootstrap"], Meaning::Shared("--launcher")),
    (&["l", "prepend-rank"], Meaning::Flag("--tag-output=rank")),
    (&["outfile-pattern"], Meaning::Shared("--out-file")),
    (&["errfile-pattern"], Meaning::Shared("--err-file")),
    (&["pmix"], Meaning::Shared("--pmix")),
    (&["print-all-exitcodes"], Meaning::Flag("--print-exits")),
    (&["s", "stdin"], Meaning::Shared("--stdin")),
    (&["bind-to"], Meaning::BindTo),
    (&["map-by"], Meaning::MapBy),
    (&["timeout"], Meaning::Timeout),
    (&["disable-auto-cleanup"], Meaning::Flag("--on-death=notify")),
    (&["configfile"], Meaning::ConfigFile),
    (&["v", "verbose"], Meaning::Verbose),
    (&["V", "version"], Meaning::Version),
    (&["h", "help"], Meaning::Help),
    (&["arch", "path", "soft", "file"], Meaning::Refused(STANDARD)),
    (
        &["mca", "gmca"],
        Meaning::Refused(
            "an option of Open MPI: set the variable OMPI_MCA_NAME, as by -genv OMPI_MCA_NAME VALUE",
        ),
    ),
    (&["x"], Meaning::Refused("an option of Open MPI: write -genvlist NAME, or -genv NAME VALUE")),
    (&["N", "npernode"], Meaning::Refused("an option of Open MPI: write -ppn K")),
    (
        &["oversubscribe"],
        Meaning::Refused("an option of Open MPI: leave it out, any number of processes may run"),
    ),
    (&["allow-run-as-root"], Meaning::Refused("an option of Open MPI: leave it out, root may run programs")),
    (&["tag-output"], Meaning::Refused("an option of Open MPI: write -prepend-rank")),
    (&["umask"], Meaning::Refused("set it in the shell, before this command")),
    (&["gdb", "gdba"], Meaning::Refused("start the debugger as the program")),
];

/// Finds an option by its word. Returns its first name, its meaning, and the value after a `=` of the word.
pub(super) fn find(word: &[u8]) -> Option<(&'static str, Meaning, Option<&[u8]>)> {
    let name = word.strip_prefix(b"--").or_else(|| word.strip_prefix(b"-"))?;
    let (name, value) = match name.iter().position(|&byte| byte == b'=') {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    let found = OPTIONS.iter().find(|(names, _)| names.iter().any(|known| known.as_bytes() == name));
    found.map(|(names, meaning)| (names[0], *meaning, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_with_one_dash_and_with_two() {
        let names = OPTIONS.iter().flat_map(|(names, meaning)| names.iter().map(move |name| (name, meaning)));
        for (name, meaning) in names {
            for dashes in ["-", "--"] {
                let word = format!("{dashes}{name}");
                assert!(
                    find(word.as_bytes())
                        .is_some_and(|(_, found, value)| found == *meaning && value.is_none())
                );
            }
        }
        assert_eq!(find(b"--np=4"), Some(("n", Meaning::Own("-n"), Some(b"4".as_slice()))));
        assert!(find(b"n").is_none() && find(b"-").is_none() && find(b"---n").is_none());
    }
}
