//! Trees as splits of an ordered list: the shapes that a chained GPC travels along.
//!
//! # Overview
//!
//! A [`Tree`] is a *split*. Given an ordered list of ids whose first one is the receiver, it cuts the rest into
//! consecutive [`Group`]s. The first id of each group is a child of the receiver, and the group is that child's
//! subtree, which the child splits in the same way. So
//!
//! - a subtree is a slice of an [`IdList`], and a slice costs no allocation;
//! - every split whose groups cover the rest once is a tree: each id has one parent, there is no cycle, and no id is
//!   left out;
//! - preorder is the order of the list;
//! - any holder of a slice can compute the children of its receiver, without asking it.
//!
//! Everything here is a pure function: no I/O, no clock, no threads, no random numbers. No number in an input causes an
//! allocation beyond [`MAX_FAN_OUT`] groups or [`MAX_POSITIONS`] positions, and no function recurses along a tree.
//!
//! # Usage
//!
//! Send a call one step down, as every node does:
//!
//! ```
//! use gpc_trees::{IdList, Tree, send_order};
//!
//! let ids: IdList = "0-6".parse()?;
//! let tree = Tree::Binary;
//! let groups = tree.split(ids.len())?;
//! for index in send_order(&groups) {
//!     let slice = ids.slice(groups[index]);
//!     let _subtree = tree.subtree(groups[index]);
//!     assert!(slice.first() == Some(1) || slice.first() == Some(4));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A user tree over positions is laid out once at the root. A wrong one is rejected with a counter-example:
//!
//! ```
//! use gpc_trees::{IdList, Layout, Limits, TreeError};
//!
//! let heap = |i: u32, out: &mut Vec<u32>| out.extend([2 * i + 1, 2 * i + 2].into_iter().filter(|&c| c < 5));
//! let layout = Layout::from_children(5, heap, &Limits::default())?;
//! assert_eq!(layout.order(), [0, 1, 3, 4, 2]);
//! let ids = layout.apply(&"10-14".parse::<IdList>()?)?;
//! assert_eq!(ids.to_string(), "10-11,13-14,12");
//! let tree = layout.tree();
//! assert_eq!(tree.split(5)?.len(), 2);
//!
//! let ring = Layout::from_parents(&[None, Some(2), Some(1)], &Limits::default());
//! assert_eq!(ring, Err(TreeError::Cycle { path: vec![1, 2] }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | file | for |
//! |---|---|
//! | `ids`, `ids/text` | ordered lists of distinct ids, cut into slices without copying; their text form |
//! | `convert`, `decimal` | lists of ids from ranges, arrays and iterators; decimal numbers in text |
//! | `tree` | the type [`Tree`]: a split, and its encoding on the wire |
//! | `split` | groups, and the built-in splits |
//! | `postal` | the fastest tree for given link costs |
//! | `choice` | the tree for a call that names none |
//! | `hosts`, `grouping` | trees that keep hosts together; nested groups of hosts |
//! | `registered`, `registry`, `split_name` | splits of applications; the trees that a node knows; names of splits |
//! | `layout`, `tree_file`, `shape` | user trees over positions; their text form; explicit shapes |
//! | `name` | names of trees, such as `kary:8` |
//! | `adoption` | the children of a lost id, for its parent |
//! | `check`, `limits`, `error` | checks a whole tree; limits of depth and fan-out; errors with counter-examples |
//! | `walk` | whole trees: levels and edges |
//! | `sorting` | sorting and collecting in little code |
//!
//! # Sources
//!
//! The tree ids 0 (binary), 1 (binomial) and n (user-defined) are those of the ARMCI design of chained GPC (2007).
//! k-ary, k-nomial, chain and flat go beyond it; their ids are negative as a C `int`, so they never collide with a
//! user's.
#![forbid(unsafe_code)]

mod adoption;
mod check;
mod choice;
mod convert;
pub mod decimal;
mod error;
mod grouping;
mod hosts;
mod ids;
mod layout;
mod limits;
mod name;
mod postal;
mod registered;
mod registry;
mod shape;
pub mod sorting;
mod split;
mod split_name;
mod tree;
mod tree_file;
mod walk;

pub use adoption::adopted;
pub use choice::{Costs, Load};
pub use convert::{Ids, IdsError};
pub use error::{GroupFault, TreeError};
pub use hosts::{Hosts, HostsError};
pub use ids::text::ParseIdsError;
pub use ids::{DuplicateId, Id, IdIter, IdList, Run, RunError, RunIter};
pub use layout::Layout;
pub use limits::{Limits, MAX_DEPTH, MAX_FAN_OUT, MAX_POSITIONS, Summary};
pub use name::TreeName;
pub use postal::Lag;
pub use registered::{Registered, name_hash, tree_id};
pub use registry::{RegisterError, Registry, UnknownTree};
pub use shape::Shape;
pub use split::{Group, Groups, SendOrder, send_order};
pub use split_name::{NameError, SplitName};
pub use tree::{Radix, Tree};
pub use tree_file::TreeFileError;
pub use walk::{Edges, edges, levels};

/// The program of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
