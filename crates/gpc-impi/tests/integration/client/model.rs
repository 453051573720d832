//! Clients with the real server, in memory, in any order and in any pieces: all learn the same, which is what the
//! clusters have sent.

use gpc_impi::client::{ClientSettings, Cluster, Host, Proc};
use gpc_impi::wire::{Key, Methods, Version};
use proptest::prelude::*;

use crate::client::support::{Agreed, any_cluster, open};
use crate::client::world::{Peer, World};

/// The parameters of a client: its cluster, whether it knows labels of this project, and whether it has a key as well.
pub(crate) type ClientValues = (Cluster, bool, bool);

fn any_clients() -> impl Strategy<Value = Vec<ClientValues>> {
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
pub(crate) fn expected(told: &[ClientValues], job: Option<[u8; 16]>) -> Vec<Cluster> {
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
        let mut world = World::new(settings.map(Peer::own).collect(), Methods { none: true, key });
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
            world.fini(i);
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
    let told: Vec<ClientValues> = (0..4).map(|rank| (Cluster::new(hosts(rank)), true, false)).collect();
    let settings =
        (0..).zip(&told).map(|(rank, (cluster, ..))| ClientSettings::new(rank, open(), cluster.clone()));
    let mut world = World::new(settings.map(Peer::own).collect(), open());
    let mut choices = (0..).map(|i: usize| (i, 1 << 16));
    world.run(&mut choices);
    let clusters = expected(&told, None);
    for side in &world.sides {
        assert!(side.learned.as_ref().unwrap().clusters == clusters);
        let Peer::Own(client) = &side.peer else { continue };
        assert_eq!(client.held(), 0);
    }
}
