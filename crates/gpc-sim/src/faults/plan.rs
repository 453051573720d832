//! Faults of one run: the plan drawn before it starts, and the state of the faults while it runs.
//!
//! Swarm testing: a run uses some of the allowed faults at drawn rates, so that one fault does not hide another.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::mishap::{Act, Acts, Mishap, Timed};
use super::repeats::Repeats;
use super::timing::Timing;
use super::{Fault, FaultSet, Links};
use crate::large::LARGE;
use crate::random::Random;
use crate::ranked::IdSet;

/// Times of a run, nanoseconds: faults begin between `from` and `from` + `span`; no call has a limit over `limit_max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) from: u64,
    pub(crate) span: u64,
    pub(crate) limit_max: u64,
    /// Time after which a silent peer is declared dead, in the two kinds of runs.
    pub(crate) dead_after: [u64; 2],
}

/// Calls given up for each draw of the fault: most have ended by then.
const GIVEN_UP: u64 = 3;

/// Lies for each draw of the fault: most change nothing in any case.
const LIES: u64 = 4;

/// A broken link strikes one of the first this many streaming replies.
const PASSED_ON: u64 = 12;

/// Of eight callbacks of a call, this many defer their reply.
const CALLBACKS_LATER: [u64; 4] = [0, 0, 2, 6];

/// Longest short timing fault, in spans: it ends within the calls that it meets.
const LASTS_SPANS: u64 = 6;

/// Longest long timing fault, in limits of the longest call: waiting ids have given up, and late messages find no call.
const LASTS_LIMITS: u64 = 3;

/// Longest time of an immediate restart: a span divided by this.
const AT_ONCE_PARTS: u64 = 8;

/// Largest number of processes that pause together.
const TOGETHER_MAX: u64 = 6;

/// Up to this many kinds of faults count as few.
const FEW_KINDS: usize = 4;

/// Partitions of a large world beside the first ones: one is active at a time, and each stores a set of all ids.
const PARTITIONS_MAX: u64 = 64;

/// Occasions counted from 0, and the counts at which something happens.
#[derive(Default, Debug)]
struct Occasions {
    chosen: BTreeSet<u64>,
    count: u64,
}

impl Occasions {
    /// Adds counts at which something happens.
    fn choose(&mut self, counts: impl IntoIterator<Item = u64>) {
        self.chosen.extend(counts);
    }

    /// Counts an occasion; returns whether it is chosen.
    fn count_one(&mut self) -> bool {
        let count = self.count;
        self.count += 1;
        self.chosen.contains(&count)
    }
}

/// State of the faults, and those still to come, by the count of requests.
#[derive(Debug)]
pub(crate) struct Mishaps {
    pub(crate) links: Links,
    pub(crate) timing: Timing,
    /// Faults that this run uses.
    pub(crate) used: FaultSet,
    /// End of the last fault.
    pub(crate) end: u64,
    /// Of a thousand messages, the number that is late, and the longest delay.
    late: (u64, u64),
    /// Longest timing fault and longest delay of a message, nanoseconds.
    pub(crate) longest: u64,
    /// Requests after which their sender crashes, and requests that another id copies.
    orphans: BTreeSet<u64>,
    forged: BTreeSet<u64>,
    requests: u64,
    /// Messages that cause a lie.
    lies: Occasions,
    /// Streaming replies that lose a link below before their data are complete.
    broken_replies: Occasions,
    malformed: Occasions,
    /// Replies that their sender does not check against the limits of the call.
    unchecked: Occasions,
    /// Longest delay of a late copy of a request.
    span: u64,
    /// Of eight funcs, this many defer their reply.
    deferring: u64,
    pub(crate) repeats: Repeats,
}

impl Mishaps {
    /// Draws times and places of these faults in a run over ids 0 to `n`.
    pub(crate) fn draw(random: &mut Random, used: FaultSet, n: u32, times: Times) -> (Mishaps, Vec<Timed>) {
        let longest = (times.span * LASTS_SPANS).max(times.limit_max * LASTS_LIMITS);
        // A closed process may restart a span later, and one that is back may pause again for a short time.
        let end = times.from + times.span + longest + times.after();
        let mut mishaps = Mishaps {
            links: Links::default(),
            timing: Timing::default(),
            used,
            longest,
            end,
            late: (0, 0),
            orphans: BTreeSet::new(),
            forged: BTreeSet::new(),
            requests: 0,
            lies: Occasions::default(),
            broken_replies: Occasions::default(),
            malformed: Occasions::default(),
            unchecked: Occasions::default(),
            span: times.span,
            deferring: 1,
            // Refused connections may break links until the end.
            repeats: Repeats::new(if used.has(Fault::Refused) { end } else { times.from + times.span }),
        };
        if !used.is_empty() && random.chance(1, 4) {
            mishaps.deferring = random.between(2, 7);
        }
        let (mut timed, few) = (Vec::new(), used.iter().count() <= FEW_KINDS);
        let most = if few && random.chance(1, 2) { 6 } else { 2 };
        for fault in used.iter() {
            // One or a few, more in a large world; more of each if there are few kinds.
            let more = u64::from(n) / 32;
            let more = if fault == Fault::Partition { more.min(PARTITIONS_MAX) } else { more };
            for _ in 0..random.between(1, most + more) {
                mishaps.draw_one(random, fault, n, times, &mut timed);
            }
        }
        (mishaps, timed)
    }

    fn draw_one(&mut self, random: &mut Random, fault: Fault, n: u32, times: Times, timed: &mut Vec<Timed>) {
        let Times { from, span, .. } = times;
        let at = from + random.below(span);
        let until = at + times.lasts(random);
        // Below n, which is a `u32`.
        let id = random.below(n.into()) as Id;
        let requests = u64::from(n) * 2;
        let mut add = |at, mishap| timed.push(Timed { at, mishap });
        match fault {
            Fault::Crash => add(at, Mishap::Crash(id)),
            Fault::Restart => {
                if self.used.has(Fault::Link) && random.chance(1, 2) {
                    // Some peers then learn of its end through another link, or never.
                    add(at, Mishap::Break { hard: random.chance(1, 2), of: Some(id) });
                }
                let ends = if random.chance(1, 2) { at } else { at + random.below(span) };
                add(ends, Mishap::Crash(id));
                add(until.max(ends + 1), Mishap::Restart(id));
            }
            Fault::Pause if random.chance(1, 4) => {
                // A host pauses with all its processes.
                let together = random.between(2, TOGETHER_MAX).min(u64::from(n)) as u32;
                (0..together).for_each(|more| add(at, Mishap::Pause { id: (id + more) % n, until }));
            }
            Fault::Pause => add(at, Mishap::Pause { id, until }),
            Fault::Announced => timed.extend(announced(random, id, at, times)),
            Fault::Slow => add(at, Mishap::Slow { id, factor: random.between(2, 50), until }),
            Fault::Link if random.chance(1, 4) => self.broken_replies.choose([random.below(PASSED_ON)]),
            Fault::Link | Fault::Duplicate => add(at, Mishap::Break { hard: random.chance(1, 2), of: None }),
            Fault::Partition => {
                add(at, Mishap::Cut { ids: cut_off(random, id, n), until });
            }
            // Few long delays: each holds back all later messages of its link.
            Fault::Delay if random.chance(1, 2) => self.late = (random.between(1, 30), self.longest),
            Fault::Delay => self.late = (random.between(1, 300), 1 + random.below(span)),
            Fault::Fresh => {
                add(at, Mishap::Crash(id));
                add(at + 1 + random.below(span / AT_ONCE_PARTS), Mishap::Restart(id));
            }
            Fault::GiveUp => {
                for _ in 0..GIVEN_UP {
                    add(from + random.below(2 * span), Mishap::GiveUp { call: random.below(8) as usize });
                }
            }
            Fault::Orphan => drop(self.orphans.insert(random.below(requests))),
            Fault::SecondParent => {
                self.forged.extend([random.below(requests), random.below(requests)]);
            }
            Fault::Malformed => self.malformed.choose([random.below(requests), random.below(requests)]),
            Fault::LongReply => self.unchecked.choose([random.below(requests), random.below(requests)]),
            Fault::Forged => self.lies.choose((0..LIES).map(|_| random.below(requests * LIES))),
            Fault::Refused => {
                let other = random.below(n.into()) as Id;
                let from = random.chance(2, 3).then_some(other);
                add(at, Mishap::Refuse { id, from, until });
                // An existing link is not refused.
                if random.chance(1, 2) {
                    add(at + random.below(until - at), Mishap::Break { hard: random.chance(1, 2), of: None });
                }
            }
            Fault::Close => {
                add(at, Mishap::Close(id));
                add(until, Mishap::Crash(id));
                if random.chance(1, 2) {
                    add(until + 1 + random.below(span), Mishap::Restart(id));
                }
            }
            Fault::Fail | Fault::Panic | Fault::Hang | Fault::Twice | Fault::Callback | Fault::Limits => {}
        }
    }

    /// Draws actions of functions at some ids of a call. A hanging func ends within twice the limit `limit_ns`.
    pub(crate) fn acts(&self, random: &mut Random, ids: &[Id], limit_ns: u64) -> Acts {
        let mut acts = Acts::default();
        for fault in self.used.iter() {
            for _ in 0..random.below(3) {
                let Some(&id) = random.pick(ids) else { continue };
                let act = match fault {
                    Fault::Fail if random.chance(1, 3) => Act::FailLater,
                    Fault::Fail if ids.len() <= LARGE as usize && random.chance(1, 4) => Act::Refuse,
                    Fault::Fail => Act::Fail,
                    Fault::Panic => Act::Panic,
                    Fault::Hang => Act::Hang(random.between(1, limit_ns * 2)),
                    Fault::Twice => Act::Twice,
                    Fault::Callback => {
                        acts.callbacks_fail.insert(id);
                        continue;
                    }
                    _ => continue,
                };
                acts.funcs.insert(id, act);
            }
        }
        let later = *random.pick(&CALLBACKS_LATER).unwrap_or(&0);
        let of = if ids.len() > LARGE as usize { 64 } else { 8 }; // Few of many: each adds an event.
        for &id in ids {
            if random.chance(self.deferring, of) {
                acts.funcs.entry(id).or_insert(Act::Defer);
            }
            // The second use of a func's token would pass for the reply of a deferring callback.
            if random.chance(later, of) && acts.funcs.get(&id) != Some(&Act::Twice) {
                acts.callbacks_later.insert(id);
            }
        }
        acts
    }

    /// Delay of a message.
    pub(crate) fn lateness(&self, random: &mut Random, now: u64) -> u64 {
        let (parts, most) = self.late;
        if parts == 0 || now >= self.end || !random.chance(parts, 1000) { 0 } else { random.below(most) }
    }

    /// Counts a request; returns whether its sender then crashes, and whether another id copies it.
    pub(crate) fn request(&mut self, now: u64) -> (bool, bool) {
        if now >= self.end {
            return (false, false);
        }
        let count = self.requests;
        self.requests += 1;
        (self.orphans.contains(&count), self.forged.contains(&count))
    }

    /// Counts a message of a call; returns whether another id sends a lie about it. Not after the last fault.
    pub(crate) fn count_message(&mut self, now: u64) -> bool {
        self.lies.count_one() && now < self.end
    }

    /// Counts a streaming reply; returns whether a link below breaks now. Not after the last fault.
    pub(crate) fn breaks_reply(&mut self, now: u64) -> bool {
        self.broken_replies.count_one() && now < self.end
    }

    /// Counts an answer; returns whether it is malformed. Not after the last fault.
    pub(crate) fn count_answer(&mut self, now: u64) -> bool {
        self.malformed.count_one() && now < self.end
    }

    /// Counts a combined reply of a call with limits; returns whether it exceeds them. Not after the last fault.
    pub(crate) fn count_limited(&mut self, now: u64) -> bool {
        self.unchecked.count_one() && now < self.end
    }

    /// Delay of a copied request of normal delay `ns`: about that, or, in `late` of three cases, until after its call.
    pub(crate) fn copy_takes(&self, random: &mut Random, ns: u64, late: u64) -> u64 {
        let late = if random.chance(late, 3) { random.below(self.span.max(1)) } else { 0 };
        late + 1 + random.below(2 * ns + 1)
    }
}

impl Times {
    /// Time after the longest timing fault in which further faults may last.
    pub(crate) fn after(self) -> u64 {
        (3 + LASTS_SPANS) * self.span
    }

    /// Draws the length of a timing fault.
    fn lasts(self, random: &mut Random) -> u64 {
        let short = self.span * LASTS_SPANS;
        let most = match random.below(8) {
            0..4 => short,
            // Close to the time after which a peer is declared dead.
            4 => {
                let dead_after = *random.pick(&self.dead_after).unwrap_or(&short);
                return dead_after / 2 + random.below(dead_after);
            }
            _ => short.max(self.limit_max * LASTS_LIMITS),
        };
        1 + random.below(most)
    }
}

/// Draws the ids to cut off of `n`: a range of ids, as of some hosts, or any ids.
fn cut_off(random: &mut Random, id: Id, n: u32) -> IdSet {
    let last = id.saturating_add(random.below(u64::from(n - id)) as Id);
    match random.chance(1, 3) {
        true => (id..=last).collect(),
        false => (0..n).filter(|_| random.chance(1, 3)).collect(),
    }
}

/// Draws an announced pause, and perhaps a restart and an unannounced pause, to show whether peers rely on it.
fn announced(random: &mut Random, id: Id, at: u64, times: Times) -> Vec<Timed> {
    let lasts = times.lasts(random);
    // Three of four keep to the announced length, and some of them are back early.
    let more = random.below(lasts);
    // Some announce a longer pause first, which is mostly the correct one.
    let before = random.chance(1, 3).then(|| (lasts + more).saturating_mul(random.between(1, 4)));
    let keeps = if before.is_some() { random.chance(1, 4) } else { random.chance(3, 4) };
    let mut stated = if keeps { lasts + more } else { 1 + more };
    let pause = |stated| Timed { at, mishap: Mishap::Announced { id, before, stated, until: at + lasts } };
    if random.chance(1, 2) {
        return vec![pause(stated)];
    }
    let (mut back, mut anew) = (at + lasts, None);
    if random.chance(1, 2) {
        let ends = at + 1 + random.below(lasts);
        back = ends + 1 + random.below(times.span / AT_ONCE_PARTS);
        anew = Some([(ends, Mishap::Crash(id)), (back, Mishap::Restart(id))]);
    }
    let still = back + 1 + random.below(times.span);
    let until = still + times.span + random.below(times.span * LASTS_SPANS);
    if random.chance(2, 3) {
        // The announced length would last until the end of the second pause.
        stated = until - at + more;
    }
    let anew = anew.into_iter().flatten().map(|(at, mishap)| Timed { at, mishap });
    let again = Timed { at: still, mishap: Mishap::Pause { id, until } };
    std::iter::once(pause(stated)).chain(anew).chain([again]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times =
        Times { from: 1_000_000, span: 1_000, limit_max: 150_000, dead_after: [4_000, 30_000] };

    fn drawn(fault: Fault) -> Vec<(Mishaps, Vec<Timed>)> {
        let allowed = FaultSet::from_iter([fault]);
        (0..200).map(|seed| Mishaps::draw(&mut Random::new(seed), allowed, 8, TIMES)).collect()
    }

    #[test]
    fn faults_of_time_end_within_a_call_or_outlast_its_limit() {
        let mut lasted = Vec::new();
        for (mishaps, timed) in drawn(Fault::Pause) {
            for Timed { at, mishap } in timed {
                let Mishap::Pause { until, .. } = mishap else { panic!("{mishap:?}") };
                assert!((TIMES.from..TIMES.from + TIMES.span).contains(&at) && until <= mishaps.end);
                lasted.push(until - at);
            }
        }
        assert!(lasted.iter().filter(|&&ns| ns <= TIMES.span * LASTS_SPANS).count() > 50);
        assert!(lasted.iter().filter(|&&ns| ns > TIMES.limit_max).count() > 20);
        assert!(lasted.iter().filter(|&&ns| ns > TIMES.limit_max * 2).count() > 5);
    }

    #[test]
    fn who_begins_anew_at_once_is_away_for_a_moment() {
        for (_, timed) in drawn(Fault::Fresh) {
            for pair in timed.chunks(2) {
                let [
                    Timed { at: ends, mishap: Mishap::Crash(id) },
                    Timed { at: begins, mishap: Mishap::Restart(again) },
                ] = pair
                else {
                    panic!("{pair:?}")
                };
                assert!(id == again && ends < begins && begins - ends <= TIMES.span / AT_ONCE_PARTS);
            }
        }
    }
}
