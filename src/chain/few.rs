//! An ordered map of what is mostly one entry, and may be many thousands: one has no room of its own, and a few lie side by side.
//!
//! A map of the standard library takes the room of eleven with the first; a node that has had one call, of which a large world has a million, would hold mostly that.

use std::collections::BTreeMap;

/// So many entries lie side by side, which is as fast to search and to add to as a tree.
const FEW: usize = 4;

/// A map from `K` to `V`, in the order of its keys.
#[derive(Debug)]
pub(super) enum FewMap<K, V> {
    One((K, V)),
    /// None, or a few, in order.
    Few(Vec<(K, V)>),
    /// Two at least.
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> FewMap<K, V> {
        FewMap::Few(Vec::new())
    }
}

impl<K, V> FewMap<K, V> {
    /// All entries side by side, or else the map that they are in.
    #[inline]
    fn few(&self) -> Result<&[(K, V)], &BTreeMap<K, V>> {
        match self {
            FewMap::One(entry) => Ok(std::slice::from_ref(entry)),
            FewMap::Few(few) => Ok(few),
            FewMap::Many(many) => Err(many),
        }
    }
}

impl<K: Ord, V> FewMap<K, V> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.few().map_or_else(BTreeMap::len, <[_]>::len)
    }

    /// Asked after every input of a node.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, FewMap::Few(few) if few.is_empty())
    }

    /// The one entry, where there are no others.
    #[inline]
    pub(super) fn only(&self) -> Option<(&K, &V)> {
        match self.few() {
            Ok([(key, value)]) => Some((key, value)),
            _ => None,
        }
    }

    /// Takes out the one entry, where there are no others.
    pub(super) fn take_only(&mut self) -> Option<(K, V)> {
        match std::mem::take(self) {
            FewMap::One(entry) => Some(entry),
            FewMap::Few(mut few) if few.len() == 1 => few.pop(),
            others => {
                *self = others;
                None
            }
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self.few() {
            Ok(few) => few.iter().find(|(at, _)| at == key).map(|(_, value)| value),
            Err(many) => many.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            FewMap::One((at, value)) => (at == key).then_some(value),
            FewMap::Few(few) => few.iter_mut().find(|(at, _)| at == key).map(|(_, value)| value),
            FewMap::Many(many) => many.get_mut(key),
        }
    }

    /// Puts a value in, in place of the one that is there with this key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self {
            FewMap::One(_) => {
                let mut few = Vec::with_capacity(2);
                few.extend(std::mem::take(self).take_only());
                *self = FewMap::Few(few);
                self.insert(key, value);
            }
            FewMap::Few(few) if few.is_empty() => *self = FewMap::One((key, value)),
            FewMap::Few(few) => match few.binary_search_by(|(at, _)| at.cmp(&key)) {
                Ok(place) => few[place].1 = value,
                Err(_) if few.len() == FEW => {
                    let many = std::mem::take(few).into_iter().chain([(key, value)]);
                    *self = FewMap::Many(many.collect());
                }
                Err(place) => {
                    // No room is left over: there may be a million of these maps.
                    few.reserve_exact(1);
                    few.insert(place, (key, value));
                }
            },
            FewMap::Many(many) => {
                many.insert(key, value);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            FewMap::One((at, _)) if at == key => self.take_only().map(|(_, value)| value),
            FewMap::One(_) => None,
            FewMap::Few(few) => {
                let place = few.iter().position(|(at, _)| at == key)?;
                Some(few.remove(place).1)
            }
            FewMap::Many(many) => {
                let value = many.remove(key);
                if many.len() == 1 {
                    *self = many.pop_first().map_or_else(FewMap::default, FewMap::One);
                }
                value
            }
        }
    }

    /// The last entry whose key is not behind this one.
    pub(super) fn last_up_to(&self, key: &K) -> Option<(&K, &V)> {
        match self.few() {
            Ok(few) => few.iter().rev().find(|(at, _)| at <= key).map(|(at, value)| (at, value)),
            Err(many) => many.range(..=key).next_back(),
        }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match self.few() {
            Ok(few) => (few, None),
            Err(many) => (&[][..], Some(many)),
        };
        let few = few.iter().map(|(key, value)| (key, value));
        few.chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(deeds in proptest::collection::vec((0u8..7, 0u16..24, any::<u16>()), 0..120)) {
            let (mut map, mut model) = (FewMap::default(), BTreeMap::new());
            for (deed, key, value) in deeds {
                match deed {
                    0 | 1 => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    2 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    3 => prop_assert_eq!(map.last_up_to(&key), model.range(..=key).next_back()),
                    4 => {
                        let only = if model.len() == 1 { model.pop_first() } else { None };
                        prop_assert_eq!(map.take_only(), only);
                    }
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
