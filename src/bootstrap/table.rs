//! The table of all entries as text, which id 0 sends to every id: one line for each id, in order.

use super::entry::{ENTRY_MAX, Entry};

/// Returns the text of all entries, by id.
pub(super) fn to_text(entries: &[Entry]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

/// Parses the entries of `count` processes.
///
/// # Errors
/// If their number differs, an entry is invalid (the error names its id), or the bytes are not UTF-8.
pub(super) fn parse(text: &[u8], count: u32) -> Result<Vec<Entry>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the table of addresses is no text".to_owned())?;
    // Checked before anything is allocated.
    if text.len() > (ENTRY_MAX + 1) * count as usize {
        return Err(format!("the table of addresses is longer than {count} processes have to say"));
    }
    let entry = |(id, line): (u32, &str)| line.parse().map_err(|fault| format!("id {id}: {fault}"));
    let entries: Vec<Entry> = (0..).zip(text.lines()).map(entry).collect::<Result<_, _>>()?;
    match entries.len() == count as usize {
        true => Ok(entries),
        false => Err(format!("the table of addresses has {} lines for {count} processes", entries.len())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bootstrap::entry::tests::entry;

    proptest! {
        #[test]
        fn a_table_reads_as_it_is_written(entries in prop::collection::vec(entry(), 0..20)) {
            let (text, count) = (to_text(&entries), entries.len() as u32);
            prop_assert_eq!(parse(text.as_bytes(), count), Ok(entries));
            prop_assert!(parse(text.as_bytes(), count + 1).is_err());
            if count > 0 { prop_assert!(parse(text.as_bytes(), count - 1).is_err()) }
        }

        #[test]
        fn any_bytes_are_a_table_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u32..4) {
            let _ = parse(&bytes, count);
        }
    }
}
