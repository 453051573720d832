//! The client with peers that are not proper services: hostile, broken, or gone in the middle of an answer.

#![cfg(feature = "client")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::Secret;
use gpc_rendezvous::client::{Client, ClientError, ClientOptions, ServiceUrl, draw_token};
use gpc_rendezvous::token::ServiceToken;
use gpc_rendezvous::{FaultKind, Handle, RankChoice, ResourceId, Scope, Spec, Unit};

/// Answers one connection after another, each with one of these texts, and closes it. Returns the requests.
fn answering(texts: Vec<String>) -> (ServiceUrl, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rendezvous", listener.local_addr().unwrap());
    let thread = thread::spawn(move || {
        let answer = |text: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                asked.push(byte[0]);
            }
            // The client may have closed the connection when it had read enough.
            let _ = stream.write_all(text.as_bytes());
            String::from_utf8(asked).unwrap()
        };
        texts.into_iter().map(answer).collect()
    });
    (url.parse().unwrap(), thread)
}

fn http(status: &str, content: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{content}", content.len())
}

fn handle(service: &ServiceUrl) -> Handle {
    Handle::new(service.as_str(), ResourceId([5; 16])).unwrap()
}

fn client(limit: Duration) -> (Client, ServiceToken) {
    let token = ServiceToken::of(&Secret::random().unwrap());
    let mut options = ClientOptions::default();
    (options.limit, options.token, options.data_max) = (limit, Some(token.clone()), 1 << 10);
    (Client::new(&options).unwrap(), token)
}

/// A time limit that is long enough for any machine: it passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_registration_whose_answer_is_lost_is_asked_again_with_the_same_token() {
    let stands = http("201 Created", r#"{"rank":4,"tally":1,"capacity":9,"token":"x"}"#);
    let ending = http("503 Service Unavailable", r#"{"code":"unavailable","detail":"ending"}"#);
    let (service, asked) = answering(vec![String::new(), "HTTP/1.1 201 Cr".into(), ending, stands]);
    let (client, _) = client(PATIENCE);
    let own = draw_token().unwrap();
    let registered = client.register(&handle(&service), RankChoice::Assign, &own, "", None).unwrap();
    assert_eq!(registered.rank, 4);
    let asked = asked.join().unwrap();
    assert!(asked.len() == 4 && asked.iter().all(|asked| asked.contains(own.as_str())), "{asked:?}");
}

/// A request to a service that was full, or that answered 503 with an unknown code, was not repeated, although other
/// resources end all the time.
#[test]
fn a_service_that_is_full_is_asked_again() {
    let full = http("503 Service Unavailable", r#"{"code":"service-full","detail":"it has 9 resources"}"#);
    let unknown = http("503 Service Unavailable", r#"{"code":"on-fire","detail":"come again"}"#);
    let stands = http("201 Created", r#"{"rank":4,"tally":1,"capacity":9,"token":"x"}"#);
    let (service, asked) = answering(vec![full.clone(), unknown, stands]);
    let (patient, _) = client(PATIENCE);
    let own = draw_token().unwrap();
    assert_eq!(patient.register(&handle(&service), RankChoice::Assign, &own, "", None).unwrap().rank, 4);
    assert_eq!(asked.join().unwrap().len(), 3);
    // At the time limit the error is the service's fault.
    let (service, _) = answering(vec![full]);
    let (hasty, _) = client(Duration::ZERO);
    let fault = hasty.create(&service, &Spec::new(1)).unwrap_err();
    assert_eq!(fault.fault().unwrap().kind, FaultKind::ServiceFull);
}

/// A service that answered that its disk was full was said to be unreachable, with the advice to check its URL.
#[test]
fn a_service_that_is_not_available_is_said_to_be_so() {
    let full = r#"{"code":"unavailable","detail":"it cannot write its store: the disk is full"}"#;
    let (service, _) = answering(vec![http("503 Service Unavailable", full)]);
    let (hasty, _) = client(Duration::ZERO);
    let error = hasty.create(&service, &Spec::new(1)).unwrap_err();
    assert!(matches!(error, ClientError::Unavailable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(": it cannot write its store: the disk is full; try again later"), "{text}");
    assert!(
        text.contains(service.as_str()) && !text.contains("reached") && !text.contains("URL is"),
        "{text}"
    );
}

#[test]
fn a_resource_is_not_created_twice() {
    let (service, asked) = answering(vec![String::new()]);
    let (client, _) = client(PATIENCE);
    let error = client.create(&service, &Spec::new(1)).unwrap_err().to_string();
    assert!(error.contains("it may have done what it was asked for"), "{error}");
    assert_eq!(asked.join().unwrap().len(), 1);
}

/// A proxy answered 502 because the service had not answered it, and the creation was repeated.
#[test]
fn a_resource_is_not_created_twice_through_a_proxy() {
    for status in ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"] {
        let (service, asked) = answering(vec![http(status, "<html>the service does not answer</html>")]);
        let (client, _) = client(PATIENCE);
        let error = client.create(&service, &Spec::new(1)).unwrap_err().to_string();
        assert!(error.contains("it may have done what it was asked for"), "{error}");
        assert_eq!(asked.join().unwrap().len(), 1);
    }
    // A registration is repeated: the service knows its token.
    let stands = http("201 Created", r#"{"rank":4,"tally":1,"capacity":9,"token":"x"}"#);
    let (service, _) = answering(vec![http("502 Bad Gateway", "<html>"), stands]);
    let (client, _) = client(PATIENCE);
    let own = draw_token().unwrap();
    assert_eq!(client.register(&handle(&service), RankChoice::Assign, &own, "", None).unwrap().rank, 4);
}

/// If a service is restarted after it has destroyed a resource, it has forgotten it.
#[test]
fn an_end_is_no_fault_after_a_restart() {
    let forgotten = http("404 Not Found", r#"{"code":"unknown-resource","detail":"none"}"#);
    let (client, _) = client(PATIENCE);
    let (service, _) = answering(vec![String::new(), forgotten.clone()]);
    client.destroy(&handle(&service)).unwrap();
    let (service, _) = answering(vec![forgotten]);
    let fault = client.destroy(&handle(&service)).unwrap_err();
    assert_eq!(fault.fault().unwrap().kind, FaultKind::UnknownResource);
}

/// A registrant or a controlling task whose removal was carried out, but not answered, is no longer there.
#[test]
fn a_removal_whose_answer_is_lost_is_no_fault() {
    let gone = http("404 Not Found", r#"{"code":"not-registered","detail":"nobody with this token"}"#);
    let answers = || vec![String::new(), gone.clone()];
    let ((client, _), own) = (client(PATIENCE), draw_token().unwrap());
    let (service, asked) = answering(answers());
    client.withdraw(&handle(&service), 3, &own).unwrap();
    assert_eq!(asked.join().unwrap().len(), 2);
    let (service, asked) = answering(answers());
    client.release(&handle(&service), Unit::Own, &own, None).unwrap();
    assert_eq!(asked.join().unwrap().len(), 2);
    // Without an earlier attempt it is one.
    let (service, _) = answering(vec![gone]);
    let fault = client.withdraw(&handle(&service), 3, &own).unwrap_err();
    assert_eq!(fault.fault().unwrap().kind, FaultKind::NotRegistered);
}

/// A refused connection has sent nothing, so the error does not send its reader to look for a resource.
#[test]
fn a_creation_that_was_not_sent_has_made_nothing() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let service = format!("http://{closed}/rendezvous").parse().unwrap();
    let (hasty, _) = client(Duration::ZERO);
    let error = hasty.create(&service, &Spec::new(1)).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("may have done"), "{error}");
}

#[test]
fn an_end_whose_answer_is_lost_is_no_fault() {
    let gone = http("410 Gone", r#"{"code":"destroyed","detail":"on request"}"#);
    let (client, _) = client(PATIENCE);
    let (service, _) = answering(vec![String::new(), gone.clone()]);
    client.destroy(&handle(&service)).unwrap();
    let (service, _) = answering(vec![gone]);
    let fault = client.destroy(&handle(&service)).unwrap_err();
    assert_eq!(fault.fault().unwrap().kind, FaultKind::Destroyed);
}

#[test]
fn the_token_goes_to_nobody_else_and_is_not_said() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let location = format!("http://{}/rendezvous", elsewhere.local_addr().unwrap());
    let away = format!(
        "HTTP/1.1 307 Away\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    let (service, asked) = answering(vec![away]);
    let (client, token) = client(PATIENCE);
    let error = client.properties(&handle(&service)).unwrap_err().to_string();
    assert!(error.contains("it leads elsewhere, and is not followed"), "{error}");
    assert!(asked.join().unwrap()[0].contains(token.to_text().as_str()), "the service itself has it");
    assert!(
        !error.contains(token.to_text().as_str())
            && !format!("{client:?}").contains(token.to_text().as_str())
    );
    assert!(elsewhere.accept().is_err(), "nobody has connected");
}

#[test]
fn what_makes_no_sense_is_neither_believed_nor_taken_whole() {
    let (client, _) = client(PATIENCE);
    for (text, said) in [
        (http("200 OK", "<html>\u{1b}[2J"), "`<html>\\u{1b}[2J`"),
        (http("200 OK", &"x".repeat(1 << 20)), "its answer is longer than "),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\n".to_owned()
                + &"x".repeat(1 << 20),
            "its answer is longer than ",
        ),
    ] {
        let (service, _) = answering(vec![text]);
        let error = client.properties(&handle(&service)).unwrap_err().to_string();
        assert!(error.contains(said) && error.len() < 1000, "{error}");
    }
}

#[test]
fn a_wait_takes_several_requests() {
    let complete = http("200 OK", r#"{"level":1,"data":"MSAxIGE=","joint":null}"#);
    let not_yet = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned();
    let (service, asked) = answering(vec![not_yet.clone(), not_yet.clone(), complete]);
    let (client, _) = client(PATIENCE);
    let completion = client.wait(&handle(&service), Scope::Top, None, PATIENCE).unwrap();
    assert_eq!((&completion.data[..], asked.join().unwrap().len()), (&b"1 1 a"[..], 3));
    let (service, _) = answering(vec![not_yet]);
    let error = client.wait(&handle(&service), Scope::Own, None, Duration::ZERO).unwrap_err();
    assert!(matches!(error, ClientError::NotYet { limit: Duration::ZERO }), "{error}");
}

/// Content of exactly the longest length is read, and not a byte more.
#[test]
fn an_answer_of_the_longest_length_is_read() {
    let (client, _) = client(PATIENCE);
    let text = r#"{"handle":"http://b:2/rendezvous?000102030405060708090a0b0c0d0e0f"}"#;
    let longest = text.to_owned() + &" ".repeat((64 << 10) - text.len());
    let (service, _) = answering(vec![http("201 Created", &longest)]);
    assert_eq!(client.create(&service, &Spec::new(1)).unwrap().service(), "http://b:2/rendezvous");
    let (service, _) = answering(vec![http("201 Created", &(longest + " "))]);
    let error = client.create(&service, &Spec::new(1)).unwrap_err().to_string();
    assert!(error.contains("its answer is longer than 65536 bytes"), "{error}");
}

#[test]
fn nobody_is_waited_for_longer_than_is_said() {
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let service: ServiceUrl = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
    let (client, _) = client(Duration::from_millis(100));
    let error = client.properties(&handle(&service)).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    let error = client.wait(&handle(&service), Scope::Own, None, Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
    drop(silent);
    let error = client.properties(&handle(&service)).unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains(service.as_str()), "{error}");
}

#[test]
fn https_wants_an_authority() {
    let (client, _) = client(PATIENCE);
    let service: ServiceUrl = "https://127.0.0.1:1/rendezvous".parse().unwrap();
    let error = client.properties(&handle(&service)).unwrap_err();
    let said = if cfg!(feature = "tls") { "--ca FILE" } else { "built without TLS" };
    assert!(error.to_string().contains(said), "{error}");
}
