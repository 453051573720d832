//! What a node holds is counted, where it has little memory: at least the answers that it keeps, the requests of partial calls in flight, and what their funcs have given; of whole calls, long replies of func.
//!
//! Source: [`holding`](crate::chain), what calls hold. Whole calls may be on the fast path, which counts nothing but what is long, and where func's reply is the whole answer nothing is held; roots do not count what they have started themselves. How much may be counted at most is said in `bounds`.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::book::{Book, Record};
use super::{Findings, FunctionEnd, Held, Observation, Plan};
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
    /// By the id.
    ids: Vec<Here>,
    /// What func has given that was the last to end in the input that is being taken: where there was no room for it, nothing is held.
    own: Option<(Id, CallId, u64)>,
}

/// What is known of one.
#[derive(Default)]
struct Here {
    /// Least that a call takes while it is in flight here: of all that may be.
    in_flight: Least,
    /// Least that the answer takes that was given to a partial call.
    given: Least,
}

/// Bytes by call. Of one or of a few, so that they lie in no order.
#[derive(Default)]
struct Least(SmallVec<[(CallId, u64); 1]>);

impl Least {
    fn get_mut(&mut self, call: CallId) -> Option<&mut u64> {
        self.0.iter_mut().find(|(of, _)| *of == call).map(|(_, bytes)| bytes)
    }

    fn insert(&mut self, call: CallId, bytes: u64) {
        match self.get_mut(call) {
            Some(known) => *known = bytes,
            None => self.0.push((call, bytes)),
        }
    }

    fn remove(&mut self, call: CallId) {
        self.0.retain(|(of, _)| *of != call);
    }

    /// Of so many of them, which is not seen from outside.
    fn of(&self, count: usize) -> u64 {
        let mut all: SmallVec<[u64; 4]> = self.0.iter().map(|(_, bytes)| *bytes).collect();
        all.sort_unstable();
        all.into_iter().take(count).sum()
    }
}

impl Memory {
    fn at(&mut self, id: Id) -> &mut Here {
        if self.ids.len() <= id as usize {
            self.ids.resize_with(id as usize + 1, Here::default);
        }
        &mut self.ids[id as usize]
    }

    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let Some(limits) = book.limits.filter(|_| book.has_little_memory()) else { return };
        match seen {
            Observation::Received { at, message: Message::Request(request), .. } => {
                let least = book.calls.get(&request.call).map_or(0, |record| least(record, *at, request));
                let in_flight = &mut self.at(*at).in_flight;
                let before = in_flight.get_mut(request.call).map_or(least, |before| *before);
                in_flight.insert(request.call, least.min(before));
            }
            Observation::Started { call, .. } => self.at(call.root).in_flight.insert(*call, 0),
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
            Observation::Ran { .. } => self.own = None,
            Observation::Sent {
                from,
                message: Message::Response(Response { call, answer: Answer::Partial(partial) }),
                ..
            } => {
                // The words of a report are most of it.
                let said = partial.report.causes.iter().map(|cause| cause.message.len() as u64);
                let least = KEPT_MIN + partial.reply.len() + said.sum::<u64>();
                let Here { in_flight, given } = self.at(*from);
                in_flight.remove(*call);
                given.insert(*call, least);
            }
            Observation::Sent { from, message: Message::Response(Response { call, answer }), .. } => {
                match answer {
                    Answer::Completed | Answer::Reply(_) => self.at(*from).in_flight.remove(*call),
                    // Its data are on their way, and held no more.
                    Answer::Arriving(_) => self.at(*from).in_flight.insert(*call, 0),
                    Answer::Failed(_) | Answer::Partial(_) => {}
                }
            }
            Observation::Held { id, held, .. } => self.judge(*id, *held, limits.memory_max, findings),
            Observation::Ended { id } => *self.at(*id) = Here::default(),
            _ => {}
        }
    }

    fn judge(&mut self, id: Id, held: Held, most: u64, findings: &mut Findings) {
        let own = self.own.take().filter(|(at, ..)| *at == id);
        let here = self.at(id);
        if let Some((_, call, bytes)) = own
            && held.memory + bytes + AROUND <= most
            && let Some(least) = here.in_flight.get_mut(call).filter(|_| call.root != id)
        {
            // Of a whole call that was on the fast path the reply alone is counted.
            let call = if *least > 0 { CALL_MIN } else { 0 };
            *least = (*least).max(call + bytes);
        }
        let least = here.in_flight.of(held.calls) + here.given.of(held.answers_kept);
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
