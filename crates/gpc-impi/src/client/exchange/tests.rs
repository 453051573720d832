//! Tests of sessions whose owner chooses the labels.

use proptest::prelude::*;

use super::*;
use crate::wire::{Method, server_auth};

const OWN: Label = Label(0x9000);

fn exchange(rank: Rank) -> Exchange {
    Exchange::new(ExchangeSettings::new(rank, Methods { none: true, key: None })).unwrap()
}

/// All bytes that wait to be sent.
fn sent(exchange: &mut Exchange) -> Vec<u8> {
    std::iter::from_fn(|| exchange.next_bytes()).flatten().collect()
}

/// The server sends this, in pieces of one byte.
fn hears(exchange: &mut Exchange, bytes: &[u8]) {
    bytes.chunks(1).for_each(|byte| exchange.handle(ClientInput::Received(byte)));
}

fn joined(rank: Rank, clients: u32) -> Exchange {
    let mut exchange = exchange(rank);
    assert_eq!(sent(&mut exchange), b"AUTH\0\0\0\x04\0\0\0\x01");
    hears(&mut exchange, &server_auth(Method::None));
    assert_eq!(sent(&mut exchange), [&b"IMPI\0\0\0\x04\0\0\0"[..], &[rank as u8]].concat());
    assert_eq!((exchange.clients(), exchange.stage()), (None, ClientStage::Impi));
    hears(&mut exchange, &command(Command::Impi, &[clients]));
    assert_eq!((exchange.clients(), exchange.stage()), (Some(clients), ClientStage::Between));
    exchange
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// The message with values of the server.
fn says(label: Label, mask: u32, values: &[u8]) -> Bytes {
    coll(label, Some(mask), [values])
}

fn wrong(exchange: &Exchange) -> Violation {
    match exchange.fault() {
        Some(ClientFault::Violation { wrong, .. }) => wrong.clone(),
        other => panic!("{other:?}"),
    }
}

/// The exchange of the source: three clients with 3, 2 and 2 hosts, and packet lengths of which client 1 has none.
#[test]
fn the_worked_examples_of_the_source() {
    let mut client = joined(1, 3);
    client.send(Label::C_NHOSTS, &words(&[2])).unwrap();
    assert_eq!(sent(&mut client), b"COLL\0\0\0\x08\0\0\x11\0\0\0\0\x02");
    assert_eq!((client.stage(), client.broadcast(Label::C_NHOSTS)), (ClientStage::At(Label::C_NHOSTS), None));
    hears(&mut client, &says(Label::C_NHOSTS, 7, &words(&[3, 2, 2])));
    let (mask, hosts) = client.broadcast(Label::C_NHOSTS).unwrap();
    assert_eq!((mask, &hosts[..]), (7, &words(&[3, 2, 2])[..]));
    hears(&mut client, &says(Label::C_DATALEN, 5, &words(&[8000, 4000])));
    assert_eq!(client.broadcast(Label::C_DATALEN).unwrap().0, 5);
    client.done().unwrap();
    assert_eq!((sent(&mut client), client.stage()), (b"DONE\0\0\0\0".to_vec(), ClientStage::Done));
    assert!(client.fini().is_err() && client.is_done() && !client.are_all_done());
    hears(&mut client, b"DONE\0\0\0\0bytes after that have no meaning");
    assert!(client.are_all_done());
    client.fini().unwrap();
    assert_eq!((sent(&mut client), client.is_finished()), (b"FINI\0\0\0\0".to_vec(), true));
    client.handle(ClientInput::Late(Duration::from_secs(7)));
    client.handle(ClientInput::Received(b"no meaning"));
    assert_eq!(client.fault(), None);
}

/// FINI that had not left when the connection was lost counted as sent.
#[test]
fn fini_that_is_lost_is_a_fault() {
    let mut client = joined(0, 1);
    client.done().unwrap();
    hears(&mut client, b"DONE\0\0\0\0");
    client.fini().unwrap();
    client.handle(ClientInput::Lost("closed"));
    assert!(matches!(client.fault(), Some(ClientFault::Lost { .. })) && !client.is_finished());
    assert!(client.are_all_done());
}

/// A server broadcasts a label when the others have sent it, and again with the values of this client, which were under
/// way: the first of both ended the session.
#[test]
fn a_broadcast_may_come_before_the_values_of_this_client() {
    let label = Label::C_NHOSTS;
    for (again, fault) in [(true, None), (false, Some(Violation::Dropped { label, mask: 1, rank: 1 }))] {
        let mut client = joined(1, 2);
        client.send(label, &words(&[2])).unwrap();
        hears(&mut client, &says(label, 1, &words(&[3])));
        assert_eq!((client.stage(), client.fault()), (ClientStage::At(label), None));
        assert_eq!(client.broadcast(label).unwrap().0, 1);
        if again {
            hears(&mut client, &says(label, 3, &words(&[3, 2])));
            assert_eq!((client.stage(), client.broadcast(label).unwrap().0), (ClientStage::Between, 3));
        }
        client.done().unwrap();
        hears(&mut client, b"DONE\0\0\0\0");
        match fault {
            Some(fault) => assert_eq!(wrong(&client), fault),
            None => assert!(client.are_all_done()),
        }
    }
}

/// FINI cannot be sent, but the values of all are there.
#[test]
fn values_stay_if_the_server_is_lost_after_done() {
    let mut client = joined(0, 1);
    client.send(Label::C_NHOSTS, &words(&[2])).unwrap();
    client.done().unwrap();
    hears(&mut client, &[&says(Label::C_NHOSTS, 1, &words(&[2]))[..], b"DONE\0\0\0\0"].concat());
    client.handle(ClientInput::Lost("closed"));
    assert!(client.are_all_done() && matches!(client.fini(), Err(SendError::Failed(_))));
    assert_eq!(client.broadcast(Label::C_NHOSTS).unwrap().1[..], words(&[2]));
}

#[test]
fn the_key_is_sent_if_the_server_chooses_it() {
    let key = Some("1234567890123456789".parse().unwrap());
    let mut client = Exchange::new(ExchangeSettings::new(0, Methods { none: true, key })).unwrap();
    assert_eq!(sent(&mut client), b"AUTH\0\0\0\x04\0\0\0\x03");
    hears(&mut client, &server_auth(Method::Key));
    let key = 1_234_567_890_123_456_789_u64.to_be_bytes();
    assert_eq!(sent(&mut client), [&key[..], b"IMPI\0\0\0\x04\0\0\0\0"].concat());
    let mut client = exchange(0);
    hears(&mut client, &server_auth(Method::Key));
    assert_eq!(wrong(&client), Violation::Method { which: 1, mask: 1 });
    for (rank, methods) in [(32, Methods { none: true, key: None }), (0, Methods::default())] {
        assert!(Exchange::new(ExchangeSettings::new(rank, methods)).is_err());
    }
}

#[test]
fn what_cannot_be_sent_is_refused_and_changes_nothing() {
    let mut early = exchange(0);
    let said = early.send(OWN, b"x").unwrap_err().to_string();
    assert_eq!(said, "COLL 0x9000 cannot be sent while waiting for the server's choice of AUTH");
    let mut client = joined(0, 2);
    client.settings.bytes_max = 100;
    for (label, len, why) in [
        (Label::NONE, 4, "no label"),
        (Label::C_NHOSTS, 8, "with 8 bytes: it has 4"),
        (Label::H_PORT, 0, "a multiple of 4"),
        (Label::H_PORT, 6, "a multiple of 4"),
        (Label::P_PID, 12, "a multiple of 8"),
        (Label::C_VERSION, 4, "a multiple of 8"),
        (OWN, 85, "at most 84"),
    ] {
        let said = client.send(label, &vec![0; len]).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(sent(&mut client), b"");
    for (label, len) in [(OWN, 84), (Label(7), 0), (Label::P_PID, 16), (Label::C_VERSION, 16)] {
        client.send(label, &vec![0; len]).unwrap();
        assert_eq!(client.send(label, &vec![0; len]), Err(SendError::Again(label)));
    }
    client.done().unwrap();
    assert!(client.done().is_err() && client.send(Label(8), b"").is_err());
}

#[test]
fn a_server_that_breaks_the_protocol_ends_the_session() {
    let broken = |bytes: &[u8]| {
        let mut client = joined(1, 2);
        client.send(Label::C_NHOSTS, &words(&[2])).unwrap();
        hears(&mut client, &says(Label::H_PORT, 1, &words(&[5001])));
        hears(&mut client, bytes);
        let wrong = wrong(&client);
        assert!(client.held() == 0 && client.broadcast(Label::H_PORT).is_none());
        assert!(matches!(client.send(OWN, b""), Err(SendError::Failed(_))));
        wrong
    };
    let (label, rank) = (Label::C_NHOSTS, 1);
    assert_eq!(broken(&says(label, 4, b"")), Violation::Mask { label, mask: 4, size: 2 });
    assert_eq!(broken(&says(OWN, 2, b"x")), Violation::Invented { label: OWN, mask: 2, rank });
    assert_eq!(broken(&says(OWN, 0, b"x")), Violation::Nobodys { label: OWN, len: 1 });
    assert_eq!(broken(&says(Label::H_PORT, 1, b"")), Violation::Twice(Label::H_PORT));
    assert_eq!(broken(&command(Command::Impi, &[3])), Violation::Resized { before: 2, now: 3 });
    assert_eq!(broken(&command(Command::Done, &[])), Violation::Early(Command::Done));
    assert_eq!(broken(&command(Command::Coll, &[1])), Violation::Coll(4));
    assert!(matches!(broken(&command(Command::Other(9), &[]).repeat(5000)), Violation::Needless(_)));
    let labels: Vec<u8> = (0..5000).flat_map(|label| says(Label(0x9000 + label), 1, b"")).collect();
    assert!(matches!(broken(&labels), Violation::Needless(_)));
    let mut client = joined(0, 1);
    client.send(Label::C_NHOSTS, &words(&[2])).unwrap();
    client.done().unwrap();
    hears(&mut client, &command(Command::Done, &[]));
    assert_eq!(wrong(&client), Violation::Unanswered(Label::C_NHOSTS));
}

#[test]
fn a_session_that_is_lost_or_late_says_where() {
    let mut client = joined(0, 2);
    client.send(Label::H_PORT, &words(&[1])).unwrap();
    client.handle(ClientInput::Lost("it has closed"));
    let said = client.fault().unwrap().to_string();
    assert!(said.contains("waiting for COLL H_PORT: it has closed"), "{said}");
    let mut client = exchange(3);
    client.handle(ClientInput::Late(Duration::from_secs(7)));
    assert!(client.fault().unwrap().to_string().contains("within 7s"));
    let mut client = exchange(3);
    hears(&mut client, &[&server_auth(Method::None)[..], &command(Command::Impi, &[3])].concat());
    assert_eq!(client.fault(), Some(&ClientFault::Rank { rank: 3, size: 3 }));
}

proptest! {
    /// Whatever arrives, in whatever pieces: what is held is bounded by what may be sent.
    #[test]
    fn any_bytes_are_read_or_end_the_session(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (any::<u8>(), 0_u32..4, prop::collection::vec(any::<u8>(), 0..20))
                .prop_map(|(label, mask, values)| says(Label(label.into()), mask, &values).to_vec()),
        ], 0..20),
    ) {
        let mut client = joined(1, 2);
        client.incoming = Incoming::new(200);
        client.incoming.take(&mut &[0; 8][..]).unwrap();
        for piece in pieces {
            client.handle(ClientInput::Received(&piece));
            prop_assert!(client.held() <= 200);
        }
    }
}
