//! The command `gpc`: makes calls, runs nodes, draws trees, simulates, measures.
//!
//! The top floor: it uses the library [`chained_gpc`] as any other program would, and nothing of that uses it. It is a library so that
//! the command and its tests share it; nothing of it is an interface for others. It never prints a panic at a user: whatever can go wrong outside is an error that says what to do.
//! Answers go to standard output, all else to standard error; a reader who leaves early (`| head`) is no error.
#![allow(clippy::disallowed_methods, reason = "the command waits, and measures")]
#![deny(unsafe_code)]

#[cfg(feature = "mimalloc")]
pub mod allocator;
pub mod args;
mod bench;
pub mod builtin;
mod call;
mod cause;
mod chart;
pub mod draw;
pub mod duration;
mod files;
#[cfg(feature = "impi")]
mod impi;
mod inherited;
mod init;
pub mod interrupt;
mod joining;
mod launching;
mod level;
mod limits;
mod logs;
mod node;
pub mod output;
pub mod plan;
mod quantile;
pub mod refused;
#[cfg(feature = "rendezvous")]
mod rendezvous;
#[cfg(feature = "bnr")]
mod run;
mod secret;
pub mod session;
mod sim;
pub mod started;
mod stdout;
mod tree;
pub mod trust;
mod usage;
mod wait;
mod xml;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use chained_gpc::launch::own_id;
use chained_gpc::launch::remote::own_part;
use clap::error::ErrorKind;

use self::args::{Args, Command};
use self::refused::Refused;
use chained_gpc::wire::Shown;

/// What went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a sub-command ends with: the status to exit with, or what went wrong.
pub type CommandResult = Result<ExitCode, Failure>;

/// Exit status where a command could not do what it was asked to.
const FAILED: u8 = 1;

/// Exit status where the arguments are wrong, clap's own.
const USAGE: u8 = 2;

/// The command: reads the arguments, runs the sub-command, reports its error. Wrong arguments exit with 2, errors with 1.
pub fn main() -> ExitCode {
    chained_gpc::runtime::one_heap();
    if init::is_first() {
        return init::run().unwrap_or_else(|error| failed(&error, USAGE));
    }
    // What waits for the keeper of its processes waits for nothing that it does not need.
    #[cfg(feature = "bnr")]
    if run::is_keeper(env::args_os()) {
        return run::keep().unwrap_or_else(|error| failed(&*error, USAGE));
    }
    // One of thousands, perhaps.
    let launched = own_id(env::args_os(), &launching::ARGUMENTS);
    #[cfg(feature = "bnr")]
    if let Some(id) = own_id(env::args_os(), &launching::RUNNING) {
        launching::name_process();
        return logs::start()
            .and_then(|()| run::run_launched(id))
            .unwrap_or_else(|error| failed(&*error, USAGE));
    }
    let result = match (launched, own_part(env::args_os(), &launching::AGENT)) {
        (Some(id), _) => {
            launching::name_process();
            logs::start().and_then(|()| node::run_launched(id))
        }
        (None, Some(part)) => logs::start().and_then(|()| node::run_part(part)),
        (None, None) => return started(),
    };
    result.unwrap_or_else(|error| failed(&*error, USAGE))
}

/// The command as a user has started it.
fn started() -> ExitCode {
    #[cfg(feature = "impi")]
    {
        let arguments: Vec<_> = env::args_os().collect();
        if let Some(arguments) = impi::field::rewritten(&arguments) {
            return started_in_the_field(arguments);
        }
    }
    let arguments = without_second_help(env::args_os().collect());
    let args = match Args::read(arguments.clone()) {
        Ok(args) => args,
        Err(error) => return refused(&error, &arguments),
    };
    run(args.command).unwrap_or_else(|error| failed(&*error, USAGE))
}

/// What clap makes of arguments in place of values: help and version on standard output, or an error.
fn refused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        // Without a sub-command the help is what to do.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nowhere is left to report that standard error is closed.
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ if error.use_stderr() => {
            say(&usage::of(error, arguments));
            ExitCode::from(USAGE)
        }
        _ => match stdout::print(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, USAGE),
        },
    }
}

/// `help --help` is `help`: clap has no help of that one, and says that it knows no `--help`.
fn without_second_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is = |at: usize, words: &[&str]| {
        arguments.get(at).is_some_and(|word| words.iter().any(|known| word == known))
    };
    let groups = ["db", "impi", "level", "rendezvous"];
    let asked = is(1, &["help"]) || (is(1, &groups) && is(2, &["help"]));
    if asked && is(arguments.len() - 1, &["--help", "-h"]) {
        arguments.pop();
    }
    arguments
}

/// The command in the spelling of the field, or why it is none.
#[cfg(feature = "impi")]
fn started_in_the_field(arguments: Result<Vec<OsString>, impi::field::FieldError>) -> ExitCode {
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::from(FAILED);
        }
    };
    match Args::read(arguments.clone()) {
        Err(error) if error.use_stderr() => {
            say(&impi::field::in_the_field(&usage::of(&error, &arguments)));
            ExitCode::from(FAILED)
        }
        Err(help) => refused(&help, &arguments),
        Ok(args) => run(args.command).unwrap_or_else(|error| {
            match error.downcast_ref() {
                Some(Refused::Usage(text)) => say(&impi::field::in_the_field(text)),
                Some(Refused::File(_)) | None => say(&error.to_string()),
            }
            ExitCode::from(FAILED)
        }),
    }
}

/// Reports an error. `usage` is the status where the arguments are wrong.
fn failed(error: &(dyn std::error::Error + Send + Sync + 'static), usage: u8) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(match error.downcast_ref() {
        Some(Refused::Usage(_)) => usage,
        Some(Refused::File(_)) | None => FAILED,
    })
}

/// Tells the one who waits, on standard error: results go to standard output, so that this is never in their way. Names of files and what peers say may be in it, so each line is harmless to a terminal.
fn say(text: &str) {
    let lines: Vec<String> = text.lines().map(|line| Shown(line).to_string()).collect();
    // Nowhere is left to report that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "gpc: {}", lines.join("\n"));
}

fn run(command: Command) -> CommandResult {
    logs::start()?;
    match command {
        Command::Call(args) => call::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Secret(args) => secret::run(&args),
        #[cfg(feature = "rendezvous")]
        Command::Rendezvous(args) => rendezvous::run(&args),
        #[cfg(feature = "impi")]
        Command::Impi(args) => impi::run(&args),
        Command::Level(args) => level::run(&args),
        #[cfg(feature = "bnr")]
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "bnr")]
        Command::Ps(args) => run::ps(&args),
        #[cfg(feature = "bnr")]
        Command::Db(args) => run::db(&args),
        #[cfg(feature = "bnr")]
        Command::Kill(args) => run::kill(&args),
        #[cfg(feature = "bnr")]
        Command::Keep => run::keep(),
    }
}
