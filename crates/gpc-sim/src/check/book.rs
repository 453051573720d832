//! State shared by the checkers: calls with their trees, executions, and the faults that touched each id.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::{Id, Tree};

use super::findings::Findings;
use super::record::Record;
use super::{Limits, Observation, Outcome, shape};
use crate::by_call::ByCall;
use crate::faults::{Fault, FaultSet};
use crate::large::LARGE;
use crate::ranges::{NAMES, forget_keys};
use chained_gpc::wire::{CallId, Message, Stage};

const NAME: &str = "book";

/// Extra time of a failing call: a constant, and one part in this many of its limit.
const EXTRA_NS: u64 = 100_000_000;
const EXTRA_PARTS: u64 = 100;

/// Latest end of a failing call, after its limit.
pub(super) fn extra_ns(limit_ns: u64) -> u64 {
    limit_ns / EXTRA_PARTS + EXTRA_NS
}

/// One part in this many of the extra time is divided among the levels.
const LEVELS_PARTS: u64 = 8;

/// Effect on the extra time of one millisecond more of the limit.
const ROUNDED_NS: u64 = 10_000;

/// State shared by the checkers.
#[derive(Default)]
pub(super) struct Book {
    pub(super) calls: ByCall<Record>,
    /// Faults that touched an id.
    touched: BTreeMap<Id, FaultSet>,
    /// Faults that touched all ids.
    everybody: FaultSet,
    times: BTreeMap<Fault, u64>,
    /// Faults with a count above zero.
    seen: FaultSet,
    /// Time of the last resumption of each id.
    pub(super) resumed: BTreeMap<Id, u64>,
    pub(super) ended: BTreeMap<Id, Vec<u64>>,
    /// Limits of the nodes, where they are lower than usual.
    pub(super) limits: Option<Limits>,
    /// Whether requests may wait for their links.
    pub(super) requests_wait: bool,
    /// Ids that others have lost their links to, and whether those links had been up.
    lost: BTreeSet<(Id, bool)>,
    /// Ids that have sent requests of a call: see [`has_forwarded`](Book::has_forwarded).
    forwarded: BTreeSet<(Id, CallId)>,
    /// Ids asked by an adopter, and whether a parent's request arrived after that: see
    /// [`is_overtaken`](Book::is_overtaken).
    adopted: BTreeMap<(Id, CallId), bool>,
}

impl Book {
    /// Record of a call, unless the call is large.
    pub(super) fn small(&self, call: CallId) -> Option<&Record> {
        self.calls.get(&call).filter(|record| record.plan.ids.len() <= LARGE)
    }

    /// Records an observation.
    #[inline(always)]
    pub(super) fn note(&mut self, at: u64, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Started { call, plan } => match Record::new(*call, plan.clone(), at) {
                Ok(record) => {
                    shape::check(&record, findings);
                    if self.calls.insert(*call, record).is_some() {
                        findings.add(NAME, format!("two calls have the name {call}"));
                    }
                }
                Err(error) => findings.add(NAME, format!("call {call} has no tree: {error}")),
            },
            Observation::Injected { fault, ids } => {
                *self.times.entry(*fault).or_default() += 1;
                self.seen.insert(*fault);
                // Recent starts and forged messages excuse no failure.
                if matches!(fault, Fault::Fresh | Fault::Forged) {
                    return;
                }
                // Limits touch only the ids that refuse because of them.
                if ids.is_empty() && *fault != Fault::Limits {
                    self.everybody.insert(*fault);
                }
                ids.iter().for_each(|id| self.touched.entry(*id).or_default().insert(*fault));
            }
            Observation::Forged { from, to, call } => {
                let record = self.calls.get_mut(call);
                let exempt = record.is_some_and(|record| {
                    record.forgers.insert((*from, *to));
                    record.forge(*to)
                });
                let touched = exempt.then(|| self.touched.entry(*to).or_default());
                touched.into_iter().for_each(|faults| faults.insert(Fault::SecondParent));
            }
            Observation::Malformed { from, call, garbled } => {
                if let Some(record) = self.calls.get_mut(call) {
                    record.malformed.insert(*from);
                    record.garbled |= garbled;
                }
            }
            Observation::LinkEnded { peer, unreached, .. } => {
                self.lost.insert((*peer, !unreached));
            }
            Observation::Abandoned { peer, .. } => {
                self.lost.insert((*peer, true));
            }
            Observation::Limits(limits) => self.limits = Some(*limits),
            Observation::RequestsWait => self.requests_wait = true,
            Observation::Sent { from, message: Message::Request(request), .. } => {
                let small = |record: &Record| record.plan.ids.len() <= LARGE;
                let known = self.calls.get(&request.call).is_some_and(small);
                self.forwarded.extend(known.then_some((*from, request.call)));
            }
            Observation::Received { at: id, message: Message::Request(request), .. } if request.partial => {
                if request.skipped > 0 && self.small(request.call).is_some() {
                    self.adopted.insert((*id, request.call), false);
                } else if let Some(late) = self.adopted.get_mut(&(*id, request.call)) {
                    *late = true;
                }
            }
            Observation::Ended { id } => {
                self.ended.entry(*id).or_default().push(at);
                forget_keys(&mut self.forwarded, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            Observation::Resumed { id } => {
                self.resumed.insert(*id, at);
            }
            _ => {}
        }
    }

    /// Records that an id refused because of a limit.
    pub(super) fn refuses(&mut self, id: Id) {
        self.touched.entry(id).or_default().insert(Fault::Limits);
    }

    /// Whether a root gave up a call in which an answer may have found no memory: its failure names a single cause, not
    /// that one.
    pub(super) fn may_hide_lack(&self, record: &Record, outcome: &Outcome) -> bool {
        let given_up = outcome.result.as_ref().is_err_and(|failure| failure.cause.stage == Stage::Cancelled);
        self.has_little_memory() && given_up && record.plan.partial
    }

    /// Whether a copied request may be executed again: nodes forget the calls of a root when its run ends.
    pub(super) fn may_run_anew(&self, record: &Record) -> bool {
        let copied = self.any(&[Fault::Duplicate]) || record.is_copied();
        copied && self.root_ended(record) && !record.plan.partial
    }

    /// Whether nodes have so little memory that an answer may find none.
    pub(super) fn has_little_memory(&self) -> bool {
        self.limits.is_some_and(|limits| limits.memory_max < u64::MAX)
    }

    /// Least and greatest time that an id waits for reports after the limit of a call, nanoseconds; `None` if heights
    /// are unknown.
    pub(super) fn time_for_reports(&self, id: Id, call: CallId) -> Option<(u64, u64)> {
        let record = self.calls.get(&call)?;
        let place = record.position(id)?;
        let (height, all) = (*record.heights.get(place as usize)?, *record.heights.first()?);
        let extra = extra_ns(record.plan.limit_ns);
        let known = !matches!(record.plan.tree, Tree::Explicit(_) | Tree::Registered(_));
        let levels = extra / LEVELS_PARTS;
        let part = |height: u16| extra - levels + levels * u64::from(height) / u64::from(all);
        // In frames, the root's remaining time and the age are whole milliseconds; each hop may add one.
        let rounded = ROUNDED_NS * (1 + u64::from(record.depth));
        Some(match height {
            0 => (0, 0),
            _ if place == 0 => (extra, extra),
            _ if known => (part(height), part(height) + rounded),
            // The height of a user tree below an id is unknown.
            _ => (extra - levels, extra + rounded),
        })
    }

    /// Whether the present run of an id has sent a request of a call; known in small worlds only.
    pub(super) fn has_forwarded(&self, id: Id, call: CallId) -> bool {
        self.forwarded.contains(&(id, call))
    }

    /// Whether an adopter's request was followed by one of a parent that does not know that it was given up. A later
    /// run of the id cannot distinguish this from a first request.
    pub(super) fn is_overtaken(&self, id: Id, call: CallId) -> bool {
        self.adopted.get(&(id, call)).is_some_and(|late| *late)
    }

    pub(super) fn times(&self, fault: Fault) -> u64 {
        self.times.get(&fault).copied().unwrap_or_default()
    }

    /// Faults that touched an id or all ids.
    pub(super) fn faults_of(&self, id: Id) -> FaultSet {
        self.touched.get(&id).copied().unwrap_or_default().union(self.everybody)
    }

    /// Whether an id has lost its link to this one; `up` if the link had been up, else it could not be opened.
    pub(super) fn lost(&self, id: Id, up: bool) -> bool {
        self.lost.contains(&(id, up))
    }

    /// Whether any of these faults has taken effect.
    pub(super) fn any(&self, faults: &[Fault]) -> bool {
        self.seen.has_any(faults)
    }

    /// Whether no fault has taken effect.
    pub(super) fn none(&self) -> bool {
        self.times.is_empty()
    }

    /// Whether the root of a call has ended since the start of the call.
    pub(super) fn root_ended(&self, record: &Record) -> bool {
        let ends = record.root().and_then(|root| self.ended.get(&root));
        ends.is_some_and(|ends| ends.iter().any(|at| *at >= record.started))
    }
}
