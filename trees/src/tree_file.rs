//! Tree files: a user tree as text.
//!
//! ```text
//! # PARENT: CHILD CHILD ...   positions in decimal, 0 is the root
//! 0: 1 2
//! 1: 3 4
//! ```
//!
//! `#` begins a comment, blank lines are ignored, a position without children needs no line, and a second line for the
//! same parent is an error. The highest number determines the number of positions, all of which must be reachable.
//! Memory is bounded by the length of the text, never by a number in it. The caller supplies the text; no file is read
//! here.

use crate::decimal::{self, excerpt};
use crate::error::TreeError;
use crate::layout::{Layout, Links};
use crate::limits::{Limits, MAX_POSITIONS};
use std::collections::BTreeMap;
use std::fmt;

/// Why a text is not a tree. Lines are counted from 1; invalid text is shortened if it is long.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TreeFileError {
    /// A line is not `PARENT: CHILD CHILD ...`.
    NoColon {
        /// The line.
        line: u32,
        /// Its text.
        text: String,
    },
    /// A word is not a position.
    BadPosition {
        /// The line.
        line: u32,
        /// The word.
        text: String,
    },
    /// A position exceeds the maximum of a tree, [`MAX_POSITIONS`].
    TooFar {
        /// The line.
        line: u32,
        /// The position, as written.
        text: String,
    },
    /// A parent has two lines.
    SecondLine {
        /// The line.
        line: u32,
        /// The parent.
        parent: u32,
        /// Its first line.
        first_line: u32,
    },
    /// No line names a position.
    NoPositions,
    /// The positions do not form a tree.
    Structure {
        /// The lines of the involved parents that have lines, in the order of the error.
        lines: Vec<u32>,
        /// The error.
        error: TreeError,
    },
}

impl Layout {
    /// Lays out the tree of a tree file's text: lines of `PARENT: CHILD CHILD ...` over decimal positions, 0 the root.
    /// `#` begins a comment, blank lines are skipped, and leaves need no line. The highest position determines the
    /// number of positions, all of which must be reachable. Children are in the order of their line.
    pub fn parse(text: &str, limits: &Limits) -> Result<Layout, TreeFileError> {
        let lines = Lines::read(text)?;
        let highest = *lines.mentioned.last().expect("the root is always among them");
        lines.lay_out(highest, limits).map_err(|error| {
            let lines = lines.involved(&error);
            TreeFileError::Structure { lines, error }
        })
    }
}

/// The parsed lines, in memory proportional to the text.
struct Lines {
    /// By parent: its line and its children.
    by_parent: BTreeMap<u32, (u32, Vec<u32>)>,
    /// The positions that occur, and the root, ascending.
    mentioned: Vec<u32>,
}

impl Lines {
    fn read(text: &str) -> Result<Lines, TreeFileError> {
        let mut by_parent = BTreeMap::new();
        let mut mentioned = vec![];
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let Some((parent, children)) = text.split_once(':') else {
                return Err(TreeFileError::NoColon { line, text: excerpt(text) });
            };
            let parent = position(line, parent.trim())?;
            let children: Vec<u32> =
                children.split_whitespace().map(|word| position(line, word)).collect::<Result<_, _>>()?;
            mentioned.push(parent);
            mentioned.extend(&children);
            if let Some((first_line, _)) = by_parent.insert(parent, (line, children)) {
                return Err(TreeFileError::SecondLine { line, parent, first_line });
            }
        }
        if mentioned.is_empty() {
            return Err(TreeFileError::NoPositions);
        }
        mentioned.push(0);
        mentioned.sort_unstable();
        mentioned.dedup();
        Ok(Lines { by_parent, mentioned })
    }

    /// Lays out the positions that occur, by rank, so that a large number costs no memory. If every position up to the
    /// highest occurs, as required, rank and position are equal.
    fn lay_out(&self, highest: u32, limits: &Limits) -> Result<Layout, TreeError> {
        let rank = |position: &u32| {
            let found = self.mentioned.binary_search(position).expect("every position that occurs is listed");
            u32::try_from(found).expect("positions are bounded")
        };
        let mut links = Links::new(self.mentioned.len() as u64)?;
        let laid_out = self.add_all(&mut links, rank, limits).and_then(|()| links.lay_out(limits));
        let gap = (0..).zip(&self.mentioned).find(|(rank, position)| rank != *position).map(|(rank, _)| rank);
        let missing = highest + 1 - u32::try_from(self.mentioned.len()).expect("positions are bounded");
        match (laid_out, gap) {
            (Ok(layout), None) => Ok(layout),
            // If some positions do not occur, that is reported before a depth limit.
            (Ok(_) | Err(TreeError::Depth { .. }), Some(first)) => {
                Err(TreeError::Unreachable { first, count: missing })
            }
            (Err(error), gap) => match error.renumbered(|rank| self.mentioned[rank as usize]) {
                TreeError::Unreachable { first, count } => Err(TreeError::Unreachable {
                    first: gap.map_or(first, |gap| gap.min(first)),
                    count: count + missing,
                }),
                error => Err(error),
            },
        }
    }

    fn add_all(
        &self,
        links: &mut Links,
        rank: impl Fn(&u32) -> u32,
        limits: &Limits,
    ) -> Result<(), TreeError> {
        let mut children = Vec::new();
        for parent in &self.mentioned {
            children.clear();
            if let Some((_, listed)) = self.by_parent.get(parent) {
                children.extend(listed.iter().map(&rank));
            }
            links.add(rank(parent), &children, limits)?;
        }
        Ok(())
    }

    /// Returns the lines of the parents that an error names.
    fn involved(&self, error: &TreeError) -> Vec<u32> {
        let parents = match error {
            TreeError::OwnChild { position } | TreeError::FanOut { position, .. } => vec![*position],
            TreeError::TwoParents { first, second, .. } if first == second => vec![*first],
            TreeError::TwoParents { first, second, .. } => vec![*first, *second],
            TreeError::RootHasParent { parent } => vec![*parent],
            TreeError::Cycle { path } => path.clone(),
            TreeError::Unreachable { first, .. } => vec![*first],
            _ => vec![],
        };
        parents.iter().filter_map(|parent| self.by_parent.get(parent)).map(|&(line, _)| line).collect()
    }
}

fn position(line: u32, word: &str) -> Result<u32, TreeFileError> {
    match decimal::parse(word) {
        Ok(position) if position < MAX_POSITIONS => Ok(position),
        Ok(_) | Err(decimal::DecimalFault::TooLarge) => {
            Err(TreeFileError::TooFar { line, text: excerpt(word) })
        }
        Err(_) => Err(TreeFileError::BadPosition { line, text: excerpt(word) }),
    }
}

/// Number of lines that an error names.
const SHOWN_LINES: usize = 8;

impl fmt::Display for TreeFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeFileError::NoColon { line, text } => {
                write!(f, "line {line}: {text:?} has no colon; a line is PARENT: CHILD CHILD ...")
            }
            TreeFileError::BadPosition { line, text } => {
                write!(f, "line {line}: {text:?} is not a position, which is a decimal number")
            }
            TreeFileError::TooFar { line, text } => {
                write!(
                    f,
                    "line {line}: position {text} is past the last that a tree may have, {}",
                    MAX_POSITIONS - 1
                )
            }
            TreeFileError::SecondLine { line, parent, first_line } => {
                write!(f, "line {line}: position {parent} has its children in line {first_line} already")
            }
            TreeFileError::NoPositions => {
                write!(f, "no line names a position; a tree of one position is \"0:\"")
            }
            TreeFileError::Structure { lines, error } => {
                match lines[..] {
                    [] => {}
                    [line] => write!(f, "line {line}: ")?,
                    [first, ..] => {
                        write!(f, "lines {first}")?;
                        lines.iter().take(SHOWN_LINES).skip(1).try_for_each(|line| write!(f, ", {line}"))?;
                        f.write_str(if lines.len() > SHOWN_LINES { ", ...: " } else { ": " })?;
                    }
                }
                error.fmt(f)
            }
        }
    }
}

impl std::error::Error for TreeFileError {}
