//! Accounts for the data of completions from parent resources: shared data count once.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Data that resources hold from their parents.
#[derive(Debug, Default)]
pub(super) struct Tops {
    /// Number of resources that hold each piece of data, keyed by its address and length. While one resource holds the
    /// data, no other data can have the same address.
    by_place: BTreeMap<(usize, usize), usize>,
}

fn place(data: &Bytes) -> (usize, usize) {
    (data.as_ptr().addr(), data.len())
}

impl Tops {
    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Bytes that one more resource with these data adds.
    pub(super) fn needed(&self, data: &Bytes) -> u64 {
        if self.by_place.contains_key(&place(data)) { 0 } else { data.len() as u64 }
    }

    /// Counts one more resource that holds these data.
    pub(super) fn add(&mut self, data: &Bytes) {
        *self.by_place.entry(place(data)).or_default() += 1;
    }

    /// Counts one resource less, and returns the bytes that this frees.
    pub(super) fn remove(&mut self, data: &Bytes) -> u64 {
        let Some(count) = self.by_place.get_mut(&place(data)) else { return 0 };
        *count -= 1;
        if *count > 0 {
            return 0;
        }
        self.by_place.remove(&place(data));
        data.len() as u64
    }
}
