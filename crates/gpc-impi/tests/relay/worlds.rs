//! Clients and the real server in memory, with nodes that lose some of what goes through them: all learn what they learn without nodes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::client::{Client, ClientInput, ClientOutput, ClientSettings, Learned, RelayInput, RelayOutput};
use gpc_impi::server::{Check, ConnId, Event, Failure, Input, Output, RelaySettings, Server, Settings};
use gpc_impi::wire::Label;
use proptest::prelude::*;

use crate::clusters::{client, node, open};

/// One client, and what is under way between it, the server and the other nodes.
struct Side {
    client: Client,
    has_node: bool,
    /// Whether its node runs: what is sent to it before waits.
    started: bool,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// What the driver is about to say of its node.
    node: VecDeque<RelayInput>,
    /// Relays that come late: the call counts them as lost.
    late: VecDeque<Bytes>,
    learned: Option<Learned>,
}

/// A call of the root's node.
struct Relaying {
    root: usize,
    label: Label,
    payload: Bytes,
    /// Whom it is still to reach, and whom it has.
    missing: Vec<usize>,
    mask: u32,
}

struct World {
    server: Server,
    sides: Vec<Side>,
    call: Option<Relaying>,
    events: Vec<Event>,
    /// Bytes that the server has sent.
    sent: usize,
    /// Bytes that the server holds when all are done.
    held: usize,
    ended: Option<Result<(), Failure>>,
}

/// What happens to a relay on its way to one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Reached,
    Late,
    Lost,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    ToServer(usize),
    ToClient(usize),
    Node(usize),
    /// A relay comes to a node, and the call knows.
    Reach(usize),
    /// The same, and the call does not know.
    Late(usize),
}

/// Choices of a run: which step, how many bytes, and the fate of each relay.
type Choices<'a> = &'a mut dyn Iterator<Item = (usize, usize, Fate)>;

impl World {
    fn new(clients: &[(ClientSettings, bool)], relay: bool) -> World {
        let relay = relay.then(|| RelaySettings::new("binomial", [7; 16]).unwrap());
        let settings =
            Settings { check: Check::Refuse, relay, ..Settings::new(clients.len() as u32, open()) };
        let side = |(settings, has_node): &(ClientSettings, bool)| Side {
            client: Client::new(settings.clone()).unwrap().relaying(),
            has_node: *has_node,
            started: false,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            node: VecDeque::new(),
            late: VecDeque::new(),
            learned: None,
        };
        let sides: Vec<Side> = clients.iter().map(side).collect();
        let server = Server::new(settings).unwrap();
        let mut world =
            World { server, sides, call: None, events: Vec::new(), sent: 0, held: 0, ended: None };
        for i in 0..world.sides.len() {
            world.tell(Input::Connected(ConnId(i as u64), "a test"));
        }
        world
    }

    fn tell(&mut self, input: Input<'_>) {
        self.server.handle(Duration::ZERO, input);
        while let Some(output) = self.server.next_output() {
            match output {
                Output::Send(conn, bytes) => {
                    self.sent += bytes.len();
                    self.sides[conn.0 as usize].to_client.extend(bytes);
                }
                Output::Close(_) => {}
                Output::Event(event) => self.events.push(event),
                Output::Ended(ended) => assert!(self.ended.replace(ended).is_none()),
            }
        }
    }

    fn give(&mut self, i: usize, input: ClientInput<'_>, choices: Choices<'_>) {
        self.sides[i].client.handle(input);
        self.drain(i, choices);
    }

    fn drain(&mut self, i: usize, choices: Choices<'_>) {
        while let Some(output) = self.sides[i].client.next_output() {
            let side = &mut self.sides[i];
            match output {
                ClientOutput::Send(bytes) => side.to_server.extend(bytes),
                ClientOutput::Event(_) => {}
                ClientOutput::Learned(learned) => assert!(side.learned.replace(*learned).is_none()),
                ClientOutput::Failed(fault) => panic!("client {i}: {fault}"),
                ClientOutput::Relay(RelayOutput::Listen) => {
                    let listens = side.has_node.then(|| node(i as u32));
                    side.node.push_back(RelayInput::Listens(listens));
                }
                ClientOutput::Relay(RelayOutput::Start { job, nodes, .. }) => {
                    assert_eq!(job, [7; 16]);
                    let expected = self.sides.iter().enumerate();
                    let expected: Vec<_> =
                        expected.map(|(i, side)| side.has_node.then(|| node(i as u32))).collect();
                    assert_eq!(nodes, expected);
                    self.sides[i].started = true;
                }
                ClientOutput::Relay(RelayOutput::Call(label, payload)) => {
                    self.call(i, label, &payload, choices);
                }
            }
        }
    }

    fn call(&mut self, root: usize, label: Label, payload: &Bytes, choices: Choices<'_>) {
        let mut missing = Vec::new();
        for i in (0..self.sides.len()).filter(|i| *i != root) {
            let side = &mut self.sides[i];
            match choices.next().unwrap().2 {
                _ if !side.has_node => {}
                Fate::Reached => missing.push(i),
                Fate::Late => side.late.push_back(payload.clone()),
                Fate::Lost => {}
            }
        }
        let call = Relaying { root, label, payload: payload.clone(), missing, mask: 0 };
        assert!(self.call.replace(call).is_none(), "one is under way at a time");
        self.end_call();
    }

    fn end_call(&mut self) {
        if let Some(call) = self.call.take_if(|call| call.missing.is_empty()) {
            self.sides[call.root].node.push_back(RelayInput::Reached(call.label, call.mask));
        }
    }

    fn steps(&self) -> Vec<Step> {
        let of = |(i, side): (usize, &Side)| {
            let to_server = (!side.to_server.is_empty()).then_some(Step::ToServer(i));
            let to_client = (!side.to_client.is_empty()).then_some(Step::ToClient(i));
            let node = (!side.node.is_empty()).then_some(Step::Node(i));
            let late = (side.started && !side.late.is_empty()).then_some(Step::Late(i));
            let missing = self.call.as_ref().is_some_and(|call| call.missing.contains(&i));
            let reach = (side.started && missing).then_some(Step::Reach(i));
            [to_server, to_client, node, late, reach].into_iter().flatten()
        };
        self.sides.iter().enumerate().flat_map(of).collect()
    }

    fn step(&mut self, step: Step, most: usize, choices: Choices<'_>) {
        match step {
            Step::ToServer(i) => {
                let bytes = cut(&mut self.sides[i].to_server, most);
                self.tell(Input::Received(ConnId(i as u64), &bytes));
            }
            Step::ToClient(i) => {
                let bytes = cut(&mut self.sides[i].to_client, most);
                // The driver takes what is in the queue of its node before bytes that it has read later.
                while let Some(became) = self.sides[i].node.pop_front() {
                    self.give(i, ClientInput::Relay(became), choices);
                }
                self.give(i, ClientInput::Received(&bytes), choices);
            }
            Step::Node(i) => {
                let became = self.sides[i].node.pop_front().unwrap();
                self.give(i, ClientInput::Relay(became), choices);
            }
            Step::Reach(i) => {
                let call = self.call.as_mut().unwrap();
                call.missing.retain(|missing| *missing != i);
                call.mask |= 1 << i;
                self.sides[i].node.push_back(RelayInput::Came(call.payload.clone()));
                self.end_call();
            }
            Step::Late(i) => {
                let payload = self.sides[i].late.pop_front().unwrap();
                self.sides[i].node.push_back(RelayInput::Came(payload));
            }
        }
    }

    /// Until nothing is under way, or `until` says so after a step.
    fn run(&mut self, choices: Choices<'_>, until: impl Fn(&World) -> bool) {
        for i in 0..self.sides.len() {
            self.drain(i, choices);
        }
        loop {
            let steps = self.steps();
            if steps.is_empty() || until(self) {
                return;
            }
            let (which, most, _) = choices.next().unwrap();
            self.step(steps[which % steps.len()], most, choices);
        }
    }

    /// A whole session, to the last FINI.
    fn session(mut self, choices: Choices<'_>) -> (Vec<Learned>, World) {
        self.run(choices, |_| false);
        assert!(self.ended.is_none(), "{:?}", self.ended);
        self.held = self.server.held();
        self.sides.iter_mut().for_each(|side| side.client.fini());
        self.run(choices, |_| false);
        assert_eq!(self.ended, Some(Ok(())));
        let learned = self.sides.iter_mut().map(|side| side.learned.take().unwrap()).collect();
        (learned, self)
    }
}

fn cut(bytes: &mut VecDeque<u8>, most: usize) -> Vec<u8> {
    bytes.drain(..most.min(bytes.len())).collect()
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![5 => Just(Fate::Reached), 1 => Just(Fate::Late), 1 => Just(Fate::Lost)]
}

/// Of each client: how many hosts, whether it has a node, and whether it knows the labels of this project.
fn any_clients() -> impl Strategy<Value = Vec<(u16, bool, bool)>> {
    let clients = prop_oneof![4 => 1usize..6, 1 => 6usize..=32];
    (clients, prop::bool::weighted(0.9)).prop_flat_map(|(clients, all_know)| {
        let one = (1u16..4, prop::bool::weighted(0.7), any::<bool>());
        prop::collection::vec(one.prop_map(move |(hosts, node, own)| (hosts, node, all_know || own)), clients)
    })
}

fn settings(clients: &[(u16, bool, bool)]) -> Vec<(ClientSettings, bool)> {
    let one = |(rank, (hosts, node, own)): (u32, &(u16, bool, bool))| (client(rank, *hosts, *own), *node);
    (0..).zip(clients).map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_learn_what_they_learn_without_nodes(
        clients in any_clients(),
        choices in prop::collection::vec((any::<usize>(), 1usize..5000, fate()), 1..300),
    ) {
        let settings = settings(&clients);
        let mut endless = choices.iter().copied().cycle();
        let (plain, beside) = World::new(&settings, false).session(&mut endless);
        let (relayed, world) = World::new(&settings, true).session(&mut endless);
        prop_assert_eq!(plain, relayed);
        // What is broadcast everywhere is not held any more.
        prop_assert_eq!(beside.held, world.held);
        // It did go through the nodes, wherever it could: all labels but the first.
        let nodes = clients.iter().filter(|(_, node, _)| *node).count();
        let known = clients.iter().all(|(.., own)| *own);
        let count = |which: fn(&Event) -> bool| world.events.iter().filter(|event| which(event)).count();
        let answered = count(|event| matches!(event, Event::Answered(..)));
        let through = count(|event| matches!(event, Event::Relayed { .. }));
        let without = count(|event| matches!(event, Event::Unrelayed(_)));
        match known && nodes > 1 {
            true => prop_assert_eq!((through, without), (answered - 1, 0)),
            false => prop_assert_eq!((through, without), (0, 1)),
        }
    }

    /// The only copy of REACHED is the root's: without it nobody knows who has the values, so that the session fails, and names it.
    #[test]
    fn a_root_that_is_lost_ends_the_session(
        clients in 3u32..8,
        calls in 0usize..10,
        choices in prop::collection::vec((any::<usize>(), 1usize..5000, fate()), 1..300),
    ) {
        let settings: Vec<_> = (0..clients).map(|rank| (client(rank, 1, true), rank > 0)).collect();
        let mut endless = choices.iter().copied().cycle();
        let mut world = World::new(&settings, true);
        // Client 1 is the root: the first one that has a node.
        let waits = |world: &World| {
            let through = world.events.iter().filter(|event| matches!(event, Event::Relayed { .. })).count();
            through == calls && world.sides[1].node.iter().any(|it| matches!(it, RelayInput::Reached(..)))
        };
        world.run(&mut endless, waits);
        prop_assert!(waits(&world), "{:?} {:?}", world.events, world.ended);
        world.tell(Input::Lost(ConnId(1), "it was killed"));
        let failure = world.ended.unwrap().unwrap_err().to_string();
        prop_assert!(failure.contains("client 1 was lost") && failure.contains("it was killed"), "{failure}");
        prop_assert_eq!(world.server.held(), 0);
    }
}

/// What a broadcast costs the server: the values once, where each client has a node.
#[test]
fn the_server_sends_values_once() {
    let settings: Vec<_> = (0..8).map(|rank| (client(rank, 50, true), true)).collect();
    let mut all = std::iter::repeat((0, usize::MAX, Fate::Reached));
    let (_, plain) = World::new(&settings, false).session(&mut all);
    let (_, relayed) = World::new(&settings, true).session(&mut all);
    let values: usize = plain
        .events
        .iter()
        .map(|event| if let Event::Answered(_, _, len) = event { 16 + len } else { 0 })
        .sum();
    // AUTH, IMPI, DONE, and C_VERSION, of 16 bytes each client.
    let beside = 8 * (8 + 12 + 8);
    assert_eq!(plain.sent, beside + 8 * values);
    let version = 16 + 8 * 16;
    let asked = 8 * (8 + "binomial".len()) + 8 * (8 + 16 + 8 * 52);
    assert_eq!(relayed.sent, beside + asked + 7 * version + values);
}

/// A root that does not say whom it has reached is named when the time is over.
#[test]
fn a_silent_root_is_named() {
    let settings: Vec<_> = (0..3).map(|rank| (client(rank, 1, true), true)).collect();
    let mut all = std::iter::repeat((0, usize::MAX, Fate::Reached));
    let mut world = World::new(&settings, true);
    let waits = |world: &World| world.sides[0].node.iter().any(|it| matches!(it, RelayInput::Reached(..)));
    world.run(&mut all, waits);
    assert!(waits(&world));
    world.server.handle(Duration::from_secs(600), Input::Tick);
    let ended = std::iter::from_fn(|| world.server.next_output()).last();
    let Some(Output::Ended(Err(failure))) = ended else { panic!("{ended:?}") };
    let text = failure.to_string();
    assert!(text.contains("waits for client 0, which passes label C_NHOSTS on"), "{text}");
}
