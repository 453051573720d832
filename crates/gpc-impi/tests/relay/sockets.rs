//! Real servers, clients and nodes on loopback: what the server sends, and what happens when a node does not take part.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Address, Functions, Job, Node, Peers, PrivateKey, Secret};
use gpc_impi::RelayOptions;
use gpc_impi::client::{
    Client, ClientInput, ClientOutput, ClientSettings, Learned, RelayInput, RelayOutput, from_ip,
};
use gpc_impi::serve::Listener;
use gpc_impi::server::{Event, RelaySettings, Settings};
use gpc_impi::session::{Session, SessionOptions};
use gpc_impi::wire::{Label, NodeAt};

use crate::clusters::{client, open};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Part = Box<dyn FnOnce(String) -> Learned + Send>;

/// A session: what each client has learned, by rank, and what the server has told.
fn session(settings: Settings, clients: Vec<Part>) -> (Vec<Learned>, Vec<Event>) {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let served = listener.serve(settings, |_, event| tell.send(event.clone()).unwrap());
        served.map_err(|error| error.to_string())
    });
    let join = |part: Part| {
        let address = address.clone();
        thread::spawn(move || part(address))
    };
    let clients: Vec<JoinHandle<Learned>> = clients.into_iter().map(join).collect();
    let learned = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(server.join().unwrap(), Ok(()));
    (learned, told.iter().collect())
}

/// A client as it is.
fn part(settings: ClientSettings, relay: Option<RelayOptions>) -> Part {
    Box::new(move |server| {
        let options = SessionOptions { limit: PATIENCE, relay };
        let session = Session::join_with(&server, settings, options, || true, |_| ()).unwrap();
        let learned = session.learned().clone();
        session.finish().unwrap();
        learned
    })
}

fn settings(clients: u32, tree: &str) -> Settings {
    let relay = Some(RelaySettings::new(tree, [5; 16]).unwrap());
    Settings { relay, limit: PATIENCE, ..Settings::new(clients, open()) }
}

/// By label, whom the tree has reached, and whom it has not.
fn relayed(events: &[Event]) -> Vec<(Label, u32, u32)> {
    let relayed = |event: &Event| match event {
        Event::Relayed { label, reached, missed, .. } => Some((*label, *reached, *missed)),
        _ => None,
    };
    events.iter().filter_map(relayed).collect()
}

/// What all are to have learned: the same as without nodes.
fn plain(clients: u32, hosts: u16) -> Vec<Learned> {
    let all = (0..clients).map(|rank| part(client(rank, hosts, true), None)).collect();
    session(Settings::new(clients, open()), all).0
}

#[test]
fn a_server_and_eight_clients_through_every_tree() {
    let expected = plain(8, 300);
    for tree in ["binomial", "chain", "flat", "kary:3"] {
        let clients = (0..8).map(|rank| part(client(rank, 300, true), Some(RelayOptions::default())));
        let (learned, events) = session(settings(8, tree), clients.collect());
        assert_eq!(learned, expected, "{tree}");
        let relayed = relayed(&events);
        // Every label but C_VERSION, and those of this project.
        assert_eq!(relayed.len(), Label::KNOWN.len() - 1 + 2, "{tree}");
        assert!(relayed.iter().all(|(_, reached, missed)| (*reached, *missed) == (0xff, 0)), "{relayed:?}");
    }
}

/// Between hosts nodes prove that they have the secret, and by their keys who they are. Here they find each other by Unix sockets, too; that theirs are not refused is what shows.
#[test]
fn nodes_with_a_secret_and_keys() {
    let secret = Secret::random().unwrap();
    let with = |keys: bool| {
        let clients = (0..4).map(|rank| {
            let key = PrivateKey::random().unwrap();
            let public = key.public();
            let key = keys.then_some((key, public));
            let relay = RelayOptions { secret: Some(secret.clone()), key, insecure: false };
            part(client(rank, 3, true), Some(relay))
        });
        session(settings(4, "binary"), clients.collect())
    };
    for keys in [true, false] {
        let (learned, events) = with(keys);
        assert_eq!(learned, plain(4, 3));
        assert!(relayed(&events).iter().all(|(_, reached, _)| *reached == 0xf), "{events:?}");
        assert_eq!(relayed(&events).len(), 15);
    }
}

/// Some have no node, or do not know of any: each gets all the same.
#[test]
fn clients_without_a_node_get_broadcasts_from_the_server() {
    let clients = (0..8).map(|rank| {
        let relay = (![1, 5].contains(&rank)).then(RelayOptions::default);
        part(client(rank, 10, true), relay)
    });
    let (learned, events) = session(settings(8, "binomial"), clients.collect());
    assert_eq!(learned, plain(8, 10));
    assert!(relayed(&events).iter().all(|(_, reached, missed)| (*reached, *missed) == (0xdd, 0)));
    // Two of eight that do not know how, and then nobody's node is used.
    let clients = (0..8).map(|rank| part(client(rank, 10, rank % 4 != 3), Some(RelayOptions::default())));
    let (learned, events) = session(settings(8, "binomial"), clients.collect());
    assert!(learned.iter().all(|learned| learned.clusters.len() == 8 && !learned.own_labels));
    assert!(events.contains(&Event::Unrelayed(vec![3, 7])) && relayed(&events).is_empty());
}

/// A client whose node is not what it should be.
enum Odd {
    /// Nothing listens where it says.
    Closed,
    /// What listens there takes connections, and says nothing.
    Silent(TcpListener),
    /// It ends when so many broadcasts have come to it.
    Ends(usize),
    /// Its function fails.
    Refuses,
}

/// The driver of an odd client.
struct OddClient {
    odd: Odd,
    rank: u32,
    node: Option<Node>,
    listener: Option<chained_gpc::Listener>,
    came: (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>),
}

fn odd(settings: ClientSettings, odd: Odd) -> Part {
    let rank = settings.rank;
    let client = Client::new(settings).unwrap().relaying();
    Box::new(move |server| {
        let odd = OddClient { odd, rank, node: None, listener: None, came: mpsc::channel() };
        odd.session(client, TcpStream::connect(server).unwrap())
    })
}

impl OddClient {
    fn session(mut self, mut client: Client, mut stream: TcpStream) -> Learned {
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut bytes = [0; 4096];
        let mut taken = 0;
        loop {
            while let Some(output) = client.next_output() {
                match output {
                    ClientOutput::Send(bytes) => stream.write_all(&bytes).unwrap(),
                    ClientOutput::Relay(RelayOutput::Listen) => {
                        let node = Some(self.listens());
                        client.handle(ClientInput::Relay(RelayInput::Listens(node)));
                    }
                    ClientOutput::Relay(RelayOutput::Start { job, nodes, .. }) => self.start(job, &nodes),
                    ClientOutput::Learned(learned) => {
                        client.fini();
                        while let Some(ClientOutput::Send(bytes)) = client.next_output() {
                            stream.write_all(&bytes).unwrap();
                        }
                        return *learned;
                    }
                    ClientOutput::Event(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            let read = match stream.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                read => read.unwrap(),
            };
            while let Ok(payload) = self.came.1.try_recv() {
                taken += 1;
                client.handle(ClientInput::Relay(RelayInput::Came(payload)));
            }
            if matches!(self.odd, Odd::Ends(after) if taken >= after) {
                self.node = None;
            }
            client.handle(ClientInput::Received(&bytes[..read]));
        }
    }

    fn listens(&mut self) -> NodeAt {
        let listener = chained_gpc::Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Ok(Address::Tcp(mut address)) = listener.address() else { panic!("it is TCP") };
        match &self.odd {
            Odd::Closed => {}
            Odd::Silent(silent) => address = silent.local_addr().unwrap(),
            Odd::Ends(_) | Odd::Refuses => self.listener = Some(listener),
        }
        NodeAt { address: from_ip(Ipv4Addr::LOCALHOST.into()), port: address.port(), key: None }
    }

    fn start(&mut self, job: [u8; 16], nodes: &[Option<NodeAt>]) {
        let Some(listener) = self.listener.take() else { return };
        let (functions, came) = (Functions::new(), self.came.0.clone());
        let refuses = matches!(self.odd, Odd::Refuses);
        let take = move |request: &chained_gpc::Request<'_>, _: &mut chained_gpc::Reply| {
            if refuses {
                return Err("not today".into());
            }
            Ok(came.send(request.data_bytes())?)
        };
        functions.func("gpc.impi.relay", take).unwrap();
        let mut peers = Peers::new();
        for (rank, node) in (0..).zip(nodes) {
            peers.insert(rank, Address::Tcp(([127, 0, 0, 1], node.unwrap().port).into()));
        }
        let node = Node::builder(self.rank).functions(&functions).peers(peers).job(Job(job));
        self.node = Some(node.listener(listener).first_run().start().unwrap());
    }
}

/// One node of eight is not there, or no more: the others get broadcasts through the tree, those below it, too, and its client gets them from the server.
#[test]
fn where_a_node_does_not_take_part_the_server_does() {
    let expected = plain(8, 10);
    // It stands between the root and all others.
    let others = 0xfd;
    for (kind, after) in [(Odd::Closed, 0), (Odd::Refuses, 0), (Odd::Ends(3), 3), (Odd::Ends(1), 1)] {
        let relayed = {
            let mut kind = Some(kind);
            let clients = (0..8).map(|rank| match rank {
                1 => odd(client(rank, 10, true), kind.take().unwrap()),
                _ => part(client(rank, 10, true), Some(RelayOptions::default())),
            });
            let (learned, events) = session(settings(8, "chain"), clients.collect());
            assert_eq!(learned, expected);
            relayed(&events)
        };
        assert_eq!(relayed.len(), 15);
        for (i, (label, reached, missed)) in relayed.iter().enumerate() {
            if i + 1 < after {
                assert_eq!((*reached, *missed), (0xff, 0), "{label}");
            }
            if after == 0 {
                assert_eq!((*reached, *missed), (others, 2), "{label}: {relayed:?}");
            }
            // Where it ends while a broadcast is under way, that may not be known to have come to those below it; they get the next ones from the server.
            if i >= after && after > 0 {
                assert_eq!((reached & 3, reached | missed), (1, 0xff), "{label}: {relayed:?}");
            }
        }
    }
}

/// A node that takes connections and is silent is given up in time.
#[test]
fn a_silent_node_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut silent = Some(silent);
    let clients = (0..3).map(|rank| match rank {
        1 => odd(client(rank, 1, true), Odd::Silent(silent.take().unwrap())),
        _ => part(client(rank, 1, true), Some(RelayOptions::default())),
    });
    let (learned, events) = session(settings(3, "binary"), clients.collect());
    assert_eq!(learned, plain(3, 1));
    assert!(relayed(&events).iter().all(|(_, reached, missed)| (*reached, *missed) == (5, 2)));
}
