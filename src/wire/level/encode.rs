//! Encoding of level-n data: the default aggregation of replies.
//!
//! The format only prepends counts, so what a child sent stands unchanged in what its parent sends. Large parts are
//! passed on by reference; only small ones are copied, to keep the number of parts low. Children's data are not
//! looked into here: whoever reads the aggregate in the end decodes it.

use bytes::{Bytes, BytesMut};

use super::{LevelLimit, MAX_LEVEL};
use crate::wire::payload::Payload;

/// Parts shorter than this are copied together. To pass a part on by reference takes as long as copying 1 to 2 KiB
/// (`benches/level.rs`), at every level it goes through, and again an entry of the gather write, of which the system
/// takes 1,024 at a time: at this size they are 4 MiB, as much as a socket takes.
const COPY_BYTES_MAX: usize = 4096;

/// The prefix that lifts by 2,048 levels, kept once so that a longer lift is passed on by reference too.
static LIFT: [u8; COPY_BYTES_MAX] = {
    let mut ones = [b' '; COPY_BYTES_MAX];
    let mut at = 0;
    while at < ones.len() {
        ones[at] = b'1';
        at += 2;
    }
    ones
};

/// One value of some level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leveled {
    /// The level of the data.
    pub level: u16,
    /// Level-n data of that level, encoded.
    pub data: Payload,
}

/// Level-0 data: `byteCount SPACE bytes`. Bytes of 4 KiB or more are not copied.
pub fn level0(bytes: Bytes) -> Payload {
    if bytes.is_empty() {
        return Payload::from(Bytes::from_static(b"0 "));
    }
    let mut joiner = Joiner::with_capacity(count_bytes(bytes.len()) + small(&bytes));
    joiner.level0(bytes);
    joiner.finish()
}

/// Aggregates a process's own data and its children's, own data first, then the children's in the order given.
///
/// `own` are raw bytes, which become level-0 data; `None` if the process contributes nothing. The level of the
/// result is one more than the highest child's. Data of a lower level are lifted by wrapping them in values of one
/// member (`1 SPACE data`). Without children the result is `own` at level 0, and without anything an empty value of
/// level 1. Parts of 4 KiB or more are not copied.
///
/// A lift costs two bytes a level, so own data cost twice their height: nothing in a tree of logarithmic depth, but
/// a chain of n processes adds up to n² bytes of prefixes.
///
/// # Errors
/// If a child's data are of level [`MAX_LEVEL`]: there is no level above it.
pub fn aggregate(own: Option<Bytes>, children: &[Leveled]) -> Result<Leveled, LevelLimit> {
    aggregate_parts(own, children.iter().map(|child| (child.level, &child.data)))
}

/// Like [`aggregate`], of children's data that lie anywhere, each with its level.
///
/// # Errors
/// As for [`aggregate`].
pub fn aggregate_parts<'a>(
    own: Option<Bytes>,
    children: impl Iterator<Item = (u16, &'a Payload)> + Clone,
) -> Result<Leveled, LevelLimit> {
    let Some(highest) = children.clone().map(|(level, _)| level).max() else {
        return Ok(match own {
            Some(bytes) => Leveled { level: 0, data: level0(bytes) },
            None => Leveled { level: 1, data: Payload::from(Bytes::from_static(b"0 ")) },
        });
    };
    if highest == MAX_LEVEL {
        return Err(LevelLimit);
    }

    let members = children.clone().count() + usize::from(own.is_some());
    let copied = count_bytes(members) + copied(own.as_ref(), children.clone(), highest);
    let mut joiner = Joiner::with_capacity(copied);
    joiner.count(members);
    if let Some(bytes) = own {
        joiner.lift(highest);
        joiner.level0(bytes);
    }
    for (level, data) in children {
        joiner.lift(highest - level);
        data.parts().iter().for_each(|part| joiner.part(part));
    }
    Ok(Leveled { level: highest + 1, data: joiner.finish() })
}

/// Bytes of a count with its space.
fn count_bytes(count: usize) -> usize {
    count.checked_ilog10().unwrap_or(0) as usize + 2
}

/// How many bytes an aggregate copies behind its count.
fn copied<'a>(
    own: Option<&Bytes>,
    children: impl Iterator<Item = (u16, &'a Payload)>,
    highest: u16,
) -> usize {
    let own = own.map_or(0, |bytes| lift_copied(highest) + count_bytes(bytes.len()) + small(bytes));
    let of_child = |(level, data): (u16, &Payload)| {
        lift_copied(highest - level) + data.parts().iter().map(small).sum::<usize>()
    };
    own + children.map(of_child).sum::<usize>()
}

/// How many bytes of `part` are copied: all or none.
fn small(part: &Bytes) -> usize {
    if part.len() < COPY_BYTES_MAX { part.len() } else { 0 }
}

/// How many bytes of a lift are copied: what is not a multiple of the kept prefix.
fn lift_copied(levels: u16) -> usize {
    usize::from(levels) * 2 % LIFT.len()
}

/// Joins parts into a payload: small ones by copying them into one buffer, large ones by reference.
struct Joiner {
    out: Payload,
    /// Copied bytes that are not yet a part. One allocation serves all copied parts.
    small: BytesMut,
}

impl Joiner {
    fn with_capacity(copied: usize) -> Self {
        Self { out: Payload::new(), small: BytesMut::with_capacity(copied) }
    }

    fn count(&mut self, count: usize) {
        // From the last digit to the first, with a space behind it.
        let mut digits = [b' '; 21];
        let (mut at, mut rest) = (digits.len() - 1, count);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.small.extend_from_slice(&digits[at..]);
    }

    fn level0(&mut self, bytes: Bytes) {
        self.count(bytes.len());
        self.part(&bytes);
    }

    fn lift(&mut self, levels: u16) {
        let len = usize::from(levels) * 2;
        for _ in 0..len / LIFT.len() {
            self.part(&Bytes::from_static(&LIFT));
        }
        self.small.extend_from_slice(&LIFT[..lift_copied(levels)]);
    }

    fn part(&mut self, part: &Bytes) {
        if part.len() < COPY_BYTES_MAX {
            self.small.extend_from_slice(part);
        } else {
            self.flush();
            self.out.push(part.clone());
        }
    }

    fn flush(&mut self) {
        self.out.push(self.small.split().freeze());
    }

    /// What is left in the buffer becomes the last part: all of it where nothing was passed on by reference, and then it costs no second allocation.
    fn finish(mut self) -> Payload {
        self.out.push(self.small.freeze());
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Leveled) -> String {
        String::from_utf8(value.data.to_bytes().to_vec()).unwrap()
    }

    fn own(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn without_children_own_data_are_level_0() {
        assert_eq!(aggregate(own("abc"), &[]), Ok(Leveled { level: 0, data: b"3 abc".to_vec().into() }));
        assert_eq!(aggregate(own(""), &[]), Ok(Leveled { level: 0, data: b"0 ".to_vec().into() }));
    }

    #[test]
    fn nothing_at_all_is_an_empty_aggregate() {
        assert_eq!(aggregate(None, &[]), Ok(Leveled { level: 1, data: b"0 ".to_vec().into() }));
    }

    #[test]
    fn own_comes_first_and_lower_data_are_lifted() {
        let leaf = aggregate(own("c"), &[]).unwrap();
        let pair = aggregate(own("a"), &[aggregate(own("b"), &[]).unwrap()]).unwrap();
        assert_eq!((pair.level, &*text(&pair)), (1, "2 1 a1 b"));
        let top = aggregate(own("r"), &[pair.clone(), leaf]).unwrap();
        assert_eq!((top.level, &*text(&top)), (2, "3 1 1 r2 1 a1 b1 1 c"));
        let watched = aggregate(None, &[pair]).unwrap();
        assert_eq!((watched.level, &*text(&watched)), (2, "1 2 1 a1 b"));
    }

    #[test]
    fn large_parts_go_up_by_reference_and_small_ones_together() {
        let large = Bytes::from(vec![7; COPY_BYTES_MAX]);
        let mut value = aggregate(Some(large.clone()), &[]).unwrap();
        for level in 1..=10 {
            let leaf = aggregate(own("x"), &[]).unwrap();
            value = aggregate(own("y"), &[leaf.clone(), value, leaf]).unwrap();
            assert_eq!((value.level, value.data.parts().len()), (level, 3));
            assert_eq!(value.data.parts()[1].as_ptr(), large.as_ptr());
        }
    }

    #[test]
    fn a_part_just_under_the_bound_is_copied() {
        let data = level0(Bytes::from(vec![7; COPY_BYTES_MAX - 1]));
        assert_eq!((data.parts().len(), data.len()), (1, "4095 ".len() + 4095));
    }

    #[test]
    fn the_capacity_reckoned_is_what_is_copied() {
        for (level, len) in [(0, 1), (1, 4095), (2047, 4096), (2048, 0), (2049, 5000), (65_534, 100)] {
            let own = Bytes::from(vec![b'o'; len]);
            let low = aggregate(Some(own.clone()), &[]).unwrap();
            let high = Leveled { level, data: Payload::from(vec![b'h'; len]) };
            let of_children = [&low, &high].into_iter().flat_map(|child| child.data.parts());
            let sources: Vec<*const u8> =
                of_children.chain([&own]).map(|part| part.as_ptr()).chain([LIFT.as_ptr()]).collect();
            let reckoned = count_bytes(3)
                + copied(
                    Some(&own),
                    [&low, &high].map(|child| (child.level, &child.data)).into_iter(),
                    level,
                );
            let value = aggregate(Some(own), &[low, high]).unwrap();
            let kept = |part: &&Bytes| sources.contains(&part.as_ptr());
            let kept: usize = value.data.parts().iter().filter(kept).map(Bytes::len).sum();
            let copied = value.data.len() - kept;
            assert_eq!(copied, reckoned, "level {level}, {len} bytes");
        }
    }

    #[test]
    fn a_long_lift_is_exact_and_by_reference() {
        for levels in [0, 1, 2047, 2048, 2049, 5000, MAX_LEVEL - 1] {
            let high = Leveled { level: levels, data: Payload::from(b"H".to_vec()) };
            let value = aggregate(own("x"), &[high]).unwrap();
            assert_eq!(text(&value), format!("2 {}1 xH", "1 ".repeat(usize::from(levels))));
            assert_eq!(value.level, levels + 1);
            let statics = value.data.parts().iter().filter(|part| part.as_ptr() == LIFT.as_ptr()).count();
            assert_eq!(statics, usize::from(levels) / 2048);
        }
    }

    #[test]
    fn there_is_no_level_above_the_highest() {
        let highest = Leveled { level: MAX_LEVEL, data: Payload::from(b"0 ".to_vec()) };
        assert_eq!(aggregate(None, std::slice::from_ref(&highest)), Err(LevelLimit));
        assert!(LevelLimit.to_string().contains("65535"), "{LevelLimit}");
    }
}
