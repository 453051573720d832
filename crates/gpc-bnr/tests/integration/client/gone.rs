//! Nodes that end, stay silent, or send invalid bytes.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpc_bnr::client::{ClientError, Process, TimeLimits};
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Fault, FaultKind};

use crate::client::fake::{Fake, GROUP, beginning, begun, identity, meanwhile};

#[test]
fn a_process_does_not_begin_without_its_node() {
    let (node, client) = UnixStream::pair().unwrap();
    drop(node);
    let error = beginning(client).join().unwrap().unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    // The second program of a shell read only that its node was gone.
    assert!(error.to_string().ends_with("takes part once"), "{error}");
    assert_eq!(error.kind(), FaultKind::Link);
    // The node ends after the request.
    let (node, client) = UnixStream::pair().unwrap();
    let beginning_too = beginning(client);
    let mut fake = Fake::new(node);
    fake.hear();
    drop(fake);
    let error = beginning_too.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    // The node refuses.
    let (node, client) = UnixStream::pair().unwrap();
    let refused = beginning(client);
    let fault = Fault::new(FaultKind::DomainEnded, "the domain ends");
    Fake::new(node).expect(&Request::Init, Err(fault.clone()));
    let error = refused.join().unwrap().unwrap_err();
    assert!(matches!(&error, ClientError::Refused(why) if *why == fault), "{error:?}");
    assert_eq!(error.kind(), FaultKind::DomainEnded);
    assert!(!error.to_string().contains("takes part once"), "{error}");
}

#[test]
fn a_node_that_is_silent_is_not_waited_for_for_ever() {
    let (node, client) = UnixStream::pair().unwrap();
    let short = Duration::from_millis(20);
    let waits = TimeLimits { collective: short, other: short, margin: short };
    let error = Process::over(client.into(), waits).unwrap_err();
    assert_eq!(error.kind(), FaultKind::TimedOut);
    drop(node);
    // A late answer is harmless.
    let (node, client) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(node);
    let process = beginning(client);
    fake.expect(&Request::Init, Ok(Answer::Identity(identity(0))));
    let process = process.join().unwrap().unwrap();
    let fault = process.fence(&process.everybody(), Some(Duration::ZERO)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::TimedOut);
    let (serial, _) = fake.hear();
    fake.answer(serial, Ok(Answer::Done));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| process.lookup("x"));
        fake.expect(&Request::Lookup { name: b"x".to_vec(), wait: None }, Ok(Answer::Value(b"y".to_vec())));
        assert_eq!(asking.join().unwrap(), Ok(b"y".to_vec()));
    });
}

/// Every waiting thread fails at once, whatever it waits for.
#[test]
fn a_node_that_goes_fails_all_who_wait() {
    let (process, mut fake) = begun();
    process.put("db", "k", "v", None).unwrap();
    fake.hear();
    let commit = meanwhile(&process, |process| process.commit("db"));
    let fence = meanwhile(&process, Process::barrier);
    let subscribe = meanwhile(&process, |process| process.subscribe(GROUP).map(drop));
    fake.hear();
    fake.hear();
    drop(fake);
    for waiting in [commit, fence, subscribe] {
        let fault = waiting.join().unwrap().unwrap_err();
        assert!(fault.kind == FaultKind::Link && fault.message.contains("gone"), "{fault:?}");
    }
    assert_eq!(process.barrier().unwrap_err().kind, FaultKind::Link);
    assert_eq!(process.abort(1, "x").unwrap_err().kind, FaultKind::Link);
}

#[test]
fn a_node_that_makes_no_sense_is_left() {
    let wrong: [(&[u8], &str); 5] = [
        (&[0, 0, 0, 255], "a frame of 4278190080 bytes"),
        (&[1, 0, 0, 0, 9], "no such thing"),
        (&[0, 0, 0, 0], "end too early"),
        (&[13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], "makes no sense"),
        (&[11, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 1, 0], "request 99, which was not made"),
    ];
    for (bytes, why) in wrong {
        let (process, mut fake) = begun();
        let fencing = meanwhile(&process, Process::barrier);
        fake.hear();
        fake.say(bytes);
        let fault = fencing.join().unwrap().unwrap_err();
        assert!(fault.kind == FaultKind::Link && fault.message.contains(why), "{fault:?}");
        // The client has closed the link.
        assert_eq!(fake.hear_or_end(), None);
    }
}

/// If a process drops its link, its node notices.
#[test]
fn who_drops_it_is_gone() {
    let (process, mut fake) = begun();
    drop(process);
    assert_eq!(fake.hear_or_end(), None);
}
