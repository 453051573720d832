//! The part of a line that an error quotes.

/// Maximum length of a line that an error quotes, characters.
const QUOTED_MAX: usize = 40;

/// The part of a line that an error quotes.
pub(super) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}
