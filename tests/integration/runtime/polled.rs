//! Nodes without threads, driven by the application.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::link::Event;
use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::{
    Call, CallError, CallHandle, FuncHandle, Functions, LinkKind, Node, PolledNode, Reply, Stage, Wait,
};
use gpc_test_support::nodes::{assert_polled_idle, drive, polled};
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, assert_who, hold, ids, limited, noise, who};
use super::raw::{EARLY, RawPeer, SHORT, call, listener};

#[test]
fn nodes_in_one_thread_drive_each_other() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let who = who(&functions);
            let echo = functions.func("echo", |request, reply| {
                reply.data = request.data().to_vec();
                Ok(())
            });
            let mut nodes = polled(4, link, &functions);
            assert_eq!((nodes[2].id(), nodes[2].address().is_some()), (2, link != LinkKind::Memory));
            for root in [0, 3] {
                let handle = nodes[root].call(Call::new(who).ids(0..4).tree(Tree::Chain)).unwrap();
                assert_who(&drive(&mut nodes, handle).unwrap().replies().unwrap(), &[0, 1, 2, 3], "");
            }
            let data = noise(3 << 20, 1);
            let call = Call::new(echo.unwrap()).ids(0..4).data(data.clone()).forward_first();
            let handle = nodes[1].call(call).unwrap();
            let replies = drive(&mut nodes, handle).unwrap().replies().unwrap();
            assert!(replies.len() == 4 && replies.iter().all(|reply| reply.data == data));
            assert_polled_idle(&mut nodes);
        }
    });
}

#[test]
fn a_handle_of_a_polled_node_cannot_be_waited_for_without_driving_it() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        assert_eq!(node.call(Call::new(who).ids([0])).unwrap().wait(), Err(CallError::NotDriven));
        let mut handle = node.call(Call::new(who).ids([0])).unwrap();
        assert_eq!(handle.wait_for(LIMIT), Some(Err(CallError::NotDriven)));
        assert_who(&node.wait(handle).unwrap().replies().unwrap(), &[0], "");
        let mut driven = node.call(Call::new(who).ids([0])).unwrap();
        while driven.test().is_none() {
            node.progress(Duration::ZERO).unwrap();
        }
        assert_eq!(driven.wait(), Err(CallError::Taken));
    });
}

#[test]
fn a_polled_root_calls_nodes_that_have_threads() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let peers: Peers = [(1, listener.address().unwrap())].into_iter().collect();
        let threaded = Node::builder(1).functions(&functions).listener(listener).start().unwrap();
        let mut root = Node::builder(0).functions(&functions).peers(peers).polled().unwrap();
        let handle = root.call(Call::new(who).ids(0..2)).unwrap();
        assert_who(&root.wait(handle).unwrap().replies().unwrap(), &[0, 1], "");
        root.shutdown(Duration::ZERO).unwrap();
        threaded.shutdown(LIMIT);
    });
}

/// A caller kept 64 calls in flight and took their outcomes one by one, and all 64 were sent together. The children
/// were idle while it took outcomes, and it was idle while they worked.
#[test]
fn calls_leave_while_the_outcomes_of_others_are_taken() {
    limited(|| {
        let functions = Functions::new();
        let nothing = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
        let (listener, address) = listener();
        let mut root = Node::builder(0)
            .functions(&functions)
            .peers([(1, address)].into_iter().collect())
            .polled()
            .unwrap();
        let (came, comes) = mpsc::channel();
        let peer = thread::spawn(move || {
            let mut peer = RawPeer::answer(&listener, EARLY);
            for count in 0.. {
                let Some(Event::Request(request)) = peer.next() else { return };
                match count {
                    0..3 => peer.reply(request.call, b""),
                    _ => came.send(request.call).unwrap(),
                }
            }
        });
        let call = Call::new(nothing).ids(0..2);
        // The first call over a list of ids takes the general path.
        let first = root.call(call.clone()).unwrap();
        assert!(root.wait(first).is_ok());
        let [second, third] = [0, 1].map(|_| root.call(call.clone()).unwrap());
        assert!(root.wait(third).is_ok());
        let flying: Vec<CallHandle> = (0..16).map(|_| root.call(call.clone()).unwrap()).collect();
        assert!(root.wait(second).is_ok(), "it has ended before the third");
        // The root is not driven any more.
        let calls: Vec<_> = flying.iter().map(|_| comes.recv_timeout(LIMIT).expect("it has left")).collect();
        assert!(calls.windows(2).all(|pair| pair[0].sequence < pair[1].sequence), "{calls:?}");
        root.shutdown(Duration::ZERO).unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn a_polled_node_is_driven_no_longer_than_its_caller_wants() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(hold).ids([0])).unwrap();
        for limit in [Duration::ZERO, Duration::from_millis(1), SHORT] {
            let begun = Instant::now();
            assert_eq!(node.wait_for(&mut handle, limit), None);
            assert!(begun.elapsed() >= limit);
        }
        held.recv_timeout(LIMIT).expect("func runs").reply(Reply { data: vec![7], ..Default::default() });
        let outcome = node.wait_for(&mut handle, LIMIT).expect("it has ended").unwrap();
        assert_eq!(outcome.replies().unwrap()[0].data[..], [7]);
        assert_eq!(node.wait_for(&mut handle, LIMIT), Some(Err(CallError::Taken)));
    });
}

/// However often it is driven in between: calls that wait to be started were once counted in one of two places.
#[test]
fn a_polled_node_takes_no_more_calls_than_its_queue_holds() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let fill = |node: &PolledNode| {
            (0..10_000).take_while(|_| node.call(Call::new(who).ids([0])).is_ok()).count()
        };
        assert_eq!(fill(&node), 4096);
        node.progress(Duration::ZERO).unwrap();
        let started = fill(&node);
        assert!((1..4096).contains(&started), "{started} calls have left their room to others");
        node.progress(Duration::ZERO).unwrap();
        assert_eq!(fill(&node), started);
    });
}

#[test]
fn a_deferred_reply_is_taken_while_many_calls_wait_to_be_started() {
    limited(|| {
        let functions = Functions::new();
        let (who, (hold, held)) = (who(&functions), hold(&functions));
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(hold).ids([0])).unwrap();
        node.progress(Duration::ZERO).unwrap();
        held.recv_timeout(LIMIT).expect("func runs").reply(Reply::default());
        while node.call(Call::new(who).ids([0])).is_ok() {}
        node.progress(Duration::ZERO).unwrap();
        assert!(handle.test().is_some(), "those that wait are more than a turn starts");
    });
}

/// Polling and then sleeping together wait only as long as the limit: each once took all of it.
#[test]
fn a_polled_node_that_looks_does_not_wait_twice() {
    limited(|| {
        let functions = Functions::new();
        let hold = functions.deferring("hold", |_, token| std::mem::forget(token)).unwrap();
        let mut node = Node::builder(0).functions(&functions).wait(Wait::Spin(LIMIT)).polled().unwrap();
        let (mut handle, limit) = (node.call(Call::new(hold).ids([0])).unwrap(), Duration::from_secs(2));
        let begun = Instant::now();
        assert_eq!(node.wait_for(&mut handle, limit), None);
        // A machine would have to stand still for as long as the whole wait.
        assert!(begun.elapsed() < limit * 2, "{:?}", begun.elapsed());
    });
}

/// A node that found something at every read of its only link asked the system for nothing else, and a peer that
/// connected meanwhile waited forever.
#[test]
fn a_peer_that_always_has_something_keeps_nobody_else_out() {
    limited(|| {
        let functions = Functions::new();
        let nothing = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let Some(Address::Tcp(at)) = listener.address().ok() else { panic!("it listens on TCP") };
        let builder = Node::builder(1).functions(&functions).listener(listener).wait(Wait::Spin(LIMIT));
        let mut node = builder.polled().unwrap();
        let mut busy = RawPeer::accepted(TcpStream::connect(at).unwrap());
        busy.hello(0, 1, EARLY, 1);
        // The hello has to arrive, be accepted and be answered.
        for _ in 0..10 {
            node.progress(Duration::from_millis(10)).unwrap();
        }
        busy.expect_hello();
        let mut other = None;
        // Each turn finds a request when it first polls; from the second turn on it polls at once. The limit is for a
        // node that never calls the system.
        for sequence in 1..200_000 {
            busy.request(call(0, sequence), nothing, &ids("1"));
            node.progress(LIMIT).unwrap();
            let answered = |event: &Option<Event>| !matches!(event, Some(Event::Credit(_)));
            let answer = std::iter::repeat_with(|| busy.next()).find(answered);
            assert!(matches!(answer, Some(Some(Event::Response(_)))), "{answer:?}");
            if sequence == 100 {
                let mut connecting = RawPeer::accepted(TcpStream::connect(at).unwrap());
                connecting.hello(2, 1, EARLY, 1);
                other = Some(connecting);
            }
            if other.as_ref().is_some_and(RawPeer::has_something) {
                return;
            }
        }
        panic!("the other was never heard");
    });
}

#[test]
fn a_deferred_reply_wakes_a_polled_node() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(hold).ids([0])).unwrap();
        node.progress(Duration::ZERO).unwrap();
        assert_eq!(handle.test(), None);
        let token = held.try_recv().expect("the func has run inside progress()");
        let answer =
            thread::spawn(move || token.reply(Reply { data: b"woken".to_vec(), ..Default::default() }));
        let replies = node.wait(handle).unwrap().replies().unwrap();
        assert_eq!(replies[0].data, "woken");
        answer.join().unwrap();
    });
}

/// Calls beyond the room of the queue waited for a minute, in the only thread that could have made room.
#[test]
fn a_polled_node_says_at_once_that_its_queue_is_full() {
    limited(|| {
        let functions = Functions::new();
        let who: FuncHandle = who(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut queued = Vec::new();
        let refused = loop {
            match node.call(Call::new(who).ids([0]).limit(4 * LIMIT)) {
                Ok(handle) => queued.push(handle),
                Err(error) => break error,
            }
            assert!(queued.len() < 100_000, "the queue has no bound");
        };
        assert_eq!(refused, CallError::Busy);
        for handle in queued {
            assert_who(&node.wait(handle).unwrap().replies().unwrap(), &[0], "");
        }
    });
}

#[test]
fn a_polled_node_ends_in_order_with_any_limit() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(who).ids([0])).unwrap();
        node.shutdown(Duration::MAX).unwrap();
        let end = handle.test().expect("it has ended").expect("and well");
        assert_who(&end.replies().unwrap(), &[0], "");
    });
}

#[test]
fn calls_of_a_polled_node_that_is_dropped_have_ended() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(who).ids([0])).unwrap();
        drop(node);
        assert_eq!(handle.test(), Some(Err(CallError::Ended)));
    });
}

/// A peer answered, and closed the connection. The node was about to write to it, found that it could not, and closed
/// its own end with the answer still unread. A call failed that had been answered.
#[test]
fn an_answer_that_came_before_the_end_of_a_link_counts() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (meet, met) = mpsc::channel::<RawPeer>();
        let (answers, answered) = mpsc::channel();
        let (met, answered) = (Mutex::new(met), Mutex::new(answered));
        // It runs within a turn of the node: after it has checked the sockets, before it writes.
        let answer = functions.func("answer and go", move |_, _| {
            let mut peer: RawPeer = met.lock().expect("one at a time").recv_timeout(LIMIT)?;
            peer.reply(answered.lock().expect("one at a time").recv_timeout(LIMIT)?, b"in time");
            Ok(())
        });
        let answer = answer.unwrap();
        let (listener, address) = listener();
        let peers = [(5, address)].into_iter().collect();
        let mut root = Node::builder(0).functions(&functions).peers(peers).polled().unwrap();
        let asked = || Call::new(who).ids(ids("5")).watch();
        let first = root.call(asked()).unwrap();
        let accepted = thread::spawn(move || {
            let mut peer = RawPeer::answer(&listener, EARLY);
            let call = peer.expect_request().call;
            (peer, call)
        });
        while !accepted.is_finished() {
            root.progress(Duration::ZERO).unwrap();
        }
        let (peer, call) = accepted.join().unwrap();
        // Bytes that the peer leaves unread make the system refuse the next write.
        let unread = root.call(asked()).unwrap();
        root.progress(Duration::ZERO).unwrap();
        let second = root.call(Call::new(answer).ids(ids("0,5"))).unwrap();
        meet.send(peer).unwrap();
        answers.send(call).unwrap();
        let replies = root.wait(first).expect("it was answered").replies().unwrap();
        assert_eq!(replies[0].data, "in time");
        for handle in [unread, second] {
            let end = root.wait(handle).unwrap_err();
            assert_eq!(end.failure().map(|failure| failure.cause.stage), Some(Stage::Link), "{end}");
        }
    });
}
