//! The tree type: a split, and its encoding on the wire.
//!
//! A split is a pure function of a slice's length (and, for an explicit shape, of the slice's window), so any node can
//! compute it. The results of registered functions and data from the wire are checked at every split, so every accepted
//! answer forms a tree.

use crate::error::TreeError;
use crate::limits::MAX_FAN_OUT;
use crate::postal::{self, Lag};
use crate::registered::{self, Registered};
use crate::shape::Shape;
use crate::split::{self, Group, Groups};
use std::fmt;
use std::num::NonZeroU32;

// Ids 0 and 1 are those of the source. The others are negative as a C int, so they never collide with a user's.
const BINARY: u64 = 0;
const BINOMIAL: u64 = 1;
const KARY: u64 = 0x8000_0001;
const KNOMIAL: u64 = 0x8000_0002;
const CHAIN: u64 = 0x8000_0003;
const FLAT: u64 = 0x8000_0004;
const EXPLICIT: u64 = 0x8000_0005;
const LOGGP: u64 = 0x8000_0006;

/// The radix of a k-nomial tree: at least 2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Radix(NonZeroU32);

impl Radix {
    /// Returns the radix; `None` for 0 and 1.
    pub fn new(k: u32) -> Option<Radix> {
        NonZeroU32::new(k).filter(|k| k.get() >= 2).map(Radix)
    }

    /// The value, at least 2.
    pub fn value(self) -> u32 {
        self.0.get()
    }
}

/// A tree: the rule by which a list is cut into the subtrees of its first id.
///
/// | tree | groups of the m = n - 1 ids after the receiver | depth over n ids | most children |
/// |---|---|---|---|
/// | `Binary` | two halves, the larger first | floor(log2 n) | min(2, m) |
/// | `Binomial` | 1, 2, 4, ... ids, the last group cut short | floor(log2 n) | ceil(log2 n) |
/// | `Kary(k)` | k nearly equal parts, the larger first | least d with 1 + k + ... + k^d >= n | min(k, m) |
/// | `Knomial(k)` | k - 1 groups of each size 1, k, k^2, ..., the last cut short | see below | see below |
/// | `Chain` | one | m | min(1, m) |
/// | `Flat` | m singles | min(1, m) | m |
/// | `Loggp(lag)` | those of the fastest tree, the largest first | grows with log n / log of the lag | at most m |
///
/// Over n ids, the depth of `Knomial(k)` is the greatest d with (k^d - 1) / (k - 1) <= m. Its fan-out is
/// j (k - 1) + ceil(n / k^j) - 1 for the greatest j with k^j <= n.
///
/// ```
/// use std::num::NonZeroU32;
///
/// use gpc_trees::{Radix, Tree, TreeName};
///
/// let kary = Tree::Kary(NonZeroU32::new(8).expect("not zero"));
/// assert_eq!((kary.fan_out(64), kary.depth(64)), (Some(8), Some(2)));
/// let knomial = Tree::Knomial(Radix::new(4).expect("at least 2"));
/// assert_eq!(knomial.to_string(), "knomial:4");
/// // As people name them.
/// assert_eq!("kary:8".parse::<TreeName>()?.built_in(), Some(kary));
/// // The children of the first of seven ids are at positions 1 and 4.
/// let children: Vec<u32> = Tree::Binary.split(7)?.iter().map(|group| group.start).collect();
/// assert_eq!(children, [1, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Tree {
    /// Two halves; the default.
    #[default]
    Binary,
    /// Groups of 1, 2, 4, ...
    Binomial,
    /// k nearly equal parts.
    Kary(NonZeroU32),
    /// k - 1 groups of each size 1, k, k^2, ...
    Knomial(Radix),
    /// Each id has the next id as its only child.
    Chain,
    /// Every other id is a child of the first.
    Flat,
    /// The fastest tree for the costs of the links.
    Loggp(Lag),
    /// A split function that every node has registered.
    Registered(Registered),
    /// An explicit shape that is sent with the call.
    Explicit(Shape),
}

impl Tree {
    /// Splits a list of `n` ids: returns the groups of positions `1..n`, in list order; none for a single id.
    ///
    /// The groups of any tree cover positions `1..n` once each: the groups of a registered function and the sizes of a
    /// shape are checked. There are at most [`MAX_FAN_OUT`] groups.
    ///
    /// # Errors
    /// [`Empty`](TreeError::Empty) for n = 0, [`FanOut`](TreeError::FanOut) for too many groups,
    /// [`SizeMismatch`](TreeError::SizeMismatch) for a shape of another length, and [`BadGroups`](TreeError::BadGroups)
    /// or [`BadSize`](TreeError::BadSize) for an invalid registered function or shape.
    pub fn split(&self, n: u32) -> Result<Groups, TreeError> {
        if n == 0 {
            return Err(TreeError::Empty);
        }
        // Checked before any allocation: n may come from a peer.
        if let Some(fan_out) = self.fan_out(n).filter(|&fan_out| fan_out > MAX_FAN_OUT) {
            return Err(TreeError::FanOut { position: 0, fan_out, limit: MAX_FAN_OUT });
        }
        let mut groups = Groups::new();
        match self {
            Tree::Binary => split::parts(n, 2, &mut groups),
            Tree::Binomial => split::growing(n, 2, &mut groups),
            Tree::Kary(k) => split::parts(n, k.get(), &mut groups),
            Tree::Knomial(k) => split::growing(n, k.value(), &mut groups),
            Tree::Chain => split::parts(n, 1, &mut groups),
            Tree::Flat => split::parts(n, u32::MAX, &mut groups),
            Tree::Loggp(lag) => postal::split(n, *lag, &mut groups),
            Tree::Registered(function) => {
                groups = function.answer(n)?;
                registered::check_groups(n, &groups)?;
            }
            Tree::Explicit(shape) => shape.split(n, &mut groups)?,
        }
        Ok(groups)
    }

    /// Returns the tree by which the first member of a group splits its slice: the window of an explicit shape (shared,
    /// without a copy), or the tree itself. A group that extends past a shape gets the rest of it, which every split
    /// rejects.
    pub fn subtree(&self, group: Group) -> Tree {
        match self {
            Tree::Explicit(shape) => Tree::Explicit(shape.window(group)),
            same => same.clone(),
        }
    }

    /// Number of levels below the root over `n` ids, by the closed forms above; 0 for n = 0. `None` for a
    /// registered split and a shape, whose depth needs a [`check`](Self::check).
    pub fn depth(&self, n: u32) -> Option<u32> {
        let n = n.max(1);
        match self {
            Tree::Binary => Some(n.ilog2()),
            Tree::Binomial => Some(n.ilog2()),
            Tree::Kary(k) => Some(split::parts_depth(n, k.get())),
            Tree::Knomial(k) => Some(split::growing_depth(n, k.value())),
            Tree::Chain => Some(n - 1),
            Tree::Flat => Some((n - 1).min(1)),
            Tree::Loggp(lag) => Some(postal::depth(n, *lag)),
            Tree::Registered(_) | Tree::Explicit(_) => None,
        }
    }

    /// Maximum number of children of one id over `n` ids, which the root has, by the closed forms above; 0 for n = 0.
    /// `None` for a registered split and a shape.
    pub fn fan_out(&self, n: u32) -> Option<u32> {
        let n = n.max(1);
        match self {
            Tree::Binary => Some((n - 1).min(2)),
            Tree::Binomial => Some(n.ilog2() + u32::from(!n.is_power_of_two())),
            Tree::Kary(k) => Some((n - 1).min(k.get())),
            Tree::Knomial(k) => Some(split::growing_fan_out(n, k.value())),
            Tree::Chain => Some((n - 1).min(1)),
            Tree::Flat => Some(n - 1),
            Tree::Loggp(lag) => Some(postal::fan_out(n, *lag)),
            Tree::Registered(_) | Tree::Explicit(_) => None,
        }
    }

    /// The tree's id on the wire: 0 binary, 1 binomial, `0x8000_0001` and up for the built-in trees beyond the source.
    /// A registered split has the top bit of 64 set (see [`tree_id`](crate::tree_id)).
    pub fn wire_id(&self) -> u64 {
        match self {
            Tree::Binary => BINARY,
            Tree::Binomial => BINOMIAL,
            Tree::Kary(_) => KARY,
            Tree::Knomial(_) => KNOMIAL,
            Tree::Chain => CHAIN,
            Tree::Flat => FLAT,
            Tree::Loggp(_) => LOGGP,
            Tree::Registered(function) => function.id(),
            Tree::Explicit(_) => EXPLICIT,
        }
    }

    /// The tree's parameter on the wire: k, the lag in 1,024ths, or 0 if the tree has none.
    pub fn wire_param(&self) -> u32 {
        match self {
            Tree::Kary(k) => k.get(),
            Tree::Knomial(k) => k.value(),
            Tree::Loggp(lag) => lag.as_1024ths(),
            _ => 0,
        }
    }

    /// Returns the built-in tree of an id and a parameter from the wire. `None` for a parameter that the tree does not
    /// have (k-ary 0, k-nomial under 2, nonzero elsewhere), and for every other id: a registered split comes from a
    /// [`Registry`](crate::Registry), an explicit shape from its sizes.
    pub fn from_wire(id: u64, param: u32) -> Option<Tree> {
        match (id, param) {
            (BINARY, 0) => Some(Tree::Binary),
            (BINOMIAL, 0) => Some(Tree::Binomial),
            (KARY, k) => NonZeroU32::new(k).map(Tree::Kary),
            (KNOMIAL, k) => Radix::new(k).map(Tree::Knomial),
            (CHAIN, 0) => Some(Tree::Chain),
            (FLAT, 0) => Some(Tree::Flat),
            (LOGGP, lag) => Lag::from_1024ths(lag).map(Tree::Loggp),
            _ => None,
        }
    }

    /// The wire id of explicit shapes, whose sizes are sent with it.
    pub const EXPLICIT_WIRE_ID: u64 = EXPLICIT;
}

impl fmt::Display for Radix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tree {
    /// Prints the name of [`TreeName`](crate::TreeName); `explicit` for a shape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Binary => f.write_str("binary"),
            Tree::Binomial => f.write_str("binomial"),
            Tree::Kary(k) => write!(f, "kary:{k}"),
            Tree::Knomial(k) => write!(f, "knomial:{k}"),
            Tree::Chain => f.write_str("chain"),
            Tree::Flat => f.write_str("flat"),
            Tree::Loggp(lag) => write!(f, "loggp:{lag}"),
            Tree::Registered(function) => function.name().fmt(f),
            Tree::Explicit(_) => f.write_str("explicit"),
        }
    }
}
