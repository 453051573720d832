//! Tests of the encoding: frames survive any cuts, and any other bytes are an error.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::server::orders::{Answer, Application, Info, Job, NodeRanks, Process, Upcall, Value};

fn process() -> impl Strategy<Value = Process> {
    (".{0,9}", any::<u32>()).prop_map(|(namespace, rank)| Process { namespace, rank })
}

fn processes() -> impl Strategy<Value = Vec<Process>> {
    vec(process(), 0..4)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..20)
}

fn infos() -> impl Strategy<Value = Vec<Info>> {
    let info = (".{0,9}", any::<u16>(), bytes(), any::<bool>());
    let info = info.prop_map(|(key, kind, bytes, required)| {
        let value = Value { kind, bytes };
        Info { key, value, required }
    });
    vec(info, 0..3)
}

fn job() -> impl Strategy<Value = Job> {
    let node = (".{0,9}", vec(any::<u32>(), 0..5), any::<u32>());
    let node = node.prop_map(|(host, ranks, before)| NodeRanks { host, ranks, before });
    let job = (
        ".{0,9}",
        option::of(process()),
        any::<u32>(),
        vec(node, 0..4),
        option::of(any::<u32>()),
        vec(any::<u32>(), 0..4),
    );
    job.prop_map(|(namespace, parent, slots, nodes, here, applications)| Job {
        namespace,
        parent,
        slots,
        nodes,
        here,
        applications,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let found = (process(), infos()).prop_map(|(process, infos)| {
        Answer::Found(infos.into_iter().map(|info| (process.clone(), info)).collect())
    });
    let spawned = ".{0,9}".prop_map(Answer::Spawned);
    let infos = infos().prop_map(Answer::Infos);
    prop_oneof![Just(Answer::Done), bytes().prop_map(Answer::Data), found, spawned, infos]
}

fn order() -> impl Strategy<Value = Order> {
    let answer = prop_oneof![answer().prop_map(Ok), any::<i32>().prop_map(Err)];
    prop_oneof![
        job().prop_map(Order::Register),
        (process(), any::<(u32, u32)>()).prop_map(|(process, user)| Order::Prepare { process, user }),
        process().prop_map(Order::Ended),
        ".{0,9}".prop_map(Order::Forget),
        (any::<u64>(), answer).prop_map(|(serial, answer)| Order::Answer { serial, answer }),
        (any::<u64>(), process()).prop_map(|(serial, process)| Order::Data { serial, process }),
        (any::<i32>(), process(), ".{0,9}", infos())
            .prop_map(|(code, source, to, info)| { Order::Notify { code, source, to, info } }),
    ]
}

fn application() -> impl Strategy<Value = Application> {
    let application = (
        bytes(),
        vec(bytes(), 0..3),
        vec((bytes(), bytes()), 0..3),
        option::of(bytes()),
        any::<u32>(),
        infos(),
    );
    application.prop_map(|(program, arguments, environment, folder, count, info)| Application {
        program,
        arguments,
        environment,
        folder,
        count,
        info,
    })
}

fn upcall() -> impl Strategy<Value = Upcall> {
    let keys = || vec(".{0,9}", 0..3);
    prop_oneof![
        process().prop_map(Upcall::Connected),
        process().prop_map(Upcall::Finalized),
        (process(), any::<i32>(), bytes(), processes()).prop_map(|(process, status, message, processes)| {
            Upcall::Abort { process, status, message, processes }
        }),
        (processes(), bytes(), infos()).prop_map(|(processes, data, info)| Upcall::Fence {
            processes,
            data,
            info
        }),
        (process(), infos()).prop_map(|(process, info)| Upcall::Fetch { process, info }),
        (process(), infos()).prop_map(|(process, info)| Upcall::Publish { process, info }),
        (process(), keys(), infos()).prop_map(|(process, keys, info)| Upcall::Lookup { process, keys, info }),
        (process(), keys(), infos()).prop_map(|(process, keys, info)| Upcall::Unpublish {
            process,
            keys,
            info
        }),
        (process(), infos(), vec(application(), 0..3))
            .prop_map(|(process, info, applications)| Upcall::Spawn { process, info, applications }),
        (processes(), infos()).prop_map(|(processes, info)| Upcall::Connect { processes, info }),
        (processes(), infos()).prop_map(|(processes, info)| Upcall::Disconnect { processes, info }),
        (any::<bool>(), ".{0,9}", processes(), infos()).prop_map(|(constructs, name, processes, info)| {
            Upcall::Group { constructs, name, processes, info }
        }),
        (process(), processes(), infos()).prop_map(|(process, targets, info)| Upcall::Control {
            process,
            targets,
            info
        }),
        (any::<i32>(), process(), any::<u8>(), infos())
            .prop_map(|(code, source, range, info)| Upcall::Event { code, source, range, info }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let variables =
        prop_oneof![vec((bytes(), bytes()), 0..4).prop_map(Ok), ".{0,9}".prop_map(Err::<Vec<_>, String>)];
    let data = prop_oneof![bytes().prop_map(Ok), any::<i32>().prop_map(Err)];
    prop_oneof![
        ".{0,9}".prop_map(Event::Ready),
        ".{0,9}".prop_map(Event::Failed),
        (".{0,9}", option::of(".{0,9}"))
            .prop_map(|(namespace, failed)| Event::Registered { namespace, failed }),
        (process(), variables).prop_map(|(process, variables)| Event::Environment { process, variables }),
        (any::<u64>(), data).prop_map(|(serial, data)| Event::Data { serial, data }),
        (any::<u64>(), upcall()).prop_map(|(serial, upcall)| Event::Upcall { serial, upcall }),
    ]
}

/// Parts of these lengths, in turn.
fn parts<'a>(mut bytes: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut cuts = cuts.iter().copied().cycle();
    std::iter::from_fn(move || {
        let length = cuts.next()?.min(bytes.len());
        (length > 0).then(|| bytes.split_off(..length)).flatten()
    })
}

/// The body of the only frame.
fn body(frame: BytesMut) -> Bytes {
    frame.freeze().slice(4..)
}

proptest! {
    #[test]
    fn orders_arrive_as_they_were_sent(all in vec(order(), 0..8), cuts in vec(1..64_usize, 1..8)) {
        let mut bytes = BytesMut::new();
        for order in &all {
            encode_order(order, &mut bytes).unwrap();
        }
        let (mut orders, mut found) = (Orders::default(), Vec::new());
        for part in parts(&bytes, &cuts) {
            orders.push(part);
            while let Some(order) = orders.next_order().unwrap() {
                found.push(order);
            }
        }
        prop_assert_eq!(found, all);
        prop_assert!(orders.frames.bytes.is_empty());
    }

    #[test]
    fn events_arrive_as_they_were_sent(all in vec(event(), 0..8), cuts in vec(1..64_usize, 1..8)) {
        let mut bytes = BytesMut::new();
        encode_hello(&mut bytes);
        for event in &all {
            encode_event(event, &mut bytes).unwrap();
        }
        let (mut events, mut found) = (Events::default(), Vec::new());
        for part in parts(&bytes, &cuts) {
            events.push(part);
            while let Some(event) = events.next_event().unwrap() {
                found.push(event);
            }
        }
        prop_assert_eq!(found, all);
        prop_assert!(events.frames.bytes.is_empty());
    }

    #[test]
    fn a_body_that_is_cut_or_longer_is_an_error(event in event(), order in order(), more in 1..9_usize) {
        let (mut frame, mut other) = (BytesMut::new(), BytesMut::new());
        encode_event(&event, &mut frame).unwrap();
        encode_order(&order, &mut other).unwrap();
        let (event, order) = (body(frame), body(other));
        for cut in 0..event.len() {
            prop_assert!(decode::<Event>(event.slice(..cut)).is_err());
        }
        for cut in 0..order.len() {
            prop_assert!(decode::<Order>(order.slice(..cut)).is_err());
        }
        let longer = |body: &Bytes| body.iter().copied().chain(std::iter::repeat_n(0, more)).collect::<Bytes>();
        prop_assert!(decode::<Event>(longer(&event)).is_err());
        prop_assert!(decode::<Order>(longer(&order)).is_err());
    }

    #[test]
    fn any_body_is_refused_or_has_one_meaning(kind in 0..9_u8, rest in vec(any::<u8>(), 0..64)) {
        let given: Bytes = std::iter::once(kind).chain(rest).collect();
        let mut frame = BytesMut::new();
        if let Ok(order) = decode::<Order>(given.clone()) {
            encode_order(&order, &mut frame).unwrap();
            prop_assert_eq!(body(frame.split()), given.clone());
        }
        if let Ok(event) = decode::<Event>(given.clone()) {
            encode_event(&event, &mut frame).unwrap();
            prop_assert_eq!(body(frame), given);
        }
    }
}

#[test]
fn a_long_message_is_refused_by_both_sides() {
    let answer = |length| Order::Answer { serial: 1, answer: Ok(Answer::Data(vec![0; length])) };
    let mut out = BytesMut::from(&b"before"[..]);
    // The kind, the serial, the result, the kind of the answer, and the length.
    let others = 1 + 8 + 1 + 1 + 4;
    assert_eq!(encode_order(&answer(FRAME_MAX - others + 1), &mut out), Err(TooLong(FRAME_MAX + 1)));
    assert_eq!(out, &b"before"[..]);
    out.clear();
    encode_order(&answer(FRAME_MAX - others), &mut out).unwrap();
    let mut orders = Orders::default();
    orders.push(&out);
    assert_eq!(orders.next_order(), Ok(Some(answer(FRAME_MAX - others))));
    orders.push(&u32::try_from(FRAME_MAX + 1).unwrap().to_le_bytes());
    assert!(
        orders.next_order().unwrap_err().to_string().starts_with("a frame of 67108865 bytes is announced")
    );
}

#[test]
fn a_length_without_its_items_takes_no_memory() {
    // An upcall of a fence whose list of processes is announced as the longest.
    let mut bytes = vec![6];
    bytes.extend([0; 8]);
    bytes.push(4);
    bytes.extend([0xff; 4]);
    assert_eq!(
        decode::<Event>(bytes.into()).unwrap_err(),
        ProtocolError::new("a frame is shorter than its message")
    );
}

#[test]
fn a_helper_of_another_version_is_refused_by_name() {
    let refused = |hello: &[u8]| {
        let mut out = BytesMut::new();
        put_frame(&mut out, |body| body.put_slice(hello)).unwrap();
        let mut events = Events::default();
        events.push(&out);
        events.next_event().unwrap_err().to_string()
    };
    let newer = refused(b"gpc-pmix-server 9.0.0 1\x1b");
    assert!(
        newer.starts_with(r"the PMIx helper is `gpc-pmix-server 9.0.0 1\u{1b}`, and this node"),
        "{newer}"
    );
    for other in [&b"SSH-2.0-OpenSSH_9.2"[..], b"", b"\xff", &[b'x'; 300]] {
        assert!(refused(other).contains("another program"));
    }
}
