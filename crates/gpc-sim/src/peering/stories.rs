//! Regression tests of defects that these worlds have found, each with one or two machines.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::model::{Model, public};
use super::processes::KnownKeys;
use crate::Random;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{
    Crypto, FeedContext, GREETING_LIMIT, Identity, LinkKey, Output, Peering, Proof, State, Strictness,
    Transport,
};
use chained_gpc::wire::{CauseKind, Job};

/// A machine and its outputs.
struct Side {
    peering: Peering<KnownKeys>,
    said: VecDeque<(LinkKey, Vec<u8>)>,
    up: Vec<(Id, LinkKey, Proof)>,
    closed: Vec<LinkKey>,
    lost: Vec<Id>,
    refused: Vec<(LinkKey, String)>,
}

const NOW: Time = Time::from_nanos(1000);

fn side(me: Id, others: &[Id], private: Option<u64>) -> Side {
    let identity = Identity { me, incarnation: 100 + u64::from(me), job: Job::default(), hiwater: 8 };
    let model =
        |private| Box::new(Model { psk: 7, private, random: Random::new(private) }) as Box<dyn Crypto>;
    let known = KnownKeys { peers: others.iter().copied().collect(), ..KnownKeys::default() };
    let peering = Peering::new(identity, private.map(model), Strictness::default(), known);
    let (up, closed, lost, refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Side { peering, said: VecDeque::new(), up, closed, lost, refused }
}

impl Side {
    fn settle(&mut self) {
        while let Some(output) = self.peering.poll() {
            match output {
                Output::Write { key, bytes } => self.said.push_back((key, bytes)),
                Output::Finish { key } | Output::Close { key } | Output::Replaced { key, .. } => {
                    self.closed.push(key)
                }
                Output::Up(link) => self.up.push((link.hello.from, link.key, link.proof)),
                Output::Lost { peer, .. } | Output::Unreached { peer, .. } => self.lost.push(peer),
                Output::Rejected { key, why } => self.refused.push((key, why)),
                Output::SendPing { peer, .. } => self.peering.set_answer_limit(peer, NOW),
            }
        }
    }

    /// Opens a connection and sends its first bytes.
    fn connect(&mut self, key: usize, to: Id, way: Transport) {
        self.peering.add_outgoing(NOW, LinkKey(key), to);
        self.peering.complete_outgoing(LinkKey(key), way, false);
        self.settle();
    }

    fn accept(&mut self, key: usize, way: Transport) {
        self.peering.add_incoming(NOW, LinkKey(key), way, None);
        self.settle();
    }

    /// The next bytes that it wrote.
    fn next(&mut self) -> Vec<u8> {
        self.said.pop_front().expect("something was said").1
    }

    fn hear(&mut self, key: usize, bytes: &[u8]) {
        self.peering.feed(NOW, LinkKey(key), bytes, &FeedContext::default());
        self.settle();
    }
}

/// A side gave up an attempt whose hello had arrived, and reconnected before the end of that attempt was seen. It sent
/// the same generation again. The peer refused it as a duplicate of a connection that the side had closed itself. The
/// side waited ten seconds for that connection, and lost its pending messages.
#[test]
fn an_attempt_that_was_given_up_counts() {
    let (mut one, mut two) = (side(1, &[2], None), side(2, &[1], None));
    one.connect(0, 2, Transport::User);
    two.accept(0, Transport::User);
    let hello = one.next();
    two.hear(0, &hello);
    assert_eq!(two.up.len(), 1);
    assert!(one.peering.give_up_attempt(2));
    one.connect(1, 2, Transport::User);
    two.accept(1, Transport::User);
    let again = one.next();
    two.hear(1, &again);
    assert_eq!((two.peering.state(1), two.up.len()), (State::Up(LinkKey(1)), 2));
    two.next();
    one.hear(1, &two.next());
    assert_eq!(one.peering.state(2), State::Up(LinkKey(1)));
}

/// The higher id had counted more links than the lower one, as after a restart of the lower id. Their connections
/// crossed, and both kept the lower id's. Then the higher id's first hello arrived, in flight on a connection that the
/// higher id had closed. It was taken for a later hello and replaced the link.
#[test]
fn a_hello_that_crossed_is_no_later_one_however_high_it_counts() {
    let (mut low, mut high) = (side(1, &[2], None), side(2, &[1], None));
    for key in 0..5 {
        high.connect(key, 1, Transport::User);
        high.peering.ended(LinkKey(key), None, CauseKind::Unreachable, "nobody is there yet");
        high.settle();
    }
    high.said.clear();
    high.connect(7, 1, Transport::User);
    let late = high.next();
    low.connect(0, 2, Transport::User);
    high.accept(8, Transport::User);
    high.hear(8, &low.next());
    assert_eq!((high.peering.state(1), high.closed.contains(&LinkKey(7))), (State::Up(LinkKey(8)), true));
    low.hear(0, &high.next());
    low.accept(1, Transport::User);
    low.hear(1, &late);
    assert_eq!((low.peering.state(2), &low.lost[..]), (State::Up(LinkKey(0)), &[][..]));
}

/// A lower id was still connecting to the old address of a peer when the restarted peer connected to it. The peer's
/// connection was refused as a duplicate, and the peer waited ten seconds for a connection that never arrived.
#[test]
fn an_attempt_that_has_said_nothing_is_in_nobodys_way() {
    let (mut low, mut high) = (side(1, &[2], None), side(2, &[1], None));
    low.peering.add_outgoing(NOW, LinkKey(0), 2);
    high.connect(0, 1, Transport::User);
    low.accept(1, Transport::User);
    low.hear(1, &high.next());
    assert_eq!((low.peering.state(2), &low.closed[..]), (State::Up(LinkKey(1)), &[LinkKey(0)][..]));
    high.hear(0, &low.next());
    assert_eq!((high.peering.state(1), &low.lost[..]), (State::Up(LinkKey(0)), &[][..]));
}

/// If a connection is refused as a duplicate, its side waits for the other connection, but only for a limited time: the
/// peer may be wrong, or lie.
#[test]
fn a_connection_that_never_comes_is_awaited_for_a_while() {
    let mut high = side(2, &[1], None);
    high.connect(0, 1, Transport::User);
    high.hear(0, b"\x01\0\0\0\x07\0\0\0\x01");
    let State::Expecting(until) = high.peering.state(1) else { panic!("{:?}", high.peering.state(1)) };
    assert_eq!((until, high.peering.next_deadline()), (NOW.plus(GREETING_LIMIT), Some(until)));
    high.peering.tick(until);
    high.settle();
    assert_eq!((high.peering.state(1), &high.lost[..]), (State::Absent, &[1][..]));
}

/// A key was listed while a connection of that id was between its proof, with another key, and its hello. It came up as
/// if it had proved the listed key.
#[test]
fn a_key_that_is_listed_late_is_compared_all_the_same() {
    for when in [3, 4] {
        let (mut member, mut node) = (side(1, &[2], Some(11)), side(2, &[], Some(22)));
        member.connect(0, 2, Transport::Loopback);
        node.accept(0, Transport::Loopback);
        node.hear(0, &member.next());
        member.hear(0, &node.next());
        let (third, hello) = (member.next(), member.next());
        let list = |node: &mut Side, at| {
            if when == at {
                node.peering.book.peers.insert(1);
                node.peering.book.keys.insert(1, public(33));
            }
        };
        list(&mut node, 3);
        node.hear(0, &third);
        list(&mut node, 4);
        node.hear(0, &hello);
        assert_eq!(node.up, [], "listed before message {when}");
    }
    let (mut member, mut node) = (side(1, &[2], Some(11)), side(2, &[1], Some(22)));
    member.connect(0, 2, Transport::Loopback);
    node.accept(0, Transport::Loopback);
    node.hear(0, &member.next());
    member.hear(0, &node.next());
    member.peering.book.keys.insert(2, public(33));
    node.hear(0, &member.next());
    node.hear(0, &member.next());
    member.hear(0, &node.next());
    assert_eq!((&member.up[..], &member.lost[..]), (&[][..], &[2][..]), "who has connected looks again, too");
}

/// A run waited for a link that did not answer. It lost its place to another member, which claimed the same id and run
/// with a higher generation and had a key of its own.
#[test]
fn who_waits_keeps_its_place_from_another_key() {
    let (mut node, mut old) = (side(2, &[], Some(22)), side(1, &[2], Some(11)));
    let greet = |node: &mut Side, member: &mut Side, key: usize| {
        node.said.clear();
        member.connect(key, 2, Transport::Loopback);
        node.accept(key, Transport::Loopback);
        node.hear(key, &member.next());
        member.hear(key, &node.next());
        node.hear(key, &member.next());
        node.hear(key, &member.next());
    };
    greet(&mut node, &mut old, 0);
    let again = |private| {
        let identity = Identity { me: 1, incarnation: 7, job: Job::default(), hiwater: 8 };
        let model = Box::new(Model { psk: 7, private, random: Random::new(private) });
        let known = KnownKeys { peers: [2].into(), ..KnownKeys::default() };
        Side {
            peering: Peering::new(identity, Some(model), Strictness::default(), known),
            ..side(1, &[2], None)
        }
    };
    let (mut new, mut liar) = (again(12), again(13));
    greet(&mut node, &mut new, 1);
    liar.peering.add_outgoing(NOW, LinkKey(2), 2);
    liar.peering.give_up_attempt(2);
    liar.settle();
    greet(&mut node, &mut liar, 3);
    greet(&mut node, &mut liar, 4);
    assert!(!node.closed.contains(&LinkKey(1)) && node.closed.contains(&LinkKey(4)), "{:?}", node.closed);
    liar.peering.give_up_attempt(2);
    new.peering.give_up_attempt(2);
    greet(&mut node, &mut new, 5);
    assert!(
        node.closed.contains(&LinkKey(1)) && !node.closed.contains(&LinkKey(5)),
        "the same one tries anew"
    );
}

/// Without proofs, a first frame that was not a hello, or was of another version, closed the connection without a log
/// entry. It was taken for a port scan, which sends nothing.
#[test]
fn a_first_frame_that_is_no_hello_is_told_of() {
    let other_version = [&[48, 0, 0, 0, 1, 0, 0, 0][..], b"cGPC", &[2, 0], &[0; 42]].concat();
    for bytes in [&b"\x01\0\0\0\x07\0\0\0\x01"[..], &other_version] {
        let mut node = side(1, &[2], None);
        node.accept(0, Transport::User);
        node.hear(0, bytes);
        assert_eq!((node.refused.len(), &node.closed[..]), (1, &[LinkKey(0)][..]), "{:?}", node.refused);
    }
    let mut node = side(1, &[2], None);
    node.accept(0, Transport::User);
    node.peering.ended(LinkKey(0), None, CauseKind::Unreachable, "the peer closed the connection");
    node.settle();
    assert_eq!(node.refused, [], "who says nothing is not told of");
}

/// A link without a proof stayed up when a key was listed for its peer: no world lists keys without a secret.
#[test]
fn a_link_that_has_proved_nothing_does_not_stay_when_a_key_is_listed() {
    let (mut one, mut node) = (side(1, &[2], None), side(2, &[1], None));
    one.connect(0, 2, Transport::Loopback);
    node.accept(0, Transport::Loopback);
    node.hear(0, &one.next());
    assert_eq!((node.up.len(), node.peering.contradicting_link(1)), (1, None));
    node.peering.book.keys.insert(1, public(11));
    assert_eq!((node.peering.confirm_key(1), node.peering.contradicting_link(1)), (None, Some(LinkKey(0))));
}
