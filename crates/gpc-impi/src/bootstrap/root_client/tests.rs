//! Tests of the values that a root sends for its cluster, and of its result from the values of all.

use chained_gpc::{Clock, PublicKey, Secret};

use super::*;
use crate::wire::Version;

const REACH: u64 = 0x0123_4567_89ab_cdef;

/// A process with this id on a host with this address.
fn said(id: Id, address: &str) -> ProcessEntry {
    ProcessEntry::new(
        id,
        100 + id,
        &format!("1,host,{REACH:016x},{},{address}", "7".repeat(62) + &format!("{id:02x}")),
    )
    .unwrap()
}

fn setup(rank: u32) -> Setup {
    let methods = crate::wire::Methods { none: true, key: None };
    Setup { server: "127.0.0.1:5000".into(), rank, methods, secret: Secret::new(&[7; 32]).unwrap() }
}

/// The result of a session of clusters with these processes.
fn learned(clusters: &[&[ProcessEntry]], own_labels: bool) -> Learned {
    let cluster = |said: &&[ProcessEntry]| {
        let mut cluster = cluster(&hosts(said));
        cluster.versions.push(Version::OWN);
        for process in cluster.hosts.iter_mut().flat_map(|host| &mut host.procs).filter(|_| !own_labels) {
            (process.port, process.key) = (None, None);
        }
        cluster
    };
    let clusters = clusters.iter().map(cluster).collect();
    let job = own_labels.then_some([5; 16]);
    Learned {
        rank: 0,
        clusters,
        datalen: None,
        tag_ub: None,
        coll_xsize: 1024,
        coll_maxlinear: 4,
        job,
        own_labels,
        others: Default::default(),
    }
}

#[test]
fn hosts_stand_in_the_order_in_which_they_first_appear() {
    let one = [said(0, "10.0.0.9:1"), said(1, "10.0.0.1:2"), said(2, "10.0.0.9:3")];
    let two = [said(3, "10.0.1.1:1")];
    let learned = learned(&[&one, &two], true);
    let answer = answer(&setup(0), &hosts(&one), &learned, false).unwrap();
    assert_eq!(answer.job, Job([5; 16]));
    let groups: Vec<&str> = answer.ids.iter().map(|(group, _)| group.as_str()).collect();
    assert_eq!(groups, ["client-0/10.0.0.9", "client-0/10.0.0.9", "client-0/10.0.0.1", "client-1/10.0.1.1"]);
    // Entries of the own cluster are unchanged; those of others are derived.
    let texts: Vec<&str> = answer.ids.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[..3], [&one[0].text, &one[2].text, &one[1].text]);
    let other: Entry = texts[3].parse().unwrap();
    assert_eq!((other.host.as_str(), other.key), ("10.0.1.1", two[0].entry.key));
    assert_eq!(other.addresses, two[0].entry.addresses);
    let pids = |host: usize| -> Vec<Option<u64>> {
        learned.clusters[0].hosts[host].procs.iter().map(|process| process.pid).collect()
    };
    assert_eq!((pids(0), pids(1)), (vec![Some(100), Some(102)], vec![Some(101)]));
}

/// In containers that share an address, processes may have the same number.
#[test]
fn numbers_of_processes_are_told_apart() {
    let text = |port| format!("1,host,{REACH:016x},-,10.0.0.1:{port}");
    let said: Vec<ProcessEntry> = (0..3).map(|id| ProcessEntry::new(id, 1, &text(id + 1)).unwrap()).collect();
    let cluster = cluster(&hosts(&said));
    let pids: BTreeSet<u64> = cluster.hosts[0].procs.iter().flat_map(|process| process.pid).collect();
    assert_eq!(pids.len(), 3);
}

#[test]
fn a_server_that_does_not_carry_our_labels_is_enough_for_one_process_on_each_host() {
    let (one, two) = ([said(0, "10.0.0.1:1"), said(1, "10.0.0.2:2")], [said(2, "10.0.0.3:3")]);
    let learned = learned(&[&one, &two], false);
    let answer_of =
        |rank: u32, said: &[ProcessEntry]| answer(&setup(rank), &hosts(said), &learned, false).unwrap();
    let (first, second) = (answer_of(0, &one), answer_of(1, &two));
    assert_eq!(first.job, second.job);
    assert_ne!(first.job, digest(&self::learned(&[&one, &one], false)));
    let keys = |answer: &Answer| -> Vec<Option<PublicKey>> {
        answer.ids.iter().map(|(_, text)| text.parse::<Entry>().unwrap().key).collect()
    };
    assert_eq!(keys(&first)[2], None, "who another cluster's process is only the secret tells");
    let several = [said(0, "10.0.0.1:1"), said(1, "10.0.0.1:2")];
    let learned = self::learned(&[&two, &several], false);
    let error = answer(&setup(0), &hosts(&two), &learned, false).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "host 0 of client 1 has 2 processes, and the server at 127.0.0.1:5000 has not carried"
        ),
        "{error}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let (one, two) = ([said(0, "10.0.0.1:1")], [said(1, "10.0.0.2:2")]);
    let refused = |change: fn(&mut Learned)| {
        let mut learned = learned(&[&one, &two], true);
        change(&mut learned);
        answer(&setup(0), &hosts(&one), &learned, false).unwrap_err().to_string()
    };
    let error = refused(|learned| learned.clusters[1].versions.truncate(1));
    assert!(error.starts_with("client 1 does not run nodes of this project"), "{error}");
    let copied = |learned: &mut Learned| learned.clusters[1].hosts = learned.clusters[0].hosts.clone();
    assert!(refused(copied).contains("have both the address 10.0.0.1:1"));
    let changed = |learned: &mut Learned| learned.clusters[0].hosts[0].procs[0].port = Some(9);
    assert_eq!(refused(changed), "what client 0 has said of its processes did not come back as it was");
    let key = |learned: &mut Learned| {
        learned.clusters[0].hosts[0].procs[0].key = Some(PublicKey([9; 32]));
    };
    assert!(refused(key).contains("did not come back as it was"));
    let more = |learned: &mut Learned| {
        let process = learned.clusters[1].hosts[0].procs[0].clone();
        learned.clusters[0].hosts.push(Host::new(
            process.address.unwrap(),
            8,
            vec![Proc { key: None, port: Some(8), ..process }],
        ));
    };
    assert!(refused(more).contains("did not come back as it was"));
}

#[test]
fn loopback_addresses_are_for_those_on_the_machine_of_the_server() {
    let same = |from: &str, to: &str| same_machine(from.parse().unwrap(), to.parse().unwrap());
    assert!(same("127.0.0.1", "127.0.0.9") && same("::1", "::1") && same("10.0.0.1", "::ffff:10.0.0.1"));
    assert!(!same("10.0.0.1", "10.0.0.2") && !same("10.0.0.1", "fd00::1"));
    // For an address this is known before there is a connection; for a name it is not. The second address belongs to no
    // host.
    assert!(!is_elsewhere("127.0.0.9:1") && is_elsewhere("192.0.2.1:1") && !is_elsewhere("nowhere:1"));
    let (one, two) = ([said(0, "127.0.0.1:1")], [said(1, "127.0.0.2:2")]);
    let learned = learned(&[&one, &two], true);
    for here in [true, false] {
        let answer = answer(&setup(0), &hosts(&one), &learned, here).unwrap();
        let other: Entry = answer.ids[1].1.parse().unwrap();
        assert_eq!(one[0].entry.address_of(1, &other).is_ok(), here);
    }
    let nowhere = Setup { server: "192.0.2.1:1".into(), ..setup(0) };
    let minute = Duration::from_secs(60);
    let left = Clock::system().limit(minute);
    let error = join_session(&nowhere, &one, (minute, &left), || true).unwrap_err().to_string();
    assert!(
        error.contains("(pid 100 on host host) listens for its own host alone (at 127.0.0.1:1): name"),
        "{error}"
    );
}

#[test]
fn what_a_process_says_is_checked() {
    let error = |text: &str| ProcessEntry::new(3, 7, text).unwrap_err().to_string();
    assert!(
        error("nonsense")
            .starts_with("process 3 of this cluster (pid 7 on host unknown) says of itself what no process")
    );
    let unix = error(&format!("1,h,{REACH:016x},-,unix:@x"));
    assert!(unix.ends_with("listens for its own host alone: name the address at which the other clusters reach its host with GPC_HOST_ADDRESS"), "{unix}");
    // The address that others can reach counts.
    let both = ProcessEntry::new(0, 7, &format!("1,h,{REACH:016x},-,127.0.0.1:1,10.0.0.1:2")).unwrap();
    assert_eq!(both.address.to_string(), "10.0.0.1:2");
}

/// One client reported 200,000 hosts, and every process of every cluster stored an entry for each.
#[test]
fn no_client_makes_the_others_keep_any_number_of_processes() {
    let (one, two) = ([said(0, "10.0.0.1:1")], [said(1, "10.0.0.2:2")]);
    let mut learned = learned(&[&one, &two], true);
    let process = learned.clusters[1].hosts[0].procs[0].clone();
    learned.clusters[1].hosts[0].procs = vec![process; IDS_MAX];
    let error = answer(&setup(0), &hosts(&one), &learned, false).unwrap_err().to_string();
    assert_eq!(
        error,
        "the clients have 65537 processes in all, of which 65536 are of client 1, and one bootstrap takes 65536 at most"
    );
    learned.clusters[1].hosts[0].procs.pop();
    let error = answer(&setup(0), &hosts(&one), &learned, false).unwrap_err().to_string();
    assert!(error.contains("have both the address"), "they are not too many now: {error}");
}

/// A server that leaves out the labels of this project removes the keys, and this was not reported.
#[test]
fn keys_that_were_not_carried_are_missed() {
    let (with, without) =
        ([said(0, "10.0.0.1:1")], [ProcessEntry::new(0, 1, "1,h,0000000000000000,-,10.0.0.1:1").unwrap()]);
    for (own_labels, cluster, missed) in
        [(false, &with, true), (true, &with, false), (false, &without, false)]
    {
        let learned = learned(&[cluster, &with], own_labels);
        assert_eq!(unproved(&hosts(cluster), &learned).is_some(), missed, "{own_labels}");
    }
}

/// A process that the server has left out would wait for the others at an id that is another's.
#[test]
fn a_process_that_did_not_come_back_is_missed() {
    let (ours, two) = ([said(0, "10.0.0.1:1"), said(1, "10.0.0.1:2")], [said(2, "10.0.0.2:2")]);
    let learned = learned(&[&ours[..1], &two], true);
    let error = answer(&setup(0), &hosts(&ours), &learned, false).unwrap_err().to_string();
    assert_eq!(error, "what client 0 has said of its processes did not come back as it was");
}

/// The job is the name of the set of nodes: two sets with any difference have different jobs.
#[test]
fn the_job_of_a_digest_depends_on_every_value() {
    let (one, two) =
        ([said(0, "10.0.0.1:1"), said(1, "10.0.0.1:2")], [said(2, "10.0.0.3:3"), said(3, "10.0.0.4:3")]);
    let base = learned(&[&one, &two], false);
    let changes: [fn(&mut Learned); 15] = [
        |_| {},
        |learned| learned.clusters[0].versions.truncate(1),
        |learned| learned.clusters[1].datalen = None,
        |learned| learned.clusters[1].datalen = Some(0),
        |learned| learned.clusters[1].tag_ub = None,
        |learned| learned.clusters[1].coll_xsize = Some(2),
        |learned| learned.clusters[1].coll_maxlinear = Some(2),
        |learned| learned.clusters[1].hosts[1].address = None,
        |learned| learned.clusters[1].hosts[1].port = Some(9),
        |learned| learned.clusters[1].hosts[1].ackmark = Some(9),
        |learned| learned.clusters[1].hosts[1].hiwater = Some(9),
        |learned| learned.clusters[0].hosts[0].procs[1].address = None,
        |learned| learned.clusters[0].hosts[0].procs[1].pid = Some(9),
        // A client without the last host, which another one has.
        |learned| {
            let host = learned.clusters[1].hosts.remove(0);
            learned.clusters[0].hosts.push(host);
        },
        |learned| learned.clusters.reverse(),
    ];
    let mut jobs = BTreeSet::new();
    for change in changes {
        let mut learned = base.clone();
        change(&mut learned);
        jobs.insert(digest(&learned).0);
        assert_eq!(digest(&learned), digest(&learned.clone()));
    }
    assert_eq!(jobs.len(), changes.len());
}
