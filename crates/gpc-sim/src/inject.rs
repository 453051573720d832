//! Injects faults, and plans the runs that have them.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::{Id, IdList, Tree};

use super::check::{Carries, Observation, Plan};
use super::event::Event;
use super::faults::{Acts, Fault, FaultSet, Mishap, Mishaps, Repeat, Timed, Times, some_of};
use super::large::LARGE;
use super::parcel::{Parcel, Sent};
use super::profile::{Profile, probe_tree};
use super::ranges::forget;
use super::scenario::Scenario;
use super::time::BEGIN;
use super::world::World;
use chained_gpc::chain::{Heartbeat, Input, Node, Sizes};
use chained_gpc::link::peering::GREETING_LIMIT;
use chained_gpc::wire::{CauseKind, Message};

/// Shortest time limit of a call in a world with faults, nanoseconds. Slow calls have longer ones.
const LIMIT_MIN_NS: u64 = 50_000_000;

/// Longest time limit of a call, in units of the shortest: some calls end while others go on.
const LIMITS_MAX: u64 = 3;

/// Where functions hang, one in this many calls has a time limit near its normal duration.
const TIGHT_PARTS: u64 = 4;

/// One in this many calls is of the other kind: whole among partial calls, or partial among whole ones.
const OTHER_KIND_PARTS: u64 = 5;

/// Latest time after a loss at which an end learns of it, in latencies.
pub(super) const NOTICED_LATENCIES: u64 = 50;

/// Heartbeats within the shortest time limit, unless their interval is the duration of a call; and intervals after
/// which a silent peer is declared dead.
const LIMIT_BEATS: u64 = 20;
const DEAD_BEATS: u64 = 4;

/// Heartbeats within the shortest time limit in a large world, where more would dominate the run. A silent peer is
/// declared dead before a call with the longest limit ends.
const HEARTBEATS_OF_MANY: u64 = 2;

/// Lower bound on the time that requests may be in flight, where no fault lasts longer.
const UNDER_WAY_MIN: Duration = Duration::from_secs(1);

/// Upper bound on the time that retained answers outlast their call, with a margin: afterwards the world is quiet.
pub(super) const QUIET_NS: u64 = 4_000_000_000;

/// Times at which a process pauses that has announced a pause before.
fn still_again(timed: &[Timed]) -> impl Iterator<Item = u64> {
    let mut announced: BTreeMap<Id, u64> = BTreeMap::new();
    for it in timed {
        if let Mishap::Announced { id, .. } = it.mishap {
            let first = announced.entry(id).or_insert(it.at);
            *first = it.at.min(*first);
        }
    }
    let again = move |it: &Timed| {
        let Mishap::Pause { id, .. } = it.mishap else { return None };
        announced.get(&id).filter(|first| **first < it.at).map(|_| it.at)
    };
    timed.iter().filter_map(again)
}

/// Rough upper estimate of the time of a call over `n` ids without faults, nanoseconds.
fn expected_ns(scenario: &Scenario, tree: &Tree, n: u32) -> u64 {
    let depth = u64::from(tree.depth(n).unwrap_or(n.min(64)));
    let fan_out = u64::from(tree.fan_out(n).unwrap_or(n));
    let cost = scenario.costs.elsewhere;
    let hop = cost.latency_ns + 2 * cost.overhead_ns + cost.gap_ns;
    let work = scenario.func_ns + scenario.callback_ns * fan_out.min(64);
    2 * (depth + 1) * hop + 2 * fan_out * (cost.overhead_ns + cost.gap_ns) + (depth + 1) * work + 50_000
}

impl World {
    /// Plans a run with faults: calls and faults at any time in the safety phase. Then the faults stop, and calls that
    /// must reach every id check that nothing is left of them.
    pub(super) fn plan_faulty(&mut self) {
        let Scenario { n, calls, faults, .. } = self.scenario;
        let (used, theme) = some_of(&mut self.random, self.scenario.seed, faults);
        self.profile = Profile::draw(&mut self.random, &mut self.scenario, used);
        self.profile.theme = theme;
        self.make_room_for_messages();
        if let Some(limits) = self.profile.limits {
            self.observe(&Observation::Limits(limits));
            self.inject(Fault::Limits, &[]);
        }
        let descendants = self.profile.history.sizes.descendants;
        if descendants < Sizes::default().descendants {
            self.observe(&Observation::Descendants(descendants.into()));
        }
        let (took, limit) = self.expected();
        let span = took * self.random.between(1, 3);
        let times = Times {
            from: BEGIN,
            span,
            limit_max: limit * LIMITS_MAX,
            dead_after: [took, limit / LIMIT_BEATS].map(|every| every * DEAD_BEATS),
        };
        let (mishaps, timed) = Mishaps::draw(&mut self.random, used, n, times);
        let stalls = &mut self.profile.history.stalls;
        *stalls = n <= LARGE && (used.has(Fault::Delay) || *stalls && faults.has(Fault::Delay));
        let history = &mut self.profile.history;
        history.copies = used.has(Fault::SecondParent)
            || history.calls_others && n <= LARGE && faults.has(Fault::SecondParent);
        // A request may be late, and then also wait for the end of a partition.
        self.settings.under_way_max =
            Duration::from_nanos(times.after() + 2 * mishaps.longest).max(UNDER_WAY_MIN);
        if mishaps.used.has(Fault::Fresh) {
            self.begin_lately(span);
            self.inject(Fault::Fresh, &[]);
        }
        // With a single worker, calls wait for each other.
        self.settings.workers = if self.random.chance(1, 2) { 1 } else { self.random.between(2, 3) as usize };
        self.draw_heartbeat(used, took, limit);
        // Messages sent before the end of the last fault may be late.
        let end = mishaps.end + mishaps.longest;
        if self.random.chance(1, 3) {
            (0..n).filter(|_| self.random.below(2) == 1).for_each(|id| self.hosts.put_ahead(id));
        }
        let anew = |it: &Timed| if let Mishap::Restart(id) = it.mishap { Some((id, it.at)) } else { None };
        let mut roots: Vec<(Id, u64)> = timed.iter().filter_map(anew).collect();
        let several = [Fault::GiveUp, Fault::SecondParent, Fault::Duplicate];
        let parts = if used.has_any(&several) { 2 } else { 5 };
        if self.random.chance(1, parts) {
            // The state that one call leaves at its root meets the next call.
            roots = vec![(self.random.below(n.into()) as Id, BEGIN)];
        }
        if let Some(root) = self.profile.history.root(n) {
            roots = vec![(root, BEGIN)];
        }
        // A process that pauses a second time should then have calls waiting for it.
        let still = still_again(&timed).map(|at| at.saturating_sub(span));
        roots.extend(still.map(|at| (self.random.below(n.into()) as Id, at)));
        // If calls share one tree, links and the state of their peers outlast a call.
        let ways = if used.has_any(&[Fault::Announced, Fault::Link, Fault::Restart]) { 2 } else { 8 };
        self.profile.same_ways = self.random.chance(1, ways).then(|| self.random.below(n.into()) as Id);
        for _ in 0..calls {
            self.draw_call(&mishaps, (took, limit), span, &roots);
        }
        self.mishaps = Some(mishaps);
        for Timed { at, mishap } in timed {
            self.queue.push(at, Event::Mishap(Box::new(mishap)));
        }
        // A function may hang for twice its limit, and behind others that hang.
        self.settled_at(end + limit * LIMITS_MAX * (2 * u64::from(calls) + 2) + QUIET_NS);
    }

    /// Real connections have room for a good part of the longest message.
    fn make_room_for_messages(&mut self) {
        let longest = self.profile.longest(&self.scenario);
        let memory = self.profile.limits.map_or(u64::MAX, |limits| limits.memory_max);
        self.linked.iter_mut().for_each(|linked| {
            linked.suffice_for(longest);
            linked.limit_memory(memory);
        });
    }

    /// Draws whether nodes send heartbeat requests, and how often.
    fn draw_heartbeat(&mut self, used: FaultSet, took: u64, limit: u64) {
        // Where processes fall silent, heartbeats are likely.
        let silent = used.has_any(&[Fault::Announced, Fault::Pause, Fault::Partition, Fault::Slow]);
        if self.random.chance(if silent { 3 } else { 2 }, 4) {
            // Some peers are declared dead long before their call's limit; the length of timing faults lies in between.
            let every_ns = match self.random.chance(1, 2) {
                // Each of the many waiting nodes sends requests.
                _ if self.scenario.n > LARGE => limit / HEARTBEATS_OF_MANY,
                true => limit / LIMIT_BEATS,
                false => took,
            };
            let dead_after_ns = every_ns * DEAD_BEATS;
            // If the interval is so long that one late answer would mean death, a node sends three requests in that
            // time.
            let seldom =
                self.random.chance(1, 8).then(|| self.random.between(dead_after_ns / 2, 2 * dead_after_ns));
            let (every, dead_after) =
                (Duration::from_nanos(seldom.unwrap_or(every_ns)), Duration::from_nanos(dead_after_ns));
            self.settings.heartbeat = Some(Heartbeat { every, dead_after });
            let every_ns = if seldom.is_some() { dead_after_ns / 3 } else { every_ns };
            self.observe(&Observation::Heartbeat { every_ns, dead_after_ns });
        }
    }

    /// Gives the processes different start times shortly before the world begins, as just launched.
    pub(super) fn begin_lately(&mut self, span: u64) {
        for id in 0..self.scenario.n {
            self.hosts.at(id).begun = BEGIN - 1 - self.random.below(span);
        }
    }

    /// Duration of a call over all ids, and shortest time limit of a call, nanoseconds.
    pub(super) fn expected(&self) -> (u64, u64) {
        let Scenario { tree, n, calls, .. } = &self.scenario;
        let took = expected_ns(&self.scenario, tree, *n);
        // In a chain, each id waits for all data before it forwards them.
        let pieces = self.profile.pieces_ns(self.scenario.costs.elsewhere.latency_ns);
        let [data, reply] = self.profile.longest(&self.scenario);
        let latency = self.scenario.costs.elsewhere.latency_ns;
        // What is written at once arrives at once, when its last byte does.
        let bytes_ns = self.scenario.costs.elsewhere.bytes_ns(data + reply);
        let waits =
            self.linked.as_ref().map_or(0, |linked| linked.waits_ns(latency, data + reply) + bytes_ns);
        let took = took + waits;
        let pieces = u64::from(tree.depth(*n).unwrap_or(*n)) * (pieces + waits * u64::from(*calls));
        (took, World::whole_us((took * 20).max(LIMIT_MIN_NS).max(took + pieces)))
    }

    /// Schedules the liveness phase: checks of what idle nodes hold, then calls that must reach every live id.
    pub(super) fn settled_at(&mut self, mut settled: u64) {
        if self.linked.is_some() {
            // By then all greetings have timed out.
            settled += GREETING_LIMIT.as_nanos() as u64;
        }
        self.queue.push(settled, Event::Settled);
        self.queue.push(settled, Event::Probe { partial: false });
        if self.scenario.n <= LARGE {
            // In a large world two such calls would take most of the time. A node with both in flight needs far more
            // memory than an idle one.
            self.queue.push(settled, Event::Probe { partial: true });
        }
    }

    /// Draws a call, perhaps with one of these `roots` as root, at any time or after the root's restart.
    fn draw_call(&mut self, mishaps: &Mishaps, (took, limit): (u64, u64), span: u64, roots: &[(Id, u64)]) {
        let random = &mut self.random;
        let mut ids: Vec<Id> = (0..self.scenario.n).collect();
        let again = if random.chance(3, 4) { random.pick(roots).copied() } else { None };
        let from = again.map(|(_, at)| at).filter(|_| random.chance(2, 3)).unwrap_or(BEGIN);
        let root = again.map_or_else(|| random.below(ids.len() as u64) as Id, |(id, _)| id);
        let same = self.profile.same_ways;
        ids.swap(0, same.unwrap_or(root) as usize);
        if same.is_none() && random.chance(1, 2) {
            random.shuffle(&mut ids[1..]);
        }
        // An explicit shape fits a single length.
        if same.is_none() && !matches!(self.scenario.tree, Tree::Explicit(_)) && random.chance(1, 3) {
            ids.truncate(1 + random.below(ids.len() as u64) as usize);
        }
        let limit_ns =
            if mishaps.used.has(Fault::Hang) && self.scenario.n <= LARGE && random.chance(1, TIGHT_PARTS) {
                // About the duration of the call, or less: part of the call is done when its limit passes.
                World::whole_us(took / 4 + random.below(2 * took))
            } else {
                limit * random.between(1, LIMITS_MAX)
            };
        let (reply_bytes, data_bytes, mut carries) = self.profile.carried(random, &self.scenario);
        let alike = self.profile.history.alike.filter(|_| !self.profile.is_long);
        carries.merging = alike.unwrap_or(carries.merging);
        let (count, header) = (ids.len() as u64, carries.reply_header_bytes);
        carries.reply_limits = self.profile.reply_limits(count, header, reply_bytes);
        (carries.trace, carries.follow_ns) = self.profile.observed();
        let Acts { funcs, callbacks_fail, callbacks_later } = mishaps.acts(random, &ids, limit_ns);
        // Mixing both kinds of calls at an id tests that neither takes state of the other.
        let other = random.chance(1, OTHER_KIND_PARTS);
        let plan = Plan {
            ids: IdList::from_ids(ids).expect("a permutation has no id twice"),
            tree: self.profile.history.tree(&self.scenario.tree),
            partial: self.scenario.partial != other,
            watch: random.chance(1, 4),
            reply_wanted: self.scenario.reply_bytes != Some(0) && random.chance(3, 4),
            callback: random.chance(2, 5) && !self.profile.passes_on() || alike.is_some(),
            forward_first: random.chance(1, 3),
            data_bytes,
            limit_ns,
            reply_bytes,
            carries,
        };
        let at = from + random.below(span);
        if limit_ns < limit {
            // A short limit acts on all ids below the root like a hanging root.
            self.inject(Fault::Hang, plan.ids.first().as_slice());
        }
        let index = self.calls.add(plan, false);
        let state = &mut self.calls.all[index];
        (state.acts, state.callbacks_fail, state.callbacks_later) = (funcs, callbacks_fail, callbacks_later);
        self.queue.push(at, Event::Start(index));
    }

    /// Starts a call over all live ids after the faults.
    pub(super) fn probe(&mut self, partial: bool) {
        let alive: Vec<Id> = (0..self.scenario.n).filter(|&id| self.hosts.is_up(id)).collect();
        if alive.is_empty()
            || matches!(self.scenario.tree, Tree::Explicit(_)) && alive.len() < self.scenario.n as usize
        {
            return;
        }
        let longest = self.calls.all.iter().map(|call| call.plan.limit_ns).max();
        let most = self.profile.limits.map_or(u32::MAX, |limits| limits.children_max);
        let tree = probe_tree(&self.scenario.tree, most);
        let least = self.expected().1.max(expected_ns(&self.scenario, &tree, self.scenario.n));
        let limit_ns = longest.unwrap_or_default().max(least);
        let [data, reply] = self.profile.probed(self.scenario.n);
        let plan = Plan {
            ids: IdList::from_ids(alive).expect("every id comes once"),
            tree,
            partial,
            watch: false,
            reply_wanted: true,
            callback: false,
            forward_first: false,
            data_bytes: self.scenario.data_bytes.unwrap_or(data),
            limit_ns,
            reply_bytes: self.scenario.reply_bytes.unwrap_or(reply).max(4),
            carries: Carries::default(),
        };
        let index = self.calls.add(plan, true);
        self.start(index);
    }

    pub(super) fn mishap(&mut self, mishap: Mishap) {
        match mishap {
            Mishap::Crash(id) if self.hosts.is_up(id) => self.crash(id),
            Mishap::Restart(id) if !self.hosts.is_up(id) => {
                self.inject(Fault::Restart, &[id]);
                self.hosts.begin_again(id, self.now);
            }
            Mishap::Pause { id, until } if self.hosts.is_up(id) && self.paused_until(id).is_none() => {
                self.inject(Fault::Pause, &[id]);
                self.with_mishaps(|mishaps| mishaps.timing.pause(id, until));
                self.queue.push(until, Event::Resumed(id));
            }
            Mishap::Announced { id, before, stated, until }
                if self.hosts.is_up(id) && self.paused_until(id).is_none() =>
            {
                self.inject(Fault::Announced, &[id]);
                // The later announcement counts.
                let said = before.into_iter().chain([stated]);
                said.for_each(|length| self.tell_peers(id, Duration::from_nanos(length)));
                self.with_mishaps(|mishaps| mishaps.timing.announce(id, until));
                self.queue.push(until, Event::Resumed(id));
            }
            Mishap::Slow { id, factor, until } if self.hosts.is_up(id) => {
                self.inject(Fault::Slow, &[id]);
                self.with_mishaps(|mishaps| mishaps.timing.slow_down(id, factor, until));
            }
            Mishap::Break { hard, of } if self.linked.is_some() => self.break_connection(hard, of),
            Mishap::Break { hard, of } => self.break_one(hard, of),
            Mishap::Cut { .. }
                if self.mishaps.as_ref().is_some_and(|mishaps| mishaps.timing.is_cut(self.now)) => {}
            Mishap::Cut { ids, until } => {
                self.inject(Fault::Partition, &[]);
                self.with_mishaps(|mishaps| mishaps.timing.cut(ids, until));
            }
            Mishap::Refuse { id, from, until } => {
                self.with_mishaps(|mishaps| mishaps.timing.refuse(id, from, until));
            }
            Mishap::Close(id) if self.hosts.is_up(id) => {
                self.inject(Fault::Close, &[id]);
                self.node(id).into_iter().for_each(Node::close);
                self.leaves_in_order(id);
            }
            Mishap::GiveUp { call } => self.give_up(call),
            Mishap::Again { from, to, runs, message } => self.again(from, to, runs, *message),
            Mishap::Crash(_) | Mishap::Restart(_) | Mishap::Slow { .. } => {}
            Mishap::Pause { .. } | Mishap::Announced { .. } | Mishap::Close(_) => {}
        }
    }

    /// Sends the length of a pause to every linked peer; zero ends the pause.
    fn tell_peers(&mut self, id: Id, length: Duration) {
        let modelled = || self.mishaps.as_ref().map(|mishaps| mishaps.links.peers_of(id)).unwrap_or_default();
        let peers = self.linked.as_ref().map_or_else(modelled, |linked| linked.peers_of(id));
        for peer in peers {
            self.send(id, peer, Message::Pause(length));
        }
    }

    /// Continues a paused process.
    pub(super) fn resume(&mut self, id: Id) {
        self.trace.say(self.now, format_args!("{id} goes on"));
        self.observe(&Observation::Resumed { id });
        if self.mishaps.as_mut().is_some_and(|mishaps| mishaps.timing.goes_on(id)) {
            self.tell_peers(id, Duration::ZERO);
        }
    }

    fn with_mishaps(&mut self, change: impl FnOnce(&mut Mishaps)) {
        if let Some(mishaps) = &mut self.mishaps {
            change(mishaps);
        }
    }

    pub(super) fn crash(&mut self, id: Id) {
        self.inject(Fault::Crash, &[id]);
        self.hosts.end(id);
        self.streaming.ended(id);
        forget(&mut self.asked, (id, 0)..=(id, Id::MAX));
        let hard = self.random.chance(1, 2);
        let Some(mishaps) = &mut self.mishaps else { return };
        mishaps.timing.forget(id);
        let affected = mishaps.links.end_of(id, hard);
        if self.linked.is_some() {
            self.end_connections(id, hard);
        }
        self.drop_lost_pieces(id, None);
        self.observe(&Observation::Ended { id });
        for (peer, epoch) in affected {
            self.tell(peer, id, epoch);
        }
    }

    /// Schedules the notice of a lost link at one end.
    fn tell(&mut self, id: Id, peer: Id, epoch: u32) {
        if !self.hosts.is_up(id) {
            return;
        }
        let latest = self.hosts.cost(id, peer).latency_ns * NOTICED_LATENCIES;
        let at = self.now + 1 + self.random.below(latest.max(1));
        let run = self.hosts.run(id);
        self.queue.push(at, Event::Notice { id, run, peer, epoch });
    }

    /// Breaks one of the links that are up: one of the given id's, if it has any.
    fn break_one(&mut self, hard: bool, of: Option<Id>) {
        let Some(mishaps) = &mut self.mishaps else { return };
        let peers = of.map(|id| mishaps.links.peers_of(id)).unwrap_or_default();
        let place = self.random.below(mishaps.links.up() as u64) as usize;
        let own = of.zip(self.random.pick(&peers).copied());
        let Some((a, b)) = own.or_else(|| mishaps.links.up_at(place)) else { return };
        let Some(epoch) = mishaps.links.break_up(a, b, hard) else { return };
        let again = mishaps.repeats.again(&mut self.random, a, b);
        let fault = if again.is_empty() { Fault::Link } else { Fault::Duplicate };
        self.inject(fault, &[a, b]);
        self.tell(a, b, epoch);
        self.tell(b, a, epoch);
        self.come_again(a, b, again);
    }

    /// Schedules the repeats of messages of a link that broke.
    pub(super) fn come_again(&mut self, a: Id, b: Id, again: Vec<Repeat>) {
        let latest = self.hosts.cost(a, b).latency_ns * NOTICED_LATENCIES * 2;
        for Repeat { from, to, runs, message } in again {
            let at = self.now + 1 + self.random.below(latest.max(1));
            let message = Box::new(message);
            let again = Mishap::Again { from, to, runs, message };
            self.queue.push(at, Event::Mishap(Box::new(again)));
        }
    }

    /// Repeats a message of a link that broke, on the next link. Both processes must be the same runs: each link is
    /// between two runs, so no run repeats messages of an earlier one.
    fn again(&mut self, from: Id, to: Id, runs: [u32; 2], message: Message) {
        let same = |id, run| self.hosts.is_up(id) && self.hosts.run(id) == run;
        if !same(from, runs[0]) || !same(to, runs[1]) {
            return;
        }
        if self.linked.is_some() {
            return self.send_again(from, to, message);
        }
        let Some(passage) = self.mishaps.as_mut().and_then(|mishaps| mishaps.links.reopen(from, to)) else {
            return;
        };
        self.trace
            .say(self.now, format_args!("*** again: {}", super::trace::MessageText(from, to, &message)));
        let (begun, sent) = (self.hosts.incarnation(from), Sent::at(self.now));
        self.on_its_way(Parcel { from, to, passage, begun, sent, message }, self.now);
    }

    /// A node drops a link by itself; the other end learns of it.
    pub(super) fn abandon(&mut self, id: Id, peer: Id) {
        self.trace.fold_deep([self.now, 12, id.into(), peer.into()]);
        self.observe(&Observation::Abandoned { at: id, peer });
        self.streaming.lost(id, peer);
        if self.linked.is_some() {
            return self.abandon_link(id, peer);
        }
        let Some(mishaps) = &mut self.mishaps else { return };
        let closed = mishaps.links.abandon(id, peer);
        self.drop_lost_pieces(id, Some(peer));
        self.observe(&Observation::LinkEnded { at: id, peer, unreached: false });
        let Some(epoch) = closed else { return };
        self.inject(Fault::Link, &[id, peer]);
        self.tell(peer, id, epoch);
    }

    /// One end learns that its link is lost, unless it knows already.
    pub(super) fn notice(&mut self, id: Id, run: u32, peer: Id, epoch: u32) {
        if !self.hosts.is_up(id) || self.hosts.run(id) != run {
            return;
        }
        let unreached = self.mishaps.as_mut().and_then(|mishaps| mishaps.links.note_loss(id, peer, epoch));
        unreached.into_iter().for_each(|unreached| self.lose_link(id, peer, unreached));
    }

    pub(super) fn lose_link(&mut self, id: Id, peer: Id, unreached: bool) {
        let why = if unreached { "connection refused" } else { "connection reset" };
        let kind = if unreached { CauseKind::Unreachable } else { CauseKind::LinkLost };
        self.lose_link_for(id, peer, kind, why.into(), unreached);
    }

    /// Reports a lost link to its node, with the given cause.
    pub(super) fn lose_link_for(&mut self, id: Id, peer: Id, kind: CauseKind, why: String, unreached: bool) {
        self.trace.fold([self.now, 9, id.into(), peer.into()]);
        self.trace.say(self.now, format_args!("{id} has lost its link to {peer}"));
        self.observe(&Observation::LinkEnded { at: id, peer, unreached });
        self.streaming.lost(id, peer);
        self.drop_lost_pieces(id, Some(peer));
        self.input(id, Input::LinkLost { peer, kind, why, unreached });
    }

    fn give_up(&mut self, index: usize) {
        let Some(call) = self.calls.all.get(index).filter(|call| call.name.is_some() && call.ended.is_none())
        else {
            return;
        };
        let Some(root) = call.plan.ids.first().filter(|&root| self.hosts.is_up(root)) else { return };
        if self.paused_until(root).is_none() {
            self.inject(Fault::GiveUp, &[root]);
            let name = self.calls.all[index].name;
            name.into_iter().for_each(|call| self.observe(&Observation::GivenUp { call }));
            self.input(root, Input::GiveUp { ticket: index as u64 });
        }
    }

    /// Ends the sender of a request before it can receive a response.
    pub(super) fn orphan(&mut self, id: Id, child: Id, arrival: u64) {
        self.inject(Fault::Orphan, &[id]);
        let way = 2 * (arrival - self.now) + 1;
        let at = self.now + self.random.below(way);
        self.queue.push(at, Event::Mishap(Box::new(Mishap::Crash(id))));
        let begins_anew =
            self.mishaps.as_ref().is_some_and(|it| it.used.has_any(&[Fault::Fresh, Fault::Restart]));
        if begins_anew && self.random.chance(1, 2) {
            // The receiver may have executed the request, and after a restart it has forgotten that when an adopter
            // sends it again.
            let ends = arrival + self.random.below(way);
            self.queue.push(ends, Event::Mishap(Box::new(Mishap::Crash(child))));
            let begins = ends + 1 + self.random.below(way);
            self.queue.push(begins, Event::Mishap(Box::new(Mishap::Restart(child))));
        }
    }
}
