//! What can be wrong with level-n data, and where.

use super::MAX_LEVEL;

/// Bytes that are not data of the level they were said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("level data: byte {position}: {kind}")]
pub struct LevelError {
    /// Offset from the start of the data, in bytes. It points at the byte that cannot stand there; where a count is
    /// wrong as a whole (leading zero, overflow, over a limit), at the count's first byte; where the input ended too
    /// early, at its end.
    pub position: u64,
    /// What is wrong there.
    pub kind: LevelErrorKind,
}

/// What is wrong, without the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelErrorKind {
    /// A space without a digit before it.
    #[error("count is empty; expected a digit before the space")]
    EmptyCount,
    /// A count begins with something else than a digit.
    #[error("expected a count, found '{}'", .found.escape_ascii())]
    NotADigit {
        /// The byte that stands there.
        found: u8,
    },
    /// A count begins with `+` or `-`.
    #[error("count has a sign '{}'; expected digits alone", .found.escape_ascii())]
    Sign {
        /// The byte that stands there.
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
        /// The byte that stands there.
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
        /// The sum of the counts up to and with this one (at most `u64::MAX`).
        members: u64,
        /// The limit.
        limit: u64,
    },
    /// The level is higher than [`Limits::level`](super::Limits::level). Found before any byte is read.
    #[error("level {level} is nested too deep; expected at most level {limit}")]
    LevelOverLimit {
        /// The level of the data.
        level: u16,
        /// The limit.
        limit: u16,
    },
    /// There are no bytes at all.
    #[error("input is empty; expected a count")]
    Empty,
    /// The input ends inside a count or before its space.
    #[error("input ends inside a count; expected a digit or a space")]
    CountCut,
    /// The input ends inside the bytes of a level-0 value.
    #[error("input ends inside level 0 data; expected {missing} more bytes")]
    LeafCut {
        /// How many bytes of the value did not come.
        missing: u64,
    },
    /// The input ends between the members of a value.
    #[error("input ends inside level {level} data; expected {missing} more members")]
    MembersMissing {
        /// The level of the innermost value that lacks members.
        level: u16,
        /// How many of its members did not come.
        missing: u64,
    },
    /// Bytes follow the value.
    #[error("bytes left over; expected the end of the data")]
    LeftOver,
}

/// An aggregate would be of a higher level than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "level data: a child's data are of the highest level there is, {MAX_LEVEL}; use a tree of less depth"
)]
pub struct LevelLimit;
