//! Scheduled events of a world of peers.

use gpc_trees::Id;

use super::fault::Fault;
use super::member::Member;

/// A millisecond.
pub(super) const MS: u64 = 1_000_000;

/// A scheduled event.
#[derive(Debug)]
pub(super) enum Event {
    /// A chunk of a connection arrives.
    Deliver {
        pipe: usize,
        /// The sending side.
        side: usize,
    },
    /// A deadline of a process.
    Tick(usize),
    /// A process wants a link to a peer.
    Want(usize, Id),
    /// The same for the current process of an id, repeatedly.
    Wants(Id, Id),
    /// A fault happens.
    Act(Fault),
    /// A process that waits for a link reconnects.
    Anew(usize, Id),
    /// A member claims to be a process that waits for a link.
    Usurp { process: usize, later: usize },
    /// The key of a process is listed at another one.
    ListOld { process: usize, of: usize },
    /// One more run of an id connects while another run waits.
    Third { process: usize, later: usize },
    /// The process with the link removes the id.
    Forgets(usize, Id),
    /// The attacker connects.
    Attack(usize, Box<Member>),
    /// A process begins with an id.
    Begin { id: Id, lower: bool },
    /// A peer is added again.
    Learn(Id, Id),
    /// All faults are over.
    Calm,
    /// After the faults: the wanted links are requested once more.
    Round(u32),
    /// The checkers judge the world at rest.
    Judge,
}
