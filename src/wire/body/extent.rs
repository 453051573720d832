//! Data in sealed memory: immutable memory of their own, with a descriptor to pass on.
//!
//! The wire module knows only its own memory, so the system's part is behind two traits. A body keeps such pieces as
//! they arrive: its bytes are mapped instead of copied, and the links to children on the same host pass the descriptors
//! on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A piece of sealed memory.
pub trait Sealed: Any + Send + Sync + fmt::Debug {
    /// Length, in bytes.
    fn length(&self) -> usize;

    /// The bytes: mapped, or copied if the system cannot map them.
    fn bytes(&self) -> Bytes;

    /// Returns contiguous room for a body of `announced` bytes, into which this piece and others can be mapped; `None`
    /// if the system has none.
    fn room(&self, announced: u64) -> Option<Box<dyn Room>>;

    /// Whether its descriptor may be retained for others, because few enough are open.
    fn may_be_kept(&self) -> bool;
}

/// A piece of sealed memory, shared.
pub type Extent = Arc<dyn Sealed>;

/// Contiguous room for the data of one body, filled as they arrive.
pub trait Room: Send {
    /// Number of bytes that have arrived.
    fn filled(&self) -> usize;

    /// Maps sealed memory at the end; false if the system cannot map it, and then nothing has changed.
    fn lay(&mut self, extent: &dyn Sealed) -> bool;

    /// Appends bytes that arrived another way; false if the system has no memory for them, and then nothing has
    /// changed.
    fn push(&mut self, bytes: &[u8]) -> bool;

    /// Returns some of the arrived bytes, in place.
    fn view(&self, range: std::ops::Range<usize>) -> Bytes;
}

/// The descriptors of a body's pieces, in order, each with its offset.
#[derive(Debug, Default)]
pub(super) struct Extents(Vec<(u64, Extent)>);

impl Extents {
    /// Retains a descriptor for the links that pass it on, if few enough are open.
    pub(super) fn keep(&mut self, offset: u64, extent: &Extent) {
        if extent.may_be_kept() {
            self.0.push((offset, extent.clone()));
        }
    }

    /// Returns the piece that begins at an offset.
    pub(super) fn at(&self, offset: u64) -> Option<&Extent> {
        let place = self.0.binary_search_by_key(&offset, |(start, _)| *start).ok()?;
        self.0.get(place).map(|(_, extent)| extent)
    }

    /// Drops the descriptors of pieces that end before `offset`.
    pub(super) fn forget_before(&mut self, offset: u64) {
        let gone = self.0.partition_point(|(start, extent)| start + extent.length() as u64 <= offset);
        self.0.drain(..gone);
    }
}

#[cfg(test)]
mod tests;
