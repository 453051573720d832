//! A fast hash for keys that no peer chooses, such as the keys of links: one multiplication instead of a keyed hash for
//! every message.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes one number. Never use it for a number that a peer may choose: an attacker can make any two numbers collide.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct QuickHasher(u64);

/// For tables whose keys are this process's own numbers.
pub(super) type QuickHash = BuildHasherDefault<QuickHasher>;

/// 2^64 divided by the golden ratio, odd: consecutive numbers are spread over all high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // Hash tables take the low bits for the index and the high ones for the tag.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn consecutive_numbers_find_places_of_their_own() {
        let hash = |number: usize| QuickHash::default().hash_one(number);
        for bits in [4, 8, 12] {
            let places: BTreeSet<u64> = (16..16 + (1 << bits)).map(|key| hash(key) % (1 << bits)).collect();
            assert!(places.len() > (1 << bits) / 2, "{} places for {} keys", places.len(), 1 << bits);
        }
        assert_ne!(hash(1), QuickHash::default().hash_one(1u8 as usize + 1));
    }
}
