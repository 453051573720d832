//! Reductions of arrays, element by element.

use super::error::ReductionError;
use super::number::Number;
use super::number_type::NumberType;

/// Adds the numbers of `more` to those of `own`.
pub(super) fn add<T: Number>(own: &mut [u8], more: &[u8]) {
    T::each(own, more, T::plus);
}

/// Keeps the smaller number of each pair.
pub(super) fn min<T: Number>(own: &mut [u8], more: &[u8]) {
    T::each(own, more, |own, more| if more.order(&own).is_lt() { more } else { own });
}

/// Keeps the greater number of each pair.
pub(super) fn max<T: Number>(own: &mut [u8], more: &[u8]) {
    T::each(own, more, |own, more| if more.order(&own).is_gt() { more } else { own });
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
