//! Ordered sets with access by rank: a world draws an id that is up, or a link, without making a list of a million.

use gpc_trees::Id;

/// Bits of a word.
const WORD: usize = 64;

/// Words that share a count.
const COUNTED: usize = 64;

/// Largest number of keys in a block; a larger block is split.
const BLOCK_MAX: usize = 1024;

/// A set of ids as bits, with a count for every 4,096 ids.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct IdSet {
    words: Vec<u64>,
    counts: Vec<u32>,
    len: u32,
}

impl IdSet {
    /// Makes the set of the ids below `n`.
    pub(crate) fn below(n: u32) -> IdSet {
        (0..n).collect()
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn contains(&self, id: Id) -> bool {
        self.words.get(id as usize / WORD).is_some_and(|word| word >> (id as usize % WORD) & 1 == 1)
    }

    /// Adds an id; memory grows with the highest id.
    pub(crate) fn insert(&mut self, id: Id) {
        let word = id as usize / WORD;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.counts.resize(word / COUNTED + 1, 0);
        }
        let new = u32::from(!self.contains(id));
        self.words[word] |= 1 << (id as usize % WORD);
        self.counts[word / COUNTED] += new;
        self.len += new;
    }

    pub(crate) fn remove(&mut self, id: Id) {
        if self.contains(id) {
            let word = id as usize / WORD;
            self.words[word] &= !(1 << (id as usize % WORD));
            self.counts[word / COUNTED] -= 1;
            self.len -= 1;
        }
    }

    /// Number of members below an id.
    fn before(&self, id: Id) -> u32 {
        let word = id as usize / WORD;
        let counted: u32 = self.counts.iter().take(word / COUNTED).sum();
        let words = self.words.iter().take(word).skip(word / COUNTED * COUNTED);
        let last = self.words.get(word).map_or(0, |bits| bits & ((1 << (id as usize % WORD)) - 1));
        counted + words.map(|word| word.count_ones()).sum::<u32>() + last.count_ones()
    }

    /// Returns the id at a rank, from 0, in ascending order.
    pub(crate) fn at(&self, mut place: u32) -> Option<Id> {
        let block = self.counts.iter().position(|&count| {
            let here = place < count;
            place -= if here { 0 } else { count };
            here
        })?;
        for (index, &bits) in self.words.iter().enumerate().skip(block * COUNTED) {
            let count = bits.count_ones();
            if place < count {
                let rest = (0..place).fold(bits, |rest, _| rest & (rest - 1));
                return Some((index * WORD) as Id + rest.trailing_zeros());
            }
            place -= count;
        }
        None
    }

    /// The same, in the set without up to two ids.
    pub(crate) fn at_without(&self, mut place: u32, without: [Id; 2]) -> Option<Id> {
        let [one, two] = without.map(|id| self.contains(id).then(|| self.before(id)));
        let mut skipped = [one, two.filter(|_| one != two)];
        skipped.sort_unstable();
        for before in skipped.into_iter().flatten() {
            place += u32::from(place >= before);
        }
        self.at(place)
    }
}

impl FromIterator<Id> for IdSet {
    fn from_iter<I: IntoIterator<Item = Id>>(ids: I) -> IdSet {
        let mut set = IdSet::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// A set of keys in blocks of at most 1,024: access by rank takes a step for each block.
#[derive(Default, Debug)]
pub(crate) struct Sorted<K> {
    /// No block is empty.
    blocks: Vec<Vec<K>>,
    len: usize,
}

impl<K: Ord + Copy> Sorted<K> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The block for a key.
    fn block(&self, key: &K) -> usize {
        self.blocks.partition_point(|block| block.first().is_some_and(|first| first <= key)).saturating_sub(1)
    }

    pub(crate) fn insert(&mut self, key: K) {
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let index = self.block(&key);
        let block = &mut self.blocks[index];
        let Err(place) = block.binary_search(&key) else { return };
        block.insert(place, key);
        self.len += 1;
        if block.len() > BLOCK_MAX {
            let upper = block.split_off(BLOCK_MAX / 2);
            self.blocks.insert(index + 1, upper);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let index = self.block(key);
        let Some(block) = self.blocks.get_mut(index) else { return };
        let Ok(place) = block.binary_search(key) else { return };
        block.remove(place);
        self.len -= 1;
        if block.is_empty() {
            self.blocks.remove(index);
        }
    }

    /// Returns the key at a rank, from 0, in ascending order.
    pub(crate) fn at(&self, mut place: usize) -> Option<K> {
        for block in &self.blocks {
            if place < block.len() {
                return block.get(place).copied();
            }
            place -= block.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_ids_is_a_sorted_list(
            deeds in proptest::collection::vec((any::<bool>(), 0u32..9000), 0..300), without in [0u32..9000, 0u32..9000],
        ) {
            let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
            for &(there, id) in &deeds {
                if there { set.insert(id) } else { set.remove(id) }
                if there { model.insert(id) } else { model.remove(&id) };
            }
            let list: Vec<Id> = model.iter().copied().collect();
            let ids = || (0..set.len() + 2).map(|place| set.at(place));
            prop_assert!(ids().eq(list.iter().copied().map(Some).chain([None, None])));
            prop_assert!((0..9000).all(|id| set.contains(id) == model.contains(&id)));
            let without = [without[0], deeds.first().map_or(without[1], |(_, id)| *id)];
            let left: Vec<Id> = list.into_iter().filter(|id| !without.contains(id)).collect();
            for place in 0..left.len() + 2 {
                prop_assert_eq!(set.at_without(place as u32, without), left.get(place).copied());
            }
        }

        #[test]
        fn sorted_keys_are_a_sorted_list(deeds in proptest::collection::vec((0u8..4, 0u16..3000), 0..6000)) {
            let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
            for (deed, key) in deeds {
                if deed > 0 { sorted.insert(key) } else { sorted.remove(&key) }
                if deed > 0 { model.insert(key) } else { model.remove(&key) };
            }
            prop_assert_eq!(sorted.len(), model.len());
            let keys = (0..=model.len()).map(|place| sorted.at(place));
            prop_assert!(keys.eq(model.iter().copied().map(Some).chain([None])));
            prop_assert!(sorted.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_MAX));
        }
    }
}
