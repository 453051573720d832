//! Words of the file of `-configfile`: each line is a program with its options.
//!
//! `#` begins a comment where a word would begin. A `\` at the end of a line continues it. Quotes (`'`, `"`) keep
//! spaces in a word.

use crate::words::split;

/// A fault of the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: the quote {quote} has no end")]
pub(crate) struct OpenQuote {
    line: usize,
    quote: char,
}

/// Returns the words of all lines, with a `:` between two lines.
///
/// # Errors
/// If a quote has no end.
pub(crate) fn words(text: &str) -> Result<Vec<String>, OpenQuote> {
    let mut all: Vec<String> = Vec::new();
    let mut lines = (1..).zip(text.lines());
    // Ends: each round takes a line.
    while let Some((number, line)) = lines.next() {
        let mut line = line.trim_end().to_owned();
        while line.ends_with('\\') {
            line.pop();
            let Some((_, more)) = lines.next() else { break };
            line.push(' ');
            line.push_str(more.trim_end());
        }
        let words = split(&line, true).map_err(|quote| OpenQuote { line: number, quote })?;
        if !words.is_empty() && !all.is_empty() {
            all.push(":".into());
        }
        all.extend(words);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_program() {
        let text = "# ocean and air\n-n 4 ocean -x \\\n  'two words' # the rest\n\n  -n 8 air \"\" a#b\n";
        let expected = ["-n", "4", "ocean", "-x", "two words", ":", "-n", "8", "air", "", "a#b"];
        assert_eq!(words(text).unwrap(), expected);
        assert_eq!(words("").unwrap(), [""; 0]);
        assert_eq!(words("a \\").unwrap(), ["a"]);
    }

    #[test]
    fn an_open_quote_is_said_with_its_line() {
        let error = words("a\nb 'c d\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: the quote ' has no end");
    }
}
