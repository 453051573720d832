//! Polled nodes in foreign event loops: their descriptor is readable exactly when there is work of any kind. A node
//! with a budget keeps to it and loses nothing.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use chained_gpc::link::Event;
use chained_gpc::runtime::{Address, Listener, MembershipError};
use chained_gpc::{
    Call, CallError, CallHandle, FuncHandle, Functions, LinkKind, Node, Outcome, Peer, PolledNode, Prepared,
    Reply, Tree, Wait,
};
use gpc_test_support::nodes::polled_with;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use super::common::{LIMIT, LINKS, assert_who, hold, ids, limited, noise, who};
use super::raw::{EARLY, RawPeer, call};

/// The same limit for the system.
const SYSTEM_LIMIT: Timespec = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };

/// Whether the descriptor is readable now.
fn is_readable(node: &PolledNode) -> bool {
    poll(&mut [PollFd::new(node, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
        .expect("it works")
        > 0
}

/// Waits until the descriptor is readable.
fn wait_readable(node: &PolledNode) {
    assert_eq!(
        poll(&mut [PollFd::new(node, PollFlags::IN)], Some(&SYSTEM_LIMIT)).expect("it works"),
        1,
        "a wake-up is lost"
    );
}

/// Drives a node until there is nothing to do and it may sleep.
fn settle(node: &mut PolledNode) {
    while node.prepare_wait().expect("the poll works") == Prepared::Ready || is_readable(node) {
        node.progress(Duration::ZERO).expect("the poll works");
    }
}

/// The outcome of a call that must succeed, if it has ended.
fn end(handle: &mut CallHandle) -> Option<Outcome> {
    handle.test().map(|end| end.unwrap_or_else(|error| panic!("the call is to go well, but: {error}")))
}

/// `n` nodes that know each other.
fn nodes(n: u32, link: LinkKind, wait: Wait, functions: &Functions) -> Vec<PolledNode> {
    polled_with(n, link, functions, |builder| builder.wait(wait))
}

/// Drives nodes by their descriptors alone until a call has ended; if none has work, the system reports which one gets
/// some.
fn drive(nodes: &mut [PolledNode], mut handle: CallHandle) -> Outcome {
    loop {
        for node in nodes.iter_mut() {
            while node.prepare_wait().expect("the poll works") == Prepared::Ready {
                node.progress(Duration::ZERO).expect("the poll works");
            }
        }
        if let Some(outcome) = end(&mut handle) {
            return outcome;
        }
        let mut polled: Vec<PollFd<'_>> = nodes.iter().map(|node| PollFd::new(node, PollFlags::IN)).collect();
        assert!(poll(&mut polled, Some(&SYSTEM_LIMIT)).expect("it works") > 0, "a wake-up is lost");
        let readable: Vec<bool> = polled.iter().map(|node| !node.revents().is_empty()).collect();
        for (node, _) in nodes.iter_mut().zip(readable).filter(|(_, readable)| *readable) {
            node.progress(Duration::ZERO).expect("the poll works");
        }
    }
}

#[test]
fn nodes_are_driven_by_their_descriptors_alone() {
    limited(|| {
        for (link, wait) in LINKS.into_iter().flat_map(|link| [(link, Wait::Block), (link, Wait::Adaptive)]) {
            let functions = Functions::new();
            let who = who(&functions);
            let echo = functions.func("echo", |request, reply| {
                reply.data = request.data().to_vec();
                Ok(())
            });
            let echo = echo.unwrap();
            let mut nodes = nodes(4, link, wait, &functions);
            for _ in 0..50 {
                let handle = nodes[0].call(Call::new(who).ids(0..4).tree(Tree::Chain)).unwrap();
                assert_who(&drive(&mut nodes, handle).replies().unwrap(), &[0, 1, 2, 3], "");
            }
            // More than sockets and rings hold: the writer must learn of free room.
            let data = noise(3 << 20, 1);
            let handle = nodes[3].call(Call::new(echo).ids(0..4).data(data.clone()).forward_first()).unwrap();
            let replies = drive(&mut nodes, handle).replies().unwrap();
            assert!(replies.len() == 4 && replies.iter().all(|reply| reply.data == data));
        }
    });
}

/// Runs a node until `done`, in a loop around `wait`, which sleeps until its descriptor is readable.
fn run(node: &mut PolledNode, mut wait: impl FnMut(&PolledNode), mut done: impl FnMut() -> bool) {
    while !done() {
        match node.prepare_wait().expect("the poll works") {
            Prepared::Ready => {}
            Prepared::MaySleep => wait(node),
        }
        node.progress(Duration::ZERO).expect("the poll works");
    }
}

/// Waits as tokio does, with an edge-triggered epoll descriptor.
fn edge_triggered(node: &PolledNode) -> impl FnMut(&PolledNode) + use<> {
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).expect("it works");
    epoll::add(
        &outer,
        node.as_fd(),
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN | epoll::EventFlags::ET,
    )
    .expect("it works");
    move |_| {
        let mut events = [const {
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }
        }; 4];
        let count = epoll::wait(&outer, &mut events, Some(&SYSTEM_LIMIT)).expect("it works");
        assert!(count > 0, "a wake-up is lost");
    }
}

/// Two threads wake each other for every message, so that every race between them can happen.
#[test]
fn no_wake_up_is_lost_between_two_loops() {
    limited(|| {
        for (link, edges) in LINKS.into_iter().flat_map(|link| [(link, false), (link, true)]) {
            let functions = Functions::new();
            let nothing = functions.func("nothing", |_, _| Ok(())).unwrap();
            let mut nodes = nodes(2, link, Wait::Block, &functions);
            let mut below = nodes.pop().unwrap();
            let mut root = nodes.pop().unwrap();
            let over = Arc::new(AtomicBool::new(false));
            let ends = over.clone();
            let serving = thread::spawn(move || match edges {
                true => {
                    let wait = edge_triggered(&below);
                    run(&mut below, wait, || ends.load(Ordering::SeqCst));
                }
                false => run(&mut below, wait_readable, || ends.load(Ordering::SeqCst)),
            });
            for round in 0..2000 {
                // The last one wakes the other loop, which then sees the end.
                over.store(round == 1999, Ordering::SeqCst);
                let mut handle = root.call(Call::new(nothing).ids(0..2)).unwrap();
                let mut outcome = None;
                let mut ended = || {
                    outcome = outcome.take().or_else(|| handle.test());
                    outcome.is_some() || over.load(Ordering::SeqCst)
                };
                run(&mut root, wait_readable, &mut ended);
            }
            root.shutdown(Duration::ZERO).unwrap();
            serving.join().unwrap();
        }
    });
}

#[test]
fn a_node_without_anything_to_do_is_not_readable() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let who = who(&functions);
            let mut nodes = nodes(2, link, Wait::Block, &functions);
            let handle = nodes[0].call(Call::new(who).ids(0..2)).unwrap();
            assert_who(&drive(&mut nodes, handle).replies().unwrap(), &[0, 1], "");
            for node in &mut nodes {
                settle(node);
                for _ in 0..3 {
                    assert_eq!(node.prepare_wait().unwrap(), Prepared::MaySleep);
                    assert!(!is_readable(node), "it would have its loop turn for ever");
                }
                assert_eq!(node.progress(Duration::ZERO).unwrap(), 0);
            }
        }
    });
}

#[test]
fn a_message_makes_a_node_readable() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let who = who(&functions);
            let mut nodes = nodes(2, link, Wait::Block, &functions);
            let handle = nodes[0].call(Call::new(who).ids(0..2)).unwrap();
            drive(&mut nodes, handle);
            nodes.iter_mut().for_each(settle);
            let mut handle = nodes[0].call(Call::new(who).ids(0..2)).unwrap();
            assert!(nodes[0].progress(Duration::ZERO).unwrap() >= 1, "it has started the call");
            wait_readable(&nodes[1]);
            assert!(nodes[1].progress(Duration::ZERO).unwrap() >= 1, "it has executed it");
            settle(&mut nodes[0]);
            assert!(end(&mut handle).is_some());
        }
    });
}

/// A loop prepared its wait, and had other work in place of the wait.
#[test]
fn a_cancelled_wait_costs_senders_no_wake_up_and_loses_none() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let who = who(&functions);
            let mut nodes = nodes(2, link, Wait::Block, &functions);
            let handle = nodes[0].call(Call::new(who).ids(0..2)).unwrap();
            drive(&mut nodes, handle);
            nodes.iter_mut().for_each(settle);
            let caller = nodes[1].caller();
            let call = || caller.call(Call::new(who).ids([1])).unwrap();
            // Without a wait, a call of another thread makes no system call.
            assert_eq!(nodes[1].prepare_wait().unwrap(), Prepared::MaySleep);
            nodes[1].cancel_wait();
            let mut handle = call();
            assert!(!is_readable(&nodes[1]));
            assert_eq!(nodes[1].prepare_wait().unwrap(), Prepared::Ready);
            settle(&mut nodes[1]);
            assert!(end(&mut handle).is_some());
            // A call that came before is still there.
            assert_eq!(nodes[1].prepare_wait().unwrap(), Prepared::MaySleep);
            let mut handle = call();
            nodes[1].cancel_wait();
            assert!(is_readable(&nodes[1]));
            settle(&mut nodes[1]);
            assert!(end(&mut handle).is_some());
            // A message that comes between is seen before the next wait.
            assert_eq!(nodes[1].prepare_wait().unwrap(), Prepared::MaySleep);
            nodes[1].cancel_wait();
            nodes[1].cancel_wait();
            let mut handle = nodes[0].call(Call::new(who).ids(0..2)).unwrap();
            nodes[0].progress(Duration::ZERO).unwrap();
            if nodes[1].prepare_wait().unwrap() == Prepared::MaySleep {
                wait_readable(&nodes[1]);
            }
            settle(&mut nodes[1]);
            settle(&mut nodes[0]);
            assert!(end(&mut handle).is_some(), "{link:?}");
        }
    });
}

#[test]
fn a_connection_makes_a_node_readable() {
    limited(|| {
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let Some(Address::Tcp(at)) = listener.address().ok() else { panic!("it listens on TCP") };
        let mut node = Node::builder(1).listener(listener).polled().unwrap();
        settle(&mut node);
        let _connected = TcpStream::connect(at).unwrap();
        wait_readable(&node);
    });
}

#[test]
fn another_threads_deferred_reply_and_cancel_make_a_node_readable() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(hold).ids([0])).unwrap();
        settle(&mut node);
        let token = held.try_recv().expect("the func has run");
        let answering =
            thread::spawn(move || token.reply(Reply { data: b"woken".to_vec(), ..Default::default() }));
        wait_readable(&node);
        assert_eq!(node.progress(Duration::ZERO).unwrap(), 1);
        assert_eq!(end(&mut handle).expect("it has ended").replies().unwrap()[0].data, "woken");
        answering.join().unwrap();

        let handle = node.call(Call::new(hold).ids([0])).unwrap();
        settle(&mut node);
        let cancelling = thread::spawn(move || {
            handle.cancel();
            handle
        });
        wait_readable(&node);
        settle(&mut node);
        assert!(cancelling.join().unwrap().test().is_some_and(|end| end.is_err()));
    });
}

#[test]
fn a_call_that_is_started_before_the_wait_makes_a_node_readable() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        settle(&mut node);
        let mut handle = node.call(Call::new(who).ids([0])).unwrap();
        assert_eq!(node.next_deadline(), Some(Duration::ZERO));
        assert!(is_readable(&node));
        assert_eq!(node.prepare_wait().unwrap(), Prepared::Ready);
        assert_eq!(node.progress(Duration::ZERO).unwrap(), 1);
        assert!(end(&mut handle).is_some());
    });
}

/// A node whose driver slept learned of a change of its peers with the next message alone.
#[test]
fn a_change_of_peers_that_is_made_before_the_wait_makes_a_node_readable() {
    limited(|| {
        let mut node = Node::builder(0).polled().unwrap();
        let peer = || Peer::new(1, "unix:@nobody".parse().unwrap());
        let changes: [&dyn Fn(&PolledNode); 5] = [
            &|node| node.learn(peer()).unwrap(),
            &|node| node.forget(1).unwrap(),
            &|node| drop(node.events().unwrap()),
            &|node| node.announce(peer()).unwrap().detach(),
            &|node| node.withdraw(1).unwrap().detach(),
        ];
        for change in changes {
            settle(&mut node);
            assert!(!is_readable(&node) && node.next_deadline() != Some(Duration::ZERO));
            change(&node);
            assert!(is_readable(&node));
            assert_eq!(node.next_deadline(), Some(Duration::ZERO));
            assert_eq!(node.prepare_wait().unwrap(), Prepared::Ready);
        }
    });
}

#[test]
fn changes_of_peers_are_bounded_as_calls_are() {
    let functions = Functions::new();
    let who = who(&functions);
    let mut node = Node::builder(0).functions(&functions).polled().unwrap();
    let change = |node: &PolledNode| node.forget(1);
    let queued = (0..100_000).take_while(|_| change(&node).is_ok()).count();
    assert_eq!((queued, change(&node)), (4096, Err(MembershipError::Busy)));
    assert_eq!(node.call(Call::new(who).ids([0])).unwrap_err(), CallError::Busy);
    // What a turn has taken and not begun still counts.
    node.progress_at_most(1).unwrap();
    let more = (0..100_000).take_while(|_| change(&node).is_ok()).count();
    assert!((1..10).contains(&more), "{more}");
}

#[test]
fn time_makes_a_node_readable() {
    limited(|| {
        let functions = Functions::new();
        let (hold, _held) = hold(&functions);
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        settle(&mut node);
        assert_eq!(node.next_deadline(), None);
        let limit = Duration::from_millis(50);
        let mut handle = node.call(Call::new(hold).ids([0]).limit(limit)).unwrap();
        node.progress(Duration::ZERO).unwrap();
        assert!(node.next_deadline().is_some_and(|left| left <= limit));
        run(&mut node, wait_readable, || handle.test().is_some_and(|end| end.is_err()));
    });
}

/// Requests that have arrived together are executed a few at a time, each once, and a peer that sends many does not
/// block others.
#[test]
fn a_budget_is_kept_and_nothing_is_lost() {
    limited(|| {
        let functions = Functions::new();
        let executed = Arc::new(AtomicUsize::new(0));
        let count = executed.clone();
        let counts = functions.func("counts", move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let counts: FuncHandle = counts.unwrap();
        let listener = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
        let Some(Address::Tcp(at)) = listener.address().ok() else { panic!("it listens on TCP") };
        let mut node = Node::builder(1).functions(&functions).listener(listener).polled().unwrap();
        let mut peers = [0, 2].map(|id| {
            let mut peer = RawPeer::accepted(TcpStream::connect(at).unwrap());
            peer.hello(id, 1, EARLY, 1);
            wait_readable(&node);
            settle(&mut node);
            peer.expect_hello();
            peer
        });
        for sequence in 0..200 {
            peers[0].request(call(0, sequence), counts, &ids("1"));
        }
        peers[1].request(call(2, 0), counts, &ids("1"));
        let budget = 8;
        let (mut turns, mut most, mut other) = (0, 0, None);
        while executed.load(Ordering::SeqCst) < 201 {
            if node.prepare_wait().unwrap() == Prepared::MaySleep {
                wait_readable(&node);
            }
            let before = executed.load(Ordering::SeqCst);
            let done = node.progress_at_most(budget).unwrap();
            turns += 1;
            most = most.max(done).max(executed.load(Ordering::SeqCst) - before);
            if peers[1].has_something() {
                other.get_or_insert(turns);
            }
        }
        // The contents of 1 KiB of requests may be added.
        assert!(most <= budget + 16, "{most} at a time");
        assert!(turns >= 201 / (budget + 16), "{turns} turns");
        assert!(other.is_some_and(|turn| turn <= 10), "another peer waits for {other:?} turns of {turns}");
        settle(&mut node);
        let answers = std::iter::repeat_with(|| peers[0].next()).take_while(Option::is_some);
        let answered = answers.filter(|event| matches!(event, Some(Event::Response(_)))).take(200).count();
        assert_eq!((answered, executed.load(Ordering::SeqCst)), (200, 201));
    });
}

#[test]
fn calls_and_other_threads_have_their_share_of_a_budget() {
    limited(|| {
        let functions = Functions::new();
        let (who, (hold, held)) = (who(&functions), hold(&functions));
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let mut handle = node.call(Call::new(hold).ids([0])).unwrap();
        settle(&mut node);
        let handles: Vec<CallHandle> =
            (0..100).map(|_| node.call(Call::new(who).ids([0])).unwrap()).collect();
        held.try_recv().expect("the func has run").reply(Reply::default());
        assert!((1..=4).contains(&node.progress_at_most(3).unwrap()));
        assert!(end(&mut handle).is_some(), "a reply of another thread waits behind calls");
        let mut turns = 1;
        while node.prepare_wait().unwrap() == Prepared::Ready {
            assert!((1..=4).contains(&node.progress_at_most(3).unwrap()));
            turns += 1;
        }
        assert!(turns >= 100 / 4, "{turns} turns");
        for mut handle in handles {
            assert!(end(&mut handle).is_some());
        }
    });
}
