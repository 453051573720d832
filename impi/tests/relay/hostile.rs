//! Clients and servers that say what they should not of nodes, as tables.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::client::{Client, ClientInput, ClientOutput, RelayInput, RelayOutput};
use gpc_impi::server::{Check, ConnId, Event, Failure, Input, Output, RelaySettings, Server, Settings};
use gpc_impi::wire::{Command, Label, Method, NodeAt, Relay, Version, coll, command, server_auth};

use proptest::prelude::*;

use crate::clusters::{client, node, open};

/// How far a session has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// All have joined.
    Joined,
    /// The server has sent RELAY.
    Asked,
    /// Clients 0 and 1 have nodes, client 2 has none.
    On,
    /// Client 0 passes on C_NHOSTS.
    UnderWay,
    /// All are done.
    Over,
}

/// A server with three clients that say whatever a test wants.
struct Served {
    server: Server,
    sent: BTreeMap<u64, Vec<u8>>,
    events: Vec<Event>,
    ended: Option<Result<(), Failure>>,
}

fn number(label: Label, number: u32) -> Bytes {
    coll(label, None, [&number.to_be_bytes()[..]])
}

fn versions(list: &[Version]) -> Bytes {
    coll(Label::C_VERSION, None, [&Version::to_bytes(list)[..]])
}

const BOTH: [Version; 2] = [Version::MANDATORY, Version::OWN];

impl Served {
    fn joined(relay: bool) -> Served {
        let relay = relay.then(|| RelaySettings::new("flat", [7; 16]).unwrap());
        let settings = Settings { relay, check: Check::Off, ..Settings::new(3, open()) };
        let server = Server::new(settings).unwrap();
        let mut served = Served { server, sent: BTreeMap::new(), events: Vec::new(), ended: None };
        for rank in 0..3 {
            served.tell(Input::Connected(ConnId(rank), "a test"));
            served.say(rank, &command(Command::Auth, &[1]));
            served.say(rank, &command(Command::Impi, &[rank as u32]));
        }
        served
    }

    fn at(stage: Stage) -> Served {
        let mut served = Served::joined(true);
        if stage >= Stage::Asked {
            (0..3).for_each(|rank| served.say(rank, &versions(&BOTH)));
        }
        if stage >= Stage::On {
            (0..3).for_each(|rank| {
                let node = (rank < 2).then(|| node(rank as u32));
                served.say(rank, &Relay::Node(node).to_bytes());
            });
        }
        if stage >= Stage::UnderWay {
            (0..3).for_each(|rank| served.say(rank, &number(Label::C_NHOSTS, 1)));
        }
        if stage >= Stage::Over {
            (0..3).for_each(|rank| served.say(rank, &command(Command::Done, &[])));
            // C_NHOSTS, and the known labels that nobody has sent.
            for label in Label::KNOWN.into_iter().skip(1) {
                served.say(0, &Relay::Reached(label, 3).to_bytes());
            }
        }
        assert_eq!(served.ended, None);
        served
    }

    fn tell(&mut self, input: Input<'_>) {
        self.tell_at(Duration::ZERO, input);
    }

    /// Time passes, as long as the server is patient.
    fn wait(&mut self) {
        self.tell_at(self.server.deadline().unwrap(), Input::Tick);
    }

    fn tell_at(&mut self, now: Duration, input: Input<'_>) {
        self.server.handle(now, input);
        while let Some(output) = self.server.next_output() {
            match output {
                Output::Send(conn, bytes) => self.sent.entry(conn.0).or_default().extend(bytes),
                Output::Close(_) => {}
                Output::Event(event) => self.events.push(event),
                Output::Ended(ended) => assert!(self.ended.replace(ended).is_none()),
            }
        }
    }

    fn say(&mut self, rank: u64, bytes: &[u8]) {
        self.tell(Input::Received(ConnId(rank), bytes));
    }

    fn take(&mut self, rank: u64) -> Vec<u8> {
        self.sent.remove(&rank).unwrap_or_default()
    }
}

/// A command with a payload that is none.
fn raw(said: &Relay, payload: &[u8]) -> Bytes {
    let mut bytes = said.to_bytes()[..4].to_vec();
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes.into()
}

#[test]
fn clients_that_say_what_they_should_not_break_the_protocol() {
    let reached = |label, mask| Relay::Reached(label, mask).to_bytes();
    let c_nhosts = Label::C_NHOSTS;
    let cases: Vec<(Stage, u64, Bytes, &str)> = vec![
        (Stage::Joined, 0, Relay::Node(None).to_bytes(), "NODE when it was not asked for"),
        (Stage::Joined, 0, reached(c_nhosts, 1), "REACHED when it was not asked for"),
        (Stage::Asked, 1, reached(c_nhosts, 2), "REACHED, when another command was asked for"),
        (Stage::Asked, 1, raw(&Relay::Node(None), &[0; 52]), "listens at ::, port 0"),
        (Stage::Asked, 1, raw(&Relay::Node(None), &[1; 52]), "port 16843009"),
        (Stage::Asked, 1, raw(&Relay::Node(None), &[1; 51]), "NODE with 51 bytes"),
        (Stage::Asked, 1, Relay::Tree("flat".into()).to_bytes(), "RELAY, when another command"),
        (Stage::Asked, 1, Relay::Nodes { job: [0; 16], nodes: vec![] }.to_bytes(), "NODES, when another"),
        (Stage::On, 0, Relay::Node(Some(node(0))).to_bytes(), "NODE when it was not asked for"),
        (Stage::On, 2, Relay::Node(Some(node(2))).to_bytes(), "NODE when it was not asked for"),
        (Stage::On, 0, reached(c_nhosts, 1), "REACHED when it was not asked for"),
        (Stage::UnderWay, 1, reached(c_nhosts, 3), "REACHED when it was not asked for"),
        (Stage::UnderWay, 0, reached(c_nhosts, 2), "REACHED with mask 0x2"),
        (Stage::UnderWay, 0, reached(c_nhosts, 0), "REACHED with mask 0x0"),
        (Stage::UnderWay, 0, reached(c_nhosts, 7), "REACHED with mask 0x7"),
        (Stage::UnderWay, 0, reached(c_nhosts, 0x8000_0001), "REACHED with mask 0x80000001"),
        (Stage::UnderWay, 0, reached(Label::H_PORT, 3), "REACHED of label H_PORT"),
        (Stage::UnderWay, 0, raw(&Relay::Reached(c_nhosts, 3), &[0; 7]), "REACHED with 7 bytes"),
        (Stage::UnderWay, 0, Relay::Broadcast(Bytes::from_static(&[0; 8])).to_bytes(), "BROADCAST, when"),
        (Stage::Over, 0, reached(c_nhosts, 3), "REACHED when it was not asked for"),
    ];
    for (stage, rank, bytes, words) in cases {
        let mut served = Served::at(stage);
        served.say(rank, &bytes);
        let told: String = served.events.iter().map(|event| format!("{event}\n")).collect();
        let failure = match (&served.ended, stage) {
            (Some(Err(failure)), Stage::Asked | Stage::On | Stage::UnderWay) => failure.to_string(),
            // Before all have joined... they have: it is one client's fault, and ends the session.
            (Some(Err(failure)), Stage::Joined) => failure.to_string(),
            (None, Stage::Over) => told,
            (ended, _) => panic!("{stage:?}, {words}: {ended:?}"),
        };
        assert!(failure.contains(words), "{stage:?}: {failure} has not: {words}");
        assert!(failure.contains(&format!("client {rank} ")), "{failure}");
        assert!(stage == Stage::Over || served.server.held() == 0);
    }
}

/// Who has something to say does not leave.
#[test]
fn fini_does_not_take_the_place_of_what_was_asked() {
    for (stage, rank) in [(Stage::Asked, 2), (Stage::UnderWay, 0)] {
        let mut served = Served::at(stage);
        served.say(rank, &command(Command::Done, &[]));
        served.say(rank, &command(Command::Fini, &[]));
        let failure = served.ended.unwrap().unwrap_err().to_string();
        assert!(failure.contains("FINI before"), "{failure}");
    }
}

/// A server that was not told to relay knows nothing of these commands, and one whose clients do not all know them does not ask.
#[test]
fn without_relay_there_is_none() {
    let mut served = Served::joined(false);
    (0..3).for_each(|rank| served.say(rank, &versions(&BOTH)));
    served.say(0, &Relay::Node(None).to_bytes());
    assert!(matches!(served.events.last(), Some(Event::Ignored(0, 0x4750_4E31, 0))), "{:?}", served.events);
    let mut served = Served::joined(true);
    let before: Vec<usize> = (0..3).map(|rank| served.take(rank).len()).collect();
    assert_eq!(before, [20, 20, 20]);
    served.say(0, &versions(&BOTH));
    served.say(1, &versions(&BOTH));
    // One that leaves C_VERSION out, and waits for its next label as the others do for that.
    served.say(2, &number(Label::C_NHOSTS, 1));
    served.wait();
    assert!(served.events.contains(&Event::Unrelayed(vec![2])), "{:?}", served.events);
    assert_eq!(served.take(0).len(), 16 + 32);
    served.say(0, &number(Label::C_NHOSTS, 1));
    served.say(1, &number(Label::C_NHOSTS, 1));
    assert_eq!(served.take(1).len(), 16 + 32 + 16 + 12);
}

/// The bytes of a session, one after the other.
#[test]
fn what_is_sent_byte_for_byte() {
    let mut served = Served::at(Stage::Asked);
    let relay = [&b"GPR1"[..], &[0, 0, 0, 4], b"flat"].concat();
    (0..3).for_each(|rank| assert!(served.take(rank).ends_with(&relay)));
    served.say(
        0,
        &[&b"GPN1"[..], &[0, 0, 0, 52], &[0; 10], &[255, 255, 127, 0, 0, 1, 0, 0, 0x13, 0x88], &[1; 32]]
            .concat(),
    );
    served.say(
        1,
        &[&b"GPN1"[..], &[0, 0, 0, 52], &[0; 10], &[255, 255, 127, 0, 0, 1, 0, 0, 0x13, 0x89], &[2; 32]]
            .concat(),
    );
    assert_eq!(served.take(2), []);
    served.say(2, &[&b"GPN1"[..], &[0, 0, 0, 0]].concat());
    let nodes = [
        &b"GPL1"[..],
        &[0, 0, 0, 172],
        &[7; 16],
        &[0; 10],
        &[255, 255, 127, 0, 0, 1, 0, 0, 0x13, 0x88],
        &[1; 32],
        &[0; 10],
        &[255, 255, 127, 0, 0, 1, 0, 0, 0x13, 0x89],
        &[2; 32],
        &[0; 52],
    ]
    .concat();
    (0..3).for_each(|rank| assert_eq!(served.take(rank), nodes));
    (0..3).for_each(|rank| served.say(rank, &number(Label::C_NHOSTS, 1)));
    let payload = [&[0, 0, 0x11, 0, 0, 0, 0, 7][..], &[0, 0, 0, 1], &[0, 0, 0, 1], &[0, 0, 0, 1]].concat();
    assert_eq!(served.take(0), [&b"GPB1"[..], &[0, 0, 0, 20], &payload].concat());
    assert_eq!(served.take(1), []);
    assert_eq!(served.take(2), [&b"COLL"[..], &[0, 0, 0, 20], &payload].concat());
    // Client 1 was not reached.
    served.say(0, &[&b"GPD1"[..], &[0, 0, 0, 8], &[0, 0, 0x11, 0], &[0, 0, 0, 1]].concat());
    assert_eq!(served.take(0), []);
    assert_eq!(served.take(1), [&b"COLL"[..], &[0, 0, 0, 20], &payload].concat());
}

/// A client of two, whose server says whatever a test wants; its own rank is 0.
struct Lied {
    client: Client,
    wants: Vec<RelayOutput>,
    ended: Option<String>,
}

/// How far a client has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum At {
    /// It has sent C_VERSION.
    Version,
    /// All know these commands, and it has sent C_NHOSTS.
    Hosts,
    /// RELAY has come, and the driver has said nothing yet.
    Asked,
    /// It has sent NODE.
    Told,
    /// NODES has come.
    On,
    /// It passes on C_NHOSTS.
    Calling,
}

impl Lied {
    fn at(at: At, own_node: bool) -> Lied {
        let client = Client::new(client(0, 1, true)).unwrap().relaying();
        let mut lied = Lied { client, wants: Vec::new(), ended: None };
        lied.say(&server_auth(Method::None));
        lied.say(&command(Command::Impi, &[2]));
        let listens = own_node.then(|| node(0));
        if at >= At::Hosts {
            lied.say(&answer(Label::C_VERSION, 3, &Version::to_bytes(&[BOTH, BOTH].concat())));
        }
        if at >= At::Asked {
            lied.say(&Relay::Tree("chain".into()).to_bytes());
            assert!(matches!(lied.wants.pop(), Some(RelayOutput::Listen)));
        }
        if at >= At::Told {
            lied.give(ClientInput::Relay(RelayInput::Listens(listens)));
        }
        if at >= At::On {
            lied.say(&nodes(listens, 2));
            assert_eq!(matches!(lied.wants.pop(), Some(RelayOutput::Start { .. })), own_node);
        }
        if at >= At::Calling {
            lied.say(&Relay::Broadcast(hosts()).to_bytes());
            assert!(matches!(lied.wants.pop(), Some(RelayOutput::Call(Label::C_NHOSTS, _))));
        }
        assert_eq!(lied.ended, None);
        lied
    }

    fn say(&mut self, bytes: &[u8]) {
        self.give(ClientInput::Received(bytes));
    }

    fn give(&mut self, input: ClientInput<'_>) {
        self.client.handle(input);
        while let Some(output) = self.client.next_output() {
            match output {
                ClientOutput::Relay(output) => self.wants.push(output),
                ClientOutput::Failed(fault) => assert!(self.ended.replace(fault.to_string()).is_none()),
                ClientOutput::Learned(learned) => panic!("{learned:?}"),
                ClientOutput::Send(_) | ClientOutput::Event(_) => {}
            }
        }
    }
}

fn answer(label: Label, mask: u32, values: &[u8]) -> Bytes {
    coll(label, Some(mask), [values])
}

/// The payload of C_NHOSTS: one host each.
fn hosts() -> Bytes {
    answer(Label::C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 1]).slice(8..)
}

fn nodes(own: Option<NodeAt>, entries: usize) -> Bytes {
    let mut nodes = vec![Some(node(1)); entries];
    if let Some(first) = nodes.first_mut() {
        *first = own;
    }
    Relay::Nodes { job: [7; 16], nodes }.to_bytes()
}

#[test]
fn servers_that_say_what_they_should_not_break_the_protocol() {
    let tree = |name: &str| Relay::Tree(name.into()).to_bytes();
    let broadcast = || Relay::Broadcast(hosts()).to_bytes();
    let cases: Vec<(At, bool, Bytes, &str)> = vec![
        (At::Hosts, true, tree("oak"), "names the tree `oak`"),
        (At::Hosts, true, tree("file:/etc/passwd"), "names the tree `file:/etc/passwd`"),
        (At::Hosts, true, nodes(None, 2), "NODES, which has no place there"),
        (At::Hosts, true, broadcast(), "BROADCAST, which has no place there"),
        (At::Hosts, true, Relay::Node(None).to_bytes(), "NODE, which has no place there"),
        (At::Hosts, true, Relay::Reached(Label::C_NHOSTS, 3).to_bytes(), "REACHED, which has no place"),
        (At::Asked, true, tree("chain"), "RELAY, which has no place there"),
        (At::Asked, true, nodes(None, 2), "NODES, which has no place there"),
        (At::Told, true, tree("chain"), "RELAY, which has no place there"),
        (At::Told, true, broadcast(), "BROADCAST, which has no place there"),
        (At::Told, true, nodes(Some(node(0)), 3), "NODES has 3 entries"),
        (At::Told, true, nodes(None, 0), "NODES has 0 entries"),
        (At::Told, true, nodes(None, 2), "NODES has 2 entries"),
        (At::Told, false, nodes(Some(node(0)), 2), "NODES has 2 entries"),
        (At::Told, true, raw(&Relay::Nodes { job: [0; 16], nodes: vec![] }, &[1; 17]), "NODES with 17 bytes"),
        (At::On, true, nodes(Some(node(0)), 2), "NODES, which has no place there"),
        (At::On, false, broadcast(), "BROADCAST, which has no place there"),
        (At::On, true, raw(&Relay::Broadcast(Bytes::new()), &[0; 7]), "BROADCAST with 7 bytes"),
        // What it carries is judged as a COLL is.
        (
            At::On,
            true,
            Relay::Broadcast(answer(Label::C_NHOSTS, 2, &[0; 4]).slice(8..)).to_bytes(),
            "without client 0",
        ),
        (
            At::On,
            true,
            Relay::Broadcast(answer(Label::C_NHOSTS, 7, &[0; 12]).slice(8..)).to_bytes(),
            "there are 2 clients",
        ),
        (At::Calling, true, broadcast(), "BROADCAST, which has no place there"),
        (
            At::Calling,
            true,
            answer(Label::C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 2]),
            "COLL C_NHOSTS again, without the values of more clients",
        ),
        (
            At::Hosts,
            true,
            answer(Label::C_VERSION, 3, &Version::to_bytes(&[BOTH, BOTH].concat())),
            "COLL C_VERSION again, without the values of more clients",
        ),
    ];
    for (at, own_node, bytes, words) in cases {
        let mut lied = Lied::at(at, own_node);
        lied.say(&bytes);
        let Some(ended) = lied.ended else { panic!("{at:?}, {words}: it goes on") };
        assert!(ended.contains(words), "{at:?}: {ended} has not: {words}");
        assert!(lied.wants.is_empty(), "{words}: {:?}", lied.wants);
    }
}

/// A client that does not know whether all others know these commands leaves them alone, as any that it does not know.
#[test]
fn before_all_are_known_to_know_them_commands_are_left_alone() {
    let mut lied = Lied::at(At::Version, true);
    lied.say(&Relay::Tree("oak".into()).to_bytes());
    lied.say(&nodes(None, 9));
    assert!(lied.ended.is_none() && lied.wants.is_empty());
}

/// The same broadcast may come through the tree and from the server, in either order; from its node nothing else is taken than from the server.
#[test]
fn what_comes_to_the_node_is_judged_as_what_the_server_says() {
    let came = |lied: &mut Lied, payload: Bytes| lied.give(ClientInput::Relay(RelayInput::Came(payload)));
    let whole = answer(Label::C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 1]);
    for first_by_node in [true, false] {
        let mut lied = Lied::at(At::On, true);
        for by_node in [first_by_node, !first_by_node, true, false] {
            match by_node {
                true => came(&mut lied, hosts()),
                false => lied.say(&whole),
            }
        }
        assert_eq!(lied.ended, None);
        came(&mut lied, answer(Label::C_NHOSTS, 3, &[0, 0, 0, 1, 0, 0, 0, 9]).slice(8..));
        assert!(lied.ended.is_some_and(|ended| ended.contains("C_NHOSTS again, without")));
    }
    for (payload, words) in [
        (Bytes::from_static(&[0; 7]), "COLL with 7 bytes"),
        (answer(Label::H_PORT, 3, &[]).slice(8..), "H_PORT before this client has sent it"),
        (Bytes::from(vec![0; (1 << 30) + 1]), "COLL with a length of 1073741825"),
    ] {
        let mut lied = Lied::at(At::On, true);
        came(&mut lied, payload);
        let ended = lied.ended.unwrap();
        assert!(ended.contains(words), "{ended}");
    }
    // Where nothing goes through nodes, nothing is taken from them.
    let mut lied = Lied::at(At::Told, true);
    came(&mut lied, Bytes::from_static(&[0; 7]));
    came(&mut lied, hosts());
    assert_eq!(lied.ended, None);
}

/// Only what is asked for is said: a driver that is late with its answer does not break the session.
#[test]
fn what_the_driver_says_late_is_left_alone() {
    let mut lied = Lied::at(At::On, true);
    lied.give(ClientInput::Relay(RelayInput::Reached(Label::C_NHOSTS, 2)));
    lied.give(ClientInput::Relay(RelayInput::Listens(None)));
    lied.say(&Relay::Broadcast(hosts()).to_bytes());
    assert!(matches!(lied.wants[..], [RelayOutput::Call(Label::C_NHOSTS, _)]));
    lied.give(ClientInput::Relay(RelayInput::Reached(Label::H_PORT, 2)));
    assert_eq!(lied.ended, None);
}

#[test]
fn a_tree_is_a_built_in_one() {
    for tree in ["binary", "binomial", "kary:4", "knomial:3", "chain", "flat"] {
        assert!(RelaySettings::new(tree, [1; 16]).is_ok(), "{tree}");
    }
    for tree in ["", "oak", "kary:0", "file:tree.txt", "hosts+binary", "hosts:f+binary", "binary "] {
        let error = RelaySettings::new(tree, [1; 16]).unwrap_err().to_string();
        assert!(error.contains("binomial"), "{error}");
    }
}

/// Anything that three clients, or a server, might say, in any order.
fn anything() -> impl Strategy<Value = Bytes> {
    let label = prop::sample::select(vec![Label::C_VERSION, Label::C_NHOSTS, Label::H_PORT, Label(0x9000)]);
    let at = |rank: u32| prop_oneof![Just(None), Just(Some(node(rank)))];
    prop_oneof![
        3 => Just(versions(&BOTH)),
        3 => label.clone().prop_map(|label| number(label, 1)),
        3 => label.clone().prop_map(|label| answer(label, 3, &[0, 0, 0, 1, 0, 0, 0, 1])),
        2 => Just(answer(Label::C_VERSION, 3, &Version::to_bytes(&[BOTH, BOTH].concat()))),
        2 => (0u32..3).prop_flat_map(at).prop_map(|node| Relay::Node(node).to_bytes()),
        3 => (label, 0u32..9).prop_map(|(label, mask)| Relay::Reached(label, mask).to_bytes()),
        2 => Just(Relay::Tree("binary".into()).to_bytes()),
        2 => (at(0), 1usize..4).prop_map(|(own, entries)| nodes(own, entries)),
        2 => Just(Relay::Broadcast(hosts()).to_bytes()),
        1 => Just(command(Command::Done, &[])),
        1 => Just(command(Command::Fini, &[])),
        1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(which, payload)| {
            let all = [Relay::Node(None), Relay::Reached(Label::NONE, 0), Relay::Tree("a".into())];
            raw(&all[usize::from(which) % 3], &payload)
        }),
    ]
}

proptest! {
    /// Both machines end or go on; what they hold is bounded by what has come, and gone at the end.
    #[test]
    fn whatever_comes_in_whatever_order(
        said in prop::collection::vec((0u64..3, anything()), 0..40),
        own_node in any::<bool>(),
    ) {
        let mut served = Served::at(if own_node { Stage::Asked } else { Stage::Joined });
        let mut came = 0;
        for (rank, bytes) in &said {
            served.say(*rank, bytes);
            came += bytes.len();
            // A broadcast has a head of its own, and a mask.
            prop_assert!(served.server.held() <= 2 * came + 300);
        }
        served.tell(Input::Lost(ConnId(0), "gone"));
        served.server.handle(Duration::from_secs(600), Input::Tick);
        prop_assert_eq!(served.server.held(), 0);
        let mut lied = Lied::at(if own_node { At::Told } else { At::Version }, own_node);
        for (_, bytes) in &said {
            if lied.ended.is_none() {
                lied.say(bytes);
            }
            if let Some(RelayOutput::Call(label, payload)) = lied.wants.pop() {
                lied.give(ClientInput::Relay(RelayInput::Came(payload)));
                lied.give(ClientInput::Relay(RelayInput::Reached(label, 2)));
            }
        }
    }
}
