//! Errors, exit statuses and messages of the command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use chained_gpc::wire::Shown;

/// The error of a command, as a message.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Result of a sub-command: the exit status, or the error.
pub type CommandResult = Result<ExitCode, Failure>;

/// Exit status of a command that failed.
pub(crate) const FAILED: u8 = 1;

/// Exit status for wrong arguments, the same as clap's.
pub(crate) const USAGE: u8 = 2;

/// Prints a message to standard error; standard output has the results only. Each line is made harmless to a terminal,
/// since it may contain file names and texts from peers.
pub(crate) fn say(text: &str) {
    let lines: Vec<String> = text.lines().map(|line| Shown(line).to_string()).collect();
    // If standard error is closed, nothing is left to report that to.
    let _ = writeln!(io::stderr().lock(), "gpc: {}", lines.join("\n"));
}
