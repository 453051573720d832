//! What a world is like: first what kind of trouble it has, then how large everything is. So trouble that is rare elsewhere comes often.

use std::time::Duration;

use chained_gpc::sim::Random;

use super::faults::Fault;
use super::world::MS;
use crate::limits::Limits;

/// Kinds of trouble.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Profile {
    /// Nothing goes wrong.
    Calm,
    /// Processes die, or cannot be started.
    Deaths,
    /// Many fences of subsets, which overlap.
    Overlaps,
    /// Time limits pass, members want different things or never come.
    Limits,
    /// Nodes end.
    Crashes,
    /// The head ends.
    Head,
    /// Links break, nodes cannot reach each other.
    Links,
    /// Nodes stand still.
    Pauses,
    /// Nodes have too much to do.
    Busy,
    /// The domain ends while programs run.
    Ends,
    /// Groups are killed as they are started, and nodes are not reached then.
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

/// What may go wrong by itself is one time in so many, 0 is never.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) profile: Profile,
    pub(super) nodes: u32,
    /// Whether the head runs processes.
    pub(super) head_runs: bool,
    /// Processes that cannot be started.
    pub(super) not_started: u64,
    /// Processes that end where they should go on.
    pub(super) deaths: u64,
    /// Collective requests with a short limit.
    pub(super) short_limits: u64,
    /// Collective requests for something else than the others want.
    pub(super) mismatches: u64,
    /// Members that never come to a fence, and go on living.
    pub(super) absent: u64,
    /// Requests beside the programs: kills, names, databases.
    pub(super) noise: u64,
    /// Groups that the tool kills as soon as they are spawned.
    pub(super) kills: u64,
    /// Messages that take long.
    pub(super) lateness: u64,
    /// How many rounds programs have beside the first ones.
    pub(super) rounds: u64,
    /// Most groups that the tool spawns, and most processes of one spec.
    pub(super) groups: u64,
    pub(super) processes: u64,
    /// What goes wrong, how often, and for how long it may begin, microseconds.
    pub(super) faults: Vec<Fault>,
    pub(super) count: u64,
    pub(super) span: u64,
    /// What a message takes at least, microseconds.
    pub(super) latency: u64,
    /// How long who is asked may be silent, microseconds.
    pub(super) dead_after: u64,
    pub(super) limits: Limits,
}

impl Config {
    /// A world of `most` nodes, or now and then of fewer; a small one where `small`.
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
