//! The arguments of `gpc bench`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use gpc_trees::Id;

use super::link::link_parser;
use super::over::OVER_HEADING;
use super::trust::TRUST_HEADING;
use super::{OverArgs, TrustArgs};
use crate::duration::Span;
use crate::tree_choice::CallTreeName;
use crate::wait::WaitName;
use chained_gpc::runtime::LinkKind;
use gpc_launch::PROCESSES_MAX;

/// Maximum number of calls in flight: the capacity of the queue between an application and its node.
pub const IN_FLIGHT_MAX: u32 = 4096;

/// Maximum number of repetitions: the uncertainty falls with the square root of their number.
const REPEAT_MAX: i64 = 1000;

/// Maximum number of calls in a turn: the time of each is kept until the turn ends, 80 MB.
pub const ROUNDS_MAX: u32 = 10_000_000;

/// Largest request or reply, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Arguments of `gpc bench`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = BENCH_EXAMPLES, override_usage = BENCH_USAGE)]
pub struct BenchArgs {
    /// Function to call; echo by default, which replies with what it received
    #[arg(value_name = "FUNC", value_parser = NonEmptyStringValueParser::new())]
    pub func: Option<String>,

    /// Numbers of ids: this process is id 0, the others are started as processes on this machine. With --peers,
    /// --hosts or --hostfile, the first of those; all by default. Without any of these, a launcher must have started
    /// this process as one of several
    #[arg(short = 'n', value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(PROCESSES_MAX)))]
    pub n: Vec<u32>,

    /// Trees: auto (the one that is predicted to be the fastest), binary (0), binomial (1), kary:K, knomial:K, chain,
    /// flat, loggp:LAG, file:PATH, hosts:PATH+TREE or, if the hosts are known (--hosts, launcher, rendezvous, IMPI),
    /// hosts+TREE; binomial by default, hosts+binomial for clusters that meet by IMPI
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub tree: Vec<CallTreeName>,

    /// Bytes of the data of a request, and of the reply of each id, such as 64, 4k or 1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64")]
    pub bytes: Vec<Bytes>,

    /// Bytes of the reply of each id, if they differ from those of the request
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["func", "header"])]
    pub reply_bytes: Option<Bytes>,

    /// Header of the request: text for the function
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub header: String,

    /// Calls in flight: the next call is made when one ends
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(IN_FLIGHT_MAX)))]
    pub in_flight: Vec<u32>,

    /// Links between the processes; not with --peers, whose nodes already listen
    #[arg(long, value_parser = link_parser(), value_name = "LIST", value_delimiter = ',', conflicts_with = "peers", default_values_t = [LinkKind::DEFAULT])]
    pub link: Vec<LinkKind>,

    /// How the processes wait for messages: block, spin:TIME or adaptive. With --peers, this process only
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "adaptive")]
    pub wait: Vec<WaitName>,

    /// Thread that drives the node of this process, the root
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "polled")]
    pub root: Vec<RootKind>,

    /// Forward requests to the children before executing them; long data then stream through the tree
    #[arg(long)]
    pub forward_first: bool,

    /// Time limit of a call; 1m by default
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Number of repetitions; in each, every row has a turn, in another order
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=REPEAT_MAX))]
    pub repeat: u32,

    /// Number of calls in a turn
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(ROUNDS_MAX)))]
    pub rounds: Option<u32>,

    /// Time during which a turn makes new calls, whatever --rounds says; 200ms without --rounds
    #[arg(long, value_name = "TIME")]
    pub time: Option<Span>,

    /// Seed of the order of the turns
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Output format
    #[arg(long, value_enum, default_value_t = BenchOutput::Table)]
    pub output: BenchOutput,

    /// Print below the table how many calls of each row took how long
    #[arg(long)]
    pub histogram: bool,

    /// Plot the times to this file: over n, or over the first other axis that has several values
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Save the results to this file, for --compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Compare the results with those that --save wrote to this file
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,

    /// Join the running nodes of this file (a line `ID ADDRESS` each) as root, and start no process
    #[arg(long, value_name = "FILE", requires = "id")]
    pub peers: Option<PathBuf>,

    /// With --peers: id of this process
    #[arg(long, value_name = "I", requires = "peers")]
    pub id: Option<Id>,

    /// With --peers: maximum time, such as 30s, to wait for the called nodes to start; without it, a missing node fails
    /// the call. Under a launcher: maximum time to wait for the other processes, 1m by default
    #[arg(long, value_name = "TIME")]
    pub wait_for_peers: Option<Span>,

    /// Nodes that this node links with; used with --peers.
    #[command(flatten, next_help_heading = TRUST_HEADING)]
    pub trust: TrustArgs,

    /// Processes on other hosts.
    #[command(flatten, next_help_heading = OVER_HEADING)]
    pub over: OverArgs,
}

/// Thread that drives the root's node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub enum RootKind {
    /// The thread that makes the calls, so that no call passes between threads
    Polled,
    /// A separate thread, as in `gpc call`
    Thread,
}

/// Output of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BenchOutput {
    /// A line for each row, for people
    Table,
    /// One JSON object, for programs: the results as --save writes them, and the comparison
    Json,
    /// A line for each row, for spreadsheets
    Csv,
}

/// Number of bytes, with `k`, `M` or `G` for 2^10, 2^20 or 2^30; at most 1 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bytes(pub u32);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let (digits, shift) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'm' | 'M')) => (&text[..at], 20),
            Some((at, 'g' | 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            return Err("write a number of bytes, as in 64, 4k or 1M".into());
        }
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        match bytes.filter(|&bytes| bytes <= BYTES_MAX).map(u32::try_from) {
            Some(Ok(bytes)) => Ok(Bytes(bytes)),
            _ => Err("at most 1G is possible".into()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "k")];
        let whole = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match units.into_iter().find(|&(shift, _)| whole(shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

const BENCH_USAGE: &str = "\
gpc bench [FUNC] -n <LIST> [OPTIONS]
       gpc bench [FUNC] --hosts <LIST> [-n <LIST>] [OPTIONS]
       gpc bench [FUNC] --peers <FILE> --id <I> [OPTIONS]
       mpiexec -n <N> gpc bench [FUNC] [OPTIONS]";

pub(super) const BENCH_EXAMPLES: &str = "\
Every combination of the lists is a row, at most 500 of them. A call is timed from being made to
having all replies. Rows that differ in n, link, wait or root have processes of their own;
these stay while their rows are measured, and cost nothing but memory when it is not their turn.
Where they would be more than 1,100, rows are measured in groups, one after the other.

First each row warms up. In a repetition each row has its turn: some calls unmeasured, then those
that count. The seed shuffles the order, so that other load on the machine affects all rows alike.

Figures:
  round     of a turn, the median of its calls' times; with several in flight, the time of the
            turn by the number of its calls. Of all turns, the median
  interval  where the median of many such turns lies; with 5 repetitions from the lowest to the
            highest, which is right 94 times in 100. More repetitions make it narrower. What
            changes between two runs is not in it
  p90, p99  of a turn, of its calls' times; of all turns, the median. Calls in flight are taken in
            the order in which they were made
  calls/s   of a turn; of all turns, the median
  CPU       time of all processes by the number of calls and ids; unknown with --peers
  ratio     with --compare, this run by the earlier one: the median of the ratios of every turn now
            to every turn then, and its interval (95 in 100, by ranks). A row is called faster or
            slower where the interval leaves out 1

Examples:
  gpc bench -n 2,8,64
  gpc bench -n 8,64 --tree binomial,flat --link tcp,unix --svg time.svg
  gpc bench -n 2,8 --wait block,spin:50us,adaptive --histogram
  gpc bench -n 64 --in-flight 1,8,64 --output csv
  gpc bench -n 8 --tree chain --bytes 64M --reply-bytes 64 --forward-first --rounds 5
  gpc bench -n 1024 --rounds 20
  gpc bench -n 2,8,64 --save before.json
  gpc bench -n 2,8,64 --compare before.json
  gpc bench --hosts a,b[01-64] -n 2,9,65 --tree hosts+binomial,flat
  gpc bench digest --bytes 1M --peers peers.txt --id 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_numbers_with_a_unit() {
        for (text, bytes) in
            [("0", 0), ("64", 64), ("4k", 4096), ("4K", 4096), ("1M", 1 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        for bytes in [0, 1, 64, 1000, 1024, 1536, 1 << 20, 3 << 20, 1 << 30] {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        assert_eq!(Bytes(4096).to_string(), "4k");
        for wrong in ["", "k", "-1", "+1", "1.5k", "64 ", "4kk", "µ", "4ki"] {
            assert!(wrong.parse::<Bytes>().unwrap_err().contains("4k or 1M"), "{wrong}");
        }
        for much in ["2G", "1025M", "99999999999999999999", "18446744073709551615k"] {
            assert!(much.parse::<Bytes>().unwrap_err().contains("at most 1G"), "{much}");
        }
    }
}
