//! An ordered map of what is mostly one entry, and may be many thousands: a few lie side by side in no more room than they take.
//!
//! A map of the standard library takes the room of eleven with the first; a node that has had one call, of which a large world has a million, would hold mostly that.

use std::collections::BTreeMap;

/// So many entries lie side by side, which is as fast to search and to add to as a tree.
const FEW: usize = 4;

/// A map from `K` to `V`, in the order of its keys.
#[derive(Debug)]
pub(super) enum FewMap<K, V> {
    /// In order.
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> FewMap<K, V> {
        FewMap::Few(Vec::new())
    }
}

impl<K: Ord, V> FewMap<K, V> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            FewMap::Few(few) => few.len(),
            FewMap::Many(many) => many.len(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one entry, where there are no others.
    #[inline]
    pub(super) fn only(&self) -> Option<(&K, &V)> {
        match self {
            FewMap::Few(few) => match &few[..] {
                [(key, value)] => Some((key, value)),
                _ => None,
            },
            FewMap::Many(_) => None,
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self {
            FewMap::Few(few) => few.iter().find(|(at, _)| at == key).map(|(_, value)| value),
            FewMap::Many(many) => many.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            FewMap::Few(few) => few.iter_mut().find(|(at, _)| at == key).map(|(_, value)| value),
            FewMap::Many(many) => many.get_mut(key),
        }
    }

    /// Puts a value in, in place of the one that is there with this key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let FewMap::Few(few) = self else { return self.insert_among_many(key, value) };
        match few.binary_search_by(|(at, _)| at.cmp(&key)) {
            Ok(place) => few[place].1 = value,
            Err(_) if few.len() == FEW => {
                *self = FewMap::Many(std::mem::take(few).into_iter().collect());
                self.insert_among_many(key, value);
            }
            Err(place) => {
                if few.is_empty() {
                    few.reserve_exact(1);
                }
                few.insert(place, (key, value));
            }
        }
    }

    fn insert_among_many(&mut self, key: K, value: V) {
        if let FewMap::Many(many) = self {
            many.insert(key, value);
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            FewMap::Few(few) => {
                let place = few.iter().position(|(at, _)| at == key)?;
                Some(few.remove(place).1)
            }
            FewMap::Many(many) => {
                let value = many.remove(key);
                if many.is_empty() {
                    *self = FewMap::default();
                }
                value
            }
        }
    }

    /// The last entry whose key is not behind this one.
    pub(super) fn last_up_to(&self, key: &K) -> Option<(&K, &V)> {
        match self {
            FewMap::Few(few) => few.iter().rev().find(|(at, _)| at <= key).map(|(at, value)| (at, value)),
            FewMap::Many(many) => many.range(..=key).next_back(),
        }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match self {
            FewMap::Few(few) => (Some(few), None),
            FewMap::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(key, value)| (key, value));
        few.chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(deeds in proptest::collection::vec((0u8..5, 0u16..24, any::<u16>()), 0..120)) {
            let (mut map, mut model) = (FewMap::default(), BTreeMap::new());
            for (deed, key, value) in deeds {
                match deed {
                    0 | 1 => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    2 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    3 => prop_assert_eq!(map.last_up_to(&key), model.range(..=key).next_back()),
                    _ => {
                        prop_assert_eq!(map.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(map.get(&key), model.get(&key));
                    }
                }
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(map.iter().eq(&model));
            }
        }
    }
}
