//! What a run with faults is like, drawn before anything happens: how much its calls carry, what functions cost, which limits nodes have, which ways messages take.
//!
//! What is not asked for is drawn, each kind of run as a whole, so that what is rare comes in some runs often and not in all of them hardly ever.

use std::num::NonZeroU32;

use gpc_trees::{Id, Tree};

use super::behind::Behind;
use super::check::{Carries, Limits};
use super::faults::{Fault, FaultSet};
use super::random::Random;
use super::scenario::Scenario;
use super::world::LARGE;
use crate::wire::frame::HEADER_MAX;
use crate::wire::message::Merging;

/// Bytes of all replies of a call together where they are long: over a segment also two levels below the root, where what comes is passed on before it has all come.
const LONG_REPLIES: u64 = 3 << 20;

/// Bytes of all replies of a call together in a large world: callback puts them together anew on each level, and that is to be little beside a million nodes.
const MANY_REPLIES: u64 = 1 << 20;

/// The same of the data and the headers of its requests: where data come in pieces each id has them once more.
const MANY_REQUESTS: u64 = 64 << 20;

/// Each of them may be so long in any case, and says whose it is.
const NAMED: u64 = 4;

/// Longest data of a request that are long: several pieces.
const LONG_DATA: u64 = 200 << 10;

/// Longest data and replies where nodes have narrow limits: about as long as those.
const NARROW: u64 = 256;

/// Longest of them where nodes have little memory and no other limits for them: longer than what the fast path holds uncounted.
const FILLING: u64 = 24 << 10;

/// So many calls that carry as much as they may fit into the memory of a node where there is enough.
const FILLED_CALLS: u64 = 8;

/// What a reply takes beside its own bytes where it goes up, or somewhat more.
const FRAMED: u64 = 24;

/// What a call takes of a node's memory, with nothing in it; what each id of its list does, and each child. As much as a node counts, or a little more.
const CALL: u64 = 1 << 10;
const LISTED: u64 = 20;
const CHILD: u64 = 512;

/// Longest that a function takes where it is quick, and where it is slow, nanoseconds.
const QUICK_NS: u64 = 50_000;
const SLOW_NS: u64 = 5_000_000;

/// Which ids take the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShortWays {
    All,
    /// Every other one: both ways meet.
    Odd,
    None,
}

/// The most that the calls of a run carry.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    reply: u64,
    reply_header: u64,
    data: u64,
    header: u64,
}

impl Most {
    /// In a large world.
    fn of_many(self, n: u64) -> Most {
        let Most { reply, reply_header, data, header } = self;
        let [given, asked] = [MANY_REPLIES / n, MANY_REQUESTS / n].map(|most| most.max(NAMED));
        Most {
            reply: reply.min(given),
            reply_header: reply_header.min(given),
            data: data.min(asked),
            header: header.min(asked),
        }
    }
}

/// What is the same for a whole run.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Faults that were drawn together.
    pub(super) theme: Option<FaultSet>,
    most: Most,
    /// Whether replies may be so long that they are passed on as they come.
    pub(super) is_long: bool,
    pub(super) short_ways: ShortWays,
    /// What nodes take, where that is little.
    pub(super) limits: Option<Limits>,
    /// All calls go the same ways, from this root.
    pub(super) same_ways: Option<Id>,
    /// Messages go through the bytes of the wire.
    pub(super) as_bytes: bool,
    /// The data of requests come in pieces, in any case where they may find no memory.
    pub(super) in_pieces: bool,
    /// Nodes that wait are let go, as those of a large world are, and their ids keep what they go on with.
    pub(super) rests: bool,
    /// Nodes give back now and then what calls that ended have left for others, as a driver's idle node does.
    pub(super) gives_back: bool,
    /// Sockets are full now and then, and nodes hear when they take bytes again.
    pub(super) full_sockets: bool,
    /// Nobody has said how long functions take, so that it was drawn.
    pub(super) times_drawn: bool,
    pub(super) behind: Behind,
}

impl Default for Profile {
    /// The same for every seed.
    fn default() -> Profile {
        let (short_ways, limits) = (ShortWays::Odd, None);
        Profile {
            theme: None,
            most: Most::default(),
            is_long: false,
            short_ways,
            limits,
            same_ways: None,
            as_bytes: false,
            in_pieces: false,
            rests: false,
            gives_back: false,
            full_sockets: false,
            times_drawn: false,
            behind: Behind::default(),
        }
    }
}

impl Profile {
    /// Draws that of a run, and what functions cost in it; `used` are its faults.
    pub(super) fn draw(random: &mut Random, scenario: &mut Scenario, used: FaultSet) -> Profile {
        let mut times_drawn = false;
        if scenario.func_ns == 0 && scenario.callback_ns == 0 {
            // Who takes long is awaited for long, by others that are struck meanwhile.
            times_drawn = true;
            let most = *random.pick(&[0, QUICK_NS, SLOW_NS, SLOW_NS]).unwrap_or(&0);
            (scenario.func_ns, scenario.callback_ns) = (random.below(most + 1), random.below(most + 1));
        }
        let n = u64::from(scenario.n);
        let limits = used.has(Fault::Limits).then(|| narrow(random, scenario));
        let most = match random.below(8) {
            // Requests that may take the fast path, whose funcs give what that does not hold uncounted.
            0..2 if limits.is_some_and(is_filled) => {
                Most { reply: 2 * FILLING, reply_header: 32, data: NARROW, header: 2000 }
            }
            2 | 3 if limits.is_some_and(is_filled) => {
                Most { reply: FILLING, reply_header: FILLING, data: NARROW, header: 32 }
            }
            _ if limits.is_some_and(is_filled) => {
                Most { reply: FILLING, reply_header: 32, data: FILLING, header: 2000 }
            }
            _ if limits.is_some() => Most { reply: NARROW, reply_header: 32, data: NARROW, header: 32 },
            0 | 4 => Most { reply: LONG_REPLIES / n, reply_header: 2000 / n, data: 64, header: 64 },
            1 => Most { reply: 64, reply_header: 64, data: LONG_DATA, header: 300 },
            2 => Most { reply: 2000, reply_header: 200, data: 20_000, header: 2000 },
            3 => Most { reply: 8, ..Most::default() },
            _ => Most { reply: 40, reply_header: 16, data: 24, header: 16 },
        };
        let behind = Behind::draw(scenario.seed, scenario.n);
        let limits = limits.map(|limits| Limits { children_odd: behind.children_odd, ..limits });
        let most = match limits {
            None if behind.long => Most { reply: LONG_REPLIES / n, ..most },
            _ => most,
        };
        let is_long = limits.is_none() && most.reply == LONG_REPLIES / n && scenario.n <= LARGE;
        let most = if scenario.n > LARGE { most.of_many(n) } else { most };
        let short_ways = [ShortWays::All, ShortWays::Odd, ShortWays::Odd, ShortWays::None];
        Profile {
            theme: None,
            most,
            is_long,
            short_ways: random.pick(&short_ways).copied().unwrap_or(ShortWays::Odd),
            limits,
            same_ways: None,
            as_bytes: random.chance(1, 4),
            in_pieces: random.chance(1, 2) | limits.is_some_and(is_filled),
            // Nodes that take turns have one limit.
            rests: random.chance(1, 4) && !behind.children_odd,
            gives_back: random.chance(1, 4),
            full_sockets: random.chance(1, 3),
            times_drawn,
            behind,
        }
    }

    /// Whether the replies of the next call are passed on as they come, and not merged, since they may be long: of most of these calls.
    pub(super) fn passes_on(&mut self) -> bool {
        self.is_long && self.behind.random.chance(3, 4)
    }

    /// Whether memory is all that nodes lack.
    pub(super) fn is_filled(&self) -> bool {
        self.limits.is_some_and(is_filled)
    }

    /// Bytes of each id's reply and of each request's data, and what else a call carries.
    pub(super) fn carried(&self, random: &mut Random, scenario: &Scenario) -> (u32, u32, Carries) {
        let Most { reply, reply_header, data, header } = self.most;
        // Nothing at all is a size of its own.
        let mut size = |most: u64| if random.chance(1, 8) { 0 } else { random.below(most + 1) as u32 };
        let (mut reply, mut data) = (size(reply), size(data));
        let (reply_header_bytes, mut header_bytes) = (size(reply_header), size(header));
        let limited = self.limits.is_some_and(|limits| limits.memory_max == u64::MAX);
        if limited && scenario.n <= LARGE && random.chance(1, 12) {
            // As long as one may be, or longer.
            header_bytes = HEADER_MAX as u32 + random.below(2) as u32;
        }
        let data_max = self.limits.map_or(u64::MAX, |limits| limits.data_max);
        if data_max <= NARROW && random.chance(1, 3) {
            // Exactly as much as there may be.
            data = data_max as u32;
        }
        let reply_max = self.limits.map_or(u64::MAX, |limits| limits.reply_max);
        if reply_max < u64::MAX && scenario.n <= LARGE && random.chance(1, 6) {
            // That of one id is about as much as that of all may be: megabytes of many ids.
            let less = if random.chance(1, 3) { u64::from(reply_header_bytes) } else { random.below(FRAMED) };
            reply = reply_max.saturating_sub(less) as u32;
        }
        let handle = |random: &mut Random, first: u64| first + 2 * random.below(2);
        let carries = Carries {
            func: handle(random, 1),
            callback: handle(random, 2),
            header_bytes,
            reply_header_bytes,
            merging: if random.chance(1, 3) { Merging::AsTheyCome } else { Merging::InListOrder },
            as_they_come: random.chance(1, 4),
        };
        (scenario.reply_bytes.unwrap_or(reply), scenario.data_bytes.unwrap_or(data), carries)
    }
}

/// Whether memory is all that nodes with these limits lack.
fn is_filled(limits: Limits) -> bool {
    limits.memory_max < u64::MAX && limits.data_max == u64::MAX && limits.reply_max == u64::MAX
}

/// The tree of the calls that reach every id after all faults: as narrow as the limit of children asks for.
pub(super) fn probe_tree(tree: &Tree, children_max: u32) -> Tree {
    let narrow = NonZeroU32::new(children_max).filter(|most| most.get() < u32::MAX);
    narrow.map_or_else(|| tree.clone(), Tree::Kary)
}

/// Limits that the calls of a run meet now and then, and that leave room for two calls at a time that carry next to nothing.
fn narrow(random: &mut Random, scenario: &Scenario) -> Limits {
    let n = u64::from(scenario.n);
    let children = u64::from(scenario.tree.fan_out(scenario.n).unwrap_or(scenario.n));
    // What is asked for is to come through when all is over.
    let given = scenario.reply_bytes.is_some() || scenario.data_bytes.is_some();
    // Where memory alone is little, what calls carry is longer: of many ids too much for this machine.
    let filled = !given && random.chance(1, 4) && scenario.n <= LARGE;
    let unlimited = |random: &mut Random| random.chance(1, 2) || filled || given;
    let calls_max = random.between(2, 4) as usize;
    let data_max = if unlimited(random) { u64::MAX } else { random.below(NARROW) };
    let reply_more = if unlimited(random) { None } else { Some(random.below(NARROW * n)) };
    let adopted_max = if random.chance(1, 2) { u32::MAX } else { random.below(4) as u32 };
    // One less than the widest call asks, where there is one. A chain of all ids of a large world takes too long.
    let children_max = match random.chance(1, 6) && children > 1 && scenario.n <= LARGE {
        true => children as u32 - 1,
        false => u32::MAX,
    };
    // Each part has so much around it, on each level above it. The probes' tree may be deeper than the world's.
    let depth = |tree: &Tree| tree.depth(scenario.n).unwrap_or(scenario.n);
    let levels = 8 * u64::from(depth(&scenario.tree).max(depth(&probe_tree(&scenario.tree, children_max))));
    let room = (64 + levels) * n;
    Limits {
        calls_max,
        data_max,
        reply_max: reply_more.map_or(u64::MAX, |more| room + more),
        adopted_max,
        children_max,
        children_odd: false,
        memory_max: if !filled && (random.chance(1, 2) || given) {
            u64::MAX
        } else {
            let two = 2 * (CALL + CHILD * children + LISTED * n + room);
            // In some worlds it is counted, and there is enough.
            let enough = if random.chance(1, 3) { FILLED_CALLS * n * FILLING } else { 0 };
            two + random.below(two + FILLING) + enough
        },
    }
}
