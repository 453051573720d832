//! How a node ends, and starts again.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use chained_gpc::runtime::{Listener, Peers};
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::{Call, CallError, CauseKind, Functions, LinkKind, LocalNodes, Node, Reply, Stage};

use super::common::{
    LIMIT, LISTENING, assert_cause, assert_who, cause_of, end_of, hold, ids, ids_of, limited, replies_of, who,
};
use super::raw::{EARLY, RawPeer, SHORT, call, node};

#[test]
fn calls_in_flight_are_completed_before_a_node_ends() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut nodes = LocalNodes::start(3, LinkKind::Tcp, &functions).unwrap();
        let handle = nodes.root().call(Call::new(hold).ids(0..3).tree(gpc_trees::Tree::Flat)).unwrap();
        let tokens: Vec<_> = (0..3).map(|_| held.recv_timeout(LIMIT).expect("all run")).collect();
        let (root, leaf) = (nodes.take(0), nodes.take(2));
        let endings = [root, leaf].map(|node| thread::spawn(move || node.shutdown(LIMIT)));
        tokens.into_iter().for_each(|token| token.reply(Reply::default()));
        assert_eq!(ids_of(&replies_of(handle)), [0, 1, 2]);
        endings.into_iter().for_each(|ending| ending.join().unwrap());
        assert_eq!((nodes.len(), nodes.node(1).id()), (1, 1));
    });
}

#[test]
fn a_node_with_a_call_in_flight_does_not_end_before_the_call_does() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
        let handle = nodes.root().call(Call::new(hold).ids([0]).limit(SHORT)).unwrap();
        let token = held.recv_timeout(LIMIT).expect("it runs");
        nodes.take(0).shutdown(LIMIT);
        assert_cause(&cause_of(handle), 0, Stage::Func, "before the deferred reply");
        drop(token);
    });
}

#[test]
fn calls_that_outlast_the_limit_have_ended_when_the_node_has() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        for limit in [Some(Duration::ZERO), Some(Duration::from_millis(50)), None] {
            let mut nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
            let handle = nodes.root().call(Call::new(hold).ids(0..2)).unwrap();
            let token = held.recv_timeout(LIMIT).expect("it runs");
            match limit {
                Some(limit) => nodes.take(0).shutdown(limit),
                None => drop(nodes.take(0)),
            }
            assert_eq!(end_of(handle), Err(CallError::Ended));
            token.reply(Reply::default());
        }
    });
}

#[test]
fn peers_are_told_goodbye_and_name_the_id_that_has_ended() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let handle = nodes.root().call(Call::new(hold).ids(0..3).tree(gpc_trees::Tree::Flat)).unwrap();
        let tokens: Vec<_> = (0..3).map(|_| held.recv_timeout(LIMIT).expect("all run")).collect();
        nodes.take(2).shutdown(Duration::ZERO);
        let failure = end_of(handle).unwrap_err().failure().expect("it got under way").clone();
        assert_cause(&failure.cause, 2, Stage::Link, "said goodbye: the node was shut down");
        drop(tokens);

        let one = node(7, &functions, []);
        let mut peer = RawPeer::greet(&one, 9, EARLY, 1);
        one.shutdown(LIMIT);
        assert_eq!(peer.expect_goodbye(GoodbyeReason::Shutdown), "the node was shut down");
        assert!(peer.next().is_none());
    });
}

#[test]
fn a_node_that_starts_again_at_its_address_serves_again() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let mut nodes = LocalNodes::start(4, link, &functions).unwrap();
            let peers: Peers = (0..4).map(|id| (id, nodes.node(id).address().unwrap().clone())).collect();
            let everyone =
                |nodes: &LocalNodes| nodes.root().call(Call::new(who).ids(ids("0,2,1,3"))).unwrap();
            let mut restarted: Option<Node> = None;
            for _ in 0..3 {
                assert_who(&replies_of(everyone(&nodes)), &[0, 2, 1, 3], "");
                let old = restarted.take().unwrap_or_else(|| nodes.take(2));
                let address = old.address().unwrap().clone();
                old.shutdown(LIMIT);
                let failure = end_of(everyone(&nodes)).unwrap_err();
                let cause = &failure.failure().expect("it got under way").cause;
                assert_eq!((cause.id, cause.stage), (2, Stage::Link), "{cause}");
                let listener = Listener::bind(&address).unwrap();
                let builder = Node::builder(2).functions(&functions).peers(peers.clone()).listener(listener);
                restarted = Some(builder.start().unwrap());
            }
            let two = restarted.expect("it was restarted");
            let back = two.call(Call::new(who).ids(ids("2,0,1,3"))).unwrap();
            assert_who(&replies_of(back), &[2, 0, 1, 3], "");
            nodes.shutdown(LIMIT);
            two.shutdown(LIMIT);
        }
    });
}

#[test]
fn requests_of_a_long_gone_parent_do_not_hold_a_node_up() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let one = node(1, &functions, []);
        let mut parent = RawPeer::greet(&one, 7, EARLY, 1);
        parent.request(call(7, 1), hold, &ids("1"));
        let token = held.recv_timeout(LIMIT).expect("it runs");
        drop(parent);
        // Its only call is forgotten as soon as the loss is seen: the shutdown need not use its whole limit.
        one.shutdown(4 * LIMIT);
        drop(token);
    });
}

/// The goodbye overtook a reply that was still in flight, and the call failed.
#[test]
fn a_long_reply_is_through_before_its_node_ends() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let (hold, held) = hold(&functions);
            let mut nodes = LocalNodes::start(2, link, &functions).unwrap();
            let handle = nodes.root().call(Call::new(hold).ids(0..2)).unwrap();
            let (mine, leafs) = (held.recv_timeout(LIMIT).unwrap(), held.recv_timeout(LIMIT).unwrap());
            mine.reply(Reply::default());
            leafs.reply(Reply { data: vec![7; 64 << 20], ..Default::default() });
            nodes.take(1).shutdown(LIMIT);
            let replies = replies_of(handle);
            assert_eq!(replies.iter().map(|reply| reply.data.len()).sum::<usize>(), 64 << 20, "{link:?}");
        }
    });
}

/// Only calls of the application itself were refused; those of peers could keep a node from ending.
#[test]
fn a_node_that_is_ending_takes_no_calls_of_peers() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let who = who(&functions);
        let mut nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
        let under_way = nodes.root().call(Call::new(hold).ids(0..2)).unwrap();
        let tokens = [held.recv_timeout(LIMIT).unwrap(), held.recv_timeout(LIMIT).unwrap()];
        let leaf = nodes.take(1);
        let ending = thread::spawn(move || leaf.shutdown(LIMIT));
        // It ends once it has taken the command; until then it serves.
        let refused = std::iter::repeat_with(|| nodes.root().call(Call::new(who).ids(0..2)).unwrap().wait())
            .find_map(Result::err)
            .unwrap();
        assert_cause(&refused.failure().unwrap().cause, 1, Stage::Setup, "shutting down");
        assert_eq!(refused.kind(), Some(CauseKind::ShuttingDown));
        tokens.into_iter().for_each(|token| token.reply(Reply::default()));
        assert_eq!(ids_of(&replies_of(under_way)), [0, 1]);
        ending.join().unwrap();
    });
}

/// A node that is all of its process: it serves as long as its control link is open.
#[test]
fn a_node_that_is_served_ends_with_its_keeper() {
    for link in LISTENING {
        limited(move || {
            let functions = Functions::new();
            let who = who(&functions);
            let (mut listeners, row) = link.listen(0..2).unwrap();
            let peers = Peers::from(row);
            let builder = |id| Node::builder(id).functions(&functions).peers(peers.clone());
            let (mut control_link, theirs) = UnixStream::pair().unwrap();
            let served = builder(1).listener(listeners.remove(1));
            let served = thread::spawn(move || served.serve(theirs));
            let root = builder(0).start().unwrap();
            let call = || root.call(Call::new(who).ids(0..2)).unwrap();
            assert_who(&replies_of(call()), &[0, 1], "");
            // Bytes do not end it.
            control_link.write_all(&[7; 3000]).unwrap();
            assert_who(&replies_of(call()), &[0, 1], "");
            drop(control_link);
            served.join().unwrap().unwrap();
            let cause = cause_of(call());
            assert_eq!((cause.id, cause.stage), (1, Stage::Link), "{cause}");
        });
    }
}

#[test]
fn a_node_whose_control_link_has_closed_before_ends_at_once() {
    limited(|| {
        let (control_link, theirs) = UnixStream::pair().unwrap();
        drop(control_link);
        Node::builder(0).serve(theirs).unwrap();
    });
}
