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
    Act(Fault),
    /// A process that waits for a link reconnects; a member claims to be that process; the key of a process is listed
    /// at another one.
    Anew(usize, Id),
    Usurp {
        process: usize,
        later: usize,
    },
    ListOld {
        process: usize,
        of: usize,
    },
    /// One more run of an id connects while another run waits; the process with the link removes the id; the attacker
    /// connects.
    Third {
        process: usize,
        later: usize,
    },
    Forgets(usize, Id),
    Attack(usize, Box<Member>),
    /// A process begins with an id; a peer is added again.
    Begin {
        id: Id,
        lower: bool,
    },
    Learn(Id, Id),
    /// All faults are over.
    Calm,
    Round(u32),
    Judge,
}
