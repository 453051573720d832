//! Durations as text: `250ms`, `2s`, `1m30s`.
//!
//! Conversion is exact: no floating point between the text and the nanoseconds. A printed duration parses to the same
//! value.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units in nanoseconds, the largest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Longest accepted duration: a year, so that adding it to the present never overflows a clock.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Longest text that an error quotes, in characters.
const QUOTED_MAX: usize = 40;

/// A duration from 0 to 365 days.
///
/// Its text is a list of whole numbers or decimal fractions with their units, the largest unit first: `1.5s`, `1m30s`,
/// `2h`, `250ms`. Units are `d`, `h`, `m`, `s`, `ms`, `us` (or `µs`) and `ns`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span(Duration);

/// Text that is not a duration, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no length of time: {why}; write it as in 250ms, 2s, 1m30s or 1.5h")]
pub struct SpanError {
    text: String,
    why: String,
}

impl Span {
    /// Returns the standard type.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.0
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        parse(text.trim())
            .map(Span)
            .map_err(|why| SpanError { text: text.chars().take(QUOTED_MAX).collect(), why })
    }
}

/// Formats a duration to the second, by its two largest units, such as `1m30s`.
pub fn brief(length: Duration) -> String {
    let seconds = length.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let mut rest = text;
    let mut units = &UNITS[..];
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let place = place_of(number, unit, units)?;
        total = total.checked_add(part(number, units[place].1)?).unwrap_or(Duration::MAX);
        if total > LONGEST {
            return Err(format!("it is longer than {} days", LONGEST.as_secs() / 86_400));
        }
        (rest, units) = (after, &units[place + 1..]);
    }
    Ok(total)
}

/// Returns the index of a unit among the units that may follow.
fn place_of(number: &str, unit: &str, units: &[(&str, u64)]) -> Result<usize, String> {
    let unit = if unit == "µs" { "us" } else { unit };
    if number.is_empty() {
        return Err(format!(
            "there is no number before `{}`",
            unit.chars().take(QUOTED_MAX).collect::<String>()
        ));
    }
    if unit.is_empty() {
        return Err(format!("`{number}` has no unit (d, h, m, s, ms, us or ns)"));
    }
    if let Some(place) = units.iter().position(|(name, _)| *name == unit) {
        return Ok(place);
    }
    match UNITS.iter().any(|(name, _)| *name == unit) {
        true => Err(format!("`{unit}` comes twice or after a smaller unit")),
        false => Err(format!("`{unit}` is no unit (d, h, m, s, ms, us or ns)")),
    }
}

/// Parses a number with at most 9 decimal places, in a unit. Fractions of a nanosecond are cut off.
fn part(number: &str, unit_ns: u64) -> Result<Duration, String> {
    let bad = || format!("`{number}` is no number");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(bad());
    }
    if fraction.len() > 9 {
        return Err(format!("`{number}` has more than 9 places after the point"));
    }
    // From here on all are digits, so only the size of the number can be wrong.
    let Ok(whole) = whole.parse::<u64>() else { return Ok(Duration::MAX) };
    let places = 10u128.pow(u32::try_from(fraction.len()).expect("at most 9"));
    let fraction = u128::from(fraction.parse::<u64>().map_err(|_| bad())?);
    let nanos = u128::from(whole) * u128::from(unit_ns) + fraction * u128::from(unit_ns) / places;
    Ok(u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_nanos()).expect("bounded by a year");
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, unit_ns) in UNITS {
            if rest >= unit_ns {
                write!(f, "{}{unit}", rest / unit_ns)?;
                rest %= unit_ns;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(text: &str) -> Duration {
        text.parse::<Span>().unwrap().duration()
    }

    #[test]
    fn texts_are_lengths_of_time() {
        assert_eq!(span("250ms"), Duration::from_millis(250));
        assert_eq!(span(" 2s "), Duration::from_secs(2));
        assert_eq!(span("1m30s"), Duration::from_secs(90));
        assert_eq!(span("1.5h"), Duration::from_secs(5400));
        assert_eq!(span("1d2h3m4s5ms6µs7ns"), Duration::new(93_784, 5_006_007));
        assert_eq!(span("0s"), Duration::ZERO);
        assert_eq!(span("0.000000001s"), Duration::from_nanos(1));
        assert_eq!(span("365d"), LONGEST);
    }

    #[test]
    fn what_is_no_length_of_time_says_why() {
        let why = |text: &str| text.parse::<Span>().unwrap_err().why;
        assert_eq!(why(""), "it is empty");
        assert_eq!(why("5"), "`5` has no unit (d, h, m, s, ms, us or ns)");
        assert_eq!(why("s"), "there is no number before `s`");
        assert_eq!(why("-5s"), "there is no number before `-`");
        assert_eq!(why("5 s"), "` s` is no unit (d, h, m, s, ms, us or ns)");
        assert_eq!(why("5sec"), "`sec` is no unit (d, h, m, s, ms, us or ns)");
        assert_eq!(why("5s1m"), "`m` comes twice or after a smaller unit");
        assert_eq!(why("5s5s"), "`s` comes twice or after a smaller unit");
        assert_eq!(why("1.2.3s"), "`1.2.3` is no number");
        assert_eq!(why(".5s"), "`.5` is no number");
        assert_eq!(why("1.s"), "`1.` is no number");
        assert_eq!(why("0.0000000001s"), "`0.0000000001` has more than 9 places after the point");
        for long in ["366d", "365d1ns", "99999999999999999999999999s", "18446744073709551615d"] {
            assert_eq!(why(long), "it is longer than 365 days", "{long}");
        }
        let error = "5x".parse::<Span>().unwrap_err().to_string();
        assert!(error.starts_with("`5x` is no length of time: ") && error.contains("1m30s"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(nanos in 0..=365 * 86_400 * 1_000_000_000u64) {
            let span = Span(Duration::from_nanos(nanos));
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }

        #[test]
        fn no_text_panics(text in "[0-9.dhmsunµ -]{0,24}") {
            if let Ok(span) = text.parse::<Span>() {
                prop_assert!(span.duration() <= LONGEST);
            }
        }
    }
}
