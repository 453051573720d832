//! Safe display of text from elsewhere: on one line, bounded, and without characters that a terminal interprets.
//!
//! The causes and goodbyes of peers reach terminals and log files. Unescaped, they could move the cursor, change
//! colours, forge log lines, or fill the screen. All such text is displayed with [`Shown`]; programs receive the
//! unchanged bytes.

use std::fmt::{self, Write as _};

/// Maximum number of characters shown: twice the longest [message of a cause](super::failure::MESSAGE_MAX), because
/// local text may be added to it.
pub const SHOWN_MAX: usize = 2048;

/// Displays text with control characters and direction-changing characters escaped. The output is cut after
/// [`SHOWN_MAX`] characters, and `…` replaces the rest.
///
/// ```
/// use chained_gpc::Shown;
///
/// assert_eq!(Shown("it failed\u{1b}[2J\nid 0 is well").to_string(), r"it failed\u{1b}[2J\nid 0 is well");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = SHOWN_MAX;
        for c in self.0.chars() {
            let length = if is_obeyed(c) { c.escape_default().len() } else { 1 };
            if length > left {
                return f.write_char('…');
            }
            left -= length;
            match is_obeyed(c) {
                true => write!(f, "{}", c.escape_default())?,
                false => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Whether a terminal interprets this character instead of showing it: it moves the cursor, changes colours or the
/// direction of writing, or is invisible.
pub fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        let shown = |text: &str| Shown(text).to_string();
        assert_eq!(shown("a\x1b[31m\r\n\u{9b}2J\u{202e}b\u{7f}"), r"a\u{1b}[31m\r\n\u{9b}2J\u{202e}b\u{7f}");
        assert_eq!(shown("id 5: größer als 1 µs"), "id 5: größer als 1 µs");
    }

    #[test]
    fn long_text_is_cut_and_no_escape_in_two() {
        let whole = "x".repeat(SHOWN_MAX);
        assert_eq!(Shown(&whole).to_string(), whole);
        let cut = Shown(&"x".repeat(65_536)).to_string();
        assert_eq!((cut.chars().count(), cut.chars().last()), (SHOWN_MAX + 1, Some('…')));
        let before = "x".repeat(SHOWN_MAX - 1);
        assert_eq!(Shown(&format!("{before}\n")).to_string(), format!("{before}…"));
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_within_its_bound(text in any::<String>(), times in 1usize..200) {
            let shown = Shown(&text.repeat(times)).to_string();
            prop_assert!(!shown.chars().any(is_obeyed));
            prop_assert!(shown.chars().count() <= SHOWN_MAX + 1);
        }
    }
}
