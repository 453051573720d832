//! Parameters of a world. The kind of trouble is drawn first, then the sizes, so that rare trouble occurs often.

use std::time::Duration;

use gpc_sim::Random;

use super::faults::Fault;
use super::time::MS;
use crate::limits::Limits;

/// Kinds of trouble.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Profile {
    /// No trouble.
    Calm,
    /// Processes die, or cannot be started.
    Deaths,
    /// Many fences of overlapping subsets.
    Overlaps,
    /// Time limits pass; members have different purposes or never arrive.
    Limits,
    /// Nodes crash.
    Crashes,
    /// The head crashes.
    Head,
    /// Links break; nodes cannot reach each other.
    Links,
    /// Nodes are paused.
    Pauses,
    /// Nodes are overloaded.
    Busy,
    /// The domain ends while programs run.
    Ends,
    /// Groups are killed during their start, while nodes are not reached.
    Kills,
    All,
}

const PROFILES: &[Profile] = &[
    Profile::Calm,
    Profile::Deaths,
    Profile::Deaths,
    Profile::Overlaps,
    Profile::Overlaps,
    Profile::Limits,
    Profile::Crashes,
    Profile::Crashes,
    Profile::Head,
    Profile::Links,
    Profile::Pauses,
    Profile::Busy,
    Profile::Ends,
    Profile::Kills,
    Profile::Kills,
    Profile::All,
];

/// Parameters. A frequency is "one in this many"; 0 means never.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) profile: Profile,
    pub(super) nodes: u32,
    /// Whether the head runs processes.
    pub(super) head_runs: bool,
    /// Frequency of processes that cannot be started.
    pub(super) not_started: u64,
    /// Frequency of processes that end early.
    pub(super) deaths: u64,
    /// Frequency of collective requests with a short limit.
    pub(super) short_limits: u64,
    /// Frequency of collective requests with another purpose than the other members.
    pub(super) mismatches: u64,
    /// Frequency of living members that never enter a fence.
    pub(super) absent: u64,
    /// Frequency of requests besides the programs: kills, names, databases.
    pub(super) noise: u64,
    /// Frequency of groups that the tool kills right after their spawn.
    pub(super) kills: u64,
    /// Frequency of slow messages.
    pub(super) lateness: u64,
    /// Number of rounds of a program besides the first ones.
    pub(super) rounds: u64,
    /// Most groups that the tool spawns, and most processes of one spec.
    pub(super) groups: u64,
    pub(super) processes: u64,
    /// The faults, their number, and the span in which they begin, in microseconds.
    pub(super) faults: Vec<Fault>,
    pub(super) count: u64,
    pub(super) span: u64,
    /// Shortest delay of a message, in microseconds.
    pub(super) latency: u64,
    /// Time after which a silent node is considered dead, in microseconds.
    pub(super) dead_after: u64,
    pub(super) limits: Limits,
}

impl Config {
    /// Draws a world of `most` nodes, sometimes of fewer; a small world if `small`.
    pub(super) fn draw(random: &mut Random, most: u32, small: bool) -> Config {
        use Fault::{Busy, Crash, Cut, Die, End, Head, Late, Link, Pause, Refuse, Restart, Stall};
        let profile = random.pick(PROFILES).copied().unwrap_or(Profile::Calm);
        let nodes = match small || random.chance(3, 4) {
            true => most,
            false => random.between(1, most.into()) as u32,
        };
        let (ask, fence) = (random.between(3, 6), random.between(20, 40));
        let limits = Limits {
            ask: Duration::from_secs(ask),
            fence: Duration::from_secs(fence),
            grace: Duration::from_millis(random.between(1, 1_000)),
            ..Limits::default()
        };
        let mut config = Config {
            profile,
            nodes,
            head_runs: random.chance(3, 4) || nodes == 1,
            not_started: 0,
            deaths: 0,
            short_limits: 0,
            mismatches: 0,
            absent: 0,
            noise: random.between(2, 6),
            kills: 0,
            lateness: 12,
            rounds: if small { 0 } else { random.below(4) },
            groups: if small { 1 } else { 2 },
            processes: if small { 2 } else { 4 },
            faults: Vec::new(),
            count: 0,
            span: if small { 1_500 * MS } else { random.between(2_000, 12_000) * MS },
            latency: *random.pick(&[20, 200, 2_000]).unwrap_or(&20),
            dead_after: *random.pick(&[2_000 * MS, 5_000 * MS]).unwrap_or(&(2_000 * MS)),
            limits,
        };
        match profile {
            _ if small => return config,
            Profile::Calm => {}
            Profile::Deaths => (config.deaths, config.not_started, config.faults) = (4, 14, vec![Die, Late]),
            Profile::Overlaps => {
                (config.rounds, config.lateness) = (8, 3);
                config.deaths = if random.chance(1, 2) { 0 } else { 8 };
            }
            Profile::Limits => {
                (config.short_limits, config.mismatches, config.absent) = (5, 12, 12);
            }
            Profile::Crashes => (config.faults, config.deaths) = (vec![Crash, Crash, Restart, Die], 14),
            Profile::Head => (config.faults, config.deaths) = (vec![Head, Crash, Die], 20),
            Profile::Links => config.faults = vec![Link, Link, Cut, Refuse, Late],
            Profile::Pauses => config.faults = vec![Pause, Pause, Stall, Late, Cut],
            Profile::Busy => config.faults = vec![Busy, Late, Die],
            Profile::Kills => {
                config.faults = vec![Refuse, Link, Busy, Late];
                (config.kills, config.lateness, config.groups, config.noise) = (1, 3, 3, 2);
                config.not_started = if random.chance(1, 2) { 6 } else { 0 };
                config.span = random.between(20, 2_000) * MS;
            }
            Profile::Ends => (config.faults, config.deaths) = (vec![End, Late, Die], 14),
            Profile::All => {
                config.faults = Fault::ALL.to_vec();
                (config.deaths, config.not_started, config.short_limits) = (8, 20, 9);
                (config.mismatches, config.absent) = (25, 25);
            }
        }
        config.count = random.between(1, 4);
        config
    }
}
