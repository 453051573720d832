//! Lists from what callers have at hand.

use std::ops::{Range, RangeInclusive};

use crate::{Id, IdList};

impl From<Range<Id>> for IdList {
    fn from(ids: Range<Id>) -> IdList {
        IdList::range(ids)
    }
}

/// The last id there is cannot be the end of a half-open range: a list that would hold it stops one short.
impl From<RangeInclusive<Id>> for IdList {
    fn from(ids: RangeInclusive<Id>) -> IdList {
        match ids.is_empty() {
            true => IdList::range(0..0),
            false => IdList::range(*ids.start()..ids.end().saturating_add(1)),
        }
    }
}
