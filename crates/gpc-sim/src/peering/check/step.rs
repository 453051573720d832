//! One input of a machine, with its expected and its true outcome.

use gpc_trees::Id;

use super::observation::Input;
use chained_gpc::link::peering::LinkKey;
use chained_gpc::wire::head::GoodbyeReason;

/// One input and its outcome.
#[derive(Default, Debug)]
pub(super) struct Step {
    pub(super) why: Option<Trigger>,
    pub(super) expected: Option<(LinkKey, Expected)>,
    pub(super) closed: Vec<LinkKey>,
    pub(super) finished: Vec<LinkKey>,
    pub(super) up: Vec<LinkKey>,
    pub(super) replaced: Vec<LinkKey>,
    pub(super) lost: Vec<(Id, bool)>,
    pub(super) asked: Vec<Id>,
    pub(super) refused: Vec<LinkKey>,
    /// A connection that has stopped waiting for a link.
    pub(super) was_held: Option<LinkKey>,
    /// Deadline of a link that another run of its id waits for.
    pub(super) until: Option<u64>,
    pub(super) seconds: u64,
}

/// Cause of a step.
#[derive(Clone, Debug)]
pub(super) enum Trigger {
    Accepts(LinkKey, Option<LinkKey>),
    Hears(LinkKey),
    Input(Input),
}

/// Expected outcome of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// The second message.
    Second,
    /// The refusal of a proof.
    Denied,
    /// A refusal without a proof, in clear.
    DeniedInClear,
    /// A GOODBYE with this reason.
    Refused(GoodbyeReason),
    /// The connection becomes the link; a link or an attempt is closed for it.
    Up { replaces: Option<LinkKey>, prefers: Option<LinkKey> },
    /// The connection waits: another waiting one is closed for it, or else the link is asked.
    Held(Option<LinkKey>),
    /// The outgoing connection becomes the link.
    Link,
    /// The outgoing connection fails.
    Fails,
    /// The same, and the other side receives the reason that the job differs.
    FailsOfAnotherJob,
    /// A connection from the peer is expected.
    Waits,
}
