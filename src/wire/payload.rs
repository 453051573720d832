//! A rope of bytes: data joined from parts without copying.
//!
//! Replies are aggregated at every level of a tree, and aggregation only prepends and concatenates. So a large reply is
//! handed unchanged from the link it arrives on to the link it leaves on, with one gather write. A payload never
//! changes the bytes of a part: parts are shared with their other holders.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use smallvec::{SmallVec, smallvec};

/// Number of bytes that `Debug` prints: enough to recognise a message, little enough for one line of a log.
const DEBUG_BYTES_MAX: usize = 32;

/// Number of bytes stored inline: enough for the unused header of a subtree of some ids, within the size of a payload
/// of shared bytes.
const INLINE_MAX: usize = 22;

/// Parts shorter than this are copied when payloads are joined. Passing a part by reference takes as long as copying 1
/// to 2 KiB (`benches/level.rs`), at every level. It also takes an entry of the gather write, of which the system
/// accepts 1,024 at a time: at this size they hold 4 MiB, as much as a socket takes.
pub(super) const COPY_BYTES_MAX: usize = 4096;

/// Payloads of fewer parts are appended part by part: for a short list that costs less than following a reference to
/// it.
const NESTED_MIN: usize = 8;

/// Maximum nesting depth of lists of parts. When a list at this depth is appended, its parts are copied one by one. A
/// chain of n ids does this n / 64 times instead of n times.
const DEPTH_MAX: u8 = 64;

/// An ordered list of byte parts that stands for their concatenation.
///
/// No part is empty. Two payloads are equal if their bytes are equal, whatever the cuts between their parts. A clone
/// shares the parts, and so does a payload that another is [appended](Self::append) to. A few bytes are stored inline
/// without an allocation, and a single part needs no list.
#[derive(Clone, Default)]
pub struct Payload(Repr);

/// Two nested enums, because `Bytes` has a niche: it marks the other variant at no cost in size.
#[derive(Clone)]
enum Repr {
    /// One part, too long to be stored inline.
    One(Bytes),
    Other(Other),
}

#[derive(Clone)]
enum Other {
    /// The first `len` of `bytes`.
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    /// Two or more parts.
    Many(Arc<Many>),
}

/// The size matters: every message and every retained answer holds two payloads.
const _: () = assert!(size_of::<Payload>() == size_of::<Bytes>());

#[derive(Clone, Default)]
struct Many {
    pieces: Vec<Piece>,
    /// Total length, in bytes.
    len: usize,
    /// Number of parts, including those of nested lists.
    count: usize,
    /// Total length of the parts shorter than [`COPY_BYTES_MAX`], in bytes.
    small: usize,
    /// Nesting depth of lists; 1 for a list without nested ones.
    depth: u8,
}

#[derive(Clone)]
enum Piece {
    Part(Bytes),
    Nested(Arc<Many>),
}

impl Many {
    fn push(&mut self, part: Bytes) {
        self.add(part.len(), 1, 0);
        self.small += small(&part);
        self.pieces.push(Piece::Part(part));
    }

    fn add(&mut self, len: usize, count: usize, depth: u8) {
        self.len = self.len.checked_add(len).expect("parts held once each fit in memory");
        self.count += count;
        self.depth = self.depth.max(depth + 1);
    }

    fn nest(&mut self, many: &Arc<Many>) {
        if many.count < NESTED_MIN || many.depth >= DEPTH_MAX {
            return many.parts().for_each(|part| self.push(part.clone()));
        }
        self.add(many.len, many.count, many.depth);
        self.small += many.small;
        self.pieces.push(Piece::Nested(many.clone()));
    }

    fn parts(&self) -> Leaves<'_> {
        Leaves(smallvec![self.pieces.iter()])
    }

    fn concat(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.parts().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}

/// Number of bytes of a part that are copied: all or none.
pub(super) fn small(part: &[u8]) -> usize {
    if part.len() < COPY_BYTES_MAX { part.len() } else { 0 }
}

/// Iterator over the parts of a list and of its nested lists.
#[derive(Clone)]
struct Leaves<'a>(SmallVec<[std::slice::Iter<'a, Piece>; 2]>);

impl<'a> Iterator for Leaves<'a> {
    type Item = &'a Bytes;

    fn next(&mut self) -> Option<&'a Bytes> {
        loop {
            match self.0.last_mut()?.next() {
                Some(Piece::Part(part)) => return Some(part),
                Some(Piece::Nested(many)) => self.0.push(many.pieces.iter()),
                None => drop(self.0.pop()),
            }
        }
    }
}

/// One part of a payload.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Stored in the payload itself.
    Held(&'a [u8]),
    /// Shared with other holders.
    Shared(&'a Bytes),
}

impl Default for Repr {
    fn default() -> Repr {
        Repr::Other(Other::Inline { len: 0, bytes: [0; INLINE_MAX] })
    }
}

impl<'a> Part<'a> {
    /// The bytes of the part.
    pub fn as_slice(self) -> &'a [u8] {
        match self {
            Part::Held(bytes) => bytes,
            Part::Shared(bytes) => bytes,
        }
    }
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Part<'_>> for Bytes {
    fn from(part: Part<'_>) -> Bytes {
        match part {
            Part::Held(bytes) => Bytes::copy_from_slice(bytes),
            Part::Shared(bytes) => bytes.clone(),
        }
    }
}

impl Payload {
    /// Returns an empty payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a payload with a copy of these bytes.
    pub fn copy_from_slice(bytes: &[u8]) -> Self {
        Self::inline(bytes).unwrap_or_else(|| Self(Repr::One(Bytes::copy_from_slice(bytes))))
    }

    /// Returns a payload of `len` bytes, written by `write`: inline if they are few, else in one allocation.
    #[allow(
        clippy::slow_vector_initialization,
        reason = "cleared memory comes the long way through the allocator"
    )]
    pub(crate) fn written(len: usize, write: impl FnOnce(&mut [u8])) -> Self {
        if len <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            write(&mut bytes[..len]);
            return Self(Repr::Other(Other::Inline { len: len as u8, bytes }));
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(len, 0);
        write(&mut bytes);
        bytes.into()
    }

    /// Returns a payload of `len` bytes. If they are few, `write` writes them inline; otherwise `append` appends them
    /// to memory that is not cleared first.
    pub(crate) fn made(len: usize, write: impl FnOnce(&mut [u8]), append: impl FnOnce(&mut Vec<u8>)) -> Self {
        if len <= INLINE_MAX {
            return Self::written(len, write);
        }
        let mut bytes = Vec::with_capacity(len);
        append(&mut bytes);
        debug_assert_eq!(bytes.len(), len, "a payload is as long as was said");
        bytes.into()
    }

    /// Returns the bytes as an inline payload, if they fit.
    fn inline(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self(Repr::Other(Other::Inline { len: from.len() as u8, bytes })))
    }

    /// Total length of all parts, in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Other(Other::Inline { len, .. }) => usize::from(*len),
            Repr::One(part) => part.len(),
            Repr::Other(Other::Many(many)) => many.len,
        }
    }

    /// Whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parts in order. No part is empty, and an empty payload has none.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'_>> + Clone {
        let none = || Leaves(SmallVec::new());
        let (single, many, left) = match &self.0 {
            Repr::Other(Other::Inline { len: 0, .. }) => (None, none(), 0),
            Repr::Other(Other::Inline { len, bytes }) => {
                (Some(Part::Held(&bytes[..usize::from(*len)])), none(), 1)
            }
            Repr::One(part) => (Some(Part::Shared(part)), none(), 1),
            Repr::Other(Other::Many(many)) => (None, many.parts(), many.count),
        };
        Parts { single, many, left }
    }

    /// Number of bytes that are copied when this payload is joined with others: those of its short parts, or 0 if these
    /// together are as long as a part that is not copied.
    pub(super) fn len_copied(&self) -> usize {
        match &self.0 {
            Repr::Other(Other::Inline { len, .. }) => usize::from(*len),
            Repr::One(part) => small(part),
            Repr::Other(Other::Many(many)) if many.small < COPY_BYTES_MAX => many.small,
            Repr::Other(Other::Many(_)) => 0,
        }
    }

    /// Appends all bytes to `out`.
    pub fn copy_to(&self, out: &mut impl BufMut) {
        match &self.0 {
            Repr::Other(Other::Inline { len, bytes }) => out.put_slice(&bytes[..usize::from(*len)]),
            Repr::One(part) => out.put_slice(part),
            Repr::Other(Other::Many(many)) => many.parts().for_each(|part| out.put_slice(part)),
        }
    }

    /// Appends `part`, by reference if it is long. An empty part is skipped.
    ///
    /// # Panics
    /// If the total length does not fit in a `usize`. This takes pushing one part repeatedly: distinct parts fit in
    /// memory.
    pub fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = Self::from(part);
            return;
        }
        self.many().push(part);
    }

    /// Appends all bytes of another payload. A long list of its parts is shared, so repeatedly prepending to a long
    /// payload does not become slower.
    ///
    /// # Panics
    /// As for [`push`](Self::push).
    pub fn append(&mut self, other: &Payload) {
        if self.is_empty() {
            return *self = other.clone();
        }
        match &other.0 {
            Repr::Other(Other::Many(many)) => self.many().nest(many),
            _ => other.parts().for_each(|part| self.push(part.into())),
        }
    }

    /// Returns the list of parts, after creating it if there is none.
    fn many(&mut self) -> &mut Many {
        if let Repr::Other(Other::Inline { .. }) | Repr::One(_) = &self.0 {
            let mut many = Many::default();
            self.parts().for_each(|part| many.push(part.into()));
            self.0 = Repr::Other(Other::Many(Arc::new(many)));
        }
        let Repr::Other(Other::Many(many)) = &mut self.0 else {
            unreachable!("it has just been made a list")
        };
        Arc::make_mut(many)
    }

    /// Returns up to `max` bytes from `offset`, from one part. The time is proportional to the number of parts before
    /// them.
    pub(super) fn read(&self, offset: u64, max: usize) -> Bytes {
        let Ok(mut offset) = usize::try_from(offset) else { return Bytes::new() };
        for part in self.parts() {
            if offset < part.len() {
                return Bytes::from(part).slice(offset..offset.saturating_add(max).min(part.len()));
            }
            offset -= part.len();
        }
        Bytes::new()
    }

    /// All bytes in one slice; copied if there are several parts.
    pub fn as_slice(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Repr::Other(Other::Inline { len, bytes }) => Cow::Borrowed(&bytes[..usize::from(*len)]),
            Repr::One(part) => Cow::Borrowed(part),
            Repr::Other(Other::Many(many)) => Cow::Owned(many.concat()),
        }
    }

    /// All bytes in one piece; shared if there is only one part, else copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Repr::Other(Other::Inline { len: 0, .. }) => Bytes::new(),
            Repr::Other(Other::Inline { len, bytes }) => Bytes::copy_from_slice(&bytes[..usize::from(*len)]),
            Repr::One(part) => part.clone(),
            Repr::Other(Other::Many(many)) => many.concat().into(),
        }
    }

    /// Like [`to_bytes`](Self::to_bytes), but moves a single part out, so that the receiver may become its only owner.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::One(part) => part,
            _ => self.to_bytes(),
        }
    }
}

/// Iterator over the parts of a payload.
#[derive(Clone)]
struct Parts<'a> {
    single: Option<Part<'a>>,
    many: Leaves<'a>,
    left: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let next = self.single.take().or_else(|| self.many.next().map(Part::Shared));
        self.left -= usize::from(next.is_some());
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Parts<'_> {}

impl From<Bytes> for Payload {
    fn from(part: Bytes) -> Self {
        Self::inline(&part).unwrap_or(Self(Repr::One(part)))
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::inline(&bytes).unwrap_or_else(|| Self(Repr::One(bytes.into())))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && same_bytes(self.parts(), other.parts())
    }
}

impl Eq for Payload {}

/// Compares two lists of the same total length, piece by piece.
fn same_bytes<'a>(left: impl Iterator<Item = Part<'a>>, mut right: impl Iterator<Item = Part<'a>>) -> bool {
    let mut theirs: &[u8] = &[];
    for part in left {
        let mut ours = part.as_slice();
        while !ours.is_empty() {
            if theirs.is_empty() {
                theirs = right.next().map_or(&[], Part::as_slice);
            }
            let cut = ours.len().min(theirs.len());
            if cut == 0 || ours[..cut] != theirs[..cut] {
                return false;
            }
            (ours, theirs) = (&ours[cut..], &theirs[cut..]);
        }
    }
    true
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes in {} parts: \"", self.len(), self.parts().len())?;
        let bytes = self.parts().flat_map(Part::as_slice);
        for byte in bytes.take(DEBUG_BYTES_MAX) {
            write!(f, "{}", byte.escape_ascii())?;
        }
        f.write_str(if self.len() > DEBUG_BYTES_MAX { "\"...)" } else { "\")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `bytes` cut into parts at the given places (taken modulo the length).
    fn cut(bytes: &[u8], places: &[usize]) -> Payload {
        let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let mut payload = Payload::new();
        for pair in places.windows(2) {
            payload.push(Bytes::copy_from_slice(&bytes[pair[0]..pair[1]]));
        }
        payload
    }

    #[test]
    fn empty_parts_are_left_out() {
        let mut payload = Payload::from(Vec::new());
        payload.push(Bytes::new());
        assert!(payload.is_empty() && payload.parts().len() == 0);
        assert_eq!(payload, Payload::new());
        assert_eq!(payload.to_bytes(), payload.clone().into_bytes());
        assert_eq!(payload.into_bytes(), Bytes::new());
    }

    #[test]
    fn one_part_is_shared_and_not_copied() {
        let part = Bytes::from(vec![7; 100]);
        let payload = Payload::from(part.clone());
        assert_eq!(payload.to_bytes().as_ptr(), part.as_ptr());
        assert_eq!(payload.into_bytes().as_ptr(), part.as_ptr());
    }

    #[test]
    fn debug_shows_the_beginning_alone() {
        let mut payload = Payload::from(b"8 \x00\n".to_vec());
        assert_eq!(format!("{payload:?}"), r#"Payload(4 bytes in 1 parts: "8 \x00\n")"#);
        payload.push(Bytes::from(vec![b'x'; 100]));
        let text = format!("{payload:?}");
        assert!(text.ends_with("xx\"...)") && text.len() < 100, "{text}");
    }

    #[test]
    fn a_long_chain_of_payloads_shares_its_lists() {
        let mut bytes = Vec::new();
        let mut payload = Payload::from(vec![b'.'; 30]);
        for step in 0..1000u32 {
            let mut longer = Payload::from(format!("{step:030}").into_bytes());
            longer.append(&payload);
            bytes.splice(0..0, format!("{step:030}").into_bytes());
            payload = longer;
            let Repr::Other(Other::Many(many)) = &payload.0 else { panic!("{payload:?}") };
            assert!(many.depth <= DEPTH_MAX && many.pieces.len() <= (step + 2) as usize);
        }
        bytes.extend(vec![b'.'; 30]);
        assert_eq!((payload.len(), payload.parts().len(), payload.len_copied()), (30_030, 1001, 0));
        assert_eq!((&payload.to_bytes()[..], &payload.clone().into_bytes()[..]), (&bytes[..], &bytes[..]));
        assert!((0..30_030).step_by(7).all(|at| payload.read(at, 1)[0] == bytes[at as usize]));
        assert!(payload.read(30_030, 1).is_empty());
    }

    proptest! {
        #[test]
        fn a_payload_is_the_concatenation_of_its_parts(
            bytes in prop::collection::vec(0u8..4, 0..60),
            some in prop::collection::vec(any::<usize>(), 0..6),
            others in prop::collection::vec(any::<usize>(), 0..6),
            flip in any::<prop::sample::Index>(),
        ) {
            let (one, two) = (cut(&bytes, &some), cut(&bytes, &others));
            prop_assert_eq!(one.len(), bytes.len());
            prop_assert_eq!(&one, &two);
            prop_assert_eq!(&one.to_bytes()[..], &bytes[..]);
            prop_assert_eq!(&two.clone().into_bytes()[..], &bytes[..]);
            prop_assert!(one.parts().all(|part| !part.is_empty()));

            let longer = cut(&[&bytes[..], &[9]].concat(), &others);
            prop_assert_ne!(&one, &longer);
            if !bytes.is_empty() {
                let mut changed = bytes.clone();
                changed[flip.index(bytes.len())] ^= 0x80;
                prop_assert_ne!(&one, &cut(&changed, &others));
            }
        }
    }
}
