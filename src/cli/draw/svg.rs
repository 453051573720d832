//! A tree as a picture: one SVG file that needs nothing else.
//!
//! Ids are circles in layers, the root on top, coloured by their depth. In a large tree they are small where they stand close, and have no
//! numbers where those could not be read; pointing at one shows its number in any case.

use std::fmt;
use std::io::{self, Write};

use super::Sketch;
use super::place::{Item, Placed, place};

/// Most ids of a picture: about 10 MB of text, which browsers still show.
pub const SVG_MAX: u32 = 1 << 16;

/// Space around the tree, pixels.
const MARGIN: f64 = 28.0;

/// Height of the two lines of text on top, pixels.
const HEAD: f64 = 62.0;

/// Width of a letter of the subtitle, pixels: what is needed for the text to fit.
const LETTER: f64 = 7.2;

/// Most pixels between two levels: more is only empty.
const LEVEL_GAP_MAX: f64 = 420.0;

/// The colours from the root to the deepest level.
const COLOURS: [[f64; 3]; 3] = [[67.0, 56.0, 202.0], [8.0, 145.0, 178.0], [16.0, 160.0, 110.0]];

/// Smallest circle that a number is written in, pixels.
const LABELLED_RADIUS_MIN: f64 = 9.0;

/// Width up to which a picture is shown at its own size; a wider one is scaled down to a window, so its lines and letters are larger.
const WINDOW: f64 = 1600.0;

/// The picture's measures, pixels.
struct Picture<'a> {
    sketch: &'a Sketch,
    placed: Placed,
    /// Width and height for one id of the closest.
    cell: f64,
    /// By depth: of the circles.
    radii: Vec<f64>,
    /// By depth: where the circles of the first row have their middle.
    tops: Vec<f64>,
    left: f64,
    width: f64,
    height: f64,
    /// How much larger than in a small picture lines and letters are.
    scale: f64,
}

pub(super) fn write(sketch: &Sketch, out: &mut dyn Write) -> io::Result<()> {
    let picture = Picture::new(sketch);
    picture.write_head(out)?;
    picture.write_blocks(out)?;
    picture.write_edges(out)?;
    picture.write_ids(out)?;
    writeln!(out, "</svg>")
}

impl Picture<'_> {
    fn new(sketch: &Sketch) -> Picture<'_> {
        let placed = place(sketch);
        let (radius, gap) = match sketch.nodes() {
            0..=128 => (15.0, 10.0),
            129..=1024 => (11.0, 5.0),
            1025..=4096 => (3.0, 2.0),
            _ => (2.0, 1.5),
        };
        let cell = 2.0 * radius + gap;
        let tree_width = placed.width * cell;
        let text_width = subtitle(sketch).chars().count() as f64 * LETTER;
        let width = tree_width.max(text_width) + 2.0 * MARGIN;
        let scale = (width / WINDOW).max(1.0);
        // A wide tree gets higher levels, so that its edges do not all run flat.
        let level_gap = (tree_width / (4.0 * placed.rows.len() as f64)).clamp(radius * 2.4, LEVEL_GAP_MAX);
        let largest = (radius * scale).min(level_gap / 4.0).max(radius);
        let radii = radii(&placed, cell, radius, largest);
        let mut tops = Vec::with_capacity(placed.rows.len());
        let mut y = (HEAD + MARGIN) * scale + radii[0];
        for &rows in &placed.rows {
            tops.push(y);
            y += f64::from(rows) * cell + level_gap;
        }
        let height = y - level_gap - cell / 2.0 + largest + MARGIN;
        Picture { sketch, cell, radii, tops, left: (width - tree_width) / 2.0, width, height, scale, placed }
    }

    fn write_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let (width, height) = (self.width.ceil(), self.height.ceil());
        let title = Escaped(&title(self.sketch)).to_string();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"system-ui, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\">"
        )?;
        writeln!(out, "<title>{title}</title>")?;
        writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>")?;
        let (middle, scale) = (width / 2.0, self.scale);
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"{:.0}\" font-weight=\"600\" fill=\"#111827\">{title}</text>",
            38.0 * scale,
            20.0 * scale
        )?;
        writeln!(
            out,
            "<text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"{:.0}\" fill=\"#6b7280\">{}</text>",
            60.0 * scale,
            13.0 * scale,
            Escaped(&subtitle(self.sketch))
        )
    }

    fn write_blocks(&self, out: &mut dyn Write) -> io::Result<()> {
        let cell = self.cell;
        for item in self.placed.items.iter().filter(|item| item.is_block()) {
            let (x, y) = (self.x(item), self.tops[item.depth as usize] - cell / 2.0);
            let (width, height) = (f64::from(item.columns) * cell, f64::from(item.rows()) * cell);
            writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{:.1}\" fill=\"#f3f4f6\" stroke=\"#d1d5db\"/>",
                x - width / 2.0,
                cell / 3.0
            )?;
        }
        Ok(())
    }

    /// All edges as one path: from under the parent to over the child, with a swing.
    fn write_edges(&self, out: &mut dyn Write) -> io::Result<()> {
        let stroke = if self.cell > LABELLED_RADIUS_MIN { 1.4 } else { 0.7 } * self.scale.sqrt();
        write!(out, "<path fill=\"none\" stroke=\"#9ca3af\" stroke-width=\"{stroke:.1}\" d=\"")?;
        for item in &self.placed.items[1..] {
            let parent = &self.placed.items[item.parent];
            let (from_x, from_y) =
                (self.x(parent), self.tops[parent.depth as usize] + self.radii[parent.depth as usize]);
            let (to_x, to_y) = match item.is_block() && !item.chained {
                true => (self.x(item), self.tops[item.depth as usize] - self.cell / 2.0),
                false => (
                    self.in_block(item, 0).0,
                    self.tops[item.depth as usize] - self.radii[item.depth as usize],
                ),
            };
            let bend = (from_y + to_y) / 2.0;
            write!(
                out,
                "M{from_x:.1} {from_y:.1}C{from_x:.1} {bend:.1} {to_x:.1} {bend:.1} {to_x:.1} {to_y:.1}"
            )?;
            if item.chained {
                for index in 0..item.count {
                    let (x, y) = self.in_block(item, index);
                    write!(out, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' })?;
                }
            }
        }
        writeln!(out, "\"/>")
    }

    fn write_ids(&self, out: &mut dyn Write) -> io::Result<()> {
        let deepest = self.sketch.depth();
        writeln!(out, "<g text-anchor=\"middle\" fill=\"#fff\">")?;
        for item in &self.placed.items {
            for index in 0..item.count {
                let place = (item.first + index) as usize;
                let (label, depth) = (self.sketch.labels[place], self.sketch.depths[place]);
                let (x, y) = self.in_block(item, index);
                let (radius, colour) = (self.radii[item.depth as usize], Colour(depth, deepest));
                write!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"><title>id {label}, depth {depth}</title></circle>"
                )?;
                if radius >= LABELLED_RADIUS_MIN {
                    let font = radius * if label < 1000 { 0.8 } else { 0.68 };
                    let y = y + font * 0.36;
                    write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{font:.1}\">{label}</text>")?;
                }
                writeln!(out)?;
            }
        }
        writeln!(out, "</g>")
    }

    /// The middle of an item.
    fn x(&self, item: &Item) -> f64 {
        self.left + item.x * self.cell
    }

    /// The middle of an id of an item. A chain turns at the end of each row.
    fn in_block(&self, item: &Item, index: u32) -> (f64, f64) {
        let (row, column) = (index / item.columns, index % item.columns);
        let column = if item.chained && row % 2 == 1 { item.columns - 1 - column } else { column };
        let from_middle = f64::from(column) - (f64::from(item.columns) - 1.0) / 2.0;
        let cell = self.cell;
        (self.x(item) + from_middle * cell, self.tops[item.depth as usize] + f64::from(row) * cell)
    }
}

/// By depth: the radius of the circles, as large as their distance allows, and not larger than the one above.
fn radii(placed: &Placed, cell: f64, least: f64, largest: f64) -> Vec<f64> {
    let mut room = vec![largest; placed.rows.len()];
    let mut left: Vec<Option<f64>> = vec![None; placed.rows.len()];
    for item in &placed.items {
        let depth = item.depth as usize;
        let distance = left[depth].replace(item.x).map_or(f64::INFINITY, |left| item.x - left);
        let edge = item.x.min(placed.width - item.x);
        let here = if item.is_block() { least } else { (distance * 0.35).min(edge) * cell };
        room[depth] = room[depth].min(here);
    }
    let mut above = largest;
    let mut narrow = |room: f64| {
        above = above.min(room).max(least);
        above
    };
    room.into_iter().map(&mut narrow).collect()
}

fn title(sketch: &Sketch) -> String {
    let n = sketch.nodes();
    format!("{} tree over {n} {}", sketch.name(), if n == 1 { "id" } else { "ids" })
}

fn subtitle(sketch: &Sketch) -> String {
    let (depth, fan_out) = (sketch.depth(), sketch.fan_out());
    format!("depth {depth} · fan-out {fan_out} · ids per level {}", sketch.shown_levels())
}

/// The colour of a depth, and the deepest.
struct Colour(u32, u32);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = f64::from(self.0) / f64::from(self.1.max(1)) * 2.0;
        let (from, to) = if way < 1.0 { (COLOURS[0], COLOURS[1]) } else { (COLOURS[1], COLOURS[2]) };
        let part = way - if way < 1.0 { 0.0 } else { 1.0 };
        f.write_str("#")?;
        // Between two colours of 0 to 255, so the result is too.
        (0..3).try_for_each(|i| write!(f, "{:02x}", (from[i] + (to[i] - from[i]) * part).round() as u8))
    }
}

/// Text with the characters escaped that mean something in XML; control characters, which it cannot have, are replaced.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            c if c.is_control() => f.write_str("\u{fffd}"),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, sketch};
    use super::*;
    use crate::cli::args::TreeFormat;

    #[test]
    fn a_picture_has_every_id_once() {
        for (name, n) in [("binomial", 64), ("flat", 64), ("chain", 64), ("kary:3", 2000)] {
            let svg = drawn(&sketch(name, n), TreeFormat::Svg);
            assert_eq!(svg.matches("<circle").count(), n as usize);
            for id in 0..n {
                assert_eq!(svg.matches(&format!("<title>id {id}, ")).count(), 1);
            }
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        }
    }

    #[test]
    fn labels_are_there_as_long_as_they_can_be_read() {
        assert!(drawn(&sketch("binary", 1024), TreeFormat::Svg).contains(">1023</text>"));
        let large = drawn(&sketch("binary", 4096), TreeFormat::Svg);
        assert!(!large.contains(">1023</text>") && large.len() < 700_000, "{}", large.len());
    }

    #[test]
    fn names_are_escaped_and_colours_are_colours() {
        assert_eq!(Escaped("a<b>&\"\u{1}").to_string(), "a&lt;b&gt;&amp;&quot;\u{fffd}");
        assert_eq!(Colour(0, 0).to_string(), "#4338ca");
        assert_eq!(Colour(1, 2).to_string(), "#0891b2");
        assert_eq!(Colour(2, 2).to_string(), "#10a06e");
    }
}
