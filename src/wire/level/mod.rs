//! Level-n data: the format in which the data of many processes are aggregated up a tree.
//!
//! ```text
//! level 0 data = byteCount SPACE bytes
//! level n data = dataCount SPACE (level n-1 data)*      n >= 1
//! ```
//!
//! Counts are ASCII decimal numbers of at most 64 bits, without sign or leading zero (`0` itself is a count). The bytes
//! do not contain their level, which is sent beside them. Source: the rendezvous web service of Globus (WS Rendezvous),
//! "Data format".
//!
//! - [`aggregate`] joins a process's own data and its children's data into data of the next level, with little copying.
//! - [`StreamDecoder`] decodes data that arrive in chunks cut anywhere, and buffers none of them.
//! - [`Leaves`] and [`Tokens`] borrow from complete data; [`validate`] only checks them.
//!
//! Decoders read bytes from peers. They never panic, never recurse, and never allocate because a count announces
//! members. Their memory is sixteen bytes for each open value with members to come, and each of those took two bytes of
//! input or more.
//!
//! ```
//! use bytes::Bytes;
//! use chained_gpc::wire::level::{Leaves, Leveled, Limits, aggregate};
//!
//! let child = aggregate(Some(Bytes::from_static(b"leaf")), &[])?;
//! let root = aggregate(Some(Bytes::from_static(b"root")), &[child])?;
//! assert_eq!(root, Leveled { level: 1, data: b"2 4 root4 leaf".to_vec().into() });
//!
//! let data = root.data.to_bytes();
//! let leaves: Vec<&[u8]> = Leaves::new(root.level, &data, Limits::default()).collect::<Result<_, _>>()?;
//! assert_eq!(leaves, [b"root", b"leaf"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod encode;
mod error;
mod grammar;
#[cfg(test)]
mod tests;

pub use decode::{Leaves, StreamDecoder, Token, Tokens, validate};
pub(super) use encode::Joiner;
pub use encode::{Leveled, aggregate, aggregate_parts, count, level0};
pub use error::{LevelError, LevelErrorKind, LevelLimit};
pub use grammar::{Event, Limits};

pub(crate) use encode::{count_bytes, lift};
pub(crate) use grammar::whole_leaf;

/// The highest level: a level is sent in 16 bits. Trees of logarithmic depth stay below level 64; only a chain of
/// 65,536 processes reaches the limit.
pub const MAX_LEVEL: u16 = u16::MAX;
