//! TCP links that die while idle: keepalive detects them, and unsent requests go out on the next link.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::chain::Heartbeat;
use crate::runtime::{CallError, FuncHandle, Outcome};
use crate::transport::ByteStream as _;

/// Two nodes that are linked over TCP.
fn linked(functions: &Functions, func: FuncHandle) -> [PolledNode; 2] {
    let mut nodes = pair(functions, LinkKind::Tcp);
    let mut handle = nodes[0].call(Call::new(func).ids(0..2)).unwrap();
    end(&mut nodes, &mut handle).unwrap();
    nodes
}

/// A function, and its number of executions.
fn counting(functions: &Functions) -> (FuncHandle, Arc<AtomicUsize>) {
    let executed = Arc::new(AtomicUsize::new(0));
    let count = executed.clone();
    let func = functions.func("count", move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    (func.unwrap(), executed)
}

/// How a call ends.
fn end(nodes: &mut [PolledNode; 2], handle: &mut CallHandle) -> Result<Outcome, CallError> {
    let mut ended = None;
    // More turns than any call takes, fewer than a hang.
    assert!((0..1_000_000).any(|_| {
        for node in nodes.iter_mut() {
            node.progress(Duration::ZERO).unwrap();
        }
        ended = handle.test();
        ended.is_some()
    }));
    ended.unwrap()
}

/// The only link of a node.
fn only_link(node: &EventLoop) -> LinkKey {
    let id = node.connections.links.peers_up()[0];
    node.connections.links.up(id).unwrap()
}

/// A link that died while idle (a NAT forgot it) failed the next call, 10 s later: keepalive was not set on either
/// side.
#[test]
fn keepalive_of_both_sides_of_a_tcp_link_follows_the_heartbeat() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let seconds = Duration::from_secs;
    let ms = Duration::from_millis;
    let settings = |dead_after| Some(Heartbeat::dead_after(dead_after));
    for (heartbeat, expected) in [
        (settings(seconds(10)), Some([seconds(10), seconds(2), seconds(20)])),
        (settings(ms(2500)), Some([seconds(3), seconds(1), seconds(6)])),
        (settings(ms(100)), Some([seconds(1), seconds(1), seconds(2)])),
        (settings(seconds(1 << 40)), Some([seconds(32_767), seconds(32_767), seconds(65_534)])),
        (None, None),
    ] {
        let mut nodes = pair_with(&functions, LinkKind::Tcp, |builder| builder.heartbeat(heartbeat));
        let mut handle = nodes[0].call(Call::new(func).ids(0..2)).unwrap();
        assert!(drive(&mut nodes, &mut handle), "the call hangs");
        for node in &mut nodes {
            let links = &mut node.event_loop_mut().connections;
            let key = links.links.up(links.links.peers_up()[0]).unwrap();
            let socket = links.links.table.get(key).unwrap().socket.descriptor().unwrap();
            let system = socket2::SockRef::from(&socket);
            let limit = system.tcp_user_timeout().unwrap();
            let set = system.keepalive().unwrap().then(|| {
                [
                    system.tcp_keepalive_time().unwrap(),
                    system.tcp_keepalive_interval().unwrap(),
                    limit.unwrap(),
                ]
            });
            assert_eq!(set, expected, "{heartbeat:?}");
            assert_eq!(limit.is_some(), expected.is_some());
        }
    }
}

/// The system closes a link whose peer reads nothing for long. An application that announced a pause of minutes lost
/// links with long replies.
#[test]
fn an_announced_pause_is_granted_by_the_system_too() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = linked(&functions, func);
    for (pause, expected) in [(300, 320), (0, 320), (100, 320), (600, 620)] {
        nodes[1].pause(Duration::from_secs(pause)).unwrap();
        let limit = |node: &EventLoop| {
            let link = node.connections.links.table.get(only_link(node)).unwrap();
            socket2::SockRef::from(&link.socket.descriptor().unwrap()).tcp_user_timeout().unwrap().unwrap()
        };
        // More turns than the announcement takes, fewer than a hang.
        let granted = (0..1_000_000).any(|_| {
            nodes[0].progress(Duration::ZERO).unwrap();
            limit(nodes[0].event_loop()) == Duration::from_secs(expected)
        });
        assert!(granted, "after a pause of {pause} s: {:?}", limit(nodes[0].event_loop()));
    }
}

/// The peer resets an idle link, and this side has not noticed yet. Returns the key of the link.
fn break_unnoticed(nodes: &mut [PolledNode; 2]) -> LinkKey {
    let other = nodes[1].event_loop_mut();
    let key = only_link(other);
    let socket = other.connections.links.table.get(key).unwrap().socket.descriptor().unwrap();
    // With a linger time of zero, the close resets the connection.
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    let now = other.now();
    other.connections.close(now, key, "the test breaks it");
    other.deliver_arrivals();
    let key = only_link(nodes[0].event_loop());
    // The system reports it without a turn of the node; the test limits the wait.
    while !nodes[0].event_loop().connections.links.table.get(key).unwrap().socket.is_ended() {
        std::thread::yield_now();
    }
    key
}

/// A call over a link that had died while idle failed, although no byte of its request had left: the write reported the
/// error, and the peer was alive.
#[test]
fn a_request_of_which_no_byte_was_written_goes_out_on_a_fresh_link() {
    let functions = Functions::new();
    let (func, executed) = counting(&functions);
    for data in [0, 3 << 20] {
        let mut nodes = linked(&functions, func);
        executed.store(0, Ordering::Relaxed);

        let dead = break_unnoticed(&mut nodes);
        let mut handle = nodes[0].caller().call(Call::new(func).ids(0..2).data(vec![1; data])).unwrap();
        let node = nodes[0].event_loop_mut();
        node.serve_mail();
        node.connections.flush(&node.clock);
        assert!(node.connections.links.table.get(dead).is_some(), "its end is not known yet");
        let outcome =
            end(&mut nodes, &mut handle).unwrap_or_else(|error| panic!("with {data} bytes: {error}"));
        assert!(outcome.is_complete());
        assert_eq!(executed.load(Ordering::Relaxed), 2, "once at each id");
        assert_ne!(only_link(nodes[0].event_loop()), dead);
    }
}

/// A request that has left may have arrived: its call fails, and nothing is sent again.
#[test]
fn a_request_that_was_written_is_not_sent_again() {
    let functions = Functions::new();
    let (func, executed) = counting(&functions);
    let mut nodes = linked(&functions, func);
    executed.store(0, Ordering::Relaxed);

    let mut handle = nodes[0].caller().call(Call::new(func).ids(0..2)).unwrap();
    let node = nodes[0].event_loop_mut();
    node.serve_mail();
    node.connections.flush(&node.clock);
    break_unnoticed(&mut nodes);
    let error = end(&mut nodes, &mut handle).unwrap_err().to_string();
    assert!(error.contains("id 1, link") || error.contains("the connection"), "{error}");
    assert_eq!(executed.load(Ordering::Relaxed), 1, "at id 0 alone");
}
