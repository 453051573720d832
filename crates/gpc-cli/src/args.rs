//! Command-line arguments of `gpc`. Each is parsed here; the sub-commands check combinations of arguments.

#[cfg(feature = "rendezvous")]
pub(super) mod above;
mod bench;
mod call;
mod copy;
pub(super) mod documents;
#[cfg(feature = "bnr")]
pub(super) mod exec;
#[cfg(feature = "impi")]
pub(super) mod impi;
mod launcher;
mod level;
mod link;
#[cfg(all(feature = "bnr", feature = "rendezvous"))]
pub(super) mod meeting;
#[cfg(feature = "bnr")]
pub(super) mod mpiexec;
mod node;
mod over;
#[cfg(feature = "bnr")]
pub mod placement;
#[cfg(feature = "bnr")]
mod programs;
#[cfg(feature = "rendezvous")]
pub(super) mod rendezvous;
#[cfg(feature = "bnr")]
pub(super) mod run;
#[cfg(feature = "bnr")]
pub(super) mod run_limit;
#[cfg(feature = "bnr")]
pub(super) mod run_output;
mod target;
mod top;
mod trace;
mod trust;

pub use bench::{BenchArgs, BenchOutput, Bytes, IN_FLIGHT_MAX, ROUNDS_MAX, RootKind};
pub use call::{CallArgs, OutputKind};
pub use copy::CopyArgs;
pub use level::{LEVEL_MAX, LevelArgs, LevelCommand, LevelInput};
pub use node::NodeArgs;
pub use over::{HostChoice, OverArgs};
pub use top::TopArgs;
pub use trace::{TraceArgs, TraceOutput};
pub use trust::{SecretArgs, TrustArgs};

use link::link_parser;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use gpc_trees::TreeName;

use super::duration::Span;
use chained_gpc::runtime::LinkKind;
use gpc_launch::PROCESSES_MAX;
use gpc_sim::{Crash, CrashError, FaultSet, LinkCost, Linking};

/// Maximum number of positions of a drawn tree: a little over a million.
pub const DRAWN_MAX: u32 = 1 << 20;

/// Call a function on many processes with one call.
///
/// The call goes down a tree of processes, each executes the function, and the replies are combined on the way up.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "gpc", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Args {
    /// Sub-command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  gpc call echo -n 8 --header hello              a call down a tree of 8 processes
  gpc call digest -n 64 --tree binomial --data Cargo.lock
  gpc tree binomial 16                           draw a tree
  gpc tree kary:4 64 --format svg > tree.svg
  gpc sim -n 4096 --compare binary,flat          simulate more processes than there are
  gpc call facts --hosts a,b[01-64]              processes on other hosts, by a tree of ssh
  gpc exec --hosts b[01-64] --fold uname -r      a command on many hosts
  gpc copy model.bin --hosts b[01-64]:/tmp       a file to many hosts
  gpc bench -n 2,8,64 --tree binomial,flat       measure how long calls take
  gpc rendezvous serve --listen 127.0.0.1:4000   a place where tasks meet
  gpc impi server 2                              where the clusters of an MPI job meet, by IMPI
  gpc run -n 4 ./hello                           an MPI program

With GPC_LOG=debug in the environment, every process logs to standard error what happens inside.";

/// The sub-commands.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum Command {
    /// Call a function on many processes and print their replies
    Call(CallArgs),
    /// Run one node until SIGINT, SIGTERM or SIGHUP
    Node(NodeArgs),
    /// Name the ids that the calls in flight of running nodes wait for
    Trace(TraceArgs),
    /// Show what running nodes do: calls, queues, links, slow functions, deaths
    Top(TopArgs),
    /// Copy files to many hosts through a tree, or collect files from them
    Copy(CopyArgs),
    /// Draw a tree, or check a tree file
    Tree(TreeArgs),
    /// Simulate calls in virtual time, at any size and under any fault
    Sim(SimArgs),
    /// Measure calls over sizes, trees, links and more, with spread and comparison
    Bench(BenchArgs),
    /// Generate the secret of a job, or the key of a node, in a new file
    Secret(SecretArgs),
    /// Run a rendezvous service, or use one
    #[cfg(feature = "rendezvous")]
    Rendezvous(rendezvous::RendezvousArgs),
    /// IMPI: run the server through which the clusters of one MPI job find each other, or a client
    #[cfg(feature = "impi")]
    Impi(impi::ImpiArgs),
    /// Convert level-n data, the data of many processes, from JSON and to JSON
    Level(LevelArgs),
    /// Run a program as many processes that find each other, such as those of MPI
    #[cfg(feature = "bnr")]
    Run(run::RunArgs),
    /// Run a program in the spelling of mpiexec
    #[cfg(feature = "bnr")]
    Mpiexec(mpiexec::MpiexecArgs),
    /// Execute a command on many hosts, and fold equal outputs
    #[cfg(feature = "bnr")]
    Exec(exec::ExecArgs),
    /// Show running jobs: groups, the nodes of their processes, and their state
    #[cfg(feature = "bnr")]
    Ps(run::PsArgs),
    /// List and print the databases of running jobs
    #[cfg(feature = "bnr")]
    Db(run::DbArgs),
    /// Kill a group of a running job
    #[cfg(feature = "bnr")]
    Kill(run::KillArgs),
    /// Print the completions of a shell
    Completions(documents::CompletionsArgs),
    /// Write man pages, one for each command
    Man(documents::ManArgs),
    /// Supervise the processes of a host. The node that starts it passes a socket as standard input.
    #[cfg(feature = "bnr")]
    #[command(hide = true)]
    Keep,
    /// Serve PMIx to the processes of a node. The node that starts it passes a socket as standard input.
    #[cfg(all(feature = "bnr", feature = "pmix"))]
    #[command(hide = true)]
    PmixServe {
        /// Name of the node
        host: String,
        /// The libpmix of its programs
        library: Option<PathBuf>,
    },
}

/// Arguments of `gpc tree`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = TREE_EXAMPLES, group = ArgGroup::new("what").args(["tree", "check"]).required(true))]
pub struct TreeArgs {
    /// Tree: binary (0), binomial (1), kary:K, knomial:K, chain, flat, loggp:LAG, file:PATH or hosts:PATH+TREE
    #[arg(value_name = "TREE")]
    pub tree: Option<TreeName>,

    /// Number of ids; optional for file:PATH
    #[arg(value_name = "N", conflicts_with = "check", value_parser = clap::value_parser!(u32).range(1..=i64::from(DRAWN_MAX)))]
    pub n: Option<u32>,

    /// Check a tree file, and print what it is or where it is wrong
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,

    /// Output format; text by default, with --check nothing is drawn by default
    #[arg(long, value_enum)]
    pub format: Option<TreeFormat>,

    /// Draw every id of a large tree: all lines of text, and no boxes for whole subtrees in a picture
    #[arg(long)]
    pub all: bool,
}

const TREE_EXAMPLES: &str = "\
A tree file has a line `PARENT: CHILD CHILD ...` for each position with children; 0 is the root; # begins a comment:
  0: 1 2
  1: 3 4

Examples:
  gpc tree binomial 16
  gpc tree kary:4 64 --format svg > tree.svg
  gpc tree binary 32 --format dot | dot -Tpdf > tree.pdf
  gpc tree --check my.tree
  gpc tree file:my.tree --format json";

/// Format of a drawn tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TreeFormat {
    /// Indented lines and a summary
    Text,
    /// Graphviz language
    Dot,
    /// SVG picture for browsers
    Svg,
    /// One JSON object
    Json,
}

/// Arguments of `gpc sim`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = SIM_EXAMPLES, override_usage = SIM_USAGE)]
pub struct SimArgs {
    /// Number of ids; with --runs, the maximum
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SIMULATED_MAX)), required_unless_present = "fit")]
    pub n: Option<u32>,

    /// Tree: binary (0), binomial (1), kary:K, knomial:K, chain, flat, loggp (the fastest for the costs of this run),
    /// loggp:LAG or file:PATH; binary by default, any with --runs
    #[arg(long, value_name = "TREE")]
    pub tree: Option<SimTree>,

    /// Number of calls: one after another, with faults at any time; with --runs, the maximum
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,

    /// Cost of a message: latency, overhead, gap (nanoseconds), time per byte (nanoseconds, three decimal places)
    #[arg(long, value_name = "L,o,g,G")]
    pub link_cost: Option<LinkCost>,

    /// Cost of a message between hosts of one rack; with --hosts
    #[arg(long, value_name = "L,o,g,G")]
    pub rack_cost: Option<LinkCost>,

    /// Cost of a message on one host; with --hosts
    #[arg(long, value_name = "L,o,g,G")]
    pub host_cost: Option<LinkCost>,

    /// With -n: take the costs of a host from this file. Without: measure them on this machine, write them to the file,
    /// and print predicted beside measured times
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = FIT_FILE)]
    pub fit: Option<PathBuf>,

    /// Cores that the processes of a host share; 0 for one each, the default without --fit
    #[arg(long, value_name = "C", requires = "n")]
    pub cores: Option<u32>,

    /// With --cores: cost of waking a process
    #[arg(long, value_name = "TIME", requires = "cores", conflicts_with = "fit")]
    pub wake_cost: Option<Span>,

    /// With --cores: extra cost of a wake-up if 32 others have made the caches cold; with fewer, in proportion
    #[arg(long, value_name = "TIME", requires = "cores", conflicts_with = "fit")]
    pub cold_cost: Option<Span>,

    /// Measuring with --fit: links between the processes
    #[arg(long, value_parser = link_parser(), default_value_t = LinkKind::DEFAULT, conflicts_with = "n")]
    pub link: LinkKind,

    /// Measuring with --fit: number of processes, this one included
    #[arg(long, value_name = "N", default_value_t = 256, conflicts_with = "n", value_parser = clap::value_parser!(u32).range(4..=i64::from(PROCESSES_MAX)))]
    pub most: u32,

    /// Measuring with --fit: number of passes over all calls, some of each at a time
    #[arg(long, value_name = "R", default_value_t = 20, conflicts_with = "n", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,

    /// Spread the ids over H hosts in blocks, 16 hosts to a rack
    #[arg(long, value_name = "H", requires = "n", value_parser = clap::value_parser!(u32).range(1..=i64::from(SIMULATED_MAX)))]
    pub hosts: Option<u32>,

    /// Cost of func at each id
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub func_cost: Span,

    /// Cost of each callback
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub callback_cost: Span,

    /// Bytes of each id's reply, at least 4; 0 for no replies; 8 by default, with --faults drawn for each call
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub reply_bytes: Option<u32>,

    /// Bytes of each request's data; none by default, with --faults drawn for each call
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1_073_741_824))]
    pub data_bytes: Option<u32>,

    /// Faults that may occur: all, none, or a list such as crash,delay; each run draws some of them
    #[arg(long, value_name = "LIST", default_value = "none")]
    pub faults: FaultSet,

    /// Links: modelled; peering, with frames of real nodes over connections; or some: real ones in one run of twenty
    #[arg(long, value_name = "HOW", default_value_t = Linking::Some, conflicts_with_all = ["world", "fit"])]
    pub links: Linking,

    /// Make calls that continue without lost ids; with faults, one call in five is of the other kind
    #[arg(long)]
    pub partial: bool,

    /// Make calls that bring back the times of all ids; with faults, some do anyway
    #[arg(long)]
    pub traced: bool,

    /// Seed of everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Make R runs with seeds from S on, over all cores, and report the first that fails
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["trace", "svg"], requires = "n")]
    pub runs: Option<u64>,

    /// End processes after a number of events, without other faults: ID@EVENT, several with commas
    #[arg(long, value_name = "LIST", value_parser = crashes, conflicts_with_all = ["faults", "runs", "compare", "svg"], requires = "n")]
    pub crash: Option<Crashes>,

    /// Try every crash at every event (1), or every two (2), for up to N ids, each tree and both kinds of calls.
    /// --peering: every fault (8 seeds from S on) or every two (one seed), N ids. --groups: N nodes, one seed
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u32).range(1..=2), conflicts_with_all = ["crash", "faults", "runs", "compare", "svg", "trace"], requires = "n")]
    pub exhaustive: Option<u32>,

    /// Simulate who may link, instead of calls: 2 to 16 nodes that link with each other, with faults and an attacker
    #[arg(long, group = "world", conflicts_with_all = ["fit", "tree", "hosts", "faults", "crash", "compare", "svg", "partial"], requires = "n")]
    pub peering: bool,

    /// Simulate process groups, not calls: 1 to N (at most 16) nodes; processes fence, put, spawn, die, with faults
    #[cfg(feature = "bnr")]
    #[arg(long, group = "world", conflicts_with_all = ["peering", "fit", "tree", "hosts", "faults", "crash", "compare", "svg", "partial"], requires = "n")]
    pub groups: bool,

    /// With --peering or --groups: the only faults, each after a number of events: FAULT@EVENT, several with commas
    #[arg(long, value_name = "LIST", requires = "world", conflicts_with_all = ["runs", "exhaustive"])]
    pub acts: Option<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = SimOutput::Table)]
    pub output: SimOutput,

    /// Print a line for each event
    #[arg(long, requires = "n")]
    pub trace: bool,

    /// Compare several trees side by side
    #[arg(long, value_name = "TREES", value_delimiter = ',', conflicts_with = "tree", requires = "n")]
    pub compare: Vec<SimTree>,

    /// With --runs: repeat the runs with this build of gpc, and report the first run in which the two differ
    #[arg(long, value_name = "GPC", requires = "runs", conflicts_with = "compare")]
    pub against: Option<PathBuf>,

    /// Plot the time of a call over the number of ids, up to N, to this file; --compare prints a table for N ids, too
    #[arg(long, value_name = "FILE", requires = "n")]
    pub svg: Option<PathBuf>,
}

/// Crashes to simulate.
pub type Crashes = Vec<Crash>;

fn crashes(text: &str) -> Result<Crashes, CrashError> {
    Crash::parse_list(text)
}

/// Default file of fitted costs.
pub const FIT_FILE: &str = "gpc-link-cost.json";

impl SimArgs {
    /// Number of ids; 1 if this machine is measured instead.
    pub fn ids(&self) -> u32 {
        self.n.unwrap_or(1)
    }
}

/// Tree of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SimTree {
    /// A tree by name.
    Named(TreeName),
    /// `loggp` alone: the fastest tree for the costs of the run.
    Fastest,
}

impl FromStr for SimTree {
    type Err = <TreeName as FromStr>::Err;

    fn from_str(text: &str) -> Result<SimTree, Self::Err> {
        match text {
            "loggp" => Ok(SimTree::Fastest),
            name => name.parse().map(SimTree::Named),
        }
    }
}

/// Maximum number of simulated ids: sixteen million, with tens of bytes each beside the calls in flight.
pub const SIMULATED_MAX: u32 = 1 << 24;

/// Output of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SimOutput {
    /// Lines for people
    Table,
    /// One JSON value, for programs
    Json,
}

const SIM_USAGE: &str = "\
gpc sim -n <N> [OPTIONS]
       gpc sim --fit [FILE] [--tree <TREE>] [--link <LINK>] [--most <N>] [--rounds <R>] [--output <OUTPUT>]";

const SIM_EXAMPLES: &str = "\
Faults:
  crash, restart, pause, slow, link, partition, delay, duplicate, fail, panic, hang, twice, callback, orphan (a parent
  ends between forwarding and hearing), second-parent, give-up, fresh (all begin moments before the calls, and some
  anew during them), announced-pause, refused (nobody can connect to one that lives), close (one takes no more calls,
  and ends later), limits (few calls and children, short headers, data and replies, few orphans), forged (words of
  ids that have no part in a call, and requests that are none), malformed (answers that nobody can read)

Examples:
  gpc sim -n 1000000 --tree binomial
  gpc sim -n 4096 --hosts 64 --compare binary,binomial,kary:8
  gpc sim -n 65536 --compare binary,kary:8,flat --svg time.svg
  gpc sim -n 1024 --link-cost 2000,500,300,0.1 --compare loggp,binomial,kary:4,flat
  gpc sim --fit                                  measure this machine, into gpc-link-cost.json
  gpc sim -n 64 --fit --compare loggp,binomial,flat
  gpc sim -n 64 --calls 3 --faults all --runs 10000
  gpc sim -n 64 --faults crash,link --partial --seed 7 --trace
  gpc sim -n 8 --exhaustive 2
  gpc sim -n 7 --tree chain --partial --crash 3@17,4@30 --trace
  gpc sim -n 4 --peering --runs 10000            who may come in: hellos, proofs, faults and an attacker
  gpc sim -n 2 --peering --seed 3 --acts cross@0,restart@17 --trace
  gpc sim -n 4 --groups --runs 2000              groups, fences, databases and death notices, with faults
  gpc sim -n 3 --groups --seed 3 --acts crash@200,link@300 --trace

The exit status is 0 only if no checker complains; else standard error says what is wrong and how to replay it.";

impl Args {
    /// Parses the arguments; the first is the name of the command.
    ///
    /// # Errors
    /// The error of clap, which may also be help or version.
    pub fn read<I, T>(args: I) -> Result<Args, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        Args::try_parse_from(copy::with_destination(args.into_iter().map(Into::into).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::BUILT_IN;
    use clap::CommandFactory as _;

    fn read(line: &str) -> Result<Command, String> {
        let words = std::iter::once("gpc").chain(line.split_whitespace());
        Args::read(words).map(|args| args.command).map_err(|error| error.to_string())
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_has_every_built_in_function() {
        for (name, meaning) in BUILT_IN {
            assert!(call::CALL_EXAMPLES.contains(&format!("  {name:<8}{meaning}\n")), "{name}");
        }
    }

    #[test]
    fn every_example_can_be_written_so() {
        let texts = [
            EXAMPLES,
            call::CALL_EXAMPLES,
            copy::COPY_EXAMPLES,
            #[cfg(feature = "bnr")]
            exec::EXEC_EXAMPLES,
            node::NODE_EXAMPLES,
            TREE_EXAMPLES,
            SIM_EXAMPLES,
            bench::BENCH_EXAMPLES,
            trust::SECRET_EXAMPLES,
            level::LEVEL_EXAMPLES,
            #[cfg(feature = "rendezvous")]
            rendezvous::EXAMPLES,
        ]
        .join("\n");
        let lines: Vec<_> = texts.lines().filter_map(|line| line.strip_prefix("  gpc ")).collect();
        assert!(lines.len() > 10);
        for line in lines {
            let command =
                line.split(['>', '|']).next().unwrap_or_default().split("   ").next().unwrap_or_default();
            assert!(read(command).is_ok(), "{command}");
        }
    }

    /// Regression: text wrapped by hand at 90 columns wrapped again at 80, and every other line had one word.
    #[test]
    fn the_texts_fit_a_terminal() {
        #[cfg(feature = "rendezvous")]
        let prose = [level::LEVEL_EXAMPLES, rendezvous::EXAMPLES].join("\n");
        #[cfg(not(feature = "rendezvous"))]
        let prose = level::LEVEL_EXAMPLES;
        for line in prose.lines() {
            let most = if line.starts_with("  gpc ") { 98 } else { 80 };
            assert!(line.chars().count() <= most, "{line}");
        }
        let wide = [EXAMPLES, call::CALL_EXAMPLES, copy::COPY_EXAMPLES];
        #[cfg(feature = "bnr")]
        let wide = [&wide[..], &[exec::EXEC_EXAMPLES, run::RUN_EXAMPLES]].concat();
        let beyond = wide.iter().flat_map(|text| text.lines()).find(|line| line.chars().count() > 100);
        assert_eq!(beyond, None, "it would wrap");
    }

    #[test]
    fn a_tree_is_named_or_checked() {
        let Ok(Command::Tree(args)) = read("tree kary:8 64 --format svg") else { panic!("that is a tree") };
        let format = Some(TreeFormat::Svg);
        let tree = "kary:8".parse().ok();
        assert_eq!(args, TreeArgs { tree, n: Some(64), check: None, format, all: false });
        assert!(read("tree").is_err_and(|error| error.contains("<TREE|--check <FILE>>")));
        assert!(read("tree binary 8 --check x").is_err());
        assert!(read("tree --check x").is_ok());
        assert!(read("tree binary 9999999").is_err_and(|error| error.contains("1..=1048576")));
    }

    #[test]
    fn a_node_needs_an_address_and_its_peers() {
        let missing = read("node --id 1").unwrap_err();
        assert!(missing.contains("--peers <FILE>"), "{missing}");
        assert!(read("node --id 1 --peers x").is_ok(), "the file says where it listens");
        assert!(
            read("node --id 1 --listen here --peers x")
                .is_err_and(|error| error.contains("`here` is no address"))
        );
        assert!(read("node --id 1 --launched").is_ok());
        assert!(read("node --id 1 --launched --insecure").is_err());
        assert!(read("node --id 1 --launched --secret-file x").is_err());
        assert!(read("node --id 1 --peers x --secret-file y --key-file z --no-encrypt").is_ok());
    }

    #[test]
    fn a_secret_is_drawn_or_a_key_is() {
        for line in ["secret a", "secret --key a", "secret --key a --show"] {
            assert!(read(line).is_ok(), "{line}");
        }
        for line in ["secret", "secret a b", "secret a --key b", "secret a --show", "secret --show"] {
            assert!(read(line).is_err(), "{line}");
        }
        // A secret is drawn for processes that are started here.
        for option in ["--key-file x", "--no-encrypt", "--insecure"] {
            let missing = [format!("call echo -n 2 {option}"), format!("bench -n 2 {option}")];
            assert!(missing.iter().all(|line| read(line).is_err_and(|error| error.contains("--peers"))));
            assert!(read(&format!("call echo --peers p --id 0 {option}")).is_ok());
            assert!(read(&format!("bench --peers p --id 0 {option}")).is_ok());
        }
        assert!(read("call echo --peers p --id 0 --secret-file x").is_ok());
    }
}
