//! Formats times in suitable units.

/// Formats a time with three digits in a suitable unit: `850 µs`, `12.3 ms`, `4.56 s`, `3m20s`.
pub fn shown_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => digits(us, 1_000, "ms"),
        1_000_000..60_000_000 => digits(us, 1_000_000, "s"),
        _ => {
            let seconds = us / 1_000_000;
            format!("{}m{:02}s", seconds / 60, seconds % 60)
        }
    }
}

/// Formats a time with three digits in a suitable unit: `850 ns`, `1.25 µs`, and like [`shown_us`] from a millisecond
/// on.
pub fn shown_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => digits(ns, 1_000, "µs"),
        _ => shown_us(ns / 1_000),
    }
}

/// Returns three digits. The rest is cut off, so that a time never rounds up to the next unit.
fn digits(us: u64, unit: u64, name: &str) -> String {
    let (whole, hundredths) = (us / unit, us % unit * 100 / unit);
    match whole {
        0..10 => format!("{whole}.{hundredths:02} {name}"),
        10..100 => format!("{whole}.{} {name}", hundredths / 10),
        _ => format!("{whole} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let shown = [0, 850, 999, 1_000, 12_345, 999_999, 1_000_000, 59_999_999, 60_000_000, 3_725_000_000]
            .map(shown_us);
        let expected = [
            "0 µs", "850 µs", "999 µs", "1.00 ms", "12.3 ms", "999 ms", "1.00 s", "59.9 s", "1m00s", "62m05s",
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            [0, 999, 1_000, 56_789, 999_999, 1_000_000].map(shown_ns),
            ["0 ns", "999 ns", "1.00 µs", "56.7 µs", "999 µs", "1.00 ms"]
        );
    }
}
