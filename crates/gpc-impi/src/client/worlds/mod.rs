//! Whole sessions in virtual time: real clients and the real server over a network with delays, in which connections
//! break, clients are slow or come back, and the server ends. A simple model says what each must have learned, and why
//! a session has failed.

mod network;
mod peers;

use std::collections::VecDeque;
use std::time::Duration;

use chained_gpc::PublicKey;

use self::network::{Happening, Pace, Random, World};
use self::peers::{Foreign, Kind, PeerEnd};
use super::{ClientSettings, Cluster, Host, Learned, Proc};
use crate::wire::{Label, Methods, Version};

/// A cluster of a few hosts, in which each label may be left out.
fn cluster(random: &mut Random, rank: u8) -> Cluster {
    let mut says = || random.below(5) > 0;
    let labels: [bool; 9] = std::array::from_fn(|_| says());
    let hosts = (0..1 + random.below(3) as u8).map(|host| {
        let address = std::net::Ipv4Addr::new(10, rank, 0, host).to_ipv6_mapped();
        let procs = (0..1 + random.below(3)).map(|proc| Proc {
            address: labels[4].then_some(address),
            pid: labels[5].then_some(u64::from(host) << 8 | proc),
            port: labels[6].then_some(5000 + proc as u32),
            key: (labels[7] && proc != 1).then_some(PublicKey([1 + rank; 32])),
        });
        let procs = procs.collect();
        let mut host = Host::new(address, 4000, procs);
        (host.address, host.port) = (labels[0].then_some(address), labels[1].then_some(4000));
        (host.ackmark, host.hiwater) = (labels[2].then_some(3), labels[3].then_some(9));
        host
    });
    let mut cluster = Cluster::new(hosts.collect());
    cluster.datalen = labels[8].then_some(1000 + u32::from(rank));
    cluster.tag_ub = labels[2].then_some(40_000 - i32::from(rank));
    cluster.coll_xsize = labels[3].then_some(if rank == 0 { -1 } else { 1024 });
    cluster
}

/// Clients with any clusters: those of this project alone, or beside others.
fn clients(random: &mut Random) -> Vec<(ClientSettings, Option<Foreign>, Pace)> {
    let (count, all_own) = (1 + random.below(5), random.below(2) == 0);
    let paces = [(1, 4000), (20, 300), (400, 60), (3_000, 4000)];
    (0..count as u32)
        .map(|rank| {
            let methods = Methods { none: true, key: None };
            let mut settings = ClientSettings::new(rank, methods, cluster(random, rank as u8));
            // Only client 0 sends its job.
            settings.job = Some([7 + rank as u8; 16]);
            let (delay_max, piece_max) = paces[random.below(4) as usize];
            let foreign = (!all_own && random.below(2) == 0).then(|| {
                settings.own_labels = false;
                foreign(random, &settings)
            });
            (settings, foreign, Pace { delay_max, piece_max })
        })
        .collect()
}

/// A client of another implementation with these values, in any order.
fn foreign(random: &mut Random, settings: &ClientSettings) -> Foreign {
    let labels = Label::KNOWN.into_iter();
    let mut labels: VecDeque<(Label, Vec<u8>)> =
        labels.filter_map(|label| Some((label, settings.cluster.values(label)?))).collect();
    for _ in 0..random.below(6) {
        let [one, two] = [0, 1].map(|_| random.below(labels.len() as u64) as usize);
        labels.swap(one, two);
    }
    Foreign::new(labels, random.below(2) == 0)
}

/// The model: what every client learns that completes.
fn expected(world: &World) -> (Vec<Cluster>, bool) {
    let all_own = world.peers.iter().all(|peer| peer.settings.own_labels);
    let clusters = world.peers.iter().map(|peer| {
        let mut cluster = peer.settings.cluster.clone();
        if peer.settings.own_labels {
            cluster.versions.push(Version::OWN);
        }
        let procs = cluster.hosts.iter_mut().flat_map(|host| &mut host.procs).filter(|_| !all_own);
        procs.for_each(|proc| (proc.port, proc.key) = (None, None));
        cluster
    });
    (clusters.collect(), all_own)
}

/// Checks what each client has learned, and the end of all. Returns the number of clients that have completed.
fn check(world: &World) -> usize {
    world.check_end();
    let (clusters, all_own) = expected(world);
    let mut completed = 0;
    for (rank, peer) in (0..).zip(&world.peers) {
        match (&peer.end, &peer.kind) {
            (Some((_, PeerEnd::Learned(learned))), _) => {
                let mut expected = Learned::new(rank, clusters.clone());
                expected.own_labels = all_own;
                expected.job = world.peers[0].settings.job.filter(|_| all_own);
                assert_eq!(**learned, expected);
                completed += 1;
            }
            (Some((_, PeerEnd::Done)), Kind::Foreign(foreign)) => {
                for (label, (mask, values)) in &foreign.answers {
                    let senders = (0..).zip(&world.peers);
                    let sent: Vec<(u32, Vec<u8>)> = senders
                        .filter_map(|(rank, peer)| Some((rank, values_of(&peer.settings, *label)?)))
                        .collect();
                    assert_eq!(*mask, sent.iter().fold(0, |mask, (rank, _)| mask | 1 << rank), "{label}");
                    let all: Vec<u8> = sent.into_iter().flat_map(|(_, values)| values).collect();
                    assert_eq!(values[..], all[..], "{label}");
                }
                completed += 1;
            }
            _ => {}
        }
    }
    completed
}

/// The values that a client sends under a label of the source.
fn values_of(settings: &ClientSettings, label: Label) -> Option<Vec<u8>> {
    let mut cluster = settings.cluster.clone();
    if settings.own_labels {
        cluster.versions.push(Version::OWN);
    }
    cluster.values(label)
}

/// A world with these clients, who connect within some seconds.
fn world(seed: u64) -> World {
    let mut random = Random(seed);
    let clients = clients(&mut random);
    let count = clients.len();
    let mut world = World::new(seed, clients);
    for rank in 0..count {
        let after = random.millis(9_000);
        world.plan(after, Happening::Connect(rank));
    }
    world
}

#[test]
fn without_faults_all_clients_learn_the_same() {
    for seed in 0..300 {
        let mut world = world(seed);
        world.run();
        let late = world
            .peers
            .iter()
            .any(|peer| !matches!(&peer.end, Some((_, PeerEnd::Learned(_) | PeerEnd::Done))));
        assert!(!late, "seed {seed}: {:?}", world.peers.iter().map(|peer| &peer.end).collect::<Vec<_>>());
        assert_eq!(check(&world), world.peers.len(), "seed {seed}");
        assert!(matches!(world.ended, Some((_, Ok(())))), "seed {seed}");
    }
}

/// Connections break, clients never come, and servers end, at any time.
#[test]
fn with_faults_every_client_ends_and_the_first_cause_is_kept() {
    let (mut completed, mut failed, mut died) = (0, 0, 0);
    for seed in 0..1000 {
        let mut world = world(seed);
        let mut random = Random(!seed);
        let ranks = world.peers.len() as u64;
        for _ in 0..=random.below(3) {
            let rank = random.below(ranks) as usize;
            // Most sessions take some seconds, and their jobs last for days.
            let span = [12_000, 30_000, 200_000_000][random.below(3) as usize];
            world.plan(random.millis(span), Happening::Break(rank));
        }
        if random.below(4) == 0 {
            world.plan(random.millis(20_000), Happening::ServerDies);
        }
        world.run();
        completed += usize::from(check(&world) == world.peers.len());
        failed += usize::from(matches!(world.ended, Some((_, Err(_)))));
        died += usize::from(world.is_dead);
    }
    // Each kind of end occurs often.
    assert!(completed > 150 && failed > 150 && died > 50, "{completed} {failed} {died}");
}

/// Three clients of this project, whose pieces take up to this time.
fn three(delay_max: u64) -> World {
    let mut random = Random(9);
    let client = |rank| {
        let methods = Methods { none: true, key: None };
        let mut settings = ClientSettings::new(rank, methods, cluster(&mut random, rank as u8));
        settings.job = Some([7 + rank as u8; 16]);
        (settings, None, Pace { delay_max, piece_max: 4000 })
    };
    World::new(9, (0..3).map(client).collect())
}

/// A client that comes too late: the others end at their own limits, and the session at its own.
#[test]
fn a_client_that_does_not_come_is_waited_for_until_the_limits() {
    let mut world = three(20);
    for (rank, second) in [(0, 0), (1, 1), (2, 480)] {
        world.plan(Duration::from_secs(second), Happening::Connect(rank));
    }
    world.run();
    assert_eq!(check(&world), 0);
    let ends: Vec<u64> = world.peers.iter().map(|peer| peer.end.as_ref().unwrap().0.as_secs()).collect();
    assert_eq!((ends, world.ended.as_ref().map(|(at, _)| at.as_secs())), (vec![120, 121, 600], Some(600)));
}

/// The connection of one of three clients breaks, or the server ends, at each moment of a session.
#[test]
fn the_end_at_every_moment() {
    for dies in [false, true] {
        for at in 0..60 {
            let mut world = three(2);
            (0..3).for_each(|rank| world.plan(Duration::ZERO, Happening::Connect(rank)));
            let what = if dies { Happening::ServerDies } else { Happening::Break(1) };
            world.plan(Duration::from_millis(at), what);
            world.run();
            check(&world);
        }
    }
}
