//! Tests of worlds of peers: they hold, a run is reproducible, and the checkers find faults.

use super::check::{Checkers, End, Observation, Who};
use super::model::public;
use super::*;
use crate::check::Violation;
use chained_gpc::link::peering::{HALF_OPEN_PER_SOURCE, LinkKey, Proof, PublicKey};

fn holds(scenarios: impl IntoIterator<Item = Scenario>, least: u64) {
    let swarm = run_all(scenarios);
    let shown =
        |(scenario, found): &(Scenario, Vec<Violation>)| format!("{}\n  {found:?}", scenario.replay());
    let found: Vec<String> = swarm.failures.iter().map(shown).collect();
    assert!(found.is_empty(), "{} of {} failed:\n{}", swarm.failed, swarm.runs, found.join("\n"));
    assert!(swarm.runs >= least, "{} runs", swarm.runs);
}

#[test]
fn a_swarm_of_worlds_holds() {
    for n in 2..=6 {
        holds((0..100).map(|seed| Scenario::new(n, seed)), 100);
    }
}

/// `.ci/run` tries worlds of three ids, with the release build of the command.
#[test]
fn small_worlds_hold_with_every_fault_at_every_event() {
    for seed in 0..2 {
        holds(exhaustive(&Scenario::new(2, seed), 1), 200);
    }
}

/// Every hundredth pair of faults. All pairs of one seed are some hundred thousand worlds; `gpc sim -n 2 --peering
/// --exhaustive 2` runs them.
#[test]
fn small_worlds_hold_with_two_faults() {
    for seed in 0..2 {
        holds(exhaustive(&Scenario::new(2, 100 + seed), 2).skip(seed as usize).step_by(101).take(150), 100);
    }
}

#[test]
fn a_seed_is_a_world() {
    let traced = |seed| run(&Scenario { trace: true, ..Scenario::new(4, seed) });
    for seed in 0..20 {
        let (one, two) = (traced(seed), run(&Scenario::new(4, seed)));
        assert_eq!((one.hash, one.events), (two.hash, two.events));
        assert!(!one.trace.is_empty() && two.trace.is_empty());
    }
    assert_ne!(traced(1).hash, traced(2).hash);
}

/// A member claimed the id of a process that waited for its link, with a higher generation than that process's own. The
/// next hello of the process was refused as a duplicate of the link that it had closed, and the rule blamed the peer.
#[test]
fn who_claims_another_id_may_have_it_wait() {
    holds([Scenario::new(4, 193000030220)], 1);
}

/// Two processes had one id. The second took the link for a while, and the count of generations began anew: the next
/// hello to the first was taken for a repetition. The rule blamed the first.
#[test]
fn a_second_process_of_an_id_may_have_others_wait_for_the_first() {
    holds([Scenario::new(4, 197000030924)], 1);
}

/// A flood from one address came on top of one from several. The rule took all of them for those of one address.
#[test]
fn two_floods_are_counted_apart() {
    holds([Scenario::new(4, 197000080659)], 1);
}

#[test]
fn every_fault_takes_effect_somewhere() {
    let swarm = run_all((0..600).map(|seed| Scenario::new(3, 1000 + seed)));
    let missing: Vec<&Fault> =
        Fault::ALL.iter().filter(|fault| !swarm.injected.contains_key(fault)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn faults_at_events_read_as_they_are_written() {
    for text in ["none", "cross@0", "restart@17,half-open@3"] {
        assert_eq!(acts_text(&parse_acts::<Fault>(text).unwrap()), text);
    }
    for text in ["", "cross", "cross@", "crossing@1", "cross@1,", "@1"] {
        assert!(parse_acts::<Fault>(text).is_err(), "{text}");
    }
}

const A: End = End { process: 0, key: LinkKey(0) };
const B: End = End { process: 1, key: LinkKey(0) };

fn who(id: u32, psk: u64) -> Who {
    let (incarnation, key, job) = (100 + u64::from(id), public(u64::from(id) + 5), Default::default());
    Who { id, incarnation, psk: Some(psk), key, job, hiwater: 8 + id }
}

fn message(length: usize, filled: u8) -> Vec<u8> {
    [&(length as u16).to_le_bytes()[..], &vec![filled; length]].concat()
}

fn opened(end: End, mate: Option<End>, ours: bool) -> Observation {
    let (proves, encrypts, source, member) = (true, true, None, None);
    let to = ours.then_some(if end == A { 1 } else { 0 });
    Observation::Opened {
        end,
        mate,
        ours,
        proves,
        encrypts,
        to,
        source,
        member,
        rings: false,
        unpermitted: false,
    }
}

fn up(end: End, peer: u32) -> Observation {
    let (incarnation, proof) = (100 + u64::from(peer), Proof::Secret);
    Observation::Up { end, peer, incarnation, proof, sealed: true, listed: None }
}

/// A link between two processes, from its first byte to its last.
fn honest() -> Vec<Observation> {
    let first = [&[0; 8][..], &message(56, 1)].concat();
    let (second, third, hello, answer) = (message(100, 2), message(64, 3), message(72, 4), message(72, 5));
    let mut all = vec![Observation::Began(who(0, 9)), Observation::Began(who(1, 9)), opened(A, None, true)];
    all.extend([
        Observation::Wrote(A, first.clone()),
        opened(B, Some(A), false),
        Observation::Took(B, first),
    ]);
    all.extend([Observation::Wrote(B, second.clone()), Observation::Took(A, second)]);
    all.extend([Observation::Wrote(A, third.clone()), Observation::Wrote(A, hello.clone())]);
    all.extend([Observation::Took(B, third), Observation::Took(B, hello)]);
    all.extend([Observation::Wrote(B, answer.clone()), up(B, 0), Observation::Took(A, answer), up(A, 1)]);
    all
}

/// The checkers that complain of a history.
fn judged(history: Vec<Observation>) -> Vec<&'static str> {
    let mut checkers = Checkers::default();
    (0..).zip(history).for_each(|(at, seen)| checkers.observe(at, seen));
    let mut found: Vec<_> = checkers.violations().iter().map(|violation| violation.checker).collect();
    found.dedup();
    found
}

fn changed(change: impl Fn(&mut Vec<Observation>)) -> Vec<&'static str> {
    let mut history = honest();
    change(&mut history);
    judged(history)
}

fn and(more: impl IntoIterator<Item = Observation>) -> Vec<&'static str> {
    judged(honest().into_iter().chain(more).collect())
}

fn rest(process: usize) -> Observation {
    Observation::Rest { process, unfinished: 0, holds: false, due: false }
}

#[test]
fn an_honest_history_passes() {
    assert_eq!(judged(honest()), [""; 0]);
    assert_eq!(and([rest(0), rest(1)]), [""; 0]);
    assert_eq!(
        and([
            Observation::Closed(A),
            Observation::Lost(0, 1, true),
            Observation::Closed(B),
            Observation::Lost(1, 0, true),
            rest(0)
        ]),
        [""; 0]
    );
}

#[test]
fn who_is_another_one_is_seen() {
    let with_up = |seen: Observation| changed(|all| all[13] = seen.clone());
    assert!(matches!(honest()[13], Observation::Up { end: B, .. }));
    assert_eq!(with_up(up(B, 7))[0], "authentic", "an id that it is not");
    let other_run = |run| Observation::Up {
        end: B,
        peer: 0,
        incarnation: run,
        proof: Proof::Secret,
        sealed: true,
        listed: None,
    };
    assert_eq!(with_up(other_run(9))[0], "authentic", "a run that it is not");
    let proved =
        |proof, listed| Observation::Up { end: B, peer: 0, incarnation: 100, proof, sealed: true, listed };
    let key = |private| Some(public(private));
    assert_eq!(with_up(proved(Proof::Key, key(5))), [""; 0]);
    let wrong: [(Proof, Option<PublicKey>); 4] =
        [(Proof::Key, key(6)), (Proof::Key, None), (Proof::Secret, key(5)), (Proof::None, None)];
    for (proof, listed) in wrong {
        assert_eq!(with_up(proved(proof, listed))[0], "authentic", "{proof:?} {listed:?}");
    }
    assert_eq!(changed(|all| all[0] = Observation::Began(who(0, 8)))[0], "words", "another secret");
    // A connection without a process at its other end, such as a replay. Its first message is a member's, but the third
    // does not answer this second one.
    let recorded = changed(|all| all[4] = opened(B, None, false));
    assert_eq!(recorded, ["words", "authentic"]);
    assert!(
        changed(|all| all[10] = Observation::Took(B, message(64, 9))).contains(&"authentic"),
        "changed on its way"
    );
    assert_eq!(
        changed(|all| all[14] = Observation::Took(A, message(72, 9)))[0],
        "authentic",
        "a changed answer"
    );
}

#[test]
fn words_before_the_proof_are_seen() {
    let said = |bytes: &[u8]| {
        let mut all = honest();
        all.truncate(6);
        all.push(Observation::Wrote(B, bytes.to_vec()));
        judged(all)
    };
    assert_eq!(said(&[0, 0]), [""; 0]);
    assert_eq!(said(b"\x08\0\0\0\x07\0\0\0\x02refused"), [""; 0]);
    assert_eq!(said(b"your secret is another one"), ["words"]);
    assert_eq!(said(&[&message(100, 2)[..], &[0, 0]].concat()), [""; 0]);
    assert_eq!(said(&[&message(100, 2)[..], b"why"].concat()), ["words"]);
    assert_eq!(
        changed(|all| all[5] = Observation::Took(B, vec![7; 66]))[0],
        "words",
        "a forged first message"
    );
}

#[test]
fn what_is_not_sealed_or_closed_twice_or_comes_twice_is_seen() {
    let open = Observation::Up {
        end: A,
        peer: 1,
        incarnation: 101,
        proof: Proof::Secret,
        sealed: false,
        listed: None,
    };
    assert_eq!(changed(|all| all[15] = open.clone()), ["sealed"]);
    assert_eq!(and([Observation::Closed(A), Observation::Closed(A)]), ["ledger"]);
    assert_eq!(and([Observation::Closed(A), Observation::Wrote(A, vec![1])]), ["ledger"]);
    assert_eq!(and([Observation::Finished(A), Observation::Finished(A)]), ["ledger"]);
    assert_eq!(and([up(A, 1)]), ["events"], "up twice");
    assert_eq!(and([Observation::Lost(0, 1, false)]), ["events"], "it was a link");
    assert_eq!(and([Observation::Lost(0, 1, true), Observation::Lost(0, 1, true)]), ["events"]);
}

#[test]
fn a_link_that_answers_is_not_to_be_replaced_by_another_process() {
    let (c, b) = (End { process: 2, key: LinkKey(0) }, End { process: 1, key: LinkKey(1) });
    let twin = |answers| {
        let mut second = honest();
        second.drain(..2);
        let to = |end: End| if end == A { c } else { b };
        let moved = second.into_iter().map(move |seen| match seen {
            Observation::Opened { end, mate, ours, .. } => opened(to(end), mate.map(to), ours),
            Observation::Wrote(end, bytes) => Observation::Wrote(to(end), bytes),
            Observation::Took(end, bytes) => Observation::Took(to(end), bytes),
            Observation::Up { end, peer, incarnation, proof, sealed, listed } => {
                Observation::Up { end: to(end), peer, incarnation, proof, sealed, listed }
            }
            other => other,
        });
        let replaced = [Observation::Replaced { end: B, peer: 0, answers }, Observation::Lost(1, 0, true)];
        and([Observation::Began(who(0, 9))].into_iter().chain(replaced).chain(moved))
    };
    assert_eq!(twin(false), [""; 0]);
    assert_eq!(twin(true), ["authentic"]);
}

#[test]
fn what_is_left_or_missing_at_rest_is_seen() {
    assert_eq!(and([Observation::Closed(B), Observation::Lost(1, 0, true), rest(0)]), ["one-link"]);
    assert_eq!(and([Observation::Died(1), rest(0)]), ["one-link"]);
    let left = |unfinished, holds, due| Observation::Rest { process: 0, unfinished, holds, due };
    for rest in [left(1, false, false), left(0, true, false), left(0, false, true)] {
        assert_eq!(and([rest]), ["bounded"]);
    }
    let greeting = opened(End { process: 0, key: LinkKey(5) }, None, false);
    assert_eq!(and([greeting, rest(0)]), ["bounded"]);
    assert_eq!(and([Observation::HalfOpen(0, 2 * HALF_OPEN_PER_SOURCE)]), ["bounded"]);
    assert_eq!(and([Observation::HalfOpen(0, HALF_OPEN_PER_SOURCE)]), [""; 0]);
    assert_eq!(and([Observation::Missing(0, 1)]), ["liveness"]);
    assert_eq!(and([Observation::InVain(0, 1)]), ["liveness"]);
}
