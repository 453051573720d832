//! Tests of bodies that arrive in sealed memory, in part or as a whole, against a plain buffer. The sealed memory is
//! simulated.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::wire::body::{Body, BodyUse};
use crate::wire::frame::{EXTENT_MAX, WINDOW};

/// A simulated system with sealed memory, and the limits of what it grants.
#[derive(Debug, Default)]
struct Host {
    /// Capacity of a room, in bytes.
    room: Option<usize>,
    keeps: bool,
    /// Number of pieces that are still referenced.
    alive: AtomicUsize,
}

#[derive(Debug)]
struct Plain {
    bytes: Vec<u8>,
    host: Arc<Host>,
}

impl Plain {
    fn extent(bytes: &[u8], host: &Arc<Host>) -> Extent {
        host.alive.fetch_add(1, Ordering::Relaxed);
        Arc::new(Plain { bytes: bytes.to_vec(), host: host.clone() })
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.host.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sealed for Plain {
    fn length(&self) -> usize {
        self.bytes.len()
    }

    fn bytes(&self) -> Bytes {
        self.bytes.clone().into()
    }

    fn room(&self, _: u64) -> Option<Box<dyn Room>> {
        let left = Mutex::new(self.host.room?);
        Some(Box::new(Buffer { bytes: Vec::new(), left }))
    }

    fn may_be_kept(&self) -> bool {
        self.host.keeps
    }
}

struct Buffer {
    bytes: Vec<u8>,
    left: Mutex<usize>,
}

impl Room for Buffer {
    fn filled(&self) -> usize {
        self.bytes.len()
    }

    fn lay(&mut self, extent: &dyn Sealed) -> bool {
        self.push(&extent.bytes())
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let mut left = self.left.lock().unwrap();
        let fits = bytes.len() <= *left;
        if fits {
            *left -= bytes.len();
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    fn view(&self, range: std::ops::Range<usize>) -> Bytes {
        Bytes::copy_from_slice(&self.bytes[range])
    }
}

fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This many bytes arrive, in sealed memory or not.
    Come(usize, bool),
    /// The child's link reads on, by descriptor where possible.
    Pass,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (1..300usize, any::<bool>()).prop_map(|(len, sealed)| Step::Come(len, sealed));
    prop::collection::vec(prop_oneof![3 => come, 2 => Just(Step::Pass)], 1..40)
}

fn usage() -> impl Strategy<Value = BodyUse> {
    prop_oneof![Just(BodyUse::Whole), Just(BodyUse::Retained), Just(BodyUse::Passing)]
}

proptest! {
    #[test]
    fn a_body_is_the_same_however_its_bytes_come(
        steps in steps(), usage in usage(), room in prop::option::of(0..3000usize), keeps in any::<bool>(), extra in 0..50u64,
    ) {
        let all: usize = steps.iter().map(|step| match step { Step::Come(len, _) => *len, Step::Pass => 0 }).sum();
        let host = Arc::new(Host { room, keeps, ..Host::default() });
        let (body, mut writer) = Body::arriving_for(all as u64 + extra, usage);
        let (link, mut come, mut passed) = (body.fork(), 0, 0u64);
        for step in steps.into_iter().chain([Step::Pass; 40]) {
            match step {
                Step::Come(len, true) => {
                    prop_assert!(writer.extend(&Plain::extent(&pattern(come, len), &host)));
                    come += len;
                }
                Step::Come(len, false) => {
                    prop_assert_eq!(writer.push(&pattern(come, len)), len);
                    come += len;
                }
                Step::Pass => {
                    let bytes = match link.extent(passed) {
                        Some(extent) => {
                            prop_assert!(keeps);
                            extent.bytes()
                        }
                        None => link.read(passed, 100),
                    };
                    prop_assert_eq!(bytes.is_empty(), passed == come as u64);
                    prop_assert_eq!(&bytes[..], &pattern(passed as usize, bytes.len())[..]);
                    passed += bytes.len() as u64;
                    link.passed(passed);
                    body.passed(passed);
                }
            }
            prop_assert_eq!((body.arrived(), writer.missing()), (come as u64, (all - come) as u64 + extra));
        }
        let whole = extra == 0 && (usage != BodyUse::Passing || all == 0);
        prop_assert_eq!(body.bytes().map(|bytes| bytes.to_vec()), whole.then(|| pattern(0, all)));
        // A piece longer than announced is refused and changes nothing.
        prop_assert!(!writer.extend(&Plain::extent(&pattern(0, extra as usize + 1), &host)));
        prop_assert_eq!(body.arrived(), all as u64);
        if usage == BodyUse::Passing && passed == all as u64 {
            prop_assert_eq!(host.alive.load(Ordering::Relaxed), 0, "what all have is let go");
        }
        drop((body, link, writer));
        prop_assert_eq!(host.alive.load(Ordering::Relaxed), 0);
    }
}

proptest! {
    /// A sender waits until its window has room for a whole piece, and a receiver extends the window by quarters: with
    /// longer pieces each could wait for the other.
    #[test]
    fn there_is_leave_for_the_longest_piece_when_all_that_came_was_taken(lengths in prop::collection::vec((1..=EXTENT_MAX, 1..100usize), 1..8)) {
        let (body, mut writer) = Body::arriving_for(u64::MAX, BodyUse::Passing);
        // Some lengths are odd and short.
        let lengths = lengths.into_iter().map(|(length, odd)| if odd > 50 { length } else { length / odd / 1000 + 1 });
        for length in lengths {
            prop_assert!(writer.extend(&Plain::extent(&vec![0; length], &Arc::default())));
            body.passed(u64::MAX);
            writer.grant();
            prop_assert!(writer.allowed() >= EXTENT_MAX as u64);
        }
    }
}

#[test]
fn a_window_counts_what_comes_by_descriptor() {
    let host = Arc::new(Host { keeps: true, ..Host::default() });
    let piece = Plain::extent(&vec![1; WINDOW as usize / 4], &host);
    let (body, mut writer) = Body::arriving_for(4 * WINDOW, BodyUse::Passing);
    for left in [3, 2, 1, 0] {
        assert!(writer.extend(&piece));
        assert_eq!((writer.allowed(), writer.grant()), (left * WINDOW / 4, None));
    }
    body.passed(WINDOW / 2);
    assert_eq!(writer.grant(), Some(WINDOW + WINDOW / 2));
}

#[test]
fn a_body_that_follows_another_passes_on_the_descriptors_of_both() {
    let host = Arc::new(Host { keeps: true, room: Some(100), ..Host::default() });
    let (body, mut writer) = Body::arriving_for(30, BodyUse::Whole);
    let (other, mut second) = Body::arriving_for(30, BodyUse::Whole);
    assert!(writer.extend(&Plain::extent(&pattern(0, 10), &host)));
    body.follow(&other);
    for at in [0, 10, 20] {
        assert!(second.extend(&Plain::extent(&pattern(at, 10), &host)));
    }
    for at in [0, 10, 20] {
        let extent = body.extent(at).unwrap();
        assert_eq!(extent.bytes(), pattern(at as usize, 10));
    }
    assert!(body.extent(5).is_none() && body.extent(30).is_none() && Body::whole("abc").extent(0).is_none());
    assert_eq!(body.bytes().unwrap(), pattern(0, 30));
}
