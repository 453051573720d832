//! Ready callbacks: sums, minima and the like, over arrays of numbers. No I/O.
//!
//! A reduction merges the data of a child's reply into the id's own. It is registered with
//! [`Functions::reduction`](crate::Functions::reduction), under a name that is the same everywhere:
//!
//! ```
//! use chained_gpc::reduce::{Reduction, bytes_of, numbers};
//! use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
//!
//! let functions = Functions::new();
//! let load = functions.func("load", |request, reply| {
//!     reply.data = bytes_of(&[f64::from(request.me()), 0.5]);
//!     Ok(())
//! })?;
//! let sum = functions.reduction(Reduction::sum::<f64>())?;
//! let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
//! let outcome = nodes.root().call(Call::new(load).callback(sum).ids(0..4))?.wait()?;
//! assert_eq!(*numbers::<f64>(outcome.data())?, [6.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order
//! Each reduction is associative, up to rounding. An id merges the replies of its children into its own one after the
//! other. Where the order does not matter, the replies are merged as they arrive; sums of floating-point numbers,
//! [`first`](Reduction::first) and [`concatenation`](Reduction::concatenation) are merged in list order. So a sum of
//! floating-point numbers is the same, to the last bit, in each call with the same list and the same tree from which no
//! id is lost.
//!
//! Empty data stand for nothing: a function that has no value to give leaves them empty, and so does a root that only
//! watches. The headers of the children are dropped.
//!
//! Source: the ARMCI design of chained GPC (2007), "Interface and parameters" (callback).

mod arrays;
mod error;
mod histogram;
mod located;
mod number;
mod number_type;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use error::ReductionError;
pub use histogram::{histogram, histogram_bytes};
use located::top;
pub use located::{Located, located, located_bytes};
use number::with_type;
pub use number::{Number, bytes_of, numbers};
pub use number_type::NumberType;

/// Prefix of the names of reductions.
const PREFIX: &str = "reduce:";

/// A ready callback. Its text form is that of `gpc call --reduce`: the operation, and the type of the numbers where
/// there is one, such as `sum:f64`, `xor`, `top:u64:10`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reduction(Operation);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Sum(NumberType),
    Min(NumberType),
    Max(NumberType),
    And,
    Or,
    Xor,
    First,
    Concatenation,
    Histogram,
    MinWithId(NumberType),
    MaxWithId(NumberType),
    Top(NumberType, u32),
}

impl Reduction {
    /// The sums of the elements of arrays. Sums of integers wrap around.
    pub const fn sum<T: Number>() -> Reduction {
        Reduction(Operation::Sum(T::TYPE))
    }

    /// The smallest of each element. Floating-point numbers have the total order of IEEE 754: -0 is smaller than 0, and
    /// a positive NaN greater than all numbers.
    pub const fn min<T: Number>() -> Reduction {
        Reduction(Operation::Min(T::TYPE))
    }

    /// The greatest of each element, in the order of [`min`](Self::min).
    pub const fn max<T: Number>() -> Reduction {
        Reduction(Operation::Max(T::TYPE))
    }

    /// Bitwise and.
    pub const fn and() -> Reduction {
        Reduction(Operation::And)
    }

    /// Bitwise or.
    pub const fn or() -> Reduction {
        Reduction(Operation::Or)
    }

    /// Bitwise exclusive or.
    pub const fn xor() -> Reduction {
        Reduction(Operation::Xor)
    }

    /// The first data that are not empty, in list order.
    pub const fn first() -> Reduction {
        Reduction(Operation::First)
    }

    /// All data, one after the other, in list order.
    pub const fn concatenation() -> Reduction {
        Reduction(Operation::Concatenation)
    }

    /// The sums of the counts of each bucket; see [`histogram_bytes`].
    pub const fn histogram() -> Reduction {
        Reduction(Operation::Histogram)
    }

    /// The smallest of each element, and the id that it comes from; see [`located_bytes`].
    pub const fn min_with_id<T: Number>() -> Reduction {
        Reduction(Operation::MinWithId(T::TYPE))
    }

    /// The greatest of each element, and the id that it comes from; see [`located_bytes`].
    pub const fn max_with_id<T: Number>() -> Reduction {
        Reduction(Operation::MaxWithId(T::TYPE))
    }

    /// The greatest numbers of all lists, at most so many, the greatest first, and the ids that they come from; see
    /// [`located_bytes`]. The lists that functions write may have any length and order; that of an id without children
    /// stays as it is.
    pub const fn top<T: Number>(count: u32) -> Reduction {
        Reduction(Operation::Top(T::TYPE, count))
    }

    /// The name under which it is registered.
    pub fn name(&self) -> String {
        format!("{PREFIX}{self}")
    }

    /// Whether a name is that of a reduction.
    pub(crate) fn is_name(name: &str) -> bool {
        name.strip_prefix(PREFIX).is_some_and(|text| text.parse::<Reduction>().is_ok())
    }

    /// The type of the numbers in its data; `None` for bytes of any meaning.
    pub const fn number_type(&self) -> Option<NumberType> {
        match self.0 {
            Operation::Sum(of)
            | Operation::Min(of)
            | Operation::Max(of)
            | Operation::MinWithId(of)
            | Operation::MaxWithId(of)
            | Operation::Top(of, _) => Some(of),
            _ => None,
        }
    }

    /// Whether each number in its data is followed by an id.
    pub const fn has_ids(&self) -> bool {
        matches!(self.0, Operation::MinWithId(_) | Operation::MaxWithId(_) | Operation::Top(..))
    }

    /// Whether the result is independent of the order of the replies, to the last bit.
    pub const fn is_commutative(&self) -> bool {
        match self.0 {
            Operation::Sum(of) => of.is_integer(),
            Operation::First | Operation::Concatenation => false,
            _ => true,
        }
    }

    /// Merges the data of a child's reply into `own`.
    ///
    /// # Errors
    /// The data have different lengths, or are not whole elements. `own` is unchanged.
    pub fn merge(&self, own: &mut Vec<u8>, more: &[u8]) -> Result<(), ReductionError> {
        match self.0 {
            Operation::Concatenation => own.extend_from_slice(more),
            Operation::Histogram => return histogram::merge(own, more),
            Operation::Top(of, count) => {
                located::check(own, of)?;
                located::check(more, of)?;
                with_type!(of, top(own, more, count as usize));
            }
            _ if more.is_empty() => {}
            _ if own.is_empty() => {
                self.check(more, more)?;
                own.extend_from_slice(more);
            }
            Operation::First => {}
            _ => {
                self.check(own, more)?;
                self.each(own, more);
            }
        }
        Ok(())
    }

    fn check(&self, own: &[u8], more: &[u8]) -> Result<(), ReductionError> {
        match self.0 {
            Operation::First => Ok(()),
            Operation::MinWithId(of) | Operation::MaxWithId(of) => {
                located::check(own, of)?;
                located::check(more, of)?;
                arrays::check(own, more, None)
            }
            _ => arrays::check(own, more, self.number_type()),
        }
    }

    /// Combines arrays of the same length, element by element.
    fn each(&self, own: &mut [u8], more: &[u8]) {
        use arrays::{add, max, min};
        use located::{max as max_with_id, min as min_with_id};
        match self.0 {
            Operation::Sum(of) => with_type!(of, add(own, more)),
            Operation::Min(of) => with_type!(of, min(own, more)),
            Operation::Max(of) => with_type!(of, max(own, more)),
            Operation::MinWithId(of) => with_type!(of, min_with_id(own, more)),
            Operation::MaxWithId(of) => with_type!(of, max_with_id(own, more)),
            Operation::And => arrays::bits(own, more, |own, more| own & more),
            Operation::Or => arrays::bits(own, more, |own, more| own | more),
            Operation::Xor => arrays::bits(own, more, |own, more| own ^ more),
            Operation::First | Operation::Concatenation | Operation::Histogram | Operation::Top(..) => {}
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Operation::Sum(of) => write!(f, "sum:{of}"),
            Operation::Min(of) => write!(f, "min:{of}"),
            Operation::Max(of) => write!(f, "max:{of}"),
            Operation::And => f.write_str("and"),
            Operation::Or => f.write_str("or"),
            Operation::Xor => f.write_str("xor"),
            Operation::First => f.write_str("first"),
            Operation::Concatenation => f.write_str("concat"),
            Operation::Histogram => f.write_str("histogram"),
            Operation::MinWithId(of) => write!(f, "min-id:{of}"),
            Operation::MaxWithId(of) => write!(f, "max-id:{of}"),
            Operation::Top(of, count) => write!(f, "top:{of}:{count}"),
        }
    }
}

impl FromStr for Reduction {
    type Err = ReductionError;

    fn from_str(text: &str) -> Result<Reduction, ReductionError> {
        let unknown = || ReductionError::Unknown(text.into());
        let mut words = text.split(':');
        let operation = words.next().unwrap_or_default();
        let mut of = || {
            let word = words.next().ok_or_else(|| ReductionError::NoType(text.into()))?;
            NumberType::named(word).ok_or_else(|| ReductionError::Type(word.into()))
        };
        let operation = match operation {
            "sum" => Operation::Sum(of()?),
            "min" => Operation::Min(of()?),
            "max" => Operation::Max(of()?),
            "min-id" => Operation::MinWithId(of()?),
            "max-id" => Operation::MaxWithId(of()?),
            "top" => {
                let of = of()?;
                let count = words.next().and_then(|count| count.parse().ok());
                Operation::Top(of, count.filter(|count| *count > 0).ok_or_else(unknown)?)
            }
            "and" => Operation::And,
            "or" => Operation::Or,
            "xor" => Operation::Xor,
            "first" => Operation::First,
            "concat" => Operation::Concatenation,
            "histogram" => Operation::Histogram,
            _ => return Err(unknown()),
        };
        match words.next() {
            None => Ok(Reduction(operation)),
            Some(_) => Err(unknown()),
        }
    }
}
