//! Data that came in memory of their own, which nobody can change any more, with a descriptor to pass on.
//!
//! The wire knows no memory but its own, so what the system does stands behind two traits. A body keeps such pieces as they came: its bytes are mapped and not copied, and the links to
//! children on the same host pass the descriptors on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A piece of sealed memory.
pub trait Sealed: Any + Send + Sync + fmt::Debug {
    /// Its length, bytes.
    fn length(&self) -> usize;

    /// Its bytes: mapped, or copied where the system has no mapping.
    fn bytes(&self) -> Bytes;

    /// Room for a body of so many bytes in one piece, in which this and others can be laid; `None` where there is none.
    fn room(&self, announced: u64) -> Option<Box<dyn Room>>;

    /// Whether its descriptor may be kept for others: there are few enough.
    fn may_be_kept(&self) -> bool;
}

/// A piece of sealed memory, shared.
pub type Extent = Arc<dyn Sealed>;

/// The data of one body, side by side as they come.
pub trait Room: Send {
    /// How many bytes have come.
    fn filled(&self) -> usize;

    /// Appends sealed memory; false where the system has no mapping for it, and then nothing has changed.
    fn lay(&mut self, extent: &dyn Sealed) -> bool;

    /// Appends bytes that came otherwise; false where the system has no memory for them, and then nothing has changed.
    fn push(&mut self, bytes: &[u8]) -> bool;

    /// Some of the bytes that have come, where they lie.
    fn view(&self, range: std::ops::Range<usize>) -> Bytes;
}

/// The descriptors of a body's pieces, in order, each with its offset.
#[derive(Debug, Default)]
pub(super) struct Extents(Vec<(u64, Extent)>);

impl Extents {
    /// Keeps one for those who pass it on, if there are few enough.
    pub(super) fn keep(&mut self, offset: u64, extent: &Extent) {
        if extent.may_be_kept() {
            self.0.push((offset, extent.clone()));
        }
    }

    /// The piece that begins at an offset.
    pub(super) fn at(&self, offset: u64) -> Option<&Extent> {
        let place = self.0.binary_search_by_key(&offset, |(start, _)| *start).ok()?;
        self.0.get(place).map(|(_, extent)| extent)
    }

    /// Forgets those that nobody passes on any more.
    pub(super) fn forget_before(&mut self, offset: u64) {
        let gone = self.0.partition_point(|(start, extent)| start + extent.length() as u64 <= offset);
        self.0.drain(..gone);
    }
}

#[cfg(test)]
mod tests;
