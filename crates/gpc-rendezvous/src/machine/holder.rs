//! Registrants and controlling tasks, and how the service tracks their liveness.

use chained_gpc::Id;

/// How the liveness of a registrant or controlling task is tracked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Life {
    /// Not tracked: it stays until it leaves by itself.
    #[default]
    Unseen,
    /// By a lease of this length, milliseconds: it waits, or sends a request with its token at least this often.
    Lease(u64),
    /// By the link between the node with this id and the service's node.
    Member(Id),
}

/// The unit of a controlling task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// The unit whose resource this is.
    Own,
    /// The unit that will register with this rank.
    Rank(u32),
}

/// A registrant or controlling task whose liveness is tracked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Holder {
    /// The registrant with this rank.
    Registrant(u32),
    /// The controlling task of this unit.
    Controller(Unit),
}

/// The lease of a `Life`: the part that is stored and survives a restart.
pub(super) fn lease_of(life: Life) -> Option<u64> {
    match life {
        Life::Lease(length) => Some(length),
        Life::Unseen | Life::Member(_) => None,
    }
}
