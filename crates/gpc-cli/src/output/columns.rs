//! Writes tables whose columns are as wide as their content.

use std::io::{self, Write};

/// Alignment of a text in its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Writes a heading and lines; each line has a text for every column.
///
/// # Errors
/// If the output fails.
pub(crate) fn write_columns(
    columns: &[(&str, Align)],
    lines: &[Vec<String>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let width_of = |text: &str| text.chars().count();
    let widths = columns.iter().enumerate().map(|(place, (name, _))| {
        let texts = lines.iter().filter_map(|line| line.get(place)).map(|text| width_of(text));
        texts.max().unwrap_or(0).max(width_of(name))
    });
    let widths: Vec<usize> = widths.collect();
    let mut write = |texts: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((text, (_, align)), &width) in texts.zip(columns).zip(&widths) {
            let gap = if line.is_empty() { "" } else { "  " };
            line += gap;
            line += &match align {
                Align::Left => format!("{text:<width$}"),
                Align::Right => format!("{text:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())
    };
    write(&mut columns.iter().map(|(name, _)| *name))?;
    lines.iter().try_for_each(|line| write(&mut line.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let lines = [["8", "binomial", "1.5"], ["1024", "flat", "120.0"]]
            .map(|line| line.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        let columns = [("n", Align::Right), ("tree", Align::Left), ("µs", Align::Right)];
        write_columns(&columns, &lines, &mut out).unwrap();
        let expected = "   n  tree         µs\n   8  binomial    1.5\n1024  flat      120.0\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
