//! The chart of `gpc sim --svg`: the time of a call over the number of ids, both on logarithmic axes, a line for each tree.

use std::fmt::Write as _;

/// Of the picture, pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;

/// Colours of lines, used in turn.
const COLOURS: [&str; 6] = ["#4338ca", "#10a06e", "#d97706", "#0891b2", "#be185d", "#525252"];

/// The name of a tree, and its points: ids and nanoseconds.
pub(super) type Line = (String, Vec<(u32, u64)>);

/// Numbers of ids up to `most`: powers of two, and `most` itself.
pub(super) fn sizes(most: u32) -> Vec<u32> {
    let powers = (1..32).map(|power| 1u32 << power).take_while(|&n| n < most);
    powers.chain([most]).collect()
}

/// The axes: what they show from and to, as exponents of 2 and of 10.
struct Axes {
    ids: (f64, f64),
    time: (f64, f64),
}

impl Axes {
    fn of(lines: &[Line]) -> Axes {
        let points = || lines.iter().flat_map(|(_, points)| points);
        let ids = points().map(|(n, _)| f64::from(*n).log2()).fold(1.0, f64::max);
        let least = points().map(|(_, ns)| nanos(*ns)).fold(f64::INFINITY, f64::min);
        let most = points().map(|(_, ns)| nanos(*ns)).fold(0.0, f64::max);
        let from = if least.is_finite() { least.floor() } else { 0.0 };
        Axes { ids: (0.0, ids), time: (from, most.ceil().max(from + 1.0)) }
    }

    fn x(&self, exponent: f64) -> f64 {
        let (from, to) = self.ids;
        LEFT + (exponent - from) / (to - from) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, exponent: f64) -> f64 {
        let (from, to) = self.time;
        HEIGHT - BOTTOM - (exponent - from) / (to - from) * (HEIGHT - TOP - BOTTOM)
    }
}

/// A time as the exponent of 10; nothing is shorter than a nanosecond.
fn nanos(ns: u64) -> f64 {
    (ns.max(1) as f64).log10()
}

/// The picture. Names are those of built-in trees or of files, whose special characters are left out.
pub(super) fn draw(lines: &[Line]) -> String {
    let axes = Axes::of(lines);
    let mut svg = String::new();
    // A string takes everything.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"600\">Time of one call over the number of ids, simulated</text>\n"
    );
    draw_grid(&axes, &mut svg);
    for (place, line) in lines.iter().enumerate() {
        draw_line(&axes, line, COLOURS[place % COLOURS.len()], place, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_grid(axes: &Axes, svg: &mut String) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for exponent in axes.time.0 as i32..=axes.time.1 as i32 {
        let y = axes.y(exponent.into());
        let label = match exponent {
            ..3 => format!("{} ns", 10i64.pow(exponent.max(0) as u32)),
            3..6 => format!("{} us", 10i64.pow(exponent as u32 - 3)),
            6..9 => format!("{} ms", 10i64.pow(exponent as u32 - 6)),
            _ => format!("{} s", 10i64.pow((exponent as u32 - 9).min(18))),
        };
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e5e7eb\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    let step = (axes.ids.1 / 10.0).ceil().max(1.0) as usize;
    for exponent in (0..=axes.ids.1 as u32).step_by(step) {
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
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">ids</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 14.0
    );
}

fn draw_line(axes: &Axes, (name, points): &Line, colour: &str, place: usize, svg: &mut String) {
    let name: String = name.chars().filter(|c| !c.is_control() && !"<>&\"".contains(*c)).collect();
    let at = |(n, ns): &(u32, u64)| (axes.x(f64::from(*n).log2()), axes.y(nanos(*ns)));
    let _ = write!(svg, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"");
    for (index, point) in points.iter().enumerate() {
        let (x, y) = at(point);
        let _ = write!(svg, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    svg.push_str("\"/>\n");
    for point in points {
        let (x, y) = at(point);
        let (n, ns) = point;
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{name}, {n} ids: {ns} ns</title></circle>"
        );
    }
    let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 20.0 * (place as f64 + 1.0));
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
        y - 11.0,
        x + 18.0
    );
}
