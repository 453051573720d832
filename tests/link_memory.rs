//! Announced lengths take no memory: the receiving side of a link holds memory only for what has arrived, and copies as
//! little as possible.

#[path = "integration/wire_support/mod.rs"]
mod wire_support;

use bytes::Bytes;
use chained_gpc::link::{BODIES_MAX, Context, Event, Inbox};
use chained_gpc::wire::CallId;
use gpc_test_support::memory::{Cost, Counting, OfThread};
use gpc_trees::Tree;
use proptest::prelude::*;
use wire_support::{HELLO, greeted};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Awaits one call.
struct Only {
    call: u64,
}

impl Context for Only {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        call.sequence == self.call
    }

    fn reply_max(&self) -> u64 {
        u64::MAX
    }
}

/// Awaits every call.
struct All;

impl Context for All {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _call: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        u64::MAX
    }
}

const ALL: All = All;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..], &[kind, flags, 0, 0], payload].concat()
}

/// Fixed part of a request with a run of ids, and the lengths that it announces.
fn request(call: u64, ids_count: u32, header_len: u32, data_len: u64, shape_count: u32) -> Vec<u8> {
    let mut fixed = [3u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    let tree = if shape_count > 0 { 0x8000_0005u64 } else { 0 };
    for field in [call, 7, 0, tree] {
        fixed.extend_from_slice(&field.to_le_bytes());
    }
    for field in [0, 0, ids_count, header_len] {
        fixed.extend_from_slice(&field.to_le_bytes());
    }
    fixed.extend_from_slice(&data_len.to_le_bytes());
    fixed.extend_from_slice(&1_000_000u64.to_le_bytes());
    fixed.extend_from_slice(&shape_count.to_le_bytes());
    fixed.extend_from_slice(&[0; 12]);
    // The largest number of positions.
    fixed.extend_from_slice(&[0xff; 4]);
    fixed
}

fn response(call: u64, status: u8, header_len: u64, data_len: u64) -> Vec<u8> {
    let mut fixed = vec![3, 0, 0, 0, 0, 0, status, 0];
    // A failure has only a report, whose length has 32 bits.
    let (header_len, data_len, report_len) = match status {
        2 => (0, 0, data_len as u32),
        _ => (header_len, data_len, 0),
    };
    [call, header_len, data_len, report_len.into()]
        .into_iter()
        .for_each(|field| fixed.extend_from_slice(&field.to_le_bytes()));
    fixed
}

fn segment(call: u64, of_response: bool, bytes: &[u8]) -> Vec<u8> {
    let call = [&[3u8, 0, 0, 0, 0, 0, 0, 0][..], &call.to_le_bytes()].concat();
    frame(4, of_response.into(), &[&call[..], bytes].concat())
}

/// Feeds bytes to an inbox in reads of `read` bytes; returns the kept events and the cost.
fn feed(inbox: &mut Inbox, bytes: &[u8], read: usize, context: &dyn Context) -> (Vec<Event>, Cost) {
    OfThread::cost(|| {
        let mut events = Vec::new();
        for piece in bytes.chunks(read) {
            inbox.feed(piece, context, &mut events).expect("good bytes");
        }
        events
    })
}

/// Cost of a body in arrival beside its bytes: its entry in the map, the event, the request.
const FIXED: usize = 4096;

#[test]
fn announced_lengths_take_no_memory() {
    let run = [4u8, 0, 0, 0, 2, 0, 0, 0];
    let begun = [
        frame(2, 0, &[request(2, 1, 0, u64::MAX, 0), run.to_vec(), vec![7; 10]].concat()),
        frame(2, 0, &[request(2, 1, 65_535, u64::MAX, 0), run.to_vec(), vec![7; 10]].concat()),
        frame(2, 0, &[request(2, (64 << 20) / 8, 0, 0, 0), run.to_vec()].concat()),
        frame(2, 0, &[request(2, 1, 0, 0, (64 << 20) / 4 - 2), run.to_vec()].concat()),
        frame(3, 0, &[response(2, 1, 1 << 62, 1 << 62), vec![7; 10]].concat()),
        frame(3, 0, &[response(2, 2, 0, 64 << 20), vec![7; 10]].concat()),
        vec![0, 0, 16, 0, 2, 0, 0, 0, 1, 2, 3],
        vec![0, 0, 16, 0, 7, 0, 0, 0, 1, 2, 3],
    ];
    for bytes in begun {
        let mut inbox = greeted();
        let (_, cost) = feed(&mut inbox, &bytes, 50, &ALL);
        assert!(cost.peak < FIXED, "{cost:?} for {bytes:?}");
    }
}

#[test]
fn a_body_takes_what_has_come() {
    let chunk = vec![7; 100_000];
    let begun = [
        (frame(2, 0, &request(2, (64 << 20) / 8, 0, 0, 0)), false),
        (frame(2, 0, &[request(2, 1, 0, u64::MAX, 0), vec![4, 0, 0, 0, 2, 0, 0, 0]].concat()), false),
        (frame(3, 0, &response(2, 1, 0, u64::MAX)), true),
    ];
    for (bytes, of_response) in begun {
        let mut inbox = greeted();
        inbox.feed(&bytes, &ALL, &mut Vec::new()).unwrap();
        let mut all = 0;
        for _ in 0..20 {
            let segment = segment(2, of_response, &chunk);
            all += chunk.len();
            let (_, cost) = feed(&mut inbox, &segment, 10_000, &ALL);
            // A buffer that doubles holds the old and the new bytes for a moment.
            assert!(cost.peak <= 3 * all + FIXED, "{cost:?} after {all} bytes");
        }
    }
}

#[test]
fn many_bodies_cost_a_constant_each() {
    let bodies = BODIES_MAX as u64;
    let begun = |call: u64| frame(2, 0, &[request(call, 1, 0, 1, 0), vec![4, 0, 0, 0, 2, 0, 0, 0]].concat());
    let bytes: Vec<u8> = (0..bodies).flat_map(begun).collect();
    let mut inbox = greeted();
    let (events, cost) = feed(&mut inbox, &bytes, 1 << 16, &ALL);
    assert_eq!(events.len(), bodies as usize);
    assert!(cost.peak < bodies as usize * 1500, "{cost:?}");
}

#[test]
fn bytes_that_nobody_awaits_are_not_kept() {
    let nobody = Only { call: u64::MAX };
    let mut inbox = greeted();
    let mut bytes = frame(3, 0, &response(2, 1, 0, 1 << 30));
    (0..40).for_each(|_| bytes.extend(segment(2, true, &[7; 100_000])));
    (0..40).for_each(|_| bytes.extend(segment(9, false, &[7; 100_000])));
    let (events, cost) = feed(&mut inbox, &bytes, 5000, &nobody);
    assert!(matches!(events[..], [Event::UnawaitedReply(_)]) && inbox.is_idle());
    assert!(cost.peak < 2 * 5000 + FIXED && cost.kept < FIXED, "{cost:?}");
}

/// A peer began long responses and stalled until their calls had ended. Each beginning stayed in the inbox for good.
#[test]
fn responses_that_are_not_awaited_any_more_are_forgotten() {
    let begun = |call| frame(3, 0, &[response(call, 1, 0, 1 << 30), vec![7; 10_000]].concat());
    let frames: Vec<Bytes> = (0..1000).map(|call| begun(call).into()).collect();
    let mut inbox = greeted();
    let ((), cost) = OfThread::cost(|| {
        for (call, frame) in (0..).zip(&frames) {
            inbox.feed(frame, &Only { call }, &mut Vec::new()).unwrap();
        }
    });
    assert!(cost.peak < 20 * 10_000, "{cost:?}");
}

#[test]
fn a_frame_in_one_read_is_copied_once() {
    let data = vec![7; 900_000];
    let request =
        [request(2, 1, 0, data.len() as u64, 0), vec![4, 0, 0, 0, 2, 0, 0, 0], data.clone()].concat();
    let response = [response(2, 1, 0, data.len() as u64), data.clone()].concat();
    for bytes in [frame(2, 0, &request), frame(3, 0, &response)] {
        let (mut inbox, mut events, bytes) = (greeted(), Vec::new(), Bytes::from(bytes));
        let ((), cost) = OfThread::cost(|| inbox.feed(&bytes, &ALL, &mut events).unwrap());
        assert!(events.len() == 1 && cost.taken < data.len() + FIXED, "{cost:?}");
    }
    // Segments are copied only into their body; a body of this length grows by doubling.
    let mut inbox = greeted();
    let begun = frame(2, 0, &request[..100]);
    inbox.feed(&begun, &ALL, &mut Vec::new()).unwrap();
    let (mut events, bytes) = (Vec::new(), Bytes::from(segment(2, false, &data)));
    let ((), cost) = OfThread::cost(|| inbox.feed(&bytes, &ALL, &mut events).unwrap());
    assert!(cost.taken < data.len() + FIXED, "{cost:?}");
}

/// The cost of a frame is constant, however many frames arrive in one read: bytes after the current frame are not
/// moved.
#[test]
fn many_small_frames_in_one_read_cost_a_constant_each() {
    let credit = frame(6, 0, &[1, 0, 0, 0]);
    for frames in [1000, 100_000] {
        let bytes = Bytes::from(credit.repeat(frames));
        let (mut inbox, mut events) = (greeted(), Vec::with_capacity(frames));
        let ((), cost) = OfThread::cost(|| inbox.feed(&bytes, &ALL, &mut events).unwrap());
        assert!(events.len() == frames && cost.taken < FIXED, "{cost:?} for {frames} frames");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_take_more_memory_than_a_multiple_of_themselves(
        heads in prop::collection::vec(
            (0u64..6, any::<bool>(), prop_oneof![0u64..200, any::<u64>()], prop_oneof![0u32..20, any::<u32>()], 0usize..400),
            1..40,
        ),
        read in 1usize..500,
    ) {
        let mut bytes = frame(1, 0, &HELLO.emit());
        for (call, of_response, long, short, rest) in heads {
            let fixed = match of_response {
                true => response(call, 1, u64::from(short), long >> 1),
                false => request(call, short % (8 << 20), short % 65_536, long, short % 3),
            };
            bytes.extend(frame(if of_response { 3 } else { 2 }, 0, &[fixed, vec![1; rest]].concat()));
            bytes.extend(segment(call, of_response, &vec![0; rest + 1]));
        }
        let (_, cost) = OfThread::cost(|| {
            let (mut inbox, mut events) = (Inbox::new(), Vec::new());
            for piece in bytes.chunks(read) {
                if inbox.feed(piece, &ALL, &mut events).is_err() {
                    break;
                }
            }
        });
        prop_assert!(cost.peak < 40 * bytes.len() + FIXED, "{:?} for {} bytes", cost, bytes.len());
    }
}
