//! Memory for the segments of one body, reused once it has no readers.
//!
//! Fresh memory is expensive: the system clears every page of it before its first use. A body that passes through a
//! node needs a few segments at a time, so arriving bytes reuse the memory of segments that all readers have read. The
//! memory is freed with its body: an idle node holds none.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::budget::{Budget, Counted};
use crate::wire::frame::{SEGMENT, WINDOW};

/// Maximum number of unused chunks: as many as a window has segments, and two that the link may have cut ahead.
const POOL_MAX: usize = WINDOW as usize / SEGMENT + 2;

/// Minimum length of bytes for which a chunk is used: a quarter of its size, so a window of chunks takes at most four
/// times the length of its bytes. Fewer bytes are copied into memory of their length.
pub const CHUNK_MIN: usize = SEGMENT / 4;

/// The unused chunks of a body.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<UnusedChunks>);

#[derive(Debug, Default)]
struct UnusedChunks {
    chunks: Vec<Counted<Vec<u8>>>,
    /// No more bytes arrive, although the body may still be referenced.
    closed: bool,
}

impl Pool {
    /// Marks the body as complete and frees the unused memory; chunks still in use are freed when their last reader is
    /// gone.
    pub(super) fn close(&self) {
        // A poisoned lock is safe to use: the memory has no content.
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *unused = UnusedChunks { chunks: Vec::new(), closed: true };
    }
}

/// A buffer of one segment for arriving bytes. It is allocated once some of them are present, and a link has at most
/// one.
#[derive(Debug)]
pub struct Chunk {
    /// Buffer of the size of a segment.
    bytes: Counted<Vec<u8>>,
    filled: usize,
    pool: Arc<Pool>,
}

impl Chunk {
    /// Returns a chunk of a body whose memory is charged to this budget; `None` if the budget is exhausted.
    pub(super) fn of(pool: &Arc<Pool>, budget: &Budget) -> Option<Chunk> {
        // A poisoned lock is safe to use: the memory has no content.
        let used = pool.0.lock().unwrap_or_else(PoisonError::into_inner).chunks.pop();
        let fresh = || {
            let mut share = budget.share();
            share.grow(SEGMENT as u64).then(|| Counted { bytes: vec![0; SEGMENT], share })
        };
        Some(Chunk { bytes: used.or_else(fresh)?, filled: 0, pool: pool.clone() })
    }

    /// The free part of the buffer; empty if it is full.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes.bytes[self.filled..]
    }

    /// Marks `count` bytes as written, at most the rest of the buffer.
    pub fn fill(&mut self, count: usize) {
        self.filled = self.filled.saturating_add(count).min(self.bytes.bytes.len());
    }

    /// Number of bytes written.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the written bytes for sharing; the memory returns to the pool once its last reader is gone.
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
