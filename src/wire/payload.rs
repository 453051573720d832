//! A rope of bytes: data that are put together from parts without being copied together.
//!
//! Replies are aggregated at every level of a tree, and aggregation only prepends and concatenates, so the bytes of
//! a large reply can be handed from the link they arrived on to the link they leave on (one gather write) as they
//! are. A payload never changes the bytes of a part: parts are shared with whoever else holds them.

use std::fmt;

use bytes::{Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};

/// How many bytes `Debug` shows: enough to recognise a message, little enough for one line of a log.
const DEBUG_BYTES_MAX: usize = 32;

/// An ordered list of byte parts that stands for their concatenation.
///
/// No part is empty. Two payloads are equal if their bytes are, wherever they are cut into parts. A clone shares
/// the parts. One part, as small replies are, is held without an allocation.
#[derive(Clone, Default)]
pub struct Payload {
    parts: SmallVec<[Bytes; 1]>,
    len: usize,
}

impl Payload {
    /// A payload of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Total length of all parts, in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts in order, none of them empty; an empty payload has none.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// Adds `part` at the end, by reference. An empty part is left out.
    ///
    /// # Panics
    /// If the total length does not fit in a `usize`, which takes one part pushed again and again: parts that are
    /// held once each fit in memory.
    pub fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        self.len = self.len.checked_add(part.len()).expect("parts held once each fit in memory");
        self.parts.push(part);
    }

    /// All bytes in one piece; shares the part if there is only one, else copies.
    pub fn to_bytes(&self) -> Bytes {
        match &self.parts[..] {
            [] => Bytes::new(),
            [part] => part.clone(),
            parts => {
                let mut all = BytesMut::with_capacity(self.len);
                for part in parts {
                    all.extend_from_slice(part);
                }
                all.freeze()
            }
        }
    }

    /// Like [`to_bytes`](Self::to_bytes), and gives the only part away, so that its holder may be its sole owner.
    pub fn into_bytes(mut self) -> Bytes {
        if self.parts.len() > 1 {
            return self.to_bytes();
        }
        self.parts.pop().unwrap_or_default()
    }
}

impl From<Bytes> for Payload {
    fn from(part: Bytes) -> Self {
        if part.is_empty() {
            return Self::new();
        }
        Self { len: part.len(), parts: smallvec![part] }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && same_bytes(&self.parts, &other.parts)
    }
}

impl Eq for Payload {}

/// Compares two lists of the same total length, cut by cut. Empty parts would be harmless.
fn same_bytes(left: &[Bytes], right: &[Bytes]) -> bool {
    let mut rights = right.iter();
    let mut theirs: &[u8] = &[];
    for part in left {
        let mut ours: &[u8] = part;
        while !ours.is_empty() {
            if theirs.is_empty() {
                let Some(next) = rights.next() else { return false };
                theirs = next;
            }
            let cut = ours.len().min(theirs.len());
            if ours[..cut] != theirs[..cut] {
                return false;
            }
            (ours, theirs) = (&ours[cut..], &theirs[cut..]);
        }
    }
    true
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes in {} parts: \"", self.len, self.parts.len())?;
        for byte in self.parts.iter().flat_map(|part| part.iter()).take(DEBUG_BYTES_MAX) {
            write!(f, "{}", byte.escape_ascii())?;
        }
        f.write_str(if self.len > DEBUG_BYTES_MAX { "\"...)" } else { "\")" })
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
        assert!(payload.is_empty() && payload.parts().is_empty());
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
            prop_assert!(one.parts().iter().all(|part| !part.is_empty()));

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
