//! `gpc level`: converts level-n data from and to JSON.
//!
//! Source: WS Rendezvous, "Data format".

pub(crate) mod json;

use std::process::ExitCode;

use self::json::{Leveled, encoded};
use super::args::{LevelArgs, LevelCommand, LevelInput};
use super::files::{read_bytes, shown};
use super::output::write_json;
use super::{CommandResult, stdout};

/// Runs the sub-command.
pub(super) fn run(args: &LevelArgs) -> CommandResult {
    match &args.command {
        LevelCommand::Encode(input) => encode(input),
        LevelCommand::Decode(input) => decode(input),
    }
}

fn encode(input: &LevelInput) -> CommandResult {
    let json = read_bytes(&input.file, "JSON")?;
    let (_, data) =
        encoded(&json, input.depth).map_err(|error| format!("{}: {error}", shown(&input.file)))?;
    stdout::write(|out| out.write_all(&data))?;
    Ok(ExitCode::SUCCESS)
}

fn decode(input: &LevelInput) -> CommandResult {
    let data = read_bytes(&input.file, "level-n data")?;
    let level = input.depth.unwrap_or(1);
    let hint = match input.depth {
        None => "; they were read as of level 1: --depth N says another level",
        Some(_) => "",
    };
    let leveled =
        Leveled::new(level, &data).map_err(|error| format!("{}: {error}{hint}", shown(&input.file)))?;
    stdout::write(|out| write_json(&leveled, out))?;
    Ok(ExitCode::SUCCESS)
}
