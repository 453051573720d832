//! A byte ring with one writer and one reader in shared memory, and the notifications for a side that sleeps.
//!
//! The memory consists of words that are accessed atomically, so that no action of the other side causes undefined
//! behaviour. Indices count bytes since the link began, and never wrap. The writer owns `produced` and `base`, the
//! reader `consumed`. Each side keeps private copies of its indices, and only publishes them.
//!
//! A side that will sleep sets its flag, then checks the ring once more. A side that has published an index then reads
//! the other's flag, and notifies. A fence between the two steps on each side ensures that at least one side sees the
//! other's write. This module never trusts an index, spins, allocates, or makes a system call.

use std::io::IoSlice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Number of control words of a ring.
pub(super) const CONTROL: usize = 64;

/// Words that are written often have two cache lines each: processors fetch lines in pairs.
const PRODUCED: usize = 0;
/// The index at the first byte of the ring; the writer changes it while the ring is empty. Read together with
/// `PRODUCED`.
const BASE: usize = 1;
const CONSUMED: usize = 16;
const READER_SLEEPS: usize = 32;
const WRITER_WAITS: usize = 48;

/// Length of a word, bytes.
const WORD: usize = 8;

/// Number of bytes after which the writer restarts at the beginning of an empty ring, so that small messages use one or
/// two pages of it.
const REWIND: u64 = 4096;

/// A word shared by two processes.
pub(super) trait Cell {
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn swap(&self, value: u64, ordering: Ordering) -> u64;
    /// A sequentially consistent fence.
    fn fence();
}

impl Cell for AtomicU64 {
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }

    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }

    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        AtomicU64::swap(self, value, ordering)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// The memory of one ring.
pub(super) trait Memory {
    type Cell: Cell;
    /// [`CONTROL`] words, all zero at first.
    fn control(&self) -> &[Self::Cell];
    /// The data words; their number is a power of two.
    fn data(&self) -> &[Self::Cell];
}

/// The peer has published impossible indices.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the peer broke the shared ring: {produced} bytes written and {consumed} read do not fit one of {capacity}"
)]
pub(super) struct RingError {
    produced: u64,
    consumed: u64,
    capacity: u64,
}

/// Capacity of the ring, bytes.
fn capacity<M: Memory>(memory: &M) -> u64 {
    (memory.data().len() * WORD) as u64
}

/// Maximum number of bytes copied at once: the other side works on one half while this one copies the other.
fn copy_max<M: Memory>(memory: &M) -> usize {
    memory.data().len() * WORD / 2
}

/// The number of bytes between two indices, if they are possible.
fn readable_bytes<M: Memory>(memory: &M, consumed: u64, produced: u64) -> Result<u64, RingError> {
    let (bytes, capacity) = (produced.wrapping_sub(consumed), capacity(memory));
    if bytes > capacity { Err(RingError { produced, consumed, capacity }) } else { Ok(bytes) }
}

/// Clears a flag; returns whether it was set.
fn clear_flag<C: Cell>(flag: &C) -> bool {
    C::fence();
    // The flag is usually clear, and a read leaves the word in both caches.
    flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Writer<M> {
    memory: M,
    produced: u64,
    base: u64,
    /// As last read from the other side.
    consumed: u64,
    /// Whether this side waits for the reader: a write found no room, or a read notification was requested.
    is_waiting: bool,
}

impl<M: Memory> Writer<M> {
    /// Creates the writer of an empty ring.
    pub(super) fn new(memory: M) -> Writer<M> {
        Writer { memory, produced: 0, base: 0, consumed: 0, is_waiting: false }
    }

    /// Copies bytes of some parts into the ring, as many as fit; returns their number. If it is 0, the reader notifies
    /// this side when there is room.
    ///
    /// # Errors
    /// If the reader's index is impossible.
    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, RingError> {
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().min(copy_max(&self.memory));
        if wanted == 0 {
            return Ok(0);
        }
        let mut room = self.room(wanted)?;
        if room == 0 {
            self.is_waiting = true;
            self.memory.control()[WRITER_WAITS].store(1, Relaxed);
            M::Cell::fence();
            room = self.room(wanted)?;
            if room == 0 {
                return Ok(0);
            }
        }
        self.stop_waiting();
        let mut left = room.min(wanted);
        let written = left;
        for part in parts {
            let bytes = &part[..left.min(part.len())];
            self.copy_in(bytes);
            left -= bytes.len();
        }
        self.memory.control()[PRODUCED].store(self.produced, Release);
        Ok(written)
    }

    /// Whether the reader sleeps and must be notified of written bytes. True once for each of its sleeps.
    pub(super) fn must_notify(&self) -> bool {
        clear_flag(&self.memory.control()[READER_SLEEPS])
    }

    /// Whether there is room after a write that found none.
    pub(super) fn has_room_again(&self) -> bool {
        self.is_waiting && self.memory.control()[CONSUMED].load(Relaxed) != self.consumed
    }

    /// Number of bytes that the reader has read.
    ///
    /// # Errors
    /// If they exceed the written bytes.
    pub(super) fn consumed_by_reader(&mut self) -> Result<u64, RingError> {
        let consumed = self.memory.control()[CONSUMED].load(Acquire);
        readable_bytes(&self.memory, consumed, self.produced)?;
        self.consumed = consumed;
        Ok(consumed)
    }

    /// The same, and makes the reader notify this side when it has read more, even if there is room.
    ///
    /// # Errors
    /// As for [`consumed_by_reader`](Self::consumed_by_reader).
    pub(super) fn request_read_notification(&mut self) -> Result<u64, RingError> {
        self.is_waiting = true;
        self.memory.control()[WRITER_WAITS].store(1, Relaxed);
        M::Cell::fence();
        self.consumed_by_reader()
    }

    /// Stops waiting: there is nothing to write.
    pub(super) fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.memory.control()[WRITER_WAITS].store(0, Relaxed);
        }
    }

    /// Number of written bytes.
    pub(super) fn produced(&self) -> u64 {
        self.produced
    }

    /// Number of free bytes. Reads the other side's index only if there seem to be too few, or if the ring may restart.
    fn room(&mut self, wanted: usize) -> Result<usize, RingError> {
        let capacity = capacity(&self.memory);
        let far = self.produced - self.base >= REWIND.min(capacity / 4);
        if far || capacity - (self.produced - self.consumed) < wanted as u64 {
            self.consumed_by_reader()?;
        }
        if far && self.consumed == self.produced {
            // The ring is empty, so the reader reads the base after the next `produced`.
            self.base = self.produced;
            self.memory.control()[BASE].store(self.base, Relaxed);
        }
        Ok((capacity - (self.produced - self.consumed)) as usize)
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        let data = self.memory.data();
        let place = (self.produced - self.base) as usize & (data.len() * WORD - 1);
        let (first, second) = bytes.split_at(bytes.len().min(data.len() * WORD - place));
        copy_in(data, place, first);
        copy_in(data, 0, second);
        self.produced += bytes.len() as u64;
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Reader<M> {
    memory: M,
    consumed: u64,
    /// As last read from the other side.
    produced: u64,
}

impl<M: Memory> Reader<M> {
    /// Creates the reader of an empty ring.
    pub(super) fn new(memory: M) -> Reader<M> {
        Reader { memory, consumed: 0, produced: 0 }
    }

    /// Copies the next bytes out of the ring; returns their number.
    ///
    /// # Errors
    /// If the writer's index is impossible.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, RingError> {
        let produced = self.memory.control()[PRODUCED].load(Acquire);
        let available = readable_bytes(&self.memory, self.consumed, produced)?;
        self.produced = produced;
        let count = (available as usize).min(into.len()).min(copy_max(&self.memory));
        if count == 0 {
            return Ok(0);
        }
        let data = self.memory.data();
        let length = data.len() * WORD;
        // Any base gives a place inside the ring.
        let base = self.memory.control()[BASE].load(Relaxed);
        let place = self.consumed.wrapping_sub(base) as usize & (length - 1);
        let (first, second) = into[..count].split_at_mut(count.min(length - place));
        copy_out(data, place, first);
        copy_out(data, 0, second);
        self.consumed += count as u64;
        self.memory.control()[CONSUMED].store(self.consumed, Release);
        Ok(count)
    }

    /// Whether the writer waits and must be notified: once half of the ring is free, not for every few bytes. A writer
    /// that waits for room has found the ring full, and the reader continues to read until half is free.
    pub(super) fn must_notify(&self) -> bool {
        let half = capacity(&self.memory) / 2;
        self.produced - self.consumed <= half && clear_flag(&self.memory.control()[WRITER_WAITS])
    }

    /// Whether there are bytes to read, or an impossible index to report.
    pub(super) fn has_bytes(&self) -> bool {
        self.memory.control()[PRODUCED].load(Relaxed) != self.consumed
    }

    /// Makes the writer notify this side. The caller must check for earlier bytes once more, after a
    /// [fence](Cell::fence).
    pub(super) fn request_notifications(&self) {
        self.memory.control()[READER_SLEEPS].store(1, Relaxed);
    }

    /// Makes the writer stop notifications: this side polls.
    pub(super) fn stop_notifications(&self) {
        self.memory.control()[READER_SLEEPS].store(0, Relaxed);
    }
}

/// Writes bytes at a place. A partly written word keeps its other bytes: only the writer changes words, so no update is
/// lost.
fn copy_in<C: Cell>(data: &[C], place: usize, bytes: &[u8]) {
    let (first, bytes) = bytes.split_at(unaligned_len(place, bytes.len()));
    write_partial_word(data, place, first);
    let start = (place + first.len()) / WORD;
    let (words, rest) = bytes.as_chunks::<WORD>();
    for (cell, word) in data[start..][..words.len()].iter().zip(words) {
        cell.store(u64::from_ne_bytes(*word), Relaxed);
    }
    write_partial_word(data, (start + words.len()) * WORD, rest);
}

/// Writes bytes into one word.
fn write_partial_word<C: Cell>(data: &[C], place: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let cell = &data[place / WORD];
    let mut word = cell.load(Relaxed).to_ne_bytes();
    word[place % WORD..][..bytes.len()].copy_from_slice(bytes);
    cell.store(u64::from_ne_bytes(word), Relaxed);
}

/// Reads bytes from a place.
fn copy_out<C: Cell>(data: &[C], place: usize, into: &mut [u8]) {
    let (first, into) = into.split_at_mut(unaligned_len(place, into.len()));
    read_partial_word(data, place, first);
    let start = (place + first.len()) / WORD;
    let (words, rest) = into.as_chunks_mut::<WORD>();
    for (cell, word) in data[start..][..words.len()].iter().zip(words.iter_mut()) {
        *word = cell.load(Relaxed).to_ne_bytes();
    }
    read_partial_word(data, (start + words.len()) * WORD, rest);
}

/// Reads bytes of one word.
fn read_partial_word<C: Cell>(data: &[C], place: usize, into: &mut [u8]) {
    if into.is_empty() {
        return;
    }
    let word = data[place / WORD].load(Relaxed).to_ne_bytes();
    into.copy_from_slice(&word[place % WORD..][..into.len()]);
}

/// How many of `bytes` bytes at a place precede the next whole word.
fn unaligned_len(place: usize, bytes: usize) -> usize {
    (place.wrapping_neg() % WORD).min(bytes)
}

#[cfg(test)]
mod tests;
