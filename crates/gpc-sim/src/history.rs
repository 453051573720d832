//! History of the nodes of a run, and how much of it they remember. A run may have small tables, gaps between the calls
//! of a root, calls of one kind, calls over other trees, and long replies whose data stall.
//!
//! These draws use their own stream of random numbers, so all other draws of a run are the same with and without them.

use std::num::NonZeroU32;

use gpc_trees::{Id, Lag, Radix, Tree};

use super::large::LARGE;
use super::random::Random;
use chained_gpc::chain::Sizes;
use chained_gpc::wire::message::Merging;

/// Offset of this stream's seed from the run's seed.
const STREAM_OFFSET: u64 = 0x5deece66d;

/// Settings that decide the history of the nodes of a run, with the random stream that draws them.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) random: Random,
    pub(super) sizes: Sizes,
    /// Whether already the first call over a list of ids may take the fast path, or only the second.
    pub(super) plan_at_once: bool,
    /// Whether roots make other calls between the planned ones.
    pub(super) calls_others: bool,
    /// Whether requests of ended calls arrive again.
    pub(super) copies: bool,
    /// If set, all calls have a callback that merges in this order, so a half-merged state meets the next call.
    pub(super) alike: Option<Merging>,
    /// Whether the data of long replies stall, where messages may be late.
    pub(super) stalls: bool,
    /// Whether replies are long and their data stall.
    pub(super) long: bool,
    /// Whether some calls have another tree than the world.
    pub(super) other_trees: bool,
    /// Whether even ids have no limit of children. If roots have the limit, hardly any other id reaches it.
    pub(super) children_odd: bool,
}

impl Default for History {
    fn default() -> History {
        History {
            random: Random::new(0),
            sizes: Sizes::default(),
            plan_at_once: true,
            calls_others: false,
            copies: false,
            alike: None,
            stalls: false,
            long: false,
            other_trees: false,
            children_odd: false,
        }
    }
}

impl History {
    /// Draws the settings of a world of `n` ids.
    pub(super) fn draw(seed: u64, n: u32) -> History {
        let mut random = Random::new(seed.wrapping_add(STREAM_OFFSET));
        if n > LARGE {
            return History { random, ..History::default() };
        }
        let mut size = |parts: u64, usual: u16| match random.chance(1, parts) {
            true => 1 + random.below(2) as u16,
            false => usual,
        };
        let usual = Sizes::default();
        let sizes = Sizes {
            windows: size(4, usual.windows),
            plans: size(4, usual.plans),
            descendants: size(12, usual.descendants),
            ..usual
        };
        let plan_at_once = !random.chance(1, 12);
        let calls_others = random.chance(1, 8);
        let alike = random.chance(1, 8).then(|| match random.chance(1, 2) {
            true => Merging::AsTheyCome,
            false => Merging::InListOrder,
        });
        let long = random.chance(1, 6);
        let stalls = random.chance(1, 2) || long;
        let (other_trees, children_odd) = (random.chance(1, 4), random.chance(1, 4));
        // A request then takes several turns, and some requests wait behind others of their parent.
        let sizes = match random.chance(1, 8) {
            true => Sizes { work: 1 + random.below(8) as u16, batch: 1 + random.below(4) as u16, ..sizes },
            false => sizes,
        };
        History {
            random,
            sizes,
            plan_at_once,
            calls_others,
            copies: false,
            alike,
            stalls,
            long,
            other_trees,
            children_odd,
        }
    }

    /// Draws the tree of the next call, given the world's tree.
    pub(super) fn tree(&mut self, tree: &Tree) -> Tree {
        // An explicit shape fits a single length.
        if !self.other_trees || matches!(tree, Tree::Explicit(_)) || self.random.chance(1, 2) {
            return tree.clone();
        }
        let random = &mut self.random;
        match random.below(5) {
            0 => Tree::Binary,
            1 => Tree::Binomial,
            2 => NonZeroU32::new(2 + random.below(3) as u32).map_or(Tree::Binary, Tree::Kary),
            3 => Radix::new(2 + random.below(3) as u32).map_or(Tree::Binomial, Tree::Knomial),
            _ => Lag::from_1024ths(1024 + random.below(8 << 10) as u32).map_or(Tree::Flat, Tree::Loggp),
        }
    }

    /// Root of most calls, where roots make other calls or all calls are alike: state that one call leaves meets the
    /// next.
    pub(super) fn root(&mut self, n: u32) -> Option<Id> {
        (self.calls_others || self.alike.is_some()).then(|| self.random.below(n.into()) as Id)
    }
}
