//! The arguments of `gpc call`.

use std::path::PathBuf;

use chained_gpc::reduce::Reduction;
use chained_gpc::runtime::LinkKind;
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use gpc_launch::PROCESSES_MAX;
use gpc_trees::{Id, IdList};

use super::link::link_parser;
use super::over::{OVER_HEADING, OverArgs};
use super::trust::{TRUST_HEADING, TrustArgs};
use crate::duration::Span;
use crate::tree_choice::CallTreeName;
use crate::wait::WaitName;

/// Arguments of `gpc call`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = CALL_EXAMPLES, override_usage = CALL_USAGE)]
pub struct CallArgs {
    /// Function to call: echo, facts, digest, sleep, fail, sum, fill, or one of a plug-in (--load)
    #[arg(value_name = "FUNC", value_parser = NonEmptyStringValueParser::new())]
    pub func: String,

    /// Number of ids: this process is id 0, the others are started as processes on this machine. Without it, and
    /// without --peers, a launcher must have started this process as one of several
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(PROCESSES_MAX)))]
    #[arg(conflicts_with_all = ["peers", "hosts", "hostfile"])]
    pub n: Option<u32>,

    /// Tree: auto (the one that is predicted to be the fastest), binary (0), binomial (1), kary:K, knomial:K, chain,
    /// flat, loggp:LAG, file:PATH, hosts:PATH+TREE, a tree of a plug-in or, if the hosts are known (--hosts, launcher,
    /// rendezvous, IMPI), hosts+TREE; default auto, with IMPI hosts+binomial
    #[arg(long, value_name = "TREE")]
    pub tree: Option<CallTreeName>,

    /// Path of a plug-in: a library of functions, callbacks and trees (see chained_gpc_plugin.h), for this process and
    /// those that it starts. May be repeated
    #[arg(long, value_name = "LIB")]
    pub load: Vec<PathBuf>,

    /// Callback of a plug-in, which merges the reply of each child into that of its parent. Without it, each id has a
    /// reply
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub callback: Option<String>,

    /// Reduce the data of the replies: sum, min, max, min-id, max-id with a type of numbers, as in sum:f64 (u32, u64,
    /// i64, f32, f64; little-endian); top:TYPE:COUNT; and, or, xor, first, concat, histogram. Running nodes have
    /// top:TYPE:10 alone
    #[arg(long, value_name = "REDUCTION", conflicts_with = "callback")]
    pub reduce: Option<Reduction>,

    /// Request no replies: each id executes the function, and reports only that it has. A callback gets empty replies
    #[arg(long)]
    pub no_reply: bool,

    /// Ids in order, such as 0-3,7,5; all by default. This process comes first if it is not listed, except with --watch
    #[arg(long, value_name = "LIST")]
    pub ids: Option<IdList>,

    /// Only make the call: this process is not among the ids, does not execute the function and does not reply
    #[arg(long)]
    pub watch: bool,

    /// Header of the request: text for the function
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub header: String,

    /// File with the data of the request; - is standard input
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,

    /// Time limit, such as 500ms or 1m30s; 1m by default. A call that fails ends at most 1% of it and 100ms later
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Continue without ids that fail or are lost, and print the replies of the others
    #[arg(long)]
    pub partial: bool,

    /// Give up a process that sends no heartbeat for this time; 10s by default
    #[arg(long, value_name = "TIME")]
    pub dead_after: Option<Span>,

    /// Execute at each id before forwarding to its children, as the library's `Call` does by default; without it, all
    /// ids execute at once, and long data stream through the tree
    #[arg(long)]
    pub execute_first: bool,

    /// The default
    #[arg(long, hide = true, conflicts_with = "execute_first")]
    pub forward_first: bool,

    /// Links between the processes. With --peers, on this host: shm and unix replace TCP addresses, tcp replaces none
    #[arg(long, value_parser = link_parser(), default_value_t = LinkKind::DEFAULT)]
    pub link: LinkKind,

    /// How processes wait: block sleeps at once, spin:TIME polls first, adaptive polls while that was lately faster
    #[arg(long, value_name = "HOW", default_value = "adaptive")]
    pub wait: WaitName,

    /// Output: a table, one JSON object, or the raw level-n data of the reply
    #[arg(long, value_enum, default_value_t = OutputKind::Table)]
    pub output: OutputKind,

    /// Make K calls on the same nodes and report the median, 90th and 99th percentile of their times
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    pub repeat: Option<u32>,

    /// Print the critical path of the call, and the ids that took the most time: in a queue, in the function, in
    /// callbacks, on the link
    #[arg(long, conflicts_with_all = ["no_reply", "repeat"])]
    pub trace: bool,

    /// Write the time line of all ids to this file: a picture (.svg), or events for Perfetto and Chrome (.json)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_reply", "repeat"])]
    pub trace_file: Option<PathBuf>,

    /// Join the running nodes of this file (a line `ID ADDRESS` each) as root, and start no process
    #[arg(long, value_name = "FILE", requires = "id")]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process
    #[arg(long, value_name = "I", requires = "peers")]
    pub id: Option<Id>,

    /// With --peers: maximum time, such as 30s, to wait for the called nodes to start; without it, a missing node fails
    /// the call. Under a launcher: maximum time to wait for the other processes, 1m by default
    #[arg(long, value_name = "TIME", conflicts_with = "n")]
    pub wait_for_peers: Option<Span>,

    /// Nodes that this node links with; used with --peers.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,

    /// Processes on other hosts.
    #[command(flatten, next_help_heading = OVER_HEADING)]
    pub over: OverArgs,
}

/// Maximum calls of one `--repeat`: the time of each is kept in memory, 80 MB in all.
const REPEAT_MAX: i64 = 10_000_000;

const CALL_USAGE: &str = "\
gpc call <FUNC> -n <N> [OPTIONS]
       gpc call <FUNC> --hosts <LIST> [OPTIONS]
       gpc call <FUNC> --peers <FILE> --id <I> [OPTIONS]
       mpiexec -n <N> gpc call <FUNC> [OPTIONS]";

pub(super) const CALL_EXAMPLES: &str = "\
Functions:
  echo    replies with the header and the data of the request
  facts   host name, process, load average and memory in use
  digest  SHA-256 and length of the data received
  sleep   replies after the time in the header, such as 250ms
  fail    fails at the id in the header: ID, ID:func or ID:callback
  sum     a reduction: adds up (id + 1) squared over all ids
  fill    replies with as many bytes as the header says

Examples:
  gpc call echo -n 8 --header hello
  gpc call digest -n 64 --tree binomial --data Cargo.lock
  gpc call sum -n 16 --repeat 1000 --output json
  gpc call fail -n 8 --header 5:callback
  gpc call fill -n 8 --header 32 --reduce max:u64
  gpc call words -n 8 --load ./libwords.so --data README.md --callback most --tree thirds
  gpc call sleep -n 64 --header 5ms --trace --trace-file calls.svg
  gpc call facts --hosts a:4,b[01-64]:2 --tree hosts+binomial
  gpc call facts --hostfile machines --per-host 1
  gpc call facts --hosts a,b[01-64] --remote-gpc bin/gpc --start-limit 5s --partial
  gpc call facts --peers peers.txt --id 0
  gpc call facts --peers peers.txt --id 0 --wait-for-peers 30s
  gpc call facts --peers peers.txt --id 0 --partial --dead-after 2s
  gpc call facts --peers peers.txt --id 0 --secret-file job.secret
  mpiexec -n 8 gpc call facts                       any launcher with PMI: each process is an id
  mpiexec -n 8 gpc call sum --tree hosts+binomial

The exit status is 0 only if every id is done; else standard error names the first cause.";

/// Output of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OutputKind {
    /// A table and a summary, for people
    Table,
    /// One JSON object, for programs
    Json,
    /// The raw level-n data of the reply, alone
    Level,
}
