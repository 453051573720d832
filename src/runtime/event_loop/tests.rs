//! Turns of a node that is driven from here: what is due, what wakes it, and what it keeps.

mod commands;
mod dead_links;

use super::*;
use crate::link::Context;
use crate::runtime::Placement;
use crate::runtime::idle::SPARE_LIMIT;
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

/// While both sides look, nothing but memory passes between them: the calls go through though the system is never asked
/// what has come.
#[test]
fn a_hop_through_rings_needs_no_call_of_the_system_while_both_look() {
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
        node.event_loop_mut().looking.asked = Time::from_nanos(u64::MAX);
    }
    for data in [0, 64, 3 << 20] {
        call(&mut nodes, data);
    }
}

/// Of a node that got long data once, 64 MiB would never come back.
#[test]
fn memory_for_long_data_is_given_back_when_nothing_comes() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Unix);
    let mut handle = nodes[0].call(Call::new(func).ids(0..2).data(vec![1; 5 << 20])).unwrap();
    assert!(drive(&mut nodes, &mut handle), "the call hangs");
    let node = nodes[1].event_loop_mut();
    assert!(node.connections.spare.is_held(), "the next call is to use it");
    assert!(node.next_deadline().is_some(), "somebody must look when it is time");
    node.looking.events = None;
    let soon = node.idle.busy_until.plus(SPARE_LIMIT / 2);
    node.release_memory(soon);
    assert!(node.connections.spare.is_held());
    // What was read meanwhile counts, and is counted once.
    let late = node.idle.busy_until.plus(SPARE_LIMIT);
    node.connections.has_read = true;
    node.release_memory(late);
    assert!(node.connections.spare.is_held() && node.memory_until() == late.plus(SPARE_LIMIT));
    let late = late.plus(SPARE_LIMIT);
    node.release_memory(late);
    assert!(!node.connections.spare.is_held());
}

/// A call without an answer ends when its time is up though nothing comes, however far away the alarm was before: each
/// sleep had its own limit once, and now none has.
#[test]
fn the_alarm_is_set_for_the_soonest_deadline_and_again_when_it_has_rung() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    let mut nodes = pair(&functions, LinkKind::Tcp);
    let call = |node: &PolledNode, seconds| {
        node.call(Call::new(func).ids(0..2).limit(Duration::from_secs(seconds))).unwrap()
    };
    // Only the root turns, and never sleeps: the other one does not answer.
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
    assert!(ended, "its time is up, and nobody has noticed");
    assert!(turn(&mut nodes) <= Duration::from_secs(4), "it rings for the others, too");
    assert!(late.test().is_none() && soon.test().is_none());
}

/// Whoever turned for the first time in five seconds had the alarm set to ring at once, looked before it could, and was
/// told with the next turn that a call had ended: five seconds later.
#[test]
fn what_is_due_is_done_in_the_turn_that_comes_after_it() {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(())).unwrap();
    for link in [LinkKind::Tcp, LinkKind::Shm] {
        let mut nodes = pair(&functions, link);
        let mut first = nodes[0].call(Call::new(func).ids(0..2)).unwrap();
        assert!(drive(&mut nodes, &mut first), "the call hangs");
        // From here on the other one does not answer.
        let node = &mut nodes[0];
        node.progress(Duration::ZERO).unwrap();
        let limit = Duration::from_millis(1);
        let mut handle = node.call(Call::new(func).ids(0..2).limit(limit)).unwrap();
        node.progress(Duration::ZERO).unwrap();
        let begun = node.event_loop().ask_time();
        // Its limit passes, then the time in which the other one may still report.
        let reports = limit / 100 + Duration::from_millis(100);
        for due in [limit, limit + reports] {
            while node.event_loop().ask_time() < begun.plus(due) {
                std::hint::spin_loop();
            }
            node.progress(Duration::ZERO).unwrap();
        }
        let ended =
            handle.test().unwrap_or_else(|| panic!("{link:?}: its time is up, and nobody has noticed"));
        let failure = ended.unwrap_err().to_string();
        assert!(failure.contains("within 1ms"), "{link:?}: {failure}");
        // Now and then the alarm is in time, by a microsecond.
        assert!(node.event_loop().alarm.left().is_some(), "{link:?}: it was left to the alarm");
    }
}

/// An idle node that looks for ten milliseconds after each message did so after each ring, for ever, and an adaptive
/// one took the ring for a message that had come late: it looked no more when calls came.
#[test]
fn that_the_alarm_rings_is_nothing_that_has_come() {
    let functions = Functions::new();
    for wait in [Wait::Block, Wait::Spin(Duration::from_secs(3600)), Wait::Adaptive] {
        let [node, _other] = &mut pair(&functions, LinkKind::Unix);
        let node = node.event_loop_mut();
        node.looking.policy = crate::runtime::wait::PollPolicy::new(wait);
        let learnt = format!("{:?}", node.looking.policy);
        let now = node.ask_time();
        node.alarm.set(now, now.plus(Duration::from_millis(1))).unwrap();
        // It sleeps until then.
        node.turn(SLEEP_MAX, UNBOUNDED).unwrap();
        assert_eq!((node.looking.active, format!("{:?}", node.looking.policy)), (false, learnt), "{wait:?}");
    }
}

/// A node that looks for longer than the alarm is away began to look anew with each ring, and never slept.
#[test]
fn the_alarm_interrupts_a_look_which_then_goes_on() {
    let functions = Functions::new();
    for wait in [Wait::Spin(Duration::from_secs(3600)), Wait::Adaptive] {
        let [node, _other] = &mut pair(&functions, LinkKind::Unix);
        let node = node.event_loop_mut();
        node.looking.policy = crate::runtime::wait::PollPolicy::new(wait);
        node.looking.active = true;
        let learnt = format!("{:?}", node.looking.policy);
        node.looking.looked = Duration::from_micros(1);
        let now = node.ask_time();
        node.alarm.set(now, now).unwrap();
        // The first look sees that it has rung.
        while node.alarm.left().is_some() {
            std::hint::spin_loop();
        }
        node.turn(Duration::from_secs(5), UNBOUNDED).unwrap();
        assert!(!node.alarm.rings_by(None), "{wait:?}: nobody has heard it");
        assert!(node.looking.active && !node.looking.looked.is_zero(), "{wait:?}: it has not looked");
        assert_eq!(format!("{:?}", node.looking.policy), learnt, "it says nothing about looks");
        // Of this look no time is left. On a busy machine the alarm may have rung before it.
        let slept = (0..1000).any(|_| {
            (node.looking.active, node.looking.looked) = (true, Duration::from_secs(3600));
            let now = node.ask_time();
            node.alarm.set(now, now.plus(Duration::from_millis(1))).unwrap();
            node.turn(SLEEP_MAX, UNBOUNDED).unwrap();
            !node.looking.active && node.looking.looked.is_zero()
        });
        assert!(slept, "{wait:?}: it looks anew");
    }
}

/// A node with nothing to do must sleep, not turn: thousands of them share a machine with the work.
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

/// Awaits every answer, whole.
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

/// Of a reply that had come in part when its call was cancelled, the beginning stayed as long as the link: its sender
/// sends nothing more of it.
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
