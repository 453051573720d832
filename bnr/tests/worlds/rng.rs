//! The only source of chance: all that a world does follows from its seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `most`, which is not 0.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// One time in so many; never for 0.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        times != 0 && self.below(times) == 0
    }
}
