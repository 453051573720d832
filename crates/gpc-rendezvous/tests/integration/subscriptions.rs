//! Subscriptions of the client: at a real service, and at peers that are hostile, broken, or gone within a stream.

#![cfg(feature = "client")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpc_rendezvous::client::{Client, ClientError, ClientOptions, Notification, ServiceUrl};
use gpc_rendezvous::{FaultKind, Handle, ResourceId, Scope};

/// A time limit that is long enough for any machine: it passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A limit that passes in a test.
const SHORT: Duration = Duration::from_millis(50);

/// Answers one request.
type Serve = Box<dyn FnMut(&mut TcpStream) + Send>;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Serves one connection after another with each of these functions, and closes it. Returns the handle of a resource
/// there, and the requests.
fn serving(answers: Vec<Serve>) -> (Handle, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rendezvous", listener.local_addr().unwrap());
    let serve = move |mut answer: Serve| {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            asked.push(byte[0]);
        }
        answer(&mut stream);
        String::from_utf8(asked).unwrap()
    };
    let thread = thread::spawn(move || answers.into_iter().map(serve).collect());
    let service: ServiceUrl = url.parse().unwrap();
    (Handle::new(service.as_str(), ResourceId([5; 16])).unwrap(), thread)
}

/// Sends a text. The client may have closed the connection when it had read enough.
fn sends(text: impl Into<String>) -> Serve {
    let text = text.into();
    Box::new(move |stream| drop(stream.write_all(text.as_bytes())))
}

/// Sends a text, and keeps the connection until the client closes it.
fn keeps(text: impl Into<String>) -> Serve {
    let mut sends = sends(text);
    Box::new(move |stream| {
        sends(stream);
        let _ = stream.read(&mut [0]);
    })
}

fn refuses(status: &str, problem: &str) -> Serve {
    sends(format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{problem}",
        problem.len()
    ))
}

fn client() -> Client {
    let mut options = ClientOptions::default();
    (options.limit, options.data_max) = (PATIENCE, 1 << 10);
    Client::new(&options).unwrap()
}

fn tally(tally: u32) -> Notification {
    Notification::Tally { tally, capacity: 2 }
}

const ONE: &str = "event: tally\ndata: {\"tally\":1,\"capacity\":2}\n\n";
const TWO: &str = "event: tally\ndata: {\"tally\":2,\"capacity\":2}\n\n";
const ALL: &str = "event: completed\ndata: {\"level\":1,\"data\":\"MiAxIGEwIA==\",\"joint\":null}\n\n";

/// A stream that is lost begins again with the present state: nothing is reported twice, and the completion is not
/// missed. A service that is full or passes away in between is asked again.
#[test]
fn a_lost_stream_is_opened_again() {
    let full = r#"{"code":"service-full","detail":"too many look on"}"#;
    let ending = "event: fault\ndata: {\"code\":\"unavailable\",\"detail\":\"it ends\"}\n\n";
    let (handle, asked) = serving(vec![
        sends(format!("{HEAD}:\n\n{ONE}event: ta")),
        sends(""),
        refuses("503 Service Unavailable", full),
        sends(format!("{HEAD}{ONE}{ending}")),
        keeps(format!("{HEAD}{ONE}event: news\ndata: of a later version\n\n{TWO}{ALL}")),
    ]);
    let mut subscription = client().subscribe(&handle, Scope::Top, None).unwrap();
    let found: Result<Vec<Notification>, ClientError> = subscription.notifications(PATIENCE).collect();
    let [one, two, Notification::Completed(all)] = &found.unwrap()[..] else { panic!("a completion") };
    assert_eq!((one, two, all.level, &all.data[..]), (&tally(1), &tally(2), 1, &b"2 1 a0 "[..]));
    assert!(matches!(subscription.next(SHORT), Ok(None)), "it has ended");
    drop(subscription);
    let asked = asked.join().unwrap();
    let path = format!("GET /rendezvous/{}/events?of=top ", handle.resource());
    assert!(asked.len() == 5 && asked.iter().all(|asked| asked.starts_with(&path)), "{asked:?}");
}

#[test]
fn a_fault_is_the_last_notification_and_an_unknown_resource_is_refused_at_once() {
    let unknown = r#"{"code":"unknown-resource","detail":"none"}"#;
    let (handle, _) = serving(vec![refuses("404 Not Found", unknown)]);
    let error = client().subscribe(&handle, Scope::Own, None).unwrap_err();
    assert_eq!(error.fault().unwrap().kind, FaultKind::UnknownResource);
    // A service that was restarted without a store.
    let (handle, _) = serving(vec![sends(format!("{HEAD}{ONE}")), refuses("404 Not Found", unknown)]);
    let mut subscription = client().subscribe(&handle, Scope::Own, None).unwrap();
    let mut found = Vec::new();
    subscription.notify(PATIENCE, |notification| found.push(notification)).unwrap();
    let [first, Notification::Failed(fault)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((first, fault.kind), (&tally(1), FaultKind::UnknownResource));
}

/// A wrong token says nothing about the rendezvous.
#[test]
fn a_refused_token_is_an_error_and_no_notification() {
    let refused = r#"{"code":"unauthorized","detail":"no token"}"#;
    let (handle, _) = serving(vec![sends(format!("{HEAD}{ONE}")), refuses("401 Unauthorized", refused)]);
    let mut subscription = client().subscribe(&handle, Scope::Own, None).unwrap();
    assert_eq!(subscription.next(PATIENCE).unwrap(), Some(tally(1)));
    assert_eq!(subscription.next(PATIENCE).unwrap_err().fault().unwrap().kind, FaultKind::Unauthorized);
}

#[test]
fn a_silent_stream_and_an_endless_one_end_with_the_time_limit() {
    let endless = Box::new(|stream: &mut TcpStream| {
        let _ = stream.write_all(HEAD.as_bytes());
        // Ends: when the client closes the connection.
        while stream.write_all(":no event\n".repeat(1000).as_bytes()).is_ok() {}
    });
    let dripping = Box::new(|stream: &mut TcpStream| {
        let _ = stream.write_all(HEAD.as_bytes());
        // Ends: as above.
        while stream.write_all(b":").is_ok() {
            thread::yield_now();
        }
    });
    let answers: Vec<Serve> = vec![keeps(HEAD), endless, dripping];
    for answer in answers {
        let (handle, _) = serving(vec![answer]);
        let mut subscription = client().subscribe(&handle, Scope::Own, None).unwrap();
        let error = subscription.next(SHORT).unwrap_err();
        // Of dripping bytes the line may have become too long by then.
        let is_long = error.to_string().contains("an event is longer than");
        assert!(matches!(error, ClientError::NotYet { .. }) || is_long, "{error}");
    }
}

/// A page of a proxy was read as a stream without events, and a refusal was read for 30 s, whatever the limit was.
#[test]
fn what_is_no_stream_is_refused_within_the_limit() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>";
    let error = client().subscribe(&serving(vec![keeps(page)]).0, Scope::Own, None).unwrap_err();
    assert!(error.to_string().contains("`text/html` in place of text/event-stream"), "{error}");
    let (handle, _) = serving(vec![keeps("HTTP/1.1 503 Away\r\ncontent-length: 9\r\n\r\n{")]);
    let (end, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let refused = client().within(SHORT).subscribe(&handle, Scope::Own, None);
        let _ = end.send(refused.map(drop));
    });
    let error = ended.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[test]
fn what_is_no_event_is_refused() {
    for (text, why) in [
        ("event: tally\ndata: {\"tally\":-1}\n\n".to_owned(), "not as it should be"),
        ("event: completed\ndata: {\"level\":1,\"data\":\"*\"}\n\n".into(), "no base64"),
        ("event: completed\ndata: {\"level\":0,\"data\":\"\"}\n\n".into(), "level 0"),
        ("event: fault\ndata: {\"code\":\"on-fire\"}\n\n".into(), "unknown here"),
        (format!("data: {}", "x".repeat(70_000)), "an event is longer than"),
    ] {
        let (handle, _) = serving(vec![keeps(format!("{HEAD}{text}"))]);
        let mut subscription = client().subscribe(&handle, Scope::Own, None).unwrap();
        let error = subscription.next(PATIENCE).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_subscription_is_ended_by_another_thread() {
    let (handle, _) = serving(vec![keeps(HEAD)]);
    let mut subscription = client().subscribe(&handle, Scope::Own, None).unwrap();
    let stopper = subscription.stopper();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| subscription.next(PATIENCE));
        stopper.stop();
        assert!(matches!(waiting.join().unwrap(), Err(ClientError::Stopped)));
    });
    assert!(matches!(subscription.next(PATIENCE), Err(ClientError::Stopped)), "it stays ended");
}

#[cfg(feature = "http")]
mod at_a_service {
    use gpc_rendezvous::client::draw_token;
    use gpc_rendezvous::{RankChoice, Spec};

    use super::*;
    use crate::http::raw::server;

    fn completion(found: Option<Notification>) -> Vec<u8> {
        match found {
            Some(Notification::Completed(completion)) => completion.data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// The controlling task subscribes before any task registers, as in the source. Another one subscribes when all is
    /// over: the original sent nothing to it.
    #[test]
    fn early_and_late_subscribers_receive_the_completion() {
        let server = server();
        let client = Client::new(&ClientOptions::default()).unwrap();
        let handle = client.create(&server.url().parse().unwrap(), &Spec::new(2)).unwrap();
        let register = |data: &'static str| {
            client.register(&handle, RankChoice::Assign, &draw_token().unwrap(), data, None).unwrap()
        };
        let mut early = client.subscribe(&handle, Scope::Own, None).unwrap();
        assert_eq!(early.next(PATIENCE).unwrap(), Some(tally(0)));
        assert!(matches!(early.next(SHORT), Err(ClientError::NotYet { .. })));
        register("a");
        assert_eq!(early.next(PATIENCE).unwrap(), Some(tally(1)));
        register("b");
        assert_eq!(early.next(PATIENCE).unwrap(), Some(tally(2)));
        assert_eq!(completion(early.next(PATIENCE).unwrap()), b"2 1 a1 b");
        let mut late = client.subscribe(&handle, Scope::Top, None).unwrap();
        assert_eq!(late.next(PATIENCE).unwrap(), Some(tally(2)));
        assert_eq!(completion(late.next(PATIENCE).unwrap()), b"2 1 a1 b");
    }

    /// An event has no data over 1 MiB: they are asked for.
    #[test]
    fn long_data_are_received() {
        let server = server();
        let client = Client::new(&ClientOptions::default()).unwrap();
        let handle = client.create(&server.url().parse().unwrap(), &Spec::new(1)).unwrap();
        let data = vec![7; 2 << 20];
        client.register(&handle, RankChoice::Assign, &draw_token().unwrap(), data.clone(), None).unwrap();
        let mut subscription = client.subscribe(&handle, Scope::Own, None).unwrap();
        let last = subscription.notifications(PATIENCE).last().unwrap().unwrap();
        assert_eq!(completion(Some(last)), [&b"1 2097152 "[..], &data].concat());
    }

    #[test]
    fn a_destroyed_resource_is_reported_and_the_lease_holds_meanwhile() {
        let server = server();
        let client = Client::new(&ClientOptions::default()).unwrap();
        let handle = client.create(&server.url().parse().unwrap(), &Spec::new(2)).unwrap();
        // Longer than a busy machine takes to subscribe.
        let (token, lease) = (draw_token().unwrap(), Some(Duration::from_secs(2)));
        client.register(&handle, RankChoice::Assign, &token, "a", lease).unwrap();
        let mut subscription = client.subscribe(&handle, Scope::Own, Some(&token)).unwrap();
        assert_eq!(subscription.next(PATIENCE).unwrap(), Some(tally(1)));
        assert!(matches!(subscription.next(lease.unwrap() * 3 / 2), Err(ClientError::NotYet { .. })));
        client.destroy(&handle).unwrap();
        let Some(Notification::Failed(fault)) = subscription.next(PATIENCE).unwrap() else {
            panic!("a fault")
        };
        assert_eq!(fault.kind, FaultKind::Destroyed);
        assert!(matches!(subscription.next(PATIENCE), Ok(None)));
    }
}
