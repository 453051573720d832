//! Links that the peers' machine makes: every process of a world of calls has a [`Peering`], and what its chain is told of a link is what that machine says.
//!
//! Connections are two ordered streams. Hellos go over them as bytes, messages of calls as parcels in order with those. Where both ids connect at the same time, where an id begins anew while its old link is not
//! known to be lost, or where one end alone has learned of a loss, the machine decides, as in the runtime; what it asks for is carried out as `runtime::greeting` and `runtime::links` do.
//!
//! Faults act on connections here. Everything else of a world is as it is where links are modelled, in `faults::links`.

mod arrivals;
mod check;
mod driver;
mod faults;
mod network;
mod pipe;
#[cfg(test)]
mod stories;

pub(super) use pipe::Step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use gpc_trees::Id;

use super::check::Violation;
use super::faults::Passage;
use super::random::Random;
use super::ranked::Sorted;
use crate::peering::{Book, Crypto, Identity, LinkKey, Peering, PublicKey, State, Strictness, Way};
use crate::wire::{Job, Message};
use arrivals::Arrival;
use check::Told;
use pipe::Pipe;

/// Requests that a node takes without having acknowledged them; credit is not modelled.
const HIWATER: u32 = 64;

/// Largest world in which links are proved in some runs: the model of the cryptography is slow.
const PROVED_MAX: u32 = 64;

/// How the links of a world come about.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Linking {
    /// Each pair of ids has one link after another; each end learns of a loss in its own time.
    #[default]
    Modelled,
    /// The peers' machine makes them, from connections.
    Peering,
}

impl Linking {
    /// Both.
    pub const ALL: [Linking; 2] = [Linking::Modelled, Linking::Peering];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Linking::Modelled => "modelled",
            Linking::Peering => "peering",
        }
    }
}

impl fmt::Display for Linking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that names no way in which links come about.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no way in which links come about: write modelled or peering")]
pub struct LinkingError(String);

impl FromStr for Linking {
    type Err = LinkingError;

    fn from_str(text: &str) -> Result<Linking, LinkingError> {
        let named = Linking::ALL.into_iter().find(|linking| linking.name() == text);
        named.ok_or_else(|| LinkingError(text.chars().take(40).collect()))
    }
}

/// Everybody is a peer of everybody, and no key is listed.
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

/// A message that waits until its link is up, or leaves on it.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) message: Message,
    pub(super) bytes: u64,
    /// It is the data of a long reply, whose head has gone before.
    pub(super) data: bool,
    pub(super) said: Said,
}

/// Who says a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    ByNode,
    /// The world, in the name of a node that knows nothing of it.
    Forged,
    /// The same; its sender has no part in what it speaks of.
    Lie,
}

/// One run of an id, as far as its links go.
#[derive(Debug)]
pub(super) struct Process {
    run: u32,
    peering: Peering<Everybody>,
    /// The connections that it knows of, or that wait to be accepted, and that it has not closed.
    open: BTreeSet<LinkKey>,
    /// What waits for links that are not up yet.
    pending: BTreeMap<Id, Vec<Leaving>>,
    /// What its chain has been told.
    told: Told,
    /// When it is woken next for its machine, if it is.
    due: Option<u64>,
}

/// By which way processes are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ways {
    Network,
    User,
    /// Some pairs of ids by the one way and some by the other.
    Both,
}

/// The same for all connections of a world.
#[derive(Clone, Copy, Debug)]
struct Manner {
    ways: Ways,
    /// The secret of all, where links are proved.
    secret: Option<u64>,
}

/// All connections of a world, and the machines at their ends.
#[derive(Debug)]
pub(super) struct Linked {
    manner: Manner,
    /// By id; made when one is first needed.
    processes: Vec<Option<Box<Process>>>,
    /// Bounded by the connections that a run opens.
    pipes: Vec<Pipe>,
    /// The connections that nothing has ended yet, with the ids at their ends, the lower one first.
    intact: Sorted<(Id, Id, u32)>,
    /// The pairs of ids of which a connection has broken, the lower one first.
    broken: BTreeSet<(Id, Id)>,
    /// What chains are to hear when the input at hand is done with.
    arrivals: VecDeque<(Id, u32, Arrival)>,
    /// What must not be of links, and was.
    pub(super) wrong: Vec<Violation>,
}

impl Linked {
    pub(super) fn new(n: u32, seed: u64, has_faults: bool) -> Linked {
        // A stream of its own: what the rest of the world draws does not depend on it.
        let mut random = Random::new(seed ^ 0x6c69_6e6b_6564_2e2e);
        let ways = [Ways::Network, Ways::Network, Ways::User, Ways::Both];
        let ways = random.pick(&ways).copied().filter(|_| has_faults).unwrap_or(Ways::Network);
        let proved = has_faults && n <= PROVED_MAX && random.chance(1, 16);
        let manner = Manner { ways, secret: proved.then(|| random.draw()) };
        Linked {
            manner,
            processes: std::iter::repeat_with(|| None).take(n as usize).collect(),
            pipes: Vec::new(),
            intact: Sorted::default(),
            broken: BTreeSet::new(),
            arrivals: VecDeque::new(),
            wrong: Vec::new(),
        }
    }

    /// By which way two ids are connected.
    fn way(&self, a: Id, b: Id) -> Way {
        match self.manner.ways {
            Ways::Network => Way::Network,
            Ways::User => Way::User,
            Ways::Both if (a ^ b).is_multiple_of(2) => Way::User,
            Ways::Both => Way::Network,
        }
    }

    /// The process of an id in this run of it.
    fn process(&mut self, id: Id, run: u32, incarnation: u64) -> &mut Process {
        let secret = self.manner.secret;
        self.processes[id as usize].get_or_insert_with(|| {
            let crypto = secret.map(|secret| -> Box<dyn Crypto> {
                let private = u64::from(id) << 16 | u64::from(run) | 1 << 60;
                super::peering::crypto(secret, private)
            });
            let me = Identity { me: id, incarnation, job: Job::default(), hiwater: HIWATER };
            let strictness = Strictness { insecure: true, ..Strictness::default() };
            let peering = Peering::new(me, crypto, strictness, Everybody);
            let (open, pending, told) = (BTreeSet::new(), BTreeMap::new(), Told::default());
            Box::new(Process { run, peering, open, pending, told, due: None })
        })
    }

    /// The process of an id that has one already.
    fn known(&self, id: Id) -> Option<&Process> {
        self.processes.get(id as usize)?.as_deref()
    }

    /// The link of an id to a peer, if its machine says that it stands.
    pub(super) fn up(&self, id: Id, peer: Id) -> Option<LinkKey> {
        self.known(id)?.peering.up(peer)
    }

    /// A number for the link that an id has to a peer at this moment; the same for every moment at which there is none.
    pub(super) fn epoch_at(&self, id: Id, peer: Id) -> u32 {
        // A world has fewer ends of connections than that.
        self.up(id, peer).map_or(u32::MAX, |key| key.0 as u32)
    }

    /// The peers of an id that it has links with.
    pub(super) fn peers_of(&self, id: Id) -> Vec<Id> {
        self.known(id)
            .map(|process| process.peering.all_up().map(|(peer, _)| peer).collect())
            .unwrap_or_default()
    }

    /// Whether the connection that a message came on stands, as far as its receiver knows.
    pub(super) fn stands(&self, to: Id, passage: Passage) -> bool {
        let pipe = &self.pipes[passage.connection() as usize];
        !pipe.is_broken() && pipe.end_of(to).is_some_and(|side| pipe.ends[side].open)
    }

    /// When something arrives that would arrive at `at` by itself: it does not overtake what was sent before.
    pub(super) fn in_order(&mut self, to: Id, passage: Passage, at: u64) -> u64 {
        let pipe = &mut self.pipes[passage.connection() as usize];
        pipe.end_of(to).map_or(at, |side| pipe.in_order(side, at))
    }

    /// A message that has come over a connection is taken in by its receiver at this time.
    pub(super) fn taken_in(&mut self, to: Id, passage: Passage, at: u64) {
        let pipe = &mut self.pipes[passage.connection() as usize];
        pipe.end_of(to).into_iter().for_each(|side| pipe.ends[side].taken_in = at);
    }

    /// How far the link of an id to a peer has come.
    fn state(&self, id: Id, peer: Id) -> State {
        self.known(id).map_or(State::Absent, |process| process.peering.state(peer))
    }
}
