//! Peers that a node learns and forgets while it runs.

use std::thread;
use std::time::Duration;

use chained_gpc::runtime::{Address, Listener, MembershipError, PeerEventKind, Peers};
use chained_gpc::{
    AbsentPeers, Call, FuncHandle, Functions, Id, IdList, LinkKind, Node, Peer, Reply, Stage, Tree,
};

use super::common::{
    LIMIT, LISTENING, assert_cause, assert_who, cause_of, end_of, hold, limited, replies_of, who,
};
use super::raw::{EARLY, RawPeer, call, listener, node};

/// A node without peers, with a listener of its own.
pub(crate) fn alone(id: Id, link: LinkKind, functions: &Functions) -> Node {
    at(id, &link.fresh_address(id), link, functions)
}

fn at(id: Id, address: &Address, link: LinkKind, functions: &Functions) -> Node {
    let builder = Node::builder(id).functions(functions).link(link);
    builder.listener(Listener::bind(address).unwrap()).start().unwrap()
}

pub(crate) fn peer(node: &Node) -> Peer {
    Peer::new(node.id(), node.address().unwrap().clone())
}

fn over(func: FuncHandle, ids: impl IntoIterator<Item = Id>) -> Call {
    Call::new(func).ids(IdList::from_ids(ids).unwrap()).tree(Tree::Flat)
}

/// The set of ids was fixed at the start.
#[test]
fn ids_join_leave_and_join_again() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let root = alone(0, link, &functions);
            let cause = cause_of(root.call(over(who, [0, 5])).unwrap());
            assert_cause(&cause, 5, Stage::Link, "no address is known for it");
            let five = alone(5, link, &functions);
            for _ in 0..3 {
                root.learn(peer(&five)).unwrap();
                assert_who(&replies_of(root.call(over(who, [0, 5])).unwrap()), &[0, 5], "");
                // Learning it again changes nothing.
                root.learn(peer(&five)).unwrap();
                assert_who(&replies_of(root.call(over(who, [0, 5])).unwrap()), &[0, 5], "");
                root.forget(5).unwrap();
                let cause = cause_of(root.call(over(who, [0, 5])).unwrap());
                assert_cause(&cause, 5, Stage::Link, "no address is known for it");
                let absent = root.wait_for_peers(5..6, Duration::ZERO).unwrap_err();
                assert!(matches!(absent, AbsentPeers::Unknown { .. }), "{absent}");
                root.forget(5).unwrap();
            }
            root.shutdown(LIMIT);
            five.shutdown(LIMIT);
        }
    });
}

#[test]
fn many_peers_are_learned_at_once_or_none_of_them() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let root = alone(0, LinkKind::Unix, &functions);
        let nodes: Vec<Node> = (1..4).map(|id| alone(id, LinkKind::Unix, &functions)).collect();
        let own = root.learn_all(nodes.iter().chain([&root]).map(peer));
        assert_eq!(own, Err(MembershipError::Own(0)));
        let cause = cause_of(root.call(over(who, 0..4)).unwrap());
        assert!(cause.message.contains("no address is known for it"), "{cause}");
        root.learn_all(nodes.iter().map(peer)).unwrap();
        assert_who(&replies_of(root.call(over(who, 0..4)).unwrap()), &[0, 1, 2, 3], "");
    });
}

#[test]
fn ids_of_a_row_are_forgotten_and_learned_as_others() {
    limited(|| {
        let link = LinkKind::Unix;
        let functions = Functions::new();
        let who = who(&functions);
        let (listeners, row) = link.listen(0..4).unwrap();
        let start = |(id, listener)| {
            let builder = Node::builder(id).functions(&functions).peers(Peers::from(row.clone()));
            builder.listener(listener).start().unwrap()
        };
        let nodes: Vec<Node> = (0..4).zip(listeners).map(start).collect();
        let all = || nodes[0].call(over(who, 0..4)).unwrap();
        assert_who(&replies_of(all()), &[0, 1, 2, 3], "");
        nodes[0].forget(2).unwrap();
        assert_cause(&cause_of(all()), 2, Stage::Link, "no address is known");
        nodes[0].learn(peer(&nodes[2])).unwrap();
        assert_who(&replies_of(all()), &[0, 1, 2, 3], "");
    });
}

#[test]
fn a_link_that_stands_stays_where_a_new_address_is_learned_and_the_next_goes_there() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let root = alone(0, link, &functions);
            let first = alone(1, link, &functions);
            root.learn(peer(&first)).unwrap();
            let both = || root.call(over(who, [0, 1])).unwrap();
            assert_who(&replies_of(both()), &[0, 1], "");
            // The new address has no listener yet.
            let listener = Listener::bind(&link.fresh_address(1)).unwrap();
            root.learn(Peer::new(1, listener.address().unwrap())).unwrap();
            assert_who(&replies_of(both()), &[0, 1], "");
            let events = root.events().unwrap();
            assert_eq!(events.recv_within(LIMIT).unwrap().kind, PeerEventKind::Up);
            first.shutdown(LIMIT);
            // Its link has ended.
            assert_ne!(events.recv_within(LIMIT).unwrap().kind, PeerEventKind::Up);
            let second =
                Node::builder(1).functions(&functions).link(link).listener(listener).start().unwrap();
            assert_who(&replies_of(both()), &[0, 1], "");
            drop(second);
        }
    });
}

/// A call waited for the whole time limit of a connection attempt, although the right address was known by then.
#[test]
fn an_attempt_at_a_former_address_is_given_up_and_its_calls_go_on() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let root = alone(0, LinkKind::Tcp, &functions);
        // The listener there sends nothing.
        let (silent, address) = listener();
        root.learn(Peer::new(1, address)).unwrap();
        let waits = root.call(over(who, [0, 1])).unwrap();
        let mut accepted = RawPeer::accept(&silent);
        accepted.expect_hello();
        let one = alone(1, LinkKind::Tcp, &functions);
        root.learn(peer(&one)).unwrap();
        assert_who(&replies_of(waits), &[0, 1], "");
        assert!(accepted.next().is_none(), "the former one is closed");
    });
}

#[test]
fn calls_through_a_peer_that_is_forgotten_fail_as_if_it_were_lost() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let (hold, held) = hold(&functions);
            let who = who(&functions);
            let root = alone(0, link, &functions);
            let nodes = [1, 2].map(|id| alone(id, link, &functions));
            nodes.iter().for_each(|node| root.learn(peer(node)).unwrap());
            let handle = root.call(over(hold, 0..3)).unwrap();
            let tokens: Vec<_> = (0..3).map(|_| held.recv_timeout(LIMIT).expect("all run")).collect();
            root.forget(2).unwrap();
            let failure = end_of(handle).unwrap_err().failure().expect("it got under way").clone();
            assert_cause(&failure.cause, 2, Stage::Link, "told to forget");
            // Their answers are not awaited any more.
            tokens.into_iter().for_each(|token| token.reply(Reply::default()));
            assert_who(&replies_of(root.call(over(who, 0..2)).unwrap()), &[0, 1], "");
            root.learn(peer(&nodes[1])).unwrap();
            assert_who(&replies_of(root.call(over(who, 0..3)).unwrap()), &[0, 1, 2], "");
        }
    });
}

#[test]
fn a_parent_that_is_forgotten_loses_its_calls_here() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let root = alone(0, LinkKind::Unix, &functions);
        let one = alone(1, LinkKind::Unix, &functions);
        root.learn(peer(&one)).unwrap();
        let handle = root.call(over(hold, 0..2)).unwrap();
        let tokens = [0, 1].map(|_| held.recv_timeout(LIMIT).expect("both run"));
        // Id 0 is not a peer of it: it never learned id 0.
        one.forget(0).unwrap();
        let cause = cause_of(handle);
        assert_cause(&cause, 1, Stage::Link, "id 1 was told to forget id 0");
        // No call is left that its shutdown could wait for.
        one.shutdown(4 * LIMIT);
        drop(tokens);
    });
}

/// Frames sent to a peer before it is forgotten reach it, followed by the goodbye.
#[test]
fn a_peer_is_told_that_it_is_forgotten_behind_what_was_sent_before() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let mut stranger = RawPeer::greet(&one, 7, EARLY, 1);
        stranger.request(call(7, 1), who, &super::common::ids("1"));
        stranger.expect_response(call(7, 1));
        one.forget(7).unwrap();
        let said = stranger.expect_goodbye(chained_gpc::wire::head::GoodbyeReason::LinkClosed);
        assert_eq!(said, "id 1 was told to forget id 7");
        assert!(stranger.next().is_none());
        // Forgetting is not a ban.
        let mut again = RawPeer::greet(&one, 7, EARLY, 2);
        again.request(call(7, 2), who, &super::common::ids("1"));
        again.expect_response(call(7, 2));
    });
}

/// The links of an id that was learned again were counted from one. If the other side had not seen the end of the last
/// link, it took the new one for an old one.
#[test]
fn links_are_counted_on_when_a_peer_is_learned_again() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let root = node(0, &functions, []);
        let (listener, address) = listener();
        let mut standing = Vec::new();
        for generation in 1..=3 {
            root.learn(Peer::new(1, address.clone())).unwrap();
            let handle = root.call(over(who, [0, 1])).unwrap();
            let mut peer = RawPeer::accept(&listener);
            let hello = peer.expect_hello();
            assert_eq!(hello.generation, generation);
            peer.hello(1, 0, EARLY, generation);
            let request = peer.expect_request();
            peer.reply(request.call, b"there");
            assert_eq!(replies_of(handle)[1].data, "there");
            root.forget(1).unwrap();
            // It does not read the end of this one.
            standing.push(peer);
        }
    });
}

#[test]
fn threads_learn_and_call_at_the_same_time() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let root = alone(0, LinkKind::Unix, &functions);
        let nodes: Vec<Node> = (1..=8).map(|id| alone(id, LinkKind::Unix, &functions)).collect();
        thread::scope(|scope| {
            for node in &nodes {
                let root = &root;
                scope.spawn(move || {
                    for _ in 0..5 {
                        root.learn(peer(node)).unwrap();
                        let replies = replies_of(root.call(over(who, [0, node.id()])).unwrap());
                        assert_who(&replies, &[0, node.id()], "");
                        root.forget(node.id()).unwrap();
                    }
                    root.learn(peer(node)).unwrap();
                });
            }
        });
        assert_eq!(replies_of(root.call(over(who, 0..9)).unwrap()).len(), 9);
    });
}

#[test]
fn a_polled_node_learns_and_forgets_in_the_order_of_its_calls() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let mut root = Node::builder(0).functions(&functions).link(link).polled().unwrap();
            let one = alone(1, link, &functions);
            root.learn(peer(&one)).unwrap();
            root.wait_for_peers(0..2, LIMIT).unwrap();
            let [first, second, third] = [(); 3].map(|()| {
                let handle = root.call(over(who, [0, 1])).unwrap();
                root.forget(1).unwrap();
                root.learn(peer(&one)).unwrap();
                handle
            });
            root.forget(1).unwrap();
            let unknown = root.call(over(who, [0, 1])).unwrap();
            // Each was in flight when its peer was forgotten.
            for handle in [first, second, third] {
                let cause = root.wait(handle).unwrap_err().failure().unwrap().cause.clone();
                assert_cause(&cause, 1, Stage::Link, "told to forget");
            }
            let cause = root.wait(unknown).unwrap_err().failure().unwrap().cause.clone();
            assert_cause(&cause, 1, Stage::Link, "no address is known");
            root.learn(peer(&one)).unwrap();
            let handle = root.call(over(who, [0, 1])).unwrap();
            assert!(root.wait(handle).unwrap().is_complete());
            assert_eq!(
                root.learn(Peer::new(0, one.address().unwrap().clone())),
                Err(MembershipError::Own(0))
            );
        }
    });
}

#[test]
fn the_commands_of_a_polled_node_have_a_bound() {
    let functions = Functions::new();
    let mut root = Node::builder(0).functions(&functions).polled().unwrap();
    let taken = (0..10_000).take_while(|_| root.forget(1).is_ok()).count();
    assert_eq!((taken, root.forget(1)), (4096, Err(MembershipError::Busy)));
    assert!(matches!(root.events(), Err(MembershipError::Busy)));
    root.progress(Duration::ZERO).unwrap();
    assert_eq!(root.forget(1), Ok(()));
}

#[test]
fn a_node_is_no_peer_of_its_own() {
    let functions = Functions::new();
    let one = alone(1, LinkKind::Unix, &functions);
    assert_eq!(one.learn(peer(&one)), Err(MembershipError::Own(1)));
    assert_eq!(one.forget(1), Err(MembershipError::Own(1)));
    assert_eq!(one.forget(2), Ok(()), "nobody knows it");
}
