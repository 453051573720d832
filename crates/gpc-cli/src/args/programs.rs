//! The programs of `gpc run`: each `:` in its words begins another one, with arguments of its own.

use std::ffi::OsString;

use clap::Parser;

use super::run::{ProgramArgs, RUN_USAGE, RunArgs};
use crate::usage;

/// A program after a `:`, parsed separately.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "gpc run", disable_help_flag = true, override_usage = RUN_USAGE)]
struct NextProgram {
    /// The program.
    #[command(flatten)]
    program: ProgramArgs,
}

/// Error in the arguments of one program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("program {place}: {why}")]
pub struct ProgramError {
    place: usize,
    why: String,
}

impl RunArgs {
    /// Returns all programs, each with the words up to its `:`.
    ///
    /// # Errors
    /// If a program is missing, or the arguments before it are wrong.
    pub fn programs(&self) -> Result<Vec<ProgramArgs>, ProgramError> {
        let mut parts = self.first.words.split(|word| word == ":");
        let words = parts.next().unwrap_or_default().to_vec();
        if words.is_empty() {
            return Err(missing(1));
        }
        let mut programs = vec![ProgramArgs { words, ..self.first.clone() }];
        for (place, part) in (2..).zip(parts) {
            let words = [OsString::from("gpc run")].into_iter().chain(part.iter().cloned());
            let next = NextProgram::try_parse_from(words).map_err(|error| match part.is_empty() {
                true => missing(place),
                false => ProgramError { place, why: usage::of(&error, &["gpc".into(), "run".into()]) },
            })?;
            programs.push(next.program);
        }
        Ok(programs)
    }
}

fn missing(place: usize) -> ProgramError {
    ProgramError { place, why: "no program stands there: `:` goes between two programs".into() }
}
