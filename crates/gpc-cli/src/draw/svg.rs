//! Draws a tree as a picture: one self-contained SVG file.
//!
//! Ids are circles in layers, the root on top, coloured by depth. In a large tree, small subtrees are boxes with the
//! number of their ids, so that the picture fits a window and its text is readable. If all ids are requested, circles
//! are small where they are close, and have no numbers where those could not be read. A tooltip shows the number of an
//! id in any case.

use std::fmt;
use std::io::{self, Write};

use super::Sketch;
use super::place::{Boxes, Item, Kind, Placed, place};
use crate::xml::Escaped;

/// Maximum number of ids of a picture: about 10 MB of text, which browsers still show.
pub const SVG_MAX: u32 = 1 << 16;

/// Space around the tree, in pixels.
const MARGIN: f64 = 28.0;

/// Height of the two lines of text on top, in pixels.
const HEAD: f64 = 62.0;

/// Distance between two lines of the notes, in pixels.
const NOTE_LINE: f64 = 20.0;

/// Width of a letter of the title, and of the notes below it, in pixels: enough for the text to fit.
const TITLE_LETTER: f64 = 12.2;
const LETTER: f64 = 7.2;

/// Largest tree of which every id is drawn by default, in pixels: about as wide as a screen, and several screens tall.
const WIDTH_MAX: f64 = 2000.0;
const HEIGHT_MAX: f64 = 5000.0;

/// Radius of an id and gap to the next, in pixels, that are readable; the larger first.
const READABLE: [(f64, f64); 2] = [(15.0, 10.0), (11.0, 5.0)];

/// Radius and gap if there are too many ids to be readable.
const SMALL: [(f64, f64); 2] = [(3.0, 2.0), (2.0, 1.5)];

/// Maximum distance between two levels, in pixels: more would only be empty space.
const LEVEL_GAP_MAX: f64 = 420.0;

/// Colours from the root to the deepest level.
const COLOURS: [[f64; 3]; 3] = [[67.0, 56.0, 202.0], [8.0, 145.0, 178.0], [16.0, 160.0, 110.0]];

/// Height of a box for subtrees, and of its text, in cells.
const BOX_HEIGHT: f64 = 0.75;
const BOX_FONT: f64 = 0.36;

/// Radius of the smallest circle with a number, in pixels.
const LABELLED_RADIUS_MIN: f64 = 9.0;

/// Width up to which a picture is shown at its own size. A wider one is scaled down to a window, so its lines and
/// letters are larger.
const WINDOW: f64 = 1600.0;

/// Measures of the picture, in pixels.
struct Picture<'a> {
    sketch: &'a Sketch,
    /// Lines below the title.
    notes: Vec<String>,
    placed: Placed,
    /// Width and height of an id where ids are closest.
    cell: f64,
    /// By depth: radius of the circles.
    radii: Vec<f64>,
    /// By depth: centre of the circles of the first row.
    tops: Vec<f64>,
    left: f64,
    width: f64,
    height: f64,
    /// Factor by which lines and letters are larger than in a small picture.
    scale: f64,
}

pub(super) fn write(sketch: &Sketch, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let picture = Picture::new(sketch, all);
    picture.write_head(out)?;
    picture.write_blocks(out)?;
    picture.write_edges(out)?;
    picture.write_ids(out)?;
    writeln!(out, "</svg>")
}

/// Layout of a tree: which parts are boxes, the places of all items, and their size.
struct Scale {
    boxes: Boxes,
    placed: Placed,
    radius: f64,
    gap: f64,
}

impl Scale {
    /// Returns the layout of all ids, in the size for their number.
    fn of_all(sketch: &Sketch) -> Scale {
        let placed = place(sketch, Boxes::NONE);
        let (radius, gap) = match sketch.nodes() {
            0..=64 => READABLE[0],
            65..=1024 => READABLE[1],
            1025..=4096 => SMALL[0],
            _ => SMALL[1],
        };
        Scale { boxes: Boxes::NONE, placed, radius, gap }
    }

    /// Returns the layout with as few boxes as let it fit a window and be readable. If boxes do not help, since only
    /// blocks are left, the ids are small.
    fn fitting(sketch: &Sketch) -> Scale {
        let n = sketch.nodes();
        let mosts =
            || std::iter::successors(Some(1u32), |most| most.checked_mul(2)).take_while(|most| most / 2 < n);
        let choices =
            [false, true].into_iter().flat_map(|merged| mosts().map(move |most| Boxes { most, merged }));
        for boxes in choices {
            let placed = place(sketch, boxes);
            if let Some(&(radius, gap)) = READABLE.iter().find(|size| fits(&placed, **size)) {
                return Scale { boxes, placed, radius, gap };
            }
        }
        Scale::of_all(sketch)
    }
}

/// Whether a tree of circles of this radius and gap fits a window.
fn fits(placed: &Placed, (radius, gap): (f64, f64)) -> bool {
    let cell = 2.0 * radius + gap;
    let rows: u32 = placed.rows.iter().sum();
    let height = f64::from(rows) * cell + placed.rows.len() as f64 * radius * 2.4;
    placed.width * cell <= WIDTH_MAX && height <= HEIGHT_MAX
}

impl Picture<'_> {
    fn new(sketch: &Sketch, all: bool) -> Picture<'_> {
        let scale = if all { Scale::of_all(sketch) } else { Scale::fitting(sketch) };
        let Scale { boxes, placed, radius, gap } = scale;
        let cell = 2.0 * radius + gap;
        let notes = notes(sketch, &placed, boxes);
        let tree_width = placed.width * cell;
        let widest = notes.iter().map(|note| note.chars().count()).max().unwrap_or(0) as f64 * LETTER;
        let text_width = widest.max(title(sketch).chars().count() as f64 * TITLE_LETTER);
        let width = tree_width.max(text_width) + 2.0 * MARGIN;
        let scale = (width / WINDOW).max(1.0);
        // A wide tree gets higher levels, so that its edges are not all flat.
        let level_gap = (tree_width / (4.0 * placed.rows.len() as f64)).clamp(radius * 2.4, LEVEL_GAP_MAX);
        let largest = (radius * scale).min(level_gap / 4.0).max(radius);
        let radii = radii(&placed, cell, radius, largest);
        let mut tops = Vec::with_capacity(placed.rows.len());
        let head = HEAD + NOTE_LINE * (notes.len() as f64 - 1.0);
        let mut y = (head + MARGIN) * scale + radii[0];
        for &rows in &placed.rows {
            tops.push(y);
            y += f64::from(rows) * cell + level_gap;
        }
        let height = y - level_gap - cell / 2.0 + largest + MARGIN;
        let left = (width - tree_width) / 2.0;
        Picture { sketch, notes, cell, radii, tops, left, width, height, scale, placed }
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
        for (place, note) in self.notes.iter().enumerate() {
            writeln!(
                out,
                "<text x=\"{middle}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"{:.0}\" fill=\"#6b7280\">{}</text>",
                (60.0 + NOTE_LINE * place as f64) * scale,
                13.0 * scale,
                Escaped(note)
            )?;
        }
        Ok(())
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

    /// Writes all edges as one path, each a curve from below the parent to above the child.
    fn write_edges(&self, out: &mut dyn Write) -> io::Result<()> {
        let stroke = if self.cell > LABELLED_RADIUS_MIN { 1.4 } else { 0.7 } * self.scale.sqrt();
        write!(out, "<path fill=\"none\" stroke=\"#9ca3af\" stroke-width=\"{stroke:.1}\" d=\"")?;
        for item in &self.placed.items[1..] {
            let parent = &self.placed.items[item.parent];
            let (from_x, from_y) =
                (self.x(parent), self.tops[parent.depth as usize] + self.radii[parent.depth as usize]);
            let top = self.tops[item.depth as usize];
            let (to_x, to_y) = match item.kind {
                Kind::Siblings => (self.x(item), top - self.cell / 2.0),
                Kind::Subtrees(_) => (self.x(item), top - self.cell * BOX_HEIGHT / 2.0),
                Kind::One | Kind::Chain => (self.in_block(item, 0).0, top - self.radii[item.depth as usize]),
            };
            let bend = (from_y + to_y) / 2.0;
            write!(
                out,
                "M{from_x:.1} {from_y:.1}C{from_x:.1} {bend:.1} {to_x:.1} {bend:.1} {to_x:.1} {to_y:.1}"
            )?;
            if item.kind == Kind::Chain {
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
            if !item.is_drawn() {
                self.write_box(item, out)?;
                continue;
            }
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
                    let font = radius * font_of(label);
                    let y = y + font * 0.36;
                    write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{font:.1}\">{label}</text>")?;
                }
                writeln!(out)?;
            }
        }
        writeln!(out, "</g>")
    }

    /// Writes a box for subtrees, with the number of their ids.
    fn write_box(&self, item: &Item, out: &mut dyn Write) -> io::Result<()> {
        let (x, y, cell) = (self.x(item), self.tops[item.depth as usize], self.cell);
        let (width, height) = ((item.half_width * 2.0 - 0.3) * cell, cell * BOX_HEIGHT);
        let (font, colour) = (cell * BOX_FONT, Colour(item.depth, self.sketch.depth()));
        writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{:.1}\" fill=\"#f3f4f6\" stroke=\"{colour}\"><title>{}</title></rect>\
             <text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{font:.1}\" fill=\"#111827\">{}</text>",
            x - width / 2.0,
            y - height / 2.0,
            height / 4.0,
            self.inside(item),
            y + font * 0.36,
            item.label()
        )
    }

    /// Describes the content of a box.
    fn inside(&self, item: &Item) -> String {
        let places = item.first as usize..(item.first + item.count) as usize;
        let (labels, depths) = (&self.sketch.labels[places.clone()], &self.sketch.depths[places]);
        let (least, most) = (labels.iter().min().unwrap_or(&0), labels.iter().max().unwrap_or(&0));
        let levels = depths.iter().max().unwrap_or(&0) - item.depth + 1;
        let subtrees = match item.kind {
            Kind::Subtrees(many @ 2..) => format!("{many} subtrees"),
            _ => "a subtree".into(),
        };
        // In a tree from a file, the numbers may be scattered.
        let which =
            if most - least + 1 == item.count { format!("ids {least} to {most}") } else { item.label() };
        format!("{subtrees}: {which}, {levels} {}", if levels == 1 { "level" } else { "levels" })
    }

    /// Centre of an item.
    fn x(&self, item: &Item) -> f64 {
        self.left + item.x * self.cell
    }

    /// Centre of one id of an item. A chain turns at the end of each row.
    fn in_block(&self, item: &Item, index: u32) -> (f64, f64) {
        let (row, column) = (index / item.columns, index % item.columns);
        let column =
            if item.kind == Kind::Chain && row % 2 == 1 { item.columns - 1 - column } else { column };
        let from_middle = f64::from(column) - (f64::from(item.columns) - 1.0) / 2.0;
        let cell = self.cell;
        (self.x(item) + from_middle * cell, self.tops[item.depth as usize] + f64::from(row) * cell)
    }
}

/// By depth: radius of the circles, as large as their distance allows, and not larger than at the depth above.
fn radii(placed: &Placed, cell: f64, least: f64, largest: f64) -> Vec<f64> {
    let mut room = vec![largest; placed.rows.len()];
    let mut left: Vec<Option<f64>> = vec![None; placed.rows.len()];
    for item in &placed.items {
        let depth = item.depth as usize;
        let distance = left[depth].replace(item.x).map_or(f64::INFINITY, |left| item.x - left);
        let edge = item.x.min(placed.width - item.x);
        let here =
            if item.is_block() || !item.is_drawn() { least } else { (distance * 0.35).min(edge) * cell };
        room[depth] = room[depth].min(here);
    }
    let mut above = largest;
    let mut narrow = |room: f64| {
        above = above.min(room).max(least);
        above
    };
    room.into_iter().map(&mut narrow).collect()
}

/// Size of the digits of a number relative to the radius of its circle; many digits have less room.
fn font_of(label: u32) -> f64 {
    match label {
        0..1_000 => 0.8,
        1_000..10_000 => 0.68,
        10_000..100_000 => 0.56,
        _ => 0.4,
    }
}

fn title(sketch: &Sketch) -> String {
    let n = sketch.nodes();
    format!("{} tree over {n} {}", sketch.name(), if n == 1 { "id" } else { "ids" })
}

/// Returns the lines below the title.
fn notes(sketch: &Sketch, placed: &Placed, boxes: Boxes) -> Vec<String> {
    let (depth, fan_out) = (sketch.depth(), sketch.fan_out());
    let mut notes =
        vec![format!("depth {depth} · fan-out {fan_out} · ids per level {}", sketch.shown_levels())];
    if !placed.items.iter().all(Item::is_drawn) {
        notes.push(format!("subtrees of up to {} ids are boxes; --all draws every id", boxes.most));
    }
    notes
}

/// The colour of a depth; the second field is the deepest level.
struct Colour(u32, u32);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = f64::from(self.0) / f64::from(self.1.max(1)) * 2.0;
        let (from, to) = if way < 1.0 { (COLOURS[0], COLOURS[1]) } else { (COLOURS[1], COLOURS[2]) };
        let part = way - if way < 1.0 { 0.0 } else { 1.0 };
        f.write_str("#")?;
        // Between two values of 0 to 255, so the result is too.
        (0..3).try_for_each(|i| write!(f, "{:02x}", (from[i] + (to[i] - from[i]) * part).round() as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, sketch};
    use super::*;
    use crate::args::TreeFormat;

    fn all(sketch: &Sketch) -> String {
        let mut out = Vec::new();
        write(sketch, true, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn size(svg: &str) -> (f64, f64) {
        let of = |name: &str| {
            svg.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        (of("width"), of("height"))
    }

    #[test]
    fn a_picture_has_every_id_once() {
        for (name, n) in [("binomial", 64), ("flat", 64), ("chain", 64), ("kary:3", 2000), ("flat", 5000)] {
            let svg = all(&sketch(name, n));
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
        assert!(all(&sketch("binary", 1024)).contains(">1023</text>"));
        let large = all(&sketch("binary", 4096));
        assert!(!large.contains(">1023</text>") && large.len() < 700_000, "{}", large.len());
    }

    /// The picture of a binomial tree over 1,024 ids was 11,000 pixels wide. In a window, only the number of its root
    /// was readable.
    #[test]
    fn a_picture_fits_a_window_and_says_what_it_leaves_out() {
        for (name, n) in [
            ("binomial", 1024),
            ("binary", 1024),
            ("kary:4", 64),
            ("kary:32", 1025),
            ("kary:200", 5000),
            ("kary:3", 65_536),
            ("knomial:3", 3000),
            ("flat", 65_536),
            ("chain", 65_536),
        ] {
            let svg = drawn(&sketch(name, n), TreeFormat::Svg);
            let (width, height) = size(&svg);
            assert!(width <= WIDTH_MAX * 1.2 && height <= HEIGHT_MAX * 1.2, "{name} {n}: {width} x {height}");
            let boxed = svg.contains("ids are boxes; --all draws every id");
            assert_eq!(
                boxed,
                svg.contains("<title>a subtree: ") || svg.contains(" subtrees: "),
                "{name} {n}"
            );
            let circles = svg.matches("<circle").count();
            assert!(boxed || circles == n as usize, "{name} {n}: {circles}");
        }
        let svg = drawn(&sketch("binomial", 1024), TreeFormat::Svg);
        assert!(svg.contains(">1</text>") && svg.contains("<title>a subtree: ids "), "{svg}");
    }

    /// The picture of a tree that was narrower than its title showed only the middle of the title.
    #[test]
    fn a_title_has_room() {
        let svg = drawn(&sketch("knomial:4000000000", 1), TreeFormat::Svg);
        assert!(size(&svg).0 > "knomial:4000000000 tree over 1 id".len() as f64 * 12.0, "{svg}");
    }

    #[test]
    fn colours_are_colours() {
        assert_eq!(Colour(0, 0).to_string(), "#4338ca");
        assert_eq!(Colour(1, 2).to_string(), "#0891b2");
        assert_eq!(Colour(2, 2).to_string(), "#10a06e");
    }
}
