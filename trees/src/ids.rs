//! Ordered lists of distinct ids, cut into slices without copying.
//!
//! A list is stored as runs of consecutive ids. One run, the common case of a range, is stored in the value itself;
//! more runs share one allocation, and a slice is a window on it. A list never contains an id twice: every constructor
//! checks it. Source: *Trees* in the design, "a subtree is a slice of the list".

pub(crate) mod text;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::split::Group;

/// A process in a call.
pub type Id = u32;

/// Consecutive ascending ids: `first`, `first + 1`, ... , `count` of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The lowest id.
    pub first: Id,
    /// Number of ids; a run of a list is never empty.
    pub count: u32,
}

/// An ordered list of distinct ids.
///
/// Built from a range, from a text such as `0-63,70,65`, from a collection ([`try_from`](TryFrom) a `Vec`, an array, a
/// slice), or [from any iterator](Self::from_ids). Functions that take a list as an argument take [`Ids`](crate::Ids).
///
/// A range costs no allocation; a clone and a [`slice`](Self::slice) share storage. A scattered list takes 8 bytes for
/// each run of consecutive ids. Two lists are equal if they contain the same ids in the same order.
///
/// ```
/// use gpc_trees::IdList;
///
/// let ids: IdList = "0-3,70,65".parse()?;
/// assert_eq!(ids.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 70, 65]);
/// assert_eq!((ids.len(), ids.position(70), ids.contains(4)), (6, Some(4), false));
/// assert_eq!(IdList::from_ids([0, 1, 2, 3])?, IdList::range(0..4));
/// assert!(IdList::from_ids([5, 6, 5]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IdList {
    store: Store,
    /// Start of the window, in positions of the store; always 0 for `Store::One`.
    start: u32,
    /// Number of ids in the window.
    len: u32,
}

#[derive(Clone)]
enum Store {
    One {
        first: Id,
    },
    /// At least two pieces. None continues the one before it, and the window covers parts of two or more.
    Many(Arc<[Piece]>),
}

/// A run that stores the position just past its last id instead of a count, so that a position is found by bisection.
#[derive(Clone, Copy)]
struct Piece {
    first: Id,
    end: u32,
}

/// An id that occurs twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateId {
    /// The id; the lowest one if several are repeated.
    pub id: Id,
    /// The lower of its two positions.
    pub first: u32,
    /// The higher of its two positions.
    pub second: u32,
}

/// Why runs do not make a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// Run number `index` (counted from 0) is empty.
    Empty {
        /// Index of the run.
        index: usize,
    },
    /// Run number `index` extends past the highest id, `u32::MAX`.
    PastEnd {
        /// Index of the run.
        index: usize,
        /// The run.
        run: Run,
    },
    /// The runs up to and including number `index` hold more than `u32::MAX` ids.
    TooMany {
        /// Index of the run.
        index: usize,
    },
    /// Two runs share an id.
    Duplicate(DuplicateId),
}

impl IdList {
    /// Returns the ids of a range, ascending, without an allocation. An empty or backward range gives the empty list.
    pub fn range(ids: Range<Id>) -> IdList {
        IdList::one(ids.start, ids.end.saturating_sub(ids.start))
    }

    /// Returns the ids from `start`, which is not 0, through the highest id.
    pub(crate) fn through_highest(start: Id) -> IdList {
        IdList::one(start, Id::MAX - start + 1)
    }

    /// Returns the ids in the given order, with consecutive ids joined to runs. Time O(n + r log r) for r runs.
    ///
    /// # Panics
    /// If all 2^32 ids are given: a list holds at most `u32::MAX`.
    pub fn from_ids(ids: impl IntoIterator<Item = Id>) -> Result<IdList, DuplicateId> {
        Ok(IdList::collected(ids)?.expect("a list holds at most u32::MAX ids"))
    }

    /// Like [`from_ids`](Self::from_ids), but returns `None` if all 2^32 ids are given.
    pub(crate) fn collected(ids: impl IntoIterator<Item = Id>) -> Result<Option<IdList>, DuplicateId> {
        let mut builder = Builder::default();
        for id in ids {
            if builder.push(Run { first: id, count: 1 }).is_err() {
                // More than u32::MAX ids: two are equal, unless all 2^32 ids were given.
                return builder.distinct().map(|()| None);
            }
        }
        builder.distinct()?;
        Ok(Some(builder.finish()))
    }

    /// Returns the ids of runs, in the given order, as on the wire. Time O(r log r), memory O(r) for r runs.
    pub fn from_runs(runs: impl IntoIterator<Item = Run>) -> Result<IdList, RunError> {
        let mut builder = Builder::default();
        for (index, run) in runs.into_iter().enumerate() {
            if run.count == 0 {
                return Err(RunError::Empty { index });
            }
            if run.first.checked_add(run.count - 1).is_none() {
                return Err(RunError::PastEnd { index, run });
            }
            builder.push(run).map_err(|TooMany| RunError::TooMany { index })?;
        }
        builder.distinct().map_err(RunError::Duplicate)?;
        Ok(builder.finish())
    }

    /// Number of ids.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id at a position; `None` past the end. Time O(log r) for r runs.
    pub fn id(&self, position: u32) -> Option<Id> {
        if position >= self.len {
            return None;
        }
        Some(match &self.store {
            Store::One { first } => first + position,
            Store::Many(pieces) => id_at(pieces, self.start + position),
        })
    }

    /// The first id: the receiver of a slice, the child of a group.
    pub fn first(&self) -> Option<Id> {
        self.id(0)
    }

    /// The ids in order.
    pub fn iter(&self) -> IdIter<'_> {
        IdIter { runs: self.runs(), current: Run { first: 0, count: 0 }, left: self.len }
    }

    /// The maximal runs of consecutive ids, in order. Equal lists have equal runs.
    #[inline]
    pub fn runs(&self) -> RunIter<'_> {
        match &self.store {
            Store::One { first } => {
                let single = (self.len > 0).then_some(Run { first: *first, count: self.len });
                RunIter { single, pieces: &[], skip: 0, at: 0, end: 0 }
            }
            Store::Many(pieces) => {
                let index = piece_at(pieces, 0, self.start);
                let skip = self.start - piece_start(pieces, index);
                let end = self.start + self.len;
                RunIter { single: None, pieces: &pieces[index..], skip, at: self.start, end }
            }
        }
    }

    /// Returns the ids at the positions of a group. It shares storage with this list: no allocation, time O(log r) for
    /// r runs.
    ///
    /// # Panics
    /// If the group extends past the end. The groups of [`Tree::split`](crate::Tree::split) of this list's length never
    /// do.
    pub fn slice(&self, group: Group) -> IdList {
        let end = u64::from(group.start) + u64::from(group.len);
        assert!(end <= u64::from(self.len), "{group:?} reaches past a list of {} ids", self.len);
        if group.len == 0 {
            return IdList::default();
        }
        match &self.store {
            Store::One { first } => IdList::one(first + group.start, group.len),
            Store::Many(pieces) => {
                let start = self.start + group.start;
                let piece = pieces[piece_at(pieces, 0, start)];
                if piece.end - start >= group.len {
                    return IdList::one(id_at(pieces, start), group.len);
                }
                IdList { store: Store::Many(Arc::clone(pieces)), start, len: group.len }
            }
        }
    }

    /// The position of an id. Time O(r) for r runs.
    #[inline]
    pub fn position(&self, id: Id) -> Option<u32> {
        match self.store {
            Store::One { first } => id.checked_sub(first).filter(|&offset| offset < self.len),
            Store::Many(_) => self.position_in_runs(id),
        }
    }

    fn position_in_runs(&self, id: Id) -> Option<u32> {
        let mut before = 0;
        for run in self.runs() {
            if let Some(offset) = id.checked_sub(run.first).filter(|&offset| offset < run.count) {
                return Some(before + offset);
            }
            before += run.count;
        }
        None
    }

    /// Whether an id is in the list. Time O(r) for r runs.
    pub fn contains(&self, id: Id) -> bool {
        self.position(id).is_some()
    }

    /// Returns the list with `id` inserted at, or moved to, the front, and the rest in order.
    ///
    /// # Panics
    /// If the list already holds `u32::MAX` ids and `id` is the missing one.
    pub fn with_first(&self, id: Id) -> IdList {
        let parts = match self.position(id) {
            Some(0) => return self.clone(),
            Some(at) => {
                let rest = Group { start: at + 1, len: self.len - at - 1 };
                [self.slice(Group { start: 0, len: at }), self.slice(rest)]
            }
            None => [IdList::default(), self.clone()],
        };
        let mut builder = Builder::default();
        let runs = parts.iter().flat_map(IdList::runs);
        for run in std::iter::once(Run { first: id, count: 1 }).chain(runs) {
            builder.push(run).expect("a list holds at most u32::MAX ids");
        }
        builder.finish()
    }

    /// Returns the list in another order: the id at `order[i]` moves to position i. Time O(n log r) for r runs.
    ///
    /// # Panics
    /// If `order` is not a permutation of this list's positions. [`Layout::apply`](crate::Layout::apply) checks the
    /// length first.
    pub fn permuted(&self, order: &[u32]) -> IdList {
        assert_eq!(order.len(), self.len as usize, "an order is as long as its list");
        let id = |&position: &u32| self.id(position).expect("an order names positions of its list");
        IdList::from_ids(order.iter().map(id)).expect("an order names each position once")
    }

    fn one(first: Id, len: u32) -> IdList {
        IdList { store: Store::One { first }, start: 0, len }
    }
}

/// Returns the index of the piece that holds `position`, where the first of `pieces` begins at position `from`. No
/// piece is empty, so the numbers of positions before and after bound the number of pieces on either side. If each id
/// is a piece of its own, these bounds leave a single candidate.
fn piece_at(pieces: &[Piece], from: u32, position: u32) -> usize {
    let (len, all) = (pieces.len(), pieces.last().map_or(0, |last| last.end as usize));
    let least = (position as usize).saturating_sub(all - len);
    let most = len.min((position - from) as usize);
    least + pieces[least..most].partition_point(|piece| piece.end <= position)
}

/// Returns the start position of a piece.
fn piece_start(pieces: &[Piece], index: usize) -> u32 {
    index.checked_sub(1).map_or(0, |before| pieces[before].end)
}

fn id_at(pieces: &[Piece], position: u32) -> Id {
    let index = piece_at(pieces, 0, position);
    pieces[index].first + (position - piece_start(pieces, index))
}

/// Joins runs to pieces, so that no piece continues the one before it.
#[derive(Default)]
struct Builder {
    /// Inline storage: a range, the common case, costs no allocation.
    pieces: SmallVec<[Piece; 4]>,
}

#[derive(Debug)]
struct TooMany;

impl Builder {
    /// Adds a run that is not empty and does not extend past the highest id.
    fn push(&mut self, run: Run) -> Result<(), TooMany> {
        let before = self.pieces.last().map_or(0, |piece| piece.end);
        let end = before.checked_add(run.count).ok_or(TooMany)?;
        let start = piece_start(&self.pieces, self.pieces.len().saturating_sub(1));
        match self.pieces.last_mut() {
            // Compared as 64 bits, because a piece may end with the highest id.
            Some(last) if u64::from(last.first) + u64::from(last.end - start) == u64::from(run.first) => {
                last.end = end;
            }
            _ => self.pieces.push(Piece { first: run.first, end }),
        }
        Ok(())
    }

    /// Finds the lowest id that two pieces share. Ascending pieces need no sorting.
    fn distinct(&self) -> Result<(), DuplicateId> {
        let starts = std::iter::once(0).chain(self.pieces.iter().map(|piece| piece.end));
        let placed =
            || self.pieces.iter().zip(starts.clone()).map(|(piece, at)| (piece.first, at, piece.end - at));
        let overlap = |a: (Id, u32, u32), b: (Id, u32, u32)| b.0.checked_sub(a.0).is_none_or(|gap| gap < a.2);
        if placed().zip(placed().skip(1)).all(|(a, b)| !overlap(a, b)) {
            return Ok(());
        }
        let mut sorted: Vec<_> = placed().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| overlap(pair[0], pair[1])) {
            None => Ok(()),
            Some(pair) => {
                let (id, there) = (pair[1].0, pair[1].1);
                let here = pair[0].1 + (id - pair[0].0);
                Err(DuplicateId { id, first: here.min(there), second: here.max(there) })
            }
        }
    }

    fn finish(self) -> IdList {
        match self.pieces[..] {
            [] => IdList::default(),
            [piece] => IdList::one(piece.first, piece.end),
            [.., last] => IdList { store: Store::Many(Arc::from(&self.pieces[..])), start: 0, len: last.end },
        }
    }
}

impl Default for IdList {
    /// The empty list.
    fn default() -> IdList {
        IdList::one(0, 0)
    }
}

impl PartialEq for IdList {
    fn eq(&self, other: &IdList) -> bool {
        self.len == other.len
            && match (&self.store, &other.store) {
                (Store::One { first }, Store::One { first: others }) => first == others || self.len == 0,
                (Store::Many(one), Store::Many(two))
                    if self.start == other.start && Arc::ptr_eq(one, two) =>
                {
                    true
                }
                _ => self.runs().eq(other.runs()),
            }
    }
}

impl Eq for IdList {}

impl Hash for IdList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.runs().for_each(|run| run.hash(state));
    }
}

impl fmt::Debug for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdList({self})")
    }
}

impl<'a> IntoIterator for &'a IdList {
    type Item = Id;
    type IntoIter = IdIter<'a>;

    fn into_iter(self) -> IdIter<'a> {
        self.iter()
    }
}

/// The runs of an [`IdList`]; see [`IdList::runs`].
#[derive(Clone, Debug)]
pub struct RunIter<'a> {
    single: Option<Run>,
    pieces: &'a [Piece],
    /// Number of ids of the first piece before the window.
    skip: u32,
    at: u32,
    end: u32,
}

impl Iterator for RunIter<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.single.is_some() {
            return self.single.take();
        }
        if self.at >= self.end {
            return None;
        }
        let (piece, rest) = self.pieces.split_first()?;
        let stop = piece.end.min(self.end);
        let run = Run { first: piece.first + self.skip, count: stop - self.at };
        (self.pieces, self.skip, self.at) = (rest, 0, stop);
        Some(run)
    }

    /// Computed by bisection, without visiting each run.
    fn count(self) -> usize {
        match (&self.single, self.at < self.end) {
            (Some(_), _) => 1,
            (None, true) => piece_at(self.pieces, self.at - self.skip, self.end - 1) + 1,
            (None, false) => 0,
        }
    }
}

impl FusedIterator for RunIter<'_> {}

/// The ids of an [`IdList`]; see [`IdList::iter`].
#[derive(Clone, Debug)]
pub struct IdIter<'a> {
    runs: RunIter<'a>,
    current: Run,
    left: u32,
}

impl Iterator for IdIter<'_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        if self.current.count == 0 {
            self.current = self.runs.next()?;
        }
        let id = self.current.first;
        // Wraps only after the highest id, where the run ends.
        self.current = Run { first: id.wrapping_add(1), count: self.current.count - 1 };
        self.left -= 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for IdIter<'_> {}
impl FusedIterator for IdIter<'_> {}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.. to position {}", self.first, self.end)
    }
}

impl fmt::Display for DuplicateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id {} is listed twice, at positions {} and {}", self.id, self.first, self.second)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Empty { index } => write!(f, "run {index} holds no id"),
            RunError::PastEnd { index, run: Run { first, count } } => {
                write!(f, "run {index} of {count} ids from {first} goes past the highest id, {}", Id::MAX)
            }
            RunError::TooMany { index } => {
                write!(f, "with run {index} the list holds more than {} ids", u32::MAX)
            }
            RunError::Duplicate(duplicate) => duplicate.fmt(f),
        }
    }
}

impl std::error::Error for DuplicateId {}
impl std::error::Error for RunError {}
