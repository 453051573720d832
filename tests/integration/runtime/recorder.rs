//! Tests of the flight recorder of running nodes: calls in flight, and how earlier ones ended.

use std::sync::{Arc, Barrier};

use chained_gpc::{
    Builder, Call, CallState, Functions, Heartbeat, LinkKind, LocalNodes, Node, Placement, RecordedCall,
    Recording, Tree,
};

use super::common::{LIMIT, hold, limited, outcome_of};
use super::raw::{EARLY, RawPeer, listener};

/// The recorded calls of one function, the oldest first.
fn calls_of(recording: Recording, func: &str) -> Vec<RecordedCall> {
    let of_func = |call: &RecordedCall| call.func_name.as_deref() == Some(func);
    recording.calls.into_iter().filter(of_func).collect()
}

/// Calls `recording` until a call of this function is recorded in this state.
fn until_in(state: CallState, func: &str, mut recording: impl FnMut() -> Recording) -> RecordedCall {
    // Ends: the state comes, or the test runs into its limit.
    loop {
        let found = calls_of(recording(), func).into_iter().find(|call| call.state == state);
        if let Some(call) = found {
            return call;
        }
        std::thread::yield_now();
    }
}

/// On the fast path and on the general one, with links of each kind: each id records when the call came, when func
/// began and ended, and who answered.
#[test]
fn each_id_records_the_calls_that_have_ended() {
    limited(|| {
        for (placement, partial) in
            [(Placement::Inline, false), (Placement::Default, false), (Placement::Inline, true)]
        {
            let functions = Functions::new();
            let echo = functions.at(placement).func("echo", |request, reply| {
                reply.data = request.data().to_vec();
                Ok(())
            });
            let nodes = LocalNodes::start(7, LinkKind::Shm, &functions).unwrap();
            let call = Call::new(echo.unwrap()).ids(0..7).tree(Tree::Binary).data("x");
            let call = if partial { call.partial() } else { call };
            for _ in 0..9 {
                outcome_of(nodes.root().call(call.clone()).unwrap());
            }
            for id in 0..7 {
                let calls = calls_of(nodes.node(id).recorder().expect("it runs"), "echo");
                assert_eq!(calls.len(), 9, "id {id}");
                for call in calls {
                    let (began, ended) = (call.began.expect("func ran"), call.ended.expect("it has ended"));
                    let answered = call.answered.expect("it has answered");
                    assert_eq!(
                        (call.state, call.call.root, call.parent.is_none()),
                        (CallState::Done, 0, id == 0)
                    );
                    assert!(began <= ended && ended <= answered && answered <= call.age, "{call:?}");
                    let children = if [0, 1, 4].contains(&id) { 2 } else { 0 };
                    assert_eq!((call.answers.len(), call.awaited.len()), (children, 0), "{call:?}");
                    let last = call.answers.last().map(|(child, _)| *child);
                    assert_eq!(call.last.map(|(child, _)| child), last);
                    assert!(call.last.is_none_or(|(_, at)| at <= answered));
                }
            }
        }
    });
}

/// A deferred reply that does not come: its id says so, the others name the child that they wait for.
#[test]
fn a_call_in_flight_names_who_has_not_answered() {
    limited(|| {
        let functions = Functions::new();
        let (func, held) = hold(&functions);
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(func).ids(0..3).tree(Tree::Chain).forward_first().limit(LIMIT);
        let handle = nodes.root().call(call).unwrap();
        let tokens: Vec<_> = (0..3).map(|_| held.recv_timeout(LIMIT).expect("each id runs func")).collect();
        let recorded = |id: u32| until_in(CallState::Deferred, "hold", || nodes.node(id).recorder().unwrap());
        for id in 0..3 {
            let awaited: Vec<u32> = (id + 1..3).take(1).collect();
            let call = recorded(id);
            assert_eq!(
                (call.awaited, call.awaited_count as usize),
                (awaited.clone(), awaited.len()),
                "id {id}"
            );
            assert_eq!(call.answered, None);
        }
        tokens.into_iter().for_each(|token| token.reply(Default::default()));
        outcome_of(handle);
    });
}

/// Two calls meet at one worker: the second waits for its turn. A call of the recorders of all nodes does not wait
/// behind them.
#[test]
fn a_call_behind_a_function_that_hangs_is_in_the_queue_and_recorders_still_answer() {
    limited(|| {
        let functions = Functions::new();
        let gate = Arc::new(Barrier::new(2));
        let inside = gate.clone();
        let hang = functions.func("hang", move |request, _| {
            if request.me() == 1 {
                inside.wait();
            }
            Ok(())
        });
        let quick = functions.func("quick", |_, _| Ok(()));
        let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
        let start = |func| nodes.root().call(Call::new(func).ids(0..2).limit(LIMIT)).unwrap();
        let first = start(hang.unwrap());
        until_in(CallState::Func, "hang", || nodes.node(1).recorder().unwrap());
        let second = start(quick.unwrap());
        let queued = until_in(CallState::Queue, "quick", || nodes.node(1).recorder().unwrap());
        assert_eq!((queued.began, queued.parent), (None, Some(0)));
        let collected = outcome_of(nodes.root().call(Recording::call(4).ids(0..2)).unwrap());
        let far = Recording::parse(&collected.replies().unwrap()[1].data).expect("a recording");
        let states: Vec<CallState> = far.calls.iter().map(|call| call.state).collect();
        assert_eq!((far.me, states), (1, vec![CallState::Func, CallState::Queue]));
        gate.wait();
        [first, second].into_iter().for_each(|handle| drop(outcome_of(handle)));
    });
}

#[test]
fn a_recorder_that_is_off_has_only_what_is_under_way() {
    limited(|| {
        let functions = Functions::new();
        let (func, held) = hold(&functions);
        let nothing = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
        let nodes = LocalNodes::start_with(2, LinkKind::Shm, &functions, |_, node| node.recorder(0)).unwrap();
        outcome_of(nodes.root().call(Call::new(nothing).ids(0..2)).unwrap());
        let recorded = || nodes.node(1).recorder().expect("it runs");
        assert_eq!(recorded().calls, vec![]);
        let handle = nodes.root().call(Call::new(func).ids(0..2).forward_first().limit(LIMIT)).unwrap();
        let tokens = [(); 2].map(|()| held.recv_timeout(LIMIT).expect("each id runs func"));
        assert_eq!(until_in(CallState::Deferred, "hold", recorded).answers, vec![]);
        tokens.into_iter().for_each(|token| token.reply(Default::default()));
        outcome_of(handle);
    });
}

/// A function that blocks the node cannot ask it, and learns so at once.
#[test]
fn the_thread_that_drives_a_node_gets_no_recording_of_it() {
    limited(|| {
        let functions = Functions::new();
        let asks = functions.at(Placement::Inline).func("asks", |request, reply| {
            reply.data = vec![u8::from(request.caller().recorder().is_none())];
            Ok(())
        });
        let nodes = LocalNodes::start(1, LinkKind::Unix, &functions).unwrap();
        let outcome = outcome_of(nodes.root().call(Call::new(asks.unwrap()).ids(0..1)).unwrap());
        assert_eq!(outcome.replies().unwrap()[0].data, [1].as_slice());
    });
}

/// The handle says which child is awaited, and that the child does not answer heartbeats; the call goes on.
#[test]
fn a_handle_says_what_its_call_waits_for() {
    limited(|| {
        let functions = Functions::new();
        let (func, held) = hold(&functions);
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let handle = nodes.root().call(Call::new(func).ids(0..3).tree(Tree::Flat).limit(LIMIT)).unwrap();
        held.recv_timeout(LIMIT).expect("id 0 runs func").reply(Default::default());
        let tokens = [(); 2].map(|()| held.recv_timeout(LIMIT).expect("ids 1 and 2 run func"));
        let progress = handle.progress().expect("it is in flight");
        assert_eq!((progress.call.state, progress.call.awaited), (CallState::Children, vec![1, 2]));
        assert_eq!((progress.call.func_name.as_deref(), progress.silent), (Some("hold"), vec![]));
        tokens.into_iter().for_each(|token| token.reply(Default::default()));
        outcome_of(handle);
    });
}

/// With heartbeats, ids report what the calls of their parents wait for, so the root knows of an id three levels below.
#[test]
fn a_handle_names_an_id_far_below() {
    limited(|| {
        let functions = Functions::new();
        let (func, held) = hold(&functions);
        let heartbeat = Some(Heartbeat { every: LIMIT / 300, dead_after: 2 * LIMIT });
        let with = |_, builder: Builder| builder.heartbeat(heartbeat);
        let nodes = LocalNodes::start_with(4, LinkKind::Unix, &functions, with).unwrap();
        let call = Call::new(func).ids(0..4).tree(Tree::Chain).limit(LIMIT);
        let handle = nodes.root().call(call).unwrap();
        for _ in 0..3 {
            held.recv_timeout(LIMIT).expect("each id runs func").reply(Default::default());
        }
        let last = held.recv_timeout(LIMIT).expect("id 3 runs func");
        // Ends: after a few heartbeats.
        let straggler = loop {
            let straggler = handle.progress().expect("it is in flight").straggler;
            if straggler.id == 3 {
                break straggler;
            }
            std::thread::yield_now();
        };
        assert_eq!(straggler.state, CallState::Deferred);
        last.reply(Default::default());
        outcome_of(handle);
    });
}

/// A peer that has linked and says nothing.
#[test]
fn a_child_that_does_not_answer_heartbeats_is_silent() {
    limited(|| {
        let functions = Functions::new();
        let func = functions.func("nothing", |_, _| Ok(())).unwrap();
        let (below, address) = listener();
        let heartbeat = Some(Heartbeat { every: LIMIT / 300, dead_after: 2 * LIMIT });
        let node = Node::builder(0).functions(&functions).peers([(7, address)].into_iter().collect());
        let node = node.heartbeat(heartbeat).start().unwrap();
        let handle = node.call(Call::new(func).ids([0, 7]).limit(LIMIT)).unwrap();
        let peer = RawPeer::answer(&below, EARLY);
        // Ends: the heartbeat is asked for after a tenth of a second.
        let silent = loop {
            let progress = handle.progress().expect("it is in flight");
            if !progress.silent.is_empty() {
                break progress.silent;
            }
            std::thread::yield_now();
        };
        assert_eq!(silent[0].0, 7);
        handle.cancel();
        drop((handle, peer));
    });
}
