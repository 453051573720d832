//! Splits a value that is longer than a launcher's space allows into parts.
//!
//! The first part begins with the number of parts, `3:`. Its key is the key of the value; the keys of the others have
//! the suffix `.1`, `.2` and so on.

/// Maximum number of parts of one value: one digit.
pub(super) const PARTS_MAX: usize = 9;

/// Length of the prefix of the first part, bytes.
const HEAD: usize = 2;

/// Returns the parts of a value, each at most `max` bytes, with their keys; `None` if there would be too many parts, or
/// the value is not ASCII.
pub(super) fn cut(key: &str, value: &str, max: usize) -> Option<Vec<(String, String)>> {
    let room = max.checked_sub(HEAD).filter(|room| *room > 0)?;
    let bytes = value.as_bytes();
    // ASCII text can be split at any byte. Only the first part needs the prefix; for simplicity all parts are that much
    // shorter.
    let pieces: Vec<&[u8]> = if bytes.is_empty() { vec![bytes] } else { bytes.chunks(room).collect() };
    if pieces.len() > PARTS_MAX || !value.is_ascii() {
        return None;
    }
    let count = pieces.len();
    let text = |piece: &[u8]| String::from_utf8_lossy(piece).into_owned();
    let part = |(place, piece): (usize, &[u8])| match place {
        0 => (key.to_owned(), format!("{count}:{}", text(piece))),
        _ => (part_key(key, place), text(piece)),
    };
    Some(pieces.into_iter().enumerate().map(part).collect())
}

/// The key of a part after the first.
pub(super) fn part_key(key: &str, place: usize) -> String {
    format!("{key}.{place}")
}

/// Parses the first part: the number of parts and the data; `None` if the text is not a valid first part.
pub(super) fn first(part: &str) -> Option<(usize, &str)> {
    let (count, rest) = part.split_once(':')?;
    let count =
        count.parse().ok().filter(|count| (1..=PARTS_MAX).contains(count) && part.as_bytes()[1] == b':')?;
    Some((count, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_too_long_is_not_put() {
        assert_eq!(cut("k", &"x".repeat(127), 16), None);
        assert!(cut("k", &"x".repeat(126), 16).is_some_and(|parts| parts.len() == PARTS_MAX));
        assert_eq!(cut("k", "x", 2), None);
        assert_eq!(cut("k", "é", 16), None);
        assert_eq!(cut("k", "", 16), Some(vec![("k".into(), "1:".into())]));
        for bad in ["", "1", ":x", "0:x", "12:x", "+1:x", "x:x"] {
            assert_eq!(first(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn parts_make_the_value(value in "[!-~]{0,300}", max in 3usize..400) {
            let Some(parts) = cut("k", &value, max) else {
                prop_assert!(value.len() > PARTS_MAX * (max - HEAD));
                return Ok(());
            };
            prop_assert!(parts.iter().all(|(_, part)| part.len() <= max));
            let space: BTreeMap<String, String> = parts.into_iter().collect();
            let (count, head) = first(&space["k"]).unwrap();
            prop_assert_eq!(count, space.len());
            let rest: String = (1..count).map(|place| space[&part_key("k", place)].as_str()).collect();
            prop_assert_eq!(head.to_owned() + &rest, value);
        }

        #[test]
        fn any_text_is_a_first_part_or_refused(text in ".{0,20}") {
            let _ = first(&text);
        }
    }
}
