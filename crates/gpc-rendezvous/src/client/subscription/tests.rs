//! Services that are away, silent, or wait for the end of a subscription.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use super::*;
use crate::client::{Client, ClientOptions};
use crate::machine::ResourceId;

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const ALL: &str = "event: completed\ndata: {\"level\":1,\"data\":\"MiAxIGEwIA==\",\"joint\":null}\n\n";

fn tally(tally: u32) -> String {
    format!("event: tally\ndata: {{\"tally\":{tally},\"capacity\":9}}\n\n")
}

fn subscribe(listener: &TcpListener) -> Subscription {
    let url = format!("http://{}/rendezvous", listener.local_addr().unwrap());
    let options = ClientOptions { limit: PATIENCE, ..ClientOptions::default() };
    let handle = Handle::new(&url, ResourceId([5; 16])).unwrap();
    Client::new(&options).unwrap().subscribe(&handle, Scope::Own, None).unwrap()
}

/// Accepts a connection, and answers its request.
fn answer(listener: &TcpListener, text: &str) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let (mut asked, mut byte) = (Vec::new(), [0]);
    while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        asked.push(byte[0]);
    }
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Serves on a thread, while the service is bound.
fn serving<T: Send + 'static>(
    serve: impl FnOnce(TcpListener) -> T + Send + 'static,
) -> (Subscription, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.try_clone().unwrap();
    let thread = thread::spawn(move || serve(own));
    (subscribe(&listener), thread)
}

/// The limit for a lost service counted from the last notification: if nobody had registered for almost as long, a
/// restart of the service ended the subscription.
#[test]
fn a_limit_without_the_service_counts_from_its_loss() {
    let away = Duration::from_secs(1);
    let (running, end) = channel::<()>();
    let (mut subscription, service) = serving(move |listener| {
        for rank in 0..2 {
            let stream = answer(&listener, &format!("{HEAD}{}", tally(rank)));
            // Nothing happens for longer than the service may be away.
            let _ = end.recv_timeout(away + away / 3);
            drop(stream);
            // It is away: connections are closed at once.
            let begun = Instant::now();
            while begun.elapsed() < away / 6 {
                drop(listener.accept().unwrap());
            }
        }
        answer(&listener, &format!("{HEAD}{}{ALL}", tally(2)))
    });
    for rank in 0..3 {
        let expected = Notification::Tally { tally: rank, capacity: 9 };
        assert_eq!(subscription.next_while_reached(away).unwrap(), Some(expected));
    }
    assert!(matches!(subscription.next_while_reached(away), Ok(Some(Notification::Completed(_)))));
    assert!(matches!(subscription.next_while_reached(away), Ok(None)));
    service.join().unwrap();
    drop(running);
}

#[test]
fn a_service_that_stays_away_ends_the_wait() {
    let (mut subscription, service) =
        serving(|listener| drop(answer(&listener, &format!("{HEAD}{}", tally(0)))));
    assert!(matches!(subscription.next_while_reached(PATIENCE), Ok(Some(Notification::Tally { .. }))));
    service.join().unwrap();
    let away = Duration::from_millis(50);
    assert!(matches!(subscription.next_while_reached(away), Err(ClientError::Unreachable { .. })));
}

/// Each wait began the longest silence anew: a stream of a host that had gone was waited for without an end, if the
/// limits of the waits were shorter.
#[test]
fn short_waits_notice_a_silent_stream() {
    let (mut subscription, service) = serving(|listener| {
        let first = answer(&listener, &format!("{HEAD}{}", tally(0)));
        (first, answer(&listener, &format!("{HEAD}{}{ALL}", tally(0))))
    });
    subscription.silence = Duration::from_millis(100);
    assert!(matches!(subscription.next(PATIENCE), Ok(Some(Notification::Tally { .. }))));
    let mut waits = 0;
    // Ends: with the completion.
    let completed = loop {
        match subscription.next(LEAST) {
            Err(ClientError::NotYet { .. }) => waits += 1,
            found => break found,
        }
    };
    assert!(matches!(completed, Ok(Some(Notification::Completed(_)))), "{completed:?}");
    assert!(waits >= 2, "{waits}");
    service.join().unwrap();
}

/// The connection of a subscription that was dropped stayed open until its client was used again, and held the lease of
/// the registrant.
#[test]
fn a_dropped_subscription_closes_its_connection() {
    let (ended, end) = channel();
    let (subscription, service) = serving(move |listener| {
        let mut stream = answer(&listener, &format!("{HEAD}{}", tally(0)));
        ended.send(stream.read(&mut [0])).unwrap();
    });
    let runtime = Arc::clone(&subscription.runtime);
    drop(subscription);
    assert!(matches!(end.recv_timeout(PATIENCE), Ok(Ok(0))), "it is closed while the client lives");
    drop(runtime);
    service.join().unwrap();
}
