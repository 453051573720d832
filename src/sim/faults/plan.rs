//! The faults of one run: drawn before it begins, and what is wrong at the moment while it runs.
//!
//! Swarm testing: a run uses some of the faults it may use, each as often as it draws, so that one fault does not hide what another would show.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::{Fault, FaultSet, Links};
use crate::chain::{Seeded, SeededMap};
use crate::sim::random::Random;
use crate::sim::ranked::IdSet;
use crate::sim::world::LARGE;
use crate::wire::Message;

/// When the faults of a run begin, nanoseconds: between `from` and `from` + `span`. The longest call has the limit `limit_max`.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Times {
    pub(in crate::sim) from: u64,
    pub(in crate::sim) span: u64,
    pub(in crate::sim) limit_max: u64,
    /// After so long a silence somebody is given up, in one run or another.
    pub(in crate::sim) dead_after: [u64; 2],
}

/// Something that goes wrong at its time.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Mishap {
    Crash(Id),
    Restart(Id),
    Pause {
        id: Id,
        until: u64,
    },
    /// A pause of which the linked peers are told that it lasts for `stated` nanoseconds.
    Announced {
        id: Id,
        /// What it has announced just before, nanoseconds.
        before: Option<u64>,
        stated: u64,
        until: u64,
    },
    Slow {
        id: Id,
        factor: u64,
        until: u64,
    },
    /// One of the links that are up then; one of an id's, if it has any.
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
    /// Nobody, or not one other, can connect to an id.
    Refuse {
        id: Id,
        from: Option<Id>,
        until: u64,
    },
    /// A process takes no more calls.
    Close(Id),
    /// Messages of a link that broke come again.
    Again {
        from: Id,
        to: Id,
        runs: [u32; 2],
        message: Box<Message>,
    },
}

/// A mishap and its time, nanoseconds.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Timed {
    pub(in crate::sim) at: u64,
    pub(in crate::sim) mishap: Mishap,
}

/// What a function does where it does not simply reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum Act {
    Fail,
    /// There is no such function here.
    Refuse,
    /// Keeps its token, and fails with that.
    FailLater,
    Panic,
    /// Ends after this time, nanoseconds.
    Hang(u64),
    /// Answers later, which is no fault.
    Defer,
    Twice,
}

/// What the functions of a call do where they do not simply reply.
#[derive(Clone, Default, Debug)]
pub(in crate::sim) struct Acts {
    pub(in crate::sim) funcs: BTreeMap<Id, Act>,
    /// Where callback fails.
    pub(in crate::sim) callbacks_fail: BTreeSet<Id>,
    /// Where callback answers later.
    pub(in crate::sim) callbacks_later: BTreeSet<Id>,
}

/// Calls of each draw that are given up: most have ended by then.
const GIVEN_UP: u64 = 3;

/// Lies of each draw of them: most find nothing that they could change.
const LIES: u64 = 4;

/// Of so many long replies that are passed on before they have come one is broken off, where any is.
const PASSED_ON: u64 = 12;

/// Of eight callbacks of a call so many answer later.
const CALLBACKS_LATER: [u64; 4] = [0, 0, 2, 6];

/// Longest that a short fault of time lasts, in spans: it ends within the calls that it meets, which go on.
const LASTS_SPANS: u64 = 6;

/// Longest that a long one lasts, in time limits of the longest call: whoever waits for its end has given up before, and what it held back comes when the call is over everywhere.
const LASTS_LIMITS: u64 = 3;

/// What a process that begins anew at once needs for that, in parts of a span.
const AT_ONCE_PARTS: u64 = 8;

/// Most processes that stand still together.
const TOGETHER_MAX: u64 = 6;

/// So many kinds of faults are few.
const FEW_KINDS: usize = 4;

/// Partitions of a large world beside the first ones: there is one at a time, and each has a word to say of every id.
const PARTITIONS_MAX: u64 = 64;

/// Messages of a link that may come again after it broke.
const KEPT: usize = 4;

/// A message, and the runs of its sender and its receiver between which it was sent.
#[derive(Debug)]
struct Repeatable {
    runs: [u32; 2],
    message: Message,
}

fn nothing_sent() -> SeededMap<(Id, Id), Vec<Repeatable>> {
    // Ids are nobody's choice here.
    SeededMap::with_hasher(Seeded::new(0))
}

/// A message that comes once more.
#[derive(Debug)]
pub(in crate::sim) struct Again {
    pub(in crate::sim) from: Id,
    pub(in crate::sim) to: Id,
    pub(in crate::sim) runs: [u32; 2],
    pub(in crate::sim) message: Message,
}

/// What is wrong at the moment, and what is still to go wrong by the count of requests.
#[derive(Debug)]
pub(in crate::sim) struct Mishaps {
    pub(in crate::sim) links: Links,
    /// The faults that this run uses.
    pub(in crate::sim) used: FaultSet,
    /// When the last fault is over.
    pub(in crate::sim) end: u64,
    paused: BTreeMap<Id, u64>,
    /// Who has ever stood still, or refused: asked of everybody at every event.
    struck: IdSet,
    /// Of these the ones that have told their peers.
    announced: BTreeSet<Id>,
    slow: BTreeMap<Id, (u64, u64)>,
    cut: Option<(IdSet, u64)>,
    /// Who cannot be connected to, by whom if not by anybody, and until when. Bounded by the plan.
    refused: BTreeMap<Id, Vec<(Option<Id>, u64)>>,
    /// Of a thousand messages so many are late, by so much at most.
    late: (u64, u64),
    /// Longest that a fault of time lasts, and longest by which a message is late, nanoseconds.
    pub(in crate::sim) longest: u64,
    /// Requests after which their sender crashes, and a copy comes from elsewhere.
    orphans: BTreeSet<u64>,
    forged: BTreeSet<u64>,
    requests: u64,
    /// Messages with which somebody comes who has no part in them, and how many there were.
    lies: BTreeSet<u64>,
    messages: u64,
    /// Long replies that pass on what has not all come and lose a link then, and how many there were.
    broken_replies: BTreeSet<u64>,
    passed_on: u64,
    /// Which answers are malformed, and how many answers there were.
    malformed: BTreeSet<u64>,
    answers: u64,
    /// Longest by which a copy of a request comes later than the request, where it comes late.
    span: u64,
    /// Of eight funcs so many answer later.
    deferring: u64,
    /// By sender and receiver: messages that may come again, the last one last. Bounded by the pairs that have talked, [`KEPT`] of each.
    sent: SeededMap<(Id, Id), Vec<Repeatable>>,
    /// No link breaks later by itself.
    breaks_until: u64,
}

impl Mishaps {
    /// Draws when and where these faults strike a run over ids 0 to `n`, in `times`.
    pub(in crate::sim) fn draw(
        random: &mut Random,
        used: FaultSet,
        n: u32,
        times: Times,
    ) -> (Mishaps, Vec<Timed>) {
        let longest = (times.span * LASTS_SPANS).max(times.limit_max * LASTS_LIMITS);
        // A process that has closed may begin anew a span later, and one that is back may stand still for a short time.
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
            sent: nothing_sent(),
            // Who cannot be connected to is left by the way at any time until it can.
            breaks_until: if used.has(Fault::Refused) { end } else { times.from + times.span },
        };
        if !used.is_empty() && random.chance(1, 4) {
            mishaps.deferring = random.between(2, 7);
        }
        let (mut timed, few) = (Vec::new(), used.iter().count() <= FEW_KINDS);
        let most = if few && random.chance(1, 2) { 6 } else { 2 };
        for fault in used.iter() {
            // One or a few, whatever the size; in a large world some more, and where few kinds meet each other more of each.
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
        // Below n, which is a u32.
        let id = random.below(n.into()) as Id;
        let requests = u64::from(n) * 2;
        let mut add = |at, mishap| timed.push(Timed { at, mishap });
        match fault {
            Fault::Crash => add(at, Mishap::Crash(id)),
            Fault::Restart => {
                if self.used.has(Fault::Link) && random.chance(1, 2) {
                    // Whoever has lost its link learns of its end by that of another one, or not at all.
                    add(at, Mishap::Break { hard: random.chance(1, 2), of: Some(id) });
                }
                let ends = if random.chance(1, 2) { at } else { at + random.below(span) };
                add(ends, Mishap::Crash(id));
                add(until.max(ends + 1), Mishap::Restart(id));
            }
            Fault::Pause if random.chance(1, 4) => {
                // A host stands still, and all that run on it.
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
            // Of long delays a few: each holds back all that comes behind it on its link.
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
                // What is linked already is not asked to connect.
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

    /// What functions do at some of the ids of a call. Hanging ends before `end`.
    pub(in crate::sim) fn acts(&self, random: &mut Random, ids: &[Id], limit_ns: u64) -> Acts {
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
        let of = if ids.len() > LARGE as usize { 64 } else { 8 }; // Of many few: each is an event more.
        for &id in ids {
            if random.chance(self.deferring, of) {
                acts.funcs.entry(id).or_insert(Act::Defer);
            }
            // The second answer of a func's token would be taken for that of a callback which answers later.
            if random.chance(later, of) && acts.funcs.get(&id) != Some(&Act::Twice) {
                acts.callbacks_later.insert(id);
            }
        }
        acts
    }

    /// A process that goes on later keeps the order of what waits for it, so it does not stand still for longer than it first was to.
    pub(in crate::sim) fn pause(&mut self, id: Id, until: u64) {
        self.paused.insert(id, until);
        self.struck.insert(id);
    }

    /// The same, of one that has told its peers.
    pub(in crate::sim) fn announce(&mut self, id: Id, until: u64) {
        self.pause(id, until);
        self.announced.insert(id);
    }

    /// A process goes on; says whether it has told its peers that it would be away.
    pub(in crate::sim) fn goes_on(&mut self, id: Id) -> bool {
        self.announced.remove(&id)
    }

    pub(in crate::sim) fn slow_down(&mut self, id: Id, factor: u64, until: u64) {
        self.slow.insert(id, (factor, until));
    }

    /// Some ids are cut off. One cut at a time: what waits for its end comes in the order in which it was sent.
    pub(in crate::sim) fn cut(&mut self, ids: IdSet, until: u64) {
        self.cut = Some((ids, until));
    }

    /// Whether some ids are cut off from others.
    pub(in crate::sim) fn is_cut(&self, now: u64) -> bool {
        self.cut.as_ref().is_some_and(|(_, until)| *until > now)
    }

    /// An id cannot be connected to.
    pub(in crate::sim) fn refuse(&mut self, id: Id, from: Option<Id>, until: u64) {
        self.struck.insert(id);
        self.refused.entry(id).or_default().push((from, until));
    }

    /// Whether an id that lives cannot be connected to by another.
    pub(in crate::sim) fn refuses(&self, from: Id, to: Id, now: u64) -> bool {
        let refuses = |by: &(Option<Id>, u64)| by.0.is_none_or(|it| it == from) && by.1 > now;
        self.struck.contains(to) && self.refused.get(&to).is_some_and(|all| all.iter().any(refuses))
    }

    /// Until when an id stands still, if it does.
    pub(in crate::sim) fn paused_until(&self, id: Id, now: u64) -> Option<u64> {
        self.struck.contains(id).then(|| self.paused.get(&id).copied()).flatten().filter(|&until| until > now)
    }

    /// When the last pause of a process is over, or was.
    pub(in crate::sim) fn back_at(&self, id: Id) -> Option<u64> {
        self.paused.get(&id).copied()
    }

    /// A process ends, and with it what was wrong with it.
    pub(in crate::sim) fn forget(&mut self, id: Id) {
        self.paused.remove(&id);
        self.announced.remove(&id);
        self.slow.remove(&id);
    }

    /// How many times longer everything takes at an id.
    pub(in crate::sim) fn slowness(&self, id: Id, now: u64) -> u64 {
        self.slow.get(&id).filter(|(_, until)| *until > now).map_or(1, |(factor, _)| *factor)
    }

    /// Until when two ids cannot reach each other, if they cannot.
    pub(in crate::sim) fn cut_until(&self, a: Id, b: Id, now: u64) -> Option<u64> {
        let apart = |(ids, until): &&(IdSet, u64)| *until > now && ids.contains(a) != ids.contains(b);
        self.cut.as_ref().filter(apart).map(|(_, until)| *until)
    }

    /// How much later than by itself a message arrives.
    pub(in crate::sim) fn lateness(&self, random: &mut Random, now: u64) -> u64 {
        let (parts, most) = self.late;
        if parts == 0 || now >= self.end || !random.chance(parts, 1000) { 0 } else { random.below(most) }
    }

    /// A request leaves: whether its sender crashes after it, and whether a copy comes from elsewhere. Nothing of that after the last fault.
    pub(in crate::sim) fn request(&mut self, now: u64) -> (bool, bool) {
        if now >= self.end {
            return (false, false);
        }
        let count = self.requests;
        self.requests += 1;
        (self.orphans.contains(&count), self.forged.contains(&count))
    }

    /// A message of a call leaves: whether somebody who has no part in it says something else of it. Nothing of that after the last fault.
    pub(in crate::sim) fn is_lied_about(&mut self, now: u64) -> bool {
        let count = self.messages;
        self.messages += 1;
        now < self.end && self.lies.contains(&count)
    }

    /// A long reply goes up that has not all come: whether a link below is lost now. Nothing of that after the last fault.
    pub(in crate::sim) fn breaks_reply(&mut self, now: u64) -> bool {
        let count = self.passed_on;
        self.passed_on += 1;
        now < self.end && self.broken_replies.contains(&count)
    }

    /// An answer leaves: whether it is malformed. Nothing of that after the last fault.
    pub(in crate::sim) fn is_malformed(&mut self, now: u64) -> bool {
        let count = self.answers;
        self.answers += 1;
        now < self.end && self.malformed.contains(&count)
    }

    /// When a copy of a request comes that takes so long by itself: about when the request does, or, of three so many, when its call may be over and others have begun.
    pub(in crate::sim) fn copy_takes(&self, random: &mut Random, ns: u64, late: u64) -> u64 {
        let late = if random.chance(late, 3) { random.below(self.span.max(1)) } else { 0 };
        late + 1 + random.below(2 * ns + 1)
    }

    /// Remembers a message that may come again, in a run in which some do.
    pub(in crate::sim) fn remember(&mut self, now: u64, from: Id, to: Id, runs: [u32; 2], message: Message) {
        if now > self.breaks_until {
            self.sent = nothing_sent();
            return;
        }
        let sent = self.sent.entry((from, to)).or_default();
        if sent.len() == KEPT {
            sent.remove(0);
        }
        // Of most pairs of a large world there are one or two.
        sent.reserve_exact(1);
        sent.push(Repeatable { runs, message });
    }

    /// What comes again after a link broke, in any order.
    pub(in crate::sim) fn again(&mut self, random: &mut Random, a: Id, b: Id) -> Vec<Again> {
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
    /// What may be wrong behind a fault that has lasted for its time.
    pub(in crate::sim) fn after(self) -> u64 {
        (3 + LASTS_SPANS) * self.span
    }

    /// How long a fault of time lasts.
    fn lasts(self, random: &mut Random) -> u64 {
        let short = self.span * LASTS_SPANS;
        let most = match random.below(8) {
            0..4 => short,
            // Hardly long enough for somebody to be given up, or hardly too long.
            4 => {
                let dead_after = *random.pick(&self.dead_after).unwrap_or(&short);
                return dead_after / 2 + random.below(dead_after);
            }
            _ => short.max(self.limit_max * LASTS_LIMITS),
        };
        1 + random.below(most)
    }
}

/// Who is cut off of `n` ids: those of some hosts, from an id on, or any.
fn cut_off(random: &mut Random, id: Id, n: u32) -> IdSet {
    let last = id.saturating_add(random.below(u64::from(n - id)) as Id);
    match random.chance(1, 3) {
        true => (id..=last).collect(),
        false => (0..n).filter(|_| random.chance(1, 3)).collect(),
    }
}

/// A pause that is announced; and perhaps what shows who goes by it when it is over: its process begins anew, or goes on, and stands still once more without a word.
fn announced(random: &mut Random, id: Id, at: u64, times: Times) -> Vec<Timed> {
    let lasts = times.lasts(random);
    // Three of four keep their word, and some of them are back early.
    let more = random.below(lasts);
    // Some say first that they will be away for longer, and most of these have been right at first.
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
        // Early by far: what it said would hold until it goes on.
        stated = until - at + more;
    }
    let anew = anew.into_iter().flatten().map(|(at, mishap)| Timed { at, mishap });
    let again = Timed { at: still, mishap: Mishap::Pause { id, until } };
    std::iter::once(pause(stated)).chain(anew).chain([again]).collect()
}

/// Faults that show more together than each by itself, and whose meeting is rare where each is drawn alone.
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

/// The themes, each as a set.
pub(in crate::sim) fn themes() -> impl Iterator<Item = FaultSet> {
    THEMES.into_iter().map(|theme| theme.iter().copied().collect())
}

/// Some of the faults that may be used, and the theme of the run, if it has one; all of them where there are few.
pub(in crate::sim) fn some_of(random: &mut Random, allowed: FaultSet) -> (FaultSet, Option<FaultSet>) {
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
    // Where much goes wrong few calls come to their end, and what is wrong with those that do is not seen.
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
