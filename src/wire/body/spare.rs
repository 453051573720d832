//! The memory of a long body, kept for the next one.
//!
//! The system clears every page of fresh memory, which costs more than to bring the data there. So a node keeps the memory of the last long body for a moment: calls that follow each other use it in turn. Its driver gives it back
//! when nothing has come for a while.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::budget::{Budget, Counted, Share};

/// Memory is kept from this size on: below it the allocator keeps it by itself.
const KEPT_MIN: usize = 4 << 20;

/// Most memory that a node keeps for a moment, bytes: what it has just held anyway.
const KEPT_MAX: usize = 64 << 20;

/// The part of a budget that may be kept for a moment beside what is held.
const KEPT_PART: u64 = 8;

/// What a short part of a body takes beside its bytes.
const PART_COST: u64 = 128;

/// The memory that a node keeps: of one body, or of none; and the budget that bodies take theirs of. Cloning shares both.
#[derive(Clone, Default)]
pub struct Spare {
    shared: Arc<Shared>,
    budget: Budget,
}

#[derive(Default)]
struct Shared {
    memory: Mutex<Vec<u8>>,
    /// Whether there is any, to be asked often.
    held: AtomicBool,
}

/// A body whose memory comes back.
struct Lent {
    bytes: Counted<Vec<u8>>,
    spare: Spare,
}

impl Spare {
    /// The same memory for bodies of another budget.
    pub fn within(&self, budget: &Budget) -> Spare {
        Spare { shared: self.shared.clone(), budget: budget.clone() }
    }

    /// What bodies take their memory of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether any memory is kept.
    pub fn is_held(&self) -> bool {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Gives the memory back to the system.
    pub fn release(&self) {
        drop(self.take());
    }

    /// An empty buffer for a body of this length, with what memory there is if the body is long.
    fn buffer(&self, len: u64) -> Counted<Vec<u8>> {
        let bytes = if len < KEPT_MIN as u64 || !self.is_held() { Vec::new() } else { self.take() };
        let mut share = self.budget.share();
        let bytes = if share.hold(bytes.capacity() as u64) { bytes } else { Vec::new() };
        Counted { bytes, share }
    }

    /// Appends what has come of a body of this length; false where there is no memory for it.
    pub(super) fn append(&self, part: &mut Counted<Vec<u8>>, bytes: &[u8], announced: u64) -> bool {
        if part.bytes.capacity() == 0 && !bytes.is_empty() {
            *part = self.buffer(announced);
        }
        part.append(bytes, announced)
    }

    /// Shares a body; if it is long, its memory comes back when nobody reads it any more.
    pub(super) fn share(&self, bytes: Counted<Vec<u8>>) -> Bytes {
        let most = usize::try_from(self.budget.most() / KEPT_PART).unwrap_or(KEPT_MAX).min(KEPT_MAX);
        match (KEPT_MIN..=most).contains(&bytes.bytes.capacity()) {
            true => Bytes::from_owner(Lent { bytes, spare: self.clone() }),
            false if bytes.share.bytes() == 0 => Bytes::from(bytes.bytes),
            false => Bytes::from_owner(bytes),
        }
    }

    /// A copy of two pieces that follow each other; `None` where there is no memory for it.
    pub fn copy(&self, first: &[u8], second: &[u8]) -> Option<Bytes> {
        let (mut share, mut bytes) = (self.budget.share(), Vec::new());
        let len = first.len() + second.len();
        if !share.grow(len as u64 + PART_COST) || bytes.try_reserve_exact(len).is_err() {
            return None;
        }
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        Some(self.counted(bytes, share))
    }

    /// Bytes that lie elsewhere, as long as somebody reads them; `None` where there is no room for them.
    pub(super) fn hold(&self, bytes: Bytes) -> Option<Bytes> {
        let mut share = self.budget.share();
        share.grow(bytes.len() as u64).then(|| self.counted(bytes, share))
    }

    fn counted<T: AsRef<[u8]> + Into<Bytes> + Send + 'static>(&self, bytes: T, share: Share) -> Bytes {
        if share.bytes() == 0 { bytes.into() } else { Bytes::from_owner(Counted { bytes, share }) }
    }

    fn take(&self) -> Vec<u8> {
        // The lock guards memory without meaning.
        let mut memory = self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.held.store(false, Ordering::Relaxed);
        std::mem::take(&mut memory)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut memory = self.spare.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &mut self.bytes.bytes;
        if memory.capacity() < bytes.capacity() {
            bytes.clear();
            std::mem::swap(&mut *memory, bytes);
            self.spare.shared.held.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spare({})", if self.is_held() { "some" } else { "none" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::{Body, Use};

    fn body(len: usize, spare: &Spare) -> Bytes {
        let (body, mut writer) = Body::arriving_in(len as u64, Use::Whole, spare);
        assert_eq!(writer.push(b""), 0, "the frame that begins it has none of it");
        for at in (0..len).step_by(100_000) {
            writer.push(&vec![at as u8; 100_000.min(len - at)]);
        }
        body.bytes().unwrap()
    }

    #[test]
    fn a_long_body_leaves_its_memory_to_the_next_one() {
        let spare = Spare::default();
        let first = body(KEPT_MIN, &spare);
        let memory = first.as_ptr();
        let part = first.slice(7..9);
        drop(first);
        assert!(!spare.is_held(), "somebody still reads it");
        drop(part);
        assert!(spare.is_held());
        let second = body(KEPT_MIN - 1, &spare);
        assert!(spare.is_held() && second.as_ptr() != memory, "a short one leaves it alone");
        let third = body(KEPT_MIN, &spare);
        assert!(!spare.is_held() && third.as_ptr() == memory);
        assert!((0..KEPT_MIN).all(|at| third[at] == (at / 100_000 * 100_000) as u8));
        drop(third);
        spare.release();
        assert!(!spare.is_held());
    }

    #[test]
    fn one_body_s_memory_is_kept_and_none_that_is_too_large() {
        let spare = Spare::default();
        let two = [body(KEPT_MIN, &spare), body(2 * KEPT_MIN, &spare)];
        drop(two);
        let kept = spare.take();
        assert!(kept.capacity() == 2 * KEPT_MIN && kept.is_empty());
        drop(body(KEPT_MAX + 1, &spare));
        assert!(!spare.is_held());
    }
}
