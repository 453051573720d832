//! Turns of a node that the test drives: deadlines, wake-ups, and retained memory.

mod commands;
mod dead_links;

use super::*;
use crate::link::Context;
use crate::runtime::Placement;
use crate::runtime::idle_memory::SPARE_LIMIT;
use crate::runtime::{Builder, Call, CallHandle, Functions, LinkKind, Listener, Node, Peers, PolledNode};
use crate::wire::frame::{FrameHeader, Kind};
use crate::wire::head::{AnswerKind, ResponseHead};

fn pair(functions: &Functions, link: LinkKind) -> [PolledNode; 2] {
    pair_with(functions, link, |builder| builder)
}

fn pair_with(functions: &Functions, link: LinkKind, change: impl Fn(Builder) -> Builder) -> [PolledNode; 2] {
    let listeners = [0, 1].map(|id| Listener::bind(&link.fresh_address(id)).unwrap());
    let addresses = listeners.iter().map(|listener| listener.address().unwrap());
    let peers: Peers = (0..).zip(addresses).collect();
    let mut ids = 0..;
    listeners.map(|listener| {
        let builder = Node::builder(ids.next().unwrap()).functions(functions).peers(peers.clone());
        change(builder.listener(listener).link(link)).polled().unwrap()
    })
}

fn drive(nodes: &mut [PolledNode], handle: &mut CallHandle) -> bool {
    // More turns than any call takes, fewer than a hang.
    (0..1_000_000).any(|_| {
        for node in nodes.iter_mut() {
            node.progress(Duration::ZERO).unwrap();
        }
        handle.test().is_some()
    })
}

/// While both sides poll, bytes pass through memory only: calls complete without any call of epoll.
#[test]
fn a_hop_through_rings_needs_no_system_call_while_both_sides_poll() {
    let functions = Functions::new();
    let func = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Shm);
    let call = |nodes: &mut [PolledNode; 2], data| {
        let mut handle = nodes[0].call(Call::new(func).ids(0..2).data(vec![1; data])).unwrap();
        assert!(drive(nodes, &mut handle), "the call hangs");
    };
    call(&mut nodes, 0);
    for node in &mut nodes {
        assert!(node.event_loop().connections.has_rings());
        node.event_loop_mut().polling.last_epoll = Time::from_nanos(u64::MAX);
    }
    for data in [0, 64, 3 << 20] {
        call(&mut nodes, data);
    }
}

/// After long data, 64 MiB were never released.
#[test]
fn memory_for_long_data_is_given_back_when_nothing_comes() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Unix);
    let mut handle = nodes[0].call(Call::new(func).ids(0..2).data(vec![1; 5 << 20])).unwrap();
    assert!(drive(&mut nodes, &mut handle), "the call hangs");
    let node = nodes[1].event_loop_mut();
    assert!(node.connections.spare.is_held(), "the next call is to use it");
    assert!(node.next_deadline().is_some(), "memory has a deadline");
    node.polling.events = None;
    let soon = node.idle.busy_until.plus(SPARE_LIMIT / 2);
    node.release_memory(soon);
    assert!(node.connections.spare.is_held());
    // Reads since the last check count once.
    let late = node.idle.busy_until.plus(SPARE_LIMIT);
    node.connections.has_read = true;
    node.release_memory(late);
    assert!(node.connections.spare.is_held() && node.memory_until() == late.plus(SPARE_LIMIT));
    let late = late.plus(SPARE_LIMIT);
    node.release_memory(late);
    assert!(!node.connections.spare.is_held());
}

/// A call without a response ends at its time limit, however far away the alarm was set. Sleeps have no limits of their
/// own.
#[test]
fn the_alarm_is_set_for_the_soonest_deadline_and_again_after_it_has_expired() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Tcp);
    let call = |node: &PolledNode, seconds| {
        node.call(Call::new(func).ids(0..2).limit(Duration::from_secs(seconds))).unwrap()
    };
    // Only the root is driven, and never sleeps: the other node does not respond.
    let turn = |nodes: &mut [PolledNode; 2]| {
        nodes[0].progress(Duration::ZERO).unwrap();
        nodes[0].progress(Duration::ZERO).unwrap();
        nodes[0].event_loop().alarm.left().expect("it is always set")
    };
    assert!(turn(&mut nodes) <= SLEEP_MAX);
    let (mut late, _later) = (call(&nodes[0], 8), call(&nodes[0], 600));
    assert!(turn(&mut nodes) <= Duration::from_secs(8));
    let mut soon = call(&nodes[0], 4);
    assert!(turn(&mut nodes) <= Duration::from_secs(4));
    let mut at_once = nodes[0].call(Call::new(func).ids(0..2).limit(Duration::from_millis(1))).unwrap();
    // More turns than a millisecond takes, fewer than a hang.
    let ended = (0..1_000_000).any(|_| {
        nodes[0].progress(Duration::ZERO).unwrap();
        at_once.test().is_some()
    });
    assert!(ended, "its time limit has passed unnoticed");
    assert!(turn(&mut nodes) <= Duration::from_secs(4), "it expires for the others, too");
    assert!(late.test().is_none() && soon.test().is_none());
}

/// After five seconds without a turn, the alarm was set to expire at once. The poll preceded its expiry, so the end of
/// the call was found five seconds later.
#[test]
fn an_expired_deadline_is_handled_in_the_next_turn() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    for link in [LinkKind::Tcp, LinkKind::Shm] {
        let mut nodes = pair(&functions, link);
        let mut first = nodes[0].call(Call::new(func).ids(0..2)).unwrap();
        assert!(drive(&mut nodes, &mut first), "the call hangs");
        // From here on the other node does not respond.
        let node = &mut nodes[0];
        node.progress(Duration::ZERO).unwrap();
        let limit = Duration::from_millis(1);
        let mut handle = node.call(Call::new(func).ids(0..2).limit(limit)).unwrap();
        node.progress(Duration::ZERO).unwrap();
        let begun = node.event_loop().now();
        // First its limit passes, then the time for reports of the other node.
        let reports = limit / 100 + Duration::from_millis(100);
        for due in [limit, limit + reports] {
            while node.event_loop().now() < begun.plus(due) {
                std::hint::spin_loop();
            }
            node.progress(Duration::ZERO).unwrap();
        }
        let ended = handle.test().unwrap_or_else(|| panic!("{link:?}: its time limit has passed unnoticed"));
        let failure = ended.unwrap_err().to_string();
        assert!(failure.contains("within 1ms"), "{link:?}: {failure}");
        // The alarm may expire a microsecond before the check.
        assert!(node.event_loop().alarm.left().is_some(), "{link:?}: the alarm handled it");
    }
}

/// An idle node that polls for ten milliseconds after each message polled after each expired alarm as well. An adaptive
/// node counted the alarm as a late message, and stopped polling for calls.
#[test]
fn an_expired_alarm_is_not_a_message() {
    let functions = Functions::new();
    for wait in [Wait::Block, Wait::Spin(Duration::from_secs(3600)), Wait::Adaptive] {
        let [node, _other] = &mut pair(&functions, LinkKind::Unix);
        let node = node.event_loop_mut();
        node.polling.policy = crate::runtime::wait::PollPolicy::new(wait);
        let learnt = format!("{:?}", node.polling.policy);
        let now = node.now();
        node.alarm.set(now, now.plus(Duration::from_millis(1))).unwrap();
        // It sleeps until the alarm expires.
        node.turn(SLEEP_MAX, UNBOUNDED).unwrap();
        assert_eq!(
            (node.polling.is_active, format!("{:?}", node.polling.policy)),
            (false, learnt),
            "{wait:?}"
        );
    }
}

/// If the polling limit exceeded the time to the alarm, polling restarted at each expiry, and the node never slept.
#[test]
fn the_alarm_interrupts_polling_which_then_continues() {
    let functions = Functions::new();
    for wait in [Wait::Spin(Duration::from_secs(3600)), Wait::Adaptive] {
        let [node, _other] = &mut pair(&functions, LinkKind::Unix);
        let node = node.event_loop_mut();
        node.polling.policy = crate::runtime::wait::PollPolicy::new(wait);
        node.polling.is_active = true;
        let learnt = format!("{:?}", node.polling.policy);
        node.polling.polled_for = Duration::from_micros(1);
        let now = node.now();
        node.alarm.set(now, now).unwrap();
        // The first poll finds the expired alarm.
        while node.alarm.left().is_some() {
            std::hint::spin_loop();
        }
        node.turn(Duration::from_secs(5), UNBOUNDED).unwrap();
        assert!(!node.alarm.expires_by(None), "{wait:?}: its expiry is unnoticed");
        assert!(node.polling.is_active && !node.polling.polled_for.is_zero(), "{wait:?}: it has not polled");
        assert_eq!(format!("{:?}", node.polling.policy), learnt, "the policy ignores an expired alarm");
        // No polling time is left. On a busy machine the alarm may have expired earlier.
        let slept = (0..1000).any(|_| {
            (node.polling.is_active, node.polling.polled_for) = (true, Duration::from_secs(3600));
            let now = node.now();
            node.alarm.set(now, now.plus(Duration::from_millis(1))).unwrap();
            node.turn(SLEEP_MAX, UNBOUNDED).unwrap();
            !node.polling.is_active && node.polling.polled_for.is_zero()
        });
        assert!(slept, "{wait:?}: it polls again");
    }
}

/// An idle node must sleep: thousands of them share a machine with working processes.
#[test]
fn an_idle_node_sleeps_as_long_as_it_may() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let mut nodes = pair(&functions, link);
        for data in [0, 3 << 20] {
            let call = Call::new(func).ids(0..2).data(vec![1; data]);
            let mut handle = nodes[0].call(call).unwrap();
            assert!(drive(&mut nodes, &mut handle), "the call hangs");
        }
        for node in &mut nodes {
            let sleeps = |node: &PolledNode| {
                let node = node.event_loop();
                let memory = Some(node.memory_until()).filter(|_| node.holds_memory());
                !node.is_busy() && node.next_deadline() == memory
            };
            let settled = (0..1000).any(|_| {
                let idle = sleeps(node);
                node.progress(Duration::ZERO).unwrap();
                idle && sleeps(node)
            });
            assert!(settled, "{node:?} is never idle over {link:?}");
        }
    }
}

/// Awaits every response, complete.
struct AwaitsAll;

impl Context for AwaitsAll {
    fn tree(&self, _: u64) -> Option<gpc_trees::Tree> {
        None
    }

    fn awaits(&self, _: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        u64::MAX
    }
}

/// When a call was cancelled, the received part of its reply stayed as long as the link: its sender sends no more of
/// it.
#[test]
fn a_cancelled_call_leaves_nothing_of_its_reply() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Unix);
    let mut handle = nodes[0].call(Call::new(func).ids(0..2)).unwrap();
    assert!(drive(&mut nodes, &mut handle), "the call hangs");
    let links = &mut nodes[0].event_loop_mut().connections;
    let key = links.links.up(1).expect("they are linked");
    let [cancelled, other] = [7, 8].map(|sequence| CallId { root: 0, sequence });
    for call in [cancelled, other] {
        let kind = AnswerKind::Reply;
        let head = ResponseHead {
            call,
            level: 0,
            kind,
            header_len: 0,
            data_len: 1 << 20,
            report_len: 0,
            trace_len: 0,
        };
        let length = ResponseHead::LENGTH as u32;
        let mut frame = FrameHeader { length, kind: Kind::Response, flags: 0 }.emit().to_vec();
        head.emit(&mut frame);
        links.links.table.get_mut(key).unwrap().feed(&frame, &AwaitsAll, &mut Vec::new()).unwrap();
    }
    let is_idle = |links: &Connections| links.links.table.link(key).unwrap().inbox.is_idle();
    links.send(Time::default(), 1, Message::Cancel(cancelled));
    assert!(!is_idle(links), "the other reply still comes");
    links.send(Time::default(), 1, Message::Cancel(other));
    assert!(is_idle(links));
}
