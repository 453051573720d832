//! Translates a line of `mpiexec` to a line of `gpc run`, without I/O.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::slice::Iter;

use chained_gpc::wire::Shown;

use super::binding::{bind_to, map_by};
use super::config_file;
use super::options::{self, Meaning, OPTIONS, Programs};
use crate::suggestion::{did_you_mean, meant};

/// Longest quoted word, in characters.
const QUOTED_MAX: usize = 80;

/// Options that name hosts.
const HOSTS: [&str; 2] = ["hosts", "f"];

/// What a line of `mpiexec` requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Translation {
    /// The words after `gpc run`.
    Run {
        words: Vec<OsString>,
        /// Whether the line of `gpc run` is printed.
        verbose: bool,
    },
    /// The help.
    Help,
    /// The version.
    Version,
}

/// Error of a line, for its user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LineError(String);

/// Reads the file of `-configfile`; an error names the file.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&OsStr) -> Result<String, String>;

/// What a line means depends on this.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Surroundings<'a> {
    /// Value of `MPIEXEC_TIMEOUT`.
    pub(crate) timeout: Option<&'a OsStr>,
    /// Names of the variables that processes on other hosts get.
    pub(crate) variables: &'a [OsString],
    /// Whether a line that names no host runs on those of an allocation.
    pub(crate) in_allocation: bool,
}

/// Translates the words after `mpiexec`.
///
/// # Errors
/// An option that is unknown, refused, repeated, or lacks its value; a line without a program.
pub(crate) fn translate(
    words: &[OsString],
    surroundings: Surroundings<'_>,
    read: ReadFile<'_>,
) -> Result<Translation, LineError> {
    let mut line = Line { parts: vec![Part::default()], ..Line::default() };
    match line.read(words, Some(read)) {
        Ok(()) => {}
        Err(Stop::Asked(translation)) => return Ok(translation),
        Err(Stop::Wrong(text)) => return Err(LineError(text)),
    }
    line.finished(surroundings).map_err(LineError)
}

/// Why reading stops.
enum Stop {
    Asked(Translation),
    Wrong(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Wrong(text)
    }
}

/// The line as far as it was read.
#[derive(Default)]
struct Line {
    /// Options for all programs: the name in this line, and the words of `gpc run`.
    shared: Vec<(&'static str, Vec<OsString>)>,
    /// Variables of all programs, as words of `gpc run`.
    variables: Vec<OsString>,
    /// Seconds of `-timeout`.
    timeout: Option<OsString>,
    verbose: bool,
    /// Whether processes on other hosts get all variables; so by default.
    environment: Option<bool>,
    parts: Vec<Part>,
}

/// A program.
#[derive(Default)]
struct Part {
    /// Its options, as words of `gpc run`.
    own: Vec<OsString>,
    /// The program and its arguments.
    words: Vec<OsString>,
}

impl Line {
    /// Reads words; without `read`, they are those of a file, which names no further file.
    fn read(&mut self, words: &[OsString], read: Option<ReadFile<'_>>) -> Result<(), Stop> {
        let mut words = words.iter();
        // Ends: each round takes a word.
        while let Some(word) = words.next() {
            let in_program = self.parts.last().is_some_and(|part| !part.words.is_empty());
            match word.as_bytes() {
                b":" if !in_program => return Err(missing(self.parts.len()).into()),
                b":" => self.parts.push(Part::default()),
                b"--" if !in_program => {}
                [b'-', _, ..] if !in_program => self.option(word, &mut words, read)?,
                _ => self.part().words.push(word.clone()),
            }
        }
        Ok(())
    }

    /// The program that is being read.
    fn part(&mut self) -> &mut Part {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    fn option(
        &mut self,
        word: &OsStr,
        rest: &mut Iter<'_, OsString>,
        read: Option<ReadFile<'_>>,
    ) -> Result<(), Stop> {
        let Some((name, meaning, joined)) = options::find(word.as_bytes()) else {
            return Err(unknown(word).into());
        };
        let mut value = |what: &str| match joined {
            Some(value) => Ok(OsString::from_vec(value.to_vec())),
            None => rest.next().cloned().ok_or_else(|| format!("{}: {what} is missing", shown(word))),
        };
        match meaning {
            Meaning::Shared(ours) => {
                let value = value("its value")?;
                self.share(name, vec![ours.into(), value])?;
            }
            Meaning::BindTo => {
                let value = bind_to(&shown(&value("its value")?)).map_err(|why| format!("-{name} {why}"))?;
                self.share(name, vec!["--bind".into(), value.into()])?;
            }
            Meaning::MapBy => {
                let value = map_by(&shown(&value("its value")?)).map_err(|why| format!("-{name} {why}"))?;
                self.share(name, vec!["--map-by".into(), value.into()])?;
            }
            Meaning::Flag(ours) => self.share(name, vec![ours.into()])?,
            Meaning::Own(ours) => {
                let value = value("its value")?;
                self.part().own.extend([ours.into(), value]);
            }
            Meaning::Variable(programs) => {
                let mut variable = value("the name of a variable")?;
                if !variable.as_bytes().contains(&b'=') {
                    let value = rest.next().ok_or_else(|| {
                        format!("{} {}: the value of the variable is missing", shown(word), shown(&variable))
                    })?;
                    variable.push("=");
                    variable.push(value);
                }
                self.variables_of(programs).extend(["--env".into(), variable]);
            }
            Meaning::Names(programs) => {
                let names = value("the names of variables")?;
                self.environment.get_or_insert(false);
                let names = names.as_bytes().split(|&byte| byte == b',').filter(|name| !name.is_empty());
                for name in names {
                    self.variables_of(programs).extend(["--env".into(), OsString::from_vec(name.to_vec())]);
                }
            }
            Meaning::Timeout => self.timeout = Some(value("the number of seconds")?),
            Meaning::ConfigFile => {
                let file = value("the name of a file")?;
                self.config_file(&file, rest, read)?;
            }
            Meaning::Environment(whole) => self.environment = Some(whole),
            Meaning::Verbose => self.verbose = true,
            Meaning::Version => return Err(Stop::Asked(Translation::Version)),
            Meaning::Help => return Err(Stop::Asked(Translation::Help)),
            Meaning::Refused(why) => return Err(format!("{}: {why}", shown(word)).into()),
        }
        Ok(())
    }

    fn variables_of(&mut self, programs: Programs) -> &mut Vec<OsString> {
        match programs {
            Programs::All => &mut self.variables,
            Programs::Next => &mut self.part().own,
        }
    }

    /// Adds an option for all programs, once.
    fn share(&mut self, name: &'static str, words: Vec<OsString>) -> Result<(), String> {
        match self.shared.iter().find(|(known, _)| *known == name) {
            Some((_, before)) if *before == words => {}
            Some(_) => {
                return Err(format!(
                    "-{name} stands there twice, and differs: all programs of the line share it"
                ));
            }
            None => self.shared.push((name, words)),
        }
        Ok(())
    }

    /// Reads the rest of the line from a file.
    fn config_file(
        &mut self,
        file: &OsStr,
        rest: &mut Iter<'_, OsString>,
        read: Option<ReadFile<'_>>,
    ) -> Result<(), Stop> {
        let Some(read) = read else {
            return Err(
                format!("-configfile {}: the file of another -configfile names it", shown(file)).into()
            );
        };
        if let Some(word) = rest.next() {
            return Err(
                format!("{} comes after -configfile, which has the rest of the line", shown(word)).into()
            );
        }
        let text = read(file)?;
        let words = config_file::words(&text).map_err(|error| format!("{}: {error}", shown(file)))?;
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        self.read(&words, None)
    }

    /// Returns the words of `gpc run`.
    fn finished(mut self, surroundings: Surroundings<'_>) -> Result<Translation, String> {
        if let Some(place) = self.parts.iter().position(|part| part.words.is_empty()) {
            return Err(missing(place + 1));
        }
        let (name, seconds) = match self.timeout.take() {
            Some(seconds) => ("-timeout", Some(seconds)),
            None => ("MPIEXEC_TIMEOUT", surroundings.timeout.map(OsStr::to_owned)),
        };
        let is_elsewhere =
            surroundings.in_allocation || self.shared.iter().any(|(name, _)| HOSTS.contains(name));
        let whole = is_elsewhere && self.environment.unwrap_or(true);
        let own = surroundings.variables.iter().filter(|_| whole);
        let own: Vec<OsString> = own.flat_map(|name| ["--env".into(), name.clone()]).collect();
        let mut words: Vec<OsString> = self.shared.into_iter().flat_map(|(_, words)| words).collect();
        if let Some(seconds) = seconds {
            words.extend(time_limit(name, &seconds)?);
        }
        for (place, part) in self.parts.into_iter().enumerate() {
            words.extend((place > 0).then(|| ":".into()));
            // A program's own variables replace those of all programs.
            words.extend(own.iter().chain(&self.variables).cloned().chain(part.own).chain(part.words));
        }
        Ok(Translation::Run { words, verbose: self.verbose })
    }
}

/// Returns the time limit of a number of seconds; none if it is 0 or less, as in hydra.
fn time_limit(name: &str, seconds: &OsStr) -> Result<Vec<OsString>, String> {
    let number = seconds.to_str().and_then(|text| text.trim().parse::<i64>().ok());
    match number {
        Some(number @ 1..) => Ok(vec!["--time-limit".into(), format!("{number}s").into()]),
        Some(_) => Ok(Vec::new()),
        None => Err(format!("{name} {}: write a number of seconds", shown(seconds))),
    }
}

fn missing(place: usize) -> String {
    match place {
        1 => "no program is named: write `mpiexec -n N PROGRAM`".into(),
        place => format!("program {place} is missing: `:` goes between two programs"),
    }
}

fn unknown(word: &OsStr) -> String {
    let bare = word.to_string_lossy().trim_start_matches('-').to_owned();
    let known = OPTIONS.iter().filter(|(_, meaning)| !matches!(meaning, Meaning::Refused(_)));
    let known = known.flat_map(|(names, _)| names.iter().copied());
    let close = did_you_mean(meant(&bare, known).map(|known| format!("-{known}")));
    format!("there is no option `{}` of mpiexec here{close}; `gpc mpiexec -help` lists them", shown(word))
}

fn shown(word: &OsStr) -> String {
    let text: String = word.to_string_lossy().chars().take(QUOTED_MAX).collect();
    Shown(&text).to_string()
}

// The fuzz target takes this file in by its path.
#[cfg(test)]
#[path = "translation/tests.rs"]
mod tests;
