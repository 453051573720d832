//! Tests of the pairs of a job.

use proptest::prelude::*;

use super::*;
use crate::server::orders::Process;

fn node(host: &str, ranks: impl IntoIterator<Item = u32>) -> NodeRanks {
    NodeRanks { host: host.to_owned(), ranks: ranks.into_iter().collect(), before: 0 }
}

/// Two applications on two nodes, and a node without processes between them.
fn job() -> Job {
    Job {
        namespace: "job".to_owned(),
        parent: None,
        slots: 8,
        nodes: vec![node("a", [0, 1, 4]), node("empty", []), node("b", [2, 3])],
        here: Some(2),
        applications: vec![4, 1],
    }
}

fn of_job(job: &Job) -> Vec<Info> {
    infos(job, 5, &JobFolders { top: "/s/0".into(), segments: "/s/0,segments".into() })
}

fn value<'a>(infos: &'a [Info], key: &str) -> &'a Value {
    let found: Vec<&Info> = infos.iter().filter(|info| info.key == key).collect();
    assert_eq!(found.len(), 1, "{key}");
    &found[0].value
}

fn text<'a>(infos: &'a [Info], key: &str) -> &'a str {
    value(infos, key).as_text().unwrap()
}

fn number(infos: &[Info], key: &str) -> u64 {
    value(infos, key).as_number().unwrap()
}

/// The arrays of this key.
fn arrays(all: &[Info], key: &str) -> Vec<Vec<Info>> {
    let found = all.iter().filter(|info| info.key == key);
    found
        .map(|info| match info.value.as_items() {
            Some(Items::Infos(infos)) => infos,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_job_is_described_as_a_whole() {
    let all = of_job(&job());
    assert_eq!((all[0].key.as_str(), number(&all, "pmix.session.id")), ("pmix.session.id", 5));
    assert_eq!(text(&all, "pmix.nmap"), "raw:a,b");
    assert_eq!(text(&all, "pmix.pmap"), "raw:0,1,4;2,3");
    assert_eq!(text(&all, "pmix.nlist"), "a,b");
    assert_eq!(text(&all, "pmix.jobid"), "job");
    assert_eq!((number(&all, "pmix.num.nodes"), number(&all, "pmix.job.size")), (2, 5));
    assert_eq!((number(&all, "pmix.univ.size"), number(&all, "pmix.max.size")), (8, 8));
    assert_eq!((number(&all, "pmix.job.napps"), number(&all, "pmix.tdir.rmclean")), (2, 1));
    assert_eq!(text(&all, "pmix.anlmap"), "(vector,(0,2,2),(0,1,1))");
    assert_eq!((text(&all, "pmix.tmpdir"), text(&all, "pmix.nsdir")), ("/s/0", "/s/0/job"));
    let small = of_job(&Job { slots: 2, ..job() });
    assert_eq!(number(&small, "pmix.univ.size"), 5, "never below the size of the job");
}

/// LOCAL_SIZE at the wrong level, and LOCAL_PEERS of the last node for all, have ended MPI_Init with "Not found".
#[test]
fn the_data_of_this_node_are_those_of_this_node() {
    let all = of_job(&job());
    assert_eq!((number(&all, "pmix.local.size"), text(&all, "pmix.lpeers")), (2, "2,3"));
    assert_eq!(number(&all, "pmix.lldr"), 2);
    let nodes = arrays(&all, "pmix.node.arr");
    let seen = nodes.iter().map(|node| {
        (
            text(node, "pmix.hname"),
            number(node, "pmix.nodeid"),
            text(node, "pmix.lpeers"),
            number(node, "pmix.local.size"),
        )
    });
    assert_eq!(seen.collect::<Vec<_>>(), [("a", 0, "0,1,4", 3), ("b", 1, "2,3", 2)]);
    let elsewhere = of_job(&Job { here: None, ..job() });
    assert!(!elsewhere.iter().any(|info| info.key == "pmix.local.size"));
}

#[test]
fn each_process_has_its_place_on_its_node_and_in_its_application() {
    let all = of_job(&job());
    let processes = arrays(&all, "pmix.pdata");
    assert!(processes.iter().all(|process| process[0].key == "pmix.rank"), "libpmix needs the rank first");
    let keys = ["pmix.rank", "pmix.nodeid", "pmix.lrank", "pmix.nrank", "pmix.appnum", "pmix.apprank"];
    let seen: Vec<[u64; 6]> = processes.iter().map(|process| keys.map(|key| number(process, key))).collect();
    let expected =
        [[0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1], [2, 1, 0, 0, 0, 2], [3, 1, 1, 1, 0, 3], [4, 0, 2, 2, 1, 0]];
    assert_eq!(seen, expected);
    // Processes of other jobs come first on a node; the numbers have 16 bits.
    let mut second = job();
    (second.nodes[0].before, second.nodes[2].before) = (7, 65_535);
    let ranks = arrays(&of_job(&second), "pmix.pdata");
    let ranks: Vec<u64> = ranks.iter().map(|process| number(process, "pmix.nrank")).collect();
    assert_eq!(ranks, [7, 8, 65_535, 0, 9]);
    let hosts: Vec<&str> = processes.iter().map(|process| text(process, "pmix.hname")).collect();
    assert_eq!(hosts, ["a", "a", "b", "b", "a"]);
    assert_eq!(text(&processes[3], "pmix.pdir"), "/s/0/job/3");
    assert!(!processes[0].iter().any(|info| info.key == "pmix.pdir"), "it is on another node");
    let applications = arrays(&all, "pmix.app.arr");
    let seen = applications.iter().map(|one| {
        (
            one[0].key.as_str(),
            number(one, "pmix.appnum"),
            number(one, "pmix.app.size"),
            number(one, "pmix.aldr"),
        )
    });
    assert_eq!(seen.collect::<Vec<_>>(), [("pmix.appnum", 0, 4, 0), ("pmix.appnum", 1, 1, 4)]);
}

#[test]
fn a_spawned_job_names_its_parent() {
    let parent = Process { namespace: "first".to_owned(), rank: 3 };
    let spawned = of_job(&Job { parent: Some(parent.clone()), ..job() });
    assert_eq!(value(&spawned, "pmix.parent").as_process(), Some(parent));
    assert_eq!(number(&spawned, "pmix.spawned"), 1);
    let all = of_job(&job());
    assert_eq!(number(&all, "pmix.spawned"), 0);
    assert!(!all.iter().any(|info| info.key == "pmix.parent"));
}

#[test]
fn a_job_that_cannot_be_registered_is_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&mut Job)| {
        let mut job = job();
        change(&mut job);
        check(&job, "b").unwrap_err()
    };
    assert_eq!(check(&job(), "b"), Ok(()));
    assert!(check(&job(), "a").unwrap_err().contains("started as `a`"));
    assert!(refused(&|job| job.here = Some(3)).contains("index of this node"));
    assert!(refused(&|job| job.here = None).contains("index of this node"));
    let mut elsewhere = job();
    elsewhere.here = None;
    assert_eq!(check(&elsewhere, "c"), Ok(()));
    assert!(refused(&|job| job.namespace = String::new()).contains("namespace"));
    assert!(refused(&|job| job.namespace = "n".repeat(256)).contains("1 to 255 bytes"));
    assert!(refused(&|job| job.nodes[0].host = "b".into()).contains("two nodes are named `b`"));
    for name in ["", "a,b", "a;b", "a\0"] {
        assert!(refused(&|job| job.nodes[0].host = name.into()).contains("cannot be the name"), "{name}");
    }
    for ranks in [vec![0, 1, 5], vec![0, 1, 2], vec![0, 1, 4, 4]] {
        assert!(refused(&|job| job.nodes[0].ranks = ranks.clone()).contains("from 0 on"), "{ranks:?}");
    }
    assert!(refused(&|job| job.nodes.iter_mut().for_each(|node| node.ranks.clear())).contains("from 0 on"));
    assert!(refused(&|job| job.applications = vec![4]).contains("have 4 processes, and the nodes 5"));
    assert!(refused(&|job| job.nodes[0].ranks = (0..70_000).collect()).contains("65,535"));
}

/// The node of each rank, from the map of PMI.
fn nodes_of(map: &str) -> Vec<u32> {
    let blocks = map.strip_prefix("(vector").unwrap().strip_suffix(')').unwrap();
    let blocks = blocks.split(",(").skip(1).map(|block| {
        let numbers = block.trim_end_matches(')').split(',').map(|number| number.parse::<u32>().unwrap());
        numbers.collect::<Vec<_>>()
    });
    blocks
        .flat_map(|block| {
            (block[0]..block[0] + block[1]).flat_map(move |node| std::iter::repeat_n(node, block[2] as usize))
        })
        .collect()
}

proptest! {
    #[test]
    fn the_map_of_pmi_says_where_each_rank_is(nodes in proptest::collection::vec(0..4_u32, 1..40)) {
        let places: Vec<Place> = nodes
            .iter()
            .zip(0..)
            .map(|(&node, rank)| Place {
 rank, node, local_rank: 0, node_rank: 0, application: 0, application_rank: 0 })
            .collect();
        prop_assert_eq!(nodes_of(&anl_map(&places)), nodes);
    }
}
