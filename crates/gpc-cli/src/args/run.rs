//! Arguments of `gpc run`, and of `gpc ps`, `gpc db` and `gpc kill`, which work on running jobs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Subcommand, ValueEnum};
use gpc_bnr::names::GroupId;
use gpc_launch::PROCESSES_MAX;
use gpc_trees::Id;

#[cfg(feature = "rendezvous")]
use super::meeting::{MEETING_HEADING, MeetingArgs};
use super::over::OVER_HEADING;
use super::placement::PlacementArgs;
use super::run_limit::RunLimitArgs;
use super::run_output::RunOutputArgs;
use super::trust::TRUST_HEADING;
use super::{OverArgs, TrustArgs};

/// Maximum number of processes of a program: the maximum of a group.
const COUNT_MAX: i64 = 1 << 20;

const NODES: &str = "Where the processes run";

/// Arguments of `gpc run`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = RUN_USAGE)]
pub struct RunArgs {
    /// Number of processes, environment and words of the first program; each program after a `:` has its own
    #[command(flatten)]
    pub first: ProgramArgs,

    /// Files and prefixes of output.
    #[command(flatten)]
    pub output: RunOutputArgs,

    /// The time limit, and what precedes the kill.
    #[command(flatten)]
    pub limit: RunLimitArgs,

    /// What to do when a process fails: status other than 0, a signal, or an end without goodbye while others depend on
    /// it
    #[arg(long, value_enum, default_value_t = OnDeathKind::Kill)]
    pub on_death: OnDeathKind,

    /// Processes that read the standard input of this command: a rank, none, or all, each of which has a copy
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub stdin: StdinKind,

    /// Set the variables by which programs of a kind find each other; torch: MASTER_ADDR, MASTER_PORT (a free port of
    /// the host of rank 0), RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE. --env overrides them
    #[arg(long, value_enum, value_name = "KIND")]
    pub env_for: Option<EnvForKind>,

    /// Offer PMI at a port of the loopback interface, PMI_PORT, with a secret PMI_ID for each process, instead of an
    /// inherited socket, PMI_FD
    #[arg(long)]
    pub pmi_port: bool,

    /// When to serve PMIx to the processes, which Open MPI needs; by default auto
    #[arg(long, value_enum, value_name = "WHEN")]
    pub pmix: Option<PmixKind>,

    /// Stay on this machine within a job of Slurm, PBS, LSF or SGE; by default the processes run on the hosts of the
    /// job
    #[arg(long, help_heading = NODES, conflicts_with_all = ["nodes", "peers", "hosts", "hostfile"])]
    pub here: bool,

    /// Start this many nodes on this machine, this process the first, and divide the processes among them: a small
    /// model of several hosts
    #[arg(long, value_name = "K", help_heading = NODES, conflicts_with_all = ["peers", "hosts", "hostfile"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PROCESSES_MAX)))]
    pub nodes: Option<u32>,

    /// Join the running nodes of this file (a line `ID ADDRESS` each), which were started by
    /// `gpc node --exec-allowed`, and divide the processes among them; this node runs none
    #[arg(long, value_name = "FILE", help_heading = NODES, requires = "id")]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process
    #[arg(long, value_name = "I", help_heading = NODES, requires = "peers")]
    pub id: Option<Id>,

    /// With --hosts or --peers: send each program (an executable or a script, without its libraries) to the hosts,
    /// which execute it from memory (/dev/shm); nothing is left there. On this machine it is executed from its place
    #[arg(long, help_heading = NODES)]
    pub bcast: bool,

    /// The node and the processors of each process.
    #[command(flatten, next_help_heading = NODES)]
    pub placement: PlacementArgs,

    /// Nodes that this node links with; used with --peers.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,

    /// Nodes on other hosts.
    #[command(flatten, next_help_heading = OVER_HEADING)]
    pub over: OverArgs,

    /// The resource where the processes meet.
    #[cfg(feature = "rendezvous")]
    #[command(flatten, next_help_heading = MEETING_HEADING)]
    pub meeting: MeetingArgs,
}

impl RunArgs {
    /// Whether the processes meet at a resource.
    pub fn meets(&self) -> bool {
        #[cfg(feature = "rendezvous")]
        return self.meeting.rendezvous.is_some();
        #[cfg(not(feature = "rendezvous"))]
        false
    }

    /// What to do when a process fails.
    pub fn on_death(&self) -> OnDeathKind {
        #[cfg(feature = "rendezvous")]
        if self.meeting.keep_going {
            return OnDeathKind::Notify;
        }
        self.on_death
    }
}

/// A program, the number of its processes, and their environment. Another program follows each `:`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct ProgramArgs {
    /// Number of processes; 1 by default, and with --hosts and a single program one for each slot
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=COUNT_MAX))]
    pub n: Option<u32>,

    /// Variable of the processes, which replaces one of the same name; without `=`, the value of this command. May be
    /// repeated
    #[arg(long, value_name = "K[=V]", value_parser = clap::builder::OsStringValueParser::new())]
    pub env: Vec<OsString>,

    /// Folder in which the processes start; by default that of this command
    #[arg(long, value_name = "FOLDER")]
    pub wdir: Option<PathBuf>,

    /// Program and its arguments. A word `:` ends them; another program follows, with its own -n, --env and --wdir
    /// first
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, num_args = 1..)]
    pub words: Vec<OsString>,
}

/// Effect of a failed process on its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnDeathKind {
    /// Kill the others, and all processes that they have spawned
    Kill,
    /// Let the others continue, and notify those that asked for it
    Notify,
}

/// Processes that read standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StdinKind {
    /// The process of this rank.
    Rank(u32),
    /// No process.
    None,
    /// Every process.
    All,
}

impl FromStr for StdinKind {
    type Err = String;

    fn from_str(text: &str) -> Result<StdinKind, String> {
        match text {
            "none" => Ok(StdinKind::None),
            "all" => Ok(StdinKind::All),
            rank => rank.parse().map(StdinKind::Rank).map_err(|_| "write a rank, none or all".into()),
        }
    }
}

/// Programs whose variables are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EnvForKind {
    /// Programs of `torch.distributed`
    Torch,
}

/// When nodes serve PMIx.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PmixKind {
    /// If a program or its arguments name a program of Open MPI, or for a script, a shell or an interpreter
    Auto,
    /// Always; processes are not started where libpmix is missing
    Always,
    /// Never: programs of Open MPI are refused
    Never,
}

impl PmixKind {
    /// Returns the hint that nodes take: name and value.
    pub fn hint(self) -> (String, Vec<u8>) {
        let value = match self {
            PmixKind::Auto => "auto",
            PmixKind::Always => "always",
            PmixKind::Never => "never",
        };
        ("pmix".into(), value.into())
    }
}

pub(super) const RUN_USAGE: &str = "\
gpc run [-n <N>] [OPTIONS] <PROGRAM> [ARGS]... [: [-n <N>] [--env K=V] [--wdir D] <PROGRAM> [ARGS]...]...";

pub(super) const RUN_EXAMPLES: &str = "\
The processes are one group, whose ranks go through the programs in the order in which they stand
here. They find each other by PMI-1 or PMI-2 (whatever was linked with MPICH or one of its kin), or
by the crate gpc-bnr. Programs of Open MPI need PMIx, and end the job with status 1. Rank 0 reads
the standard input of this command, and the others read nothing, unless --stdin says otherwise.

SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGCONT are sent on to all processes, and SIGTSTP as
SIGSTOP; a second SIGINT, SIGTERM or SIGHUP kills them. Whatever ends this command, even kill -9,
nothing that it has started is left.

The exit status is that of the first process that has failed, 128 + N where signal N has killed it;
124 where the time limit has passed; 127 where a program was not found, 126 where it could not be
started; 2 where the arguments are wrong.

Examples:
  gpc run -n 4 ./hello                           an MPI program, on this machine
  gpc run -n 4 --tag-output ./hello              who has written which line
  gpc run -n 1 ./leader : -n 7 ./worker --fast   two programs in one group
  gpc run -n 64 --env OMP_NUM_THREADS=1 --bind core --time-limit 1h ./solve < input
  while read h; do gpc run --stdin none ./check $h; done < list
  gpc run -n 6 --nodes 3 ./hello                 three nodes, each a process of this machine
  gpc run --hosts a,b[01-64] --ppn 2 --bind core ./hello
  gpc run -n 64 --peers peers.txt --id 0 --secret-file job.secret ./hello
  gpc run -n 3 --rendezvous http://head:4100/rendezvous ./task
  gpc ps                                         what runs, in another terminal";

/// Selects a running domain.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct DomainArgs {
    /// Domain, one for each `gpc run`: its name or the beginning of it; required if several run
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub domain: Option<String>,

    /// Query the running nodes of this file (a line `ID ADDRESS` each), wherever they are, instead of the jobs of this
    /// user on this machine
    #[arg(long, value_name = "FILE", requires = "id", help_heading = BY_NODES)]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process, different from that of every running node; the file may omit it
    #[arg(long, value_name = "I", requires = "peers", help_heading = BY_NODES)]
    pub id: Option<Id>,

    /// Nodes that this node links with; used with --peers.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,
}

const BY_NODES: &str = "By running nodes";

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ShownAs {
    /// A table, for people
    Table,
    /// One JSON object, for programs
    Json,
}

/// Arguments of `gpc ps`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = PS_EXAMPLES)]
pub struct PsArgs {
    /// Domain to show; all of this user by default
    #[command(flatten)]
    pub of: DomainArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t = ShownAs::Table)]
    pub output: ShownAs,
}

const PS_EXAMPLES: &str = "\
Each line is a group, or the part of it that is on one node and in one state. JSON has a line for
each process, with its process number.

Examples:
  gpc ps
  gpc ps --domain 3f --output json
  gpc ps --peers peers.txt --id 9 --secret-file job.secret";

/// Arguments of `gpc db`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = DB_EXAMPLES)]
pub struct DbArgs {
    /// Sub-command.
    #[command(subcommand)]
    pub command: DbCommand,
}

const DB_EXAMPLES: &str = "\
Examples:
  gpc db list
  gpc db show kvs_3f0c52ab91d7e684_1             the database of group g1
  gpc db show prices --domain 3f --output json";

/// Sub-commands of `gpc db`.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum DbCommand {
    /// Print the names of the databases
    List(DbListArgs),
    /// Print the content of a database in the order of the keys
    Show(DbShowArgs),
}

/// Arguments of `gpc db list`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct DbListArgs {
    /// Domain to list; all of this user by default
    #[command(flatten)]
    pub of: DomainArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t = ShownAs::Table)]
    pub output: ShownAs,
}

/// Arguments of `gpc db show`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = DB_SHOW)]
pub struct DbShowArgs {
    /// Name of the database
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,

    /// Domain; by default the running one, or the one in the name
    #[command(flatten)]
    pub of: DomainArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t = ShownAs::Table)]
    pub output: ShownAs,
}

const DB_SHOW: &str = "\
Keys and values are bytes. What is not text, and what a terminal would obey, is escaped: \\n, \\xff,
\\u{202e}. A backslash is written twice.";

/// Arguments of `gpc kill`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = KILL_EXAMPLES)]
pub struct KillArgs {
    /// Group, such as g1; `gpc ps` lists them
    #[arg(value_name = "GROUP")]
    pub group: GroupId,

    /// Domain of the group
    #[command(flatten)]
    pub of: DomainArgs,
}

const KILL_EXAMPLES: &str = "\
All processes of the group get SIGTERM, and what is left of them and of what they have started gets
SIGKILL 2 s later. The command ends when nothing is left.

Examples:
  gpc kill g2
  gpc kill g1 --domain 3f
  gpc kill g1 --peers peers.txt --id 9 --secret-file job.secret";

impl ProgramArgs {
    /// Returns the names and values of the variables. If only a name is given, `own` returns the value; a name without
    /// a value there is omitted.
    pub fn variables(&self, own: impl Fn(&OsStr) -> Option<OsString>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pair = |word: &OsString| {
            let bytes = word.as_bytes();
            match bytes.iter().position(|&byte| byte == b'=') {
                Some(at) => Some((bytes[..at].to_vec(), bytes[at + 1..].to_vec())),
                None => own(word).map(|value| (bytes.to_vec(), value.into_vec())),
            }
        };
        self.env.iter().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        args: RunArgs,
    }

    fn programs(line: &str) -> Result<Vec<(Option<u32>, String)>, String> {
        let words = ["gpc"].into_iter().chain(line.split_whitespace());
        let run = Run::try_parse_from(words).map_err(|error| error.to_string())?;
        let programs = run.args.programs().map_err(|error| error.to_string())?;
        let shown = |program: ProgramArgs| {
            let words: Vec<_> =
                program.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (program.n, words.join(" "))
        };
        Ok(programs.into_iter().map(shown).collect())
    }

    #[test]
    fn everything_behind_the_program_belongs_to_it() {
        assert_eq!(
            programs("-n 4 ./p -n 3 --env --help -- x"),
            Ok(vec![(Some(4), "./p -n 3 --env --help -- x".into())])
        );
        assert_eq!(programs("p"), Ok(vec![(None, "p".into())]));
        assert_eq!(
            programs("-n 1 a b : -n 7 --env K=V c --d : e"),
            Ok(vec![(Some(1), "a b".into()), (Some(7), "c --d".into()), (None, "e".into())])
        );
        assert!(programs("--bogus p").unwrap_err().contains("--bogus"));
        assert!(programs("-n 0 p").is_err() && programs("").is_err());
    }

    #[test]
    fn a_colon_stands_between_two_programs() {
        for line in ["a :", "a : : b", "a b : -n 2 : c"] {
            let error = programs(line).unwrap_err();
            assert!(error.starts_with("program 2: "), "{line}: {error}");
        }
        assert!(programs(": a").unwrap_err().starts_with("program 1: no program"));
        let error = programs("a : -n none b").unwrap_err();
        assert!(error == "program 2: -n none: write a whole number", "{error}");
        assert!(programs("a : --nodes 3 b").unwrap_err().contains("--nodes"));
    }

    #[test]
    fn variables_are_given_or_taken_from_here() {
        let words = ["gpc", "--env", "A=1=2", "--env", "B", "--env", "C", "--env", "D=", "p"];
        let run = Run::try_parse_from(words).unwrap();
        let own = |name: &OsStr| (name == "B").then(|| OsString::from("here"));
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(run.args.first.variables(own), [pair("A", "1=2"), pair("B", "here"), pair("D", "")]);
    }
}
