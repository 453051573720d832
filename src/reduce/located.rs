//! Reductions of numbers that carry the id that they come from: the smallest, the greatest, and the greatest few.
//!
//! An element is a number and an id of four bytes, one after the other, both little-endian. Where numbers are equal,
//! the lower id comes first, so the order of the replies does not matter.

use std::cmp::Ordering;

use gpc_trees::Id;

use super::error::ReductionError;
use super::number::{Number, sealed::Sealed as _};
use super::number_type::NumberType;

/// Length of an id in bytes.
const ID: usize = size_of::<Id>();

/// A number and the id that it comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Located<T> {
    /// The number.
    pub number: T,
    /// The id.
    pub id: Id,
}

impl<T: Number> Located<T> {
    fn read(bytes: &[u8]) -> Located<T> {
        let (number, id) = bytes.split_at(T::TYPE.size());
        Located { number: T::read(number), id: Id::read(id) }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.number.bytes().as_ref());
        out.extend_from_slice(&self.id.to_le_bytes());
    }

    /// The smaller number comes first, then the lower id.
    fn ascending(&self, other: &Located<T>) -> Ordering {
        self.number.order(&other.number).then(self.id.cmp(&other.id))
    }

    /// The greater number comes first, then the lower id.
    fn descending(&self, other: &Located<T>) -> Ordering {
        other.number.order(&self.number).then(self.id.cmp(&other.id))
    }
}

/// The data of a reply whose numbers all come from one id, such as for
/// [`min_with_id`](super::Reduction::min_with_id).
pub fn located_bytes<T: Number>(numbers: &[T], id: Id) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers) + numbers.len() * ID);
    numbers.iter().for_each(|number| Located { number: *number, id }.write(&mut bytes));
    bytes
}

/// Numbers with their ids, from the data of a reply.
///
/// # Errors
/// The bytes are not whole elements.
pub fn located<T: Number>(bytes: &[u8]) -> Result<Vec<Located<T>>, ReductionError> {
    check(bytes, T::TYPE)?;
    Ok(elements(bytes).collect())
}

fn elements<T: Number>(bytes: &[u8]) -> impl Iterator<Item = Located<T>> {
    bytes.chunks_exact(T::TYPE.size() + ID).map(Located::read)
}

/// Keeps the smaller element of each pair.
pub(super) fn min<T: Number>(own: &mut [u8], more: &[u8]) {
    each::<T>(own, more, Located::ascending);
}

/// Keeps the greater element of each pair.
pub(super) fn max<T: Number>(own: &mut [u8], more: &[u8]) {
    each::<T>(own, more, Located::descending);
}

fn each<T: Number>(own: &mut [u8], more: &[u8], order: fn(&Located<T>, &Located<T>) -> Ordering) {
    let size = T::TYPE.size() + ID;
    for (own, more) in own.chunks_exact_mut(size).zip(more.chunks_exact(size)) {
        if order(&Located::read(more), &Located::read(own)).is_lt() {
            own.copy_from_slice(more);
        }
    }
}

/// Merges two lists and keeps the greatest `count` elements, the greatest first. The lists may be in any order, since
/// functions write them.
pub(super) fn top<T: Number>(own: &mut Vec<u8>, more: &[u8], count: usize) {
    let mut all: Vec<Located<T>> = elements(own).chain(elements(more)).collect();
    all.sort_by(Located::descending);
    all.truncate(count);
    own.clear();
    all.into_iter().for_each(|element| element.write(own));
}

/// Checks that bytes are whole elements.
///
/// # Errors
/// They are not.
pub(super) fn check(bytes: &[u8], of: NumberType) -> Result<(), ReductionError> {
    match bytes.len().is_multiple_of(of.size() + ID) {
        true => Ok(()),
        false => Err(ReductionError::PartialLocated { bytes: bytes.len(), of }),
    }
}
