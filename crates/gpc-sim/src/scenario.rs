//! Parameters of one run: ids, tree, calls, costs, faults and seed.

use std::fmt::Write as _;

use gpc_trees::Tree;

use super::cost::{Costs, Sharing};
use super::crash::Crash;
use super::faults::FaultSet;
use super::large::LARGE;
use super::linked::Linking;
use super::random::Random;

/// Default size of each id's reply, bytes.
pub const REPLY_BYTES: u32 = 8;

/// One in this many worlds of a swarm has real links, if that is left open.
const REAL_PARTS: u64 = 20;

/// Parameters of one run. Equal scenarios give equal runs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Number of ids, counted from 0.
    pub n: u32,
    /// Tree of the calls.
    pub tree: Tree,
    /// Number of calls: without faults one after another, with faults at any time.
    pub calls: u32,
    /// Whether calls are partial: they go on without lost ids.
    pub partial: bool,
    /// Faults that may happen.
    pub faults: FaultSet,
    /// Processes that end, each at its event, as the only faults; `None` to draw faults from `faults`.
    pub crashes: Option<Vec<Crash>>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Cost of messages.
    pub costs: Costs,
    /// Number of hosts that the ids are spread over; `None` for a network without hosts.
    pub hosts: Option<u32>,
    /// Cores that the processes of a host share; `None` if each has a core of its own. Ignored in runs with faults.
    pub sharing: Option<Sharing>,
    /// Run time of func, nanoseconds.
    pub func_ns: u64,
    /// Run time of callback, nanoseconds.
    pub callback_ns: u64,
    /// Bytes of each id's reply; 0 for no replies. `None` means [`REPLY_BYTES`], or a drawn size for each call in runs
    /// with faults.
    pub reply_bytes: Option<u32>,
    /// Bytes of each request's data. `None` means 0, or a drawn size for each call in runs with faults.
    pub data_bytes: Option<u32>,
    /// Whether calls bring back the times of all ids. In runs with faults some do anyway.
    pub traced: bool,
    /// How links are established.
    pub links: Linking,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

impl Scenario {
    /// One call over `n` ids without faults, with replies of [`REPLY_BYTES`].
    pub fn new(n: u32, tree: Tree) -> Scenario {
        Scenario {
            n,
            tree,
            calls: 1,
            partial: false,
            faults: FaultSet::NONE,
            crashes: None,
            seed: 1,
            costs: Costs::default(),
            hosts: None,
            sharing: None,
            func_ns: 0,
            callback_ns: 0,
            reply_bytes: None,
            data_bytes: None,
            traced: false,
            links: Linking::Some,
            trace: false,
        }
    }

    /// Draws one run of a swarm from `seed`: at most `n` ids and `calls` calls, and any built-in tree unless
    /// `keep_tree`.
    pub fn swarm(&self, seed: u64, keep_tree: bool) -> Scenario {
        // This stream of random numbers differs from the world's, so that the run can be replayed on its own.
        let mut random = Random::new(seed ^ 0x5eed_0f5e_ed00_5eed);
        let most = u64::from(self.n).max(1);
        let n = match random.below(8) {
            // An explicit shape fits a single size.
            _ if keep_tree && matches!(self.tree, Tree::Explicit(_)) => most,
            0 | 1 => random.between(1, most.min(8)),
            // Only nodes with many children reach some of the bounds.
            2 => most,
            _ => random.between(1, most),
        };
        let most_calls = u64::from(self.calls.max(1));
        // Some faults need state that an earlier call has left.
        let calls = if random.chance(1, 2) { most_calls } else { random.between(1, most_calls) };
        let drawn = TREES.iter().filter_map(|name| name.parse::<gpc_trees::TreeName>().ok()?.built_in());
        let trees: Vec<Tree> = drawn.collect();
        let tree = random.pick(&trees).cloned().unwrap_or_default();
        let real = n <= LARGE.into() && random.chance(1, REAL_PARTS);
        let links = match self.links {
            Linking::Some if real => Linking::Peering,
            Linking::Some => Linking::Modelled,
            given => given,
        };
        Scenario {
            // Each is at most its original u32 value.
            n: n as u32,
            calls: calls as u32,
            tree: if keep_tree { self.tree.clone() } else { tree },
            seed,
            links,
            ..self.clone()
        }
    }

    /// Command line that repeats exactly this run, with its trace.
    pub fn replay(&self) -> String {
        let plain = Scenario::new(self.n, self.tree.clone());
        let Scenario { n, tree, calls, faults, seed, .. } = self;
        let mut line = format!("gpc sim -n {n} --tree {tree}");
        // Writing to a string never fails.
        let _ = match &self.crashes {
            None => write!(line, " --calls {calls} --faults {faults} --seed {seed}"),
            Some(crashes) => write!(line, " --crash {} --seed {seed}", Crash::list(crashes)),
        };
        if self.partial {
            line.push_str(" --partial");
        }
        if self.traced {
            line.push_str(" --traced");
        }
        let mut option = |name: &str, value: &dyn std::fmt::Display, same: bool| {
            if !same {
                let _ = write!(line, " --{name} {value}");
            }
        };
        let (costs, usual) = (&self.costs, &plain.costs);
        option("link-cost", &costs.elsewhere, costs.elsewhere == usual.elsewhere);
        option("rack-cost", &costs.rack, costs.rack == usual.rack);
        option("host-cost", &costs.host, costs.host == usual.host);
        option("hosts", &self.hosts.unwrap_or_default(), self.hosts.is_none());
        if let Some(Sharing { cores, wake_ns, cold_ns }) = self.sharing {
            option("cores", &cores, false);
            option("wake-cost", &format!("{wake_ns}ns"), wake_ns == 0);
            option("cold-cost", &format!("{cold_ns}ns"), cold_ns == 0);
        }
        option("func-cost", &format!("{}ns", self.func_ns), self.func_ns == plain.func_ns);
        option("callback-cost", &format!("{}ns", self.callback_ns), self.callback_ns == plain.callback_ns);
        option("reply-bytes", &self.reply_bytes.unwrap_or_default(), self.reply_bytes.is_none());
        option("data-bytes", &self.data_bytes.unwrap_or_default(), self.data_bytes.is_none());
        option("links", &self.links, self.links != Linking::Peering);
        line.push_str(" --trace");
        line
    }
}

const TREES: [&str; 9] =
    ["binary", "binomial", "kary:1", "kary:3", "kary:8", "kary:12", "knomial:3", "chain", "flat"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_stays_within_its_bounds_and_uses_them() {
        let most = Scenario { calls: 3, ..Scenario::new(64, Tree::Binary) };
        let drawn: Vec<Scenario> = (0..500).map(|seed| most.swarm(seed, false)).collect();
        assert!(drawn.iter().all(|one| (1..=64).contains(&one.n) && (1..=3).contains(&one.calls)));
        assert!(drawn.iter().any(|one| one.n == 64) && drawn.iter().any(|one| one.n == 1));
        assert!(drawn.iter().any(|one| one.tree == Tree::Flat));
        assert!((0..50).all(|seed| most.swarm(seed, true).tree == Tree::Binary));
        let real = drawn.iter().filter(|one| one.links == Linking::Peering).count();
        assert!((10..40).contains(&real), "{real} of 500 have real links");
    }

    #[test]
    fn a_replay_names_what_is_not_usual() {
        let plain = Scenario::new(9, Tree::Binomial);
        assert_eq!(plain.replay(), "gpc sim -n 9 --tree binomial --calls 1 --faults none --seed 1 --trace");
        let other = Scenario { partial: true, hosts: Some(3), func_ns: 7, ..plain };
        assert!(other.replay().ends_with(" --partial --hosts 3 --func-cost 7ns --trace"));
    }
}
