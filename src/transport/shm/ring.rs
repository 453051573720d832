//! A ring of bytes with one writer and one reader, and how each of them may sleep until the other rings.
//!
//! The memory is words that are read and written as a whole, so that nothing here is undefined whatever the other side
//! does meanwhile. Indices count bytes since the link began and never wrap. The writer owns `produced` and `base`, the
//! reader `consumed`; each keeps its own indices to itself and only publishes them.
//!
//! Before a side sleeps it says so, and looks once more; after a side has published something it looks whether the
//! other one sleeps, and then rings. Between the two steps stands a fence on either side, so that at least one of them
//! sees what the other one has done. Must never trust an index, spin, allocate or call the system.

use std::io::IoSlice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a ring beside its bytes.
pub(super) const CONTROL: usize = 64;

/// Each word that somebody writes often has two cache lines to itself: processors fetch them in pairs.
const PRODUCED: usize = 0;
/// Where in the count of bytes the ring's first byte stands now; the writer changes it while the ring is empty. Read
/// together with `PRODUCED`.
const BASE: usize = 1;
const CONSUMED: usize = 16;
const READER_SLEEPS: usize = 32;
const WRITER_WAITS: usize = 48;

/// Bytes of a word.
const WORD: usize = 8;

/// From how many bytes on a writer begins at the start again when all have been read: small messages then use one or
/// two pages, however many there are, and not all that the ring has.
const REWIND: u64 = 4096;

/// A word that two processes share.
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
    /// The bytes, a power of two of words.
    fn data(&self) -> &[Self::Cell];
}

/// The other side has written into the ring's indices what cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the peer broke the shared ring: {produced} bytes written and {consumed} read do not fit one of {capacity}"
)]
pub(super) struct Broken {
    produced: u64,
    consumed: u64,
    capacity: u64,
}

/// What both sides do alike.
fn capacity<M: Memory>(memory: &M) -> u64 {
    (memory.data().len() * WORD) as u64
}

/// Most bytes that go in or out at once: the other side works on one part while this one copies the next.
fn step<M: Memory>(memory: &M) -> usize {
    memory.data().len() * WORD / 2
}

/// The bytes between two indices, if the ring can hold them.
fn between<M: Memory>(memory: &M, consumed: u64, produced: u64) -> Result<u64, Broken> {
    let (bytes, capacity) = (produced.wrapping_sub(consumed), capacity(memory));
    if bytes > capacity { Err(Broken { produced, consumed, capacity }) } else { Ok(bytes) }
}

/// Takes a flag down; says whether it was up.
fn take<C: Cell>(flag: &C) -> bool {
    C::fence();
    // Mostly it is down, and reading leaves the word in both caches.
    flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Writer<M> {
    memory: M,
    produced: u64,
    base: u64,
    /// As last seen.
    consumed: u64,
    /// Whether it found no room, and has not written since.
    waits: bool,
}

impl<M: Memory> Writer<M> {
    /// The writing end of a ring in which nothing has been written.
    pub(super) fn new(memory: M) -> Writer<M> {
        Writer { memory, produced: 0, base: 0, consumed: 0, waits: false }
    }

    /// Copies the first bytes of some parts into the ring, as many as there is room for; how many. With none, the
    /// reader rings when it has made room.
    ///
    /// # Errors
    /// When the reader has broken the ring.
    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Broken> {
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().min(step(&self.memory));
        if wanted == 0 {
            return Ok(0);
        }
        let mut room = self.room(wanted)?;
        if room == 0 {
            self.waits = true;
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

    /// Whether the reader sleeps and must be rung, now that something was written. True once for each of its sleeps.
    pub(super) fn must_ring(&self) -> bool {
        take(&self.memory.control()[READER_SLEEPS])
    }

    /// Whether there is room again for one who found none.
    pub(super) fn has_room_again(&self) -> bool {
        self.waits && self.memory.control()[CONSUMED].load(Relaxed) != self.consumed
    }

    /// How many bytes the reader says to have read.
    ///
    /// # Errors
    /// When they are more than were written.
    pub(super) fn read_by_now(&mut self) -> Result<u64, Broken> {
        let consumed = self.memory.control()[CONSUMED].load(Acquire);
        between(&self.memory, consumed, self.produced)?;
        self.consumed = consumed;
        Ok(consumed)
    }

    /// The same, and has the reader ring when it has read more, though there may be room.
    ///
    /// # Errors
    /// As for [`read_by_now`](Self::read_by_now).
    pub(super) fn wait_for_reader(&mut self) -> Result<u64, Broken> {
        self.waits = true;
        self.memory.control()[WRITER_WAITS].store(1, Relaxed);
        M::Cell::fence();
        self.read_by_now()
    }

    /// Waits no more: it has nothing to write.
    pub(super) fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.memory.control()[WRITER_WAITS].store(0, Relaxed);
        }
    }

    /// How many bytes were written.
    pub(super) fn produced(&self) -> u64 {
        self.produced
    }

    /// How much room there is, looking at the other side only if it seems too little, or if the ring may begin anew.
    fn room(&mut self, wanted: usize) -> Result<usize, Broken> {
        let capacity = capacity(&self.memory);
        let far = self.produced - self.base >= REWIND.min(capacity / 4);
        if far || capacity - (self.produced - self.consumed) < wanted as u64 {
            self.read_by_now()?;
        }
        if far && self.consumed == self.produced {
            // The reader has nothing to read, so it asks for the base after the next `produced`.
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
    /// As last seen.
    produced: u64,
}

impl<M: Memory> Reader<M> {
    /// The reading end of a ring from which nothing has been read.
    pub(super) fn new(memory: M) -> Reader<M> {
        Reader { memory, consumed: 0, produced: 0 }
    }

    /// Copies the next bytes out of the ring; how many.
    ///
    /// # Errors
    /// When the writer has broken the ring.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let produced = self.memory.control()[PRODUCED].load(Acquire);
        let there = between(&self.memory, self.consumed, produced)?;
        self.produced = produced;
        let count = (there as usize).min(into.len()).min(step(&self.memory));
        if count == 0 {
            return Ok(0);
        }
        let data = self.memory.data();
        let length = data.len() * WORD;
        // Whatever stands there, the place is one of the ring's.
        let base = self.memory.control()[BASE].load(Relaxed);
        let place = self.consumed.wrapping_sub(base) as usize & (length - 1);
        let (first, second) = into[..count].split_at_mut(count.min(length - place));
        copy_out(data, place, first);
        copy_out(data, 0, second);
        self.consumed += count as u64;
        self.memory.control()[CONSUMED].store(self.consumed, Release);
        Ok(count)
    }

    /// Whether the writer waits for room and must be rung, now that something was read: not before half the ring is
    /// free, so that it does not wake for every few bytes. A writer waits only at a full ring, and who reads reads on
    /// until half is free.
    pub(super) fn must_ring(&self) -> bool {
        let half = capacity(&self.memory) / 2;
        self.produced - self.consumed <= half && take(&self.memory.control()[WRITER_WAITS])
    }

    /// Whether there is something to read, or a lie to be found.
    pub(super) fn has_bytes(&self) -> bool {
        self.memory.control()[PRODUCED].load(Relaxed) != self.consumed
    }

    /// Says that it sleeps: what is written from here on rings. What came before it has to look for once more, behind a
    /// [fence](Cell::fence).
    pub(super) fn sleep(&self) {
        self.memory.control()[READER_SLEEPS].store(1, Relaxed);
    }

    /// Says that it looks by itself.
    pub(super) fn wake(&self) {
        self.memory.control()[READER_SLEEPS].store(0, Relaxed);
    }
}

/// Writes bytes at a place. Words that are written in part keep their other bytes: only the writer changes words, so
/// nobody else's are lost.
fn copy_in<C: Cell>(data: &[C], place: usize, bytes: &[u8]) {
    let (lead, bytes) = bytes.split_at(lead(place, bytes.len()));
    merge(data, place, lead);
    let start = (place + lead.len()) / WORD;
    let (words, rest) = bytes.as_chunks::<WORD>();
    for (cell, word) in data[start..][..words.len()].iter().zip(words) {
        cell.store(u64::from_ne_bytes(*word), Relaxed);
    }
    merge(data, (start + words.len()) * WORD, rest);
}

/// Writes bytes into one word.
fn merge<C: Cell>(data: &[C], place: usize, bytes: &[u8]) {
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
    let (lead, into) = into.split_at_mut(lead(place, into.len()));
    pick(data, place, lead);
    let start = (place + lead.len()) / WORD;
    let (words, rest) = into.as_chunks_mut::<WORD>();
    for (cell, word) in data[start..][..words.len()].iter().zip(words.iter_mut()) {
        *word = cell.load(Relaxed).to_ne_bytes();
    }
    pick(data, (start + words.len()) * WORD, rest);
}

/// Reads bytes of one word.
fn pick<C: Cell>(data: &[C], place: usize, into: &mut [u8]) {
    if into.is_empty() {
        return;
    }
    let word = data[place / WORD].load(Relaxed).to_ne_bytes();
    into.copy_from_slice(&word[place % WORD..][..into.len()]);
}

/// How many of so many bytes at a place stand before its next whole word.
fn lead(place: usize, bytes: usize) -> usize {
    (place.wrapping_neg() % WORD).min(bytes)
}

#[cfg(test)]
mod tests;
