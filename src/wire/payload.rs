//! A rope of bytes: data that are put together from parts without being copied together.
//!
//! Replies are aggregated at every level of a tree, and aggregation only prepends and concatenates, so the bytes of
//! a large reply can be handed from the link they arrived on to the link they leave on (one gather write) as they
//! are. A payload never changes the bytes of a part: parts are shared with whoever else holds them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::{BufMut, Bytes};

/// How many bytes `Debug` shows: enough to recognise a message, little enough for one line of a log.
const DEBUG_BYTES_MAX: usize = 32;

/// Bytes that lie in the payload itself: the header that nobody uses, of a subtree of some ids, in no more room than a payload of shared bytes needs.
const INLINE_MAX: usize = 23;

/// An ordered list of byte parts that stands for their concatenation.
///
/// No part is empty. Two payloads are equal if their bytes are, wherever they are cut into parts. A clone shares
/// the parts. Few bytes are held without an allocation, and one part without one of its own.
#[derive(Clone, Default)]
pub struct Payload(Repr);

#[derive(Clone)]
enum Repr {
    /// The first `len` of these.
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    /// More than fit inline.
    One(Bytes),
    /// Two or more parts.
    Many(Box<Many>),
}

#[derive(Clone)]
struct Many {
    parts: Vec<Bytes>,
    len: usize,
}

/// One part of a payload.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Held by the payload itself.
    Held(&'a [u8]),
    /// Shared with whoever else holds it.
    Shared(&'a Bytes),
}

impl Default for Repr {
    fn default() -> Repr {
        Repr::Inline { len: 0, bytes: [0; INLINE_MAX] }
    }
}

impl<'a> Part<'a> {
    /// Its bytes.
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
    /// A payload of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// A payload of these bytes, copied.
    pub fn copy_from_slice(bytes: &[u8]) -> Self {
        Self::inline(bytes).unwrap_or_else(|| Self(Repr::One(Bytes::copy_from_slice(bytes))))
    }

    /// So many bytes, which `write` writes: few into the payload itself, more into one allocation.
    #[allow(
        clippy::slow_vector_initialization,
        reason = "cleared memory comes the long way through the allocator"
    )]
    pub(crate) fn written(len: usize, write: impl FnOnce(&mut [u8])) -> Self {
        if len <= INLINE_MAX {
            let mut bytes = [0; INLINE_MAX];
            write(&mut bytes[..len]);
            return Self(Repr::Inline { len: len as u8, bytes });
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(len, 0);
        write(&mut bytes);
        bytes.into()
    }

    /// So many bytes: few are written where they stay, by `write`; more are appended, by `append`, and not cleared before.
    pub(crate) fn made(len: usize, write: impl FnOnce(&mut [u8]), append: impl FnOnce(&mut Vec<u8>)) -> Self {
        if len <= INLINE_MAX {
            return Self::written(len, write);
        }
        let mut bytes = Vec::with_capacity(len);
        append(&mut bytes);
        debug_assert_eq!(bytes.len(), len, "a payload is as long as was said");
        bytes.into()
    }

    /// What has room in the payload itself.
    fn inline(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self(Repr::Inline { len: from.len() as u8, bytes }))
    }

    /// Total length of all parts, in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Inline { len, .. } => usize::from(*len),
            Repr::One(part) => part.len(),
            Repr::Many(many) => many.len,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The parts in order, none of them empty; an empty payload has none.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'_>> + Clone {
        let (held, shared): (&[u8], &[Bytes]) = match &self.0 {
            Repr::Inline { len, bytes } => (&bytes[..usize::from(*len)], &[]),
            Repr::One(part) => (&[], std::slice::from_ref(part)),
            Repr::Many(many) => (&[], &many.parts),
        };
        Parts { held, shared: shared.iter() }
    }

    /// Total length of the parts that are shorter than `below`, in bytes.
    pub(super) fn len_of_small(&self, below: usize) -> usize {
        let small = |part: &Bytes| if part.len() < below { part.len() } else { 0 };
        match &self.0 {
            Repr::Inline { len, .. } => usize::from(*len),
            Repr::One(part) => small(part),
            Repr::Many(many) => many.parts.iter().map(small).sum(),
        }
    }

    /// Appends all bytes.
    pub fn copy_to(&self, out: &mut impl BufMut) {
        match &self.0 {
            Repr::Inline { len, bytes } => out.put_slice(&bytes[..usize::from(*len)]),
            Repr::One(part) => out.put_slice(part),
            Repr::Many(many) => many.parts.iter().for_each(|part| out.put_slice(part)),
        }
    }

    /// Adds `part` at the end, by reference if there is much of it. An empty part is left out.
    ///
    /// # Panics
    /// If the total length does not fit in a `usize`, which takes one part pushed again and again: parts that are
    /// held once each fit in memory.
    pub fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = Self::from(part);
            return;
        }
        let len = self.len().checked_add(part.len()).expect("parts held once each fit in memory");
        let Repr::Many(many) = &mut self.0 else {
            let parts = self.parts().map(Bytes::from).chain([part]).collect();
            self.0 = Repr::Many(Box::new(Many { parts, len }));
            return;
        };
        many.parts.push(part);
        many.len = len;
    }

    /// All bytes in one piece; copies if there are several.
    pub fn as_slice(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Repr::Inline { len, bytes } => Cow::Borrowed(&bytes[..usize::from(*len)]),
            Repr::One(part) => Cow::Borrowed(part),
            Repr::Many(many) => Cow::Owned(many.parts.concat()),
        }
    }

    /// All bytes in one piece; shares the part if there is only one, else copies.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Repr::Inline { len: 0, .. } => Bytes::new(),
            Repr::Inline { len, bytes } => Bytes::copy_from_slice(&bytes[..usize::from(*len)]),
            Repr::One(part) => part.clone(),
            Repr::Many(many) => many.parts.concat().into(),
        }
    }

    /// Like [`to_bytes`](Self::to_bytes), and gives the only part away, so that its holder may be its sole owner.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::One(part) => part,
            _ => self.to_bytes(),
        }
    }
}

/// The parts of a payload.
#[derive(Clone)]
struct Parts<'a> {
    held: &'a [u8],
    shared: std::slice::Iter<'a, Bytes>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        match std::mem::take(&mut self.held) {
            [] => self.shared.next().map(Part::Shared),
            held => Some(Part::Held(held)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(!self.held.is_empty()) + self.shared.len();
        (left, Some(left))
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

/// Compares two lists of the same total length, cut by cut.
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
