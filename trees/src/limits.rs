//! How deep and wide a tree may be, and is.

/// The most levels that can be below a root: a level is carried in 16 bits.
pub const MAX_DEPTH: u32 = 65_535;

/// The most children of one id: a flat tree reaches a million ids; the groups of one split take 8 MiB then,
/// which is the most that a split allocates.
pub const MAX_FAN_OUT: u32 = 1 << 20;

/// The most positions of an explicit tree: it takes 4 bytes each, here and on the wire, 64 MiB in all.
pub const MAX_POSITIONS: u32 = 1 << 24;

/// How deep and how wide a tree may be. A limit over [`MAX_DEPTH`] or [`MAX_FAN_OUT`] stands for that bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most levels below the root.
    pub depth: u32,
    /// The most children of one id.
    pub fan_out: u32,
}

impl Limits {
    /// The limits with the bounds of the crate applied.
    pub(crate) fn bounded(&self) -> Limits {
        Limits { depth: self.depth.min(MAX_DEPTH), fan_out: self.fan_out.min(MAX_FAN_OUT) }
    }
}

impl Default for Limits {
    /// The widest limits there are: [`MAX_DEPTH`] and [`MAX_FAN_OUT`].
    fn default() -> Limits {
        Limits { depth: MAX_DEPTH, fan_out: MAX_FAN_OUT }
    }
}

/// What a check found out about a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Levels below the root: the longest way down. 0 for a single id.
    pub depth: u32,
    /// The most children of one id.
    pub fan_out: u32,
}
