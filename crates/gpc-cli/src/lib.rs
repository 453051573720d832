//! The command `gpc`: makes calls, runs nodes, draws trees, simulates, measures.
//!
//! The top floor: it uses the library [`chained_gpc`] as any other program does, and no other crate uses it. It is a
//! library only so that the command and its tests share the code. A user never sees a panic: every fault outside the
//! program is an error that says what to do. Results go to standard output, all else to standard error; a reader that
//! leaves early (`| head`) is no error.
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | file | for |
//! |---|---|
//! | `args` | the arguments of all sub-commands; `programs`: the programs of `gpc run` |
//! | `usage`, `suggestion` | errors of clap in one line; a known word for an unknown one |
//! | `refused` | wrong arguments (exit status 2) or bad files (1) |
//! | `report` | errors, exit statuses and messages |
//! | `call`, `plan`, `session` | `gpc call`; checks combinations of its arguments; its nodes |
//! | `launching`, `joining`, `started` | starts processes; joins running nodes; the role of a process of a launcher |
//! | `plugins` | libraries of `--load` |
//! | `allocated` | the hosts of the job of a batch system |
//! | `progress` | what a waiting `gpc call` shows |
//! | `cause`, `by_host` | explains why a call failed; reasons with the names of their hosts |
//! | `node`, `trace` | `gpc node`; `gpc trace`: what the calls of running nodes wait for |
//! | `metrics`, `top` | metrics over HTTP; `gpc top`: a view of running nodes |
//! | `asking` | asks running nodes |
//! | `copy` | `gpc copy` |
//! | `copy/send`, `collect`, `hosts` | sends files; collects files; the processes on the hosts |
//! | `copy/receive`, `incoming`, `extent` | the functions of a host; a file that comes in; which bytes have come |
//! | `copy/program` | a program that comes in for a job |
//! | `copy/piece`, `read` | the messages: a piece of a file; a request to read one |
//! | `run` | `gpc run`, `exec`, `ps`, `db` and `kill` |
//! | `run/plan`, `nodes`, `failures` | checks arguments; starts or joins nodes; failures |
//! | `run/job`, `head` | a running job; the head of its domain, as the job uses it |
//! | `run/input`, `output`, `signals` | standard input of rank 0; output in whole lines; signals |
//! | `run/files`, `pattern`, `places`, `exits` | files of output; their names; pids for these; how processes ended |
//! | `run/heads`, `reach`, `tools`, `show` | finds domains; queries them; the tools; their output |
//! | `run/on_timeout` | the command of `--on-timeout` |
//! | `run/bcast`, `programs` | programs that go to the nodes of a run; their paths and numbers |
//! | `run/env_for`, `meeting` | addresses of nodes, for programs without MPI; the resource where processes meet |
//! | `run/exec`, `fold`, `spool` | `gpc exec`; equal outputs of hosts; the output of one |
//! | `run/supervisor`, `ranks` | the supervisor of a host's processes; ranks as text |
//! | `mpiexec` | `gpc mpiexec`: `options`, their `translation` to `gpc run`, `config_file` |
//! | `tree`, `draw` | `gpc tree`; pictures of a `sketch`: `text`, `dot`, `svg` with `place`, `json` |
//! | `sim` | `gpc sim` |
//! | `sim/worlds`, `exhaustive`, `against` | `--peering` and `--groups`; every crash; comparison of two builds |
//! | `sim/costs`, `fit`, `fastest` | costs of messages; their measurement on this machine; the fastest tree for them |
//! | `sim/scenario`, `trees` | the scenario and the trees that the arguments name |
//! | `sim/output`, `progress` | tables and JSON; progress |
//! | `bench` | `gpc bench` |
//! | `bench/plan`, `set`, `measure` | the rows; processes and calls of a turn; gives the rows their turns |
//! | `bench/statistics`, `histogram` | intervals; times of calls |
//! | `bench/key`, `axes` | what distinguishes rows; which of it varies |
//! | `bench/report`, `summary` | results as JSON; makes them of the turns |
//! | `bench/comparison`, `earlier` | comparison of two runs as JSON; a saved run, to compare with |
//! | `bench/print`, `csv`, `picture` | results as tables; as CSV; as a chart |
//! | `bench/machine`, `sample` | the machine and its load; results for tests |
//! | `chart` | the chart of `--svg`: `content`, `axes`, `lines` |
//! | `rendezvous` | `gpc rendezvous`: `serve`, `ask`, `show`, `token`, `private`, `arguments` |
//! | `impi` | `gpc impi` |
//! | `impi/server`, `client`, `command`, `methods` | the server; the client; its program; authentication methods |
//! | `impi/field` | the command spelling of other implementations |
//! | `impi/learned`, `shown`, `trace` | result of a client; its files; events |
//! | `impi/line_writer` | writes the lines of a server on a thread of its own |
//! | `level` | `gpc level`: level-n data from and to JSON |
//! | `documents` | `gpc completions` and `gpc man` |
//! | `secret`, `trust` | `gpc secret`; which peers a node links with |
//! | `builtin` | functions of every `gpc` node: `digest`, `facts`, `fail`, `fill`, `sleep`, `sum` |
//! | `output` | outcome of a call: `table`, `json`, `columns`, `units` |
//! | `files`, `unnamed` | files that users name; files without a name |
//! | `stdout`, `logs` | standard output; logs |
//! | `duration`, `wait`, `words` | text of durations and of wait modes; words of a line |
//! | `quantile`, `xml` | percentiles; escapes |
//! | `interrupt`, `init`, `limits` | signals; process number 1 of a container; errors of the process's limits |
//! | `inherited` | finds standard descriptors that were closed before the start (`unsafe`) |
//! | `allocator` | mimalloc for `gpc sim`, otherwise the system's allocator (`unsafe`) |
//! | `fuzz_corpus` | a test: texts that people write |
//! | `main` | the program |
#![allow(clippy::disallowed_methods, reason = "the command waits, and measures")]
#![deny(unsafe_code)]

mod allocated;
#[cfg(feature = "mimalloc")]
pub mod allocator;
pub mod args;
mod asking;
mod bench;
pub mod builtin;
mod by_host;
mod call;
mod cause;
mod chart;
mod copy;
mod documents;
pub mod draw;
pub mod duration;
mod files;
#[cfg(all(test, feature = "bnr"))]
mod fuzz_corpus;
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
mod metrics;
#[cfg(feature = "bnr")]
mod mpiexec;
mod node;
pub mod output;
pub mod plan;
mod plugins;
mod progress;
mod quantile;
pub mod refused;
#[cfg(feature = "rendezvous")]
mod rendezvous;
mod report;
#[cfg(feature = "bnr")]
mod run;
mod secret;
pub mod session;
mod sim;
pub mod started;
mod stdout;
mod suggestion;
mod top;
mod trace;
mod tree;
mod tree_choice;
pub mod trust;
mod unnamed;
mod usage;
mod wait;
mod words;
mod xml;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use gpc_launch::own_id;
use gpc_launch::remote::is_agent;

use self::args::{Args, Command};
use self::refused::Refused;
use self::report::USAGE;
pub use self::report::{CommandResult, Failure};
pub(crate) use self::report::{FAILED, say};

/// Runs the command: parses the arguments, runs the sub-command, and reports its error. The exit status is 2 for wrong
/// arguments, and 1 for other errors.
pub fn main() -> ExitCode {
    chained_gpc::runtime::one_heap();
    if init::is_first() {
        return init::run().unwrap_or_else(|error| failed(&error, USAGE));
    }
    // Checked before anything else, since a node waits for its supervisor to start.
    #[cfg(feature = "bnr")]
    if run::is_supervisor(env::args_os()) {
        return run::keep().unwrap_or_else(|error| failed(&*error, USAGE));
    }
    #[cfg(all(feature = "bnr", feature = "pmix"))]
    if let Some((host, library)) = run::pmix_node(env::args_os()) {
        return run::serve_pmix(&host, library.as_deref()).unwrap_or_else(|error| failed(&*error, USAGE));
    }
    // Checked before clap parses the arguments, since a call may start thousands of these.
    let arguments: Vec<_> = env::args_os().collect();
    let (of_node, loads) = plugins::taken_from(&arguments, &launching::LAUNCHED);
    let launched = own_id(of_node, &launching::ARGUMENTS);
    #[cfg(feature = "bnr")]
    if let Some(id) = own_id(env::args_os(), &launching::RUNNING) {
        launching::name_process();
        return logs::start()
            .and_then(|()| run::run_launched(id))
            .unwrap_or_else(|error| failed(&*error, USAGE));
    }
    let (of_agent, loads_there) = plugins::taken_from(&arguments, &launching::AGENT);
    let result = match launched {
        Some(id) => {
            launching::name_process();
            logs::start().and_then(|()| node::run_launched(id, &loads))
        }
        None if is_agent(of_agent, &launching::AGENT) => {
            logs::start().and_then(|()| node::run_as_agent(&loads_there))
        }
        None => return started(),
    };
    result.unwrap_or_else(|error| failed(&*error, USAGE))
}

/// Runs the command as a user started it.
fn started() -> ExitCode {
    #[cfg(feature = "impi")]
    {
        let arguments: Vec<_> = env::args_os().collect();
        if let Some(arguments) = impi::field::rewritten(&arguments) {
            return started_in_the_field(arguments);
        }
    }
    let arguments = env::args_os().collect();
    #[cfg(feature = "bnr")]
    let arguments = mpiexec::by_its_name(arguments);
    let arguments = without_second_help(arguments);
    let args = match Args::read(arguments.clone()) {
        Ok(args) => args,
        Err(error) => return refused(&error, &arguments),
    };
    run(args.command).unwrap_or_else(|error| failed(&*error, USAGE))
}

/// Handles what clap returns instead of arguments: help and version on standard output, or an error.
fn refused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        // Without a sub-command, the help is the answer.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // If standard error is closed, nothing is left to report that to.
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

/// Reads `help --help` as `help`: clap has no help of its `help`, and rejects the `--help`.
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

/// Runs the command in the spelling of other implementations, or reports why it is invalid.
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

/// Reports an error, and returns the exit status. `usage` is the status for wrong arguments.
fn failed(error: &(dyn std::error::Error + Send + Sync + 'static), usage: u8) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(match error.downcast_ref() {
        Some(Refused::Usage(_)) => usage,
        Some(Refused::File(_)) | None => FAILED,
    })
}

fn run(command: Command) -> CommandResult {
    logs::start()?;
    match command {
        Command::Call(args) => call::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Secret(args) => secret::run(&args),
        #[cfg(feature = "rendezvous")]
        Command::Rendezvous(args) => rendezvous::run(&args),
        #[cfg(feature = "impi")]
        Command::Impi(args) => impi::run(&args),
        Command::Level(args) => level::run(&args),
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
        #[cfg(feature = "bnr")]
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "bnr")]
        Command::Mpiexec(args) => mpiexec::start(&args),
        #[cfg(feature = "bnr")]
        Command::Exec(args) => run::exec(&args),
        #[cfg(feature = "bnr")]
        Command::Ps(args) => run::ps(&args),
        #[cfg(feature = "bnr")]
        Command::Db(args) => run::db(&args),
        #[cfg(feature = "bnr")]
        Command::Kill(args) => run::kill(&args),
        #[cfg(feature = "bnr")]
        Command::Keep => run::keep(),
        #[cfg(all(feature = "bnr", feature = "pmix"))]
        Command::PmixServe { host, library } => run::serve_pmix(&host, library.as_deref()),
    }
}
