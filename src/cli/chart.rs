//! The chart of `gpc sim --svg` and `gpc bench --svg`: times over a number, both on logarithmic axes, a line for each tree or other kind of call.

use std::fmt::Write as _;

/// Of the picture, pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 90.0;
const RIGHT_MIN: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;

/// Colours of lines, used in turn.
const COLOURS: [&str; 6] = ["#4338ca", "#10a06e", "#d97706", "#0891b2", "#be185d", "#525252"];

/// Of the legend: what its squares and margins take, and a character at most, pixels.
const LEGEND: f64 = 50.0;
const CHARACTER: f64 = 7.5;
const LEGEND_LINE: f64 = 20.0;

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Chart {
    /// Above it.
    pub(super) title: &'static str,
    /// What the lower axis counts.
    pub(super) axis: &'static str,
    /// One for each kind of call.
    pub(super) lines: Vec<Line>,
}

/// A kind of call, and how long its calls took.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Line {
    /// For the legend.
    pub(super) name: String,
    /// In order.
    pub(super) points: Vec<Point>,
}

/// How long calls took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Point {
    /// What the lower axis counts, at least 1.
    pub(super) at: u32,
    /// Nanoseconds.
    pub(super) ns: u64,
    /// How uncertain that is: from and to, nanoseconds.
    pub(super) interval_ns: Option<(u64, u64)>,
}

impl Point {
    /// Where nothing is uncertain.
    pub(super) fn exact(at: u32, ns: u64) -> Point {
        Point { at, ns, interval_ns: None }
    }

    /// The times that it shows.
    fn times_ns(self) -> impl Iterator<Item = u64> {
        let (from, to) = self.interval_ns.unwrap_or((self.ns, self.ns));
        [from, self.ns, to].into_iter()
    }
}

/// Numbers of ids up to `most`: powers of two, and `most` itself.
pub(super) fn sizes(most: u32) -> Vec<u32> {
    let powers = (1..32).map(|power| 1u32 << power).take_while(|&n| n < most);
    powers.chain([most]).collect()
}

/// The axes: what they show from and to, as exponents of 2 and of 10; and where the lower one ends, pixels.
struct Axes<'a> {
    /// Of the lower one.
    unit: &'a str,
    counts: (f64, f64),
    time: (f64, f64),
    right: f64,
}

impl<'a> Axes<'a> {
    fn of(Chart { axis: unit, lines, .. }: &'a Chart) -> Axes<'a> {
        let points = || lines.iter().flat_map(|line| &line.points);
        let counts = || points().map(|point| exponent_of(point.at));
        let from = counts().fold(f64::INFINITY, f64::min);
        let from = if from.is_finite() { from.floor() } else { 0.0 };
        let to = counts().fold(from + 1.0, f64::max);
        let times = || points().flat_map(|point| point.times_ns()).map(nanos);
        let least = times().fold(f64::INFINITY, f64::min);
        let most = times().fold(0.0, f64::max);
        let least = if least.is_finite() { least.floor() } else { 0.0 };
        let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        // Names of built-in trees are short; those of files need not all be seen.
        let legend = (LEGEND + CHARACTER * longest as f64).clamp(RIGHT_MIN, WIDTH / 2.0);
        Axes { unit, counts: (from, to), time: (least, most.ceil().max(least + 1.0)), right: WIDTH - legend }
    }

    fn x(&self, exponent: f64) -> f64 {
        let (from, to) = self.counts;
        LEFT + (exponent - from) / (to - from) * (self.right - LEFT)
    }

    fn y(&self, exponent: f64) -> f64 {
        let (from, to) = self.time;
        HEIGHT - BOTTOM - (exponent - from) / (to - from) * (HEIGHT - TOP - BOTTOM)
    }
}

/// A number as the exponent of 2; none is less than 1.
fn exponent_of(at: u32) -> f64 {
    f64::from(at.max(1)).log2()
}

/// A time as the exponent of 10; nothing is shorter than a nanosecond.
fn nanos(ns: u64) -> f64 {
    (ns.max(1) as f64).log10()
}

/// The picture. Names are those of built-in trees or of files, whose special characters are left out.
pub(super) fn draw(chart: &Chart) -> String {
    let Chart { title, lines, .. } = chart;
    let axes = Axes::of(chart);
    let mut svg = String::new();
    // A long legend goes on below the axes.
    let height = HEIGHT.max(TOP + LEGEND_LINE * (lines.len() as f64 + 1.0));
    // A string takes everything.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"600\">{title}</text>\n"
    );
    draw_grid(&axes, &mut svg);
    for (place, line) in lines.iter().enumerate() {
        draw_line(&axes, line, COLOURS[place % COLOURS.len()], place, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_grid(axes: &Axes<'_>, svg: &mut String) {
    let (bottom, right) = (HEIGHT - BOTTOM, axes.right);
    for exponent in axes.time.0 as i32..=axes.time.1 as i32 {
        // Between two powers of ten the lines stand for twice and five times the lower one; with many powers they would be too close.
        let between: &[u64] = if axes.time.1 - axes.time.0 <= 4.0 { &[1, 2, 5] } else { &[1] };
        for &times in between {
            let y = axes.y(f64::from(exponent) + (times as f64).log10());
            if y < TOP - 0.5 {
                continue;
            }
            let label = shown(times.saturating_mul(10u64.saturating_pow(exponent.max(0).cast_unsigned())));
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e5e7eb\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
    }
    let (from, to) = axes.counts;
    let step = ((to - from) / 10.0).ceil().max(1.0) as usize;
    for exponent in (from as u32..=to as u32).step_by(step) {
        let x = axes.x(exponent.into());
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#f3f4f6\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            1u64 << exponent
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 14.0,
        axes.unit
    );
}

/// A whole number of the largest unit that it is a multiple of.
fn shown(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.into_iter().find(|(unit, _)| ns >= *unit) {
        Some((unit, name)) => format!("{} {name}", ns / unit),
        None => format!("{ns} ns"),
    }
}

fn draw_line(axes: &Axes<'_>, line: &Line, colour: &str, place: usize, svg: &mut String) {
    let Line { name, points } = line;
    let name: String = name.chars().filter(|c| !c.is_control() && !"<>&\"".contains(*c)).collect();
    // Where the colours begin again, lines are told apart by this.
    let dashes = match place / COLOURS.len() {
        0 => String::new(),
        round => format!(" stroke-dasharray=\"{} 4\"", 12 / round.min(6)),
    };
    let at = |point: &Point| (axes.x(exponent_of(point.at)), axes.y(nanos(point.ns)));
    let _ = write!(svg, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes} d=\"");
    for (index, point) in points.iter().enumerate() {
        let (x, y) = at(point);
        let _ = write!(svg, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    svg.push_str("\"/>\n");
    for point in points {
        let (x, y) = at(point);
        let Point { at: count, ns, interval_ns } = point;
        if let Some((from, to)) = interval_ns {
            let (from, to) = (axes.y(nanos(*from)), axes.y(nanos(*to)));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {from:.1}V{to:.1}M{:.1} {from:.1}h8M{:.1} {to:.1}h8\" stroke=\"{colour}\"/>",
                x - 4.0,
                x - 4.0
            );
        }
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{name}, {count} {}: {ns} ns</title></circle>",
            axes.unit
        );
    }
    let (x, y) = (axes.right + 16.0, TOP + LEGEND_LINE * (place as f64 + 1.0));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
        y - 11.0,
        x + 18.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_point_for_every_size_and_tree() {
        assert_eq!(sizes(10), [2, 4, 8, 10]);
        assert_eq!(sizes(1), [1]);
        let line = |name: &str, times: [(u32, u64); 2]| Line {
            name: name.into(),
            points: times.map(|(at, ns)| Point::exact(at, ns)).to_vec(),
        };
        let lines = vec![line("flat", [(2, 50_000), (4, 70_000)]), line("a<b", [(2, 1), (4, 9)])];
        let mut chart = Chart { title: "Time", axis: "ids", lines };
        let svg = draw(&chart);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("<title>flat, 4 ids: 70000 ns</title>") && svg.contains(">ab</text>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        chart.lines[0].points[1].interval_ns = Some((10_000, 1_000_000));
        assert_eq!([&svg, &draw(&chart)].map(|svg| svg.matches("h8M").count()), [0, 1]);
        assert_eq!([5, 20_000, 1_000_000, 500_000_000_000].map(shown), ["5 ns", "20 us", "1 ms", "500 s"]);
        chart.lines = (0..40).map(|number| line(&number.to_string(), [(2, 1), (4, 9)])).collect();
        let many = draw(&chart);
        assert!(many.contains("height=\"860\"") && many.matches("dasharray=\"12 4\"").count() == 6);
        chart.lines.clear();
        assert!(!draw(&chart).contains("NaN"));
        chart.lines.push(Line {
            name: "x".repeat(1000),
            points: vec![Point::exact(0, 0), Point::exact(u32::MAX, u64::MAX)],
        });
        let svg = draw(&chart);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
