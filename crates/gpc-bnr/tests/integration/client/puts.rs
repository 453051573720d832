//! Puts, which are sent without waiting, and commits, which wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpc_bnr::client::Process;
use gpc_bnr::native::UNANSWERED_MAX;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Fault, FaultKind};

use crate::client::fake::{Fake, begun, meanwhile};

fn put(process: &Process, number: usize) {
    process.put("db", format!("{number}"), "v", None).unwrap();
}

/// Receives the put with this number and returns its serial.
fn hear(fake: &mut Fake, number: usize) -> u64 {
    let (serial, request) = fake.hear();
    let Request::Put { pair, .. } = &request else { panic!("{request:?}") };
    assert_eq!(pair.key, number.to_string().as_bytes());
    serial
}

#[test]
fn nobody_waits_for_a_put_and_commit_for_all() {
    let (process, mut fake) = begun();
    for number in 0..3 {
        put(&process, number);
    }
    process.put("other", "k", "v", None).unwrap();
    let commit = meanwhile(&process, |process| process.commit("db"));
    let serials: Vec<u64> = (0..3).map(|number| hear(&mut fake, number)).collect();
    // The first put is answered last, and the put into the other database is not answered.
    for serial in serials.into_iter().rev() {
        assert!(!commit.is_finished());
        fake.answer(serial, Ok(Answer::Done));
    }
    assert_eq!(commit.join().unwrap(), Ok(()));
    assert_eq!(process.commit("nothing was put"), Ok(()));
}

#[test]
fn the_first_that_is_refused_is_told_once() {
    let (process, mut fake) = begun();
    (0..3).for_each(|number| put(&process, number));
    let fault = |number: usize| Fault::new(FaultKind::TooLarge, format!("put {number}"));
    let commit = meanwhile(&process, |process| process.commit("db"));
    let serials: Vec<u64> = (0..3).map(|number| hear(&mut fake, number)).collect();
    fake.answer(serials[2], Err(fault(2)));
    fake.answer(serials[1], Err(fault(1)));
    fake.answer(serials[0], Ok(Answer::Done));
    assert_eq!(commit.join().unwrap(), Err(fault(1)));
    assert_eq!(process.commit("db"), Ok(()));
}

/// A commit does not wait for puts made after it began: here some put is always unanswered.
#[test]
fn a_commit_is_of_the_puts_before_it() {
    let (process, mut fake) = begun();
    let done = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&done);
    let putting = meanwhile(&process, move |process| {
        let mut number = 0;
        while !until.load(Ordering::SeqCst) {
            put(process, number);
            number += 1;
        }
        process.lookup("the end")
    });
    let mut open = hear(&mut fake, 0);
    let commit = meanwhile(&process, move |process| {
        let committed = process.commit("db");
        done.store(true, Ordering::SeqCst);
        committed
    });
    loop {
        match fake.hear() {
            (serial, Request::Put { .. }) => {
                fake.answer(open, Ok(Answer::Done));
                open = serial;
            }
            (serial, request) => {
                assert_eq!(request, Request::Lookup { name: b"the end".to_vec(), wait: None });
                break fake.answer(serial, Ok(Answer::Value(Vec::new())));
            }
        }
    }
    assert_eq!(commit.join().unwrap(), Ok(()));
    assert_eq!(putting.join().unwrap(), Ok(Vec::new()));
}

#[test]
fn no_more_are_on_their_way_than_a_node_takes() {
    let (process, mut fake) = begun();
    let more = 10;
    let putting = meanwhile(&process, move |process| {
        (0..UNANSWERED_MAX + more).for_each(|number| put(process, number));
        process.commit("db")
    });
    let mut serials: Vec<u64> = (0..UNANSWERED_MAX).map(|number| hear(&mut fake, number)).collect();
    assert!(fake.has_heard_nothing());
    // For each answer, one more put is sent; the fake node would close the link at another one.
    for number in UNANSWERED_MAX..UNANSWERED_MAX + more {
        fake.answer(serials.pop().unwrap(), Ok(Answer::Done));
        serials.push(hear(&mut fake, number));
    }
    serials.into_iter().for_each(|serial| fake.answer(serial, Ok(Answer::Done)));
    assert_eq!(putting.join().unwrap(), Ok(()));
}

#[test]
fn what_is_too_large_is_not_sent() {
    let (process, mut fake) = begun();
    let fault = process.put("db", "k", vec![0; 40 << 20], None).unwrap_err();
    assert_eq!(fault.kind, FaultKind::TooLarge);
    assert_eq!(process.deposit("k", vec![0; 40 << 20]).unwrap_err().kind, FaultKind::TooLarge);
    // A commit does not wait for this put, and the link still works.
    assert_eq!(process.commit("db"), Ok(()));
    put(&process, 5);
    let serial = hear(&mut fake, 5);
    fake.answer(serial, Ok(Answer::Done));
    assert_eq!(process.commit("db"), Ok(()));
}
