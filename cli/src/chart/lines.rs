//! How the lines of a chart look: so that each can be told from every other, also where several have the same times.

use super::axes::Axes;
use super::{Chart, Line, Point};

/// Colours of lines; with more lines they are used again, with dashes.
const COLOURS: [&str; 12] = [
    "#4338ca", "#10a06e", "#d97706", "#0891b2", "#be185d", "#525252", "#84cc16", "#dc2626", "#a855f7",
    "#78350f", "#38bdf8", "#f0abfc",
];

/// Width of a line, and radius of a point, pixels.
const WIDTH: f64 = 2.0;
const RADIUS: f64 = 3.0;

/// How much larger each point is that lies under another, pixels; and how many are told apart so.
const RING: f64 = 1.6;
const RINGS_MAX: usize = 6;

/// Points that are closer lie upon each other, pixels.
const CLOSE: f64 = 1.5;

/// Length of a stripe where lines lie upon each other, at most and at least, pixels.
const STRIPE: f64 = 8.0;
const STRIPE_MIN: f64 = 2.0;

/// How far lines with error bars stand beside each other, pixels.
const BESIDE: f64 = 8.0;

/// How a line looks.
pub(super) struct Style {
    pub(super) colour: &'static str,
    /// Lengths of the dash and the gap; none of a whole line.
    dash: Option<u32>,
    /// How far it is drawn to the right of its numbers, so that error bars stand beside each other. Pixels.
    pub(super) shift: f64,
}

impl Style {
    /// The attributes of its path.
    pub(super) fn stroke(&self) -> String {
        let dashes = self.dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash} 4\""));
        format!("stroke=\"{}\" stroke-width=\"{WIDTH}\"{dashes}", self.colour)
    }

    /// The same of a piece of so many pixels that shares its place with others.
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

/// The look of each line.
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

/// Of things that lie upon each other, how many there are, and how many of them are drawn before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shared {
    rank: usize,
    count: usize,
}

impl Shared {
    /// With nothing else.
    pub(super) const ALONE: Shared = Shared { rank: 0, count: 1 };

    /// Radius of a point: those that are drawn later are smaller, so that a ring of each is seen.
    pub(super) fn radius(self) -> f64 {
        RADIUS + RING * (self.count - 1 - self.rank).min(RINGS_MAX) as f64
    }
}

/// Who else is where some points of a line are, one after the other.
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
