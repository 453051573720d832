//! Arguments of `gpc exec`.

use std::ffi::OsString;

use clap::ValueEnum;

#[cfg(feature = "rendezvous")]
use super::meeting::MeetingArgs;
use super::placement::PlacementArgs;
use super::run::{OnDeathKind, ProgramArgs, RunArgs, StdinKind};
use super::run_limit::RunLimitArgs;
use super::run_output::RunOutputArgs;
use super::target::TargetArgs;
use crate::duration::Span;

/// Arguments of `gpc exec`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = EXEC_EXAMPLES, override_usage = EXEC_USAGE)]
pub struct ExecArgs {
    /// Command and its arguments, as they are: no shell reads them
    #[arg(value_name = "COMMAND", required_unless_present = "shell", trailing_var_arg = true, num_args = 1..)]
    pub words: Vec<OsString>,

    /// Print equal outputs once, under the names of their hosts, when all hosts have ended
    #[arg(long)]
    pub fold: bool,

    /// Print the commonest output, and how the others differ from it
    #[arg(long, conflicts_with = "fold")]
    pub diff: bool,

    /// Print one JSON object: for each host its output, and how it ended
    #[arg(long, conflicts_with_all = ["fold", "diff"])]
    pub json: bool,

    /// End the commands after this time, such as 10s or 1h; the exit status is then 124
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Who reads the standard input of this command: all commands, a copy each, or none
    #[arg(long, value_enum, value_name = "WHO", default_value_t = ExecStdin::None)]
    pub stdin: ExecStdin,

    /// Script for /bin/sh on each host, in place of a command
    #[arg(long, value_name = "SCRIPT", conflicts_with = "words")]
    pub shell: Option<OsString>,

    /// Hosts or nodes.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Who reads standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExecStdin {
    /// No command
    None,
    /// Every command
    All,
}

const EXEC_USAGE: &str = "\
gpc exec --hosts <LIST> [OPTIONS] [--] <COMMAND> [ARGS]...
       gpc exec --hosts <LIST> [OPTIONS] --shell <SCRIPT>";

pub(super) const EXEC_EXAMPLES: &str = "\
Each line of output has the name of its host, as it comes: `b12: ...`. Commands start where the
remote shell starts, with the environment that it gives them. Without --fan-out, up to 64 hosts
are reached from here, and more through those. Slots do not count.

The exit status is the greatest of all hosts: 128 + N if signal N ended a command, 127 if there
is no such command, 126 if it cannot be started there, 255 if a host cannot be reached.

Examples:
  gpc exec --hosts b[01-64] uname -r             b01: 6.1.0, ...
  gpc exec --hosts b[01-64] --fold uname -r      b[01-11,13-64]: 6.1.0, and b12: 5.10.0
  gpc exec --hosts b[01-64] --diff cat /etc/ssh/sshd_config
  gpc exec --hosts b[01-64] --shell 'dmesg | tail -1'
  gpc exec --hosts b[01-64] --stdin all --fold md5sum < file";

impl ExecArgs {
    /// The arguments of the run that this is: a process on each host, which is no reason to end the others.
    pub fn to_run(&self) -> RunArgs {
        let word = OsString::from;
        let words = match &self.shell {
            Some(script) => vec![word("/bin/sh"), word("-c"), script.clone()],
            None => self.words.clone(),
        };
        RunArgs {
            first: ProgramArgs { n: None, env: Vec::new(), wdir: None, words },
            output: RunOutputArgs { print_exits: true, ..RunOutputArgs::default() },
            limit: RunLimitArgs { time_limit: self.time_limit, ..RunLimitArgs::default() },
            on_death: OnDeathKind::Notify,
            stdin: match self.stdin {
                ExecStdin::None => StdinKind::None,
                ExecStdin::All => StdinKind::All,
            },
            placement: PlacementArgs::default(),
            env_for: None,
            bcast: false,
            pmi_port: false,
            pmix: None,
            here: false,
            nodes: None,
            peers: self.target.peers.clone(),
            id: self.target.id,
            trust: self.target.trust.clone(),
            over: self.target.over.clone(),
            #[cfg(feature = "rendezvous")]
            meeting: MeetingArgs::default(),
        }
    }
}
