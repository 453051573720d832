//! Id lists as text: `0-63,70,65`.
//!
//! Pieces are separated by commas; a piece is an id, or the first and the last id of an ascending range with `-`
//! between them. White space around ids is allowed, and blank text is the empty list. Printed lists parse to the same
//! list.

use super::{IdList, Run, RunError};
use crate::decimal::{self, DecimalFault, excerpt};
use std::fmt;
use std::str::FromStr;

/// Why a text is not a list of ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseIdsError {
    /// Number of the piece, counted from 1.
    piece: usize,
    /// Its text, shortened if it is long.
    text: String,
    fault: Fault,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Fault {
    Decimal(DecimalFault),
    Descending,
    Runs(RunError),
}

impl FromStr for IdList {
    type Err = ParseIdsError;

    fn from_str(text: &str) -> Result<IdList, ParseIdsError> {
        if text.trim().is_empty() {
            return Ok(IdList::default());
        }
        let mut runs = Vec::new();
        for (index, piece) in text.split(',').enumerate() {
            let error = |fault| ParseIdsError { piece: index + 1, text: excerpt(piece.trim()), fault };
            runs.push(parse_piece(piece).map_err(error)?);
        }
        IdList::from_runs(runs.iter().copied()).map_err(|fault| {
            let index = match fault {
                RunError::Empty { index } | RunError::PastEnd { index, .. } | RunError::TooMany { index } => {
                    index
                }
                RunError::Duplicate(duplicate) => piece_of(&runs, duplicate.second),
            };
            let piece = text.split(',').nth(index).unwrap_or_default();
            ParseIdsError { piece: index + 1, text: excerpt(piece.trim()), fault: Fault::Runs(fault) }
        })
    }
}

fn parse_piece(piece: &str) -> Result<Run, Fault> {
    let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
    let first = decimal::parse(first.trim()).map_err(Fault::Decimal)?;
    let last = decimal::parse(last.trim()).map_err(Fault::Decimal)?;
    let count = last.checked_sub(first).ok_or(Fault::Descending)?;
    let count = count.checked_add(1).ok_or(Fault::Runs(RunError::TooMany { index: 0 }))?;
    Ok(Run { first, count })
}

/// Returns the index of the run that holds a position of the list.
fn piece_of(runs: &[Run], position: u32) -> usize {
    let mut end = 0;
    let holds = |run: &Run| {
        end += u64::from(run.count);
        u64::from(position) < end
    };
    runs.iter().position(holds).unwrap_or_default()
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Run { first, count }) in self.runs().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match count {
                1 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{}", first + (count - 1))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ParseIdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "piece {} of the list of ids, {:?}: ", self.piece, self.text)?;
        match &self.fault {
            Fault::Decimal(fault) => write!(f, "{fault}; write ids and ascending ranges, as in 0-63,70,65"),
            Fault::Descending => write!(f, "a range ascends, the lower id comes first"),
            Fault::Runs(RunError::TooMany { .. }) => write!(f, "more than {} ids in all", u32::MAX),
            Fault::Runs(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ParseIdsError {}
