//! Servers that lie, stay silent or vanish: each gives an error with the stage and the label.

use std::time::Duration;

use bytes::Bytes;
use gpc_impi::client::{
    Client, ClientEvent, ClientFault, ClientInput, ClientOutput, ClientSettings, Learned, Violation,
};
use gpc_impi::wire::{Command, Key, Label, Method, Methods, Version, coll, command, server_auth};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::client::support::{Plain, Raw, changed, raw, settings, words};

/// A client that receives given bytes, and the results.
struct Given {
    client: Client,
    sent: Vec<u8>,
    events: Vec<ClientEvent>,
    ended: Option<Result<Learned, ClientFault>>,
}

impl Given {
    fn new(settings: ClientSettings) -> Given {
        let client = Client::new(settings).unwrap();
        let mut given = Given { client, sent: Vec::new(), events: Vec::new(), ended: None };
        given.drain();
        given
    }

    fn give(&mut self, input: ClientInput<'_>) {
        self.client.handle(input);
        self.drain();
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.give(ClientInput::Received(bytes));
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.next_output() {
            match output {
                ClientOutput::Send(bytes) => {
                    assert!(!matches!(self.ended, Some(Err(_))), "it sends after it has failed");
                    self.sent.extend_from_slice(&bytes);
                }
                ClientOutput::Event(event) => self.events.push(event),
                ClientOutput::Learned(learned) => assert!(self.ended.replace(Ok(*learned)).is_none()),
                ClientOutput::Failed(fault) => assert!(self.ended.replace(Err(fault)).is_none()),
            }
        }
    }

    fn fault(self) -> String {
        self.ended.expect("it has ended").unwrap_err().to_string()
    }
}

/// The commands of an honest server to client 0 of two: AUTH, IMPI, a COLL for each known label, DONE.
fn honest() -> Vec<Bytes> {
    let mut plain = Plain::new(settings(0), vec![raw(&settings(1))]);
    plain.run();
    assert!(plain.ended.unwrap().is_ok());
    assert_eq!(plain.said.len(), 2 + Label::KNOWN.len() + 1);
    plain.said
}

/// Index of a label's broadcast among the commands of an honest server.
fn at(label: Label) -> usize {
    2 + Label::KNOWN.iter().position(|known| *known == label).unwrap()
}

/// The fault if a server sends `lie` in place of the command at this index.
fn lied(place: usize, lie: &Bytes) -> String {
    let mut given = Given::new(settings(0));
    honest()[..place].iter().chain([lie]).for_each(|bytes| given.receive(bytes));
    given.fault()
}

const AUTH: usize = 0;
const IMPI: usize = 1;
const DONE: usize = 16;

#[test]
fn each_lie_is_told() {
    let hosts = |mask, values: &[u32]| coll(Label::C_NHOSTS, Some(mask), [&words(values)[..]]);
    let ports = |mask, values: &[u32]| coll(Label::H_PORT, Some(mask), [&words(values)[..]]);
    let size = |size: u32| command(Command::Impi, &[size]);
    let head = |command: Command, len: i32| -> Bytes {
        [command.number().to_be_bytes(), len.to_be_bytes()].concat().into()
    };
    let table = [
        (
            AUTH,
            server_auth(Method::Key),
            "waiting for the server's choice of AUTH: it chose method 1 of AUTH, and this client offers mask 0x1",
        ),
        (AUTH, Bytes::from_static(&[0, 0, 0, 9, 0, 0, 0, 0]), "it chose method 9"),
        (AUTH, command(Command::Auth, &[1]), "it chose method 1096111176"),
        (
            IMPI,
            size(0),
            "waiting for the number of clients (IMPI): IMPI says 0 clients; a session has 1 to 32",
        ),
        (IMPI, size(33), "IMPI says 33 clients"),
        (IMPI, size(u32::MAX), "IMPI says -1 clients"),
        (IMPI, command(Command::Impi, &[]), "IMPI with 0 bytes, and it has 4"),
        (IMPI, command(Command::Impi, &[2, 2]), "IMPI with 8 bytes, and it has 4"),
        (IMPI, head(Command::Impi, 65), "IMPI with a length of 65; allowed are 0 to 64"),
        (IMPI, head(Command::Coll, -1), "COLL with a length of -1"),
        (IMPI, hosts(3, &[1, 1]), "waiting for the number of clients (IMPI): COLL, which has no place there"),
        (IMPI, command(Command::Done, &[]), "DONE, which has no place there"),
        (IMPI, command(Command::Fini, &[]), "FINI, which has no place there"),
        (IMPI, command(Command::Auth, &[0]), "AUTH, which has no place there"),
        (at(Label::C_NHOSTS), size(3), "waiting for COLL C_NHOSTS: IMPI says 3 clients, and has said 2"),
        (at(Label::C_NHOSTS), hosts(7, &[1, 1, 1]), "COLL C_NHOSTS has mask 0x7, and there are 2 clients"),
        (
            at(Label::C_NHOSTS),
            hosts(3, &[1]),
            "COLL C_NHOSTS: 4 bytes of values, and 2 values of 4 bytes were counted",
        ),
        (at(Label::C_NHOSTS), hosts(3, &[2, 0]), "client 1 says 0 under C_NHOSTS"),
        (
            at(Label::C_NPROCS),
            hosts(3, &[2, 2]),
            "waiting for COLL C_NPROCS: COLL C_NHOSTS again, without the values of more clients",
        ),
        (
            at(Label::C_NHOSTS),
            ports(3, &[1, 1]),
            "waiting for COLL C_NHOSTS: COLL H_PORT before this client has sent it",
        ),
        (
            at(Label::C_NHOSTS),
            command(Command::Coll, &[0x1100]),
            "waiting for COLL C_NHOSTS: COLL with 4 bytes, and its label and mask have 8",
        ),
        (at(Label::C_NHOSTS), command(Command::Coll, &[]), "COLL with 0 bytes"),
        (
            at(Label::H_PORT),
            command(Command::Done, &[]),
            "waiting for COLL H_PORT: DONE, which has no place there",
        ),
        (at(Label::H_PORT), command(Command::Fini, &[]), "waiting for COLL H_PORT: FINI"),
        (
            at(Label::H_PORT),
            head(Command::Coll, i32::MAX),
            "waiting for COLL H_PORT: COLL with a length of 2147483647; allowed are 0 to",
        ),
        (at(Label::H_PORT), head(Command::Coll, i32::MIN), "COLL with a length of -2147483648"),
        (
            at(Label::H_PORT),
            head(Command::Other(7), i32::MAX),
            "command 0x00000007 with a length of 2147483647",
        ),
        (at(Label::H_PORT), Bytes::from_static(b"HTTP/1.1"), "command 0x48545450 with a length of 791752241"),
        (DONE, command(Command::Done, &[1]), "waiting for DONE: DONE with 4 bytes, and it has 0"),
        (DONE, ports(3, &[1; 4]), "waiting for DONE: COLL H_PORT again, without the values of more clients"),
    ];
    for (place, lie, expected) in table {
        let said = lied(place, &lie);
        assert!(said.contains(expected), "{said}\nhas not: {expected}");
        assert!(
            said.starts_with("the server broke the protocol")
                || said.starts_with("what the clients have said"),
            "{said}"
        );
    }
}

/// A server broadcasts a label when the others have sent it, and again with the values of this client, which were under
/// way: the first of both ended the session.
#[test]
fn a_broadcast_may_come_before_the_values_of_this_client() {
    let said = honest();
    let partial = |mask| coll(Label::C_NHOSTS, Some(mask), [&words(if mask == 0 { &[] } else { &[2] })[..]]);
    // Before this client sends the label, and while its values are under way.
    for (place, mask) in [(at(Label::C_NHOSTS) - 1, 2), (at(Label::C_NHOSTS), 2), (at(Label::C_NHOSTS), 0)] {
        let with = |rest: &[Bytes]| {
            let mut given = Given::new(settings(0));
            said[..place].iter().for_each(|bytes| given.receive(bytes));
            let sent = given.sent.len();
            given.receive(&partial(mask));
            assert_eq!(given.sent.len(), sent, "it waits for its own values");
            rest.iter().for_each(|bytes| given.receive(bytes));
            given
        };
        assert!(with(&said[place..]).ended.unwrap().is_ok(), "{place} {mask}");
    }
}

/// What the server has not broadcast by DONE, it has dropped.
#[test]
fn values_that_are_dropped_are_named_at_the_end() {
    let extra = Label(0x9000);
    let mut own = settings(0);
    own.extra.insert(extra, Bytes::from_static(b"any"));
    let mut given = Given::new(own);
    honest()[..DONE].iter().for_each(|bytes| given.receive(bytes));
    given.receive(&coll(extra, Some(2), [&b"other"[..]]));
    given.receive(&command(Command::Done, &[]));
    let dropped = "waiting for DONE: COLL 0x9000 has mask 0x2 without client 0, which has sent values";
    let said = given.fault();
    assert!(said.contains(dropped), "{said}");
}

/// A label that was broadcast without some clients is broadcast again when one of these has sent it. The client took
/// the repetition for a protocol error, unless it was done. A repetition without more clients still is one.
#[test]
fn each_repetition_of_a_label_has_more_clients() {
    let all: Vec<Raw> = (0..4).map(|rank| raw(&settings(rank))).collect();
    let mut plain = Plain::new(settings(0), all[1..].to_vec());
    plain.run();
    let (said, learned) = (plain.said, plain.ended.unwrap().unwrap());
    let partial = |label: Label, mask: u32| {
        let ranks = (0..8).filter(|rank| mask >> rank & 1 == 1);
        let values: Vec<u8> = ranks.flat_map(|rank| all[rank % 4][&label].clone()).collect();
        coll(label, Some(mask), [&values[..]])
    };
    for label in Label::KNOWN {
        for place in at(label) + 1..=DONE {
            // The client has received the label with these masks, and waits for the command at this index.
            let with = |masks: &[u32]| {
                let mut given = Given::new(settings(0));
                said[..at(label)].iter().for_each(|bytes| given.receive(bytes));
                given.receive(&partial(label, masks[0]));
                said[at(label) + 1..place].iter().for_each(|bytes| given.receive(bytes));
                let sent = given.sent.len();
                masks[1..].iter().for_each(|mask| given.receive(&partial(label, *mask)));
                assert_eq!(given.sent.len(), sent, "a repetition answers no other label");
                given
            };
            let mut given = with(&[1, 5, 7, 15]);
            said[place..].iter().for_each(|bytes| given.receive(bytes));
            assert_eq!(given.ended.unwrap().as_ref(), Ok(&learned), "{label} at {place}");
            for masks in [&[1, 1][..], &[1, 2], &[5, 1], &[5, 3], &[5, 5], &[5, 14], &[1, 5, 7, 15, 15]] {
                let said = with(masks).fault();
                let wrong = format!("COLL {label} again, without the values of more clients");
                assert!(said.contains(&wrong), "{masks:?}: {said}");
            }
            assert!(with(&[1, 31]).fault().contains("has mask 0x1f, and there are 4 clients"));
        }
    }
}

/// C_VERSION is broadcast without client 1, which sends it later. The first broadcast decides whether this client sends
/// the labels of this project: it may have acted on that already. By the second one alone, client 0 would wait for
/// broadcasts of labels that it has not sent.
#[test]
fn a_repetition_of_the_versions_decides_nothing() {
    let with_version = |versions: &[Version]| {
        let mut said = raw(&settings(1));
        said.insert(Label::C_VERSION, Version::to_bytes(versions));
        said
    };
    let knows = [Version::MANDATORY, Version::OWN];
    let mut plain = Plain::new(own(), vec![with_version(&[Version::MANDATORY])]);
    plain.run();
    let mut said = plain.said;
    let versions = |mask, clients: usize| {
        coll(Label::C_VERSION, Some(mask), [&Version::to_bytes(&knows).repeat(clients)[..]])
    };
    said[at(Label::C_VERSION)] = versions(1, 1);
    for place in [at(Label::C_NHOSTS), DONE - 1, DONE] {
        let mut given = Given::new(own());
        said[..place].iter().for_each(|bytes| given.receive(bytes));
        given.receive(&versions(3, 2));
        said[place..].iter().for_each(|bytes| given.receive(bytes));
        let learned = given.ended.unwrap().unwrap();
        assert_eq!((learned.own_labels, learned.job), (false, None), "{place}");
        assert_eq!(learned.clusters[1].versions, knows);
        assert!(!given.events.iter().any(|event| matches!(event, ClientEvent::Sent(Label::P_PORT, _))));
    }
}

/// C_VERSION is broadcast before the values of this client. That broadcast decided that not all clients know the labels
/// of this project, and this client did not send them.
#[test]
fn the_versions_decide_once_those_of_this_client_are_there() {
    let mut plain = Plain::new(own(), vec![raw(&settings(1))]);
    let knows = Version::to_bytes(&[Version::MANDATORY, Version::OWN]);
    plain.run();
    let mut said = plain.said;
    said[at(Label::C_VERSION)] = coll(Label::C_VERSION, Some(3), [&knows.repeat(2)[..]]);
    for early in [None, Some((0, 0)), Some((2, 1))] {
        let mut given = Given::new(own());
        said[..at(Label::C_VERSION)].iter().for_each(|bytes| given.receive(bytes));
        if let Some((mask, clients)) = early {
            given.receive(&coll(Label::C_VERSION, Some(mask), [&knows.repeat(clients)[..]]));
        }
        said[at(Label::C_VERSION)..DONE].iter().for_each(|bytes| given.receive(bytes));
        let sends = given.events.iter().any(|event| matches!(event, ClientEvent::Sent(Label::P_PORT, _)));
        assert!(sends, "{early:?}");
    }
}

/// A rank that was too high was reported as a fault of the server.
#[test]
fn a_rank_that_is_too_high() {
    for (size, expected) in [
        (1, "this client has rank 3, and the session has 1 client: the ranks are 0 to 0"),
        (3, "this client has rank 3, and the session has 3 clients: the ranks are 0 to 2"),
    ] {
        let mut given = Given::new(settings(3));
        given.receive(&server_auth(Method::None));
        given.receive(&command(Command::Impi, &[size]));
        assert_eq!(given.fault(), expected);
    }
}

/// Servers of other protocols often send the first bytes: such a greeting was reported only as a method of AUTH.
#[test]
fn a_server_of_another_protocol() {
    for (place, greeting) in
        [(AUTH, &b"SSH-2.0-OpenSSH_9.6"[..]), (AUTH, b"220 mail ESMTP"), (AUTH, b"HTTP/1.1 400")]
    {
        let said = lied(place, &Bytes::copy_from_slice(greeting));
        assert!(said.contains("; is it an IMPI server?"), "{said}");
    }
    assert!(!lied(AUTH, &server_auth(Method::Key)).contains("is it an IMPI server?"));
}

#[test]
fn values_of_this_client_that_were_changed() {
    let mut said = honest();
    let mut given = Given::new(settings(0));
    said[at(Label::H_PORT)] = coll(Label::H_PORT, Some(3), [&words(&[5000, 5001, 5000, 5000])[..]]);
    said.iter().for_each(|bytes| given.receive(bytes));
    assert!(given.fault().ends_with("COLL H_PORT: the values of this client are not those that it has sent"));
}

/// A label that this client leaves out may be broadcast with or without values, early, late, or not at all, but never
/// with values of this client.
#[test]
fn labels_that_are_left_out() {
    let mut settings = settings(0);
    settings.cluster.tag_ub = None;
    let honest: Vec<Bytes> = honest()
        .into_iter()
        .enumerate()
        .filter(|(place, _)| *place != at(Label::C_TAGUB))
        .map(|(_, bytes)| bytes)
        .collect();
    let tag = |mask, values: &[u32]| coll(Label::C_TAGUB, Some(mask), [&words(values)[..]]);
    let with = |place: usize, bytes: Bytes| {
        let mut given = Given::new(settings.clone());
        let mut said = honest.clone();
        said.insert(place, bytes);
        said.iter().for_each(|bytes| given.receive(bytes));
        given
    };
    for place in 2..=DONE - 1 {
        for (values, learned) in [(tag(0, &[]), None), (tag(2, &[32_767]), Some(32_767))] {
            assert_eq!(with(place, values).ended.unwrap().unwrap().tag_ub, learned, "{place}");
        }
        let unknown = coll(Label(0x9000), Some(2), [&b"any"[..]]);
        let given = with(place, unknown);
        assert!(given.events.contains(&ClientEvent::Unknown(Label(0x9000), 3)));
        let learned = given.ended.unwrap().unwrap();
        assert_eq!(learned.tag_ub, None);
        assert_eq!(learned.others, [(Label(0x9000), (2, Bytes::from_static(b"any")))].into());
        let again = with(place, command(Command::Impi, &[2]));
        assert!(again.ended.unwrap().is_ok());
        let ignored = with(place, command(Command::Other(0x1234), &[1, 2]));
        assert!(ignored.events.contains(&ClientEvent::Ignored(Command::Other(0x1234), 8)));
        assert!(ignored.ended.unwrap().is_ok());
    }
    assert!(
        with(5, tag(3, &[1, 2]))
            .fault()
            .contains("COLL C_TAGUB has mask 0x3 with client 0, which has left it out")
    );
    assert!(with(5, tag(0, &[7])).fault().contains("COLL C_TAGUB has mask 0, and 4 bytes of values"));
}

#[test]
fn the_key_is_sent_when_it_is_asked_for_and_not_otherwise() {
    let key: Key = "81985529216486895".parse().unwrap();
    let bytes = [1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    let with = |none, chosen: Bytes| {
        let mut given = Given::new(changed(|it| it.methods = Methods { none, key: Some(key.clone()) }));
        given.receive(&chosen);
        given
    };
    // The second number is ignored.
    let chosen = Bytes::from_static(&[0, 0, 0, 1, 0xff, 0, 0, 9]);
    let given = with(false, chosen);
    assert_eq!(given.sent[..12], command(Command::Auth, &[2])[..]);
    assert_eq!(given.sent[12..20], bytes);
    assert_eq!(given.sent[20..], command(Command::Impi, &[0])[..]);
    let given = with(true, server_auth(Method::None));
    assert_eq!(given.sent, [command(Command::Auth, &[3]), command(Command::Impi, &[0])].concat());
    assert!(!format!("{:?}", given.client).contains("81985529216486895"));
    // The bytes of the key appeared in the debug output of the outputs and of the client.
    let settings = changed(|it| it.methods = Methods { none: false, key: Some(key.clone()) });
    let mut client = Client::new(settings).unwrap();
    client.handle(ClientInput::Received(&server_auth(Method::Key)));
    let mut shown = format!("{client:?}");
    shown.extend(std::iter::from_fn(|| client.next_output()).map(|output| format!("{output:?}")));
    assert!(shown.contains("Send(8 bytes)") && !shown.contains("#Eg") && !shown.contains("35, 69, 103"));
    let said = with(false, server_auth(Method::None)).fault();
    assert!(said.contains("it chose method 0 of AUTH, and this client offers mask 0x2"), "{said}");
}

/// A single client with labels of this project.
fn own() -> ClientSettings {
    let mut settings = settings(0);
    (settings.own_labels, settings.job) = (true, Some([5; 16]));
    let procs = settings.cluster.hosts.iter_mut().flat_map(|host| &mut host.procs);
    procs.for_each(|proc| proc.port = Some(99));
    settings
}

#[test]
fn labels_of_this_project() {
    let mut plain = Plain::new(own(), Vec::new());
    plain.run();
    let (said, learned) = (plain.said, plain.ended.unwrap().unwrap());
    assert_eq!((learned.own_labels, learned.job), (true, Some([5; 16])));
    let known = &said[..DONE];
    let done = command(Command::Done, &[]);
    let with = |own: &[&Bytes]| {
        let mut given = Given::new(super::lying::own());
        known.iter().chain(own.iter().copied()).chain([&done]).for_each(|bytes| given.receive(bytes));
        given
    };
    let [job, ports] = [&said[DONE], &said[DONE + 1]];
    // A server that drops unknown labels.
    let without = with(&[]).ended.unwrap().unwrap();
    assert_eq!(
        (without.own_labels, without.job, without.clusters[0].hosts[0].procs[0].port),
        (false, None, None)
    );
    assert_eq!(with(&[ports, job]).ended.unwrap().unwrap(), learned);
    assert!(
        with(&[job])
            .fault()
            .contains("waiting for DONE: DONE without COLL P_PORT, which this client has sent")
    );
    assert!(with(&[ports]).fault().contains("DONE without COLL C_JOB"));
    assert!(with(&[job, job]).fault().contains("COLL C_JOB again, without the values of more clients"));
    let other = coll(Label::C_JOB, Some(1), [&[6; 16][..]]);
    assert!(with(&[&other, ports]).fault().contains("COLL C_JOB: the values of this client are not those"));
    let short = coll(Label::C_JOB, Some(1), [&[6; 15][..]]);
    assert!(with(&[&short, ports]).fault().contains("COLL C_JOB: 15 bytes of values"));
    // A client without these labels ignores them.
    let mut given = Given::new(settings(0));
    honest()[..DONE].iter().chain([job, &done]).for_each(|bytes| given.receive(bytes));
    assert!(given.events.contains(&ClientEvent::Unknown(Label::C_JOB, 16)));
    assert!(!given.ended.unwrap().unwrap().own_labels);
}

#[test]
fn they_are_not_sent_to_clients_that_have_not_named_them() {
    let strangers = Version { major: Version::OWN.major - 1, minor: 0 };
    let friends = Version { major: Version::OWN.major, minor: 9 };
    for (other, sent) in [(strangers, false), (friends, true)] {
        let mut said = raw(&settings(1));
        said.insert(Label::C_VERSION, Version::to_bytes(&[Version::MANDATORY, other]));
        let mut plain = Plain::new(own(), vec![said]);
        plain.run();
        assert_eq!(plain.sent.contains_key(&Label::P_PORT), sent);
        assert_eq!(plain.sent.contains_key(&Label::C_JOB), sent);
        assert_eq!(plain.ended.unwrap().unwrap().own_labels, sent);
    }
}

/// A connection that ends, and a time limit that passes, at every byte: the error names what the client waits for.
#[test]
fn the_end_at_every_byte() {
    let said = honest();
    let names = |place: usize| match place {
        AUTH => "waiting for the server's choice of AUTH".to_owned(),
        IMPI => "waiting for the number of clients (IMPI)".to_owned(),
        DONE => "waiting for DONE".to_owned(),
        place => format!("waiting for COLL {}", Label::KNOWN[place - 2]),
    };
    for (place, bytes) in said.iter().enumerate() {
        for end in 0..bytes.len() {
            for late in [false, true] {
                let mut given = Given::new(settings(0));
                said[..place].iter().for_each(|bytes| given.receive(bytes));
                bytes[..end].iter().for_each(|byte| given.receive(&[*byte]));
                assert!(given.ended.is_none());
                let limit = Duration::from_secs(3);
                given.give(if late { ClientInput::Late(limit) } else { ClientInput::Lost("gone\u{1b}") });
                let (fault, name) = (given.fault(), names(place));
                let expected = match late {
                    false => format!("the server was lost while {name}: gone\\u{{1b}}"),
                    true => format!("not all clients were done within 3s: still {name}"),
                };
                assert!(fault.starts_with(&expected), "{fault}\nhas not: {expected}");
            }
        }
    }
}

#[test]
fn after_done() {
    let mut given = Given::new(settings(0));
    given.client.fini();
    given.drain();
    assert_eq!(given.sent, command(Command::Auth, &[1]), "FINI has no place before DONE");
    honest().iter().for_each(|bytes| given.receive(bytes));
    let sent = given.sent.len();
    // Bytes without a meaning, and a time limit that applies to the earlier stages only.
    given.receive(b"any bytes");
    given.give(ClientInput::Late(Duration::ZERO));
    given.client.fini();
    given.client.fini();
    given.give(ClientInput::Lost("closed"));
    assert_eq!(given.sent[sent..], command(Command::Fini, &[])[..]);
    assert!(given.ended.unwrap().is_ok());
    assert_eq!(given.events.last(), Some(&ClientEvent::Ended));

    let mut given = Given::new(settings(0));
    honest().iter().for_each(|bytes| given.receive(bytes));
    given.give(ClientInput::Lost("closed"));
    assert_eq!(given.events.last(), Some(&ClientEvent::Lost("closed".into())));
}

#[test]
fn more_than_the_client_takes() {
    let said = honest();
    let len: usize = said[1..].iter().map(Bytes::len).sum();
    for (bytes_max, fits) in [(len, true), (len - 30, false)] {
        let mut given = Given::new(changed(|it| it.bytes_max = bytes_max));
        said.iter().for_each(|bytes| given.receive(bytes));
        match given.ended.unwrap() {
            Ok(_) => assert!(fits),
            Err(fault) => {
                assert!(!fits);
                assert!(
                    matches!(&fault, ClientFault::Violation { wrong: Violation::Frame(_), .. }),
                    "{fault}"
                );
            }
        }
    }
}

/// The versions of all clients are divided as soon as they arrive, so their length has a bound of its own.
#[test]
fn the_versions_of_all_clients_have_a_longest_length() {
    let versions = |count: usize| coll(Label::C_VERSION, Some(3), [&vec![0; 8 * count][..]]);
    let said = lied(at(Label::C_VERSION), &versions((1 << 17) + 1));
    assert!(said.contains("COLL with a length of 1048584; allowed are 0 to 1048576"), "{said}");
    let said = lied(at(Label::C_VERSION), &versions(1 << 17));
    assert!(said.contains("there are the versions of 131072 clients"), "{said}");
}

/// The last command has no payload, and its head counts: the bound holds to the byte.
#[test]
fn the_bytes_of_a_server_are_counted_with_their_heads() {
    let said = honest();
    let len: usize = said[1..].iter().map(Bytes::len).sum();
    for (bytes_max, fits) in [(len, true), (len - 1, false), (len - 8, false)] {
        let mut given = Given::new(changed(|it| it.bytes_max = bytes_max));
        said.iter().for_each(|bytes| given.receive(bytes));
        let ended = given.ended.unwrap();
        assert_eq!(ended.is_ok(), fits, "{bytes_max}");
        if let Err(fault) = ended {
            let more = matches!(&fault, ClientFault::Violation { wrong: Violation::Bytes(most), .. } if *most == bytes_max);
            assert!(more, "{fault}");
        }
    }
}

/// A server that sent meaningless commands without end, 8 bytes each, kept a client busy with events until its time
/// limit, whatever its limit of bytes.
#[test]
fn a_server_that_never_comes_to_the_point() {
    let unknown = |i: u32| coll(Label(0x9000 + i), Some(2), [&[][..]]);
    let empty = |_| command(Command::Other(7), &[]);
    let size = |_| command(Command::Impi, &[2]);
    let flood = |bytes_max, said: &dyn Fn(u32) -> Bytes| {
        let mut given = Given::new(changed(|it| it.bytes_max = bytes_max));
        honest()[..at(Label::H_PORT)].iter().for_each(|bytes| given.receive(bytes));
        let mut count = 0;
        while given.ended.is_none() {
            given.receive(&said(count));
            count += 1;
        }
        (count, given.events.len(), given.fault())
    };
    for said in [&unknown as &dyn Fn(u32) -> Bytes, &empty, &size] {
        let (count, events, fault) = flood(1 << 20, said);
        assert_eq!(count, 4097);
        assert!(events < 4200);
        assert!(fault.contains("waiting for COLL H_PORT: it has sent more than 4096 commands"), "{fault}");
    }
    let (count, _, fault) = flood(1000, &empty);
    assert!(count < 1000 / 8 && fault.contains("it has sent more than 1000 bytes in all"), "{fault}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Honest bytes with some changed, left out or doubled. The client does not panic, holds only what has arrived, and
    /// ends with the connection.
    #[test]
    fn bytes_of_a_liar(
        changes in prop::collection::vec((any::<Index>(), 0u8..4, any::<u8>(), 1usize..40), 0..5),
        cuts in prop::collection::vec(1usize..200, 1..20),
        project in any::<bool>(),
    ) {
        let settings = if project { own() } else { settings(0) };
        let mut plain = Plain::new(settings.clone(), vec![raw(&super::support::settings(1))]);
        plain.run();
        let mut bytes = plain.said.concat();
        for (at, what, byte, len) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + len);
            match what {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..end)),
                2 => bytes.insert(at, byte),
                _ => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        let (mut given, mut received, mut rest) = (Given::new(settings), 0, &bytes[..]);
        for cut in cuts.into_iter().cycle() {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            (rest, received) = (after, received + piece.len());
            given.receive(piece);
            prop_assert!(given.client.held() <= received);
            if rest.is_empty() {
                break;
            }
        }
        given.give(ClientInput::Lost("closed"));
        prop_assert!(given.ended.is_some());
        prop_assert_eq!(given.client.held(), 0);
    }
}
