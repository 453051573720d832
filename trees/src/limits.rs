//! Limits of the depth and fan-out of trees, and the measured values.

/// Maximum number of levels below a root: a level is sent in 16 bits.
pub const MAX_DEPTH: u32 = 65_535;

/// Maximum number of children of one id: a flat tree over a million ids is possible. The groups of one split then take
/// 8 MiB, the largest allocation of a split.
pub const MAX_FAN_OUT: u32 = 1 << 20;

/// Maximum number of positions of an explicit tree: each takes 4 bytes, in memory and on the wire, 64 MiB in all.
pub const MAX_POSITIONS: u32 = 1 << 24;

/// Limits of a tree's depth and fan-out. A limit over [`MAX_DEPTH`] or [`MAX_FAN_OUT`] is lowered to that bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of levels below the root.
    pub depth: u32,
    /// Maximum number of children of one id.
    pub fan_out: u32,
}

impl Limits {
    /// Returns the limits, lowered to the bounds of the crate.
    pub(crate) fn bounded(&self) -> Limits {
        Limits { depth: self.depth.min(MAX_DEPTH), fan_out: self.fan_out.min(MAX_FAN_OUT) }
    }
}

impl Default for Limits {
    /// The widest limits: [`MAX_DEPTH`] and [`MAX_FAN_OUT`].
    fn default() -> Limits {
        Limits { depth: MAX_DEPTH, fan_out: MAX_FAN_OUT }
    }
}

/// Depth and fan-out of a checked tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of levels below the root; 0 for a single id.
    pub depth: u32,
    /// Largest number of children of one id.
    pub fan_out: u32,
}
