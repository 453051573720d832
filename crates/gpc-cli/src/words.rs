//! Splits a line into words, with quotes.

/// Splits a line at white space. Quotes of either kind keep the text between them together. With `comments`, a `#` at
/// the start of a word ends the line.
///
/// # Errors
/// The quote that is not closed.
pub(crate) fn split(line: &str, comments: bool) -> Result<Vec<String>, char> {
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
            None if comments && letter == '#' && word.is_none() => return Ok(words),
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
    fn a_hash_begins_a_comment_only_where_comments_are_known() {
        assert_eq!(split("a #b 'c", true), Ok(vec!["a".into()]));
        assert_eq!(split("a #b", false), Ok(vec!["a".into(), "#b".into()]));
        assert_eq!(split("a#b '#' c", true), Ok(["a#b", "#", "c"].map(String::from).to_vec()));
        assert_eq!(split("a 'b", true), Err('\''));
    }
}
