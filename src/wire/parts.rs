//! The data of a scatter call: one part for each id of a slice, in list order (docs/wire.md, "REQUEST").
//!
//! Beyond the source, whose calls send the same data to each id. The parts lie one after the other in one body, so a
//! subtree's parts are a range of it: they are shared, and forwarded while they arrive.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::BufMut;
use gpc_trees::Group;

use super::Body;

/// The parts of a slice of a scatter call.
#[derive(Clone)]
pub struct Parts {
    /// Where each part of the list that this slice comes from begins, and where the last one ends.
    offsets: Arc<[u64]>,
    /// The slice within that list.
    group: Group,
    body: Body,
}

impl Parts {
    /// Bytes of a part's length on the wire.
    pub(crate) const ENTRY: usize = 8;

    /// Returns the parts of these lengths, without their bytes; `None` if the lengths are too long together, or too
    /// many.
    pub fn of_lengths(lengths: impl ExactSizeIterator<Item = u64>) -> Option<Parts> {
        let len = u32::try_from(lengths.len()).ok()?;
        let mut offsets = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0u64;
        offsets.push(end);
        for length in lengths {
            end = end.checked_add(length)?;
            offsets.push(end);
        }
        Some(Parts { offsets: offsets.into(), group: Group { start: 0, len }, body: Body::default() })
    }

    /// Reads the lengths, without the bytes of the parts.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Parts> {
        let (lengths, _) = bytes.as_chunks::<{ Self::ENTRY }>();
        Parts::of_lengths(lengths.iter().map(|length| u64::from_le_bytes(*length)))
    }

    /// Appends the lengths.
    pub(crate) fn emit(&self, out: &mut impl BufMut) {
        self.lengths().for_each(|length| out.put_u64_le(length));
    }

    /// Number of parts.
    pub fn count(&self) -> u32 {
        self.group.len
    }

    /// Length of all parts together, in bytes.
    pub fn len(&self) -> u64 {
        self.end(self.group.len).saturating_sub(self.end(0))
    }

    /// Whether no part has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lengths of the parts, in list order.
    pub fn lengths(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.group.len).map(|place| self.end(place + 1).saturating_sub(self.end(place)))
    }

    /// The bytes of all parts.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Sets the bytes of all parts.
    pub fn set_body(&mut self, body: Body) {
        self.body = body;
    }

    /// The data of the first id of the slice.
    pub fn own(&self) -> Body {
        match self.group.len {
            // The same reader: a second one would hold up a body whose bytes are dropped once read.
            1 => self.body.clone(),
            _ => self.body.part(self.range(Group { start: 0, len: 1 })),
        }
    }

    /// The parts of a group of the slice.
    pub fn slice(&self, group: Group) -> Parts {
        let body = self.body.part(self.range(group));
        let start = self.group.start.saturating_add(group.start);
        Parts { offsets: self.offsets.clone(), group: Group { start, len: group.len }, body }
    }

    /// Where the parts of a group lie in the body.
    fn range(&self, group: Group) -> Range<u64> {
        let place = |place: u32| self.end(place).saturating_sub(self.end(0));
        place(group.start)..place(group.start.saturating_add(group.len))
    }

    /// Where the parts before `place` of the slice end, in the list that the slice comes from.
    fn end(&self, place: u32) -> u64 {
        let index = self.group.start.saturating_add(place) as usize;
        self.offsets.get(index).or(self.offsets.last()).copied().unwrap_or_default()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({} parts, {:?})", self.count(), self.body)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn pieces(parts: &Parts) -> Vec<Bytes> {
        let place = |start| parts.slice(Group { start, len: 1 }).own().bytes().unwrap();
        (0..parts.count()).map(place).collect()
    }

    #[test]
    fn lengths_without_an_end_are_no_parts() {
        assert!(Parts::of_lengths([u64::MAX, 1].into_iter()).is_none());
        let parts = Parts::of_lengths([u64::MAX, 0].into_iter()).unwrap();
        assert_eq!((parts.len(), parts.count(), parts.is_empty()), (u64::MAX, 2, false));
        assert!(Parts::of_lengths([].into_iter()).unwrap().is_empty());
    }

    proptest! {
        /// Slices of slices, of a body that is whole or still arriving, have the bytes of their parts.
        #[test]
        fn each_slice_has_its_parts(
            list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 1..9),
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
            came in any::<prop::sample::Index>(),
        ) {
            let all = list.concat();
            let mut parts = Parts::of_lengths(list.iter().map(|part| part.len() as u64)).unwrap();
            let (body, mut writer) = Body::arriving(all.len() as u64);
            parts.set_body(body);
            let start = cut.0.index(list.len());
            let len = 1 + cut.1.index(list.len() - start);
            let slice = parts.slice(Group { start: start as u32, len: len as u32 });
            let (came, before) = (came.index(all.len() + 1), list[..start].concat().len());
            writer.push(&all[..came]);
            let expected = list[start..start + len].concat();
            let arrived = came.saturating_sub(before).min(expected.len());
            prop_assert_eq!(slice.body().arrived(), arrived as u64);
            prop_assert_eq!(&slice.body().read(0, 100)[..], &expected[..arrived]);
            prop_assert!(slice.body().read(arrived as u64, 100).is_empty());
            writer.push(&all[came..]);
            prop_assert_eq!(slice.body().bytes().unwrap(), expected);
            prop_assert_eq!(slice.body().read(1, 2), slice.body().bytes().unwrap().slice(1.min(slice.len() as usize)..3.min(slice.len() as usize)));
            prop_assert_eq!(pieces(&slice), &list[start..start + len]);
            prop_assert!(slice.lengths().eq(list[start..start + len].iter().map(|part| part.len() as u64)));
            let mut bytes = Vec::new();
            slice.emit(&mut bytes);
            let read = Parts::parse(&bytes).unwrap();
            prop_assert!(read.lengths().eq(slice.lengths()) && read.len() == slice.len());
        }
    }
}
