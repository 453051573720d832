//! The arguments of the program of `run.rs`.

#![allow(clippy::print_stderr, reason = "the program of run.rs says why it fails")]
#![allow(dead_code, reason = "only the program of run.rs uses it")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::list::{Chosen, judge};
use super::{file, reached};

const USAGE: &str = "Arguments: all | names NAME... | changed REVISION | draw SECONDS [REVISION] | try FILE | mutate [OPTION...] | reached";

/// What the program does.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Task {
    Judge(Chosen),
    Try(String),
    Mutate(file::MutantOptions),
    Reached,
}

impl Task {
    /// # Errors
    /// A message with the possible arguments.
    fn of(words: &[String]) -> Result<Task, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match &words[..] {
            ["all"] => Ok(Task::Judge(Chosen::All)),
            ["names", names @ ..] if !names.is_empty() => {
                Ok(Task::Judge(Chosen::Names(names.iter().map(|&name| name.to_owned()).collect())))
            }
            ["changed", base] => Ok(Task::Judge(Chosen::Changed((*base).to_owned()))),
            ["draw", seconds, base @ ..] if base.len() <= 1 => {
                let seconds = seconds.parse().map_err(|_| format!("{seconds:.40?} is no number. {USAGE}"))?;
                let base = base.first().map(|&base| base.to_owned());
                Ok(Task::Judge(Chosen::Draw(Duration::from_secs(seconds), base)))
            }
            ["try", path] => Ok(Task::Try((*path).to_owned())),
            ["mutate", options @ ..] => Ok(Task::Mutate(file::MutantOptions::of(&options.join(" "))?)),
            ["reached"] => Ok(Task::Reached),
            _ => Err(USAGE.into()),
        }
    }
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = Task::of(&words).and_then(|task| match task {
        Task::Judge(chosen) => judge(chosen),
        Task::Try(path) => file::try_file(Path::new(&path)),
        Task::Mutate(options) => file::mutate(&options),
        Task::Reached => reached::check(),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn arguments_are_read_or_refused() {
    let of = |line: &str| Task::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(of("all"), Ok(Task::Judge(Chosen::All)));
    assert_eq!(of("names a b"), Ok(Task::Judge(Chosen::Names(vec!["a".into(), "b".into()]))));
    let time = Duration::from_secs(90);
    assert_eq!(of("draw 90"), Ok(Task::Judge(Chosen::Draw(time, None))));
    assert_eq!(of("draw 90 HEAD~1"), Ok(Task::Judge(Chosen::Draw(time, Some("HEAD~1".into())))));
    for wrong in ["", "names", "all of them", "draw", "draw soon", "draw 1 a b", "changed", "try", "test"] {
        assert!(of(wrong).unwrap_err().contains("Arguments: "), "{wrong:?}");
    }
    assert!(of("mutate --count many").is_err());
}
