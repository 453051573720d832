//! Small worlds with every crash at every event. `.ci/run` tries larger ones with the release build of the command.

use chained_gpc::Tree;
use gpc_sim::{Crash, Exhaustive, Random, Scenario, exhaustive, exhaustive_trees, run};
use gpc_trees::{Layout, Limits, TreeName};

fn clean(of: &Scenario, crashes: u32) -> Exhaustive {
    let all = exhaustive(of, crashes);
    let shown =
        |(scenario, violations): &(Scenario, Vec<_>)| format!("{}\n  {violations:?}", scenario.replay());
    assert_eq!(all.failed, 0, "{}", all.failures.iter().map(shown).collect::<Vec<_>>().join("\n"));
    all
}

/// Runs every built-in tree and both kinds of calls over 1 to `most` ids; returns the number of worlds.
fn all_trees(most: u32, crashes: u32) -> u64 {
    let trees: Vec<Tree> = exhaustive_trees().iter().filter_map(TreeName::built_in).collect();
    assert_eq!(trees.len(), 10);
    let mut worlds = 0;
    for (tree, n) in trees.iter().flat_map(|tree| (1..=most).map(move |n| (tree, n))) {
        for partial in [false, true] {
            worlds += clean(&Scenario { partial, ..Scenario::new(n, tree.clone()) }, crashes).worlds;
        }
    }
    worlds
}

#[test]
fn any_one_may_end_at_any_event() {
    assert!(all_trees(5, 1) > 3_000);
}

#[test]
fn any_two_may_end_at_any_events() {
    assert!(all_trees(3, 2) > 2_000);
}

#[test]
fn trees_of_users_hold_too() {
    let mut random = Random::new(7);
    for n in [5, 6, 7] {
        // Each position is below an earlier one.
        let parents: Vec<Option<u32>> = (0..n)
            .map(|place: u32| place.checked_sub(1).map(|last| random.below(u64::from(last) + 1) as u32))
            .collect();
        let tree = Layout::from_parents(&parents, &Limits::default()).unwrap().tree();
        for partial in [false, true] {
            clean(&Scenario { partial, ..Scenario::new(n, tree.clone()) }, 1);
        }
    }
    for (file, text) in [
        ("uneven-7", include_str!("../../../../tests/trees/uneven-7.tree")),
        ("uneven-8", include_str!("../../../../tests/trees/uneven-8.tree")),
    ] {
        let layout =
            Layout::parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{file}: {error}"));
        clean(&Scenario { partial: true, ..Scenario::new(layout.len(), layout.tree()) }, 1);
    }
}

/// The events after which a crash is tried depend on the recorded participants. Trying every event shows that this
/// leaves nothing out.
#[test]
fn a_crash_that_no_event_of_its_own_comes_before_is_the_same_as_a_later_one() {
    let of = Scenario { partial: true, ..Scenario::new(4, Tree::Chain) };
    let with = |event| {
        let report = run(&Scenario { crashes: Some(vec![Crash { event, id: 3 }]), ..of.clone() });
        assert_eq!(report.violations, []);
        report.calls[0].coverage
    };
    // Before the request for id 3 is sent, no event concerns id 3.
    assert_eq!((with(0), with(0).unreached), (with(1), 1));
    let late = (1..40).map(with).find(|coverage| coverage.done == 4);
    assert!(late.is_some(), "after its answer has come it is not missed");
}

#[test]
fn crashes_are_read_as_they_are_printed() {
    let crashes = vec![Crash { event: 17, id: 3 }, Crash { event: 0, id: 12 }];
    assert_eq!(Crash::list(&crashes), "3@17,12@0");
    assert_eq!(Crash::parse_list(&Crash::list(&crashes)), Ok(crashes));
    assert_eq!((Crash::parse_list("none"), Crash::list(&[])), (Ok(Vec::new()), "none".into()));
    for bad in ["", "3", "3@", "@3", "a@1", "3@1,"] {
        assert!(Crash::parse_list(bad).is_err(), "{bad:?}");
    }
}
