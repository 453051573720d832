//! Tests of `rules` and `standing`: two processes link in clear, correctly at first and then with one deviation in each
//! test.

use super::*;
use chained_gpc::link::peering::LinkKey;
use chained_gpc::wire::frame::{FrameHeader, Kind};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason};
use chained_gpc::wire::{CauseKind, Hello, Job};

const A: End = End { process: 0, key: LinkKey(0) };
const B: End = End { process: 1, key: LinkKey(0) };

/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

fn who(id: Id) -> Who {
    let (incarnation, hiwater) = (100 + u64::from(id), 8 + id);
    Who { id, incarnation, psk: None, key: PublicKey([0; 32]), job: Job([7; 16]), hiwater }
}

fn hello(from: Id, generation: u32) -> Hello {
    let (to, incarnation) = (1 - from, who(from).incarnation);
    let (job, hiwater) = (Job([7; 16]), 8 + from);
    Hello { from, to, incarnation, generation, hiwater, job, rings: false, extents: false }
}

fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags: 0 };
    [&header.emit()[..], payload].concat()
}

fn says(hello: &Hello) -> Vec<u8> {
    frame(Kind::Hello, &hello.emit())
}

fn goodbye(reason: GoodbyeReason) -> Vec<u8> {
    frame(Kind::Goodbye, &Goodbye { reason, text: "no".into() }.emit())
}

fn opened(end: End, mate: Option<End>, to: Option<Id>) -> Observation {
    let (proves, encrypts, source, member) = (false, false, None, None);
    let ours = to.is_some();
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

fn standing(end: End, accepted: bool) -> Observation {
    let hiwater = 8 + who(1 - end.process as Id).id;
    Observation::Standing { end, accepted, rings: false, extents: false, hiwater }
}

fn up(end: End) -> Observation {
    let (peer, proof) = (1 - end.process as Id, Proof::None);
    Observation::Up { end, peer, incarnation: who(peer).incarnation, proof, sealed: false, listed: None }
}

fn settled(process: Process) -> Observation {
    Observation::Settled(process, 0)
}

/// Observations before the hello arrives, its outcome, and the outcome of the answer.
fn honest() -> [Vec<Observation>; 3] {
    let knows = |process, id| Observation::Input(process, Input::Knows(id, None));
    let begins = vec![
        Observation::Began(who(0)),
        Observation::Began(who(1)),
        knows(0, 1),
        knows(1, 0),
        opened(A, None, Some(1)),
        Observation::Input(0, Input::Stands(A.key)),
        Observation::Wrote(A, says(&hello(0, 1))),
        settled(0),
        opened(B, Some(A), None),
        settled(1),
        Observation::Took(B, says(&hello(0, 1))),
    ];
    let hears = vec![Observation::Wrote(B, says(&hello(1, 1))), standing(B, true), up(B), settled(1)];
    let ends = vec![Observation::Took(A, says(&hello(1, 1))), standing(A, false), up(A), settled(0)];
    [begins, hears, ends]
}

fn judged(history: impl IntoIterator<Item = Observation>) -> Vec<&'static str> {
    let mut checkers = Checkers::default();
    (0..).zip(history).for_each(|(at, seen)| checkers.observe(at, seen));
    let mut found: Vec<_> = checkers.violations().iter().map(|violation| violation.checker).collect();
    found.dedup();
    found
}

fn and(more: impl IntoIterator<Item = Observation>) -> Vec<&'static str> {
    judged(honest().into_iter().flatten().chain(more))
}

/// Violations if the hello has this outcome.
fn hears(what: Vec<Observation>) -> Vec<&'static str> {
    let [begins, ..] = honest();
    judged(begins.into_iter().chain(what).chain([settled(1)]))
}

/// Violations if the answer has this outcome.
fn ends(what: Vec<Observation>) -> Vec<&'static str> {
    let [begins, hears, _] = honest();
    judged(begins.into_iter().chain(hears).chain(what).chain([settled(0)]))
}

fn refused(reason: GoodbyeReason) -> Vec<Observation> {
    vec![Observation::Wrote(B, goodbye(reason)), Observation::Finished(B), Observation::Refused(B)]
}

#[test]
fn who_does_what_is_right_passes() {
    assert_eq!(and([]), [""; 0]);
}

#[test]
fn a_right_hello_that_is_refused_or_not_answered() {
    assert_eq!(hears(refused(GoodbyeReason::Refused)), ["rules"]);
    assert_eq!(hears(vec![]), ["rules"]);
    assert_eq!(hears(vec![Observation::Closed(B)]), ["rules"]);
}

#[test]
fn a_wrong_hello_that_is_not() {
    let wrong = |hello: Hello, comes: Vec<Observation>| {
        let [mut begins, ..] = honest();
        let at = begins.len() - 1;
        begins[6] = Observation::Wrote(A, says(&hello));
        begins[at] = Observation::Took(B, says(&hello));
        judged(begins.into_iter().chain(comes).chain([settled(1)]))
    };
    let linked = || vec![Observation::Wrote(B, says(&hello(1, 1))), up(B)];
    let right = hello(0, 1);
    let other_job = Hello { job: Job([9; 16]), ..right };
    for wrongly in [other_job, Hello { to: 5, ..right }, Hello { from: 1, ..right }] {
        assert!(wrong(wrongly, linked()).contains(&"rules"), "{wrongly:?}");
    }
    // Another job must be refused as such.
    assert!(wrong(other_job, refused(GoodbyeReason::Refused)).contains(&"rules"));
}

#[test]
fn hellos_that_are_miscounted() {
    let [mut begins, ..] = honest();
    begins[6] = Observation::Wrote(A, says(&hello(0, 3)));
    begins.truncate(8);
    assert_eq!(judged(begins), ["rules"], "the first one is 1");
    let answer = vec![Observation::Wrote(B, says(&hello(1, 2))), up(B)];
    assert_eq!(hears(answer), ["rules"], "an answer has the number of what it answers");
}

#[test]
fn a_wrong_answer_that_makes_a_link_or_of_another_job_that_is_not_told() {
    let answered = |answer: Vec<u8>, comes: Vec<Observation>| {
        let [begins, mut hears, _] = honest();
        hears[0] = Observation::Wrote(B, answer.clone());
        hears.truncate(1);
        let came = begins.into_iter().chain(hears).chain([Observation::Took(A, answer)]);
        judged(came.chain(comes).chain([settled(0)]))
    };
    let fails = || vec![Observation::Lost(0, 1, false), Observation::Closed(A)];
    let refused = goodbye(GoodbyeReason::Refused);
    assert_eq!(answered(refused.clone(), fails()), [""; 0]);
    assert_eq!(answered(refused, vec![Observation::Closed(A)]), ["rules"], "what waits is told");
    let other = says(&Hello { job: Job([9; 16]), ..hello(1, 1) });
    assert!(answered(other.clone(), fails()).contains(&"rules"), "without a word");
    let duplicate = goodbye(GoodbyeReason::Duplicate);
    assert_eq!(answered(duplicate.clone(), vec![Observation::Closed(A)]), [""; 0]);
    assert_eq!(answered(duplicate, fails()), ["rules"], "the other connection is awaited");
    assert_eq!(
        ends(vec![Observation::Took(A, says(&hello(1, 1)))]),
        ["rules"],
        "a right answer makes a link"
    );
}

#[test]
fn what_is_closed_for_nothing_or_for_nobody() {
    let c = End { process: 1, key: LinkKey(1) };
    let tick =
        || [Observation::Input(1, Input::Tick), Observation::Closed(c), Observation::Refused(c), settled(1)];
    assert_eq!(and([opened(c, None, None), settled(1)].into_iter().chain(tick())), ["rules"]);
    let replaced =
        [Observation::Input(1, Input::Tick), Observation::Replaced { end: B, peer: 0, answers: false }];
    assert_eq!(and(replaced.into_iter().chain([Observation::Lost(1, 0, true), settled(1)])), ["rules"]);
}

#[test]
fn who_announces_too_long_a_first_frame_is_not_waited_for() {
    let c = End { process: 1, key: LinkKey(1) };
    let announces = |length: u32, ends: Vec<Observation>| {
        let header = [&length.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
        and([opened(c, None, None), settled(1), Observation::Took(c, header)]
            .into_iter()
            .chain(ends)
            .chain([settled(1)]))
    };
    assert_eq!(announces(512, vec![]), [""; 0]);
    assert_eq!(announces(513, vec![]), ["rules"]);
    assert_eq!(announces(513, vec![Observation::Closed(c), Observation::Refused(c)]), [""; 0]);
}

#[test]
fn what_is_overdue() {
    let late = |at, why| {
        let mut checkers = Checkers::default();
        let [mut begins, ..] = honest();
        begins.truncate(8);
        begins.into_iter().for_each(|seen| checkers.observe(0, seen));
        checkers.observe(at, Observation::Input(0, why));
        checkers.observe(at, settled(0));
        checkers.violations().iter().map(|violation| violation.checker).collect::<Vec<_>>()
    };
    assert_eq!(late(9 * SECOND, Input::Tick), [""; 0]);
    assert_eq!(late(11 * SECOND, Input::Tick), ["rules"], "no hello is awaited for so long");
}

#[test]
fn what_a_process_says_of_itself() {
    let count = |proofs| and([Observation::Settled(1, proofs)]);
    assert_eq!((count(0), count(1)), (vec![], vec!["rules"]));
    let c = End { process: 1, key: LinkKey(1) };
    let waiting = |keys: Vec<(LinkKey, Option<u64>)>| {
        and([opened(c, None, None), settled(1), Observation::Waiting(1, keys)])
    };
    let since = honest().into_iter().flatten().count() as u64;
    assert_eq!(waiting(vec![(c.key, Some(since))]), [""; 0]);
    assert_eq!(waiting(vec![]), ["rules"]);
    let lists =
        |confirms, contradicts| and([Observation::Lists { process: 1, peer: 0, confirms, contradicts }]);
    assert_eq!(lists(None, None), [""; 0]);
    assert_eq!((lists(Some(B.key), None), lists(None, Some(B.key))), (vec!["rules"], vec!["rules"]));
    let not_opened = |lost: Option<Observation>| {
        let begins = [Observation::Began(who(0)), Observation::Input(0, Input::NotOpened(1))];
        judged(begins.into_iter().chain(lost).chain([settled(0)]))
    };
    assert_eq!(not_opened(Some(Observation::Lost(0, 1, false))), [""; 0]);
    assert_eq!(not_opened(None), ["rules"]);
    assert_eq!(and([Observation::Remembers(1, 5)]), ["bounded"]);
}

#[test]
fn links_that_are_not_what_was_said() {
    let stands = |seen: Observation| hears(vec![Observation::Wrote(B, says(&hello(1, 1))), seen, up(B)]);
    assert_eq!(stands(standing(B, true)), [""; 0]);
    assert_eq!(stands(standing(B, false)), ["standing"]);
    for (rings, extents, hiwater) in [(true, false, 8), (false, true, 8), (false, false, 9)] {
        let wrong = Observation::Standing { end: B, accepted: true, rings, extents, hiwater };
        assert_eq!(stands(wrong.clone()), ["standing"], "{wrong:?}");
    }
    let Observation::Up { end, peer, incarnation, proof, listed, .. } = up(B) else { return };
    let sealed = Observation::Up { end, peer, incarnation, proof, listed, sealed: true };
    assert_eq!(
        hears(vec![Observation::Wrote(B, says(&hello(1, 1))), sealed]),
        ["sealed"],
        "nobody asks for it"
    );
}

/// Calls that waited for a run of an id failed with a lost link, although another run had replaced it.
#[test]
fn as_what_a_link_is_lost_that_another_run_takes_the_place_of() {
    let c = End { process: 1, key: LinkKey(1) };
    let Observation::Up { peer, incarnation, proof, sealed, listed, .. } = up(B) else { return };
    let kind = |kind, incarnation| {
        let comes = [
            Observation::Replaced { end: B, peer, answers: false },
            Observation::LostBy(1, peer, kind),
            Observation::Lost(1, peer, true),
            Observation::Up { end: c, peer, incarnation, proof, sealed, listed },
        ];
        let mut checkers = Checkers::default();
        let all = honest().into_iter().flatten().chain([opened(c, None, None)]).chain(comes);
        all.for_each(|seen| checkers.observe(0, seen));
        checkers.violations().iter().any(|it| it.what.contains("is lost as a link alone"))
    };
    assert!(kind(CauseKind::LinkLost, incarnation + 1));
    assert!(!kind(CauseKind::LostIncarnation, incarnation + 1) && !kind(CauseKind::LinkLost, incarnation));
}
