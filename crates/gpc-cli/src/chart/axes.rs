//! The axes of a chart: positions of numbers and times, and their labels.

use super::{Chart, Line, Point};

/// Size of the plot, in pixels.
pub(super) const PLOT_WIDTH: f64 = 620.0;
pub(super) const PLOT_HEIGHT: f64 = 410.0;
/// Margins at the left of the plot and above it.
pub(super) const LEFT: f64 = 90.0;
pub(super) const TOP: f64 = 86.0;

/// Digits of the labelled times, from many to few. The first set with few enough labels is used.
const STEPS: [&[f64]; 4] = [
    &[
        1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0,
        5.5, 6.0, 7.0, 8.0, 9.0,
    ],
    &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    &[1.0, 2.0, 5.0],
    &[1.0],
];

/// Minimum ratio of the last time of an axis to the first, as an exponent of 10: differences that are noise then look
/// like it.
const RANGE_MIN: f64 = 0.2;

/// Maximum number of labelled times: closer ones would be hard to distinguish.
const TIMES_MAX: usize = 12;

/// Number of powers of ten of a nanosecond in 64-bit times.
const POWERS: i32 = 20;

/// Minimum distance of two numbers at the lower axis, and the width of a digit, in pixels.
const NUMBER_GAP: f64 = 14.0;
const DIGIT: f64 = 8.0;

/// The axes.
pub(super) struct Axes {
    /// The numbers of all points, each once, in order.
    numbers: Vec<u32>,
    /// First and last value of the lower axis, as exponents of 2.
    range: (f64, f64),
    /// The labelled times, as exponents of 10 of a nanosecond; the first and the last are the ends of the axis.
    times: Vec<f64>,
}

impl Axes {
    pub(super) fn of(chart: &Chart) -> Axes {
        let points = || chart.lines.iter().flat_map(|Line { points, .. }| points);
        let mut numbers: Vec<u32> = points().map(|point| point.at).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let range = match numbers[..] {
            [] => (0.0, 1.0),
            // A single number is in the middle.
            [one] => (exponent(one) - 1.0, exponent(one) + 1.0),
            [first, .., last] => (exponent(first), exponent(last)),
        };
        // Two numbers below 2 have the same exponent.
        let range = if range.1 > range.0 { range } else { (range.0 - 1.0, range.1 + 1.0) };
        let times = || points().copied().flat_map(Point::times_ns).map(decimal);
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        Axes { numbers, range, times: times_between(if least.is_finite() { least } else { 0.0 }, most) }
    }

    /// Position of a number, in pixels.
    pub(super) fn x(&self, number: u32) -> f64 {
        let (from, to) = self.range;
        // No point is on the very edge.
        let inner = PLOT_WIDTH - 40.0;
        LEFT + 20.0 + (exponent(number) - from) / (to - from) * inner
    }

    /// Position of a time, in pixels.
    pub(super) fn y_of(&self, ns: u64) -> f64 {
        self.y(decimal(ns))
    }

    /// Position of the exponent of a time, in pixels.
    pub(super) fn y(&self, time: f64) -> f64 {
        let (from, to) = (self.times[0], self.times[self.times.len() - 1]);
        TOP + PLOT_HEIGHT - (time - from) / (to - from) * PLOT_HEIGHT
    }

    /// Labels of times, each with its exponent.
    pub(super) fn time_labels(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        self.times.iter().map(|&time| (time, shown(10f64.powf(time))))
    }

    /// Labels of the points' numbers, as many as fit, each with its position.
    pub(super) fn number_labels(&self, written: fn(u32) -> String) -> Vec<(f64, String)> {
        let mut labels: Vec<(f64, String)> = Vec::new();
        let mut free = f64::INFINITY;
        // The last number matters most.
        for &number in self.numbers.iter().rev() {
            let (x, label) = (self.x(number), written(number));
            let half = label.chars().count() as f64 * DIGIT / 2.0;
            if x + half + NUMBER_GAP <= free {
                free = x - half;
                labels.push((x, label));
            }
        }
        labels
    }

    /// Distance of the closest numbers, in pixels.
    pub(super) fn closest(&self) -> f64 {
        let gaps = self.numbers.windows(2).map(|pair| self.x(pair[1]) - self.x(pair[0]));
        gaps.fold(PLOT_WIDTH / 4.0, f64::min)
    }

    /// Whether there is only one number, so that all points are above each other.
    pub(super) fn is_single(&self) -> bool {
        self.numbers.len() == 1
    }
}

/// Returns round times from the last one that does not exceed `least` to the first one that is not below `most`, at
/// least two.
fn times_between(least: f64, most: f64) -> Vec<f64> {
    let more = (RANGE_MIN - (most - least)).max(0.0) / 2.0;
    let (least, most) = (least - more, most + more);
    let of = |digits: &[f64]| {
        let all: Vec<f64> = (-1..=POWERS)
            .flat_map(|power| digits.iter().map(move |digit| f64::from(power) + digit.log10()))
            .collect();
        // A small tolerance, since logarithms are rounded.
        let first = all.iter().rposition(|&time| time <= least + 1e-9).unwrap_or(0);
        let last = all.iter().position(|&time| time >= most - 1e-9).unwrap_or(all.len() - 1).max(1);
        all[first.min(last - 1)..=last].to_vec()
    };
    let mut choices = STEPS.into_iter().map(of);
    let few = choices.find(|times| times.len() <= TIMES_MAX);
    few.unwrap_or_else(|| of(STEPS[STEPS.len() - 1]))
}

/// Returns a number as an exponent of 2; a number below 1 counts as 1.
fn exponent(number: u32) -> f64 {
    f64::from(number.max(1)).log2()
}

/// Returns a time as an exponent of 10; a time below a nanosecond counts as one.
fn decimal(ns: u64) -> f64 {
    (ns.max(1) as f64).log10()
}

/// Formats a round time in a suitable unit: `1.5 µs`.
fn shown(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ns >= unit * 0.999).unwrap_or((1.0, "ns"));
    // One decimal is enough, since all labelled times are round.
    format!("{} {name}", (ns / unit * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(least: u64, most: u64) -> Vec<String> {
        times_between(decimal(least), decimal(most)).into_iter().map(|time| shown(10f64.powf(time))).collect()
    }

    #[test]
    fn times_are_round_and_neither_few_nor_many() {
        assert_eq!(
            written(24_000, 24_000),
            ["19 µs", "20 µs", "22 µs", "24 µs", "26 µs", "28 µs", "30 µs", "35 µs"]
        );
        assert!(written(1, 1).len() > 1 && written(u64::MAX, u64::MAX).len() > 1);
        assert_eq!(
            written(1_700, 9_000),
            ["1.5 µs", "2 µs", "3 µs", "4 µs", "5 µs", "6 µs", "8 µs", "10 µs"]
        );
        assert_eq!(written(30, 8_000).len(), 9);
        let long = written(1, u64::MAX);
        assert!(long.len() <= 22 && long[0] == "1 ns", "{long:?}");
        assert_eq!([5.0, 2e4, 1e6, 5e11].map(shown), ["5 ns", "20 µs", "1 ms", "500 s"]);
    }
}
