//! What a node holds is counted, where it has little memory: at least the answers that it keeps, the requests of partial calls in flight, and what their funcs have given; of whole calls, long replies of func.
//!
//! Source: [`holding`](crate::chain), what calls hold. Whole calls may be on the fast path, which counts nothing but what is long, and where func's reply is the whole answer nothing is held; roots do not count what they have started themselves. How much may be counted at most is said in `bounds`.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::book::{Book, Record};
use super::{Findings, FunctionEnd, Held, NAMES, Observation, Plan, forget};
use crate::wire::message::{Answer, Response};
use crate::wire::short::SHORT_MAX;
use crate::wire::{CallId, Message, Request};

const NAME: &str = "memory";

/// Least that an answer takes of a node's memory while it is kept, beside its reply and the words of its report, bytes.
pub(super) const KEPT_MIN: u64 = 512;

/// Least that a call in flight takes, beside what it carries.
const CALL_MIN: u64 = 1 << 10;

/// Least that a run of the ids of its list takes.
const RUN_MIN: u64 = 16;

/// Most that stands around what func has given, and is counted with it.
const AROUND: u64 = 128;

/// What is known of nodes that have little memory. Bounded by the calls at each id.
#[derive(Default)]
pub(super) struct Memory {
    /// Least that a call takes at an id while it is in flight there: of all that may be.
    in_flight: BTreeMap<(Id, CallId), u64>,
    /// Least that the answer takes that an id has given to a partial call.
    given: BTreeMap<(Id, CallId), u64>,
    /// What func has given in the input that is being taken: where there was no room for it, nothing is held.
    own: Option<(Id, CallId, u64)>,
}

impl Memory {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let Some(limits) = book.limits.filter(|_| book.has_little_memory()) else { return };
        match seen {
            Observation::Received { at, message: Message::Request(request), .. } => {
                let least = book.calls.get(&request.call).map_or(0, |record| least(record, *at, request));
                let before = self.in_flight.entry((*at, request.call)).or_insert(least);
                *before = least.min(*before);
            }
            Observation::Started { call, .. } => drop(self.in_flight.insert((call.root, *call), 0)),
            Observation::Ran { id, call, end: FunctionEnd::Through } => {
                // Where a call begins anew, the job may be one that the first has left.
                let record = book.calls.get(call).filter(|record| !book.may_run_anew(record));
                // callback changes what there is of it.
                let gives =
                    |plan: &Plan| u64::from(plan.reply_bytes) + u64::from(plan.carries.reply_header_bytes);
                let long = |plan: &Plan| gives(plan) > SHORT_MAX as u64;
                let counts =
                    |plan: &&Plan| (plan.partial || long(plan)) && plan.reply_wanted && !plan.callback;
                let plan = record.map(|record| &*record.plan).filter(counts);
                self.own = plan.map(|plan| (*id, *call, gives(plan)));
            }
            Observation::Sent {
                from,
                message: Message::Response(Response { call, answer: Answer::Partial(partial) }),
                ..
            } => {
                self.in_flight.remove(&(*from, *call));
                // The words of a report are most of it.
                let said = partial.report.causes.iter().map(|cause| cause.message.len() as u64);
                self.given.insert((*from, *call), KEPT_MIN + partial.reply.len() + said.sum::<u64>());
            }
            Observation::Sent { from, message: Message::Response(Response { call, answer }), .. } => {
                match answer {
                    Answer::Completed | Answer::Reply(_) => drop(self.in_flight.remove(&(*from, *call))),
                    // Its data are on their way, and held no more.
                    Answer::Arriving(_) => drop(self.in_flight.insert((*from, *call), 0)),
                    Answer::Failed(_) | Answer::Partial(_) => {}
                }
            }
            Observation::Held { id, held, .. } => self.judge(*id, *held, limits.memory_max, findings),
            Observation::Ended { id } => {
                forget(&mut self.in_flight, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.given, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            _ => {}
        }
    }

    fn judge(&mut self, id: Id, held: Held, most: u64, findings: &mut Findings) {
        if let Some((_, call, bytes)) = self.own.take().filter(|(at, ..)| *at == id)
            && held.memory + bytes + AROUND <= most
            && let Some(least) = self.in_flight.get_mut(&(id, call)).filter(|_| call.root != id)
        {
            // Of a whole call that was on the fast path the reply alone is counted.
            let call = if *least > 0 { CALL_MIN } else { 0 };
            *least = (*least).max(call + bytes);
        }
        // Which of them are held is not seen from outside.
        let fewest = |of: &BTreeMap<(Id, CallId), u64>, count: usize| {
            let mut all: Vec<u64> =
                of.range((id, NAMES[0])..=(id, NAMES[1])).map(|(_, least)| *least).collect();
            all.sort_unstable();
            all.into_iter().take(count).sum::<u64>()
        };
        let least = fewest(&self.in_flight, held.calls) + fewest(&self.given, held.answers_kept);
        if held.memory < least {
            findings.add(NAME, format!("id {id} counts less than {least} bytes, and holds {held:?}"));
        }
    }
}

/// Least that a call takes where a request of it comes.
fn least(record: &Record, at: Id, request: &Request) -> u64 {
    if !request.partial || record.root() == Some(at) {
        return 0;
    }
    // Longer data have a share of their own.
    let data = if request.data.len() <= SHORT_MAX as u64 { request.data.len() } else { 0 };
    CALL_MIN + RUN_MIN * request.ids.runs().count() as u64 + request.header.len() as u64 + data
}
