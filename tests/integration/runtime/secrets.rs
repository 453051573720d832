//! Nodes with a secret, over real TCP: the peers that they link with, what other peers receive, and calls through
//! encrypted links.
#![cfg(feature = "noise")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use chained_gpc::link::peering::{
    Crypto as _, FIRST_LENGTH, LENGTH_BYTES, Noise, RECORD_MAX, Role, SECOND_LENGTH, TAG, THIRD_LENGTH,
};
use chained_gpc::runtime::{Address, Builder, Listener, Peers};
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FRAME_HEADER, Kind};
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::{
    Access, Call, CauseKind, Functions, Id, Job, LinkKind, Node, Peer, PrivateKey, PublicKey, Secret, Stage,
    Tree,
};

use socket2::SockRef;

use super::common::{LIMIT, assert_cause, assert_who, cause_of, checksum, limited, noise, replies_of, who};
use super::raw::{EARLY, RawPeer, frame};

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32]).unwrap()
}

fn key(byte: u8) -> PrivateKey {
    PrivateKey::new([byte; 32])
}

/// A node that listens on TCP, without the faster links of one host.
fn node(id: Id, functions: &Functions, peers: Peers, change: impl FnOnce(Builder) -> Builder) -> Node {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let builder = Node::builder(id).functions(functions).link(LinkKind::Tcp).peers(peers).listener(listener);
    change(builder).start().unwrap()
}

/// Nodes of these ids that know each other, all built in the same way.
fn set(n: Id, functions: &Functions, change: impl Fn(Builder) -> Builder) -> Vec<Node> {
    let (listeners, row) = LinkKind::Tcp.listen(0..n).unwrap();
    let start = |(id, listener): (Id, Listener)| {
        let builder = Node::builder(id).functions(functions).link(LinkKind::Tcp).peers(row.clone().into());
        change(builder).listener(listener).start().unwrap()
    };
    (0..n).zip(listeners).map(start).collect()
}

fn knows(node: &Node) -> Peers {
    [(node.id(), node.address().unwrap().clone())].into_iter().collect()
}

#[test]
fn calls_go_through_links_that_are_proved_and_sealed() {
    limited(|| {
        for sealed in [false, true] {
            let functions = Functions::new();
            let who = who(&functions);
            let sum = functions
                .func("sum", |request, reply| {
                    reply.data = checksum(request.data()).to_le_bytes().to_vec();
                    reply.data.extend_from_slice(&request.data()[..request.me() as usize * 100_000]);
                    Ok(())
                })
                .unwrap();
            let change = |builder: Builder| {
                let builder = builder.secret(secret(1));
                if sealed { builder.encrypt_loopback() } else { builder }
            };
            let nodes = set(6, &functions, change);
            for tree in [Tree::Binary, Tree::Chain, Tree::Flat] {
                for _ in 0..20 {
                    let call = Call::new(who).ids(0..6).tree(tree.clone()).header("h");
                    assert_who(&replies_of(nodes[0].call(call).unwrap()), &[0, 1, 2, 3, 4, 5], "h");
                }
                let data = noise(3_000_000, 7);
                for forward_first in [false, true] {
                    let call = Call::new(sum).ids(0..6).tree(tree.clone()).data(data.clone());
                    let call = if forward_first { call.forward_first() } else { call };
                    for reply in replies_of(nodes[0].call(call).unwrap()) {
                        let (found, rest) = reply.data.split_at(8);
                        assert_eq!(found, checksum(&data).to_le_bytes());
                        assert_eq!(rest, &data[..reply.id as usize * 100_000]);
                    }
                }
            }
        }
    });
}

/// Any process that reached a node's port could call its functions, and a process that claimed an id in its hello took
/// over that id's links.
#[test]
fn who_has_not_the_secret_is_refused_and_told_no_more() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)));
        let other_job = Job([7; 16]);
        let strangers: [(&str, &dyn Fn(Builder) -> Builder); 3] = [
            ("no secret", &|builder| builder),
            ("another secret", &|builder| builder.secret(secret(2))),
            ("another job", &|builder| builder.secret(secret(1)).job(other_job)),
        ];
        for (name, change) in strangers {
            let zero = node(0, &functions, knows(&one), change);
            let cause = cause_of(zero.call(Call::new(who).ids(0..2)).unwrap());
            assert_cause(&cause, 1, Stage::Link, "refused");
            assert_eq!(cause.kind, CauseKind::Unreachable, "{name}");
            assert!(!cause.message.contains("job 07070707"), "{name}: {}", cause.message);
        }
        let trusted = node(0, &functions, knows(&one), |builder| builder.secret(secret(1)));
        assert_who(&replies_of(trusted.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        // In the other direction: a node with a secret trusts no node without one.
        let open = node(3, &functions, Peers::new(), |builder| builder);
        trusted.learn(Peer::new(3, open.address().unwrap().clone())).unwrap();
        let cause = cause_of(trusted.call(Call::new(who).ids([0, 3])).unwrap());
        assert_cause(&cause, 3, Stage::Link, "it refused the proof");
    });
}

#[test]
fn a_listed_id_is_known_by_its_key_alone() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let member = |builder: Builder| builder.secret(secret(1));
        let one = node(1, &functions, Peers::new(), |builder| member(builder).key(key(11)));
        let list = |public: PublicKey| {
            let mut peers = knows(&one);
            peers.set_key(1, public);
            peers
        };
        let right = node(0, &functions, list(key(11).public()), member);
        assert_who(&replies_of(right.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        let wrong = node(2, &functions, list(key(12).public()), member);
        let cause = cause_of(wrong.call(Call::new(who).ids([2, 1])).unwrap());
        assert_cause(&cause, 1, Stage::Link, "does not have the key that is listed for id 1");
        // A member that claims a listed id is refused with a reason, since it has proved to be a member.
        one.learn(Peer::new(5, "127.0.0.1:9".parse().unwrap()).known_by(key(15).public())).unwrap();
        let impostor = node(5, &functions, knows(&one), member);
        let cause = cause_of(impostor.call(Call::new(who).ids([5, 1])).unwrap());
        assert_cause(&cause, 1, Stage::Link, "another key is listed for id 5");
        let true_five = node(5, &functions, knows(&one), |builder| member(builder).key(key(15)));
        assert_who(&replies_of(true_five.call(Call::new(who).ids([5, 1])).unwrap()), &[5, 1], "");
    });
}

/// An id was linked before its key was known, and stayed linked with whatever key it had.
#[test]
fn a_link_does_not_outlive_a_key_that_it_has_not_proved() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let member = |builder: Builder| builder.secret(secret(1));
        let one = node(1, &functions, Peers::new(), |builder| member(builder).key(key(11)));
        let zero = node(0, &functions, knows(&one), member);
        assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        let one_as = |public| Peer::new(1, one.address().unwrap().clone()).known_by(public);
        zero.learn(one_as(key(11).public())).unwrap();
        assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        zero.learn(one_as(key(12).public())).unwrap();
        let cause = cause_of(zero.call(Call::new(who).ids(0..2)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "does not have the key that is listed for id 1");
    });
}

/// A neighbour that was linked by the secret, and whose key was listed later, stayed a mere member. Functions
/// restricted to known ids were refused to it as long as the link was up.
#[test]
fn a_link_that_has_proved_a_key_is_known_by_it_once_it_is_listed() {
    limited(|| {
        let functions = Functions::new();
        let start = functions.access(Access::Listed).func("start", |_, _| Ok(())).unwrap();
        let member = |builder: Builder| builder.secret(secret(1));
        let one = node(1, &functions, Peers::new(), member);
        let zero = node(0, &functions, knows(&one), |builder| member(builder).key(key(10)));
        let cause = cause_of(zero.call(Call::new(start).ids(0..2)).unwrap());
        assert_eq!(cause.kind, CauseKind::NotAuthorised);
        one.learn(Peer::new(0, zero.address().unwrap().clone()).known_by(key(10).public())).unwrap();
        // It is learned before the next request is read: the same loop handles both, in order.
        one.wait_for_peers([0], LIMIT).unwrap();
        assert!(zero.call(Call::new(start).ids(0..2)).unwrap().wait().unwrap().is_complete());
    });
}

/// A peer sent a hello over a Unix socket with rings, and ended before the answer was written. The node kept the link
/// forever, and calls to that id waited forever.
#[test]
fn who_is_gone_before_he_is_answered_is_not_linked() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)).encrypt_loopback());
        for _ in 0..20 {
            let mut gone = Prover::new(&one, &secret(1));
            let preamble = *b"cGPC\x04\x00\x01\x00";
            let mut handshake = gone.crypto.begin(Role::First, &preamble).unwrap();
            let mut message = Vec::new();
            handshake.write(&[Id::to_le_bytes(0), Id::to_le_bytes(1)].concat(), &mut message).unwrap();
            gone.stream.write_all(&preamble).unwrap();
            gone.send(&message);
            handshake.read(&gone.receive().unwrap(), &mut [0; 4]).unwrap();
            message.clear();
            handshake.write(&[], &mut message).unwrap();
            let mut session = handshake.into_session().unwrap();
            let mut record = vec![0; RECORD_MAX];
            let sealed = session.seal(&hello(0, 1), &mut record).unwrap();
            // Reset, not closed: the node's next write then fails at once.
            SockRef::from(&gone.stream).set_linger(Some(Duration::ZERO)).unwrap();
            gone.send(&message);
            gone.send(&record[..sealed]);
            drop(gone);
        }
        let zero = node(0, &functions, knows(&one), |builder| builder.secret(secret(1)).encrypt_loopback());
        assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        one.learn(Peer::new(0, zero.address().unwrap().clone())).unwrap();
        assert_who(&replies_of(one.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
    });
}

/// A peers file with keys, without a secret: the keys would have had no effect.
#[test]
fn keys_that_nothing_proves_are_not_passed_over() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, Peers::new(), |builder| builder);
        let mut peers = knows(&one);
        peers.set_key(1, key(11).public());
        let zero = node(0, &functions, peers, |builder| builder);
        let cause = cause_of(zero.call(Call::new(who).ids(0..2)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "proving a key needs the secret of the job");
        one.learn(Peer::new(6, "127.0.0.1:9".parse().unwrap()).known_by(key(16).public())).unwrap();
        let six = node(6, &functions, knows(&one), |builder| builder);
        let cause = cause_of(six.call(Call::new(who).ids([6, 1])).unwrap());
        assert_cause(&cause, 1, Stage::Link, "a key is listed for id 6");
    });
}

#[test]
fn beyond_this_host_nobody_goes_without_a_secret_unless_told_so() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let everywhere: Address = "0.0.0.0:0".parse().unwrap();
        let listens = |change: fn(Builder) -> Builder| {
            let listener = Listener::bind(&everywhere).unwrap();
            change(Node::builder(1)).functions(&functions).listener(listener).start()
        };
        let error = listens(|builder| builder).unwrap_err();
        assert!(error.to_string().contains("give all nodes of the job the same secret"), "{error}");
        assert!(listens(|builder| builder.insecure()).is_ok());
        assert!(listens(|builder| builder.secret(secret(1))).is_ok());
        // An address for documentation: no host has it, and nothing is sent.
        let beyond: Peers = [(1, "192.0.2.1:9".parse().unwrap())].into_iter().collect();
        let zero = node(0, &functions, beyond, |builder| builder);
        let cause = cause_of(zero.call(Call::new(who).ids(0..2).limit(LIMIT)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "give one to all nodes");
        assert_eq!(cause.kind, CauseKind::NotAuthorised);
    });
}

/// A side that requires encryption gets it, or no link: at both ends.
#[test]
fn encryption_is_not_dropped() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let strict =
            node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)).encrypt_loopback());
        let lax = node(0, &functions, knows(&strict), |builder| builder.secret(secret(1)));
        let cause = cause_of(lax.call(Call::new(who).ids(0..2)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "it refused the proof");
        let two = node(2, &functions, Peers::new(), |builder| builder.secret(secret(1)));
        strict.learn(Peer::new(2, two.address().unwrap().clone())).unwrap();
        assert_who(&replies_of(strict.call(Call::new(who).ids([1, 2])).unwrap()), &[1, 2], "");
    });
}

/// A peer that performs the proof by hand.
struct Prover {
    stream: TcpStream,
    crypto: Noise,
}

impl Prover {
    fn new(node: &Node, secret: &Secret) -> Prover {
        let Some(Address::Tcp(address)) = node.address() else { panic!("the node listens on TCP") };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut drawn = 100;
        let fill = move |bytes: &mut [u8]| {
            bytes.fill(drawn);
            drawn += 1;
            Ok(())
        };
        Prover { stream, crypto: Noise::new(secret, Job::default(), key(99), Box::new(fill)) }
    }

    fn send(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).unwrap().to_le_bytes();
        self.stream.write_all(&[&length[..], bytes].concat()).unwrap();
    }

    /// The next message; `None` for one of length 0, or at the end.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; LENGTH_BYTES];
        self.stream.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; u16::from_le_bytes(length).into()];
        self.stream.read_exact(&mut bytes).unwrap();
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Whether only the end is left.
    fn is_over(&mut self) -> bool {
        // A connection that is closed before everything was read is reset.
        !matches!(self.stream.read(&mut [0; 1]), Ok(1..))
    }
}

fn hello(from: Id, to: Id) -> Vec<u8> {
    let (generation, hiwater, job) = (1, 9, Job::default());
    let hello =
        Hello { from, to, incarnation: EARLY, generation, hiwater, job, rings: false, extents: false };
    frame(Kind::Hello, &hello.emit())
}

/// Written from docs/wire.md: the steps of a member, and the result of each deviation.
#[test]
fn a_proof_is_believed_when_all_of_it_is_right() {
    limited(|| {
        let functions = Functions::new();
        let node = node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)));
        let preamble = *b"cGPC\x04\x00\x01\x00";
        // A peer that speaks version 1, or another protocol.
        let mut clear = RawPeer::connect(&node);
        clear.hello(7, 1, EARLY, 1);
        assert_eq!(clear.expect_goodbye(GoodbyeReason::Refused), "refused");
        for (name, from, to, said, meant) in [
            ("right", 7, 1, preamble, preamble),
            ("another id is looked for", 7, 2, preamble, preamble),
            ("the node's own id", 1, 1, preamble, preamble),
            ("a flag was changed", 7, 1, *b"cGPC\x04\x00\x00\x00", preamble),
            ("an unknown flag", 7, 1, *b"cGPC\x04\x00\x03\x00", *b"cGPC\x04\x00\x03\x00"),
            ("an older version", 7, 1, *b"cGPC\x02\x00\x01\x00", *b"cGPC\x02\x00\x01\x00"),
        ] {
            let mut prover = Prover::new(&node, &secret(1));
            let mut handshake = prover.crypto.begin(Role::First, &meant).unwrap();
            let mut first = Vec::new();
            handshake.write(&[Id::to_le_bytes(from), Id::to_le_bytes(to)].concat(), &mut first).unwrap();
            assert_eq!(first.len(), FIRST_LENGTH);
            prover.stream.write_all(&said).unwrap();
            prover.send(&first);
            let second = prover.receive();
            assert_eq!(second.is_some(), name == "right", "{name}");
            let Some(second) = second else {
                assert!(prover.is_over(), "{name}: not a word more");
                continue;
            };
            assert_eq!(second.len(), SECOND_LENGTH);
            let mut own = [0; 4];
            handshake.read(&second, &mut own).unwrap();
            assert_eq!(Id::from_le_bytes(own), 1);
            let mut third = Vec::new();
            handshake.write(&[], &mut third).unwrap();
            assert_eq!(third.len(), THIRD_LENGTH);
            let mut session = handshake.into_session().unwrap();
            let mut record = vec![0; RECORD_MAX];
            let sealed = session.seal(&hello(7, 1), &mut record).unwrap();
            prover.send(&third);
            prover.send(&record[..sealed]);
            let answer = prover.receive().unwrap();
            assert_eq!(answer.len(), FRAME_HEADER + 48 + TAG);
            let mut plain = vec![0; answer.len()];
            session.open(&answer, &mut plain).unwrap();
            let heard = Hello::parse(&plain[FRAME_HEADER..FRAME_HEADER + 48]).unwrap();
            assert_eq!((heard.from, heard.to), (1, 7));
            // The node answers a heartbeat request; then a changed record ends the link.
            let sealed = session.seal(&frame(Kind::Ping, &[]), &mut record).unwrap();
            prover.send(&record[..sealed]);
            let pong = prover.receive().unwrap();
            let length = session.open(&pong, &mut plain).unwrap();
            assert_eq!(plain[..length], frame(Kind::Pong, &[]));
            let sealed = session.seal(&frame(Kind::Ping, &[]), &mut record).unwrap();
            record[3] ^= 1;
            prover.send(&record[..sealed]);
            assert!(prover.is_over());
        }
    });
}

/// The bytes of a member can be recorded and sent again; a node's own bytes can be sent back to it.
#[test]
fn what_was_recorded_proves_nothing() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)));
        let Some(Address::Tcp(address)) = one.address().cloned() else { panic!("it listens on TCP") };
        // A proxy between id 0 and id 1 forwards everything, and records it.
        let wire = TcpListener::bind("127.0.0.1:0").unwrap();
        let through: Peers = [(1, Address::Tcp(wire.local_addr().unwrap()))].into_iter().collect();
        let zero = node(0, &functions, through, |builder| builder.secret(secret(1)).encrypt_loopback());
        let handle = zero.call(Call::new(who).ids(0..2)).unwrap();
        let (mut from_zero, _) = wire.accept().unwrap();
        let mut to_one = TcpStream::connect(address).unwrap();
        let said = std::thread::spawn({
            let (mut from, mut to) = (from_zero.try_clone().unwrap(), to_one.try_clone().unwrap());
            move || {
                let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    said.extend_from_slice(&bytes[..count]);
                    to.write_all(&bytes[..count]).unwrap();
                }
                said
            }
        });
        let heard = std::thread::spawn({
            let (mut from, mut to) = (to_one.try_clone().unwrap(), from_zero.try_clone().unwrap());
            move || {
                let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    heard.extend_from_slice(&bytes[..count]);
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                heard
            }
        });
        assert_who(&replies_of(handle), &[0, 1], "");
        let _ = (from_zero.shutdown(Shutdown::Both), to_one.shutdown(Shutdown::Both));
        let (said, heard) = (said.join().unwrap(), heard.join().unwrap());
        let _ = (from_zero.flush(), to_one.flush());
        assert!(!said.windows(3).any(|bytes| bytes == b"who"), "nothing of it could be read");
        for again in [said, heard] {
            let mut replayed = TcpStream::connect(address).unwrap();
            replayed.set_read_timeout(Some(LIMIT)).unwrap();
            // The node may close before everything is sent.
            let _ = replayed.write_all(&again);
            let mut answered = Vec::new();
            let _ = replayed.read_to_end(&mut answered);
            // At most the second message, a refusal, or a goodbye; no hello, and no reply.
            assert!(answered.len() <= LENGTH_BYTES + SECOND_LENGTH + LENGTH_BYTES, "{}", answered.len());
        }
        assert_eq!(one.events().unwrap().try_recv().ok().map(|event| event.id), None, "nobody is up");
    });
}

/// Many connections that send nothing, or begin a proof and stop: the others are served meanwhile, and these are closed
/// in time.
#[test]
fn silence_and_half_a_proof_keep_nobody_out() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, Peers::new(), |builder| builder.secret(secret(1)));
        let Some(Address::Tcp(address)) = one.address().cloned() else { panic!("it listens on TCP") };
        let mut silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        for (place, stream) in silent.iter_mut().enumerate() {
            let begun = [&b"cGPC\x04\x00\x00\x00\x38\x00"[..], &[7; 55]].concat();
            stream.write_all(&begun[..place % begun.len()]).unwrap();
        }
        let zero = node(0, &functions, knows(&one), |builder| builder.secret(secret(1)));
        assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        for mut stream in silent {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            assert!(
                !matches!(stream.read(&mut [0; 1]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
            );
        }
    });
}
