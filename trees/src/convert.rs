//! Conversions to id lists from ranges, arrays, vectors, slices and iterators.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use crate::{DuplicateId, Id, IdList};

/// The ids of a call, from any collection: use `impl Into<Ids>` for an argument.
///
/// A list has each id once, but a `Vec` may repeat one, and a range may be backward. Such input still converts to
/// `Ids`, and [`list`](Self::list) returns the error. So a call can be written as one expression, and errors in its ids
/// are reported when it is made.
///
/// ```
/// use gpc_trees::{IdList, Ids, IdsError};
///
/// let list = |ids: Ids| ids.list().map(|list| list.to_string());
/// assert_eq!(list(vec![3, 1, 2].into()), Ok("3,1-2".into()));
/// assert_eq!(list((0..64).into()), Ok("0-63".into()));
/// assert_eq!(list((0..10).filter(|id| id % 3 == 0).collect()), Ok("0,3,6,9".into()));
/// assert_eq!(list([5, 6, 5].into()).unwrap_err().to_string(), "id 5 is listed twice, at positions 0 and 2");
/// assert!(matches!(list((8..0).into()), Err(IdsError::Backward { .. })));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ids(Result<IdList, IdsError>);

/// Why ids do not form a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IdsError {
    /// No ids where at least one is needed.
    Empty,
    /// The range begins after its end.
    Backward {
        /// Its first id.
        start: Id,
        /// Its end.
        end: Id,
    },
    /// All 2^32 ids, one more than a list holds.
    TooMany,
    /// An id occurs twice.
    Duplicate(DuplicateId),
}

impl Ids {
    /// Returns the list, which may be empty.
    ///
    /// # Errors
    /// [`IdsError`]: an id occurs twice, a range is backward, or there are more than `u32::MAX` ids.
    pub fn list(self) -> Result<IdList, IdsError> {
        self.0
    }
}

impl From<IdList> for Ids {
    fn from(ids: IdList) -> Ids {
        Ids(Ok(ids))
    }
}

impl From<&IdList> for Ids {
    fn from(ids: &IdList) -> Ids {
        Ids(Ok(ids.clone()))
    }
}

impl From<Range<Id>> for Ids {
    fn from(ids: Range<Id>) -> Ids {
        let Range { start, end } = ids;
        Ids(if start > end { Err(IdsError::Backward { start, end }) } else { Ok(IdList::range(start..end)) })
    }
}

impl From<RangeInclusive<Id>> for Ids {
    fn from(ids: RangeInclusive<Id>) -> Ids {
        let (start, end) = (*ids.start(), *ids.end());
        Ids(match end.checked_add(1) {
            _ if start > end => Err(IdsError::Backward { start, end }),
            // The range was iterated to its end.
            _ if ids.is_empty() => Ok(IdList::default()),
            Some(past) => Ok(IdList::range(start..past)),
            // The highest id cannot be the last of a half-open range.
            None if start == 0 => Err(IdsError::TooMany),
            None => Ok(IdList::through_highest(start)),
        })
    }
}

impl From<Vec<Id>> for Ids {
    fn from(ids: Vec<Id>) -> Ids {
        ids.into_iter().collect()
    }
}

impl From<&Vec<Id>> for Ids {
    fn from(ids: &Vec<Id>) -> Ids {
        ids.iter().collect()
    }
}

impl From<&[Id]> for Ids {
    fn from(ids: &[Id]) -> Ids {
        ids.iter().collect()
    }
}

impl<const N: usize> From<[Id; N]> for Ids {
    fn from(ids: [Id; N]) -> Ids {
        ids.into_iter().collect()
    }
}

impl<const N: usize> From<&[Id; N]> for Ids {
    fn from(ids: &[Id; N]) -> Ids {
        ids.iter().collect()
    }
}

impl FromIterator<Id> for Ids {
    fn from_iter<I: IntoIterator<Item = Id>>(ids: I) -> Ids {
        let list = IdList::collected(ids).map_err(IdsError::Duplicate);
        Ids(list.and_then(|list| list.ok_or(IdsError::TooMany)))
    }
}

impl<'a> FromIterator<&'a Id> for Ids {
    fn from_iter<I: IntoIterator<Item = &'a Id>>(ids: I) -> Ids {
        ids.into_iter().copied().collect()
    }
}

/// The conversions of [`Ids`], directly to a list.
macro_rules! try_from {
    ($([$($generic:tt)*] $source:ty),* $(,)?) => { $(
        impl<$($generic)*> TryFrom<$source> for IdList {
            type Error = IdsError;

            fn try_from(ids: $source) -> Result<IdList, IdsError> {
                Ids::from(ids).list()
            }
        }
    )* };
}

try_from!(
    [] Range<Id>,
    [] RangeInclusive<Id>,
    [] Vec<Id>,
    [] &Vec<Id>,
    [] &[Id],
    [const N: usize] [Id; N],
    [const N: usize] &[Id; N],
    [] Ids,
);

impl From<DuplicateId> for IdsError {
    fn from(duplicate: DuplicateId) -> IdsError {
        IdsError::Duplicate(duplicate)
    }
}

impl fmt::Display for IdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdsError::Empty => write!(f, "it names no id"),
            IdsError::Backward { start, end } => {
                write!(f, "the range from {start} to {end} is backward: the lower id comes first")
            }
            IdsError::TooMany => write!(f, "it holds more than {} ids", u32::MAX),
            IdsError::Duplicate(duplicate) => duplicate.fmt(f),
        }
    }
}

impl std::error::Error for IdsError {}
