//! Any number of clients, whose bytes arrive in any pieces and any order, and some of which vanish. A simple model
//! computes after every piece what each client must have received.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_impi::server::{Event, Failure};
use gpc_impi::wire::{Command, Key, Label};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::server::driven::{Driven, bare, greeting, open, said};

const KEY: [u8; 8] = *b"12345678";

/// What a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its labels and their values, in the order in which it sends them.
    pub(crate) values: Vec<(u32, Vec<u8>)>,
    /// Whether it authenticates itself by the key.
    pub(crate) key: bool,
    /// The number of bytes after which it vanishes. It reconnects if that is allowed.
    pub(crate) vanishes: Option<usize>,
}

/// The step that a byte of a client completes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mark {
    Auth,
    Join,
    Sent(u32),
    Done,
    Fini,
}

impl Plan {
    /// All bytes of the client, and the positions at which its steps are complete.
    fn script(&self, rank: u32) -> (Vec<u8>, Vec<(usize, Mark)>) {
        let (mask, key) = if self.key { (3, Some(KEY)) } else { (1, None) };
        let mut bytes = greeting(mask, key, rank);
        let mut marks = vec![(12, Mark::Auth), (bytes.len(), Mark::Join)];
        let coll =
            self.values.iter().map(|(label, values)| (Mark::Sent(*label), said(Label(*label), values)));
        let ends = [(Mark::Done, bare(Command::Done)), (Mark::Fini, bare(Command::Fini))];
        for (mark, said) in coll.chain(ends) {
            bytes.extend_from_slice(&said);
            marks.push((bytes.len(), mark));
        }
        (bytes, marks)
    }
}

/// The model's view of one client.
struct Peer {
    bytes: Vec<u8>,
    marks: Vec<(usize, Mark)>,
    key: bool,
    vanishes: Option<usize>,
    /// Number of its bytes that the server has received.
    at: usize,
    conn: u64,
    gone: bool,
    received: Vec<u8>,
}

impl Peer {
    fn has(&self, mark: impl Fn(Mark) -> bool) -> bool {
        self.marks.iter().any(|(end, there)| *end <= self.at && mark(*there))
    }

    fn has_sent(&self, label: u32) -> bool {
        self.has(|mark| mark == Mark::Sent(label))
    }

    fn is_done(&self) -> bool {
        self.has(|mark| mark == Mark::Done)
    }

    /// The last label that it has sent.
    fn last(&self) -> Option<u32> {
        let sent = |(end, mark): &(usize, Mark)| match mark {
            Mark::Sent(label) if *end <= self.at => Some(*label),
            _ => None,
        };
        self.marks.iter().filter_map(sent).next_back()
    }

    /// Whether its last command is complete.
    fn is_between(&self) -> bool {
        self.marks.iter().any(|(end, _)| *end == self.at)
    }

    fn finished(&self) -> bool {
        self.gone || self.at == self.bytes.len()
    }
}

/// The model's view of the session.
struct World {
    driven: Driven,
    peers: Vec<Peer>,
    plans: Vec<Plan>,
    /// The clients whose values were broadcast, by label.
    told: BTreeMap<u32, BTreeSet<usize>>,
    /// All broadcast bytes.
    broadcast: Vec<u8>,
    complete: bool,
    /// Why the session fails, and whether it fails immediately.
    failed: Option<(String, bool)>,
    conns: u64,
}

impl World {
    fn new(plans: &[Plan]) -> World {
        let mut settings = open(plans.len() as u32);
        settings.methods.key = Some(Key::from_bytes(KEY));
        let mut world = World {
            driven: Driven::new(settings),
            peers: Vec::new(),
            plans: plans.to_vec(),
            told: BTreeMap::new(),
            broadcast: Vec::new(),
            complete: false,
            failed: None,
            conns: 0,
        };
        for (rank, plan) in (0..).zip(plans) {
            let (bytes, marks) = plan.script(rank);
            let (key, vanishes) = (plan.key, plan.vanishes.map(|at| at % bytes.len()));
            let conn = world.connect();
            let received = Vec::new();
            world.peers.push(Peer { bytes, marks, key, vanishes, at: 0, conn, gone: false, received });
        }
        world
    }

    fn connect(&mut self) -> u64 {
        self.conns += 1;
        self.driven.connect(self.conns);
        self.conns
    }

    /// Whether all clients have finished.
    fn is_over(&self) -> bool {
        self.driven.ended.is_some() || self.peers.iter().all(Peer::finished)
    }

    /// Sends the next bytes of this client, or ends it.
    fn step(&mut self, rank: usize, most: usize) {
        let peer = &mut self.peers[rank];
        if peer.finished() {
            return;
        }
        let stop = peer.vanishes.unwrap_or(peer.bytes.len());
        let piece = most.min(stop - peer.at);
        if piece == 0 {
            return self.vanish(rank);
        }
        let (conn, bytes) = (peer.conn, peer.bytes[peer.at..peer.at + piece].to_vec());
        let until = peer.at + piece;
        let marks: Vec<(usize, Mark)> =
            peer.marks.iter().copied().filter(|(end, _)| (peer.at + 1..=until).contains(end)).collect();
        self.driven.say(conn, &bytes);
        for (end, mark) in marks {
            self.peers[rank].at = end;
            self.completed(mark);
        }
        self.peers[rank].at = until;
        // Some of the finished clients close their sending side, which has no effect.
        if self.peers[rank].finished() && rank % 2 == 1 {
            self.driven.close_side(conn);
        }
        self.check();
    }

    /// A step of a client is complete.
    fn completed(&mut self, mark: Mark) {
        let joined = !self.complete && self.peers.iter().all(|peer| peer.has(|mark| mark == Mark::Join));
        if joined {
            self.complete = true;
            self.broadcast.extend_from_slice(b"IMPI\0\0\0\x04");
            self.broadcast.extend_from_slice(&(self.peers.len() as u32).to_be_bytes());
        }
        if !self.complete || !joined && !matches!(mark, Mark::Sent(_) | Mark::Done) {
            return;
        }
        let sent = self.plans.iter().flat_map(|plan| plan.values.iter().map(|(label, _)| *label));
        let known = Label::KNOWN.iter().map(|label| label.0).filter(|_| self.all_done());
        for label in sent.chain(known).collect::<BTreeSet<u32>>() {
            let complete = self.peers.iter().all(|peer| peer.is_done() || peer.has_sent(label));
            let new = self.told.get(&label) != Some(&self.senders(label));
            let left_out = self.senders(label).is_empty() && !self.all_done();
            if complete && new && !left_out {
                self.answer(label);
            }
        }
        if self.all_done() {
            self.broadcast.extend_from_slice(b"DONE\0\0\0\0");
        }
    }

    fn senders(&self, label: u32) -> BTreeSet<usize> {
        (0..self.peers.len()).filter(|rank| self.peers[*rank].has_sent(label)).collect()
    }

    /// Broadcasts the values that have been sent under a label.
    fn answer(&mut self, label: u32) {
        let senders = self.senders(label);
        let (mut mask, mut values) = (0u32, Vec::new());
        for rank in &senders {
            let (_, there) = self.plans[*rank].values.iter().find(|(of, _)| *of == label).unwrap();
            mask += 2u32.pow(*rank as u32);
            values.extend_from_slice(there);
        }
        let head = [0x434F_4C4C, 8 + values.len() as u32, label, mask];
        self.broadcast.extend(head.iter().flat_map(|word| word.to_be_bytes()));
        self.broadcast.append(&mut values);
        self.told.insert(label, senders);
    }

    /// Time passes without bytes of any client. If all clients that are not done wait for a broadcast, one label is
    /// broadcast.
    fn pause(&mut self) {
        if !self.complete || self.driven.ended.is_some() {
            return;
        }
        self.driven.tick(self.driven.now + PATIENCE);
        let unanswered = |rank: usize| {
            let labels = self.plans[rank].values.iter().map(|(label, _)| *label);
            let sent = labels.filter(|label| self.peers[rank].has_sent(*label));
            let told = |label: &u32| self.told.get(label).is_some_and(|told| told.contains(&rank));
            sent.filter(|label| !told(label)).min()
        };
        let waits = |rank: usize| {
            let peer = &self.peers[rank];
            peer.is_done() || peer.is_between() && unanswered(rank).is_some()
        };
        let ranks = 0..self.peers.len();
        if !self.all_done() && ranks.clone().all(waits) {
            let lowest = ranks.filter_map(unanswered).min();
            lowest.into_iter().for_each(|label| self.answer(label));
        }
        self.check();
    }

    fn vanish(&mut self, rank: usize) {
        let all_done = self.all_done();
        let peer = &self.peers[rank];
        let (joined, ended) = (peer.has(|mark| mark == Mark::Join), peer.has(|mark| mark == Mark::Fini));
        let conn = peer.conn;
        if self.complete {
            let place = match peer.last() {
                _ if all_done => "after all were done, before its FINI".into(),
                _ if peer.is_done() => "after its DONE".into(),
                None => "before its first label".into(),
                Some(label) => format!("at label {}", Label(label)),
            };
            let failure = format!("client {rank} was lost {place}: its connection has ended");
            if !ended && self.failed.is_none() {
                self.failed = Some((failure, !all_done));
            }
            self.peers[rank].gone = true;
            self.driven.lose(conn);
        } else {
            self.driven.lose(conn);
            let freed = matches!(self.driven.events.last(), Some(Event::Freed(of, _)) if *of == rank as u32);
            assert_eq!(freed, joined, "{}", self.driven.told());
            let conn = self.connect();
            let peer = &mut self.peers[rank];
            (peer.conn, peer.at, peer.vanishes) = (conn, 0, None);
            peer.received.clear();
        }
        self.check();
    }

    fn all_done(&self) -> bool {
        self.complete && self.peers.iter().all(Peer::is_done)
    }

    /// Checks that each client has received exactly what it must have by now.
    fn check(&mut self) {
        let failed_at_once = self.failed.as_ref().is_some_and(|(_, at_once)| *at_once);
        for (rank, peer) in self.peers.iter_mut().enumerate() {
            peer.received.append(&mut self.driven.take(peer.conn));
            let auth = [0, 0, 0, u8::from(peer.key), 0, 0, 0, 0];
            let auth = if peer.has(|mark| mark == Mark::Auth) { &auth[..] } else { &[] };
            // Bytes sent to a lost client are ignored.
            if !peer.gone {
                assert_eq!(peer.received, [auth, &self.broadcast].concat(), "client {rank}");
            }
        }
        let gone = |peer: &Peer| peer.gone || peer.has(|mark| mark == Mark::Fini);
        let over = failed_at_once || self.all_done() && self.peers.iter().all(gone);
        let expected = over.then(|| self.failed.as_ref().map_or(Ok(()), |(failure, _)| Err(failure.clone())));
        let found = self.driven.ended.clone();
        assert_eq!(found.map(|ended| ended.map_err(|failure: Failure| failure.to_string())), expected);
    }

    /// All clients send the rest of their bytes, in turn.
    fn finish(&mut self) {
        for _ in 0..4 {
            for rank in 0..self.peers.len() {
                while self.driven.ended.is_none() && !self.peers[rank].finished() {
                    self.step(rank, 1 << 20);
                }
            }
        }
        assert!(self.is_over());
        assert!(self.driven.ended.is_some(), "{}", self.driven.told());
    }
}

/// Patience of a server: see [`gpc_impi::server::Settings::patience`].
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs these clients. Each step is a client and the most bytes that it sends, or 0 if time passes instead. After the
/// steps all clients send their remaining bytes.
pub(crate) fn run(
    plans: &[Plan],
    steps: impl IntoIterator<Item = (usize, usize)>,
) -> Option<Result<(), Failure>> {
    let mut world = World::new(plans);
    for (rank, most) in steps {
        if world.is_over() {
            break;
        }
        match most {
            0 => world.pause(),
            _ => world.step(rank % plans.len(), most),
        }
    }
    world.finish();
    world.driven.ended
}

/// A client that sends some known labels and some others; few vanish.
fn plan() -> impl Strategy<Value = Plan> {
    let label = prop_oneof![
        6 => prop::sample::select(Label::KNOWN.map(|label| label.0).to_vec()),
        1 => prop::sample::select(vec![1, 0x0900, 0x1101, 0x9000, 0x8000_0000, u32::MAX - 1, u32::MAX]),
    ];
    let values = prop::collection::btree_map(label, prop::collection::vec(any::<u8>(), 0..24), 0..12);
    // Half of the clients send their labels in ascending order.
    let ascending = values.prop_map(|values| values.into_iter().collect::<Vec<(u32, Vec<u8>)>>());
    let values = prop_oneof![ascending.clone(), ascending.prop_shuffle()];
    let vanishes = prop::option::weighted(0.03, any::<u16>().prop_map(usize::from));
    (values, any::<bool>(), vanishes).prop_map(|(values, key, vanishes)| Plan { values, key, vanishes })
}

fn steps() -> impl Strategy<Value = Vec<(Index, usize)>> {
    // With 0 bytes, time passes.
    let piece = prop_oneof![6 => 1usize..60, 2 => Just(1), 2 => Just(1000), 1 => Just(0)];
    prop::collection::vec((any::<Index>(), piece), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_in_any_order(plans in prop::collection::vec(plan(), 1..=6), steps in steps()) {
        run(&plans, steps.iter().map(|(rank, most)| (rank.index(1 << 16), *most)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn up_to_thirty_two_clients(plans in prop::collection::vec(plan(), 20..=32), steps in steps()) {
        run(&plans, steps.iter().map(|(rank, most)| (rank.index(1 << 16), *most)));
    }
}

/// No client vanishes: in any order, the session ends well.
#[test]
fn thirty_two_clients_byte_by_byte() {
    let full = |rank: u32| Plan {
        values: Label::KNOWN.iter().map(|label| (label.0, rank.to_be_bytes().repeat(4))).collect(),
        key: rank.is_multiple_of(2),
        vanishes: None,
    };
    let plans: Vec<Plan> = (0..32).map(full).collect();
    let longest = plans[0].script(0).0.len();
    let steps = (0..longest).flat_map(|_| (0..32).rev().map(|rank| (rank, 1)));
    assert_eq!(run(&plans, steps), Some(Ok(())));
}
