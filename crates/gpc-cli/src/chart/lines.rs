//! Styles of the lines of a chart. Each line can be distinguished from every other, even where several have the same
//! times.

use super::axes::Axes;
use super::{Chart, Line, Point};

/// Colours of lines; further lines reuse them with dashes.
const COLOURS: [&str; 12] = [
    "#4338ca", "#10a06e", "#d97706", "#0891b2", "#be185d", "#525252", "#84cc16", "#dc2626", "#a855f7",
    "#78350f", "#38bdf8", "#f0abfc",
];

/// Width of a line, and radius of a point, in pixels.
const WIDTH: f64 = 2.0;
const RADIUS: f64 = 3.0;

/// Difference in radius of points that lie upon each other, in pixels, and the number of such steps.
const RING: f64 = 1.6;
const RINGS_MAX: usize = 6;

/// Distance below which points count as lying upon each other, in pixels.
const CLOSE: f64 = 1.5;

/// Maximum and minimum length of a stripe where lines lie upon each other, in pixels.
const STRIPE: f64 = 8.0;
const STRIPE_MIN: f64 = 2.0;

/// Distance between neighbouring lines with error bars, in pixels.
const BESIDE: f64 = 8.0;

/// Style of a line.
pub(super) struct Style {
    pub(super) colour: &'static str,
    /// Length of the dashes; `None` for a solid line.
    dash: Option<u32>,
    /// Shift to the right, in pixels, so that error bars are beside each other.
    pub(super) shift: f64,
}

impl Style {
    /// Returns the attributes of its path.
    pub(super) fn stroke(&self) -> String {
        let dashes = self.dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash} 4\""));
        format!("stroke=\"{}\" stroke-width=\"{WIDTH}\"{dashes}", self.colour)
    }

    /// Returns the attributes of a piece of this length, in pixels, that shares its place with other lines.
    pub(super) fn stroke_among(&self, shared: Shared, length: f64) -> String {
        let Shared { rank, count } = shared;
        if count == 1 {
            return self.stroke();
        }
        let stripe = (length / count as f64).clamp(STRIPE_MIN, STRIPE);
        format!(
            "stroke=\"{}\" stroke-width=\"{WIDTH}\" stroke-dasharray=\"{stripe:.1} {:.1}\" stroke-dashoffset=\"{:.1}\"",
            self.colour,
            stripe * (count - 1) as f64,
            -stripe * rank as f64
        )
    }
}

/// Returns the style of each line.
pub(super) fn styles(chart: &Chart, axes: &Axes) -> Vec<Style> {
    let lines = &chart.lines;
    let uncertain = lines.iter().flat_map(|line| &line.points).any(|point| point.interval_ns.is_some());
    let beside = match uncertain || axes.is_single() {
        true => BESIDE.min(axes.closest() * 0.7 / lines.len() as f64),
        false => 0.0,
    };
    let middle = (lines.len() as f64 - 1.0) / 2.0;
    let style = |place: usize| Style {
        colour: COLOURS[place % COLOURS.len()],
        dash: match place / COLOURS.len() {
            0 => None,
            round => Some(12 / u32::try_from(round.min(6)).expect("a small number")),
        },
        shift: (place as f64 - middle) * beside,
    };
    (0..lines.len()).map(style).collect()
}

/// Number of things that lie upon each other, and the number of them that are drawn before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shared {
    rank: usize,
    count: usize,
}

impl Shared {
    /// No other thing in the same place.
    pub(super) const ALONE: Shared = Shared { rank: 0, count: 1 };

    /// Radius of a point. Points that are drawn later are smaller, so that a ring of each is visible.
    pub(super) fn radius(self) -> f64 {
        RADIUS + RING * (self.count - 1 - self.rank).min(RINGS_MAX) as f64
    }
}

/// Returns which other lines pass through some consecutive points of a line.
pub(super) fn shared(lines: &[Line], place: usize, points: &[Point], axes: &Axes) -> Shared {
    let is_there = |line: &&Line| points.iter().all(|point| passes(line, point, axes));
    let others = |lines: &[Line]| lines.iter().filter(is_there).count();
    let rank = others(&lines[..place]);
    Shared { rank, count: rank + 1 + others(&lines[place + 1..]) }
}

/// Whether a line has a point there.
fn passes(line: &Line, point: &Point, axes: &Axes) -> bool {
    let at = line.points.binary_search_by_key(&point.at, |point| point.at).ok();
    at.is_some_and(|at| (axes.y_of(line.points[at].ns) - axes.y_of(point.ns)).abs() <= CLOSE)
}
