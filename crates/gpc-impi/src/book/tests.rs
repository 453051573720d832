//! Tests of the address book that follows from the clients' values.
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn proc(port: Option<u32>) -> Proc {
    Proc { address: None, pid: Some(7), port, key: None }
}

/// A host at 10.0.0.`number`, port 5000, with a process for each of these own ports.
fn host(number: u8, ports: &[Option<u32>]) -> Host {
    let address = Ipv4Addr::new(10, 0, 0, number).to_ipv6_mapped();
    Host::new(address, 5000, ports.iter().map(|port| proc(*port)).collect())
}

fn learned(clusters: Vec<Vec<Host>>) -> Learned {
    Learned {
        rank: 0,
        clusters: clusters.into_iter().map(Cluster::new).collect(),
        datalen: None,
        tag_ub: None,
        coll_xsize: 1024,
        coll_maxlinear: 4,
        job: None,
        own_labels: false,
        others: Default::default(),
    }
}

/// Three clusters of 3, 2 and 2 hosts, one process each.
fn three() -> Learned {
    let one = |number| host(number, &[None]);
    learned(vec![vec![one(1), one(2), one(3)], vec![one(4), one(5)], vec![one(6), one(7)]])
}

#[test]
fn ids_go_by_client_then_host_then_process() {
    let mut learned = three();
    learned.job = Some([7; 16]);
    let book = Book::of(&learned, Ports::OwnOrFirst).unwrap();
    assert_eq!(book.distinct(), Ok(()));
    let expected = "job 07070707070707070707070707070707\n0 10.0.0.1:5000\n1 10.0.0.2:5000\n2 10.0.0.3:5000\n3 10.0.0.4:5000\n4 10.0.0.5:5000\n5 10.0.0.6:5000\n6 10.0.0.7:5000\n";
    assert_eq!(book.peers_text(), expected);
    let hosts = "0 client-0/10.0.0.1\n1 client-0/10.0.0.2\n2 client-0/10.0.0.3\n3 client-1/10.0.0.4\n4 client-1/10.0.0.5\n5 client-2/10.0.0.6\n6 client-2/10.0.0.7\n";
    assert_eq!(book.hosts_text(), hosts);
    assert_eq!(book.entries[3].who.to_string(), "process 0 of host 0 of client 1");
}

#[test]
fn a_host_of_several_processes_listens_as_its_client_says() {
    // The second client has a port for each process, the first one only for some.
    let learned =
        learned(vec![vec![host(1, &[Some(9), None]), host(2, &[None])], vec![host(3, &[Some(8), Some(7)])]]);
    let addresses = |ports| {
        let book = Book::of(&learned, ports).unwrap();
        book.entries.iter().map(|entry| entry.address.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(addresses(Ports::OwnOrFirst), "10.0.0.1:5000 10.0.0.2:5000 10.0.0.3:8 10.0.0.3:7");
    assert_eq!(
        addresses(Ports::PlusLocalRank),
        "10.0.0.1:5000 10.0.0.1:5001 10.0.0.2:5000 10.0.0.3:8 10.0.0.3:7"
    );
}

#[test]
fn what_is_of_no_use_is_named() {
    let fault = |change: fn(&mut Learned), ports| {
        let mut learned = three();
        change(&mut learned);
        Book::of(&learned, ports).and_then(|book| book.distinct()).unwrap_err().to_string()
    };
    let error = fault(|learned| learned.clusters[1].hosts[1].address = None, Ports::OwnOrFirst);
    assert_eq!(error, "client 1 has not said at which address its host 1 is reached (H_IPV6)");
    let none = |learned: &mut Learned| learned.clusters[1].hosts[0].address = Some(Ipv6Addr::UNSPECIFIED);
    assert!(fault(none, Ports::OwnOrFirst).contains("has the address ::, which is none of a host"));
    let error = fault(|learned| learned.clusters[2].hosts[0].port = None, Ports::PlusLocalRank);
    assert_eq!(error, "client 2 has not said at which port its host 0 listens (H_PORT)");
    for port in [0, 65_536, u32::MAX] {
        let mut learned = three();
        learned.clusters[0].hosts[2].port = Some(port);
        let error = Book::of(&learned, Ports::OwnOrFirst).unwrap_err().to_string();
        assert!(error.starts_with(&format!("process 0 of host 2 of client 0 would listen at port {port}:")));
    }
    // The rule gives a port beyond the last one.
    let beyond = |learned: &mut Learned| {
        learned.clusters[0].hosts[0] = Host { port: Some(65_535), ..host(1, &[None, None]) };
    };
    assert!(
        fault(beyond, Ports::PlusLocalRank)
            .starts_with("process 1 of host 0 of client 0 would listen at port 65536")
    );
    let twice = |learned: &mut Learned| learned.clusters[2].hosts[1] = host(2, &[None]);
    let expected = "process 0 of host 1 of client 0 and process 0 of host 1 of client 2 have both the address 10.0.0.2:5000";
    assert_eq!(fault(twice, Ports::OwnOrFirst), expected);
    let keys = |learned: &mut Learned| {
        for client in [0, 1] {
            learned.clusters[client].hosts[0].procs[0].key = Some(PublicKey([3; 32]));
        }
    };
    assert!(fault(keys, Ports::OwnOrFirst).ends_with("have both the same public key"));
}

/// The address of a process is not used if it differs from that of its host, and this was not reported.
#[test]
fn processes_that_name_another_address_are_told() {
    let mut learned = learned(vec![vec![host(1, &[None]), host(2, &[Some(8), Some(9)])]]);
    // The same address in the other notation.
    learned.clusters[0].hosts[0].procs[0].address = Some("::10.0.0.1".parse().unwrap());
    learned.clusters[0].hosts[1].procs[0].address = Some(Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped());
    assert_eq!(Book::of(&learned, Ports::PlusLocalRank).unwrap().elsewhere, []);
    learned.clusters[0].hosts[1].procs[1].address = Some("fd00::9".parse().unwrap());
    let book = Book::of(&learned, Ports::PlusLocalRank).unwrap();
    let who: Vec<String> = book.elsewhere.iter().map(ProcessId::to_string).collect();
    assert_eq!(who, ["process 1 of host 1 of client 0"]);
    assert_eq!(book.entries[2].address.ip(), Ipv4Addr::new(10, 0, 0, 2));
    // A process without an entry is not listed as elsewhere.
    assert_eq!(Book::of(&learned, Ports::OwnOrFirst).unwrap().elsewhere, []);
}

fn any_host() -> impl Strategy<Value = Host> {
    let process = prop::option::weighted(0.7, 0..70_000_u32).prop_map(proc);
    let procs = prop::collection::vec(process, 0..4);
    let address =
        prop::option::weighted(0.98, (1..250_u8).prop_map(|n| Ipv4Addr::new(10, 0, 0, n).to_ipv6_mapped()));
    (address, prop::option::weighted(0.98, 0..66_000_u32), procs).prop_map(|(address, port, procs)| Host {
        address,
        port,
        ackmark: None,
        hiwater: None,
        procs,
    })
}

proptest! {
    /// Whatever the clients send, the result is a book with each process in its place, or an error that names a client
    /// and a host.
    #[test]
    fn any_clients_are_in_a_book_or_refused(
        clusters in prop::collection::vec(prop::collection::vec(any_host(), 0..4), 0..5),
        rule in any::<bool>(),
    ) {
        let learned = learned(clusters);
        let ports = if rule { Ports::PlusLocalRank } else { Ports::OwnOrFirst };
        let book = match Book::of(&learned, ports) {
            Ok(book) => book,
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.contains("client ") && text.contains("host ") && text.len() < 200, "{}", text);
                return Ok(());
            }
        };
        prop_assert!(book.entries.is_sorted_by(|one, other| one.who < other.who));
        for entry in &book.entries {
            let cluster = &learned.clusters[entry.who.client as usize];
            let host = &cluster.hosts[entry.who.host];
            prop_assert_eq!(entry.address.ip(), to_ip(host.address.unwrap()));
            let own = host.procs[entry.who.proc].port.filter(|_| has_ports(cluster));
            let by_rule = u64::from(host.port.unwrap_or(0)) + entry.who.proc as u64;
            prop_assert_eq!(u64::from(entry.address.port()), own.map_or(by_rule, u64::from));
        }
        // Every host with processes has an entry, and so has every process with a port.
        for (client, cluster) in (0..).zip(&learned.clusters) {
            for (number, host) in cluster.hosts.iter().enumerate() {
                let there = book.entries.iter().filter(|entry| (entry.who.client, entry.who.host) == (client, number)).count();
                let all = rule || has_ports(cluster);
                prop_assert_eq!(there, if all { host.procs.len() } else { host.procs.len().min(1) });
            }
        }
        // The texts are valid files of peers and hosts.
        prop_assert_eq!(book.hosts_text().lines().count(), book.entries.len());
        if book.distinct().is_ok() {
            prop_assert_eq!(book.peers_text().parse::<Peers>(), Ok(book.peers()));
        }
    }
}

/// A peers file has the key of each process that has one.
#[test]
fn the_peers_have_their_keys() {
    let mut learned = three();
    learned.clusters[1].hosts[0].procs[0].key = Some(PublicKey([3; 32]));
    let text = Book::of(&learned, Ports::OwnOrFirst).unwrap().peers_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], format!("3 10.0.0.4:5000 {}", "03".repeat(32)));
    assert_eq!((lines[2], lines[4]), ("2 10.0.0.3:5000", "4 10.0.0.5:5000"));
}
