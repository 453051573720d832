//! The network of a world, its server, and the time: everything that happens is drawn from a seed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::{Client, ClientFault, ClientInput, ClientOutput, ClientSettings, ClientStage};
use super::peers::{Foreign, Kind, Peer, PeerEnd};
use crate::server::{ConnId, Event, Failure, Input, Output, Server, Settings};
use crate::wire::{Command, Methods, command};

/// Time limit of a client, as that of a bootstrap.
pub(super) const CLIENT_LIMIT: Duration = Duration::from_secs(120);

/// Pause before a client connects again.
const AGAIN_PAUSE: Duration = Duration::from_millis(300);
const AGAIN_MAX: u32 = 8;

/// A source of choices that a seed determines.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    pub(super) fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end.max(1)))
    }
}

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// The client of this rank connects.
    Connect(usize),
    /// Bytes, or the end, arrive at the server.
    ToServer(usize),
    /// Bytes, or the end, arrive at the client.
    ToClient(usize),
    /// The client's time limit passes.
    Limit(usize),
    /// The client's processes end.
    Fini(usize),
    /// The client's connection breaks: bytes under way may be lost.
    Break(usize),
    /// The server's process ends.
    ServerDies,
    /// A deadline of the server.
    Tick,
}

/// The end of a direction, behind its last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WireEnd {
    Closed,
    Lost,
}

/// One direction of a connection.
#[derive(Default)]
struct Lane {
    bytes: VecDeque<u8>,
    end: Option<WireEnd>,
    /// Whether an arrival is on the agenda.
    under_way: bool,
    /// The receiver takes no more.
    is_over: bool,
}

struct Wire {
    rank: usize,
    up: Lane,
    down: Lane,
}

/// How fast a client's connection is.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Longest time of a piece under way, ms.
    pub(super) delay_max: u64,
    /// Longest piece, bytes.
    pub(super) piece_max: u64,
}

/// What the session's first cause must be.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cause {
    Lost(u32),
    Late,
}

pub(super) struct World {
    random: Random,
    now: Duration,
    agenda: BTreeMap<(Duration, u64), Happening>,
    happenings: u64,
    server: Option<Server>,
    wires: Vec<Wire>,
    paces: Vec<Pace>,
    pub(super) peers: Vec<Peer>,
    /// The connection of each client that has joined, by rank.
    joined: Vec<Option<usize>>,
    /// Clients that have sent FINI.
    finished: Vec<bool>,
    is_complete: bool,
    pub(super) all_are_done: bool,
    cause: Option<Cause>,
    pub(super) ended: Option<(Duration, Result<(), Failure>)>,
    /// Whether the server's process has ended.
    pub(super) is_dead: bool,
}

impl World {
    /// A session of these clients, each with the pace of its connection.
    pub(super) fn new(seed: u64, peers: Vec<(ClientSettings, Option<Foreign>, Pace)>) -> World {
        let clients = peers.len();
        let settings = Settings::new(clients as u32, Methods { none: true, key: None });
        let mut world = World {
            random: Random(seed),
            now: Duration::ZERO,
            agenda: BTreeMap::new(),
            happenings: 0,
            server: Some(Server::new(settings).unwrap()),
            wires: Vec::new(),
            paces: peers.iter().map(|(_, _, pace)| *pace).collect(),
            peers: Vec::new(),
            joined: vec![None; clients],
            finished: vec![false; clients],
            is_complete: false,
            all_are_done: false,
            cause: None,
            ended: None,
            is_dead: false,
        };
        for (settings, foreign, _) in peers {
            let kind = foreign.map_or(Kind::Own(None), Kind::Foreign);
            world.peers.push(Peer {
                settings,
                kind,
                conn: None,
                begun: Duration::ZERO,
                again: AGAIN_MAX,
                end: None,
            });
        }
        world
    }

    /// Puts something on the agenda.
    pub(super) fn plan(&mut self, after: Duration, what: Happening) {
        self.happenings += 1;
        self.agenda.insert((self.now + after, self.happenings), what);
    }

    /// Runs until nothing more happens.
    pub(super) fn run(&mut self) {
        let mut count = 0;
        while let Some(((at, _), what)) = self.agenda.pop_first() {
            assert!(count < 1_000_000, "the world does not end");
            count += 1;
            self.now = at;
            match what {
                Happening::Connect(rank) => self.connect(rank),
                Happening::ToServer(wire) => self.arrive_at_server(wire),
                Happening::ToClient(wire) => self.arrive_at_client(wire),
                Happening::Limit(rank) => self.limit(rank),
                Happening::Fini(rank) => self.fini(rank),
                Happening::Break(rank) => self.break_wire(rank),
                Happening::ServerDies => self.die(),
                Happening::Tick => self.tell(Input::Tick),
            }
        }
    }

    fn connect(&mut self, rank: usize) {
        if self.peers[rank].end.is_some() {
            return;
        }
        if self.server.as_ref().is_none_or(Server::has_ended) {
            return self.end_peer(rank, PeerEnd::Lost);
        }
        let wire = self.wires.len();
        self.wires.push(Wire { rank, up: Lane::default(), down: Lane::default() });
        let peer = &mut self.peers[rank];
        peer.conn = Some(wire);
        match &mut peer.kind {
            Kind::Own(client) => *client = Some(Box::new(Client::new(peer.settings.clone()).unwrap())),
            Kind::Foreign(_) => self.send_up(wire, &command(Command::Auth, &[1])),
        }
        if self.peers[rank].again == AGAIN_MAX {
            self.peers[rank].begun = self.now;
            self.plan(CLIENT_LIMIT, Happening::Limit(rank));
        }
        self.tell(Input::Connected(ConnId(wire as u64), "a world"));
        self.drain(rank);
    }

    /// A time for a piece on a connection of this client.
    fn delay(&mut self, rank: usize) -> Duration {
        let most = self.paces[rank].delay_max;
        self.random.millis(most)
    }

    fn send_up(&mut self, wire: usize, bytes: &[u8]) {
        let lane = &mut self.wires[wire].up;
        if lane.end.is_none() {
            lane.bytes.extend(bytes);
            self.move_up(wire);
        }
    }

    fn move_up(&mut self, wire: usize) {
        let Wire { rank, up, .. } = &mut self.wires[wire];
        let rank = *rank;
        if !up.under_way && !up.is_over && (!up.bytes.is_empty() || up.end.is_some()) {
            up.under_way = true;
            let delay = self.delay(rank);
            self.plan(delay, Happening::ToServer(wire));
        }
    }

    fn move_down(&mut self, wire: usize) {
        let Wire { rank, down, .. } = &mut self.wires[wire];
        let rank = *rank;
        if !down.under_way && !down.is_over && (!down.bytes.is_empty() || down.end.is_some()) {
            down.under_way = true;
            let delay = self.delay(rank);
            self.plan(delay, Happening::ToClient(wire));
        }
    }

    /// The next piece of a lane.
    fn piece(&mut self, wire: usize, is_up: bool) -> Vec<u8> {
        let most = self.random.below(self.paces[self.wires[wire].rank].piece_max) as usize + 1;
        let wire = &mut self.wires[wire];
        let lane = if is_up { &mut wire.up } else { &mut wire.down };
        lane.under_way = false;
        let len = lane.bytes.len().min(most);
        lane.bytes.drain(..len).collect()
    }

    fn arrive_at_server(&mut self, wire: usize) {
        let piece = self.piece(wire, true);
        let id = ConnId(wire as u64);
        let lane = &mut self.wires[wire].up;
        if lane.is_over || self.server.is_none() {
            return;
        }
        if !piece.is_empty() {
            self.tell(Input::Received(id, &piece));
            return self.move_up(wire);
        }
        let Some(end) = lane.end else { return };
        lane.is_over = true;
        self.expect_loss(wire);
        self.tell(match end {
            WireEnd::Closed => Input::Closed(id),
            WireEnd::Lost => Input::Lost(id, "its connection has ended"),
        });
        if let Some(cause) = self.cause.clone().filter(|_| !self.all_are_done) {
            let (_, ended) = self.ended.as_ref().expect("a loss ends the session");
            assert_eq!(self.cause_of(ended), Some(cause));
        }
    }

    /// The model: the loss of a client that takes part, before its FINI, is a cause.
    fn expect_loss(&mut self, wire: usize) {
        let rank = self.wires[wire].rank;
        let takes_part = self.is_complete && self.joined[rank] == Some(wire) && !self.finished[rank];
        if takes_part && self.ended.is_none() {
            self.cause.get_or_insert(Cause::Lost(rank as u32));
        }
    }

    fn cause_of(&self, ended: &Result<(), Failure>) -> Option<Cause> {
        match ended {
            Ok(()) => None,
            Err(Failure::Lost { rank, .. }) => Some(Cause::Lost(*rank)),
            Err(Failure::Late { .. }) => Some(Cause::Late),
            Err(failure) => panic!("{failure}"),
        }
    }

    fn arrive_at_client(&mut self, wire: usize) {
        let piece = self.piece(wire, false);
        let rank = self.wires[wire].rank;
        let lane = &mut self.wires[wire].down;
        if lane.is_over {
            return;
        }
        let is_end = piece.is_empty();
        if is_end && lane.end.is_none() {
            return;
        }
        lane.is_over = is_end;
        self.move_down(wire);
        if self.peers[rank].conn != Some(wire) {
            return;
        }
        let done = match &mut self.peers[rank].kind {
            Kind::Own(Some(client)) if is_end => {
                client.handle(ClientInput::Lost("it has closed the connection"));
                return self.drain(rank);
            }
            Kind::Own(Some(client)) => {
                client.handle(ClientInput::Received(&piece));
                return self.drain(rank);
            }
            Kind::Own(None) => return,
            Kind::Foreign(_) if is_end => {
                self.close_client(rank);
                if self.peers[rank].end.is_none() {
                    self.end_peer(rank, PeerEnd::Lost);
                }
                return;
            }
            Kind::Foreign(foreign) => {
                let (bytes, done) = foreign.receive(rank as u32, &piece);
                self.send_up(wire, &bytes);
                done
            }
        };
        if done {
            self.end_peer(rank, PeerEnd::Done);
            self.plan_fini(rank);
        }
    }

    /// The job of a client lasts up to three days.
    fn plan_fini(&mut self, rank: usize) {
        let lasts = self.random.millis(3 * 24 * 3_600_000);
        self.plan(lasts, Happening::Fini(rank));
    }

    fn limit(&mut self, rank: usize) {
        if let Kind::Own(Some(client)) = &mut self.peers[rank].kind {
            client.handle(ClientInput::Late(CLIENT_LIMIT));
            self.drain(rank);
        } else if self.peers[rank].end.is_none() {
            self.close_client(rank);
            self.end_peer(rank, PeerEnd::Lost);
        }
    }

    fn fini(&mut self, rank: usize) {
        match &mut self.peers[rank].kind {
            Kind::Own(Some(client)) => {
                client.fini();
                self.drain(rank);
            }
            Kind::Own(None) => {}
            Kind::Foreign(_) => {
                if let Some(wire) = self.peers[rank].conn {
                    self.send_up(wire, &command(Command::Fini, &[]));
                }
            }
        }
        self.close_client(rank);
    }

    /// The client closes its connection, behind the bytes that it has sent.
    fn close_client(&mut self, rank: usize) {
        if let Some(wire) = self.peers[rank].conn.take() {
            self.wires[wire].up.end.get_or_insert(WireEnd::Closed);
            self.move_up(wire);
        }
    }

    fn break_wire(&mut self, rank: usize) {
        let Some(wire) = self.peers[rank].conn else { return };
        for is_up in [true, false] {
            let keeps = self.random.below(200) as usize;
            let lane = if is_up { &mut self.wires[wire].up } else { &mut self.wires[wire].down };
            lane.bytes.truncate(keeps);
            lane.end = Some(WireEnd::Lost);
        }
        self.move_up(wire);
        self.move_down(wire);
    }

    fn die(&mut self) {
        if self.ended.is_none() {
            (self.server, self.is_dead) = (None, true);
            for wire in 0..self.wires.len() {
                self.wires[wire].down.end = Some(WireEnd::Lost);
                self.move_down(wire);
            }
        }
    }

    fn end_peer(&mut self, rank: usize, end: PeerEnd) {
        let before = self.peers[rank].end.replace((self.now, end));
        assert!(before.is_none(), "client {rank} ends a second time: {before:?}");
    }

    /// Gives the server an input, and carries out its outputs.
    fn tell(&mut self, input: Input<'_>) {
        let Some(server) = &mut self.server else { return };
        server.handle(self.now, input);
        let outputs: Vec<Output> = std::iter::from_fn(|| server.next_output()).collect();
        let deadline = server.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "something is due");
        if let Some(at) = deadline {
            self.plan(at - self.now, Happening::Tick);
        }
        for output in outputs {
            assert!(self.ended.is_none(), "{output:?} comes after the end");
            match output {
                Output::Send(ConnId(wire), bytes) => {
                    let lane = &mut self.wires[wire as usize].down;
                    if lane.end.is_none() {
                        lane.bytes.extend(bytes);
                        self.move_down(wire as usize);
                    }
                }
                Output::Close(ConnId(wire)) => {
                    let wire = wire as usize;
                    self.wires[wire].up.is_over = true;
                    self.wires[wire].down.end.get_or_insert(WireEnd::Closed);
                    self.move_down(wire);
                }
                Output::Event(event) => self.observe(&event),
                Output::Ended(ended) => self.ended = Some((self.now, ended)),
            }
        }
    }

    fn observe(&mut self, event: &Event) {
        match event {
            Event::Joined(conn, rank) => self.joined[*rank as usize] = Some(conn.0 as usize),
            Event::Freed(rank, _) => self.joined[*rank as usize] = None,
            Event::Complete => self.is_complete = true,
            Event::AllDone => self.all_are_done = true,
            Event::Ended(rank) => self.finished[*rank as usize] = true,
            _ => {}
        }
    }

    /// Carries out the outputs of a client of this project, as the driver of a session does.
    fn drain(&mut self, rank: usize) {
        loop {
            let Kind::Own(Some(client)) = &mut self.peers[rank].kind else { return };
            let Some(output) = client.next_output() else { return };
            match output {
                ClientOutput::Send(bytes) => {
                    let wire = self.peers[rank].conn.expect("it sends while it is connected");
                    self.send_up(wire, &bytes);
                }
                ClientOutput::Event(_) => {}
                ClientOutput::Learned(learned) => {
                    self.end_peer(rank, PeerEnd::Learned(learned));
                    self.plan_fini(rank);
                }
                ClientOutput::Failed(fault) => {
                    assert_eq!(client.held(), 0, "a client that has failed holds nothing");
                    self.close_client(rank);
                    self.failed(rank, fault);
                }
            }
        }
    }

    fn failed(&mut self, rank: usize, fault: ClientFault) {
        let peer = &mut self.peers[rank];
        peer.kind = Kind::Own(None);
        let early = matches!(fault, ClientFault::Lost { stage: ClientStage::Auth | ClientStage::Impi, .. });
        if early && peer.again > 0 && self.now + AGAIN_PAUSE < peer.begun + CLIENT_LIMIT {
            peer.again -= 1;
            return self.plan(AGAIN_PAUSE, Happening::Connect(rank));
        }
        self.end_peer(rank, PeerEnd::Failed(fault));
    }

    /// Nothing is left when all has ended: the session has its first cause, and nobody holds anything.
    pub(super) fn check_end(&self) {
        if let Some(server) = &self.server {
            let (at, ended) = self.ended.as_ref().expect("the session has ended");
            assert_eq!((server.held(), server.deadline()), (0, None));
            let limit = Duration::from_secs(600);
            assert!(self.all_are_done || *at <= limit, "the session has lasted for {at:?}");
            let cause = self.cause.clone().or_else(|| (!self.all_are_done).then_some(Cause::Late));
            assert_eq!(self.cause_of(ended), cause);
            if self.cause_of(ended) == Some(Cause::Late) {
                assert_eq!(*at, limit);
            }
            for (number, wire) in self.wires.iter().enumerate() {
                assert!(wire.up.is_over, "connection {number} is still open");
            }
        }
        for (rank, peer) in self.peers.iter().enumerate() {
            let (at, end) = peer.end.as_ref().unwrap_or_else(|| panic!("client {rank} still waits"));
            assert!(*at <= peer.begun + CLIENT_LIMIT, "client {rank} has waited until {at:?}");
            if let PeerEnd::Failed(ClientFault::Late { .. }) = end {
                assert_eq!(*at, peer.begun + CLIENT_LIMIT);
            }
            if let Kind::Own(Some(client)) = &peer.kind {
                assert_eq!(client.held(), 0, "client {rank}");
            }
        }
    }
}
