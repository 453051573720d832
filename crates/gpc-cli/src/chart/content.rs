//! The content of a chart: its texts, and the times of each kind of call.

use crate::output::shown_ns;

/// Content of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Title above the plot.
    pub(crate) title: String,
    /// Notes below the title, smaller: the meaning of a point, in at most two lines.
    pub(crate) notes: Vec<String>,
    /// What the lower axis counts.
    pub(crate) axis: &'static str,
    /// Formats a number of the lower axis.
    pub(crate) number: fn(u32) -> String,
    /// One line for each kind of call.
    pub(crate) lines: Vec<Line>,
}

/// A kind of call, and the times of its calls.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    /// Name in the legend.
    pub(crate) name: String,
    /// Points in order of their numbers.
    pub(crate) points: Vec<Point>,
}

/// Time of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    /// Number on the lower axis, at least 1.
    pub(crate) at: u32,
    /// Time in nanoseconds.
    pub(crate) ns: u64,
    /// Uncertainty of the time: lower and upper end, in nanoseconds.
    pub(crate) interval_ns: Option<(u64, u64)>,
}

impl Point {
    /// Returns a point without uncertainty.
    pub(crate) fn exact(at: u32, ns: u64) -> Point {
        Point { at, ns, interval_ns: None }
    }

    /// Returns the times that the point shows.
    pub(super) fn times_ns(self) -> impl Iterator<Item = u64> {
        let (from, to) = self.interval_ns.unwrap_or((self.ns, self.ns));
        [from, self.ns, to].into_iter()
    }

    /// Describes the point: `4 ids: 70.0 µs (69.1 µs to 71.2 µs)`.
    pub(super) fn said(&self, chart: &Chart) -> String {
        let interval =
            self.interval_ns.map(|(from, to)| format!(" ({} to {})", shown_ns(from), shown_ns(to)));
        let (at, unit) = ((chart.number)(self.at), chart.axis);
        format!("{at} {unit}: {}{}", shown_ns(self.ns), interval.unwrap_or_default())
    }
}
