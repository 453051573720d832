//! Errors in level-n data, each with its position.

use super::MAX_LEVEL;

/// The bytes are not valid data of the expected level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("level data: byte {position}: {kind}")]
pub struct LevelError {
    /// Offset from the start of the data, in bytes. It points at the invalid byte; at the first byte of a count that is
    /// invalid as a whole (leading zero, overflow, over a limit); or at the end of input that ends too early.
    pub position: u64,
    /// The error at that position.
    pub kind: LevelErrorKind,
}

/// An error in level-n data, without its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelErrorKind {
    /// A space without a digit before it.
    #[error("count is empty; expected a digit before the space")]
    EmptyCount,
    /// A count begins with a byte that is not a digit.
    #[error("expected a count, found '{}'", .found.escape_ascii())]
    NotADigit {
        /// The byte found.
        found: u8,
    },
    /// A count begins with `+` or `-`.
    #[error("count has a sign '{}'; expected digits alone", .found.escape_ascii())]
    Sign {
        /// The byte found.
        found: u8,
    },
    /// A count of several digits begins with `0`.
    #[error("count has a leading zero; expected a decimal number without")]
    LeadingZero,
    /// A count does not fit in 64 bits.
    #[error("count overflows; expected at most {}", u64::MAX)]
    CountOverflow,
    /// A count is not followed by a space.
    #[error("expected a space or a digit after the count, found '{}'", .found.escape_ascii())]
    MissingSpace {
        /// The byte found.
        found: u8,
    },
    /// A level-0 value is longer than [`Limits::leaf_bytes`](super::Limits::leaf_bytes).
    #[error("level 0 data of {len} bytes; expected at most {limit}")]
    LeafOverLimit {
        /// The length announced, in bytes.
        len: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The counts of all levels add up to more than [`Limits::members`](super::Limits::members).
    #[error("{members} members counted up to here; expected at most {limit}")]
    MembersOverLimit {
        /// The sum of the counts up to and including this one (at most `u64::MAX`).
        members: u64,
        /// The limit.
        limit: u64,
    },
    /// The level is higher than [`Limits::level`](super::Limits::level). Reported before any byte is read.
    #[error("level {level} is nested too deep; expected at most level {limit}")]
    LevelOverLimit {
        /// The level of the data.
        level: u16,
        /// The limit.
        limit: u16,
    },
    /// The input is empty.
    #[error("input is empty; expected a count")]
    Empty,
    /// The input ends inside a count or before its space.
    #[error("input ends inside a count; expected a digit or a space")]
    CountCut,
    /// The input ends inside the bytes of a level-0 value.
    #[error("input ends inside level 0 data; expected {missing} more bytes")]
    LeafCut {
        /// Number of bytes missing.
        missing: u64,
    },
    /// The input ends between the members of a value.
    #[error("input ends inside level {level} data; expected {missing} more members")]
    MembersMissing {
        /// The level of the innermost value with missing members.
        level: u16,
        /// Number of its members missing.
        missing: u64,
    },
    /// Bytes follow the value.
    #[error("bytes left over; expected the end of the data")]
    LeftOver,
}

/// The level of an aggregate would exceed [`MAX_LEVEL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "level data: a child's data are of the highest level there is, {MAX_LEVEL}; use a tree of less depth"
)]
pub struct LevelLimit;
