//! `sum`: a reduction. Every id contributes the square of its id plus one, and adds the replies of its children.
//!
//! Over the ids 0 to N-1 the result is N(N+1)(2N+1)/6, which reveals a missing id or one counted twice. Numbers are
//! sent as decimal text.

use chained_gpc::Placement;
use chained_gpc::runtime::{FunctionError, Functions, FunctionsError, Phase};
use gpc_trees::Id;

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    let sum = functions.at(Placement::Inline).phased("sum", |phase, request, own| {
        own.data = match phase {
            Phase::Init => number_of(request.me())?.to_string(),
            Phase::Wait(child) => {
                add(&own.data, child.data).map_err(|why| format!("child {}: {why}", child.from))?.to_string()
            }
        }
        .into_bytes();
        Ok(())
    })?;
    functions.commutative(sum).map(drop)
}

/// Number of digits of the largest 64-bit number.
const DIGITS_MAX: usize = 20;

/// Returns the contribution of an id: `(id + 1)` squared.
///
/// # Errors
/// If the square does not fit in 64 bits, which is so only for the highest id.
pub fn number_of(id: Id) -> Result<u64, FunctionError> {
    let number = u64::from(id) + 1;
    number.checked_mul(number).ok_or_else(|| format!("the square of {number} does not fit in 64 bits").into())
}

/// Adds two numbers in decimal text. `own` is empty at a root that only watches.
///
/// # Errors
/// If a number or the sum does not fit in 64 bits, or the text is not a number.
pub fn add(own: &[u8], more: &[u8]) -> Result<u64, FunctionError> {
    let own = if own.is_empty() { 0 } else { number(own)? };
    let more = number(more)?;
    own.checked_add(more).ok_or_else(|| format!("{own} + {more} does not fit in 64 bits").into())
}

fn number(text: &[u8]) -> Result<u64, FunctionError> {
    // A child's reply may have any length, and this runs on the event loop.
    let digits = (1..=DIGITS_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(text).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let shown = &text[..text.len().min(32)];
        format!("`{}` is no decimal number of 64 bits", shown.escape_ascii()).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_ids_is_that_of_the_formula() {
        for n in [1u64, 2, 64, 1000] {
            let sum = (0..n).try_fold(0, |sum: u64, id| {
                let number = number_of(u32::try_from(id)?)?;
                add(sum.to_string().as_bytes(), number.to_string().as_bytes())
            });
            assert_eq!(sum.unwrap(), n * (n + 1) * (2 * n + 1) / 6);
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert_eq!(number_of(Id::MAX - 1).unwrap(), u64::from(u32::MAX).pow(2));
        assert!(number_of(Id::MAX).is_err());
        assert_eq!(add(b"18446744073709551615", b"0").unwrap(), u64::MAX);
        assert_eq!(add(b"", b"7").unwrap(), 7);
        let error = add(b"18446744073709551615", b"1").unwrap_err().to_string();
        assert_eq!(error, "18446744073709551615 + 1 does not fit in 64 bits");
        for bad in ["", "-1", "+1", "1 ", "x", "18446744073709551616"] {
            assert!(add(b"1", bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(add(b"\xff\n", b"1").unwrap_err().to_string().contains(r"`\xff\n`"));
    }
}
