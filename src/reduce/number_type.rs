//! The types of the numbers that arrays consist of.

use std::fmt;

/// The type of a number: little-endian on the wire, as in all messages of this crate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum NumberType {
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `i64`
    I64,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl NumberType {
    /// All types.
    pub const ALL: [NumberType; 5] =
        [NumberType::U32, NumberType::U64, NumberType::I64, NumberType::F32, NumberType::F64];

    /// The name of the type, as in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            NumberType::U32 => "u32",
            NumberType::U64 => "u64",
            NumberType::I64 => "i64",
            NumberType::F32 => "f32",
            NumberType::F64 => "f64",
        }
    }

    /// Length of a number in bytes.
    pub const fn size(self) -> usize {
        match self {
            NumberType::U32 | NumberType::F32 => 4,
            NumberType::U64 | NumberType::I64 | NumberType::F64 => 8,
        }
    }

    /// The type of this name.
    pub(super) fn named(text: &str) -> Option<NumberType> {
        NumberType::ALL.into_iter().find(|number| number.name() == text)
    }

    /// Whether it is an integer. Sums of integers wrap, so their order does not matter.
    pub const fn is_integer(self) -> bool {
        !matches!(self, NumberType::F32 | NumberType::F64)
    }
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
