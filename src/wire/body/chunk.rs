//! Memory for the segments of one body, used again when nobody reads it any more.
//!
//! Fresh memory is dear: the system clears every page of it before its first use. A body that passes through a node needs a few segments' worth at a time, so
//! those that were read by all take the bytes of those that come. The memory goes with its body: an idle node holds none.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::budget::{Budget, Counted};
use crate::wire::frame::{SEGMENT, WINDOW};

/// Chunks that wait to be used again: as many as a body's window has segments, and the two that its link may have cut ahead.
const POOL_MAX: usize = WINDOW as usize / SEGMENT + 2;

/// Bytes from which on they are put into a chunk: a quarter of it, so that a window of them holds no more than four times its length; fewer are copied into as much room as they need.
pub const CHUNK_MIN: usize = SEGMENT / 4;

/// The chunks of a body that nobody reads.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Unused>);

#[derive(Debug, Default)]
struct Unused {
    chunks: Vec<Counted<Vec<u8>>>,
    /// Nothing more comes, though somebody may still hold the body.
    closed: bool,
}

impl Pool {
    /// Nothing more comes: gives the memory back, that which is still read when it is not.
    pub(super) fn close(&self) {
        // The lock guards memory without meaning.
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *unused = Unused { chunks: Vec::new(), closed: true };
    }
}

/// Room for bytes that are coming, at most a segment's. It is taken when some of them are there, and one link has one.
#[derive(Debug)]
pub struct Chunk {
    /// Of the size of a segment.
    bytes: Counted<Vec<u8>>,
    filled: usize,
    pool: Arc<Pool>,
}

impl Chunk {
    /// One of a body whose memory is of this budget; none when that is spent.
    pub(super) fn of(pool: &Arc<Pool>, budget: &Budget) -> Option<Chunk> {
        // The lock guards memory without meaning.
        let used = pool.0.lock().unwrap_or_else(PoisonError::into_inner).chunks.pop();
        let fresh = || {
            let mut share = budget.share();
            share.grow(SEGMENT as u64).then(|| Counted { bytes: vec![0; SEGMENT], share })
        };
        Some(Chunk { bytes: used.or_else(fresh)?, filled: 0, pool: pool.clone() })
    }

    /// Where the next bytes go; empty when it is full.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes.bytes[self.filled..]
    }

    /// So many bytes of the room have been written, or all of it if that is less.
    pub fn fill(&mut self, count: usize) {
        self.filled = self.filled.saturating_add(count).min(self.bytes.bytes.len());
    }

    /// How many bytes it holds.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// What it holds, to be shared; its memory comes back to the pool with the last that reads it.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.bytes[..self.filled]
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut unused = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !unused.closed && unused.chunks.len() < POOL_MAX {
            unused.chunks.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pool: &Arc<Pool>) -> Chunk {
        Chunk::of(pool, &Budget::unbounded()).unwrap()
    }

    #[test]
    fn memory_is_used_again_when_its_last_reader_is_through_and_no_byte_of_before_shows() {
        let pool = Arc::new(Pool::default());
        let mut chunk = one(&pool);
        chunk.room()[..3].copy_from_slice(b"abc");
        chunk.fill(3);
        let (bytes, place) = (chunk.freeze(), 3);
        let (first, rest) = (bytes.slice(..1), bytes.slice(1..place));
        let memory = first.as_ptr();
        drop((bytes, first));
        assert_ne!(one(&pool).as_ref().as_ptr(), memory, "somebody still reads it");
        assert_eq!(rest, "bc");
        drop(rest);
        let again = one(&pool);
        assert_eq!((again.as_ref().as_ptr(), again.filled()), (memory, 0));
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = Arc::new(Pool::default());
        let many: Vec<Chunk> = (0..POOL_MAX + 5).map(|_| one(&pool)).collect();
        drop(many);
        assert_eq!(pool.0.lock().unwrap().chunks.len(), POOL_MAX);
        let mut chunk = one(&pool);
        chunk.fill(usize::MAX);
        assert_eq!((chunk.filled(), chunk.room().len()), (SEGMENT, 0));
        pool.close();
        drop(chunk);
        assert_eq!(pool.0.lock().unwrap().chunks.len(), 0, "nothing comes back any more");
    }
}
