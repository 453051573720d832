//! Escapes text inside a picture for XML.

use std::fmt;

/// Text with the special characters of XML escaped. Control characters, which XML cannot contain, are replaced.
pub(super) struct Escaped<'a>(pub(super) &'a str);

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
    use super::*;

    #[test]
    fn what_means_something_is_escaped() {
        assert_eq!(Escaped("a<b>&\"\u{1}").to_string(), "a&lt;b&gt;&amp;&quot;\u{fffd}");
    }
}
