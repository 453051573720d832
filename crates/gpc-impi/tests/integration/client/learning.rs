//! Interpretation of the other clients' values: missing counts, different widths, and values on which all must agree.

use gpc_impi::client::{ClientEvent, ClientFault, LearnError, Learned, to_ip};
use gpc_impi::wire::{Label, PRIVATE_MAJOR, Version};
use proptest::prelude::*;

use crate::client::support::{Agreed, Raw, any_cluster, changed, learned, raw, settings, words};

/// What client 0 learns when these clients leave labels out, or send other values.
fn with(others: Vec<Raw>) -> Result<Learned, LearnError> {
    match learned(settings(0), others).0 {
        Ok(learned) => Ok(learned),
        Err(ClientFault::Learn(error)) => Err(error),
        Err(fault) => panic!("{fault}"),
    }
}

fn error(others: Vec<Raw>) -> String {
    with(others).unwrap_err().to_string()
}

/// The values of client `rank`, without some labels, and with some others.
fn other(rank: u32, without: &[Label], with: &[(Label, Vec<u8>)]) -> Raw {
    let mut raw = raw(&settings(rank));
    without.iter().for_each(|label| assert!(raw.remove(label).is_some()));
    raw.extend(with.iter().cloned());
    raw
}

#[test]
fn one_missing_count_follows_from_the_rest() {
    let full = with(vec![other(1, &[], &[]), other(2, &[], &[])]).unwrap();
    assert_eq!(full.clusters[2], settings(2).cluster);
    assert_eq!(full.procs(), 9);
    for without in [
        &[Label::C_NHOSTS][..],
        &[Label::C_NPROCS],
        &[Label::C_NHOSTS, Label::C_NPROCS],
        // In this case the length of other labels gives the count.
        &[Label::C_NHOSTS, Label::H_PORT, Label::H_IPV6],
    ] {
        let learned = with(vec![other(1, &[], &[]), other(2, without, &[])]).unwrap();
        let procs = |learned: &Learned| -> Vec<usize> {
            learned.clusters[2].hosts.iter().map(|host| host.procs.len()).collect()
        };
        assert_eq!(procs(&learned), procs(&full), "{without:?}");
        assert_eq!(learned.clusters[1], full.clusters[1]);
    }
    // If a client has a single host, its processes need no H_NPROCS.
    let single: Raw =
        [(Label::C_VERSION, vec![0; 8]), (Label::C_NHOSTS, words(&[1])), (Label::P_IPV6, vec![7; 48])].into();
    let learned = with(vec![other(1, &[], &[]), single]).unwrap();
    assert_eq!(learned.clusters[2].hosts[0].procs.len(), 3);
}

#[test]
fn two_missing_counts_are_named() {
    let both = |label| error(vec![other(1, &[label], &[]), other(2, &[label], &[])]);
    assert_eq!(
        both(Label::C_NHOSTS),
        "COLL H_IPV6 cannot be divided among the clients, since C_NHOSTS of clients 1, 2 is missing"
    );
    let without = [Label::C_NPROCS, Label::H_NPROCS];
    assert_eq!(
        error(vec![other(1, &without, &[]), other(2, &without, &[])]),
        "COLL P_IPV6 cannot be divided among the clients, since C_NPROCS of clients 1, 2 is missing"
    );
    // A count is not inferred from values that may have two widths.
    let hosts = [Label::C_NHOSTS, Label::H_IPV6, Label::H_NPROCS, Label::H_ACKMARK, Label::H_HIWATER];
    assert_eq!(
        error(vec![other(1, &hosts, &[])]),
        "COLL H_PORT cannot be divided among the clients, since C_NHOSTS of client 1 is missing"
    );
    assert_eq!(
        error(vec![other(1, &[Label::H_NPROCS], &[])]),
        "on which of its hosts the 3 processes of client 1 are cannot be told, since its H_NPROCS is missing"
    );
    let homeless = other(1, &[&hosts[..], &[Label::H_PORT]].concat(), &[]);
    assert!(error(vec![homeless]).contains("3 processes of client 1 are cannot be told, since its C_NHOSTS"));
}

#[test]
fn one_who_says_nothing_of_hosts_has_none() {
    let silent: Raw = [(Label::C_VERSION, vec![0; 8])].into();
    let learned = with(vec![other(1, &[], &[]), silent]).unwrap();
    assert!(learned.clusters[2].hosts.is_empty());
    assert_eq!(learned.clusters[1], settings(1).cluster);
}

/// The text of the source has Uint4 for P_PID, and MetaMPICH sends H_PORT as an `in_port_t` of 2 bytes.
#[test]
fn widths_that_differ_are_understood_where_that_is_certain() {
    let pids = |pids: &[u32]| (Label::P_PID, words(pids));
    let ports = (Label::H_PORT, vec![0x13, 0x89, 0x13, 0x8a]);
    let narrow = other(1, &[], &[pids(&[7, 8, 9]), ports.clone()]);
    let (result, events) = learned(settings(0), vec![narrow]);
    let result = result.unwrap();
    let cluster = &result.clusters[1];
    let procs = cluster.hosts.iter().flat_map(|host| &host.procs);
    assert_eq!(procs.map(|proc| proc.pid.unwrap()).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(cluster.hosts.iter().map(|host| host.port.unwrap()).collect::<Vec<_>>(), [5001, 5002]);
    assert_eq!(result.clusters[0], settings(0).cluster);
    let doubted: Vec<String> = events
        .iter()
        .filter(|event| matches!(event, ClientEvent::Doubted(..)))
        .map(ClientEvent::to_string)
        .collect();
    assert_eq!(
        doubted,
        [
            "COLL H_PORT: the other clients have sent 2 bytes for each value, not 4",
            "COLL P_PID: the other clients have sent 4 bytes for each value, not 8"
        ]
    );
    // With three clients it is uncertain which one has the other width.
    assert_eq!(
        error(vec![other(1, &[], &[]), other(2, &[], &[pids(&[7, 8, 9])])]),
        "COLL P_PID: 60 bytes of values, and 9 values of 8 bytes were counted; it would be right if those of client 1 had 4 bytes each"
    );
    assert_eq!(
        error(vec![other(1, &[], &[(Label::P_PID, words(&[7]))])]),
        "COLL P_PID: 28 bytes of values, and 6 values of 8 bytes were counted"
    );
}

#[test]
fn parameters_must_agree() {
    let xsize = |value: i32| (Label::C_COLL_XSIZE, value.to_be_bytes().to_vec());
    let maxlinear = |value: i32| (Label::C_COLL_MAXLINEAR, value.to_be_bytes().to_vec());
    let learned =
        with(vec![other(1, &[], &[xsize(1024), maxlinear(4)]), other(2, &[Label::C_COLL_XSIZE], &[])])
            .unwrap();
    assert_eq!((learned.coll_xsize, learned.coll_maxlinear), (1024, 4));
    assert_eq!(
        error(vec![other(1, &[], &[]), other(2, &[], &[xsize(2048)])]),
        "the clients do not agree on C_COLL_XSIZE: client 0 says -1 (the default, 1024), client 1 says -1 (the default, 1024), client 2 says 2048"
    );
    assert_eq!(
        error(vec![other(1, &[], &[maxlinear(5)])]),
        "the clients do not agree on C_COLL_MAXLINEAR: client 0 says -1 (the default, 4), client 1 says 5"
    );
}

#[test]
fn minima_are_of_those_who_say_something() {
    let with_values = |datalen: u32, tag_ub: u32| {
        other(1, &[], &[(Label::C_DATALEN, words(&[datalen])), (Label::C_TAGUB, words(&[tag_ub]))])
    };
    let learned =
        with(vec![with_values(1000, 40_000), other(2, &[Label::C_DATALEN, Label::C_TAGUB], &[])]).unwrap();
    assert_eq!((learned.datalen, learned.tag_ub), (Some(1000), Some(40_000)));
    assert_eq!((learned.clusters[2].datalen, learned.clusters[2].tag_ub), (None, None));
}

#[test]
fn counts_that_cannot_be() {
    let say = |label, values: &[u32]| error(vec![other(1, &[], &[(label, words(values))])]);
    assert_eq!(say(Label::C_NHOSTS, &[0]), "client 1 says 0 under C_NHOSTS, and it has at least 1");
    assert_eq!(say(Label::C_NPROCS, &[0]), "client 1 says 0 under C_NPROCS, and it has at least 1");
    assert_eq!(
        say(Label::C_NPROCS, &[4]),
        "client 1 has 4 processes (C_NPROCS), and its hosts have 3 (H_NPROCS)"
    );
    assert!(say(Label::H_NPROCS, &[u32::MAX, u32::MAX]).contains("its hosts have 8589934590"));
    assert_eq!(
        say(Label::C_NHOSTS, &[u32::MAX]),
        "client 1 has 4294967295 hosts, and all clients together 4294967297; at most 1048576 are taken"
    );
    assert_eq!(
        say(Label::C_NHOSTS, &[1, 1]),
        "COLL C_NHOSTS: 12 bytes of values, and 2 values of 4 bytes were counted"
    );
    assert_eq!(
        say(Label::H_HIWATER, &[1, 2, 3]),
        "COLL H_HIWATER: 20 bytes of values, and 4 values of 4 bytes were counted"
    );
    assert_eq!(
        say(Label::C_VERSION, &[1, 0]),
        "COLL C_VERSION: there are the versions of 1 clients, and 2 have sent theirs"
    );
    assert!(
        say(Label::C_VERSION, &[0, 0, 1, 1, 1, 0]).starts_with("COLL C_VERSION: version 1.0 comes after")
    );
    assert!(say(Label::C_VERSION, &[0, 0, 0]).contains("are not a number of versions"));
}

/// A client that sent 8 MB under H_NPROCS, most of it zeros, cost all others hundreds of megabytes each. A count
/// without values costs its sender only 4 bytes. So the sum of the counts is limited, and the error names the client.
#[test]
fn counts_are_bounded() {
    let version = || (Label::C_VERSION, vec![0; 8]);
    let hosts: Raw = [version(), (Label::C_NHOSTS, words(&[u32::MAX]))].into();
    assert_eq!(
        error(vec![hosts]),
        "client 1 has 4294967295 hosts, and all clients together 4294967297; at most 1048576 are taken"
    );
    let procs = |procs: u32| -> Raw {
        [version(), (Label::C_NHOSTS, words(&[1])), (Label::H_NPROCS, words(&[procs]))].into()
    };
    assert_eq!(
        error(vec![procs(u32::MAX)]),
        "client 1 has 4294967295 processes, and all clients together 4294967298; at most 1048576 are taken"
    );
    // Client 0 has 2 hosts and 3 processes. Without C_NHOSTS the length of other labels gives the number.
    let empty = |hosts: usize, count: bool| -> Raw {
        let mut values = words(&[1]);
        values.resize(4 * hosts, 0);
        let mut raw: Raw = [version(), (Label::C_NPROCS, words(&[1])), (Label::H_NPROCS, values)].into();
        if count {
            raw.insert(Label::C_NHOSTS, words(&[hosts as u32]));
        }
        raw
    };
    let limited = |others: Vec<Raw>, procs_max| learned(changed(|it| it.procs_max = procs_max), others).0;
    for count in [true, false] {
        let many = limited(vec![empty(2, true), empty(100, count)], 103).unwrap_err();
        assert_eq!(
            many,
            ClientFault::Learn(LearnError::Many {
                label: Label::C_NHOSTS,
                client: 2,
                count: 100,
                all: 104,
                most: 103
            })
        );
        let learned = limited(vec![empty(2, true), empty(100, count)], 104).unwrap();
        assert_eq!(learned.clusters[2].hosts.len(), 100);
    }
    assert!(limited(vec![procs(5)], 8).is_ok());
    assert!(limited(vec![procs(5)], 7).unwrap_err().to_string().contains("client 1 has 5 processes"));
}

#[test]
fn both_ways_of_ipv4_are_understood() {
    let lam = "::192.0.2.7".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let learned = with(vec![other(1, &[], &[(Label::H_IPV6, [lam, lam].concat())])]).unwrap();
    for (cluster, ip) in [(0, "10.0.0.1"), (1, "192.0.2.7")] {
        let address = learned.clusters[cluster].hosts[0].address.unwrap();
        assert_eq!(to_ip(address).to_string(), ip);
    }
}

#[test]
fn versions_of_each_pair() {
    let named = |versions: &[(u32, u32)]| {
        let versions: Vec<Version> =
            versions.iter().map(|(major, minor)| Version { major: *major, minor: *minor }).collect();
        Version::to_bytes(&versions)
    };
    let mut client = settings(0);
    client.cluster.versions.push(Version { major: 1, minor: 2 });
    client.own_labels = true;
    let own = (PRIVATE_MAJOR, 7);
    let others = vec![
        other(1, &[], &[(Label::C_VERSION, named(&[(0, 0), (0, 1), (1, 2), (1, 3), own]))]),
        other(2, &[], &[(Label::C_VERSION, named(&[(0, 0), (0, 1)]))]),
        other(3, &[Label::C_VERSION], &[]),
    ];
    let learned = learned(client, others).0.unwrap();
    let version = |a, b| learned.version(a, b).map(|version| version.to_string());
    assert_eq!(version(0, 1).as_deref(), Some("1.2"));
    assert_eq!(version(1, 0).as_deref(), Some("1.2"));
    assert_eq!(version(0, 0), Some(Version::OWN.to_string()));
    assert_eq!(version(0, 2).as_deref(), Some("0.0"));
    assert_eq!(version(1, 2).as_deref(), Some("0.1"));
    assert_eq!(version(3, 1).as_deref(), Some("0.0"));
    assert_eq!((version(0, 4), version(32, 0)), (None, None));
    assert!(!learned.own_labels);
    assert!(learned.clusters[3].versions.is_empty());
}

/// Each list of versions ascends: the version of this project has its place among those that the cluster names.
#[test]
fn the_version_of_this_project_stands_in_its_place() {
    let version = |major| Version { major, minor: 0 };
    let sent = |versions: &[Version]| {
        let mut client = settings(0);
        (client.cluster.versions, client.own_labels) = (versions.to_vec(), true);
        raw(&client).remove(&Label::C_VERSION).unwrap()
    };
    let (low, high) = (version(1), version(u32::MAX));
    let all = Version::to_bytes(&[Version::MANDATORY, low, Version::OWN, high]);
    assert_eq!(sent(&[Version::MANDATORY, low, high]), all);
    assert_eq!(sent(&[Version::MANDATORY, low, Version::OWN, high]), all, "it stands there once");
    assert_eq!(sent(&[Version::MANDATORY]), Version::to_bytes(&[Version::MANDATORY, Version::OWN]));
}

/// If client 0 had not sent the job of all nodes, the job was accepted from any client.
#[test]
fn the_job_is_client_zeros_to_say() {
    let job = |rank| {
        let mut raw = other(rank, &[], &[]);
        raw.insert(Label::C_VERSION, Version::to_bytes(&[Version::MANDATORY, Version::OWN]));
        raw.insert(Label::C_JOB, vec![1; 16]);
        raw
    };
    let silent =
        || other(1, &[], &[(Label::C_VERSION, Version::to_bytes(&[Version::MANDATORY, Version::OWN]))]);
    let with = |own: Option<[u8; 16]>, others: Vec<Raw>| {
        let mut client = settings(0);
        (client.own_labels, client.job) = (true, own);
        learned(client, others).0
    };
    assert_eq!(with(Some([1; 16]), vec![silent()]).unwrap().job, Some([1; 16]));
    assert_eq!(with(None, vec![silent()]).unwrap().job, None);
    for own in [None, Some([1; 16])] {
        let fault = with(own, vec![silent(), job(2)]).unwrap_err();
        assert_eq!(fault, ClientFault::Learn(LearnError::Job { clients: vec![2] }));
        let said = fault.to_string();
        assert!(said.ends_with("client 2 has said the job of all nodes (C_JOB), and client 0 alone says it"));
    }
    let both = with(None, vec![job(1), job(2)]).unwrap_err().to_string();
    assert!(both.contains("clients 1, 2 have said the job"), "{both}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever labels of whatever clients are missing or different, the result is an answer or an error. What is
    /// learned of a client whose values were understood is what it has sent.
    #[test]
    fn whatever_the_others_leave_out(
        clusters in prop::collection::vec(any_cluster(1, Agreed { xsize: 1024, maxlinear: 4 }), 1..4),
        without in prop::collection::vec((0usize..4, 0usize..14), 0..6),
        strange in prop::collection::vec((0usize..4, 0usize..14, prop::collection::vec(any::<u8>(), 0..40)), 0..2),
    ) {
        let mut raws: Vec<Raw> = Vec::new();
        for cluster in &clusters {
            let mut settings = settings(1);
            settings.cluster = cluster.clone();
            raws.push(raw(&settings));
        }
        for (client, label) in without {
            let client = client % raws.len();
            raws[client].remove(&Label::KNOWN[label]);
        }
        let untouched = strange.is_empty();
        for (client, label, values) in strange {
            let client = client % raws.len();
            raws[client].insert(Label::KNOWN[label], values);
        }
        if let (Ok(learned), true) = (learned(settings(0), raws.clone()).0, untouched) {
            prop_assert_eq!(&learned.clusters[0], &settings(0).cluster);
            for (raw, (learned, said)) in raws.iter().zip(learned.clusters[1..].iter().zip(&clusters)) {
                if raw.contains_key(&Label::H_IPV6) {
                    let addresses = |cluster: &gpc_impi::client::Cluster| cluster.hosts.iter().map(|host| host.address).collect::<Vec<_>>();
                    prop_assert_eq!(addresses(learned), addresses(said));
                }
                if raw.contains_key(&Label::P_PID) {
                    let pids = |cluster: &gpc_impi::client::Cluster| cluster.hosts.iter().flat_map(|host| &host.procs).map(|proc| proc.pid).collect::<Vec<_>>();
                    prop_assert_eq!(pids(learned), pids(said));
                }
            }
        }
    }
}
