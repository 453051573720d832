//! Faults of one run: the plan drawn before it starts, and the state of the faults while it runs.
//!
//! Swarm testing: a run uses some of the allowed faults at drawn rates, so that one fault does not hide another.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::{Fault, FaultSet, Links};
use crate::random::Random;
use crate::ranked::IdSet;
use crate::world::LARGE;
use chained_gpc::wire::Message;

/// Times of a run, nanoseconds: faults begin between `from` and `from` + `span`; no call has a limit over `limit_max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) from: u64,
    pub(crate) span: u64,
    pub(crate) limit_max: u64,
    /// Time after which a silent peer is declared dead, in the two kinds of runs.
    pub(crate) dead_after: [u64; 2],
}

/// A fault at its time.
#[derive(Clone, Debug)]
pub(crate) enum Mishap {
    Crash(Id),
    Restart(Id),
    Pause {
        id: Id,
        until: u64,
    },
    /// A pause that is announced to the linked peers with a length of `stated` nanoseconds.
    Announced {
        id: Id,
        /// Length announced just before, nanoseconds.
        before: Option<u64>,
        stated: u64,
        until: u64,
    },
    Slow {
        id: Id,
        factor: u64,
        until: u64,
    },
    /// Breaks a link that is up at the time: one of the given id's, if it has any.
    Break {
        hard: bool,
        of: Option<Id>,
    },
    Cut {
        ids: IdSet,
        until: u64,
    },
    GiveUp {
        call: usize,
    },
    /// An id refuses connections from one other id, or from all.
    Refuse {
        id: Id,
        from: Option<Id>,
        until: u64,
    },
    /// A process takes no more calls.
    Close(Id),
    /// A message of a link that broke arrives again.
    Again {
        from: Id,
        to: Id,
        runs: [u32; 2],
        message: Box<Message>,
    },
}

/// A fault and its time, nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) at: u64,
    pub(crate) mishap: Mishap,
}

/// Action of a func that does not simply reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Fail,
    /// The function is unknown at this id.
    Refuse,
    /// Keeps its token, and fails with it later.
    FailLater,
    Panic,
    /// Ends after this time, nanoseconds.
    Hang(u64),
    /// Replies later, which is not a fault.
    Defer,
    Twice,
}

/// Actions of the functions of a call that do not simply reply.
#[derive(Clone, Default, Debug)]
pub(crate) struct Acts {
    pub(crate) funcs: BTreeMap<Id, Act>,
    /// Ids whose callback fails.
    pub(crate) callbacks_fail: BTreeSet<Id>,
    /// Ids whose callback defers its reply.
    pub(crate) callbacks_later: BTreeSet<Id>,
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

/// Messages of a link that may be repeated after it broke.
const KEPT: usize = 4;

/// A message, and the runs of its sender and receiver.
#[derive(Debug)]
struct Repeatable {
    runs: [u32; 2],
    message: Message,
}

/// A repeated message.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) from: Id,
    pub(crate) to: Id,
    pub(crate) runs: [u32; 2],
    pub(crate) message: Message,
}

/// State of the faults, and those still to come, by the count of requests.
#[derive(Debug)]
pub(crate) struct Mishaps {
    pub(crate) links: Links,
    /// Faults that this run uses.
    pub(crate) used: FaultSet,
    /// End of the last fault.
    pub(crate) end: u64,
    paused: BTreeMap<Id, u64>,
    /// Ids that have ever paused or refused: a quick test, made at every event.
    struck: IdSet,
    /// Paused ids that have announced the pause to their peers.
    announced: BTreeSet<Id>,
    slow: BTreeMap<Id, (u64, u64)>,
    cut: Option<(IdSet, u64)>,
    /// Ids that refuse connections: from which id (all if `None`), and until when. Bounded by the plan.
    refused: BTreeMap<Id, Vec<(Option<Id>, u64)>>,
    /// Of a thousand messages, the number that is late, and the longest delay.
    late: (u64, u64),
    /// Longest timing fault and longest delay of a message, nanoseconds.
    pub(crate) longest: u64,
    /// Requests after which their sender crashes, and requests that another id copies.
    orphans: BTreeSet<u64>,
    forged: BTreeSet<u64>,
    requests: u64,
    /// Messages that cause a lie, by count, and the count so far.
    lies: BTreeSet<u64>,
    messages: u64,
    /// Streaming replies that lose a link below before their data are complete, by count, and the count so far.
    broken_replies: BTreeSet<u64>,
    passed_on: u64,
    /// Malformed answers, by count, and the count so far.
    malformed: BTreeSet<u64>,
    answers: u64,
    /// Longest delay of a late copy of a request.
    span: u64,
    /// Of eight funcs, this many defer their reply.
    deferring: u64,
    /// Messages that may be repeated, by sender and receiver, oldest first: at most [`KEPT`] for each pair in use.
    sent: BTreeMap<(Id, Id), Vec<Repeatable>>,
    /// Time after which no link breaks by itself.
    breaks_until: u64,
}

impl Mishaps {
    /// Draws times and places of these faults in a run over ids 0 to `n`.
    pub(crate) fn draw(random: &mut Random, used: FaultSet, n: u32, times: Times) -> (Mishaps, Vec<Timed>) {
        let longest = (times.span * LASTS_SPANS).max(times.limit_max * LASTS_LIMITS);
        // A closed process may restart a span later, and one that is back may pause again for a short time.
        let end = times.from + times.span + longest + times.after();
        let mut mishaps = Mishaps {
            links: Links::default(),
            used,
            longest,
            end,
            paused: BTreeMap::new(),
            struck: IdSet::default(),
            announced: BTreeSet::new(),
            slow: BTreeMap::new(),
            cut: None,
            refused: BTreeMap::new(),
            late: (0, 0),
            orphans: BTreeSet::new(),
            forged: BTreeSet::new(),
            requests: 0,
            lies: BTreeSet::new(),
            messages: 0,
            broken_replies: BTreeSet::new(),
            passed_on: 0,
            malformed: BTreeSet::new(),
            answers: 0,
            span: times.span,
            deferring: 1,
            sent: BTreeMap::new(),
            // Refused connections may break links until the end.
            breaks_until: if used.has(Fault::Refused) { end } else { times.from + times.span },
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
            Fault::Link if random.chance(1, 4) => drop(self.broken_replies.insert(random.below(PASSED_ON))),
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
            Fault::Malformed => self.malformed.extend([random.below(requests), random.below(requests)]),
            Fault::Forged => self.lies.extend((0..LIES).map(|_| random.below(requests * LIES))),
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

    /// Pauses a process that is not paused: an earlier end of a pause would change the order of waiting events.
    pub(crate) fn pause(&mut self, id: Id, until: u64) {
        self.paused.insert(id, until);
        self.struck.insert(id);
    }

    /// Pauses a process that has announced it to its peers.
    pub(crate) fn announce(&mut self, id: Id, until: u64) {
        self.pause(id, until);
        self.announced.insert(id);
    }

    /// Continues a process; returns whether it had announced its pause.
    pub(crate) fn goes_on(&mut self, id: Id) -> bool {
        self.announced.remove(&id)
    }

    pub(crate) fn slow_down(&mut self, id: Id, factor: u64, until: u64) {
        self.slow.insert(id, (factor, until));
    }

    /// Cuts some ids off. There is one cut at a time, and messages that wait for its end keep their order.
    pub(crate) fn cut(&mut self, ids: IdSet, until: u64) {
        self.cut = Some((ids, until));
    }

    /// Whether a partition is active.
    pub(crate) fn is_cut(&self, now: u64) -> bool {
        self.cut.as_ref().is_some_and(|(_, until)| *until > now)
    }

    pub(crate) fn refuse(&mut self, id: Id, from: Option<Id>, until: u64) {
        self.struck.insert(id);
        self.refused.entry(id).or_default().push((from, until));
    }

    /// Whether a live id refuses a connection from another.
    pub(crate) fn refuses(&self, from: Id, to: Id, now: u64) -> bool {
        let refuses = |by: &(Option<Id>, u64)| by.0.is_none_or(|it| it == from) && by.1 > now;
        self.struck.contains(to) && self.refused.get(&to).is_some_and(|all| all.iter().any(refuses))
    }

    /// End of an id's pause, if it is paused.
    pub(crate) fn paused_until(&self, id: Id, now: u64) -> Option<u64> {
        self.struck.contains(id).then(|| self.paused.get(&id).copied()).flatten().filter(|&until| until > now)
    }

    /// End of the last pause of a process, also if it is over.
    pub(crate) fn back_at(&self, id: Id) -> Option<u64> {
        self.paused.get(&id).copied()
    }

    /// Ends the faults of a process that ends.
    pub(crate) fn forget(&mut self, id: Id) {
        self.paused.remove(&id);
        self.announced.remove(&id);
        self.slow.remove(&id);
    }

    /// Factor by which an id is slow.
    pub(crate) fn slowness(&self, id: Id, now: u64) -> u64 {
        self.slow.get(&id).filter(|(_, until)| *until > now).map_or(1, |(factor, _)| *factor)
    }

    /// End of the partition between two ids, if there is one.
    pub(crate) fn cut_until(&self, a: Id, b: Id, now: u64) -> Option<u64> {
        let apart = |(ids, until): &&(IdSet, u64)| *until > now && ids.contains(a) != ids.contains(b);
        self.cut.as_ref().filter(apart).map(|(_, until)| *until)
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
        let count = self.messages;
        self.messages += 1;
        now < self.end && self.lies.contains(&count)
    }

    /// Counts a streaming reply; returns whether a link below breaks now. Not after the last fault.
    pub(crate) fn breaks_reply(&mut self, now: u64) -> bool {
        let count = self.passed_on;
        self.passed_on += 1;
        now < self.end && self.broken_replies.contains(&count)
    }

    /// Counts an answer; returns whether it is malformed. Not after the last fault.
    pub(crate) fn count_answer(&mut self, now: u64) -> bool {
        let count = self.answers;
        self.answers += 1;
        now < self.end && self.malformed.contains(&count)
    }

    /// Delay of a copied request of normal delay `ns`: about that, or, in `late` of three cases, until after its call.
    pub(crate) fn copy_takes(&self, random: &mut Random, ns: u64, late: u64) -> u64 {
        let late = if random.chance(late, 3) { random.below(self.span.max(1)) } else { 0 };
        late + 1 + random.below(2 * ns + 1)
    }

    /// Stores a message that may be repeated, in a run that repeats some.
    pub(crate) fn remember(&mut self, now: u64, from: Id, to: Id, runs: [u32; 2], message: Message) {
        if now > self.breaks_until {
            self.sent = BTreeMap::new();
            return;
        }
        let sent = self.sent.entry((from, to)).or_default();
        if sent.len() == KEPT {
            sent.remove(0);
        }
        // Most pairs of a large world have one or two.
        sent.reserve_exact(1);
        sent.push(Repeatable { runs, message });
    }

    /// Draws the messages to repeat after a link broke, in any order.
    pub(crate) fn again(&mut self, random: &mut Random, a: Id, b: Id) -> Vec<Again> {
        let mut again = Vec::new();
        for (from, to) in [(a, b), (b, a)] {
            let sent = self.sent.remove(&(from, to)).unwrap_or_default();
            again.extend(sent.into_iter().map(|Repeatable { runs, message }| Again {
                from,
                to,
                runs,
                message,
            }));
        }
        random.shuffle(&mut again);
        again.truncate(random.below(again.len() as u64 + 1) as usize);
        again
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

/// Faults that find more in combination, and rarely meet if each is drawn alone.
const THEMES: [&[Fault]; 45] = [
    &[Fault::Refused, Fault::Crash],
    &[Fault::Refused, Fault::Orphan],
    &[Fault::Refused, Fault::Link],
    &[Fault::Refused, Fault::Partition],
    &[Fault::Refused, Fault::Link, Fault::Crash],
    &[Fault::Close, Fault::Orphan],
    &[Fault::Close, Fault::Crash, Fault::Refused],
    &[Fault::Limits, Fault::Orphan, Fault::Crash],
    &[Fault::Limits, Fault::Hang],
    &[Fault::SecondParent, Fault::Delay],
    &[Fault::SecondParent, Fault::Orphan],
    &[Fault::Duplicate, Fault::Delay, Fault::Restart],
    &[Fault::Duplicate, Fault::Link],
    &[Fault::Pause, Fault::Link],
    &[Fault::Pause, Fault::Crash],
    &[Fault::Announced, Fault::Orphan],
    &[Fault::Partition, Fault::Delay],
    &[Fault::Restart, Fault::Orphan, Fault::Hang],
    &[Fault::Fresh, Fault::Orphan, Fault::Partition],
    &[Fault::Hang, Fault::Fail, Fault::Callback],
    &[Fault::GiveUp, Fault::Twice, Fault::Delay],
    &[Fault::GiveUp, Fault::Fail, Fault::Twice],
    &[Fault::Fresh, Fault::SecondParent],
    &[Fault::Restart, Fault::SecondParent, Fault::Duplicate],
    &[Fault::Announced, Fault::Link],
    &[Fault::Fresh, Fault::Orphan, Fault::Delay],
    &[Fault::GiveUp, Fault::Callback, Fault::Orphan],
    &[Fault::Forged, Fault::Orphan],
    &[Fault::Forged, Fault::Crash, Fault::Delay],
    &[Fault::Close, Fault::GiveUp, Fault::Fail],
    &[Fault::Announced, Fault::Pause],
    &[Fault::Announced, Fault::Partition, Fault::Link],
    &[Fault::Announced, Fault::Restart],
    &[Fault::Pause, Fault::Slow, Fault::Partition],
    &[Fault::Link, Fault::Restart],
    &[Fault::Link, Fault::Fresh],
    &[Fault::GiveUp, Fault::Hang],
    &[Fault::Limits, Fault::Callback, Fault::Fail],
    &[Fault::Pause, Fault::Hang],
    &[Fault::Hang, Fault::Partition],
    &[Fault::Announced, Fault::Link, Fault::Restart],
    &[Fault::Limits, Fault::Orphan, Fault::Delay],
    &[Fault::Malformed, Fault::Fail, Fault::Callback],
    &[Fault::Malformed, Fault::Orphan],
    &[Fault::Malformed, Fault::Link, Fault::Limits],
];

/// The themes as sets.
pub(crate) fn themes() -> impl Iterator<Item = FaultSet> {
    THEMES.into_iter().map(|theme| theme.iter().copied().collect())
}

/// Draws the faults of a run and its theme, if it has one. Up to two allowed faults are all used.
pub(crate) fn some_of(random: &mut Random, allowed: FaultSet) -> (FaultSet, Option<FaultSet>) {
    let all: Vec<Fault> = allowed.iter().collect();
    if all.len() <= 2 {
        return (allowed, None);
    }
    if random.chance(1, 2)
        && let Some(theme) = random.pick(&THEMES)
    {
        let of_theme = |fault: &Fault| theme.contains(fault) || random.chance(1, 16);
        let used: FaultSet = all.iter().copied().filter(of_theme).collect();
        if theme.iter().any(|fault| used.has(*fault)) {
            return (used, Some(theme.iter().copied().collect()));
        }
    }
    // With many faults few calls complete, and defects of complete calls stay hidden.
    let parts = *random.pick(&[4, 8, 16]).unwrap_or(&4);
    let mut used: FaultSet = all.iter().copied().filter(|_| random.chance(1, parts)).collect();
    used.extend_with(random.pick(&all).copied());
    (used, None)
}

impl FaultSet {
    fn extend_with(&mut self, fault: Option<Fault>) {
        fault.into_iter().for_each(|fault| self.insert(fault));
    }
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
