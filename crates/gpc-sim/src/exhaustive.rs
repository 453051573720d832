//! Exhaustive runs of small worlds: every process ends at every event of a call, and every pair of processes.
//!
//! A world is unchanged up to the event at which a process ends. So the events of a world without crashes are the
//! points for a first crash. Those of a world with one crash are the points for a second. A single crash is tried after
//! every event. Of two crashes, each is tried only after events in which its process took part: as sender, as receiver,
//! or as owner of the link. Events among other processes neither observe the crash nor are observed by it. A crash
//! before and a crash after such an event differ only in their time. That time is drawn anyway: a peer learns of the
//! loss some time later. Two crashes at the same event are tried in one order.
//!
//! After one crash, further calls must reach every live id; after two crashes, only the state that is left is checked.

use std::fmt;
use std::str::FromStr;

use gpc_trees::{Id, IdList, TreeName};

use super::check::{Carries, Plan, Violation};
use super::faults::{FaultSet, Mishaps, Times};
use super::happen::QUIET_NS;
use super::many::{FAILURES_MAX, each};
use super::run::report;
use super::scenario::{REPLY_BYTES, Scenario};
use super::world::{BEGIN, Event, World};

/// Built-in trees to try by default.
const TREES: [&str; 10] = [
    "binary",
    "binomial",
    "kary:1",
    "kary:3",
    "kary:8",
    "knomial:3",
    "chain",
    "flat",
    "loggp:1",
    "loggp:2.5",
];

/// A process that ends after an event. Its text form is `ID@EVENT`; a list is separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Crash {
    /// Number of events before the crash.
    pub event: u64,
    /// Id of the process.
    pub id: Id,
}

/// A list of crashes that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no crash: write ID@EVENT, such as 3@17, several with a comma between them, or none")]
pub struct CrashError(String);

impl Crash {
    /// Text form of a list; `none` if it is empty.
    pub fn list(crashes: &[Crash]) -> String {
        let all: Vec<String> = crashes.iter().map(ToString::to_string).collect();
        if all.is_empty() { "none".into() } else { all.join(",") }
    }

    /// Parses a list of crashes.
    ///
    /// # Errors
    /// The first part that is not a crash.
    pub fn parse_list(text: &str) -> Result<Vec<Crash>, CrashError> {
        if text == "none" { Ok(Vec::new()) } else { text.split(',').map(str::parse).collect() }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.event)
    }
}

impl FromStr for Crash {
    type Err = CrashError;

    fn from_str(text: &str) -> Result<Crash, CrashError> {
        let parsed = text.trim().split_once('@').and_then(|(id, event)| {
            let (id, event) = (id.parse().ok()?, event.parse().ok()?);
            Some(Crash { event, id })
        });
        parsed.ok_or_else(|| CrashError(text.chars().take(40).collect()))
    }
}

/// The ids that took part in each event of a world, up to the end of its planned events.
#[derive(Debug, Default)]
pub(super) struct Parts {
    seen: Vec<(u64, Id)>,
    over: bool,
}

/// Results of all worlds.
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    /// Number of worlds.
    pub worlds: u64,
    /// Events of all worlds.
    pub events: u64,
    /// The first failed worlds with their violations, at most [`FAILURES_MAX`].
    pub failures: Vec<(Scenario, Vec<Violation>)>,
    /// Number of worlds that failed.
    pub failed: u64,
}

/// Trees to try by default.
pub fn exhaustive_trees() -> Vec<TreeName> {
    TREES.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Runs `of`, a call over all its ids, with up to `crashes` processes (0, 1 or 2) that end at every event.
pub fn exhaustive(of: &Scenario, crashes: u32) -> Exhaustive {
    // Each tree, size and mode draws its own kind of call.
    let kind = of.tree.wire_id().wrapping_mul(31).wrapping_add(of.tree.wire_param().into());
    let seed = of
        .seed
        .wrapping_add(kind.wrapping_mul(1000))
        .wrapping_add(u64::from(of.n) * 2 + u64::from(of.partial));
    let calm = Scenario { calls: 1, faults: FaultSet::NONE, crashes: Some(Vec::new()), seed, ..of.clone() };
    let mut all = Exhaustive::default();
    let parts = all.run(&calm);
    if crashes == 0 {
        return all;
    }
    let first: Vec<Scenario> = match crashes {
        1 => every_event(&parts).flat_map(|event| (0..calm.n).map(move |id| Crash { event, id })).collect(),
        _ => events_of_each(&parts, calm.n),
    }
    .into_iter()
    .map(|crash| Scenario { crashes: Some(vec![crash]), ..calm.clone() })
    .collect();
    for one in each(&first, |scenario| with_others(scenario, crashes)) {
        all.add(one);
    }
    all
}

/// Runs a world with one crash, and with each second crash if there are to be two.
fn with_others(scenario: &Scenario, crashes: u32) -> Exhaustive {
    let mut all = Exhaustive::default();
    let parts = all.run(scenario);
    let Some(&[first]) = scenario.crashes.as_deref().filter(|_| crashes > 1) else { return all };
    for second in events_of_each(&parts, scenario.n) {
        if second.id != first.id && (second.event, second.id) > (first.event, first.id) {
            all.run(&Scenario { crashes: Some(vec![first, second]), ..scenario.clone() });
        }
    }
    all
}

/// Every event, and the moment before the first.
fn every_event(parts: &[(u64, Id)]) -> std::ops::RangeInclusive<u64> {
    0..=parts.last().map_or(0, |(event, _)| *event)
}

/// Each process with the events in which it took part, and the moment before the first.
fn events_of_each(parts: &[(u64, Id)], n: u32) -> Vec<Crash> {
    let mut crashes: Vec<Crash> = parts.iter().map(|&(event, id)| Crash { event, id }).collect();
    crashes.extend((0..n).map(|id| Crash { event: 0, id }));
    crashes.sort_unstable();
    crashes.dedup();
    crashes
}

impl Exhaustive {
    /// Runs one world; returns the ids that took part in each event.
    fn run(&mut self, scenario: &Scenario) -> Vec<(u64, Id)> {
        let mut world = World::new(scenario);
        world.parts = Some(Parts::default());
        world.run();
        let parts = world.parts.take().unwrap_or_default().seen;
        let report = report(&mut world);
        let failed = !report.violations.is_empty();
        let failures = if failed { vec![(scenario.clone(), report.violations)] } else { Vec::new() };
        self.add(Exhaustive { worlds: 1, events: report.events, failures, failed: failed.into() });
        parts
    }

    /// Adds the results of other worlds.
    pub fn add(&mut self, other: Exhaustive) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.failed += other.failed;
        let room = FAILURES_MAX.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }
}

impl World {
    /// Plans one call over all ids, during which these processes end.
    pub(super) fn plan_crashes(&mut self, crashes: &[Crash]) {
        let Scenario { n, tree, partial, .. } = self.scenario.clone();
        let reply_bytes = self.scenario.reply_bytes.unwrap_or(REPLY_BYTES);
        let (took, limit_ns) = self.expected();
        let times = Times { from: BEGIN, span: took, limit_max: limit_ns, dead_after: [took; 2] };
        let (mishaps, _) = Mishaps::draw(&mut self.random, FaultSet::NONE, n, times);
        // As `gpc call` starts them: every process is too young to have had an earlier run.
        self.begin_lately(took);
        let ids = IdList::range(0..n);
        let all: Vec<Id> = ids.iter().collect();
        let acts = mishaps.acts(&mut self.random, &all, limit_ns).funcs;
        let plan = Plan {
            ids,
            tree,
            partial,
            watch: self.random.chance(1, 8),
            reply_wanted: reply_bytes > 0 && self.random.chance(3, 4),
            callback: self.random.chance(1, 2),
            forward_first: self.random.chance(1, 3),
            data_bytes: self.scenario.data_bytes.unwrap_or(0),
            limit_ns,
            reply_bytes: reply_bytes.max(4),
            carries: Carries { header_bytes: 5, reply_header_bytes: 3, ..Carries::default() },
        };
        let index = self.add_call(plan, false);
        self.calls[index].acts = acts;
        self.queue.push(self.now, Event::Start(index));
        if crashes.len() < 2 {
            self.settled_at(mishaps.end + limit_ns * 3 + QUIET_NS);
        }
        self.mishaps = Some(mishaps);
        self.crashes = crashes.to_vec();
        self.crashes.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Ends the processes whose crashes are due.
    pub(super) fn crash_those_due(&mut self) {
        while let Some(Crash { id, .. }) = self.crashes.pop_if(|crash| crash.event <= self.counts.events) {
            if self.hosts.is_up(id) {
                self.crash(id);
            }
        }
    }

    /// Records that an id takes part in the current event.
    pub(super) fn took_part(&mut self, id: Id) {
        let part = (self.counts.events, id);
        if let Some(parts) =
            self.parts.as_mut().filter(|parts| !parts.over && parts.seen.last() != Some(&part))
        {
            parts.seen.push(part);
        }
    }

    /// Stops recording: later events were not planned.
    pub(super) fn planned_is_over(&mut self) {
        self.parts.iter_mut().for_each(|parts| parts.over = true);
    }
}
