//! What the nodes of a run have behind them, and how much of it they remember: small sizes, numbers of calls far apart, as where a root has made others between them that nobody in this world hears of, calls of one kind, and replies that stop coming.
//!
//! These draws have a stream of their own: all that a run draws otherwise is what it would be without them.

use std::num::NonZeroU32;

use gpc_trees::{Id, IdList, Lag, Radix, Tree};

use super::random::Random;
use super::world::{LARGE, World};
use crate::chain::{Input, Output, Sizes, Start, Time};
use crate::wire::message::Merging;

/// The stream of these draws begins so far from that of the others.
const APART: u64 = 0x5deece66d;

/// So many calls between two of a root: those behind it then stand a word of bits further, as far as a window remembers in any order, or at the same place one window later.
const BETWEEN: [u32; 5] = [63, 127, 1023, 4095, 4095];

/// The driver's name for each of them: no call of the world has it.
const TICKET: u64 = u64::MAX;

/// What is the same for a whole run.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub(super) random: Random,
    pub(super) sizes: Sizes,
    /// Whether the first call of its kind may take the fast path, or only the second.
    pub(super) plan_at_once: bool,
    /// Whether roots make other calls between theirs.
    pub(super) calls_others: bool,
    /// Requests of calls that are over come once more.
    pub(super) copies: bool,
    /// All calls have a callback, which merges so: what one leaves half merged the next one finds.
    pub(super) alike: Option<Merging>,
    /// The data of long replies stop coming, where messages may be late.
    pub(super) stalls: bool,
    /// Replies are long, and their data stop coming.
    pub(super) long: bool,
    /// Some calls have other trees than that of the world.
    pub(super) other_trees: bool,
    /// Ids with even numbers have no limit of children: where roots have it, hardly any other id comes to it.
    pub(super) children_odd: bool,
}

impl Default for Behind {
    fn default() -> Behind {
        Behind {
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

impl Behind {
    /// Draws that of a world of `n` ids.
    pub(super) fn draw(seed: u64, n: u32) -> Behind {
        let mut random = Random::new(seed.wrapping_add(APART));
        if n > LARGE {
            return Behind { random, ..Behind::default() };
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
        // One request is then the work of more than one moment, and some wait behind those of their parent.
        let sizes = match random.chance(1, 8) {
            true => Sizes { work: 1 + random.below(8) as u16, batch: 1 + random.below(4) as u16, ..sizes },
            false => sizes,
        };
        Behind {
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

    /// The tree of the next call, where that of the world is this one.
    pub(super) fn tree(&mut self, tree: &Tree) -> Tree {
        // A shape fits one length alone.
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

    /// The root of most calls, where roots make others between them or all calls are alike: what one call leaves at its root the next one finds.
    pub(super) fn root(&mut self, n: u32) -> Option<Id> {
        (self.calls_others || self.alike.is_some()).then(|| self.random.below(n.into()) as Id)
    }
}

impl World {
    /// A root makes calls over nobody, each of which is refused at once and has a number.
    pub(super) fn calls_others(&mut self, root: Id) {
        let behind = &mut self.profile.behind;
        if !behind.calls_others || behind.random.chance(1, 2) {
            return;
        }
        let Some(&count) = behind.random.pick(&BETWEEN) else { return };
        for _ in 0..count {
            let now = Time::from_nanos(self.now);
            let start = Start { ids: IdList::range(0..0), ..Start::new(0) };
            let mut outputs = std::mem::take(&mut self.outputs);
            let Some(node) = self.node(root) else { return };
            node.input(now, Input::Start { ticket: TICKET, start: start.into() }, &mut outputs);
            self.outputs = outputs;
            // What was due by now comes with the first one.
            while let Some(output) = self.outputs.pop_front() {
                if !matches!(output, Output::Finished { ticket: TICKET, .. }) {
                    self.carry_out(root, output);
                }
            }
        }
        self.hosts.at(root).started += count;
        self.settle(root);
    }
}
