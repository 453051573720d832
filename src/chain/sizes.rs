//! How much a node remembers of what may come again, at most. Beyond a size it goes on as well, by a longer way: no promise depends on one.

/// The sizes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Roots whose ended calls are remembered as bits: those of a large machine that all call at once. Half a KiB for each.
    pub windows: u16,
    /// Plans that are kept, one where there are to be none: for each root that calls over the same group one, on a large machine.
    pub plans: u16,
    /// Most descendants of suspects that are asked at a time, one where there are to be none: a link each, of which none may have been needed before.
    pub descendants: u16,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { windows: 64, plans: 64, descendants: 64 }
    }
}
