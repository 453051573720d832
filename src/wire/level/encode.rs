//! Encoding of level-n data: the default aggregation of replies.
//!
//! The format only prepends counts, so a child's data stay unchanged within its parent's data. Large parts are passed
//! on by reference; small parts are copied, to keep the number of parts low. Children's data are not parsed here: the
//! final reader decodes the aggregate.
//!
//! If the short parts of a payload together reach the size of a part passed by reference, their list is passed by
//! reference too. So the ids of a long chain do not copy its prefixes again.

use bytes::{BufMut, Bytes, BytesMut};

use super::{LevelLimit, MAX_LEVEL};
use crate::wire::payload::{COPY_BYTES_MAX, Part, Payload, small};

/// The prefix that lifts by 2,048 levels, as a static so that longer lifts are passed by reference too.
static LIFT: [u8; COPY_BYTES_MAX] = {
    let mut ones = [b' '; COPY_BYTES_MAX];
    let mut at = 0;
    while at < ones.len() {
        ones[at] = b'1';
        at += 2;
    }
    ones
};

/// Encoded data together with their level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leveled {
    /// Level of the data.
    pub level: u16,
    /// Encoded level-n data of that level.
    pub data: Payload,
}

/// Level-0 data: `byteCount SPACE bytes`. Bytes of 4 KiB or more are not copied.
pub fn level0(bytes: impl Into<Bytes> + AsRef<[u8]>) -> Payload {
    let len = bytes.as_ref().len();
    if len < COPY_BYTES_MAX {
        return Payload::written(count_bytes(len) + len, |mut out| {
            let out = &mut out;
            count(out, len);
            out.put_slice(bytes.as_ref());
        });
    }
    let mut joiner = Joiner::with_capacity(count_bytes(len));
    count(&mut joiner.small, len);
    joiner.part(Part::Shared(&bytes.into()));
    joiner.finish()
}

/// Aggregates a process's own data and its children's data: own data first, then the children's in the given order.
///
/// `own` holds raw bytes, which become level-0 data; `None` if the process contributes nothing. The level of the result
/// is one more than the highest child's. Data of a lower level are lifted: `1 SPACE data` wraps them in a value of one
/// member. Without children the result is `own` at level 0; without children and `own` it is an empty value of level 1.
/// Parts of 4 KiB or more are not copied.
///
/// A lift costs two bytes a level, so lifting own data costs twice their height. This is negligible in a tree of
/// logarithmic depth, but a chain of n processes adds n² bytes of prefixes.
///
/// # Errors
/// If a child's data are of level [`MAX_LEVEL`]: there is no level above it.
pub fn aggregate(own: Option<Bytes>, children: &[Leveled]) -> Result<Leveled, LevelLimit> {
    aggregate_parts(own, children.iter().map(|child| (child.level, &child.data)))
}

/// Like [`aggregate`], for children's data that are stored anywhere, each with its level.
///
/// # Errors
/// As for [`aggregate`].
pub fn aggregate_parts<'a>(
    own: Option<impl Into<Bytes> + AsRef<[u8]>>,
    children: impl Iterator<Item = (u16, &'a Payload)> + Clone,
) -> Result<Leveled, LevelLimit> {
    let mut members = usize::from(own.is_some());
    let mut highest = None;
    for (level, _) in children.clone() {
        members += 1;
        highest = highest.max(Some(level));
    }
    let Some(highest) = highest else {
        return Ok(match own {
            Some(bytes) => Leveled { level: 0, data: level0(bytes) },
            None => Leveled { level: 1, data: Payload::copy_from_slice(b"0 ") },
        });
    };
    if highest == MAX_LEVEL {
        return Err(LevelLimit);
    }
    let Sizes { copied, all } = sizes(members, own.as_ref().map(AsRef::as_ref), children.clone(), highest);
    let data = if copied == all {
        Payload::written(copied, |mut out| {
            let out = &mut out;
            count(out, members);
            if let Some(bytes) = &own {
                lift(out, highest);
                count(out, bytes.as_ref().len());
                out.put_slice(bytes.as_ref());
            }
            for (level, data) in children {
                lift(out, highest - level);
                data.copy_to(out);
            }
        })
    } else {
        joined(members, own.map(Into::into), children, highest, copied)
    };
    Ok(Leveled { level: highest + 1, data })
}

/// Returns an aggregate with parts that are passed on by reference.
fn joined<'a>(
    members: usize,
    own: Option<Bytes>,
    children: impl Iterator<Item = (u16, &'a Payload)>,
    highest: u16,
    copied: usize,
) -> Payload {
    let mut joiner = Joiner::with_capacity(copied);
    count(&mut joiner.small, members);
    if let Some(bytes) = own {
        joiner.lift(highest);
        count(&mut joiner.small, bytes.len());
        joiner.part(Part::Shared(&bytes));
    }
    for (level, data) in children {
        joiner.lift(highest - level);
        joiner.payload(data);
    }
    joiner.finish()
}

/// Length of an aggregate, in bytes: the copied part and the whole.
struct Sizes {
    copied: usize,
    all: usize,
}

fn sizes<'a>(
    members: usize,
    own: Option<&[u8]>,
    children: impl Iterator<Item = (u16, &'a Payload)>,
    highest: u16,
) -> Sizes {
    let mut copied = count_bytes(members);
    let mut all = copied;
    if let Some(bytes) = own {
        let prefix = lift_copied(highest) + count_bytes(bytes.len());
        copied += prefix + small(bytes);
        all += prefix + lift_shared(highest) + bytes.len();
    }
    for (level, data) in children {
        let levels = highest - level;
        copied += lift_copied(levels) + data.len_copied();
        all += lift_copied(levels) + lift_shared(levels) + data.len();
    }
    Sizes { copied, all }
}

/// Length of a count and its space, in bytes.
#[inline(always)]
pub(crate) fn count_bytes(count: usize) -> usize {
    if count < 100 {
        return if count < 10 { 2 } else { 3 };
    }
    count.checked_ilog10().unwrap_or(0) as usize + 2
}

/// Bytes of a lift that are copied: the remainder beyond whole static prefixes.
fn lift_copied(levels: u16) -> usize {
    usize::from(levels) * 2 % LIFT.len()
}

/// Bytes of a lift that are passed by reference.
fn lift_shared(levels: u16) -> usize {
    usize::from(levels) * 2 - lift_copied(levels)
}

/// Appends a count and its space, the prefix of level-0 bytes and of the members of higher levels.
#[inline(always)]
pub fn count(out: &mut impl BufMut, count: usize) {
    if count < 10 {
        return out.put_slice(&[b'0' + count as u8, b' ']);
    }
    if count < 100 {
        return out.put_slice(&[b'0' + (count / 10) as u8, b'0' + (count % 10) as u8, b' ']);
    }
    long_count(out, count);
}

/// Appends a count of three digits or more.
fn long_count(out: &mut impl BufMut, count: usize) {
    // Written from the last digit to the first, in front of a space.
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
    out.put_slice(&digits[at..]);
}

/// Appends a lift by copying all of it: at most 2,048 levels.
#[inline(always)]
pub(crate) fn lift(out: &mut impl BufMut, levels: u16) {
    match levels {
        0 => {}
        1 => out.put_slice(b"1 "),
        _ => out.put_slice(&LIFT[..usize::from(levels) * 2]),
    }
}

/// Joins parts into a payload: small parts are copied into one buffer, large parts are passed by reference.
pub(in crate::wire) struct Joiner {
    out: Payload,
    /// Copied bytes that do not form a part yet. One allocation serves all copied parts.
    small: BytesMut,
}

impl Joiner {
    pub(in crate::wire) fn with_capacity(copied: usize) -> Self {
        Self { out: Payload::new(), small: BytesMut::with_capacity(copied) }
    }

    /// Appends a count and its space.
    pub(in crate::wire) fn count(&mut self, number: usize) {
        count(&mut self.small, number);
    }

    /// Appends all bytes of a payload.
    pub(in crate::wire) fn payload(&mut self, payload: &Payload) {
        if payload.parts().len() < 2 || payload.len_copied() > 0 {
            return payload.parts().for_each(|part| self.part(part));
        }
        self.flush();
        self.out.append(payload);
    }

    /// Appends bytes.
    pub(in crate::wire) fn bytes(&mut self, bytes: Bytes) {
        self.part(Part::Shared(&bytes));
    }

    pub(in crate::wire) fn lift(&mut self, levels: u16) {
        for _ in 0..lift_shared(levels) / LIFT.len() {
            self.part(Part::Shared(&Bytes::from_static(&LIFT)));
        }
        self.small.extend_from_slice(&LIFT[..lift_copied(levels)]);
    }

    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Shared(shared) if shared.len() >= COPY_BYTES_MAX => {
                self.flush();
                self.out.push(shared.clone());
            }
            copied => self.small.extend_from_slice(&copied),
        }
    }

    fn flush(&mut self) {
        self.out.push(self.small.split().freeze());
    }

    /// Returns the payload, with the rest of the buffer as its last part.
    pub(in crate::wire) fn finish(mut self) -> Payload {
        self.flush();
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
            assert_eq!(value.data.parts().nth(1).unwrap().as_ptr(), large.as_ptr());
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
            let of_children = of_children.map(|part| part.as_ptr());
            let sources: Vec<*const u8> = of_children.chain([own.as_ptr(), LIFT.as_ptr()]).collect();
            let children = [&low, &high].map(|child| (child.level, &child.data));
            let sizes = sizes(3, Some(&own), children.into_iter(), level);
            let value = aggregate(Some(own), &[low, high]).unwrap();
            let kept = |part: &Part<'_>| sources.contains(&part.as_ptr());
            let kept: usize = value.data.parts().filter(kept).map(|part| part.len()).sum();
            let reckoned = (sizes.copied, sizes.all);
            assert_eq!(reckoned, (value.data.len() - kept, value.data.len()), "level {level}, {len} bytes");
        }
    }

    #[test]
    fn a_long_lift_is_exact_and_by_reference() {
        for levels in [0, 1, 2047, 2048, 2049, 5000, MAX_LEVEL - 1] {
            let high = Leveled { level: levels, data: Payload::from(b"H".to_vec()) };
            let value = aggregate(own("x"), &[high]).unwrap();
            assert_eq!(text(&value), format!("2 {}1 xH", "1 ".repeat(usize::from(levels))));
            assert_eq!(value.level, levels + 1);
            let statics = value.data.parts().filter(|part| part.as_ptr() == LIFT.as_ptr()).count();
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
