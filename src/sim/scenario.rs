//! What one run is: how many ids, which tree, what is called, what a message costs, what may go wrong.

use std::fmt::Write as _;

use gpc_trees::Tree;

use super::cost::{Costs, Sharing};
use super::exhaustive::Crash;
use super::faults::FaultSet;
use super::linked::Linking;
use super::random::Random;

/// Bytes of each id's reply where nobody says otherwise.
pub const REPLY_BYTES: u32 = 8;

/// One run. Together with nothing else it decides everything that happens.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Ids, 0 and up.
    pub n: u32,
    /// How lists are split.
    pub tree: Tree,
    /// Calls: without faults one after another, with faults at any time.
    pub calls: u32,
    /// Calls go on without those that are lost.
    pub partial: bool,
    /// What may go wrong.
    pub faults: FaultSet,
    /// Processes that end at these events, and nothing else that goes wrong; `None` where `faults` says what does.
    pub crashes: Option<Vec<Crash>>,
    /// Of everything that is drawn.
    pub seed: u64,
    /// What messages cost.
    pub costs: Costs,
    /// Hosts that the ids are spread over; `None` to tell none apart.
    pub hosts: Option<u32>,
    /// What the processes of a host share; `None` where each has a processor of its own. Counts where there are no faults.
    pub sharing: Option<Sharing>,
    /// What func costs, nanoseconds.
    pub func_ns: u64,
    /// What callback costs, nanoseconds.
    pub callback_ns: u64,
    /// Bytes of each id's reply; 0 for no replies. `None`: [`REPLY_BYTES`], and where there are faults drawn for each call.
    pub reply_bytes: Option<u32>,
    /// Bytes of each request's data. `None`: none, and where there are faults drawn for each call.
    pub data_bytes: Option<u32>,
    /// How links come about.
    pub links: Linking,
    /// Whether to keep a readable trace.
    pub trace: bool,
}

impl Scenario {
    /// One call over `n` ids without faults, 8 bytes of reply from each.
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
            links: Linking::Modelled,
            trace: false,
        }
    }

    /// One of many runs: up to so many ids and calls, and any built-in tree unless `keep_tree`; the seed decides.
    pub fn swarm(&self, seed: u64, keep_tree: bool) -> Scenario {
        // Another stream than the world's, so that the run by itself can be replayed.
        let mut random = Random::new(seed ^ 0x5eed_0f5e_ed00_5eed);
        let most = u64::from(self.n).max(1);
        let n = match random.below(8) {
            // A shape fits one size alone.
            _ if keep_tree && matches!(self.tree, Tree::Explicit(_)) => most,
            0 | 1 => random.between(1, most.min(8)),
            // Some bounds are met by many children only.
            2 => most,
            _ => random.between(1, most),
        };
        let most_calls = u64::from(self.calls.max(1));
        // What one leaves behind another finds.
        let calls = if random.chance(1, 2) { most_calls } else { random.between(1, most_calls) };
        let drawn = TREES.iter().filter_map(|name| name.parse::<gpc_trees::TreeName>().ok()?.built_in());
        let trees: Vec<Tree> = drawn.collect();
        let tree = random.pick(&trees).cloned().unwrap_or_default();
        Scenario {
            // Both are at most what they were.
            n: n as u32,
            calls: calls as u32,
            tree: if keep_tree { self.tree.clone() } else { tree },
            seed,
            ..self.clone()
        }
    }

    /// The command that runs exactly this again, with its trace.
    pub fn replay(&self) -> String {
        let plain = Scenario::new(self.n, self.tree.clone());
        let Scenario { n, tree, calls, faults, seed, .. } = self;
        let mut line = format!("gpc sim -n {n} --tree {tree}");
        // A string takes everything.
        let _ = match &self.crashes {
            None => write!(line, " --calls {calls} --faults {faults} --seed {seed}"),
            Some(crashes) => write!(line, " --crash {} --seed {seed}", Crash::list(crashes)),
        };
        if self.partial {
            line.push_str(" --partial");
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
        option("links", &self.links, self.links == plain.links);
        line.push_str(" --trace");
        line
    }
}

/// Trees that a swarm draws.
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
    }

    #[test]
    fn a_replay_names_what_is_not_usual() {
        let plain = Scenario::new(9, Tree::Binomial);
        assert_eq!(plain.replay(), "gpc sim -n 9 --tree binomial --calls 1 --faults none --seed 1 --trace");
        let other = Scenario { partial: true, hosts: Some(3), func_ns: 7, ..plain };
        assert!(other.replay().ends_with(" --partial --hosts 3 --func-cost 7ns --trace"));
    }
}
