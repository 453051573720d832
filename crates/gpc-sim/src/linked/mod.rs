//! Real links: every process of a world of calls has the [`Links`] of a node, which turn the messages of its chain into
//! the bytes of frames, and bytes into inputs.
//!
//! A connection is two ordered streams of bytes with bounded room. Writes stop where the room ends, bytes are read
//! in pieces of any size, and a connection breaks in the middle of a frame. So credit runs out, windows are waited
//! for, and long messages leave in segments. The machine's outputs are carried out as in `runtime::connections`.
//!
//! A message is seen where a node sends it, and where it arrives as an input of a chain. In between, [`given`] checks
//! that what arrives was given to the link, and [`stream`] that the bytes keep to docs/wire.md.
//!
//! Faults act on connections. The rest of the world is the same as with modelled links (`faults::links`).

mod announced;
mod arrivals;
mod check;
mod connection;
mod context;
mod driver;
mod faults;
mod given;
mod linking;
mod losses;
mod network;
mod pipe;
mod reading;
mod sending;
mod steady;
mod step;
#[cfg(test)]
mod stories;
mod stream;
mod writing;

pub use linking::{Linking, LinkingError};
pub(super) use step::Step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpc_trees::Id;

use super::check::Violation;
use super::random::Random;
use super::ranked::Sorted;
use announced::AnnouncedLinks;
use chained_gpc::link::peering::{
    Book, Crypto, Identity, LinkKey, Peering, PublicKey, State, Strictness, Transport,
};
use chained_gpc::link::{HIWATER, Links};
use chained_gpc::wire::body::Spare;
use chained_gpc::wire::{Budget, Job};
use connection::Connection;
use given::GivenMessages;
use pipe::Pipe;
use step::{PipeId, Place};

/// Requests that nodes accept unacknowledged, in worlds with faults: in some of them credit runs out all the time.
const HIWATERS: [u32; 6] = [HIWATER, 8, 4, 3, 2, 1];

/// Bytes that a connection holds before its writer has to wait, in worlds with faults.
const ROOMS: [usize; 6] = [usize::MAX, 1 << 18, 1 << 15, 1 << 14, 1 << 12, 1 << 10];

/// The longest message of a world is written in about this many parts at most.
const WRITES_MAX: u64 = 96;

/// Latencies between two writes to a full connection: there, back, and as much again where a write is parted.
const WAIT_LATENCIES: u64 = 4;

/// Memory of a node's links where it is not narrow, bytes. All of it must be given back.
const MEMORY: u64 = 1 << 40;

/// Largest world in which some runs authenticate links: the model of the cryptography is slow.
const PROVED_MAX: u32 = 64;

/// A book in which every id but a few is a peer, and has no key.
#[derive(Clone, Default, Debug)]
pub(super) struct Peers {
    /// Ids that are not listed.
    unlisted: BTreeSet<Id>,
}

impl Book for Peers {
    fn contains(&self, id: Id) -> bool {
        !self.unlisted.contains(&id)
    }

    fn key(&self, _: Id) -> Option<PublicKey> {
        None
    }

    fn shown_address(&self, id: Id) -> Option<String> {
        Some(address_of(id))
    }
}

/// The address of an id, for people.
fn address_of(id: Id) -> String {
    format!("host-{id}")
}

/// The links of one run of an id.
#[derive(Debug)]
pub(super) struct Process {
    run: u32,
    links: Links<Peers, Connection>,
    /// Ends of connections that it knows of, or that wait to be accepted, and that it has not closed.
    open: BTreeSet<Place>,
    /// Messages for links that are not up yet.
    queued: BTreeMap<Id, GivenMessages>,
    /// The end of the last link to each peer.
    last_links: BTreeMap<Id, Place>,
    /// Links that were announced to its chain.
    announced: AnnouncedLinks,
    /// Memory of its links: for bodies, and for frames that are under way.
    memory: [Budget; 2],
    spare: Spare,
    /// Time of the scheduled event for its deadlines, if there is one.
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
    hiwater: u32,
    /// Bytes that a connection holds before its writer has to wait.
    room: usize,
    /// Whether bytes are read in pieces.
    cuts: bool,
    /// Memory of a node's links, bytes.
    memory: u64,
    /// How nodes that refuse connections do so.
    refusal: Refusal,
    /// Whether one end of a connection that breaks may learn of it late.
    hides_losses: bool,
}

/// How a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// Its host answers.
    ByHost,
    /// The network does not open it.
    AtOnce,
    /// The greeting passes, and then the connection cannot be used.
    AfterGreeting,
    /// The other id is not listed.
    Unlisted,
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
    intact: Sorted<(Id, Id, PipeId)>,
    /// Pairs of ids of which a connection has broken, the lower id first.
    broken: BTreeSet<(Id, Id)>,
    /// Processes that say goodbye when they end.
    leaving: BTreeSet<Id>,
    /// Processes whose links may have something to write or an input for the chain.
    touched: VecDeque<Id>,
    /// The end from which bytes are being read.
    reading: Option<Place>,
    /// Draws where bytes are cut.
    random: Random,
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
        let secret = proved.then(|| random.draw());
        let mut drawn = |values: &[usize]| random.pick(values).copied().filter(|_| has_faults);
        let hiwater = drawn(&HIWATERS.map(|hiwater| hiwater as usize)).map_or(HIWATER, |it| it as u32);
        let room = drawn(&ROOMS).unwrap_or(usize::MAX);
        let cuts = has_faults && random.chance(3, 4);
        let refusals = [Refusal::ByHost, Refusal::AtOnce, Refusal::AfterGreeting, Refusal::Unlisted];
        let refusal = random.pick(&refusals).copied().unwrap_or(Refusal::ByHost);
        let hides_losses = has_faults && random.chance(1, 2);
        let memory = MEMORY;
        let settings =
            ConnectionSettings { ways, secret, hiwater, room, cuts, memory, refusal, hides_losses };
        Linked {
            settings,
            processes: std::iter::repeat_with(|| None).take(n as usize).collect(),
            pipes: Vec::new(),
            intact: Sorted::default(),
            broken: BTreeSet::new(),
            leaving: BTreeSet::new(),
            touched: VecDeque::new(),
            reading: None,
            random,
            wrong: Vec::new(),
        }
    }

    /// Gives connections at least so much room that messages of these lengths are not written in hundreds of parts.
    pub(super) fn suffice_for(&mut self, longest: [u64; 2]) {
        let bytes = longest.into_iter().max().unwrap_or_default();
        self.settings.room = self.settings.room.max((bytes / WRITES_MAX) as usize);
    }

    /// Gives the links of each node so much memory.
    pub(super) fn limit_memory(&mut self, bytes: u64) {
        self.settings.memory = bytes.min(MEMORY);
    }

    /// Whether the links of nodes have so little memory that they refuse bodies.
    fn has_little_memory(&self) -> bool {
        self.settings.memory < MEMORY
    }

    /// How long so many bytes wait for room on their way over a link with this latency, nanoseconds.
    pub(super) fn waits_ns(&self, latency_ns: u64, bytes: u64) -> u64 {
        bytes / (self.settings.room as u64).max(1) * latency_ns * WAIT_LATENCIES
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
        let ConnectionSettings { secret, hiwater, memory, .. } = self.settings;
        self.processes[id as usize].get_or_insert_with(|| {
            let crypto = secret.map(|secret| -> Box<dyn Crypto> {
                let private = u64::from(id) << 16 | u64::from(run) | 1 << 60;
                super::peering::crypto(secret, private)
            });
            let me = Identity { me: id, incarnation, job: Job::default(), hiwater };
            let strictness = Strictness { insecure: true, ..Strictness::default() };
            let links = Links::new(Peering::new(me, crypto, strictness, Peers::default()));
            let memory = [memory, MEMORY].map(|bytes| Budget::new(bytes, format!("the links of id {id}")));
            Box::new(Process {
                run,
                links,
                open: BTreeSet::new(),
                queued: BTreeMap::new(),
                last_links: BTreeMap::new(),
                announced: AnnouncedLinks::default(),
                spare: Spare::default().within(&memory[0]),
                memory,
                due: None,
                caught_up: 0,
            })
        })
    }

    /// The process of an id, if it exists.
    fn existing(&self, id: Id) -> Option<&Process> {
        self.processes.get(id as usize)?.as_deref()
    }

    /// The link of an id to a peer, if its machine has it up.
    pub(super) fn up(&self, id: Id, peer: Id) -> Option<LinkKey> {
        self.existing(id)?.links.up(peer)
    }

    /// The end of the link of an id to a peer, if its machine has it up.
    fn place_up(&self, id: Id, peer: Id) -> Option<Place> {
        let process = self.existing(id)?;
        process.place(process.links.up(peer)?)
    }

    /// Peers that an id is linked with.
    pub(super) fn peers_of(&self, id: Id) -> Vec<Id> {
        self.existing(id).map(|process| process.links.peers_up()).unwrap_or_default()
    }

    /// State of an id's link to a peer.
    fn state(&self, id: Id, peer: Id) -> State {
        self.existing(id).map_or(State::Absent, |process| process.links.peering.state(peer))
    }

    /// The links of a process have something to do once the current input is through.
    fn touch(&mut self, id: Id) {
        if !self.touched.contains(&id) {
            self.touched.push_back(id);
        }
    }

    fn end(&mut self, (pipe, side): Place) -> &mut pipe::End {
        &mut self.pipes[pipe as usize].ends[side]
    }
}

impl Process {
    /// The end of a connection with this key.
    fn place(&self, key: LinkKey) -> Option<Place> {
        self.links.table.get(key).map(|connection| connection.place)
    }
}
