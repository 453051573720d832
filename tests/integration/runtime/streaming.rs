//! Functions that take their data as they arrive, over real sockets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use chained_gpc::Placement;
use chained_gpc::link::Event;
use chained_gpc::wire::frame::{SEGMENT, WINDOW};
use chained_gpc::wire::{Body, Message, Request};
use chained_gpc::{Call, FuncHandle, FunctionResult, Functions, LinkKind, Reply, Stage, Streaming};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{
    LIMIT, LINKS, assert_cause, cause_of, checksum, ids, limited, noise, outcome_of, replies_of,
};
use super::raw::{EARLY, RawPeer, call, listener, node, request};

/// Collects all data, to be compared.
struct Collect(Vec<u8>);

impl Streaming for Collect {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        assert!((1..=SEGMENT).contains(&bytes.len()), "{} bytes", bytes.len());
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, reply: &mut Reply) -> FunctionResult {
        let sum = checksum(&self.0).to_le_bytes();
        reply.data = sum[..3].to_vec();
        reply.shared = bytes::Bytes::copy_from_slice(&sum[3..]);
        reply.header = self.0.len().to_le_bytes().to_vec();
        Ok(())
    }
}

fn collecting(functions: &Functions) -> [FuncHandle; 2] {
    let begin = |request: &chained_gpc::Request<'_>| {
        Ok(Collect(Vec::with_capacity(request.data_len().min(1 << 20) as usize)))
    };
    [
        functions.streaming("collect", begin).expect("a name of its own"),
        functions.at(Placement::Inline).streaming("inline", begin).expect("a name of its own"),
    ]
}

#[test]
fn data_that_are_taken_as_they_come_are_whole_in_every_mode() {
    limited(|| {
        let functions = Functions::new();
        let funcs = collecting(&functions);
        for link in LINKS {
            let nodes = LocalNodes::start(5, link, &functions).unwrap();
            let data = noise(WINDOW as usize + 700_001, 11);
            let expected = checksum(&data).to_le_bytes();
            for (func, tree) in [(funcs[0], Tree::Chain), (funcs[1], Tree::Binary)] {
                let call = Call::new(func).ids(0..5).tree(tree).data(data.clone());
                let modes = [
                    call.clone(),
                    call.clone().forward_first(),
                    call.clone().partial(),
                    call.clone().partial().forward_first(),
                    call.ids(1..5).watch().forward_first(),
                ];
                for call in modes {
                    let replies = replies_of(nodes.root().call(call).unwrap());
                    assert!(replies.len() >= 4);
                    for reply in replies {
                        assert_eq!(reply.header[..], data.len().to_le_bytes(), "id {}", reply.id);
                        assert_eq!(reply.data[..], expected, "id {}", reply.id);
                    }
                }
            }
        }
    });
}

#[test]
fn short_data_and_none_are_taken_too() {
    limited(|| {
        let functions = Functions::new();
        let funcs = collecting(&functions);
        let nodes = LocalNodes::start(3, LinkKind::Tcp, &functions).unwrap();
        for len in [0, 1, 16 << 10, (16 << 10) + 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5] {
            for func in funcs {
                let data = noise(len, 3);
                let call = Call::new(func).ids(0..3).tree(Tree::Chain).data(data.clone()).forward_first();
                for reply in replies_of(nodes.root().call(call).unwrap()) {
                    assert_eq!(
                        reply.data[..],
                        checksum(&data).to_le_bytes(),
                        "{len} bytes at id {}",
                        reply.id
                    );
                }
            }
        }
    });
}

/// Fails, or panics, in one of its steps.
struct Bad {
    step: &'static str,
    taken: usize,
}

impl Streaming for Bad {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.taken += bytes.len();
        match self.step {
            "segment" if self.taken > 1 << 20 => Err("no more of this".into()),
            "panic" if self.taken > 1 << 20 => panic!("a bad segment"),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, _: &mut Reply) -> FunctionResult {
        Err("it does not add up".into())
    }
}

#[test]
fn an_error_in_any_step_fails_the_call_at_that_id_and_the_nodes_go_on() {
    limited(|| {
        for inline in [false, true] {
            for step in ["begin", "segment", "panic", "finish"] {
                let functions = Functions::new();
                let begin = move |request: &chained_gpc::Request<'_>| match (request.me(), step) {
                    (2, "begin") => Err("not this one".into()),
                    (2, step) => Ok(Box::new(Bad { step, taken: 0 }) as Box<dyn Streaming>),
                    _ => Ok(Box::new(Collect(Vec::new())) as Box<dyn Streaming>),
                };
                let func = match inline {
                    true => functions.at(Placement::Inline).streaming("bad", begin),
                    false => functions.streaming("bad", begin),
                };
                let func = func.unwrap();
                let nodes = LocalNodes::start(4, LinkKind::Tcp, &functions).unwrap();
                let call =
                    Call::new(func).tree(Tree::Chain).data(noise(3 * WINDOW as usize, 1)).forward_first();
                let cause = cause_of(nodes.root().call(call.clone().ids(0..4)).unwrap());
                let words = match step {
                    "begin" => "not this one",
                    "segment" => "no more of this",
                    "panic" => "it panicked: a bad segment",
                    _ => "it does not add up",
                };
                assert_cause(&cause, 2, Stage::Func, words);
                let partial = outcome_of(nodes.root().call(call.clone().ids(0..4).partial()).unwrap());
                let counts = partial.coverage().counts();
                assert_eq!((counts.done, counts.failed), (3, 1), "{step}");
                let replies = replies_of(nodes.root().call(call.ids(ids("0-1,3"))).unwrap());
                assert_eq!(replies.len(), 3, "{step}");
            }
        }
    });
}

/// Counts the data that it takes; at one id it waits for permission after its first segment.
struct Slow {
    taken: Arc<[AtomicU64; 4]>,
    me: usize,
    begun: Sender<()>,
    leave: Option<Arc<Mutex<Receiver<()>>>>,
}

impl Streaming for Slow {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.taken[self.me].fetch_add(bytes.len() as u64, Ordering::SeqCst);
        if let Some(leave) = self.leave.take() {
            self.begun.send(())?;
            leave.lock().map_err(|_| "another id has panicked")?.recv()?;
        }
        Ok(())
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, _: &mut Reply) -> FunctionResult {
        Ok(())
    }
}

#[test]
fn a_slow_id_holds_back_its_parents_and_no_small_call() {
    limited(|| {
        let taken: Arc<[AtomicU64; 4]> = Arc::default();
        let ((begun, has_begun), (give, leave)) = (channel(), channel());
        let (begun, leave) = (Mutex::new(begun), Arc::new(Mutex::new(leave)));
        let functions = Functions::new();
        let seen = taken.clone();
        let slow = functions.streaming("slow", move |request| {
            let leave = (request.me() == 2).then(|| leave.clone());
            let begun = begun.lock().unwrap().clone();
            Ok(Slow { taken: seen.clone(), me: request.me() as usize, begun, leave })
        });
        let (slow, len) = (slow.unwrap(), 16 * WINDOW);
        let small = functions.at(Placement::Inline).func("small", |_, _| Ok(())).unwrap();
        let nodes = LocalNodes::start(4, LinkKind::Tcp, &functions).unwrap();
        let call = Call::new(slow).ids(0..4).tree(Tree::Chain).data(vec![1; len as usize]).forward_first();
        let long = nodes.root().call(call).unwrap();
        has_begun.recv().unwrap();
        // At id 2 other functions wait, as behind any running function.
        for _ in 0..200 {
            let call = Call::new(small).ids(ids("0-1,3")).tree(Tree::Chain);
            assert_eq!(replies_of(nodes.root().call(call).unwrap()).len(), 3);
        }
        // Id 2 has a window, id 1 another one and the contents of its link and socket.
        let [_, one, two, _] = [0, 1, 2, 3].map(|id| taken[id].load(Ordering::SeqCst));
        assert!(one <= 3 * WINDOW && two <= SEGMENT as u64, "{one}, {two}");
        give.send(()).unwrap();
        assert_eq!(replies_of(long).len(), 4);
        assert!(taken.iter().all(|taken| taken.load(Ordering::SeqCst) == len));
    });
}

/// On a busy machine a process that had just been started was connected late, and its parent kept all of 64 MiB for it.
/// The memory of a node must not depend on scheduling.
#[test]
fn a_child_that_is_not_connected_yet_holds_back_its_parents() {
    limited(|| {
        let functions = Functions::new();
        let collect = collecting(&functions)[1];
        let (listener, address) = listener();
        let node = node(1, &functions, [(2, address)]);
        let mut parent = RawPeer::greet(&node, 0, EARLY, 1);
        let data = Body::whole(noise(4 * WINDOW as usize, 5));
        let request = request(LIMIT, call(0, 1), collect, &ids("1-2"));
        parent.send(Message::Request(Arc::new(Request { forward_first: true, data, ..request })));
        // The second PING is read in a turn of its own: any frame that the data cause comes before its answer.
        for _ in 0..2 {
            parent.send(Message::Ping);
            let event = parent.next();
            assert!(matches!(event, Some(Event::Pong)), "{event:?}");
        }
        let mut child = RawPeer::answer(&listener, EARLY);
        assert_eq!(child.expect_request().call, call(0, 1));
        // It takes everything until the node closes the link.
        std::thread::spawn(move || while child.next().is_some() {});
        match parent.next() {
            Some(Event::Window(window)) => {
                assert!((WINDOW + 1..=2 * WINDOW).contains(&window.limit), "{window:?}")
            }
            other => panic!("a window is to come, but: {other:?}"),
        }
    });
}

#[test]
fn a_caller_who_gives_up_ends_a_call_whose_data_wait_for_a_slow_id() {
    limited(|| {
        let ((begun, has_begun), (give, leave)) = (channel(), channel());
        let (begun, leave) = (Mutex::new(begun), Arc::new(Mutex::new(leave)));
        let functions = Functions::new();
        let slow = functions.streaming("slow", move |request| {
            let leave = (request.me() == 2).then(|| leave.clone());
            let begun = begun.lock().unwrap().clone();
            Ok(Slow { taken: Arc::default(), me: request.me() as usize, begun, leave })
        });
        let collect = collecting(&functions)[1];
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(slow.unwrap()).ids(0..3).tree(Tree::Chain).data(noise(5 * WINDOW as usize, 9));
        let long = nodes.root().call(call.forward_first()).unwrap();
        has_begun.recv().unwrap();
        drop(long);
        let call = Call::new(collect)
            .ids(0..2)
            .tree(Tree::Chain)
            .data(noise(2 * WINDOW as usize, 9))
            .forward_first();
        assert_eq!(replies_of(nodes.root().call(call).unwrap()).len(), 2);
        give.send(()).unwrap();
    });
}

/// Below the root, a callback of such a call sees the header, and no data.
#[test]
fn a_callback_merges_what_streaming_funcs_reply() {
    limited(|| {
        let functions = Functions::new();
        let collect = collecting(&functions)[0];
        let both = functions.callback("both", |request, child, own| {
            assert!(request.parent().is_none() || request.data().is_empty());
            assert_eq!((request.header(), request.data_len()), (&b"hi"[..], 2 * WINDOW));
            own.data.extend_from_slice(child.data);
            Ok(())
        });
        let nodes = LocalNodes::start(4, LinkKind::Tcp, &functions).unwrap();
        let data = noise(2 * WINDOW as usize, 5);
        let sum = checksum(&data).to_le_bytes();
        let call = Call::new(collect).callback(both.unwrap()).ids(0..4).header("hi").data(data);
        let outcome = outcome_of(nodes.root().call(call.forward_first()).unwrap());
        assert_eq!(outcome.data().to_vec(), sum.repeat(4));
    });
}
