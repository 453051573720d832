//! One call as the checkers know it: its plan, its tree, and the copied and malformed messages about it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use gpc_trees::{Group, Id, IdList, Run, edges};

use super::content;
use super::lengths::lengths;
use super::plan::Plan;
use crate::large::LARGE;
use chained_gpc::wire::CallId;

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
    pub(super) forgers: BTreeSet<(Id, Id)>,
    /// Ids whose answers were malformed.
    pub(super) malformed: BTreeSet<Id>,
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
        let lengths = if whole { lengths(&parents, &heights, plan.reply_bytes) } else { Vec::new() };
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

    /// The data of the id at a position.
    pub(super) fn data_of(&self, position: u32) -> Bytes {
        self.data.slice(self.plan.data_range(Group { start: position, len: 1 }))
    }

    /// The data that travel to the subtree at a position.
    pub(super) fn data_below(&self, position: u32) -> Bytes {
        let len = self.sizes[position as usize];
        self.data.slice(self.plan.data_range(Group { start: position, len }))
    }

    /// The slice of the subtree at a position.
    pub(super) fn slice(&self, position: u32) -> IdList {
        self.plan.ids.slice(Group { start: position, len: self.sizes[position as usize] })
    }

    /// Records a copied request to an id: the outcome of the id and of those below becomes uncertain. Returns false for
    /// the root, which knows its own calls.
    pub(super) fn forge(&mut self, id: Id) -> bool {
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

/// Position of each id in a call's list, looked up several times at every event.
enum Places {
    /// Runs of ids with the position of the first; the longest run first, since it holds most ids.
    Runs(Vec<(Id, u32, u32)>),
    /// Position by id, or [`NOWHERE`].
    All(Vec<u32>),
    /// Sorted by id, for ids that are far apart.
    Some(Vec<(Id, u32)>),
}

/// Up to this many runs of ids are searched faster than a table with an entry for each id.
const FEW_RUNS: usize = 8;

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
