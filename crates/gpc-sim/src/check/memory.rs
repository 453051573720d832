//! Checks that a node with little memory counts what it holds. Counted are at least retained answers, requests of
//! partial calls in flight, and the replies of their funcs; for whole calls, long replies of func.
//!
//! Source: the memory of calls in [`chain`](chained_gpc::chain). Whole calls may be on the fast path, which counts only
//! long replies. If func's reply is the whole answer, nothing is held. A root does not count calls that it has started
//! itself. `bounds` checks the upper limit.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use super::{FunctionEnd, Held, Observation, Plan};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::short::SHORT_MAX;
use chained_gpc::wire::{CallId, Message, Request};

const NAME: &str = "memory";

/// Least memory of a retained answer, without its reply and the messages of its report, bytes.
pub(super) const RETAINED_MIN: u64 = 512;

/// Least memory of a call in flight, without its contents.
const CALL_MIN: u64 = 1 << 10;

/// Least memory of a run of ids in its list.
const RUN_MIN: u64 = 16;

/// Largest overhead counted with func's reply.
const AROUND: u64 = 128;

/// Known contents of nodes with little memory, bounded by the calls at each id.
#[derive(Default)]
pub(super) struct Memory {
    /// Indexed by id.
    ids: Vec<NodeContents>,
    /// Reply of the func that ended last in the current input; without room for it, nothing is held.
    own: Option<(Id, CallId, u64)>,
}

/// Known contents of one node.
#[derive(Default)]
struct NodeContents {
    /// Least memory of each call that may be in flight here.
    in_flight: Least,
    /// Least memory of each answer given to a partial call.
    given: Least,
}

/// Bytes by call, of one or few calls, unsorted.
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

    /// Least sum over `count` of the calls: which ones are held is unknown.
    fn of(&self, count: usize) -> u64 {
        let mut all: SmallVec<[u64; 4]> = self.0.iter().map(|(_, bytes)| *bytes).collect();
        all.sort_unstable();
        all.into_iter().take(count).sum()
    }
}

impl Memory {
    fn at(&mut self, id: Id) -> &mut NodeContents {
        if self.ids.len() <= id as usize {
            self.ids.resize_with(id as usize + 1, NodeContents::default);
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
                // If a call was started anew, the job may be left from the first time.
                let record = book.calls.get(call).filter(|record| !book.may_run_anew(record));
                // A reply that comes after the limit may be dropped; no id has an earlier limit than the root.
                let in_time = |record: &&Record| findings.at < record.started + record.plan.limit_ns;
                let record = record.filter(in_time);
                // A callback replaces the reply.
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
                // The messages are the largest part of a report.
                let said = partial.report.causes.iter().map(|cause| cause.message.len() as u64);
                let least = RETAINED_MIN + partial.reply.len() + said.sum::<u64>();
                let NodeContents { in_flight, given } = self.at(*from);
                in_flight.remove(*call);
                given.insert(*call, least);
            }
            Observation::Sent { from, message: Message::Response(Response { call, answer }), .. } => {
                match answer {
                    Answer::Completed | Answer::Reply(_) => self.at(*from).in_flight.remove(*call),
                    // Its data are being sent, and no longer held.
                    Answer::Arriving(_) => self.at(*from).in_flight.insert(*call, 0),
                    Answer::Failed(_) | Answer::Partial(_) => {}
                }
            }
            Observation::Held { id, held, .. } => self.judge(*id, *held, limits.memory_max, findings),
            Observation::Ended { id } => *self.at(*id) = NodeContents::default(),
            _ => {}
        }
    }

    fn judge(&mut self, id: Id, held: Held, most: u64, findings: &mut Findings) {
        let own = self.own.take().filter(|(at, ..)| *at == id);
        let node = self.at(id);
        if let Some((_, call, bytes)) = own
            && held.memory + bytes + AROUND <= most
            && let Some(least) = node.in_flight.get_mut(call).filter(|_| call.root != id)
        {
            // A whole call on the fast path counts only the reply.
            let call = if *least > 0 { CALL_MIN } else { 0 };
            *least = (*least).max(call + bytes);
        }
        let least = node.in_flight.of(held.calls) + node.given.of(held.retained_answers);
        if held.memory < least {
            findings.add(NAME, format!("id {id} counts less than {least} bytes, and holds {held:?}"));
        }
    }
}

/// Least memory of a call at the arrival of its request.
fn least(record: &Record, at: Id, request: &Request) -> u64 {
    if !request.partial || record.root() == Some(at) {
        return 0;
    }
    // Longer data are counted separately.
    let data = if request.body().len() <= SHORT_MAX as u64 { request.body().len() } else { 0 };
    CALL_MIN + RUN_MIN * request.ids.runs().count() as u64 + request.header.len() as u64 + data
}
