//! Histogram of call times, in buckets of an eighth of an octave: exact to 12 %, from a nanosecond to centuries.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::output::shown_ns;

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 3;

/// Number of buckets for all 64-bit times.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Maximum number of lines of a drawing: a screen. Buckets are merged until they fit.
const LINES_MAX: usize = 20;

/// Longest bar, in characters.
const BAR_MAX: u64 = 50;

/// Number of times in each bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Histogram(Vec<u64>);

/// A bucket that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Bucket {
    /// Shortest time of the bucket, in nanoseconds.
    pub(super) from_ns: u64,
    /// Number of calls.
    pub(super) calls: u64,
}

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram(vec![0; BUCKETS])
    }

    pub(super) fn add(&mut self, ns: u64) {
        self.0[bucket_of(ns)] += 1;
    }

    /// Returns the buckets that are not empty, in order.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        let counts = self.0.iter().enumerate().filter(|(_, calls)| **calls > 0);
        counts.map(|(bucket, &calls)| Bucket { from_ns: from_ns(bucket), calls }).collect()
    }
}

/// Returns the bucket of a time.
fn bucket_of(ns: u64) -> usize {
    let octave = ns.max(1).ilog2();
    match octave.checked_sub(SUB_BITS) {
        // The first buckets are a nanosecond wide.
        None => ns as usize,
        Some(shift) => ((shift as usize) << SUB_BITS) + (ns >> shift) as usize,
    }
}

/// Returns the shortest time of a bucket.
fn from_ns(bucket: usize) -> u64 {
    let width = 1 << SUB_BITS;
    match (bucket / width).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => ((width + bucket % width) as u64).checked_shl(shift as u32).unwrap_or(u64::MAX),
    }
}

/// At each end, one call in this many may be merged into a line `under` or `over`: a few stragglers are far from the
/// rest.
const STRAGGLERS: u64 = 100;

/// Draws the buckets as bars; a line may cover several buckets. All lines but the first and last have the same width on
/// the logarithmic scale.
///
/// # Errors
/// If the output fails.
pub(super) fn draw(buckets: &[Bucket], out: &mut dyn Write) -> io::Result<()> {
    let lines = lines(buckets);
    let all = lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.calls)).max(1);
    let most = lines.iter().map(|line| line.calls).max().unwrap_or(0).max(1);
    let calls_width = most.to_string().len();
    let word_width = lines.iter().map(|line| line.word.len()).max().unwrap_or(0);
    for Line { word, at_ns, calls } in lines {
        let percent = calls as f64 * 100.0 / all as f64;
        let bar = (u128::from(calls) * u128::from(BAR_MAX) / u128::from(most)) as usize;
        let bar = if bar == 0 && calls > 0 { "▏".into() } else { "█".repeat(bar) };
        let text = format!(
            "  {word:<word_width$} {:>8}  {calls:>calls_width$}  {percent:>5.1} %  {bar}",
            shown_ns(at_ns)
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// A line of a drawing.
struct Line {
    word: &'static str,
    at_ns: u64,
    calls: u64,
}

fn lines(buckets: &[Bucket]) -> Vec<Line> {
    let places: Vec<(usize, u64)> =
        buckets.iter().map(|bucket| (bucket_of(bucket.from_ns), bucket.calls)).collect();
    let stragglers = calls_of(places.iter()) / STRAGGLERS;
    let reaching = |so_far: &mut u64, &(place, calls): &(usize, u64)| {
        *so_far = so_far.saturating_add(calls);
        Some((place, *so_far > stragglers))
    };
    let first = places.iter().scan(0, reaching).find(|(_, enough)| *enough);
    let last = places.iter().rev().scan(0, reaching).find(|(_, enough)| *enough);
    let (Some((first, _)), Some((last, _))) = (first, last) else { return Vec::new() };
    let mut step = 1;
    // Ends: all buckets fit into one line.
    while last / step - first / step >= LINES_MAX {
        step *= 2;
    }
    let (begin, end) = (first / step * step, (last / step + 1) * step);
    let within =
        |from: usize, to: usize| calls_of(places.iter().filter(|(place, _)| (from..to).contains(place)));
    let line = |word, at: usize, calls| Line { word, at_ns: from_ns(at), calls };
    let under = line("under", begin, within(0, begin));
    let over = line("over", end, within(end, usize::MAX));
    let middle = (begin..end).step_by(step).map(|from| line("from", from, within(from, from + step)));
    let ends = [under, over].map(|line| Some(line).filter(|line| line.calls > 0));
    let [under, over] = ends;
    under.into_iter().chain(middle).chain(over).collect()
}

fn calls_of<'a>(places: impl Iterator<Item = &'a (usize, u64)>) -> u64 {
    // Counts from a file may have any value.
    places.fold(0, |sum, (_, calls)| sum.saturating_add(*calls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_time_has_a_bucket_that_begins_at_most_an_eighth_below() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!([0, 1, 7, 8, 15, 16, 18, 30].map(bucket_of), [0, 1, 7, 8, 15, 16, 17, 23]);
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(from_ns(bucket)), bucket);
        }
    }

    #[test]
    fn bars_are_drawn_together_until_they_fit() {
        let drawn = |times: &[u64]| {
            let mut histogram = Histogram::new();
            times.iter().for_each(|&ns| histogram.add(ns));
            let mut out = Vec::new();
            draw(&histogram.buckets(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(drawn(&[]), "");
        assert_eq!(drawn(&[7]), format!("  from     7 ns  1  100.0 %  {}\n", "█".repeat(50)));
        let expected = format!(
            "  from     4 ns  2   66.7 %  {}\n  from     5 ns  0    0.0 %\n  from     6 ns  1   33.3 %  {}\n",
            "█".repeat(50),
            "█".repeat(25)
        );
        assert_eq!(drawn(&[4, 4, 6]), expected);
        let wide = drawn(&[0, 1, 1_000_000, u64::MAX]);
        assert!(wide.lines().count() <= LINES_MAX && wide.lines().count() > LINES_MAX / 4, "{wide}");
        let tail = drawn(&[vec![5; 1000], vec![9; 1000], vec![2, 1000]].concat());
        let lines: Vec<&str> =
            tail.lines().map(|line| line.split("  █").next().unwrap_or_default()).collect();
        assert_eq!(lines[0], "  under     5 ns     1    0.0 %  ▏");
        assert_eq!(lines[5], "  from      9 ns  1000   50.0 %");
        assert_eq!(lines[6..], ["  over     10 ns     1    0.0 %  ▏"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(times in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut histogram = Histogram::new();
            times.iter().for_each(|&ns| histogram.add(ns));
            let buckets = histogram.buckets();
            prop_assert_eq!(buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), times.len() as u64);
            for ns in times {
                let from = from_ns(bucket_of(ns));
                prop_assert!(from <= ns && ns - from <= ns / 8);
            }
        }
    }
}
