//! Worlds without faults: the cost of a call, and reproducible runs.

use chained_gpc::Tree;
use gpc_sim::{Costs, FaultSet, LinkCost, Report, Scenario, run, swarm};
use gpc_trees::TreeName;

const LINK: LinkCost = LinkCost { latency_ns: 1000, overhead_ns: 100, gap_ns: 30, byte_ps: 2000 };

fn costs() -> Costs {
    Costs { host: LINK, rack: LINK, elsewhere: LINK }
}

fn well(scenario: &Scenario) -> Report {
    let report = run(scenario);
    assert_eq!(report.violations, []);
    for call in &report.calls {
        assert_eq!((call.coverage.done, &call.cause), (scenario.n, &None), "{:?}", scenario.tree);
    }
    report
}

/// Bytes of a request over a range of ids, without header and data, and of an answer, without its reply.
const REQUEST: u64 = 8 + 92 + 8;
const ANSWER: u64 = 8 + 40;

#[test]
fn a_call_over_two_ids_costs_what_loggp_says() {
    let scenario = Scenario { costs: costs(), func_ns: 500, ..Scenario::new(2, Tree::Binary) };
    let report = well(&scenario);
    // func at the root, o + 87 G + L + o, func at the child, o + 59 G + L + o. The child's own 8 bytes are "8 " and the
    // bytes, the header is "0 ".
    let request = REQUEST - 4;
    let answer = ANSWER + 10 + 2;
    assert_eq!((report.messages, report.bytes), (2, request + answer));
    let took = 500 + (200 + 2 * (request - 1) + 1000) + 500 + (200 + 2 * (answer - 1) + 1000);
    assert_eq!(report.calls[0].took_ns, Some(took));
    assert_eq!(report.path.len(), 2);
    let (down, up) = (report.path[0], report.path[1]);
    assert_eq!(
        (down.from, down.to, down.down, down.sent_ns, down.queued_ns, down.worked_ns),
        (0, 1, true, 500, 0, 500)
    );
    assert_eq!((up.from, up.to, up.down, up.received_ns, up.worked_ns), (1, 0, false, took, 500));
}

#[test]
fn a_flat_root_sends_one_message_after_the_other() {
    let free = LinkCost { byte_ps: 0, ..LINK };
    let costs = Costs { host: free, rack: free, elsewhere: free };
    let report = well(&Scenario { costs, reply_bytes: Some(0), ..Scenario::new(4, Tree::Flat) });
    // The third request leaves after three overheads; its answer is the last, and it does not wait.
    assert_eq!(report.calls[0].took_ns, Some(3 * 100 + 1000 + 100 + 100 + 1000 + 100));
    let last = report.path[0];
    assert_eq!((last.to, last.queued_ns), (3, 200));
}

#[test]
fn near_hosts_are_nearer() {
    let far = well(&Scenario::new(64, Tree::Binary)).calls[0].took_ns;
    let near = well(&Scenario { hosts: Some(1), ..Scenario::new(64, Tree::Binary) }).calls[0].took_ns;
    assert!(near < far, "{near:?} {far:?}");
}

#[test]
fn every_tree_and_mode_reaches_everybody() {
    for name in ["binary", "binomial", "kary:8", "knomial:3", "chain", "flat"] {
        let tree = name.parse::<TreeName>().unwrap().built_in().unwrap();
        for (n, partial, reply_bytes) in [
            (1, false, Some(8)),
            (2, true, None),
            (63, false, Some(0)),
            (200, true, Some(4)),
            (300, false, Some(100)),
        ] {
            let report = well(&Scenario { calls: 2, partial, reply_bytes, ..Scenario::new(n, tree.clone()) });
            let releases = if partial { u64::from(n - 1) } else { 0 };
            assert_eq!(report.messages, 2 * (2 * u64::from(n - 1) + releases), "{name} over {n}");
        }
    }
}

#[test]
fn a_large_world_lets_idle_nodes_go_and_the_call_is_the_same() {
    // Below and above the size at which idle nodes are dropped.
    for n in [16_384, 16_385] {
        let report = well(&Scenario { calls: 2, reply_bytes: Some(0), ..Scenario::new(n, Tree::Binomial) });
        assert_eq!(report.messages, 4 * u64::from(n - 1));
        assert_eq!(report.calls[0].took_ns, report.calls[1].took_ns);
    }
}

#[test]
fn a_seed_decides_everything() {
    let scenario = |seed, trace| {
        let plain = Scenario::new(40, Tree::Binomial);
        Scenario { seed, trace, calls: 3, partial: true, faults: FaultSet::ALL, ..plain }
    };
    for seed in 1..20 {
        let (one, two) = (run(&scenario(seed, true)), run(&scenario(seed, false)));
        assert_eq!(
            (one.hash, one.events, one.bytes),
            (two.hash, two.events, two.bytes),
            "a trace changes nothing"
        );
        assert!(!one.trace.is_empty() && two.trace.is_empty());
        assert_ne!(one.hash, run(&scenario(seed + 1, false)).hash);
    }
}

/// In a large world without faults, ids that had answered were dropped with their retained answers: a release found no
/// node, and was not forwarded.
#[test]
fn a_retained_answer_of_a_large_world_is_released() {
    let report = run(&Scenario { partial: true, ..Scenario::new(17_000, Tree::Binary) });
    assert_eq!(report.violations, []);
}

/// A run must do the same on every machine. A change of the protocol, the costs or the draws changes these values;
/// update them then.
#[test]
fn the_hash_of_a_run_is_the_same_everywhere() {
    let plain = run(&Scenario { costs: costs(), ..Scenario::new(5, Tree::Binary) });
    let all =
        Scenario { calls: 3, partial: true, faults: FaultSet::ALL, ..Scenario::new(40, Tree::Binomial) };
    let hashes: Vec<u64> = (1..4).map(|seed| run(&Scenario { seed, ..all.clone() }).hash).collect();
    assert_eq!(plain.hash, 0x9acf_7a01_8964_20f4, "found {:#018x}", plain.hash);
    let known = [0xbeae_b5b9_6367_1bc9, 0x6f3d_4506_5114_e9a7, 0x954c_13b7_b854_b542];
    assert_eq!(hashes, known, "found {hashes:#018x?}");
}

/// The same for the first runs of the default swarms, which internal changes must leave unchanged. `gpc sim --against`,
/// with an earlier build, names the first run that differs and the difference.
#[test]
fn the_hash_of_many_runs_is_the_same_everywhere() {
    let of = |partial| {
        let most = Scenario { calls: 8, partial, faults: FaultSet::ALL, ..Scenario::new(24, Tree::Binary) };
        swarm(&most, 200, false).hash
    };
    let (found, known) = ([false, true].map(of), [0xe02b_6800_8ca8_0dbe, 0x3ccd_6e85_92bb_7d36]);
    assert_eq!(found, known, "found {found:#018x?}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let most = Scenario { calls: 2, faults: FaultSet::ALL, ..Scenario::new(24, Tree::Binary) };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| swarm(&most, 60, false))
    };
    let (one, many) = (on(1), on(4));
    assert_eq!((one.hash, one.events, one.runs), (many.hash, many.events, 60));
}

#[test]
fn a_swarm_is_its_runs() {
    let most = Scenario { calls: 2, faults: FaultSet::ALL, seed: 500, ..Scenario::new(16, Tree::Binary) };
    let all = swarm(&most, 10, false);
    let alone: u64 = (500..510).map(|seed| run(&most.swarm(seed, false)).events).sum();
    assert_eq!((all.runs, all.events), (10, alone));
}

/// The times that a call brings back are those of the world, in a call over 100,000 ids, too.
#[test]
fn the_times_of_a_traced_call_are_those_of_its_ids() {
    for (n, tree, partial) in [
        (1u32, Tree::Flat, false),
        (40, Tree::Chain, true),
        (4000, Tree::Flat, false),
        (100_000, Tree::Binomial, false),
    ] {
        let times = Scenario { func_ns: 3_000, hosts: Some(n.div_ceil(16)), ..Scenario::new(n, tree) };
        let plain = run(&Scenario { partial, ..times.clone() });
        let traced = well(&Scenario { partial, traced: true, ..times });
        // Each id's times are in the answers of all above it.
        let more = traced.bytes - plain.bytes;
        assert!(more >= 20 * u64::from(n - 1), "{more}");
    }
}
