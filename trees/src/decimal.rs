//! Parses decimal numbers in user text: digits only.
//!
//! `u32::from_str` accepts a leading `+`; ids, positions and parameters do not allow one. The parser never panics.

use std::fmt;

/// Number of characters of an invalid text that an error quotes: enough to find it, within one line.
const EXCERPT_CHARS: usize = 40;

/// Why a text is not a number of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecimalFault {
    Missing,
    NotDigits,
    TooLarge,
}

/// Parses decimal digits, with no sign and no white space.
pub(crate) fn parse(text: &str) -> Result<u32, DecimalFault> {
    if text.is_empty() {
        return Err(DecimalFault::Missing);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DecimalFault::NotDigits);
    }
    text.parse().map_err(|_| DecimalFault::TooLarge)
}

/// Returns the beginning of a text, to quote in an error.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for DecimalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecimalFault::Missing => "a number is missing",
            DecimalFault::NotDigits => "not a decimal number",
            DecimalFault::TooLarge => "the number is over 4294967295",
        })
    }
}
