//! State of a process and of the ids that it knows, as the rules derive it from inputs.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use chained_gpc::link::peering::{LinkKey, Proof, PublicKey, Source};
use chained_gpc::wire::Hello;

/// Ids forgotten since: up to the first number the link count of an id is surely kept, above the second surely not.
const FORGOTTEN: [u64; 2] = [1000, 1100];

/// What one process has received and learned.
#[derive(Default, Debug)]
pub(super) struct ProcessState {
    pub(super) book: BTreeMap<Id, Option<PublicKey>>,
    pub(super) peers: BTreeMap<Id, PeerState>,
    pub(super) half_open: BTreeSet<LinkKey>,
    pub(super) sources: BTreeMap<Option<Source>, BTreeSet<LinkKey>>,
    pub(super) full: bool,
    pub(super) proofs: u64,
    pub(super) forgotten: u64,
}

/// What a process knows of an id.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PeerState {
    pub(super) run: u64,
    pub(super) sent: u32,
    /// Bounds on the highest generation that its last run has sent; an id that is not a peer may be forgotten.
    pub(super) received: [u32; 2],
    pub(super) attempt: Option<LinkKey>,
    pub(super) waiting: Option<WaitingConnection>,
    /// Number of ids forgotten before, if it was forgotten.
    pub(super) forgotten: Option<u64>,
    /// Its link count may be forgotten.
    pub(super) vague: bool,
    /// Time until which its own connection is expected.
    pub(super) awaited: Option<u64>,
    /// Its own connection may be expected: the answer that announces it was changed in flight.
    pub(super) perhaps_awaited: bool,
    /// How its link was proved.
    pub(super) proof: Option<Proof>,
}

/// A connection that waits for the link of another run of its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingConnection {
    pub(super) key: LinkKey,
    pub(super) hello: Hello,
    pub(super) until: Option<u64>,
}

impl PeerState {
    /// No connection from this id is expected any more.
    pub(super) fn stop_awaiting(&mut self) {
        (self.awaited, self.perhaps_awaited) = (None, false);
    }

    /// The id has neither a link nor an attempt. If it is not a peer and was never connected to, it may be forgotten.
    pub(super) fn absent(&mut self, is_peer: bool, forgotten: &mut u64) {
        if is_peer || self.attempt.is_some() {
            return;
        }
        if self.sent == 0 {
            self.received[0] = 0;
        } else {
            *forgotten += 1;
            self.forgotten = Some(*forgotten);
        }
    }

    /// A forgotten id is used again, `others` ids later: its link count is known, uncertain or lost.
    pub(super) fn recall(&mut self, others: u64) {
        match self.forgotten.take().map_or(0, |at| others - at) {
            since if since > FORGOTTEN[1] => (self.sent, self.received) = (0, [0; 2]),
            since if since > FORGOTTEN[0] => self.vague = true,
            _ => {}
        }
    }

    pub(super) fn note_received(&mut self, run: u64, generation: u32) {
        if self.run != run {
            (self.run, self.received) = (run, [0; 2]);
        }
        self.received = self.received.map(|received| received.max(generation));
    }
}

impl ProcessState {
    /// Whether a key is listed for an id.
    pub(super) fn lists(&self, id: Id) -> bool {
        self.book.get(&id).is_some_and(Option::is_some)
    }
}
