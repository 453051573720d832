//! Worlds, and whether their checkers bite.

use super::*;

#[test]
fn a_swarm_of_worlds_holds() {
    for n in 2..=6 {
        let swarm = run_all((0..400).map(|seed| Scenario::new(n, seed)));
        let found: Vec<String> = swarm
            .failures
            .iter()
            .map(|(scenario, violations)| format!("{}: {violations:?}", scenario.replay()))
            .collect();
        assert!(found.is_empty(), "{} failed\n{}", swarm.failed, found.join("\n"));
    }
}

#[test]
fn tmp_exhaustive() {
    for seed in 0..12 {
        let all: Vec<Scenario> = exhaustive(&Scenario::new(2, seed), 1).collect();
        println!("{seed} {} worlds", all.len());
        let swarm = run_all(all);
        println!("{} {}", swarm.runs, swarm.failed);
        swarm
            .failures
            .iter()
            .take(4)
            .for_each(|(scenario, violations)| println!("{}: {violations:?}", scenario.replay()));
    }
}
