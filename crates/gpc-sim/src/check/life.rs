//! Checks heartbeats: an id requests them only from ids whose answers it awaits, and from ids below a silent one. A
//! peer is given up only after its time of silence, and is not asked forever. Silence counts from the start of the call
//! that awaits the peer, or later.
//!
//! Silence is detected within the time limit for it, counted from the request or the last message. A question that took
//! long to leave reduces it a little. Several silent generations are detected together, in that time and a little more.
//! All ids below a silent one are asked at once, not one generation after the other.
//!
//! After an announced pause, silence counts from the end of the pause, and the peer is not asked before.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;
use smallvec::SmallVec;

use super::Observation;
use super::book::Book;
use super::by_id::ById;
use super::findings::Findings;
use super::record::Record;
use super::refusing::is_refusal;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget, forget_keys};
use chained_gpc::chain::PAUSE_MAX;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "life";

/// An optional time in nanoseconds, in 8 bytes: a large world has some for each link.
#[derive(Clone, Copy)]
struct Moment(u64);

impl Moment {
    const NONE: Moment = Moment(u64::MAX);

    fn get(self) -> Option<u64> {
        (self.0 < u64::MAX).then_some(self.0)
    }

    /// This time, or else `now`.
    fn or(self, now: u64) -> Moment {
        Moment(self.get().unwrap_or(now))
    }
}

impl Default for Moment {
    fn default() -> Moment {
        Moment::NONE
    }
}

/// State of a peer that an id has asked.
#[derive(Default)]
struct Peer {
    /// Calls that await its answer, in order, each with its start: seldom more than one. A map would take the memory of
    /// eleven for each link.
    awaited: SmallVec<[(CallId, u64); 1]>,
    /// Time of the first request or question to it, and of its last message.
    first_asked: u64,
    heard: u64,
    /// Questions since that message: their number, the time of the last one, the time of the first one, and when the
    /// first one left.
    asked: u32,
    last_question: u64,
    question: u64,
    left: Moment,
    /// Time at which the first of the questions asked after `anew` left. Since `anew` an answer is awaited, the link is
    /// the same, and the asking id was not paused.
    left_since: Moment,
    anew: u64,
    /// Whether it was asked without being awaited since its last message: then a lost link changes nothing.
    asked_beside: bool,
    /// Whether it was given up since its last message.
    given_up: bool,
    /// Whether any call other than the first has awaited it.
    others: bool,
}

impl Peer {
    /// Time since which an answer is awaited.
    fn awaited_since(&self) -> u64 {
        self.awaited.iter().map(|(_, since)| *since).min().unwrap_or_default()
    }

    /// Records that a call awaits an answer.
    fn await_answer(&mut self, call: CallId, now: u64) {
        if let Err(place) = self.awaited.binary_search_by_key(&call, |(call, _)| *call) {
            self.others |= !self.awaited.is_empty() || now != self.first_asked;
            self.awaited.insert(place, (call, now));
        }
    }

    fn await_no_more(&mut self, call: CallId) {
        self.awaited.retain(|(of, _)| *of != call);
    }

    /// Starts a new wait: earlier questions that leave later do not count.
    fn begin_anew(&mut self, now: u64) {
        (self.left_since, self.anew) = (Moment::NONE, now);
    }
}

/// Questions between ids. Empty if heartbeats are off.
#[derive(Default)]
pub(super) struct Life {
    /// Interval of questions, and time of silence until death, nanoseconds.
    rules: Option<(u64, u64)>,
    peers: ById<Peer, 0>,
    /// Time by which a peer must be known as silent, because an id above it was given up; and the time of the last such
    /// event.
    suspected: BTreeMap<(Id, Id), (u64, u64)>,
    /// End of the pauses that peers have announced to an id.
    pauses: BTreeMap<(Id, Id), u64>,
    /// Questions that are not answered by the end of the present input.
    questions: BTreeSet<(Id, Id)>,
    /// By id: time of the next check for peers that were not asked or not given up.
    looks: Vec<u64>,
    /// Ids asked in the present input that are not awaited and did not answer the last question.
    silent: Vec<Id>,
    /// Start of each call at each id, except large calls.
    begun: BTreeMap<(Id, CallId), u64>,
    /// Last loss of a link on which an answer was awaited: earlier questions do not count. Not in large worlds.
    lost: BTreeMap<(Id, Id), u64>,
    /// The id that last gave up a peer, and when.
    gave_up: (Id, u64),
    /// Last question to an id that is not awaited: its time, the asking id, and the number of such questions at that
    /// time.
    beside: (u64, Id, usize),
    /// Largest number of such questions at a time, if it is lower than usual.
    beside_max: Option<usize>,
}

/// Least number of questions before a peer is given up.
const ASKED_MIN: u32 = 2;

/// Usual bound on the ids that an id asks at a time without awaiting them.
const BESIDE_MAX: usize = 64;

/// After this many questions without an answer, the ids below a silent peer have been asked, too.
const SUSPECTED_AFTER: u64 = 3;

/// The id at which this observation may end a call, or remove an awaited peer.
fn ends_at(seen: &Observation<'_>) -> Option<Id> {
    match seen {
        Observation::Sent { from, message: Message::Response(_) | Message::Cancel(_), .. } => Some(*from),
        Observation::Finished { call, .. } => Some(call.root),
        _ => None,
    }
}

impl Life {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let now = findings.at;
        match seen {
            Observation::Heartbeat { every_ns, dead_after_ns } => {
                self.rules = Some((*every_ns, *dead_after_ns))
            }
            Observation::Descendants(most) => self.beside_max = Some(*most),
            Observation::Received { at, from, message: Message::Ping } => {
                self.questions.insert((*at, *from));
                self.heard(*at, *from, now);
            }
            Observation::Sent { from, to, message: Message::Pong } => {
                self.questions.remove(&(*from, *to));
            }
            Observation::Held { id, .. } => self.judge(book, *id, findings),
            Observation::Sent { from, to, message: Message::Ping } => {
                let wrong = self.asks(book, *from, *to, now);
                self.asked(book, *from, *to, now);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
            }
            Observation::Heard { at, from } => drop(self.heard(*at, *from, now)),
            Observation::PingLeft { at, peer, asked_ns } => {
                self.question_left(*at, *peer, *asked_ns, now);
            }
            Observation::Resumed { id } => {
                // It may ask at the time of its resumption.
                self.of(*id).for_each(|peer| peer.begin_anew(now.saturating_sub(1)));
            }
            Observation::Received { at, from, message: Message::Pause(length) } => {
                self.heard(*at, *from, now);
                self.pauses(*at, *from, now, (*length).min(PAUSE_MAX).as_nanos() as u64);
            }
            Observation::Abandoned { at, peer } => {
                let wrong = self.gives_up(book, *at, *peer, now);
                self.gave_up = (*at, now);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {at} {what}")));
                self.suspect_those_below(book, *at, *peer, now);
                self.suspected.remove(&(*at, *peer));
                self.pauses.remove(&(*at, *peer));
                self.awaited(seen, now);
                self.peers.get_mut(*at, *peer).into_iter().for_each(|peer| peer.given_up = true);
            }
            Observation::Ended { id } => {
                let of_id = (*id, 0)..=(*id, Id::MAX);
                self.peers.forget(*id);
                forget(&mut self.suspected, of_id.clone());
                forget(&mut self.pauses, of_id.clone());
                forget(&mut self.lost, of_id.clone());
                forget(&mut self.begun, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget_keys(&mut self.questions, of_id);
            }
            Observation::LinkEnded { at, peer, .. } => {
                self.pauses.remove(&(*at, *peer));
                self.awaited(seen, now);
            }
            _ if self.rules.is_none() => {}
            other => {
                self.begins(book, other, now);
                // The call that it ends may be the reason why ids below were asked at the same time.
                if let Some(id) = ends_at(other) {
                    self.judge_questions(book, id, findings);
                }
                self.awaited(other, now);
            }
        }
    }

    /// Records the start of a call at an id.
    fn begins(&mut self, book: &Book, seen: &Observation<'_>, now: u64) {
        let (id, call) = match seen {
            Observation::Started { call, .. } => (call.root, *call),
            Observation::Received { at, message: Message::Request(request), .. } => (*at, request.call),
            _ => return,
        };
        if book.calls.get(&call).is_some_and(|record| record.plan.ids.len() <= LARGE) {
            self.begun.entry((id, call)).or_insert(now);
        }
    }

    /// Records that a question has left.
    fn question_left(&mut self, id: Id, peer: Id, asked: u64, now: u64) {
        let known = self.peers.get_mut(id, peer).filter(|peer| peer.asked > 0);
        known.into_iter().for_each(|peer| {
            peer.left = peer.left.or(now);
            if asked > peer.anew {
                peer.left_since = peer.left_since.or(now);
            }
        });
    }

    /// Judges an id at the end of an input.
    #[inline(always)]
    fn judge(&mut self, book: &Book, id: Id, findings: &mut Findings) {
        self.looks_on(book, id, findings);
        self.judge_questions(book, id, findings);
        // This loop ends: each round removes a question.
        while let Some(&(_, requester)) = self.questions.range((id, 0)..=(id, Id::MAX)).next() {
            self.questions.remove(&(id, requester));
            findings.add(NAME, format!("id {id} sends {requester} no heartbeat, which asked for one"));
        }
    }

    /// Judges the questions of an id that are asked at the same time.
    #[inline]
    fn judge_questions(&mut self, book: &Book, id: Id, findings: &mut Findings) {
        if self.silent.is_empty() {
            return;
        }
        for peer in std::mem::take(&mut self.silent) {
            let wrong = self.stops_at(book, id, peer, findings.at);
            wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {id} {what}")));
        }
    }

    /// Records an announced pause; length 0 ends it.
    fn pauses(&mut self, id: Id, peer: Id, now: u64, length: u64) {
        match length {
            0 => self.pauses.remove(&(id, peer)),
            length => self.pauses.insert((id, peer), now.saturating_add(length)),
        };
    }

    /// Records which answers are awaited.
    #[inline(always)]
    fn awaited(&mut self, seen: &Observation<'_>, now: u64) {
        match seen {
            Observation::Sent { from, to, message: Message::Request(request) } => {
                let first = Peer { first_asked: now, ..Peer::default() };
                let peer = self.peers.or_insert(*from, *to, first);
                // A request to the child of a given-up id is sent at the time of giving up.
                if self.suspected.get(&(*from, *to)).is_some_and(|(_, last)| *last < now) {
                    self.suspected.remove(&(*from, *to));
                }
                if peer.awaited.is_empty() && !self.suspected.contains_key(&(*from, *to)) {
                    peer.begin_anew(now);
                }
                peer.await_answer(request.call, now);
            }
            Observation::Received { at, from, message } => {
                let Some(peer) = self.heard(*at, *from, now) else { return };
                // The rest of the reply follows its head.
                if let Message::Response(response) = message
                    && !matches!(response.answer, Answer::Arriving(_))
                {
                    peer.await_no_more(response.call);
                }
            }
            Observation::Sent { from, message: Message::Response(response), .. }
                if !is_refusal(*from, response) && !matches!(response.answer, Answer::Arriving(_)) =>
            {
                self.ends(*from, response.call);
            }
            Observation::Sent { from, to, message: Message::Cancel(call) } => {
                let peer = self.peers.get_mut(*from, *to);
                peer.into_iter().for_each(|peer| peer.await_no_more(*call));
            }
            Observation::Finished { call, .. } => self.ends(call.root, *call),
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                let (at, other) = (*at, *peer);
                let Some(peer) = self.peers.get_mut(at, other) else { return };
                // Questions may have been lost with the link.
                peer.begin_anew(now);
                let small = peer.awaited.first().filter(|(call, _)| self.begun.contains_key(&(at, *call)));
                if small.is_some() {
                    self.lost.insert((at, other), now);
                }
                peer.awaited.clear();
            }
            _ => {}
        }
    }

    /// Peers that an id has asked.
    fn of(&mut self, id: Id) -> impl Iterator<Item = &mut Peer> {
        self.peers.of_mut(id)
    }

    /// A call has ended at an id, which awaits no more answers for it.
    fn ends(&mut self, id: Id, call: CallId) {
        self.of(id).for_each(|peer| peer.await_no_more(call));
    }

    /// A peer that an id has asked has sent something.
    fn heard(&mut self, at: Id, from: Id, now: u64) -> Option<&mut Peer> {
        self.suspected.remove(&(at, from));
        let peer = self.peers.get_mut(at, from)?;
        (peer.heard, peer.asked, peer.given_up, peer.asked_beside) = (now, 0, false, false);
        (peer.left, peer.left_since) = (Moment::NONE, Moment::NONE);
        Some(peer)
    }

    /// Checks that awaited peers that are silent are asked and given up in time.
    fn looks_on(&mut self, book: &Book, id: Id, findings: &mut Findings) {
        let (now, Some((every, _))) = (findings.at, self.rules) else { return };
        if self.looks.len() <= id as usize {
            self.looks.resize(id as usize + 1, 0);
        }
        let next = &mut self.looks[id as usize];
        if now < *next {
            return;
        }
        *next = now + every;
        for (peer, known) in self.peers.of(id) {
            let late = if known.awaited.is_empty() { None } else { self.late(book, id, peer, now) };
            late.into_iter().for_each(|late| findings.add(NAME, format!("id {id} awaits {peer}, {late}")));
        }
    }

    fn asked(&mut self, book: &Book, id: Id, peer: Id, now: u64) {
        let awake = book.resumed.get(&id).copied().unwrap_or_default();
        let first = Peer { first_asked: now, ..Peer::default() };
        let every = self.rules.map_or(0, |(every, _)| every);
        let peer = self.peers.or_insert(id, peer, first);
        // A peer that is not awaited is forgotten once it is no longer asked, and may be asked again later. A node that
        // was paused meanwhile has not forgotten it.
        if peer.awaited.is_empty() && now > peer.last_question.max(awake) + every * 3 / 2 {
            peer.asked = 0;
        }
        if peer.awaited.is_empty() {
            // The question is for a heartbeat over any link.
            peer.asked_beside = true;
        }
        (peer.asked, peer.last_question) = (peer.asked + 1, now);
        if peer.asked == 1 {
            (peer.question, peer.left, peer.left_since) = (now, Moment::NONE, Moment::NONE);
        }
    }

    /// End of the pause that a peer has announced to an id; 0 if there is none.
    fn back(&self, id: Id, peer: Id) -> u64 {
        self.pauses.get(&(id, peer)).copied().unwrap_or_default()
    }

    /// Checks a question to a peer; returns what is wrong.
    fn asks(&mut self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        if self.rules.is_none() {
            return Some(format!("asks {peer} for a heartbeat, and none are to be asked for"));
        }
        if self.back(id, peer) > now {
            return Some(format!(
                "asks {peer} for a heartbeat, which has announced a pause that is not over"
            ));
        }
        let (every, last) = (self.rules?.0, self.peers.get(id, peer).map_or(0, |known| known.last_question));
        // One question in each interval by its own clock, which restarts when a call begins.
        if last > 0 && now > last && now < last + every / 4 {
            return Some(format!("asks {peer} for a heartbeat {} ns after it has asked before", now - last));
        }
        if self.peers.get(id, peer).is_none_or(|peer| peer.awaited.is_empty()) {
            return self.asks_beside(book, id, peer, now);
        }
        let late = self.late(book, id, peer, now)?;
        Some(format!("asks {peer} again, {late}"))
    }

    /// Checks a question to a peer that is not awaited; returns what is wrong.
    fn asks_beside(&mut self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        let of_id = self.peers.of(id).filter(|(_, known)| known.asked > 0);
        let mut silent =
            of_id.flat_map(|(other, known)| known.awaited.iter().map(move |(call, _)| (other, call)));
        if !silent.any(|(other, call)| book.calls.get(call).is_some_and(|record| below(record, other, peer)))
        {
            return Some(format!(
                "asks {peer} for a heartbeat, whose answer it does not await, and nobody above it is silent"
            ));
        }
        let before = if (self.beside.0, self.beside.1) == (now, id) { self.beside.2 } else { 0 };
        self.beside = (now, id, before + 1);
        // By its own clock: a question from too long ago does not count.
        let every = self.rules.map_or(0, |(every, _)| every);
        let known = self.peers.get(id, peer);
        if known.is_some_and(|known| known.asked > 0 && now <= known.last_question + every * 3 / 2) {
            self.silent.push(peer);
        }
        let most = self.beside_max.unwrap_or(BESIDE_MAX);
        (before == most).then(|| format!("asks more than {most} at a time whose answers it does not await"))
    }

    /// Checks that with a silent peer that is not awaited, the ids below it are asked as well.
    fn stops_at(&self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        let (asked, most) = (&self.beside, (self.beside.0, self.beside.1) == (now, id));
        if most && asked.2 >= self.beside_max.unwrap_or(BESIDE_MAX) {
            return None;
        }
        let of_id = self.peers.of(id).filter(|(_, known)| known.asked > 0);
        let calls = of_id.flat_map(|(other, known)| known.awaited.iter().map(move |(call, _)| (other, call)));
        let records = calls.filter_map(|(other, call)| Some((other, book.calls.get(call)?)));
        let mut left = None;
        for (_, record) in records.filter(|(other, record)| below(record, *other, peer)) {
            let groups = record.groups(record.position(peer)?);
            let mut children = groups.filter_map(|group| record.plan.ids.id(group.start));
            let unasked = |child: &Id| {
                let known = self.peers.get(id, *child);
                self.back(id, *child) <= now && known.is_none_or(|known| known.last_question != now)
            };
            // An id above it may have answered in another call.
            left = Some(children.find(unasked)?);
        }
        left.map(|child| format!("asks {peer}, which is silent, for a heartbeat, and not {child} below it"))
    }

    /// Describes a silence of a peer beyond the limit.
    fn late(&self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        let (every, dead_after) = self.rules?;
        // The calls of some peers may have ended with a peer given up just before.
        let known = self.peers.get(id, peer).filter(|known| !known.awaited.is_empty())?;
        let awake = book.resumed.get(&id).copied().unwrap_or_default();
        let since = self.suspected.get(&(id, peer)).map_or(known.awaited_since(), |(since, _)| *since);
        let silent = now - known.heard.max(since).max(awake).max(self.back(id, peer)).min(now);
        // The time between questions counts from when a question has left.
        let waited = match (known.asked, known.left_since.get()) {
            (0, _) => u64::MAX,
            (_, None) => 0,
            (_, Some(left)) => now - left.min(now),
        };
        (silent > dead_after + every / 2 && waited > dead_after - every / 2)
            .then(|| format!("which has been silent for {silent} ns and is dead after {dead_after}"))
    }

    /// A peer is given up for silence: silent ids below it get no new full time of silence.
    fn suspect_those_below(&mut self, book: &Book, id: Id, peer: Id, now: u64) {
        let (Some((every, _)), Some(known)) = (self.rules, self.peers.get(id, peer)) else { return };
        if self.beside_max.is_some() {
            // With few places some of them were not asked; each gets the full time.
            return;
        }
        let awake = book.resumed.get(&id).copied().unwrap_or_default();
        // Ids below a peer that was itself below a silent one have been asked for as long, unless it has sent a message
        // since.
        let suspected = self.suspected.get(&(id, peer)).copied();
        let silent =
            known.heard.max(known.awaited_since()).max(awake).max(known.left.get().unwrap_or_default());
        let silent = silent.max(self.back(id, peer));
        let asked = suspected.map(|(since, _)| since).filter(|since| *since > known.heard);
        let asked = asked.unwrap_or(silent + SUSPECTED_AFTER * every);
        // A question that has just left causes no suspicion.
        let asked = asked.max(known.left.get().unwrap_or_default() + (SUSPECTED_AFTER - 1) * every);
        let begun = asked.saturating_sub(SUSPECTED_AFTER * every);
        for (call, since) in &known.awaited {
            let Some(record) = book.calls.get(call) else { continue };
            // If a call has just reached the peer, the ids below are asked at the next interval, unless the call
            // reached it because an id above was silent.
            let at_once = suspected.is_some_and(|(_, last)| last == *since);
            let asked = if at_once { asked } else { asked.max(since + every) };
            let Some(place) = record.position(peer).filter(|_| record.plan.partial) else { continue };
            let end = place + record.sizes[place as usize];
            if (end - place) as usize > BESIDE_MAX {
                continue;
            }
            let mut position = place + 1;
            while let Some(other) = record.plan.ids.id(position).filter(|_| position < end) {
                let known = self.peers.get(id, other);
                if known.is_some_and(|known| known.heard > begun) {
                    // A live id watches the ids below it.
                    position += record.sizes[position as usize];
                    continue;
                }
                position += 1;
                // An id that was given up before gets the full time.
                if known.is_none_or(|known| !known.given_up) {
                    self.suspected.insert((id, other), (asked, now));
                }
            }
        }
    }

    /// Start of the call at an id, if this is the only call for which it ever asked the peer.
    fn begun_for(&self, id: Id, peer: Id, known: &Peer) -> Option<u64> {
        let [(call, _)] = known.awaited[..] else { return None };
        let alone = !known.others && !self.suspected.contains_key(&(id, peer));
        self.begun.get(&(id, call)).copied().filter(|_| alone)
    }

    /// Checks the giving up of a peer; returns what is wrong.
    fn gives_up(&self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        let Some((every, dead_after)) = self.rules else {
            return Some(format!("gives {peer} up, and nobody is to be given up"));
        };
        let Some(known) = self.peers.get(id, peer) else {
            return Some(format!("gives {peer} up, whom it never asked"));
        };
        // The call may have ended with other peers that were given up at the same time.
        if known.awaited.is_empty() && self.gave_up != (id, now) {
            return Some(format!("gives {peer} up, whose answer it does not await"));
        }
        let (asked, patience) = (known.asked, dead_after - every);
        let lost = self.lost.get(&(id, peer)).copied().filter(|_| !known.asked_beside).unwrap_or_default();
        let since = known.heard.max(known.first_asked).max(lost);
        let silent = now.saturating_sub(since.max(self.back(id, peer)));
        // The node does not record messages before its first check of the peer.
        if silent < patience {
            return Some(format!("gives {peer} up after {silent} ns, where {patience} must pass"));
        }
        if let Some(begun) = self.begun_for(id, peer, known).filter(|begun| now - begun < dead_after) {
            let silent = now - begun;
            return Some(format!(
                "gives {peer} up {silent} ns after the call began that awaits it, where {dead_after} must pass"
            ));
        }
        let waited = now - known.left.get().unwrap_or(known.question);
        if asked > 0 && waited < patience {
            return Some(format!(
                "gives {peer} up {waited} ns after its question, where {patience} must pass"
            ));
        }
        if let Some(late) = self.late(book, id, peer, now) {
            return Some(format!("gives {peer} up too late, {late}"));
        }
        (asked < ASKED_MIN).then(|| format!("gives {peer} up, whom it has asked {asked} times"))
    }
}

/// Whether one id is below another in the tree of a partial call.
fn below(record: &Record, above: Id, id: Id) -> bool {
    let places = record.position(above).zip(record.position(id));
    record.plan.partial && places.is_some_and(|(above, id)| record.between(above, id).is_some())
}
