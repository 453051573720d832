//! How much a node remembers of what may come again, and does at one moment, at most. Beyond a size it goes on as well, by a longer way: no promise depends on one.

/// The sizes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Roots whose ended calls are remembered as bits: those of a large machine that all call at once. Half a KiB for each.
    pub windows: u16,
    /// Plans that are kept, one where there are to be none: for each root that calls over the same group one, on a large machine.
    pub plans: u16,
    /// Most descendants of suspects that are asked at a time, one where there are to be none: a link each, of which none may have been needed before.
    pub descendants: u16,
    /// Children of peers' requests that are asked at one moment, one at least. Some milliseconds of work.
    pub work: u16,
    /// Children of a request of a peer that are asked at once, one at least; the others after what else has come.
    pub batch: u16,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { windows: 64, plans: 64, descendants: 64, work: 4096, batch: 64 }
    }
}
