//! Reductions of arrays, element by element.

use super::error::ReductionError;
use super::number::Number;
use super::number_type::NumberType;

/// Adds the numbers of `more` to those of `own`.
pub(super) fn add<T: Number>(own: &mut [u8], more: &[u8]) {
    each(own, more, T::plus);
}

/// Keeps the smaller number of each pair.
pub(super) fn min<T: Number>(own: &mut [u8], more: &[u8]) {
    each(own, more, |own: T, more| if more.order(&own).is_lt() { more } else { own });
}

/// Keeps the greater number of each pair.
pub(super) fn max<T: Number>(own: &mut [u8], more: &[u8]) {
    each(own, more, |own: T, more| if more.order(&own).is_gt() { more } else { own });
}

#[inline(always)]
fn each<T: Number>(own: &mut [u8], more: &[u8], combine: impl Fn(T, T) -> T) {
    let size = T::TYPE.size();
    for (own, more) in own.chunks_exact_mut(size).zip(more.chunks_exact(size)) {
        own.copy_from_slice(combine(T::read(own), T::read(more)).bytes().as_ref());
    }
}

/// Combines bytes.
pub(super) fn bits(own: &mut [u8], more: &[u8], combine: impl Fn(u8, u8) -> u8) {
    for (own, more) in own.iter_mut().zip(more) {
        *own = combine(*own, *more);
    }
}

/// Checks that two arrays have the same length, in whole elements.
///
/// # Errors
/// They have not.
pub(super) fn check(own: &[u8], more: &[u8], element: Option<NumberType>) -> Result<(), ReductionError> {
    if let Some(of) = element {
        whole(own, of)?;
        whole(more, of)?;
    }
    match own.len() == more.len() {
        true => Ok(()),
        false => Err(ReductionError::Lengths { own: own.len(), more: more.len() }),
    }
}

fn whole(bytes: &[u8], of: NumberType) -> Result<(), ReductionError> {
    match bytes.len().is_multiple_of(of.size()) {
        true => Ok(()),
        false => Err(ReductionError::Partial { bytes: bytes.len(), of }),
    }
}
