//! Checks bounds: on the time of a call and on what a node holds; when all is quiet, no state is left.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::book::{Book, extra_ns};
use super::findings::Findings;
use super::record::Record;
use super::refusals::RETAINED_PARTS;
use super::{Held, Observation};
use crate::large::LARGE;
use crate::ranges::forget_keys;
use chained_gpc::chain::RETENTION;
use chained_gpc::wire::Message;
use chained_gpc::wire::message::Answer;

const NAME: &str = "bounds";

/// Latest end of a call after its limit, at a root that is not paused: timers are exact here.
const LATE_NS: u64 = 1_000;

/// Upper bounds on the memory of a call beside its data and replies, of each id below, and of each level above a part
/// of a reply.
const CALL: u64 = 2 << 10;
const MEMBER: u64 = 1 << 10;
const LEVEL: u64 = 8;

/// Upper bound on the overhead of data in pieces that are not joined.
const PIECES: u64 = 1 << 10;

/// State for the bounds.
#[derive(Default)]
pub(super) struct Bounds {
    /// Number of copied requests.
    forged: usize,
    /// Id that has answered a partial call in its present input.
    answered: Option<Id>,
    /// Links by their ends; not in a large world, whose nodes are not asked.
    links: BTreeSet<(Id, Id)>,
    /// Whether a large call has started.
    blind: bool,
}

/// Whether another parent may still ask for an answer of this call, until some time after its limit. An id that was
/// paused may answer later.
fn is_asked_for(record: &Record, now: u64) -> bool {
    let limit = record.plan.limit_ns;
    now < record.started + limit + extra_ns(limit).min(RETENTION.as_nanos() as u64)
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
                // A node with little memory may be unable to retain answers.
                let record = book.calls.get(&response.call).filter(|_| !book.has_little_memory());
                let asked = record.is_some_and(|record| is_asked_for(record, findings.at));
                self.answered = Some(*from).filter(|_| asked);
            }
            Observation::Held { id, held, workers } => {
                if self.answered.take() == Some(*id) && held.retained_answers == 0 {
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
                if held.calls > most || held.retained_answers > most || held.jobs > workers.iter().sum() {
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

    /// Upper bound on the memory that an id counts for its calls and retained answers. It holds the data of all calls
    /// from each possible sender (ids above and copies), and for each call in flight every reply from below.
    fn most_held(&self, book: &Book, id: Id, held: &Held) -> Option<u64> {
        let counted = book.has_little_memory() && held.memory > 0;
        let records = || counted.then(|| book.calls.values());
        let senders = |record: &Record| u64::from(record.depth) + 1 + self.forged as u64;
        let data = |Record { plan, .. }: &Record| match plan.carries.as_they_come {
            // Each piece of data that pass through has an overhead.
            true if plan.data_bytes > 0 => u64::from(plan.data_bytes) + PIECES,
            _ => u64::from(plan.data_bytes),
        };
        let data = records()?.map(|record| senders(record) * data(record)).sum::<u64>();
        let largest = records()?.map(|record| largest(record, id)).max().unwrap_or_default();
        let answers = match (held.calls, book.limits) {
            // Retained answers have a fixed share of the memory.
            (0, Some(limits)) => {
                (limits.memory_max / RETAINED_PARTS).min(held.retained_answers as u64 * largest)
            }
            _ => (held.calls + held.retained_answers) as u64 * largest,
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

/// Upper bound on the memory of a call at an id, without its data. In a partial call the id may deal with all others.
fn largest(record: &Record, id: Id) -> u64 {
    let (plan, carries) = (&record.plan, &record.plan.carries);
    let own = record.position(id).filter(|&place| !plan.partial && !record.is_forged(place));
    let below = own.map_or(plan.ids.len(), |place| record.sizes[place as usize]);
    let reply = u64::from(plan.reply_bytes) + u64::from(carries.reply_header_bytes);
    // A merged result is stored twice if the call may end without some replies.
    let reply = if plan.partial { 2 * reply } else { reply };
    let each = MEMBER + reply + LEVEL * u64::from(record.depth);
    CALL + u64::from(carries.header_bytes) + u64::from(below) * each
}
