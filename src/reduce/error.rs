//! The errors of reductions.

use super::number_type::NumberType;

/// Data that cannot be reduced, or a text that names no reduction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReductionError {
    /// Two arrays have different lengths.
    #[error(
        "a reply of {more} bytes cannot be merged into one of {own} bytes: each id must reply with the same number of elements, or with none"
    )]
    Lengths {
        /// Length of the own reply.
        own: usize,
        /// Length of the child's reply.
        more: usize,
    },
    /// The data are not whole numbers.
    #[error("{bytes} bytes are no whole numbers of {} bytes ({of})", of.size())]
    Partial {
        /// Length of the data.
        bytes: usize,
        /// Type of the numbers.
        of: NumberType,
    },
    /// The data are not whole numbers with ids.
    #[error("{bytes} bytes are no whole elements of {} bytes: a number ({of}) and an id of 4 bytes", of.size() + 4)]
    PartialLocated {
        /// Length of the data.
        bytes: usize,
        /// Type of the numbers.
        of: NumberType,
    },
    /// The data are not whole buckets.
    #[error("{0} bytes are no whole elements of 16 bytes: a bucket (i64) and its count (u64)")]
    PartialBucket(usize),
    /// The text names no reduction.
    #[error(
        "`{0}` is no reduction: write sum, min, max, min-id or max-id with a type, as in sum:f64; top with a type and a number, as in top:f64:10; and, or, xor, first, concat or histogram"
    )]
    Unknown(String),
    /// The text has no type.
    #[error("`{0}` needs the type of the numbers: u32, u64, i64, f32 or f64, as in sum:f64")]
    NoType(String),
    /// The text names no type.
    #[error("`{0}` is no type of numbers: write u32, u64, i64, f32 or f64")]
    Type(String),
}
