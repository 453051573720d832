//! Clients with the real server, in memory, in any order and in any pieces: all learn the same, which is what the
//! clusters have sent.

use std::collections::VecDeque;
use std::time::Duration;

use gpc_impi::client::{Client, ClientInput, ClientOutput, ClientSettings, Cluster, Host, Learned, Proc};
use gpc_impi::server::{Check, ConnId, Input, Output, Server, Settings};
use gpc_impi::wire::{Key, Methods, Version};
use proptest::prelude::*;

use crate::support::{Agreed, any_cluster, open};

/// One client, and the bytes in transit between it and the server.
struct Side {
    client: Client,
    connected: bool,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    learned: Option<Learned>,
}

struct World {
    server: Server,
    limit: Duration,
    now: Duration,
    sides: Vec<Side>,
    ended: bool,
}

/// A possible next step.
#[derive(Clone, Copy)]
enum Step {
    Connect(usize),
    ToServer(usize),
    ToClient(usize),
}

impl World {
    fn new(clients: Vec<ClientSettings>, methods: Methods) -> World {
        let settings = Settings { check: Check::Refuse, ..Settings::new(clients.len() as u32, methods) };
        let side = |settings| Side {
            client: Client::new(settings).unwrap(),
            connected: false,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            learned: None,
        };
        let sides = clients.into_iter().map(side).collect();
        let limit = settings.limit;
        World { server: Server::new(settings).unwrap(), limit, now: Duration::ZERO, sides, ended: false }
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
                self.sides[i].client.handle(ClientInput::Received(&bytes));
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
        while let Some(output) = side.client.next_output() {
            match output {
                ClientOutput::Send(bytes) => side.to_server.extend(bytes),
                ClientOutput::Event(_) => {}
                ClientOutput::Learned(learned) => assert!(side.learned.replace(*learned).is_none()),
                ClientOutput::Failed(fault) => panic!("client {i}: {fault}"),
            }
        }
    }

    /// Runs until no bytes are in transit, and the server waits for no deadline.
    fn run(&mut self, choices: &mut impl Iterator<Item = (usize, usize)>) {
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
}

fn cut(bytes: &mut VecDeque<u8>, most: usize) -> Vec<u8> {
    bytes.drain(..most.min(bytes.len())).collect()
}

/// The parameters of a client: its cluster, whether it knows labels of this project, and whether it has a key as well.
type Told = (Cluster, bool, bool);

fn any_clients() -> impl Strategy<Value = Vec<Told>> {
    let agreed = (prop_oneof![Just(1024), 0..5000], prop_oneof![Just(4), 0..9]);
    let clients = prop_oneof![4 => 1u8..6, 1 => 6u8..=32];
    // Usually all clients know the labels of this project: otherwise these would rarely be sent.
    (agreed, clients, any::<bool>()).prop_flat_map(|((xsize, maxlinear), clients, all_own)| {
        let agreed = Agreed { xsize, maxlinear };
        let one = move |rank| {
            let own = any::<bool>().prop_map(move |own| all_own || own);
            (any_cluster(rank, agreed.clone()), own, any::<bool>())
        };
        (0..clients).map(one).collect::<Vec<_>>()
    })
}

/// What all clients must learn.
fn expected(told: &[Told], job: Option<[u8; 16]>) -> Vec<Cluster> {
    let all_own = told.iter().all(|(_, own, _)| *own);
    let mut clusters: Vec<Cluster> = told.iter().map(|(cluster, _, _)| cluster.clone()).collect();
    for (cluster, (_, own, _)) in clusters.iter_mut().zip(told) {
        if *own {
            cluster.versions.push(Version::OWN);
        }
        if !all_own {
            let procs = cluster.hosts.iter_mut().flat_map(|host| &mut host.procs);
            procs.for_each(|proc| (proc.port, proc.key) = (None, None));
        }
    }
    assert!(job.is_none() || all_own);
    clusters
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn all_learn_what_the_clusters_have_said(
        told in any_clients(),
        choices in prop::collection::vec((any::<usize>(), prop_oneof![3 => 1usize..20, 5 => 20usize..4000]), 1..300),
        key in any::<u64>(),
        job in any::<Option<[u8; 16]>>(),
    ) {
        let all_own = told.iter().all(|(_, own, _)| *own);
        let key = Some(Key::from_bytes(key.to_be_bytes()));
        let settings = (0..).zip(&told).map(|(rank, (cluster, own, keyed))| {
            let methods = if *keyed { Methods { none: rank % 2 == 0, key: key.clone() } } else { open() };
            let mut settings = ClientSettings::new(rank, methods, cluster.clone());
            // Only client 0 sends the job.
            settings.job = if rank == 0 { job } else { Some([9; 16]) };
            (settings.own_labels, settings.bytes_max) = (*own, 1 << 20);
            settings
        });
        let mut world = World::new(settings.collect(), Methods { none: true, key });
        let mut choices = choices.into_iter().cycle();
        world.run(&mut choices);
        let job = job.filter(|_| all_own);
        let clusters = expected(&told, job);
        let says = clusters.iter().flat_map(|it| &it.hosts).flat_map(|it| &it.procs).any(|it| it.port.is_some() || it.key.is_some());
        for (rank, side) in (0..).zip(&world.sides) {
            let learned = side.learned.as_ref().unwrap();
            prop_assert_eq!(learned.rank, rank);
            prop_assert_eq!(&learned.clusters, &clusters);
            prop_assert_eq!(learned.own_labels, all_own && (says || job.is_some()));
            prop_assert_eq!(learned.job, job);
            prop_assert_eq!(learned.datalen, clusters.iter().filter_map(|it| it.datalen).min());
            prop_assert_eq!(learned.tag_ub, clusters.iter().filter_map(|it| it.tag_ub).min());
            let first = &world.sides[0].learned.as_ref().unwrap();
            prop_assert_eq!((learned.coll_xsize, learned.coll_maxlinear), (first.coll_xsize, first.coll_maxlinear));
            let said = |value: fn(&Cluster) -> Option<i32>, default| clusters.iter().find_map(value).filter(|it| *it != -1).unwrap_or(default);
            prop_assert_eq!(learned.coll_xsize, said(|it| it.coll_xsize, 1024));
            prop_assert_eq!(learned.coll_maxlinear, said(|it| it.coll_maxlinear, 4));
        }
        for i in 0..world.sides.len() {
            prop_assert!(!world.ended);
            world.sides[i].client.fini();
            world.drain(i);
            world.run(&mut choices);
        }
        prop_assert!(world.ended);
    }
}

/// Clusters of many hosts, in pieces as a socket delivers them.
#[test]
fn four_clusters_of_ten_thousand_hosts() {
    let hosts = |rank: u8| {
        let host = |i: u16| {
            let [high, low] = i.to_be_bytes();
            let address = std::net::Ipv4Addr::new(10, rank, high, low).to_ipv6_mapped();
            let procs = vec![Proc { address: Some(address), pid: Some(1), port: Some(9), key: None }];
            Host::new(address, 5000, procs)
        };
        (0..10_000).map(host).collect()
    };
    let told: Vec<Told> = (0..4).map(|rank| (Cluster::new(hosts(rank)), true, false)).collect();
    let settings =
        (0..).zip(&told).map(|(rank, (cluster, ..))| ClientSettings::new(rank, open(), cluster.clone()));
    let mut world = World::new(settings.collect(), open());
    let mut choices = (0..).map(|i: usize| (i, 1 << 16));
    world.run(&mut choices);
    let clusters = expected(&told, None);
    for side in &world.sides {
        assert!(side.learned.as_ref().unwrap().clusters == clusters);
        assert_eq!(side.client.held(), 0);
    }
}
