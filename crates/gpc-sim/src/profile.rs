//! Profile of a run with faults, drawn before it starts: sizes that calls carry, run times of functions, limits of
//! nodes, routes of messages.
//!
//! Settings that the scenario leaves open are drawn once for the whole run. So a rare setting is frequent in some runs,
//! instead of rare in all of them.

use std::num::NonZeroU32;

use gpc_trees::{Id, Tree};

use super::check::{Carries, Limits, STREAMING};
use super::faults::{Fault, FaultSet, LONG_REPLY_STREAM};
use super::history::History;
use super::large::LARGE;
use super::linked::Linking;
use super::random::Random;
use super::scenario::Scenario;
use chained_gpc::wire::ReplyLimits;
use chained_gpc::wire::frame::{HEADER_MAX, WINDOW};
use chained_gpc::wire::message::Merging;

/// Total bytes of a call's replies where replies are long. Two levels below the root they still exceed a segment, so a
/// node forwards a reply before it is complete.
const LONG_REPLIES: u64 = 3 << 20;

/// In the worlds with real links of more ids than this, fewer have bodies longer than a window.
const WINDOWS_OF: u64 = 4;

/// One in this many calls over real links has the longest header: it does not fit into a segment with the ids.
const HEADER_PARTS: u64 = 16;

/// Stream of random numbers for what only worlds with real links draw.
const REAL_STREAM: u64 = 0x7265_616c_6c69_6e6b;

/// Stream of random numbers for what scatter calls draw.
const SCATTER_STREAM: u64 = 0x7363_6174_7465_7221;

/// One in this many worlds has scatter calls; half of its calls are some.
const SCATTERING: u64 = 4;

/// Stream of random numbers for which calls are traced, and which ones are followed.
const TRACE_STREAM: u64 = 0x7472_6163_6521_2121;

/// One in this many worlds has traced calls, and one followed calls; half of its calls are some.
const TRACING: u64 = 4;

/// A followed call is so from its start, or from a time up to this.
const FOLLOWED_NS: u64 = 200_000;

/// Total bytes of a call's replies in a large world. Callback copies them on each level, which must cost little beside
/// a million nodes.
const MANY_REPLIES: u64 = 1 << 20;

/// Total bytes of the data and headers of a call's requests in a large world. Data that arrive in pieces are stored
/// once more at each id.
const MANY_REQUESTS: u64 = 64 << 20;

/// Lower bound on these sizes for each id; it has room for the id.
const NAMED: u64 = 4;

/// Longest data of requests with long data, bytes: several pieces.
const LONG_DATA: u64 = 200 << 10;

/// Longest data and replies in worlds with narrow limits, bytes: about the limits.
const NARROW: u64 = 256;

/// Longest data and replies where memory is the only narrow limit: above what the fast path holds uncounted.
const FILLING: u64 = 24 << 10;

/// Calls of the largest size that fit into a node's memory where memory suffices.
const FILLED_CALLS: u64 = 8;

/// Upper estimate of the framing bytes of a reply.
const FRAMED: u64 = 24;

/// Memory that a node counts for an empty call, for each id of its list, and for each child, rounded up. In bytes.
const CALL: u64 = 1 << 10;
const LISTED: u64 = 20;
const CHILD: u64 = 512;

/// Longest run time of quick and of slow functions, nanoseconds.
const QUICK_NS: u64 = 50_000;
const SLOW_NS: u64 = 5_000_000;

/// Approximate number of pieces of a request's data.
pub(super) const PIECES: u64 = 3;

/// Longest time between two pieces, in latencies.
const APART: u64 = 3;

/// The same where memory is the only narrow limit: other parents send requests while data arrive that find no memory.
const FAR_APART: u64 = 40;

/// Ids that take the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShortWays {
    All,
    /// Odd ids, so that fast path and tables meet.
    Odd,
    None,
}

/// Largest sizes that the calls of a run carry.
#[derive(Clone, Copy, Debug, Default)]
struct MaxSizes {
    reply: u64,
    reply_header: u64,
    data: u64,
    header: u64,
}

impl MaxSizes {
    /// In some worlds with real links, bodies take many writes, and in few small ones they are longer than a window.
    fn of_real_links(self, scenario: &Scenario, limits: Option<Limits>) -> MaxSizes {
        let mut random = Random::new(scenario.seed ^ REAL_STREAM);
        let n = u64::from(scenario.n);
        if limits.is_some() || scenario.n > LARGE {
            return self;
        }
        let reply = (LONG_REPLIES / n).min(LONG_DATA);
        let longer = n <= WINDOWS_OF || random.chance(1, n / WINDOWS_OF);
        match random.below(16) {
            0 if n <= WINDOWS_OF => MaxSizes { data: WINDOW + WINDOW / 2, ..self },
            1 if longer => MaxSizes { reply: 2 * (WINDOW + WINDOW / 2) / n.max(2), ..self },
            0..4 => MaxSizes { data: LONG_DATA, reply, ..self },
            4..8 => MaxSizes { reply, ..self },
            _ => self,
        }
    }

    /// Limits the sizes to those of a large world of `n` ids.
    fn of_many(self, n: u64) -> MaxSizes {
        let MaxSizes { reply, reply_header, data, header } = self;
        let [given, asked] = [MANY_REPLIES / n, MANY_REQUESTS / n].map(|most| most.max(NAMED));
        MaxSizes {
            reply: reply.min(given),
            reply_header: reply_header.min(given),
            data: data.min(asked),
            header: header.min(asked),
        }
    }
}

/// Settings of a whole run.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Theme of the run: the faults that were drawn together.
    pub(super) theme: Option<FaultSet>,
    most: MaxSizes,
    /// Whether replies may be so long that they are forwarded as they arrive.
    pub(super) is_long: bool,
    pub(super) short_ways: ShortWays,
    /// Limits of the nodes, where they are narrow.
    pub(super) limits: Option<Limits>,
    /// If set, all calls have the same tree, with this root.
    pub(super) same_ways: Option<Id>,
    /// Whether messages are encoded and decoded.
    pub(super) as_bytes: bool,
    /// Whether the data of requests arrive in pieces; always true where memory may run out.
    pub(super) in_pieces: bool,
    /// Whether nodes sometimes release memory that ended calls have left, as an idle driver does.
    pub(super) gives_back: bool,
    /// Whether sockets are sometimes full; nodes learn when they take bytes again.
    pub(super) full_sockets: bool,
    /// Whether the run times of functions were drawn, because the scenario leaves them open.
    pub(super) times_drawn: bool,
    pub(super) history: History,
    /// Draws limits for replies, where calls have some.
    reply_limits: Option<Random>,
    /// Whether calls scatter: each id gets its own part of the data.
    scatters: bool,
    /// Draws which calls are traced and followed, in worlds with such calls.
    traces: Option<Random>,
    follows: Option<Random>,
}

impl Default for Profile {
    /// Equal for every seed.
    fn default() -> Profile {
        let (short_ways, limits) = (ShortWays::Odd, None);
        Profile {
            theme: None,
            most: MaxSizes::default(),
            is_long: false,
            short_ways,
            limits,
            same_ways: None,
            as_bytes: false,
            in_pieces: false,
            gives_back: false,
            full_sockets: false,
            times_drawn: false,
            history: History::default(),
            reply_limits: None,
            scatters: false,
            traces: None,
            follows: None,
        }
    }
}

impl Profile {
    /// Draws the profile of a run, and the run times of its functions; `used` is its set of faults.
    pub(super) fn draw(random: &mut Random, scenario: &mut Scenario, used: FaultSet) -> Profile {
        let mut times_drawn = false;
        if scenario.func_ns == 0 && scenario.callback_ns == 0 {
            // While a slow function is awaited, faults strike the nodes that wait.
            times_drawn = true;
            let most = *random.pick(&[0, QUICK_NS, SLOW_NS, SLOW_NS]).unwrap_or(&0);
            (scenario.func_ns, scenario.callback_ns) = (random.below(most + 1), random.below(most + 1));
        }
        let n = u64::from(scenario.n);
        let limits = used.has(Fault::Limits).then(|| narrow(random, scenario));
        let most = match random.below(8) {
            // These requests may take the fast path; their funcs reply with more than it holds uncounted.
            0..2 if limits.is_some_and(is_filled) => {
                MaxSizes { reply: 2 * FILLING, reply_header: 32, data: NARROW, header: 2000 }
            }
            2 | 3 if limits.is_some_and(is_filled) => {
                MaxSizes { reply: FILLING, reply_header: FILLING, data: NARROW, header: 32 }
            }
            _ if limits.is_some_and(is_filled) => {
                MaxSizes { reply: FILLING, reply_header: 32, data: FILLING, header: 2000 }
            }
            _ if limits.is_some() => MaxSizes { reply: NARROW, reply_header: 32, data: NARROW, header: 32 },
            0 | 4 => MaxSizes { reply: LONG_REPLIES / n, reply_header: 2000 / n, data: 64, header: 64 },
            1 => MaxSizes { reply: 64, reply_header: 64, data: LONG_DATA, header: 300 },
            2 => MaxSizes { reply: 2000, reply_header: 200, data: 20_000, header: 2000 },
            3 => MaxSizes { reply: 8, ..MaxSizes::default() },
            _ => MaxSizes { reply: 40, reply_header: 16, data: 24, header: 16 },
        };
        let history = History::draw(scenario.seed, scenario.n);
        let limits = limits.map(|limits| Limits { children_odd: history.children_odd, ..limits });
        let most = match limits {
            None if history.long => MaxSizes { reply: LONG_REPLIES / n, ..most },
            _ => most,
        };
        let most =
            if scenario.links == Linking::Peering { most.of_real_links(scenario, limits) } else { most };
        let longer = scenario.links == Linking::Peering && most.reply > LONG_REPLIES / n;
        let is_long = limits.is_none() && (most.reply == LONG_REPLIES / n || longer) && scenario.n <= LARGE;
        let most = if scenario.n > LARGE { most.of_many(n) } else { most };
        let short_ways = [ShortWays::All, ShortWays::Odd, ShortWays::Odd, ShortWays::None];
        let (seed, is_small) = (scenario.seed ^ TRACE_STREAM, scenario.n <= LARGE);
        let some = |stream: u64, parts| {
            let mut random = Random::new(seed.wrapping_add(stream));
            (is_small && random.chance(1, parts)).then_some(random)
        };
        Profile {
            theme: None,
            most,
            is_long,
            short_ways: random.pick(&short_ways).copied().unwrap_or(ShortWays::Odd),
            limits,
            same_ways: None,
            as_bytes: random.chance(1, 4),
            in_pieces: random.chance(1, 2) | limits.is_some_and(is_filled),
            gives_back: {
                // Unused. Without this draw, all later draws would differ, and so would the run of each seed.
                random.chance(1, 4);
                random.chance(1, 4)
            },
            full_sockets: random.chance(1, 3),
            times_drawn,
            reply_limits: used
                .has(Fault::LongReply)
                .then(|| Random::new(scenario.seed.wrapping_add(LONG_REPLY_STREAM))),
            scatters: Random::new(scenario.seed ^ SCATTER_STREAM).chance(1, SCATTERING),
            traces: some(0, TRACING),
            follows: some(1, TRACING),
            history,
        }
    }

    /// Draws whether a call is traced, and when its caller begins to take the replies as they arrive.
    pub(super) fn observed(&mut self) -> (bool, Option<u64>) {
        let traced = self.traces.as_mut().is_some_and(|random| random.chance(1, 2));
        let from = |random: &mut Random| {
            let later = random.below(FOLLOWED_NS);
            random.pick(&[None, Some(0), Some(later)]).copied().flatten()
        };
        (traced, self.follows.as_mut().and_then(from))
    }

    /// Draws the limits of what one of `n` ids may write in a call: about what a func writes, or what callbacks merge.
    pub(super) fn reply_limits(&mut self, n: u64, header_bytes: u32, data_bytes: u32) -> ReplyLimits {
        let Some(random) = &mut self.reply_limits else { return ReplyLimits::UNLIMITED };
        let mut limit = |bytes: u32| match random.below(8) {
            0..4 => u64::MAX,
            4 => bytes.into(),
            5 => u64::from(bytes).saturating_sub(1),
            _ => u64::from(bytes) + random.below(u64::from(bytes) * n + 1),
        };
        ReplyLimits { header_max: limit(header_bytes), data_max: limit(data_bytes) }
    }

    /// Whether the next call forwards its replies as they arrive, without callback: most calls with long replies do.
    pub(super) fn passes_on(&mut self) -> bool {
        self.is_long && self.history.random.chance(3, 4)
    }

    /// Whether memory is the only narrow limit.
    pub(super) fn is_filled(&self) -> bool {
        self.limits.is_some_and(is_filled)
    }

    /// Longest data of a request, and longest reply of a subtree, of `n` ids that each give so much.
    pub(super) fn longest(&self, scenario: &Scenario) -> [u64; 2] {
        let data = scenario.data_bytes.map_or(self.most.data, u64::from);
        let reply = scenario.reply_bytes.map_or(self.most.reply, u64::from);
        [data, (reply + self.most.reply_header + FRAMED) * u64::from(scenario.n)]
    }

    /// Data of a request and reply of an id, bytes, in the calls of the liveness phase: as long as is possible where
    /// bodies are longer than a window, so that windows are needed after all faults, too.
    pub(super) fn probed(&self, n: u32) -> [u32; 2] {
        let MaxSizes { data, reply, .. } = self.most;
        let is_longer = data > WINDOW || reply * u64::from(n) > WINDOW;
        [data, reply].map(|bytes| if is_longer { bytes as u32 } else { 0 })
    }

    /// Longest time between two pieces over a link of this latency, nanoseconds.
    pub(super) fn piece_ns(&self, latency_ns: u64) -> u64 {
        latency_ns * if self.is_filled() { FAR_APART } else { APART }
    }

    /// Time that the data of a request take to one id in the usual number of pieces, nanoseconds.
    pub(super) fn pieces_ns(&self, latency_ns: u64) -> u64 {
        if self.in_pieces { PIECES * self.piece_ns(latency_ns) } else { 0 }
    }

    /// Draws the bytes of each id's reply and of each request's data, and the other contents of a call.
    pub(super) fn carried(&self, random: &mut Random, scenario: &Scenario) -> (u32, u32, Carries) {
        let MaxSizes { reply, reply_header, data, header } = self.most;
        // Empty data are a case of their own.
        let mut size = |most: u64| if random.chance(1, 8) { 0 } else { random.below(most + 1) as u32 };
        let (mut reply, mut data) = (size(reply), size(data));
        let (reply_header_bytes, mut header_bytes) = (size(reply_header), size(header));
        let limited = self.limits.is_some_and(|limits| limits.memory_max == u64::MAX);
        if limited && scenario.n <= LARGE && random.chance(1, 12) {
            // At the maximum, or one byte over.
            header_bytes = HEADER_MAX as u32 + random.below(2) as u32;
        }
        let real = scenario.links == Linking::Peering && self.limits.is_none();
        if real && scenario.n <= LARGE && random.chance(1, HEADER_PARTS) {
            header_bytes = HEADER_MAX as u32;
        }
        let data_max = self.limits.map_or(u64::MAX, |limits| limits.data_max);
        if data_max <= NARROW && random.chance(1, 3) {
            // Exactly the maximum.
            data = data_max as u32;
        }
        let reply_max = self.limits.map_or(u64::MAX, |limits| limits.reply_max);
        if reply_max < u64::MAX && scenario.n <= LARGE && random.chance(1, 6) {
            // One reply is about as long as the limit of all: megabytes in a world of many ids.
            let less = if random.chance(1, 3) { u64::from(reply_header_bytes) } else { random.below(FRAMED) };
            reply = reply_max.saturating_sub(less) as u32;
        }
        let handle = |random: &mut Random, first: u64| first + 2 * random.below(2);
        let mut carries = Carries {
            func: handle(random, 1),
            callback: handle(random, 2),
            header_bytes,
            reply_header_bytes,
            merging: if random.chance(1, 3) { Merging::AsTheyCome } else { Merging::InListOrder },
            as_they_come: random.chance(1, 4),
            reply_limits: ReplyLimits::UNLIMITED,
            scatter: self.scatters && scenario.n <= LARGE && random.chance(1, 2),
            trace: false,
            follow_ns: None,
        };
        if carries.as_they_come && scenario.links == Linking::Peering {
            // The link of a request knows its function, and not its call.
            carries.func |= STREAMING;
        }
        (scenario.reply_bytes.unwrap_or(reply), scenario.data_bytes.unwrap_or(data), carries)
    }
}

/// Whether memory is the only narrow limit of these.
fn is_filled(limits: Limits) -> bool {
    limits.memory_max < u64::MAX && limits.data_max == u64::MAX && limits.reply_max == u64::MAX
}

/// Tree of the calls of the liveness phase: as narrow as the limit of children requires.
pub(super) fn probe_tree(tree: &Tree, children_max: u32) -> Tree {
    let narrow = NonZeroU32::new(children_max).filter(|most| most.get() < u32::MAX);
    narrow.map_or_else(|| tree.clone(), Tree::Kary)
}

/// Draws limits that the calls of a run sometimes reach. They leave room for two nearly empty calls at a time.
fn narrow(random: &mut Random, scenario: &Scenario) -> Limits {
    let n = u64::from(scenario.n);
    let children = u64::from(scenario.tree.fan_out(scenario.n).unwrap_or(scenario.n));
    // Sizes that the scenario sets must pass once all faults are over.
    let given = scenario.reply_bytes.is_some() || scenario.data_bytes.is_some();
    // Where memory is the only narrow limit, calls carry more: too much for this machine in a large world.
    let filled = !given && random.chance(1, 4) && scenario.n <= LARGE;
    let unlimited = |random: &mut Random| random.chance(1, 2) || filled || given;
    let calls_max = random.between(2, 4) as usize;
    let data_max = if unlimited(random) { u64::MAX } else { random.below(NARROW) };
    let reply_more = if unlimited(random) { None } else { Some(random.below(NARROW * n)) };
    let adopted_max = if random.chance(1, 2) { u32::MAX } else { random.below(4) as u32 };
    // One less than the widest call needs. A chain of all ids of a large world would take too long.
    let children_max = match random.chance(1, 6) && children > 1 && scenario.n <= LARGE {
        true => children as u32 - 1,
        false => u32::MAX,
    };
    // Framing of each part on each level. The tree of the liveness phase may be deeper than the world's.
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
            // In some worlds memory is counted and sufficient.
            let enough = if random.chance(1, 3) { FILLED_CALLS * n * FILLING } else { 0 };
            two + random.below(two + FILLING) + enough
        },
    }
}
