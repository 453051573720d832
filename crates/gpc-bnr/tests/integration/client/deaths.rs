//! Notices of deaths, and their order relative to answers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use gpc_bnr::client::{Deaths, Process};
use gpc_bnr::names::GroupId;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Fault, FaultKind, Roster, Span};

use crate::client::fake::{Fake, GROUP, PATIENCE, begun, death, meanwhile};

/// The answer of a node that will report the deaths of these groups.
fn accepted(groups: &[GroupId]) -> Result<Answer, Fault> {
    let span = |group: &GroupId| Span { group: *group, first: 0, count: 1000 };
    let spans = groups.iter().map(span).collect();
    Ok(Answer::Rosters(vec![Roster { group: GroupId(9), database: String::new(), spans }]))
}

fn subscribed(process: &Arc<Process>, fake: &mut Fake) -> Deaths {
    let subscribing = meanwhile(process, |process| process.subscribe(GROUP));
    fake.expect(&Request::Subscribe(GROUP), accepted(&[GROUP]));
    subscribing.join().unwrap().unwrap()
}

/// A death that the node reports before it fails a fence is available when the fence returns.
#[test]
fn a_death_is_known_before_its_fence_fails() {
    let (process, mut fake) = begun();
    let deaths = subscribed(&process, &mut fake);
    let called = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&called);
    let subscribing = meanwhile(&process, move |process| {
        process.subscribe_with(GROUP, move |death| {
            assert_eq!(counter.fetch_add(1, Ordering::SeqCst), death.member.rank);
        })
    });
    fake.expect(&Request::Subscribe(GROUP), accepted(&[GROUP]));
    subscribing.join().unwrap().unwrap();
    let fences = 300;
    let fencing = meanwhile(&process, move |process| {
        for rank in 0..fences {
            let fault = process.barrier().unwrap_err();
            assert_eq!(deaths.try_next().as_ref(), fault.deaths.first());
            assert_eq!(fault.deaths, [death(rank)]);
            assert_eq!(called.load(Ordering::SeqCst), rank + 1);
        }
        assert_eq!(deaths.try_next(), None);
    });
    for rank in 0..fences {
        let (serial, _) = fake.hear();
        fake.notice_and_answer(death(rank), serial, Err(Fault::died(vec![death(rank)])));
    }
    fencing.join().unwrap();
}

/// A node reports all deaths again to a client that subscribes again; each subscriber gets each death once.
#[test]
fn each_death_is_told_once_to_each() {
    let (process, mut fake) = begun();
    let first = subscribed(&process, &mut fake);
    fake.notice(death(1));
    assert_eq!(first.wait(PATIENCE), Ok(death(1)));
    let second = subscribed(&process, &mut fake);
    fake.notice(death(1));
    fake.notice(death(3));
    for deaths in [&first, &second] {
        if std::ptr::eq(deaths, &second) {
            assert_eq!(deaths.wait(PATIENCE), Ok(death(1)));
        }
        assert_eq!(deaths.wait(PATIENCE), Ok(death(3)));
        assert_eq!(deaths.wait(Duration::ZERO).unwrap_err().kind, FaultKind::TimedOut);
    }
    // The first subscriber is gone; the other is still notified. Deaths of other groups are not delivered.
    drop(first);
    fake.notice(death(0));
    let mut other = death(2);
    other.member.group = GroupId(99);
    fake.notice(other);
    drop(fake);
    assert_eq!(second.wait(PATIENCE), Ok(death(0)));
    assert_eq!(second.wait(PATIENCE).unwrap_err().kind, FaultKind::Link);
    assert_eq!(second.count(), 0);
}

/// A process had merged two groups and subscribed to the merged one. The answer was `Ok`, but no death was ever
/// delivered. The node reported deaths by the groups that the processes were started in, and the client looked up the
/// number of the merged group.
#[test]
fn a_subscription_to_a_merged_group_gets_the_deaths_of_the_groups_that_it_is_made_of() {
    let (process, mut fake) = begun();
    let first = subscribed(&process, &mut fake);
    fake.notice(death(1));
    let (merged, other) = (GroupId(9), GroupId(7));
    let subscribing = meanwhile(&process, move |process| process.subscribe(merged));
    fake.expect(&Request::Subscribe(merged), accepted(&[GROUP, other]));
    let both = subscribing.join().unwrap().unwrap();
    let mut elsewhere = death(1);
    elsewhere.member.group = other;
    fake.notice(elsewhere);
    fake.notice(death(3));
    let expected = [death(1), elsewhere, death(3)];
    assert_eq!(expected.map(|_| both.wait(PATIENCE).unwrap()), expected);
    assert_eq!([(); 2].map(|()| first.wait(PATIENCE).unwrap()), [death(1), death(3)]);
    drop(fake);
    assert_eq!((first.count(), both.count()), (0, 0));
}

#[test]
fn who_is_refused_is_told_nothing() {
    let (process, mut fake) = begun();
    let (sender, called) = mpsc::channel();
    let subscribing = meanwhile(&process, move |process| {
        process.subscribe_with(GROUP, move |death| sender.send(death).unwrap())
    });
    let refused = Fault::new(FaultKind::NoGroup, "no such group");
    fake.expect(&Request::Subscribe(GROUP), Err(refused.clone()));
    assert_eq!(subscribing.join().unwrap(), Err(refused));
    fake.notice(death(1));
    // The callback has been dropped.
    assert!(called.recv_timeout(PATIENCE).is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_callback_asks_nothing() {
    let (process, mut fake) = begun();
    let (sender, called) = mpsc::channel();
    let asking = Arc::clone(&process);
    let subscribing = meanwhile(&process, move |process| {
        process.subscribe_with(GROUP, move |_| {
            let kinds = [
                asking.barrier().unwrap_err().kind,
                asking.put("db", "k", "v", None).unwrap_err().kind,
                asking.commit("db").unwrap_err().kind,
                asking.subscribe(GROUP).unwrap_err().kind,
            ];
            // The callback may send requests that have no answer.
            asking.abort(1, "a death").unwrap();
            sender.send(kinds).unwrap();
        })
    });
    fake.expect(&Request::Subscribe(GROUP), accepted(&[GROUP]));
    subscribing.join().unwrap().unwrap();
    fake.notice(death(1));
    assert_eq!(called.recv_timeout(PATIENCE).unwrap(), [FaultKind::BadRequest; 4]);
    assert!(matches!(fake.hear(), (_, Request::Abort { code: 1, .. })));
}

/// Without a reader thread, waiting threads would wait until their time limit.
#[test]
fn a_callback_that_panics_ends_the_link() {
    let (process, mut fake) = begun();
    let subscribing = meanwhile(&process, |process| {
        process.subscribe_with(GROUP, |death| panic!("this panic is a part of the test: {death:?}"))
    });
    fake.expect(&Request::Subscribe(GROUP), accepted(&[GROUP]));
    subscribing.join().unwrap().unwrap();
    let fencing = meanwhile(&process, Process::barrier);
    fake.hear();
    fake.notice(death(1));
    let fault = fencing.join().unwrap().unwrap_err();
    assert!(fault.kind == FaultKind::Link && fault.message.contains("panicked"), "{fault:?}");
}
