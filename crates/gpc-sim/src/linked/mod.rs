//! Links made by the peering machine: every process of a world of calls has a [`Peering`], which decides which links
//! and losses its chain learns of.
//!
//! A connection is two ordered streams. Hellos travel as bytes, and messages of calls as parcels in order with them. As
//! in the runtime, the machine decides in three cases. Both ids connect at the same time, an id restarts before the
//! loss of its old link is known, or only one end knows of a loss. Its outputs are carried out as in
//! `runtime::greeting` and `runtime::links`.
//!
//! Faults act on connections. The rest of the world is the same as with modelled links (`faults::links`).

mod announced;
mod arrival;
mod arrivals;
mod check;
mod driver;
mod faults;
mod linking;
mod network;
mod pipe;
#[cfg(test)]
mod stories;

pub use linking::{Linking, LinkingError};
pub(super) use pipe::Step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpc_trees::Id;

use super::check::Violation;
use super::faults::Passage;
use super::random::Random;
use super::ranked::Sorted;
use announced::AnnouncedLinks;
use arrival::Arrival;
use chained_gpc::link::peering::{
    Book, Crypto, Identity, LinkKey, Peering, PublicKey, State, Strictness, Transport,
};
use chained_gpc::wire::{Job, Message};
use pipe::Pipe;

/// Unacknowledged requests that a node accepts; credit is not modelled.
const HIWATER: u32 = 64;

/// Largest world in which some runs authenticate links: the model of the cryptography is slow.
const PROVED_MAX: u32 = 64;

/// A book in which every id is a peer and has no key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Everybody;

impl Book for Everybody {
    fn contains(&self, _: Id) -> bool {
        true
    }

    fn key(&self, _: Id) -> Option<PublicKey> {
        None
    }
}

/// A message that waits for its link or leaves on it.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) message: Message,
    pub(super) bytes: u64,
    /// Whether it is the data of a long reply, whose head was sent before.
    pub(super) data: bool,
    pub(super) origin: Origin,
}

/// Origin of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    ByNode,
    /// Sent by the world in the name of a node.
    Forged,
    /// The same, and its sender has no part in the call.
    Lie,
}

/// Link state of one run of an id.
#[derive(Debug)]
pub(super) struct Process {
    run: u32,
    peering: Peering<Everybody>,
    /// Connections that it knows of, or that wait to be accepted, and that it has not closed.
    open: BTreeSet<LinkKey>,
    /// Messages for links that are not up yet.
    pending: BTreeMap<Id, Vec<OutgoingMessage>>,
    /// Links that were announced to its chain.
    announced: AnnouncedLinks,
    /// Time of the scheduled event for its machine, if there is one.
    due: Option<u64>,
    /// After a pause: time of the events of functions that ended during the pause.
    caught_up: u64,
}

/// Transport between processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ways {
    Network,
    User,
    /// Some pairs of ids use one, some the other.
    Both,
}

/// Settings of all connections of a world.
#[derive(Clone, Copy, Debug)]
struct ConnectionSettings {
    ways: Ways,
    /// The shared secret, if links are authenticated.
    secret: Option<u64>,
}

/// All connections of a world, and the machines at their ends.
#[derive(Debug)]
pub(super) struct Linked {
    settings: ConnectionSettings,
    /// Indexed by id; made when first needed.
    processes: Vec<Option<Box<Process>>>,
    /// Bounded by the connections that a run opens.
    pipes: Vec<Pipe>,
    /// Connections that have not ended, each after the ids at its ends, the lower one first.
    intact: Sorted<(Id, Id, u32)>,
    /// Pairs of ids of which a connection has broken, the lower id first.
    broken: BTreeSet<(Id, Id)>,
    /// Inputs for chains, to be given after the current input.
    arrivals: VecDeque<(Id, u32, Arrival)>,
    /// Violations found by the checks of links.
    pub(super) wrong: Vec<Violation>,
}

impl Linked {
    pub(super) fn new(n: u32, seed: u64, has_faults: bool) -> Linked {
        // A stream of its own, so the other draws of the world do not depend on it.
        let mut random = Random::new(seed ^ 0x6c69_6e6b_6564_2e2e);
        let ways = [Ways::Network, Ways::Network, Ways::User, Ways::Both];
        let ways = random.pick(&ways).copied().filter(|_| has_faults).unwrap_or(Ways::Network);
        let proved = has_faults && n <= PROVED_MAX && random.chance(1, 16);
        let settings = ConnectionSettings { ways, secret: proved.then(|| random.draw()) };
        Linked {
            settings,
            processes: std::iter::repeat_with(|| None).take(n as usize).collect(),
            pipes: Vec::new(),
            intact: Sorted::default(),
            broken: BTreeSet::new(),
            arrivals: VecDeque::new(),
            wrong: Vec::new(),
        }
    }

    /// Transport between two ids.
    fn way(&self, a: Id, b: Id) -> Transport {
        match self.settings.ways {
            Ways::Network => Transport::Network,
            Ways::User => Transport::User,
            Ways::Both if (a ^ b).is_multiple_of(2) => Transport::User,
            Ways::Both => Transport::Network,
        }
    }

    /// The process of an id in this run.
    fn process(&mut self, id: Id, run: u32, incarnation: u64) -> &mut Process {
        let secret = self.settings.secret;
        self.processes[id as usize].get_or_insert_with(|| {
            let crypto = secret.map(|secret| -> Box<dyn Crypto> {
                let private = u64::from(id) << 16 | u64::from(run) | 1 << 60;
                super::peering::crypto(secret, private)
            });
            let me = Identity { me: id, incarnation, job: Job::default(), hiwater: HIWATER };
            let strictness = Strictness { insecure: true, ..Strictness::default() };
            let peering = Peering::new(me, crypto, strictness, Everybody);
            let (open, pending, announced) = (BTreeSet::new(), BTreeMap::new(), AnnouncedLinks::default());
            Box::new(Process { run, peering, open, pending, announced, due: None, caught_up: 0 })
        })
    }

    /// The process of an id, if it exists.
    fn existing(&self, id: Id) -> Option<&Process> {
        self.processes.get(id as usize)?.as_deref()
    }

    /// The link of an id to a peer, if its machine has it up.
    pub(super) fn up(&self, id: Id, peer: Id) -> Option<LinkKey> {
        self.existing(id)?.peering.up(peer)
    }

    /// A number for the current link of an id to a peer; the same for all times without a link.
    pub(super) fn epoch_at(&self, id: Id, peer: Id) -> u32 {
        // A world has fewer connection ends than `u32::MAX`.
        self.up(id, peer).map_or(u32::MAX, |key| key.0 as u32)
    }

    /// Peers that an id is linked with.
    pub(super) fn peers_of(&self, id: Id) -> Vec<Id> {
        self.existing(id)
            .map(|process| process.peering.all_up().map(|(peer, _)| peer).collect())
            .unwrap_or_default()
    }

    /// Whether the connection of a message is up, as far as its receiver knows.
    pub(super) fn stands(&self, to: Id, passage: Passage) -> bool {
        let pipe = &self.pipes[passage.connection() as usize];
        !pipe.is_broken() && pipe.end_of(to).is_some_and(|side| pipe.ends[side].open)
    }

    /// Arrival time of a message, given its earliest time `at` and the order of its connection.
    pub(super) fn in_order(&mut self, to: Id, passage: Passage, at: u64) -> u64 {
        let pipe = &mut self.pipes[passage.connection() as usize];
        pipe.end_of(to).map_or(at, |side| pipe.in_order(side, at))
    }

    /// Records when the receiver has read a message.
    pub(super) fn taken_in(&mut self, to: Id, passage: Passage, at: u64) {
        let pipe = &mut self.pipes[passage.connection() as usize];
        pipe.end_of(to).into_iter().for_each(|side| pipe.ends[side].taken_in = at);
    }

    /// State of an id's link to a peer.
    fn state(&self, id: Id, peer: Id) -> State {
        self.existing(id).map_or(State::Absent, |process| process.peering.state(peer))
    }
}
