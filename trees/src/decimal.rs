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

/// Parses a decimal number such as `6.13` or `2.5e-3`, without a sign, into billionths; further digits are dropped. The
/// parser and the printer of floating-point numbers are 30 KB of code, which this function avoids.
pub fn billionths(text: &str) -> Option<u64> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i16>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut sum = 0_u64;
    // The power of ten of the first digit, in billionths.
    let first = i64::try_from(whole.len()).ok()? + 8 + i64::from(exponent);
    for (power, byte) in (0..).map(|place| first - place).zip(whole.bytes().chain(part.bytes())) {
        if byte != b'0' && power >= 0 {
            let unit = 10_u64.checked_pow(u32::try_from(power).ok()?)?;
            sum = sum.checked_add(unit.checked_mul(u64::from(byte - b'0'))?)?;
        }
    }
    Some(sum)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_become_billionths() {
        let good = [
            ("6.13", 6_130_000_000),
            ("2", 2_000_000_000),
            (".5", 500_000_000),
            ("7.", 7_000_000_000),
            ("0.0000000019", 1),
            ("1e-05", 10_000),
            ("2.5E+3", 2_500_000_000_000),
            ("0e99", 0),
            ("0.000001e6", 1_000_000_000),
            ("1e-300", 0),
            ("18446744073.709551615", u64::MAX),
        ];
        for (text, of_it) in good {
            assert_eq!(billionths(text), Some(of_it), "{text}");
        }
        for bad in [
            "",
            ".",
            "-1",
            "+1",
            "e3",
            "1e",
            "1e3.5",
            "1e11",
            "inf",
            "1.2.3",
            "1,5",
            " 1",
            "18446744073.709551616",
        ] {
            assert_eq!(billionths(bad), None, "{bad}");
        }
    }
}
