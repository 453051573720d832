//! Sealed memory: what is taken and what is refused, and regions against a plain buffer.

use std::fs::File;
use std::io::Write as _;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::*;

/// Memory with these bytes and these seals.
fn memory(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("by hand", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(memory);
    file.write_all(bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 4096 + seed) as u8).collect()
}

#[test]
fn sealed_memory_can_be_read_but_not_written() {
    let bytes = pattern(10_000, 1);
    let made = SealedFile::of(&bytes).unwrap();
    let taken = SealedFile::open(made.descriptor().try_clone().unwrap(), bytes.len()).unwrap();
    let (mapped, again) = (taken.map().unwrap(), taken.map().unwrap());
    let mut file = File::from(made.descriptor().try_clone().unwrap());
    assert!(file.write_all(b"x").is_err() && file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
    // A mapping stays when its descriptors go.
    drop((file, made, taken));
    assert_eq!((mapped.as_ref(), again.as_ref()), (&bytes[..], &bytes[..]));
}

#[test]
fn memory_that_could_change_or_vanish_is_rejected() {
    let bytes = pattern(8192, 2);
    let without = |seal| memory(&bytes, seals() - seal);
    let hole = memfd_create("a hole", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&hole, 8192).unwrap();
    fcntl_add_seals(&hole, seals()).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let (pipe, _end) = std::io::pipe().unwrap();
    let refused: Vec<(OwnedFd, &str)> = vec![
        (without(SealFlags::WRITE), "not sealed"),
        (memory(&bytes, (seals() - SealFlags::WRITE) | SealFlags::FUTURE_WRITE), "not sealed"),
        (without(SealFlags::SHRINK), "not sealed"),
        (without(SealFlags::GROW), "not sealed"),
        (without(SealFlags::SEAL), "not sealed"),
        (memory(&bytes[1..], seals()), "8191 bytes, not 8192"),
        (memory(&pattern(8193, 2), seals()), "8193 bytes, not 8192"),
        (memory(b"", seals()), "0 bytes, not 8192"),
        (hole, "never written"),
        (file.into(), "no sealed memory"),
        (pipe.into(), "no sealed memory"),
    ];
    for (descriptor, why) in refused {
        let error = SealedFile::open(descriptor, 8192).unwrap_err().to_string();
        assert!(error.contains(why), "{error:?} should say {why:?}");
    }
    assert!(SealedFile::open(memory(&bytes, seals()), 8192).is_ok());
}

#[derive(Clone, Debug)]
enum Step {
    /// Sealed memory of this length.
    Lay(usize),
    /// Copied bytes.
    Push(usize),
    /// A view of some bytes.
    View(prop::sample::Index, prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Around whole pages, and anything else.
    let length = || {
        prop_oneof![(0..4usize, 0..3usize).prop_map(|(p, o)| (p * 4096 + o).saturating_sub(1)), 0..9000usize]
    };
    let view =
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Step::View(a, b));
    prop::collection::vec(
        prop_oneof![3 => length().prop_map(Step::Lay), 3 => length().prop_map(Step::Push), 2 => view],
        0..30,
    )
}

proptest! {
    #[test]
    fn a_region_grows_and_its_views_stay(steps in steps(), length in 0..80_000usize) {
        let length = length.max(1);
        let (mut region, mut model, mut views) = (Region::reserve(length).unwrap(), Vec::new(), Vec::new());
        for (seed, step) in steps.into_iter().enumerate() {
            match step {
                Step::Lay(0) => {}
                Step::Lay(count) => {
                    let bytes = pattern(count, seed);
                    let laid = region.lay(&SealedFile::of(&bytes).unwrap());
                    prop_assert_eq!(laid.is_ok(), model.len() + count <= length);
                    if laid.is_ok() { model.extend(bytes) }
                }
                Step::Push(count) => {
                    let bytes = pattern(count, seed);
                    let pushed = region.push(&bytes);
                    prop_assert_eq!(pushed.is_ok(), model.len() + count <= length);
                    if pushed.is_ok() { model.extend(bytes) }
                }
                Step::View(one, two) => {
                    let (one, two) = (one.index(model.len() + 1), two.index(model.len() + 1));
                    let range = one.min(two)..one.max(two);
                    views.push((region.view(range.clone()), range));
                }
            }
            prop_assert_eq!(region.filled(), model.len());
        }
        drop(region);
        for (view, range) in views {
            prop_assert_eq!(view.as_ref(), &model[range]);
        }
    }
}

/// Where the system fails to map, others may have the addresses by then: they are left alone, and what is there stays.
#[test]
fn nothing_is_mapped_where_the_system_has_failed_once() {
    let page = page_size();
    let mut region = Region::reserve(8 * page).unwrap();
    region.push(&pattern(page + 5, 3)).unwrap();
    let failed = region.reserved.settle(Err(rustix::io::Errno::NOMEM), 2 * page..3 * page);
    assert_eq!(failed.unwrap_err().raw_os_error(), Some(12));
    // Within its own page there is room.
    region.push(&[7; 11]).unwrap();
    assert!(region.push(&pattern(page, 4)).is_err());
    assert!(region.lay(&SealedFile::of(&pattern(page, 4)).unwrap()).is_err());
    let view = region.view(0..page + 16);
    drop(region);
    assert_eq!(view.as_ref(), [pattern(page + 5, 3), vec![7; 11]].concat());
}

#[test]
fn addresses_that_there_are_not_are_not_reserved() {
    assert!(Region::reserve(usize::MAX).is_err() && Region::reserve(1 << 60).is_err());
}

#[test]
#[should_panic(expected = "what has not come cannot be read")]
fn bytes_that_have_not_arrived_cannot_be_read() {
    let mut region = Region::reserve(10_000).unwrap();
    region.push(b"abc").unwrap();
    region.view(1..4);
}
