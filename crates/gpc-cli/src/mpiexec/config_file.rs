//! Words of the file of `-configfile`: each line is a program with its options.
//!
//! `#` begins a comment where a word would begin. A `\` at the end of a line continues it. Quotes (`'`, `"`) keep
//! spaces in a word.

/// A fault of the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: the quote {quote} has no end")]
pub(super) struct OpenQuote {
    line: usize,
    quote: char,
}

/// Returns the words of all lines, with a `:` between two lines.
///
/// # Errors
/// If a quote has no end.
pub(super) fn words(text: &str) -> Result<Vec<String>, OpenQuote> {
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
        let words = split(&line).map_err(|quote| OpenQuote { line: number, quote })?;
        if !words.is_empty() && !all.is_empty() {
            all.push(":".into());
        }
        all.extend(words);
    }
    Ok(all)
}

/// Splits a line; an error is the quote without an end.
fn split(line: &str) -> Result<Vec<String>, char> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None if letter == '#' && word.is_none() => return Ok(words),
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), Err)
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
