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

        /// A valid table with some changes is read as its lines are, or refused.
        #[test]
        fn a_changed_table_is_read_by_its_lines_or_refused(
            entries in prop::collection::vec(entry(), 1..6),
            changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 0..3),
            more in 0u32..2,
        ) {
            let mut lines: Vec<Vec<u8>> = entries.iter().map(|entry| entry.to_string().into_bytes()).collect();
            for (place, change) in changes {
                let place = place.index(lines.len());
                match change {
                    Change::Remove if lines.len() > 1 => drop(lines.remove(place)),
                    Change::Remove => {}
                    Change::Repeat => lines.insert(place, lines[place].clone()),
                    Change::Byte(at, byte) if !lines[place].is_empty() => {
                        let at = at.index(lines[place].len());
                        lines[place][at] = byte;
                    }
                    Change::Cut(at) if !lines[place].is_empty() => {
                        let at = at.index(lines[place].len());
                        lines[place].truncate(at);
                    }
                    Change::Byte(..) | Change::Cut(_) => {}
                }
            }
            let text: Vec<u8> = lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
            let count = lines.len() as u32 + more;
            let model = std::str::from_utf8(&text).ok().and_then(|text| {
                let entries: Option<Vec<Entry>> = text.lines().map(|line| line.parse().ok()).collect();
                entries.filter(|entries| entries.len() == count as usize)
            });
            prop_assert_eq!(parse(&text, count).ok(), model);
        }
    }

    /// A change of a table.
    #[derive(Clone, Debug)]
    enum Change {
        Remove,
        Repeat,
        Byte(prop::sample::Index, u8),
        Cut(prop::sample::Index),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            Just(Change::Remove),
            Just(Change::Repeat),
            (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
            (any::<prop::sample::Index>(), b' '..=b'~').prop_map(|(at, byte)| Change::Byte(at, byte)),
            any::<prop::sample::Index>().prop_map(Change::Cut),
        ]
    }

    #[test]
    fn the_id_of_an_invalid_line_is_named_and_a_long_table_is_not_read() {
        let line = format!("{}\n", "1,h,0123456789abcdef,-,127.0.0.1:1");
        let error = parse(format!("{line}{line}x\n").as_bytes(), 3).unwrap_err();
        assert!(error.starts_with("id 2: "), "{error}");
        assert_eq!(
            parse(line.repeat(3).as_bytes(), 2).unwrap_err(),
            "the table of addresses has 3 lines for 2 processes"
        );
        let long = "x".repeat((ENTRY_MAX + 1) * 2);
        assert!(parse(long.as_bytes(), 2).unwrap_err().starts_with("id 0: "));
        let error = parse(format!("{long}x").as_bytes(), 2).unwrap_err();
        assert_eq!(error, "the table of addresses is longer than 2 processes have to say");
    }
}
