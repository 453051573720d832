//! What is due when, in the order of time, for a million things at once.
//!
//! Those due next stand in order. All others lie in buckets by the highest digit in which their time differs from where the order ends, and by what that digit is: as a clock comes to a bucket, its things move to lower ones, in the order in which they lie, until few enough are left to be put in order.
//! So nothing is looked up in memory that is far apart, as in a heap, and what comes next is known some events ahead.

use std::collections::VecDeque;

/// A thing that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub(super) time: u64,
    /// At one time things come in the order in which they were arranged: how many were before it, and behind that its name, in [`NAME_BITS`]. More would not fit into any memory, or end in any time.
    order: u64,
}

/// Bits of a thing's name.
const NAME_BITS: u32 = 28;

impl Entry {
    /// The thing that is the `sequence`th to be arranged; `what` is its name for whoever arranged it.
    pub(super) fn new(time: u64, sequence: u64, what: u32) -> Entry {
        assert!(what >> NAME_BITS == 0 && sequence >> (u64::BITS - NAME_BITS) == 0, "no world is as large");
        Entry { time, order: sequence << NAME_BITS | u64::from(what) }
    }

    pub(super) fn what(self) -> u32 {
        (self.order & ((1 << NAME_BITS) - 1)) as u32
    }
}

/// So many are put in order at a time.
const IN_ORDER: usize = 64;

/// A bucket grows by so many: a vector of a million that grows takes three times its room for a while.
const CHUNK: usize = 1024;

/// Chunks that are kept for the next bucket.
const SPARE: usize = 64;

/// Bits of a digit of a time; as many digits as a time has; what each can be.
const DIGIT: u32 = 4;
const DIGITS: u32 = u64::BITS.div_ceil(DIGIT);
const VALUES: u32 = 1 << DIGIT;

/// Buckets: one for what is due exactly where the order ends, and behind it one for each value of each digit, the lowest first.
const BUCKETS: u32 = 1 + DIGITS * VALUES;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Upcoming {
    /// Everything that is due before `end`.
    first: VecDeque<Entry>,
    end: u64,
    /// Where the last bucket that was emptied began: what is not in order differs from it first in the digit of its bucket.
    from: u64,
    buckets: Vec<Bucket>,
    /// Which buckets have anything, a bit for each, the lowest first.
    filled: [u64; BUCKETS.div_ceil(u64::BITS) as usize],
    spare: Vec<Chunk>,
    len: usize,
}

/// In the order in which they came, as many as fit into each but the last; fewer where some were dropped.
type Bucket = Vec<Chunk>;
type Chunk = Vec<Entry>;

impl Upcoming {
    pub(super) fn new() -> Upcoming {
        let buckets = vec![Bucket::new(); BUCKETS as usize];
        let filled = [0; BUCKETS.div_ceil(u64::BITS) as usize];
        Upcoming { first: VecDeque::new(), end: 0, from: 0, buckets, filled, spare: Vec::new(), len: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a thing that was arranged after all others.
    pub(super) fn push(&mut self, entry: Entry) {
        self.len += 1;
        if entry.time < self.end {
            let place = self.first.partition_point(|other| other.time <= entry.time);
            self.first.insert(place, entry);
            return self.end_sooner();
        }
        self.put_into_bucket(entry);
    }

    /// Where more stand in order than were put there at a time, all but those go back into buckets: what comes between them would take longer and longer.
    fn end_sooner(&mut self) {
        if self.first.len() <= 2 * IN_ORDER {
            return;
        }
        let ends = |time| move |entry: &Entry| entry.time < time;
        let mut place = self.first.partition_point(ends(self.first[IN_ORDER].time));
        if place == 0 {
            // As many as are due at one time.
            place = self.first.partition_point(ends(self.first[0].time.saturating_add(1)));
        }
        if self.first.get(place).map(|entry| entry.time) == self.first.back().map(|entry| entry.time) {
            // Nothing comes between those that are due at one time, be they a million.
            return;
        }
        // What comes before the bucket began lies in none.
        place = place.max(self.first.partition_point(ends(self.from)));
        self.end = self.first[place - 1].time.saturating_add(1).max(self.from);
        while let Some(entry) = self.first.get(place).copied() {
            self.put_into_bucket(entry);
            place += 1;
        }
        let end = self.end;
        self.first.truncate(self.first.partition_point(ends(end)));
    }

    fn bucket_of(&self, time: u64) -> usize {
        match (time ^ self.from).checked_ilog2() {
            None => 0,
            Some(bit) => {
                let digit = bit / DIGIT;
                let value = (time >> (digit * DIGIT)) as u32 % VALUES;
                (1 + digit * VALUES + value) as usize
            }
        }
    }

    #[inline]
    fn put_into_bucket(&mut self, entry: Entry) {
        let bucket = self.bucket_of(entry.time);
        self.filled[bucket / u64::BITS as usize] |= 1 << (bucket % u64::BITS as usize);
        let chunks = &mut self.buckets[bucket];
        match chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(entry),
            None => {
                let mut chunk = self.spare.pop().unwrap_or_default();
                chunk.push(entry);
                chunks.push(chunk);
            }
        }
    }

    /// What is due first.
    #[inline]
    pub(super) fn first(&mut self) -> Option<Entry> {
        if self.first.is_empty() && self.len > 0 {
            self.put_in_order();
        }
        self.first.front().copied()
    }

    /// Takes it out.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let entry = self.first()?;
        self.first.pop_front();
        self.len -= 1;
        Some(entry)
    }

    /// What is due behind so many others, if that is known already.
    pub(super) fn at_place(&self, place: usize) -> Option<Entry> {
        self.first.get(place).copied()
    }

    /// Drops what does not stay.
    pub(super) fn retain(&mut self, stays: impl Fn(Entry) -> bool) {
        self.first.retain(|entry| stays(*entry));
        self.len = self.first.len();
        for (place, bucket) in self.buckets.iter_mut().enumerate() {
            bucket.iter_mut().for_each(|chunk| chunk.retain(|entry| stays(*entry)));
            bucket.retain(|chunk| !chunk.is_empty());
            if bucket.is_empty() {
                self.filled[place / u64::BITS as usize] &= !(1 << (place % u64::BITS as usize));
            }
            self.len += bucket.iter().map(Vec::len).sum::<usize>();
        }
    }

    /// The lowest bucket that has anything.
    fn lowest(&self) -> Option<usize> {
        let word = self.filled.iter().position(|bits| *bits != 0)?;
        Some(word * u64::BITS as usize + self.filled[word].trailing_zeros() as usize)
    }

    /// Goes on to the next bucket that has anything, and through those that it is spread over.
    #[inline(never)]
    fn put_in_order(&mut self) {
        // Ends: each round goes to a lower bucket, and the lowest is put in order whatever it has.
        while let Some(bucket) = self.lowest() {
            self.filled[bucket / u64::BITS as usize] &= !(1 << (bucket % u64::BITS as usize));
            let chunks = std::mem::take(&mut self.buckets[bucket]);
            if chunks.len() == 1 && chunks[0].len() <= IN_ORDER {
                let lasts = self.enter(bucket);
                self.end = (self.from | lasts).saturating_add(1);
                return self.order(chunks, true);
            }
            let times = chunks.iter().flatten().map(|entry| entry.time);
            let (least, most) = times.fold((u64::MAX, 0), |(least, most), at| (at.min(least), at.max(most)));
            let Some(bit) = (least ^ most).checked_ilog2() else {
                // What is due at one time lies in the order in which it was arranged.
                (self.from, self.end) = (least, least.saturating_add(1));
                return self.order(chunks, false);
            };
            // Where all have the same digits they go by the first that is not the same, at once.
            self.from = floor(least, bit / DIGIT * DIGIT + DIGIT);
            for mut chunk in chunks {
                chunk.drain(..).for_each(|entry| self.put_into_bucket(entry));
                self.keep(chunk);
            }
        }
    }

    /// What comes next begins where a bucket does; what all that is in it may differ in is returned.
    fn enter(&mut self, bucket: usize) -> u64 {
        let Some(place) = bucket.checked_sub(1) else { return 0 };
        let (digit, value) = (place as u32 / VALUES, place as u64 % u64::from(VALUES));
        let low = digit * DIGIT;
        // Above its digit nothing differs; below it the bucket begins with nothing set.
        self.from = floor(self.from, low + DIGIT) | value << low;
        (1 << low) - 1
    }

    /// What is in these is due next.
    fn order(&mut self, chunks: Bucket, mixed: bool) {
        for mut chunk in chunks {
            if mixed {
                // Stable, for what is due at one time.
                chunk.sort_by_key(|entry| entry.time);
            }
            self.first.extend(chunk.drain(..));
            self.keep(chunk);
        }
    }

    /// Keeps an empty chunk, if there are few.
    fn keep(&mut self, chunk: Chunk) {
        if self.spare.len() < SPARE {
            self.spare.push(chunk);
        }
    }
}

/// A time without its lowest bits, perhaps all of them.
fn floor(time: u64, bits: u32) -> u64 {
    time.checked_shr(bits).and_then(|above| above.checked_shl(bits)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a heap: what is due first comes first, whatever comes in between, in the past, too, or is dropped.
        #[test]
        fn things_come_as_from_a_heap(steps: Vec<Result<(u8, u8), u8>>, dropped in 2u64..9) {
            let (mut upcoming, mut heap) = (Upcoming::new(), BinaryHeap::new());
            let (mut now, mut sequence) = (1_000_000u64, 0);
            for step in steps {
                match step {
                    // Many at a time, since a few are put in order at once.
                    Ok((shift, count)) => for each in 0..u64::from(count) {
                        let later = (each * 7 % 5) << (shift % 40);
                        let entry = Entry::new(now.saturating_sub(9) + later, sequence, 3);
                        sequence += 1;
                        upcoming.push(entry);
                        heap.push(Reverse(entry));
                    },
                    Err(0) => {
                        let stays = |entry: &Entry| !entry.time.is_multiple_of(dropped);
                        upcoming.retain(|entry| stays(&entry));
                        heap.retain(|Reverse(entry)| stays(entry));
                    }
                    Err(count) => for _ in 0..count {
                        let next = heap.pop().map(|Reverse(entry)| entry);
                        prop_assert_eq!(upcoming.pop(), next);
                        prop_assert_eq!(upcoming.is_empty(), heap.is_empty());
                        now = next.map_or(now, |entry: Entry| entry.time);
                    },
                }
            }
            while let Some(Reverse(entry)) = heap.pop() {
                prop_assert_eq!(upcoming.pop(), Some(entry));
            }
            prop_assert_eq!(upcoming.pop(), None);
        }
    }

    #[test]
    fn the_end_of_time_can_be_waited_for() {
        let mut upcoming = Upcoming::new();
        let entry = |time, sequence| Entry::new(time, sequence, 1);
        (0..3).for_each(|sequence| upcoming.push(entry(u64::MAX, sequence)));
        assert_eq!(upcoming.pop(), Some(entry(u64::MAX, 0)));
        upcoming.push(entry(u64::MAX, 3));
        upcoming.push(entry(5, 4));
        assert_eq!(upcoming.pop(), Some(entry(5, 4)));
        assert_eq!(
            [upcoming.pop(), upcoming.pop(), upcoming.pop()],
            [1, 2, 3].map(|it| Some(entry(u64::MAX, it)))
        );
        assert_eq!(upcoming.pop(), None);
    }
}
