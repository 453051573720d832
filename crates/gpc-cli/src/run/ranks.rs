//! Formats ranks for people: `0-3,7`.

use std::fmt::Write as _;

use gpc_bnr::names::Rank;

/// Maximum number of printed ranges: they fit a line of a terminal.
const RANGES_MAX: usize = 8;

/// Formats ascending ranks as ranges: the first 8, and the number of ranks in the rest.
pub(super) fn shown(ranks: impl IntoIterator<Item = Rank>) -> String {
    let mut ranges: Vec<(Rank, Rank)> = Vec::new();
    let mut more = 0_usize;
    for rank in ranks {
        let full = ranges.len() == RANGES_MAX;
        match ranges.last_mut() {
            Some((_, last)) if more == 0 && last.checked_add(1) == Some(rank) => *last = rank,
            _ if full => more += 1,
            _ => ranges.push((rank, rank)),
        }
    }
    let mut text = String::new();
    for (first, last) in ranges {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string never fails.
        let _ = match first == last {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
    }
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ranges() {
        assert_eq!(shown([]), "");
        assert_eq!(shown([3]), "3");
        assert_eq!(shown([0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(shown((0..20).step_by(2)), "0,2,4,6,8,10,12,14 and 2 more");
        assert_eq!(shown([u32::MAX - 1, u32::MAX]), "4294967294-4294967295");
    }
}
