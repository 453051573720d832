//! Reuses the memory of a long body for the next one.
//!
//! The system clears every page of fresh memory, which costs more than receiving the data. So a node keeps the memory
//! of the last long body for a moment, and consecutive calls reuse it. The driver returns it to the system after a time
//! without traffic.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::budget::{Budget, Counted, Share};

/// Minimum size of memory to keep, in bytes: the allocator itself keeps smaller blocks.
const KEPT_MIN: usize = 4 << 20;

/// Maximum memory that a node keeps, in bytes; the node has just used it anyway.
const KEPT_MAX: usize = 64 << 20;

/// Divisor: at most this part of the budget may be kept besides the memory in use.
const KEPT_PART: u64 = 8;

/// Overhead of a short part of a body, in bytes.
const PART_COST: u64 = 128;

/// The memory that a node keeps, of at most one body, and the budget from which bodies take their memory. Cloning
/// shares both.
#[derive(Clone, Default)]
pub struct Spare {
    shared: Arc<Shared>,
    budget: Budget,
}

#[derive(Default)]
struct Shared {
    memory: Mutex<Vec<u8>>,
    /// Whether memory is kept: a cheap test for frequent use.
    held: AtomicBool,
}

/// A body whose memory is kept after use.
struct SpareBody {
    bytes: Counted<Vec<u8>>,
    spare: Spare,
}

impl Spare {
    /// Returns the same kept memory, for bodies of another budget.
    pub fn within(&self, budget: &Budget) -> Spare {
        Spare { shared: self.shared.clone(), budget: budget.clone() }
    }

    /// The budget from which bodies take their memory.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether any memory is kept.
    pub fn is_held(&self) -> bool {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Returns the memory to the system.
    pub fn release(&self) {
        drop(self.take());
    }

    /// Returns an empty buffer for a body of this length, with the kept memory if the body is long.
    fn buffer(&self, len: u64) -> Counted<Vec<u8>> {
        let bytes = if len < KEPT_MIN as u64 || !self.is_held() { Vec::new() } else { self.take() };
        let mut share = self.budget.share();
        let bytes = if share.resize(bytes.capacity() as u64) { bytes } else { Vec::new() };
        Counted { bytes, share }
    }

    /// Appends received bytes of a body of this length; false if there is no memory for them.
    pub(super) fn append(&self, part: &mut Counted<Vec<u8>>, bytes: &[u8], announced: u64) -> bool {
        if part.bytes.capacity() == 0 && !bytes.is_empty() {
            *part = self.buffer(announced);
        }
        part.append(bytes, announced)
    }

    /// Shares a body; the memory of a long one is kept once its last reader is gone.
    pub(super) fn share(&self, bytes: Counted<Vec<u8>>) -> Bytes {
        let most = usize::try_from(self.budget.most() / KEPT_PART).unwrap_or(KEPT_MAX).min(KEPT_MAX);
        match (KEPT_MIN..=most).contains(&bytes.bytes.capacity()) {
            true => Bytes::from_owner(SpareBody { bytes, spare: self.clone() }),
            false if bytes.share.bytes() == 0 => Bytes::from(bytes.bytes),
            false => Bytes::from_owner(bytes),
        }
    }

    /// Returns a copy of two consecutive pieces; `None` if there is no memory for it.
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

    /// Charges the budget for bytes that are stored elsewhere, until their last reader is gone; `None` if the budget is
    /// exhausted.
    pub(super) fn retain(&self, bytes: Bytes) -> Option<Bytes> {
        let mut share = self.budget.share();
        share.grow(bytes.len() as u64).then(|| self.counted(bytes, share))
    }

    fn counted<T: AsRef<[u8]> + Into<Bytes> + Send + 'static>(&self, bytes: T, share: Share) -> Bytes {
        if share.bytes() == 0 { bytes.into() } else { Bytes::from_owner(Counted { bytes, share }) }
    }

    fn take(&self) -> Vec<u8> {
        // A poisoned lock is safe to use: the memory has no content.
        let mut memory = self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.held.store(false, Ordering::Relaxed);
        std::mem::take(&mut memory)
    }
}

impl AsRef<[u8]> for SpareBody {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for SpareBody {
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
    use crate::wire::body::{Body, BodyUse};

    fn body(len: usize, spare: &Spare) -> Bytes {
        let (body, mut writer) = Body::arriving_in(len as u64, BodyUse::Whole, spare);
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
    fn parts_are_kept_within_the_budget_and_short_ones_cost_more_than_their_bytes() {
        let budget = Budget::new(100 + PART_COST, "this node");
        let spare = Spare::default().within(&budget);
        let copy = spare.copy(&[1; 60], &[2; 40]).expect("it fits");
        assert_eq!((copy.len(), copy[59], copy[60], budget.used()), (100, 1, 2, 100 + PART_COST));
        assert!(spare.copy(b"", b"").is_none() && spare.retain(Bytes::from_static(b"x")).is_none());
        drop(copy);
        let kept = spare.retain(Bytes::from_static(b"four")).expect("it fits");
        assert_eq!((&kept[..], budget.used()), (&b"four"[..], 4));
        drop(kept);
        assert_eq!(budget.used(), 0);
    }

    /// Memory of the last body counts for the next one.
    #[test]
    fn kept_memory_is_used_within_the_budget_alone() {
        let spare = Spare::default();
        for (most, fits) in [(KEPT_MIN as u64 - 1, false), (KEPT_MIN as u64, true)] {
            drop(body(KEPT_MIN, &spare));
            assert!(spare.is_held());
            let budget = Budget::new(most, "this node");
            let buffer = spare.within(&budget).buffer(KEPT_MIN as u64);
            assert_eq!(buffer.bytes.capacity() == KEPT_MIN, fits);
            assert_eq!(budget.used(), buffer.bytes.capacity() as u64);
        }
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
