//! State shared by the checkers: calls with their trees, executions, and the faults that touched each id.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use gpc_trees::{Group, Id, IdList, Run, Tree, edges};

use super::{Findings, Limits, NAMES, Observation, Outcome, Plan, content, forget_keys, levels, shape};
use crate::by_call::ByCall;
use crate::faults::{Fault, FaultSet};
use crate::world::LARGE;
use chained_gpc::wire::{CallId, Message, Stage};

const NAME: &str = "book";

/// Up to this many runs of ids are searched faster than a table with an entry for each id.
const FEW_RUNS: usize = 8;

/// Position of each id in a call's list, looked up several times at every event.
enum Places {
    /// Runs of ids with the position of the first; the longest run first, since it holds most ids.
    Runs(Vec<(Id, u32, u32)>),
    /// Position by id, or [`NOWHERE`].
    All(Vec<u32>),
    /// Sorted by id, for ids that are far apart.
    Some(Vec<(Id, u32)>),
}

/// Marks an id that is not in the list.
const NOWHERE: u32 = u32::MAX;

impl Places {
    fn of(ids: &IdList) -> Places {
        if ids.runs().count() <= FEW_RUNS {
            let mut start = 0;
            let placed = |Run { first, count }| {
                start += count;
                (first, count, start - count)
            };
            let mut runs: Vec<_> = ids.runs().map(placed).collect();
            runs.sort_by_key(|&(_, count, _)| Reverse(count));
            return Places::Runs(runs);
        }
        let highest = ids.iter().max().unwrap_or_default();
        // The table takes no more memory than the pairs.
        if u64::from(highest) < 2 * u64::from(ids.len()) {
            let mut all = vec![NOWHERE; highest as usize + 1];
            ids.iter().zip(0..).for_each(|(id, place)| all[id as usize] = place);
            return Places::All(all);
        }
        let mut some: Vec<(Id, u32)> = ids.iter().zip(0..).collect();
        some.sort_unstable();
        Places::Some(some)
    }

    #[inline]
    fn of_id(&self, id: Id) -> Option<u32> {
        match self {
            Places::Runs(runs) => {
                let run = runs.iter().find(|(first, count, _)| id.wrapping_sub(*first) < *count);
                run.map(|(first, _, start)| start + (id - first))
            }
            Places::All(all) => all.get(id as usize).copied().filter(|&place| place != NOWHERE),
            Places::Some(some) => {
                let place = some.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                Some(some[place].1)
            }
        }
    }
}

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

/// One call.
pub(super) struct Record {
    pub(super) plan: Arc<Plan>,
    /// Contents of its requests.
    pub(super) data: Bytes,
    pub(super) header: Bytes,
    /// By position: position of the parent; the root's is its own.
    pub(super) parents: Vec<u32>,
    /// By position: number of ids in the subtree.
    pub(super) sizes: Vec<u32>,
    /// By position: number of levels below. Empty for a list of more than [`LARGE`].
    pub(super) heights: Vec<u16>,
    /// By position: bytes of data of the subtree's reply. Empty if unknown: for lists of that size, partial calls, and
    /// calls whose replies are merged or not wanted.
    pub(super) lengths: Vec<u64>,
    /// By position: the run that executed, counted from 1; 0 for none.
    pub(super) executed: Vec<u32>,
    /// Positions reported as never having executed.
    pub(super) unreached: BTreeSet<u32>,
    places: Places,
    /// Number of levels below the root.
    pub(super) depth: u32,
    pub(super) started: u64,
    pub(super) finished: bool,
    /// By position: whether a copy of its request, or of one above it, arrived from another id. Empty if no copy did.
    forged: Vec<bool>,
    /// Claimed sender and receiver of each copy.
    forgers: BTreeSet<(Id, Id)>,
    /// Ids whose answers were malformed.
    malformed: BTreeSet<Id>,
    /// Whether replies of the call have garbled bytes.
    pub(super) garbled: bool,
}

impl Record {
    pub(super) fn new(call: CallId, plan: Arc<Plan>, started: u64) -> Result<Record, String> {
        let n = plan.ids.len();
        let (mut parents, mut sizes) = (vec![0; n as usize], vec![1; n as usize]);
        for edge in edges(&plan.tree, n) {
            let (parent, child) = edge.map_err(|error| error.to_string())?;
            parents[child as usize] = parent;
        }
        let mut heights = vec![0; if n <= LARGE { n as usize } else { 0 }];
        // Preorder: a child comes after its parent.
        for child in (1..n as usize).rev() {
            let parent = parents[child] as usize;
            sizes[parent] += sizes[child];
            if !heights.is_empty() {
                heights[parent] = heights[parent].max(heights[child] + 1);
            }
        }
        let depth = depth(&parents);
        let whole = !plan.partial && !plan.callback && plan.reply_wanted;
        let lengths = if whole { levels::lengths(&parents, &heights, plan.reply_bytes) } else { Vec::new() };
        let places = Places::of(&plan.ids);
        let executed = vec![0; n as usize];
        let unreached = BTreeSet::new();
        let data = content::data(call, plan.data_bytes).into();
        let header = content::header(call, plan.carries.header_bytes).into();
        Ok(Record {
            plan,
            data,
            header,
            parents,
            sizes,
            heights,
            lengths,
            executed,
            unreached,
            places,
            depth,
            started,
            finished: false,
            forged: Vec::new(),
            forgers: BTreeSet::new(),
            malformed: BTreeSet::new(),
            garbled: false,
        })
    }

    #[inline]
    pub(super) fn position(&self, id: Id) -> Option<u32> {
        self.places.of_id(id)
    }

    pub(super) fn root(&self) -> Option<Id> {
        self.plan.ids.first()
    }

    /// The slice of the subtree at a position.
    pub(super) fn slice(&self, position: u32) -> IdList {
        self.plan.ids.slice(Group { start: position, len: self.sizes[position as usize] })
    }

    /// Records a copied request to an id: the outcome of the id and of those below becomes uncertain. Returns false for
    /// the root, which knows its own calls.
    fn forge(&mut self, id: Id) -> bool {
        let Some(place) = self.position(id).filter(|&place| place > 0) else { return false };
        self.forged.resize(self.parents.len(), false);
        let end = place + self.sizes[place as usize];
        self.forged[place as usize..end as usize].fill(true);
        true
    }

    /// Whether another id is neither parent nor child of an id, and cannot become either.
    pub(super) fn is_stranger(&self, at: Id, other: Id) -> bool {
        let related = |above, below| {
            let between = self.position(above).zip(self.position(below));
            let between = between.and_then(|(above, below)| self.between(above, below));
            between == Some(0) || between.is_some() && self.plan.partial
        };
        let forged = |one, two| self.forgers.contains(&(one, two));
        at != other && !related(at, other) && !related(other, at) && !forged(at, other) && !forged(other, at)
    }

    /// Whether an id, or one above it, may have another parent than the call's.
    pub(super) fn is_forged(&self, position: u32) -> bool {
        self.forged.get(position as usize).is_some_and(|forged| *forged)
    }

    /// Whether a copy of one of its requests has arrived.
    pub(super) fn has_forgers(&self) -> bool {
        !self.forgers.is_empty()
    }

    /// Whether an answer of an id may have arrived malformed.
    pub(super) fn is_malformed(&self, id: Id) -> bool {
        self.malformed.contains(&id)
    }

    /// Whether any answer was malformed.
    pub(super) fn has_malformed(&self) -> bool {
        !self.malformed.is_empty()
    }

    /// Whether a copy of one of its requests has arrived below the root.
    pub(super) fn is_copied(&self) -> bool {
        !self.forged.is_empty()
    }

    /// Whether a copied request reached an id in the name of one that may also ask it. Its answer may then be to the
    /// copy.
    pub(super) fn is_misled(&self, id: Id, by: Id) -> bool {
        self.forgers.contains(&(by, id))
    }

    /// Positions above a position, from its parent to the root.
    pub(super) fn above(&self, position: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        let parent = |position: &u32| (*position > 0).then(|| self.parents[*position as usize]);
        std::iter::successors(parent(&position), parent)
    }

    /// Parent of a position; `None` for the root.
    pub(super) fn parent(&self, position: u32) -> Option<Id> {
        let parent = *self.parents.get(position as usize)?;
        (position > 0).then(|| self.plan.ids.id(parent))?
    }

    /// Whether an id is the parent of a position; cheaper than looking up the parent's id.
    pub(super) fn is_parent(&self, id: Id, position: u32) -> bool {
        let parent = self.parents.get(position as usize).filter(|_| position > 0);
        parent.is_some_and(|&parent| self.position(id) == Some(parent))
    }

    /// Subtrees of a position's children.
    pub(super) fn groups(&self, position: u32) -> impl Iterator<Item = Group> {
        let end = position + self.sizes[position as usize];
        let group = move |start: u32| (start < end).then(|| Group { start, len: self.sizes[start as usize] });
        std::iter::successors(group(position + 1), move |before| group(before.start + before.len))
    }

    /// Number of positions between one and another below it; `None` if it is not below.
    pub(super) fn between(&self, above: u32, below: u32) -> Option<u32> {
        let mut between = 0;
        let mut position = below;
        // Each step goes one level up, and parents come before their children.
        while position > above {
            position = self.parents[position as usize];
            if position == above {
                return Some(between);
            }
            between += 1;
        }
        None
    }
}

/// Number of levels below the root.
fn depth(parents: &[u32]) -> u32 {
    let mut depths = vec![0u32; parents.len()];
    // Preorder: a parent comes before its children.
    for position in 1..parents.len() {
        depths[position] = depths[parents[position] as usize] + 1;
    }
    depths.into_iter().max().unwrap_or_default()
}

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
