//! Faults that can happen in a world of peers.

use crate::Random;
use crate::worlds::faults;

faults! {
    /// A process ends, with its connections. Another one begins later.
    Crash = "crash",
    /// A host is gone: its connections do not end. Another process begins later.
    Vanish = "vanish",
    /// A process ends, and another one begins at once.
    Restart = "restart",
    /// The same, with a clock that was set back.
    Rewind = "rewind",
    /// A process pauses.
    Pause = "pause",
    /// Two ids do not reach each other for a while.
    Cut = "cut",
    /// A connection is slow from now on.
    Slow = "slow",
    /// A connection breaks.
    Reset = "reset",
    /// Two processes connect to each other at the same time.
    Cross = "cross",
    /// A peer is removed from a process, and added again at once or later.
    Forget = "forget",
    /// A process gives up a peer.
    Abandon = "abandon",
    /// A key is listed for an id.
    List = "list",
    /// A second process begins with the id of another, and with the same key if that is listed.
    Twin = "twin",
    /// A member claims another member's id, with a key of its own.
    Liar = "liar",
    /// A second process begins with the id of another, and accepts links in clear.
    Lax = "lax",
    /// A member proves one id, and its hello claims another.
    Claim = "claim",
    /// A process with another secret, no secret, or another job takes part.
    Stranger = "stranger",
    /// A member that violates the protocol answers the next connection; without proofs, any process can do so.
    Answer = "answer",
    /// A host is gone, and another run of its id waits for the link. Meanwhile that run reconnects, a member claims to
    /// be it, or a key is listed.
    Wait = "wait",
    /// So many runs of ids wait for links that some are refused.
    Crowd = "crowd",
    /// A thousand peers are added and removed.
    Names = "names",
    /// A process has no room for ids that are not peers.
    Full = "full",
    /// The connection that has waited longest for a hello makes room.
    Room = "room",
    /// The next connection cannot be opened: there is no descriptor for it.
    NoDescriptor = "no-descriptor",
    /// A connection arrives and stays silent.
    HalfOpen = "half-open",
    /// Thousands of connections arrive from one address and stay silent.
    Flood = "flood",
    /// A connection carries bytes that are not a message, or not a valid one.
    Forge = "forge",
    /// The recorded bytes of one side of a connection arrive at some process again.
    Replay = "replay",
    /// A process's own bytes are sent back to it.
    Reflect = "reflect",
    /// The next connection is redirected to another process, to recorded bytes, or to itself.
    Redirect = "redirect",
    /// Bytes of a connection are changed, inserted or dropped.
    Tamper = "tamper",
    /// The preamble of the next connection is changed to no encryption or another version.
    Downgrade = "downgrade",
}

impl Fault {
    pub(super) fn draw(random: &mut Random) -> Fault {
        // Many situations arise while a run waits for a link.
        if random.chance(1, 10) {
            return Fault::Wait;
        }
        let fault = random.pick(&Fault::ALL).copied().unwrap_or(Fault::Crash);
        // These are rare because they are slow: a flood takes as long as a hundred other faults.
        let (one_of, other) = match fault {
            Fault::Flood => (20, Fault::HalfOpen),
            Fault::Crowd => (10, Fault::Wait),
            Fault::Names => (5, Fault::Forget),
            _ => return fault,
        };
        if random.chance(1, one_of) { fault } else { other }
    }

    /// Whether it is an attack, against which a job without a secret has no defence.
    pub(super) fn is_attack(self) -> bool {
        use Fault::{Claim, Crowd, Downgrade, Forge, Lax, Liar, Redirect, Reflect, Replay, Tamper};
        matches!(self, Claim | Crowd | Lax | Liar | Forge | Replay | Reflect | Redirect | Tamper | Downgrade)
    }
}
