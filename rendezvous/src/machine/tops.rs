//! The data of completions from above, as far as they count: once, however many resources have the same copy.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Data that resources have from above.
#[derive(Debug, Default)]
pub(super) struct Tops {
    /// How many resources have each, by where in memory it begins and how long it is. As long as one has it, nothing else is there.
    by_place: BTreeMap<(usize, usize), usize>,
}

fn place(data: &Bytes) -> (usize, usize) {
    (data.as_ptr().addr(), data.len())
}

impl Tops {
    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// What one more resource with these data takes, bytes.
    pub(super) fn needed(&self, data: &Bytes) -> u64 {
        if self.by_place.contains_key(&place(data)) { 0 } else { data.len() as u64 }
    }

    /// One more resource has them.
    pub(super) fn add(&mut self, data: &Bytes) {
        *self.by_place.entry(place(data)).or_default() += 1;
    }

    /// One resource that had them no longer does: gives what that frees, bytes.
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
