//! The chart of `gpc sim --svg` and `gpc bench --svg`: times over a number, both on logarithmic axes, with a line for
//! each tree or other kind of call.
//!
//! A [`Chart`] is the content; [`draw`] is a pure function from it to the text of a self-contained SVG file. `axes` has
//! the positions of numbers and times, `lines` the styles of lines.

mod axes;
mod content;
mod lines;

use std::fmt::Write as _;

use self::axes::{Axes, LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP};
pub(super) use self::content::{Chart, Line, Point};
use self::lines::{Shared, Style, shared, styles};
use super::xml::Escaped;

/// Margin below the plot, in pixels.
const BOTTOM: f64 = 60.0;

/// Size of the legend, in pixels: its samples and margins, a line, and the maximum of a character.
const LEGEND: f64 = 70.0;
const LEGEND_LINE: f64 = 20.0;
const CHARACTER: f64 = 7.6;

/// Maximum number of characters of a name in the legend; names of built-in trees are short.
const NAME_MAX: usize = 48;

/// Maximum width of a character of the title and of the notes below it, in pixels.
const TITLE_CHARACTER: f64 = 9.6;
const NOTE_CHARACTER: f64 = 7.0;

/// Returns numbers of ids up to `most`: powers of two, and `most` itself.
pub(super) fn sizes(most: u32) -> Vec<u32> {
    let powers = (1..32).map(|power| 1u32 << power).take_while(|&n| n < most);
    powers.chain([most]).collect()
}

/// Returns the text of the picture.
pub(super) fn draw(chart: &Chart) -> String {
    let Chart { title, notes, lines, .. } = chart;
    let axes = Axes::of(chart);
    let styles = styles(chart, &axes);
    let names: Vec<String> = lines.iter().map(|line| shortened(&line.name)).collect();
    let width = width(chart, &names);
    // A long legend continues below the axes.
    let height = (TOP + PLOT_HEIGHT + BOTTOM).max(TOP + LEGEND_LINE * (lines.len() as f64 + 1.0));
    let mut svg = String::new();
    // Writing to a string never fails.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"600\">{}</text>\n",
        Escaped(title)
    );
    for (note, y) in notes.iter().zip([48, 64]) {
        let note = Escaped(note);
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y}\" font-size=\"12\" fill=\"#6b7280\">{note}</text>");
    }
    draw_grid(chart, &axes, &mut svg);
    for (place, style) in styles.iter().enumerate() {
        draw_line(chart, &axes, place, style, &mut svg);
    }
    for ((place, name), style) in names.iter().enumerate().zip(&styles) {
        draw_legend(place, name, style, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the width that the legend and the title need.
fn width(chart: &Chart, names: &[String]) -> f64 {
    let wide = |text: &str, character: f64| text.chars().count() as f64 * character;
    let legend = names.iter().map(|name| wide(name, CHARACTER)).fold(0.0, f64::max);
    let notes = chart.notes.iter().map(|note| wide(note, NOTE_CHARACTER));
    let title = notes.fold(wide(&chart.title, TITLE_CHARACTER), f64::max);
    (LEFT + PLOT_WIDTH + LEGEND + legend).max(LEFT + title + 20.0).ceil()
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn draw_grid(chart: &Chart, axes: &Axes, svg: &mut String) {
    let (bottom, right) = (TOP + PLOT_HEIGHT, LEFT + PLOT_WIDTH);
    for (exponent, label) in axes.time_labels() {
        let y = axes.y(exponent);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e5e7eb\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (x, label) in axes.number_labels(chart.number) {
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#f3f4f6\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 20.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        LEFT + PLOT_WIDTH / 2.0,
        bottom + 46.0,
        chart.axis
    );
}

/// Draws a line in pieces, from point to point. If other lines have the same piece, it is striped.
fn draw_line(chart: &Chart, axes: &Axes, place: usize, style: &Style, svg: &mut String) {
    let line = &chart.lines[place];
    let Style { colour, shift, .. } = style;
    let at = |point: &Point| (axes.x(point.at) + shift, axes.y_of(point.ns));
    let shared =
        |points: &[Point]| match axes.is_single() || points.iter().any(|point| point.interval_ns.is_some()) {
            // The lines are beside each other.
            true => Shared::ALONE,
            false => shared(&chart.lines, place, points, axes),
        };
    for piece in line.points.windows(2) {
        let ((x, y), (to_x, to_y)) = (at(&piece[0]), at(&piece[1]));
        let stroke = style.stroke_among(shared(piece), (to_x - x).hypot(to_y - y));
        let _ = writeln!(svg, "<path fill=\"none\" {stroke} d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>");
    }
    for point in &line.points {
        let (x, y) = at(point);
        if let Some((from, to)) = point.interval_ns {
            let (from, to, left) = (axes.y_of(from), axes.y_of(to), x - 3.0);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {from:.1}V{to:.1}M{left:.1} {from:.1}h6M{left:.1} {to:.1}h6\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"{colour}\"><title>{}, {}</title></circle>",
            shared(&[*point]).radius(),
            Escaped(&line.name),
            point.said(chart)
        );
    }
}

/// Draws a sample of the line, and its name.
fn draw_legend(place: usize, name: &str, style: &Style, svg: &mut String) {
    let (x, y) = (LEFT + PLOT_WIDTH + 16.0, TOP + LEGEND_LINE * (place as f64 + 0.5));
    let _ = writeln!(
        svg,
        "<path d=\"M{x} {y:.1}h30\" {}/><circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        style.stroke(),
        x + 15.0,
        style.colour,
        x + 38.0,
        y + 4.5,
        Escaped(name)
    );
}

#[cfg(test)]
mod tests;
