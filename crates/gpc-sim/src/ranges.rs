//! Ranges of keys in ordered maps and sets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use gpc_trees::Id;

use chained_gpc::wire::CallId;

/// Removes a range of keys from a map, without visiting the others.
pub(crate) fn forget<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, keys: RangeInclusive<K>) {
    while let Some((&key, _)) = map.range(keys.clone()).next() {
        map.remove(&key);
    }
}

/// Removes a range of keys from a set.
pub(crate) fn forget_keys<K: Ord + Copy>(set: &mut BTreeSet<K>, keys: RangeInclusive<K>) {
    while let Some(&key) = set.range(keys.clone()).next() {
        set.remove(&key);
    }
}

/// The lowest and the highest possible name of a call.
pub(crate) const NAMES: [CallId; 2] =
    [CallId { root: 0, sequence: 0 }, CallId { root: Id::MAX, sequence: u64::MAX }];
