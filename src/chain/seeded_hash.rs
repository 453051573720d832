//! A hash for names that peers choose: a few multiplications with a secret seed, so that peers cannot construct
//! collisions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

/// A map whose order depends only on its seed and its operations.
pub(crate) type SeededMap<K, V> = HashMap<K, V, Seeded>;

/// A set of the same kind.
pub(super) type SeededSet<K> = HashSet<K, Seeded>;

/// Builds hashers with one seed. The same seed gives the same hashes everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded {
    key: u64,
    factor: u64,
}

/// Hashes a few numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededHasher {
    state: u64,
    factor: u64,
}

/// 2^64 divided by the golden ratio, odd: spreads similar seeds.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        let key = fold(seed ^ SPREAD, SPREAD);
        // A factor with few bits would spread poorly; the lowest bit keeps it from being zero.
        Seeded { key, factor: fold(key, SPREAD) ^ SPREAD | 1 }
    }
}

impl BuildHasher for Seeded {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { state: self.key, factor: self.factor }
    }
}

/// Combines both halves of a product: every bit of either number changes about half of the result's bits.
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.state = fold(self.state ^ number, self.factor);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::CallId;

    #[test]
    fn consecutive_names_of_many_roots_find_places_of_their_own() {
        for seed in 0..8 {
            let seeded = Seeded::new(seed);
            let calls = (0..64).flat_map(|root| (0..64).map(move |sequence| CallId { root, sequence }));
            let places: BTreeSet<u64> = calls.map(|call| seeded.hash_one(call) % (1 << 12)).collect();
            assert!(places.len() > (1 << 12) / 2, "{} places with seed {seed}", places.len());
        }
    }

    /// Names that collide under one seed do not collide under another.
    #[test]
    fn nobody_can_choose_names_that_meet() {
        let place = |seed, sequence| Seeded::new(seed).hash_one(CallId { root: 1, sequence }) % 64;
        let met: Vec<u64> = (0..20_000).filter(|&sequence| place(7, sequence) == 0).take(200).collect();
        let places: BTreeSet<u64> = met.iter().map(|&sequence| place(8, sequence)).collect();
        assert!(met.len() == 200 && places.len() > 40, "{} places", places.len());
    }
}
