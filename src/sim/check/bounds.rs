//! What is bounded: the time that a call takes, and what a node holds; and after quiet nothing is left.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::book::{Book, Record, extra_ns};
use super::refusals::KEPT_PARTS;
use super::{Findings, Held, Observation, forget_keys};
use crate::chain::KEEP;
use crate::sim::world::LARGE;
use crate::wire::Message;
use crate::wire::message::Answer;

const NAME: &str = "bounds";

/// How long past its limit a call may end at a root that is awake: timers are exact here.
const LATE_NS: u64 = 1_000;

/// Most that a call takes of a node's memory beside its data and replies, and that each id below takes, with what each level adds to its part of a reply.
const CALL: u64 = 2 << 10;
const MEMBER: u64 = 1 << 10;
const LEVEL: u64 = 8;

/// Most that the pieces of a call's data take beside their bytes, where they are not put together.
const PIECES: u64 = 1 << 10;

/// What is under way as far as bounds speak of it.
#[derive(Default)]
pub(super) struct Bounds {
    /// Copies of requests that came from elsewhere.
    forged: usize,
    /// Who has answered a partial call in its present input.
    answered: Option<Id>,
    /// Links there are, by their ends; not of a large world, whose nodes are not asked.
    links: BTreeSet<(Id, Id)>,
    /// A large call has begun.
    blind: bool,
}

/// Whether another parent may still ask for an answer of this call: until a while after its limit. An id that stood still may answer later than that.
fn is_asked_for(record: &Record, now: u64) -> bool {
    let limit = record.plan.limit_ns;
    now < record.started + limit + extra_ns(limit).min(KEEP.as_nanos() as u64)
}

impl Bounds {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Forged { .. } => self.forged += 1,
            Observation::Started { plan, .. } => self.blind |= plan.ids.len() > LARGE,
            Observation::LinkUp { at, peer } if !self.blind => drop(self.links.insert((*at, *peer))),
            Observation::LinkEnded { at, peer, .. } | Observation::Abandoned { at, peer } => {
                self.links.remove(&(*at, *peer));
            }
            Observation::Ended { id } => {
                forget_keys(&mut self.links, (*id, 0)..=(*id, Id::MAX));
            }
            Observation::Sent { from, message: Message::Response(response), .. }
                if matches!(response.answer, Answer::Partial(_)) =>
            {
                // Who has little memory may have none for what it keeps.
                let record = book.calls.get(&response.call).filter(|_| !book.has_little_memory());
                let asked = record.is_some_and(|record| is_asked_for(record, findings.at));
                self.answered = Some(*from).filter(|_| asked);
            }
            Observation::Held { id, held, workers } => {
                if self.answered.take() == Some(*id) && held.answers_kept == 0 {
                    findings.add(NAME, format!("id {id} has answered a partial call, and keeps no answer"));
                }
                if let Some(most) = self.most_held(book, *id, held).filter(|most| held.memory > *most) {
                    findings.add(NAME, format!("id {id} counts more than {most} bytes, and holds {held:?}"));
                }
                let links = self.links.range((*id, 0)..=(*id, Id::MAX)).count();
                if held.links > links {
                    let what =
                        format!("id {id} has {links} links, and takes itself for one with {}", held.links);
                    findings.add(NAME, what);
                }
                if held.kept_bytes > held.memory {
                    findings
                        .add(NAME, format!("id {id} counts more for its kept answers than in all: {held:?}"));
                }
                if held.strays > 0 {
                    let what = format!("{} entries of the tables of id {id} belong to nothing", held.strays);
                    findings.add(NAME, what);
                }
                let most = book.calls.len() + self.forged;
                if held.calls > most || held.answers_kept > most || held.jobs > workers.iter().sum() {
                    findings.add(
                        NAME,
                        format!("id {id} holds {held:?}; {most} calls there are, {workers:?} workers"),
                    );
                }
            }
            Observation::Finished { call, .. } => {
                let Some(record) = book.calls.get(call) else { return };
                let root = record.root().and_then(|root| book.time_for_reports(root, *call));
                let extra = root.map_or_else(|| extra_ns(record.plan.limit_ns), |(_, most)| most);
                let due = record.started.saturating_add(record.plan.limit_ns).saturating_add(extra);
                let awake =
                    record.root().and_then(|root| book.resumed.get(&root)).copied().unwrap_or_default();
                let latest = due.max(awake).saturating_add(LATE_NS);
                if findings.at > latest {
                    let late = findings.at - latest;
                    findings.add(
                        NAME,
                        format!("call {call} ends {late} ns after its time limit and the time for reports"),
                    );
                }
            }
            Observation::Quiet { held } => self.quiet(book, held, findings),
            _ => {}
        }
    }

    /// Most that an id may count with the calls and the answers that it holds: the data of all calls, from each that may send them, which are those above and strangers; and of each call that it holds every reply of those below.
    fn most_held(&self, book: &Book, id: Id, held: &Held) -> Option<u64> {
        let counted = book.has_little_memory() && held.memory > 0;
        let records = || counted.then(|| book.calls.values());
        let senders = |record: &Record| u64::from(record.depth) + 1 + self.forged as u64;
        let data = |Record { plan, .. }: &Record| match plan.carries.as_they_come {
            // Each piece of what passes through is counted with what it takes besides.
            true if plan.data_bytes > 0 => u64::from(plan.data_bytes) + PIECES,
            _ => u64::from(plan.data_bytes),
        };
        let data = records()?.map(|record| senders(record) * data(record)).sum::<u64>();
        let largest = records()?.map(|record| largest(record, id)).max().unwrap_or_default();
        let answers = match (held.calls, book.limits) {
            // Answers that are kept have a part of the memory, whatever is in them.
            (0, Some(limits)) => (limits.memory_max / KEPT_PARTS).min(held.answers_kept as u64 * largest),
            _ => (held.calls + held.answers_kept) as u64 * largest,
        };
        Some(data + answers)
    }

    fn quiet(&self, book: &Book, held: &[(Id, Held)], findings: &mut Findings) {
        for (id, held) in held.iter().filter(|(_, held)| *held != Held::default()) {
            findings.add(NAME, format!("id {id} still holds {held:?} when all is quiet"));
        }
        for (call, record) in book.calls.iter() {
            if !record.finished && !book.root_ended(record) {
                findings.add(NAME, format!("call {call} never ended"));
            }
        }
    }
}

/// Most that a call takes at an id besides its data. In a partial call it may have to do with all there are.
fn largest(record: &Record, id: Id) -> u64 {
    let (plan, carries) = (&record.plan, &record.plan.carries);
    let own = record.position(id).filter(|&place| !plan.partial && !record.is_forged(place));
    let below = own.map_or(plan.ids.len(), |place| record.sizes[place as usize]);
    let reply = u64::from(plan.reply_bytes) + u64::from(carries.reply_header_bytes);
    // What callback has merged is kept besides where the call may end without it.
    let reply = if plan.partial { 2 * reply } else { reply };
    let each = MEMBER + reply + LEVEL * u64::from(record.depth);
    CALL + u64::from(carries.header_bytes) + u64::from(below) * each
}
