//! Random number generator of simulated worlds: a seed gives the same numbers on every machine.
//!
//! xoshiro256** seeded through splitmix64 (Blackman and Vigna, in the public domain). Not for secrets.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random([(); 4].map(|()| splitmix(&mut state)))
    }

    /// Returns the next number, of 64 random bits.
    pub fn draw(&mut self) -> u64 {
        let Random(state) = self;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The bias is at most one part in 2^64 / `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        // The upper half of the product is below the bound.
        (wide >> 64) as u64
    }

    /// Returns a number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// Returns true with probability `parts` / `whole`.
    pub fn chance(&mut self, parts: u64, whole: u64) -> bool {
        self.below(whole) < parts
    }

    /// Returns one of the choices, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let place = self.below(choices.len() as u64);
        choices.get(usize::try_from(place).ok()?)
    }

    /// Puts a list into random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream() {
        let (mut one, mut two, mut other) = (Random::new(7), Random::new(7), Random::new(8));
        let first: Vec<u64> = (0..4).map(|_| one.draw()).collect();
        assert_eq!(first, (0..4).map(|_| two.draw()).collect::<Vec<_>>());
        assert_ne!(first[0], other.draw());
        let mut zero = 0;
        assert_eq!(splitmix(&mut zero), 0xe220_a839_7b1d_cdaf, "the published first number of seed 0");
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[random.between(0, 4) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1100).contains(&count)), "{seen:?}");
        assert_eq!((random.below(0), random.below(1), random.between(3, 3)), (0, 0, 3));
        assert!(!random.chance(0, 10) && random.chance(10, 10));
        assert_eq!(random.pick::<u8>(&[]), None);
        let mut list: Vec<u32> = (0..50).collect();
        random.shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
