//! Errors of trees, with counter-examples.
//!
//! Positions are those of the description: the caller's for a children function, a parent table and a file; positions
//! of the list (preorder) for a split or a shape. Source: *Trees* in the design, the refusals.

use crate::split::Group;
use std::fmt;

/// Number of positions of a long answer or path that an error prints.
const SHOWN: usize = 12;

/// Why a tree is rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TreeError {
    /// The tree has no position; at least a root is required.
    Empty,
    /// An explicit tree has more positions than [`MAX_POSITIONS`](crate::MAX_POSITIONS).
    TooMany {
        /// Number of positions.
        n: u64,
        /// Maximum number of positions.
        limit: u32,
    },
    /// An explicit tree was used for a list of another length.
    SizeMismatch {
        /// Positions of the tree.
        tree: u32,
        /// Ids of the list.
        list: u32,
    },
    /// A parent or a child is not one of the positions `0..n`.
    OutOfRange {
        /// The parent.
        parent: u32,
        /// The child.
        child: u32,
        /// Number of positions.
        n: u32,
    },
    /// A position is its own child.
    OwnChild {
        /// The position.
        position: u32,
    },
    /// A position is a child of two parents, or listed twice by one parent (then both are the same).
    TwoParents {
        /// The child.
        child: u32,
        /// The parent found first.
        first: u32,
        /// The other parent.
        second: u32,
    },
    /// A parent table has no parent for a position other than the root.
    Parentless {
        /// The position.
        position: u32,
    },
    /// Position 0 is the root, but is listed as a child.
    RootHasParent {
        /// Its parent.
        parent: u32,
    },
    /// Positions form a cycle: each is the parent of the next, and the last the parent of the first.
    Cycle {
        /// The positions, the lowest first.
        path: Vec<u32>,
    },
    /// Positions cannot be reached from the root, and there is no cycle.
    Unreachable {
        /// The first position without a parent.
        first: u32,
        /// Number of unreachable positions.
        count: u32,
    },
    /// A position has too many children.
    FanOut {
        /// The position; in a split, 0 is the receiver.
        position: u32,
        /// Number of children; for a shape, counting stops at one over the limit.
        fan_out: u32,
        /// Maximum number of children.
        limit: u32,
    },
    /// A position is deeper below the root than the limit.
    Depth {
        /// The position.
        position: u32,
        /// Maximum number of levels.
        limit: u32,
    },
    /// A children function returned two answers for one position.
    ChildrenNotDeterministic {
        /// The position.
        position: u32,
        /// The first answer.
        first: Vec<u32>,
        /// The second answer.
        second: Vec<u32>,
    },
    /// A registered split returned two answers for one length.
    SplitNotDeterministic {
        /// The length.
        n: u32,
        /// The first answer.
        first: Vec<Group>,
        /// The second answer.
        second: Vec<Group>,
    },
    /// The groups of a split do not cover positions `1..n` once each, in order.
    BadGroups {
        /// The length of the split slice.
        n: u32,
        /// The error in the groups.
        fault: GroupFault,
    },
    /// A shape has an impossible subtree size.
    BadSize {
        /// The position.
        position: u32,
        /// The size of its subtree, including itself.
        size: u32,
        /// Minimum possible size.
        least: u32,
        /// Maximum possible size.
        most: u32,
    },
}

/// An error in the groups of a split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupFault {
    /// A group is empty.
    Empty {
        /// Index of the group.
        group: usize,
    },
    /// A group does not begin where the previous one ends (the first one: at 1).
    Gap {
        /// Index of the group.
        group: usize,
        /// Its required start.
        expected: u32,
        /// Its start.
        start: u32,
    },
    /// The split function panicked.
    Panicked,
    /// The groups contain fewer or more positions than follow the receiver.
    Sum {
        /// Number of positions in the groups.
        covered: u64,
        /// Number of positions after the receiver, n - 1.
        rest: u32,
    },
}

impl TreeError {
    /// Returns the error with every position translated, for a caller with other positions.
    pub(crate) fn renumbered(self, to: impl Fn(u32) -> u32) -> TreeError {
        use TreeError::*;
        match self {
            OutOfRange { parent, child, n } => OutOfRange { parent: to(parent), child: to(child), n },
            OwnChild { position } => OwnChild { position: to(position) },
            TwoParents { child, first, second } => {
                TwoParents { child: to(child), first: to(first), second: to(second) }
            }
            Parentless { position } => Parentless { position: to(position) },
            RootHasParent { parent } => RootHasParent { parent: to(parent) },
            Cycle { path } => Cycle { path: path.into_iter().map(to).collect() },
            Unreachable { first, count } => Unreachable { first: to(first), count },
            FanOut { position, fan_out, limit } => FanOut { position: to(position), fan_out, limit },
            Depth { position, limit } => Depth { position: to(position), limit },
            BadSize { position, size, least, most } => BadSize { position: to(position), size, least, most },
            ChildrenNotDeterministic { position, first, second } => ChildrenNotDeterministic {
                position: to(position),
                first: first.into_iter().map(&to).collect(),
                second: second.into_iter().map(&to).collect(),
            },
            same @ (Empty
            | TooMany { .. }
            | SizeMismatch { .. }
            | SplitNotDeterministic { .. }
            | BadGroups { .. }) => same,
        }
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Empty => write!(f, "a tree has at least one position, its root"),
            TreeError::TooMany { n, limit } => {
                write!(f, "{n} positions; an explicit tree has at most {limit}")
            }
            TreeError::SizeMismatch { tree, list } => {
                write!(f, "the tree is for {tree} ids and the list holds {list}")
            }
            TreeError::OutOfRange { parent, child, n } => write!(
                f,
                "position {child} is a child of position {parent}, but the positions are 0 to {}",
                n.saturating_sub(1)
            ),
            TreeError::OwnChild { position } => write!(f, "position {position} is its own child"),
            TreeError::TwoParents { child, first, second } if first == second => {
                write!(f, "position {child} is listed twice as a child of position {first}")
            }
            TreeError::TwoParents { child, first, second } => {
                write!(f, "position {child} has two parents, positions {first} and {second}")
            }
            TreeError::Parentless { position } => {
                write!(f, "position {position} has no parent; only position 0, the root, has none")
            }
            TreeError::RootHasParent { parent } => {
                write!(f, "position 0 is the root and cannot be a child of position {parent}")
            }
            TreeError::Cycle { path } => write_cycle(f, path),
            TreeError::Unreachable { first, count } => write_unreachable(f, *first, *count),
            TreeError::FanOut { position, fan_out, limit } => {
                write!(f, "position {position} has {fan_out} children; the limit is {limit}")
            }
            TreeError::Depth { position, limit } => {
                write!(
                    f,
                    "position {position} lies more than {limit} levels below the root, which is the limit"
                )
            }
            TreeError::ChildrenNotDeterministic { position, first, second } => {
                let question = format_args!("for the children of position {position}");
                write_answers(f, question, first, second)
            }
            TreeError::SplitNotDeterministic { n, first, second } => {
                write_answers(f, format_args!("to split {n} ids"), first, second)
            }
            TreeError::BadGroups { n, fault } => write!(f, "a split of {n} ids: {fault}"),
            TreeError::BadSize { position, size, least, most } if least == most => {
                write!(f, "position {position} has a subtree of {size} where it must be {most}")
            }
            TreeError::BadSize { position, size, least, most } => {
                write!(f, "position {position} has a subtree of {size} where {least} to {most} are possible")
            }
        }
    }
}

impl fmt::Display for GroupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupFault::Panicked => write!(f, "the split function panicked"),
            GroupFault::Empty { group } => write!(f, "group {group} is empty"),
            GroupFault::Gap { group, expected, start } => {
                write!(f, "group {group} begins at position {start} where it must begin at {expected}")
            }
            GroupFault::Sum { covered, rest } => {
                write!(f, "the groups hold {covered} positions where {rest} follow the receiver")
            }
        }
    }
}

fn write_cycle(f: &mut fmt::Formatter<'_>, path: &[u32]) -> fmt::Result {
    write!(f, "positions form a cycle, each the parent of the next: ")?;
    for position in path.iter().take(SHOWN) {
        write!(f, "{position} -> ")?;
    }
    if path.len() > SHOWN {
        write!(f, "... ({} more) -> ", path.len() - SHOWN)?;
    }
    match path.first() {
        Some(first) => write!(f, "{first}"),
        None => Ok(()),
    }
}

fn write_unreachable(f: &mut fmt::Formatter<'_>, first: u32, count: u32) -> fmt::Result {
    write!(f, "position {first} cannot be reached from position 0: it has no parent")?;
    if count > 1 {
        write!(f, "; {count} positions in all are not reached")?;
    }
    Ok(())
}

fn write_answers<T: Shown>(
    f: &mut fmt::Formatter<'_>,
    question: fmt::Arguments<'_>,
    first: &[T],
    second: &[T],
) -> fmt::Result {
    write!(f, "asked twice {question}, the function answered {} and then {}", Listed(first), Listed(second))
}

/// An answer in brackets, shortened if it is long.
struct Listed<'a, T>(&'a [T]);

trait Shown {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl Shown for u32 {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Shown for Group {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.len, self.start)
    }
}

impl<T: Shown> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().take(SHOWN).enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            item.show(f)?;
        }
        if self.0.len() > SHOWN {
            write!(f, ", ... {} more", self.0.len() - SHOWN)?;
        }
        f.write_str("]")
    }
}

impl std::error::Error for TreeError {}
