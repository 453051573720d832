//! Clients with the real server, in memory: the bytes arrive in any order and in any pieces.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::client::{Client, ClientEvent, ClientInput, ClientOutput, ClientSettings, Learned};
use gpc_impi::server::{Check, ConnId, Input, Output, Server, Settings};
use gpc_impi::wire::{Command, Frame, Label, Methods, Reader, coll, command};

/// A client of a session.
pub(crate) enum Peer {
    Own(Box<Client>),
    Foreign(Foreign),
}

impl Peer {
    pub(crate) fn own(settings: ClientSettings) -> Peer {
        Peer::Own(Box::new(Client::new(settings).unwrap()))
    }
}

/// A client of another implementation: it sends its labels in an order of its own.
pub(crate) struct Foreign {
    rank: u32,
    reader: Reader,
    /// The labels that it is still to send, in order.
    labels: VecDeque<(Label, Vec<u8>)>,
    /// Whether it sends each label after the broadcast of the one before.
    waits: bool,
    /// The masks of the broadcasts of each label, in order.
    pub(crate) masks: BTreeMap<Label, Vec<u32>>,
    /// The last broadcast of each label: the mask and the values.
    pub(crate) answers: BTreeMap<Label, (u32, Bytes)>,
    to_server: Vec<u8>,
}

impl Foreign {
    pub(crate) fn new(rank: u32, labels: impl IntoIterator<Item = (Label, Vec<u8>)>, waits: bool) -> Foreign {
        let mut reader = Reader::new();
        reader.expect_raw(8);
        Foreign {
            rank,
            reader,
            labels: labels.into_iter().collect(),
            waits,
            masks: BTreeMap::new(),
            answers: BTreeMap::new(),
            to_server: command(Command::Auth, &[1]).to_vec(),
        }
    }

    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.reader.take(&mut bytes, |_| 1 << 20).unwrap() {
                Some(Frame::Raw(_)) => self.send(&command(Command::Impi, &[self.rank])),
                Some(Frame::Command(Command::Impi, _)) => self.go_on(),
                Some(Frame::Command(Command::Coll, payload)) => self.answered(payload),
                Some(Frame::Command(Command::Done, _)) => self.send(&command(Command::Fini, &[])),
                Some(frame) => panic!("{frame:?}"),
                None => {}
            }
        }
    }

    fn answered(&mut self, payload: Bytes) {
        let [label, mask] = [0, 4].map(|at| u32::from_be_bytes(*payload[at..].first_chunk().unwrap()));
        let label = Label(label);
        let was_waited_for = self.labels.front().is_some_and(|(first, _)| *first == label);
        let before = self.answers.insert(label, (mask, payload.slice(8..)));
        if let Some((before, _)) = before {
            assert!(before & !mask == 0 && before != mask, "COLL {label} has {mask:#x} after {before:#x}");
        }
        self.masks.entry(label).or_default().push(mask);
        if self.waits && was_waited_for && mask >> self.rank & 1 == 1 {
            self.labels.pop_front();
            self.go_on();
        }
    }

    /// Sends the next label, or all of them, and DONE after the last one.
    fn go_on(&mut self) {
        while let Some((label, values)) = self.labels.front() {
            let bytes = coll(*label, None, [&values[..]]);
            self.send(&bytes);
            if self.waits {
                return;
            }
            self.labels.pop_front();
        }
        self.send(&command(Command::Done, &[]));
    }

    fn send(&mut self, bytes: &[u8]) {
        self.to_server.extend_from_slice(bytes);
    }
}

/// One client, and the bytes in transit between it and the server.
pub(crate) struct Side {
    pub(crate) peer: Peer,
    connected: bool,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    pub(crate) events: Vec<ClientEvent>,
    pub(crate) learned: Option<Learned>,
}

pub(crate) struct World {
    server: Server,
    limit: Duration,
    now: Duration,
    pub(crate) sides: Vec<Side>,
    pub(crate) ended: bool,
}

/// A possible next step.
#[derive(Clone, Copy)]
enum Step {
    Connect(usize),
    ToServer(usize),
    ToClient(usize),
}

impl World {
    /// A session of these clients, by rank.
    pub(crate) fn new(peers: Vec<Peer>, methods: Methods) -> World {
        let settings = Settings { check: Check::Refuse, ..Settings::new(peers.len() as u32, methods) };
        let side = |peer| Side {
            peer,
            connected: false,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            events: Vec::new(),
            learned: None,
        };
        let sides = peers.into_iter().map(side).collect();
        let limit = settings.limit;
        World { server: Server::new(settings).unwrap(), limit, now: Duration::ZERO, sides, ended: false }
    }

    /// Runs until no bytes are in transit, and the server waits for no deadline. Each choice is a next step, and the
    /// most bytes that it moves.
    pub(crate) fn run(&mut self, choices: &mut impl Iterator<Item = (usize, usize)>) {
        loop {
            let steps = self.steps();
            if steps.is_empty() {
                match self.server.deadline().filter(|deadline| *deadline < self.limit) {
                    Some(deadline) => self.now = deadline,
                    None => return,
                }
                self.tell(Input::Tick);
                continue;
            }
            let (which, most) = choices.next().unwrap();
            self.step(steps[which % steps.len()], most);
        }
    }

    /// The processes of this client have ended. A foreign client sends FINI on its own.
    pub(crate) fn fini(&mut self, i: usize) {
        if let Peer::Own(client) = &mut self.sides[i].peer {
            client.fini();
        }
        self.drain(i);
    }

    fn steps(&self) -> Vec<Step> {
        let of = |(i, side): (usize, &Side)| {
            let connect = (!side.connected).then_some(Step::Connect(i));
            let to_server = (side.connected && !side.to_server.is_empty()).then_some(Step::ToServer(i));
            let to_client = (!side.to_client.is_empty()).then_some(Step::ToClient(i));
            [connect, to_server, to_client].into_iter().flatten()
        };
        self.sides.iter().enumerate().flat_map(of).collect()
    }

    fn step(&mut self, step: Step, most: usize) {
        match step {
            Step::Connect(i) => {
                self.sides[i].connected = true;
                self.tell(Input::Connected(ConnId(i as u64), "a test"));
                self.drain(i);
            }
            Step::ToServer(i) => {
                let bytes = cut(&mut self.sides[i].to_server, most);
                self.tell(Input::Received(ConnId(i as u64), &bytes));
            }
            Step::ToClient(i) => {
                let bytes = cut(&mut self.sides[i].to_client, most);
                match &mut self.sides[i].peer {
                    Peer::Own(client) => client.handle(ClientInput::Received(&bytes)),
                    Peer::Foreign(client) => client.receive(&bytes),
                }
                self.drain(i);
            }
        }
    }

    fn tell(&mut self, input: Input<'_>) {
        self.server.handle(self.now, input);
        while let Some(output) = self.server.next_output() {
            match output {
                Output::Send(conn, bytes) => self.sides[conn.0 as usize].to_client.extend(bytes),
                Output::Close(_) | Output::Event(_) => {}
                Output::Ended(ended) => {
                    assert_eq!(ended, Ok(()));
                    self.ended = true;
                }
            }
        }
    }

    fn drain(&mut self, i: usize) {
        let side = &mut self.sides[i];
        let client = match &mut side.peer {
            Peer::Own(client) => client,
            Peer::Foreign(client) => return side.to_server.extend(client.to_server.drain(..)),
        };
        while let Some(output) = client.next_output() {
            match output {
                ClientOutput::Send(bytes) => side.to_server.extend(bytes),
                ClientOutput::Event(event) => side.events.push(event),
                ClientOutput::Learned(learned) => assert!(side.learned.replace(*learned).is_none()),
                ClientOutput::Failed(fault) => panic!("client {i}: {fault}"),
            }
        }
    }
}

fn cut(bytes: &mut VecDeque<u8>, most: usize) -> Vec<u8> {
    bytes.drain(..most.min(bytes.len())).collect()
}
