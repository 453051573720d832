//! An ordered map that holds its first entry without an allocation.
//!
//! Most ids hold one call at a time, and a million ids that each hold one must fit into memory; few hold thousands, and those must be found
//! fast. What is beyond the first entry lies in a `BTreeMap`.

use std::collections::BTreeMap;
use std::fmt;

/// The least key and its value, and all others; `first` is `None` only when there are no others.
pub(super) struct Few<K, V> {
    first: Option<(K, V)>,
    rest: BTreeMap<K, V>,
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Few<K, V> {
        Few { first: None, rest: BTreeMap::new() }
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for Few<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> Few<K, V> {
    /// Puts a value under a key; what was there before is replaced.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match &mut self.first {
            None => self.first = Some((key, value)),
            Some(first) if key < first.0 => {
                let (later, old) = std::mem::replace(first, (key, value));
                self.rest.insert(later, old);
            }
            Some(first) if key == first.0 => first.1 = value,
            Some(_) => {
                self.rest.insert(key, value);
            }
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match &self.first {
            Some((first, value)) if first == key => Some(value),
            _ => self.rest.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.first {
            Some((first, value)) if first == key => Some(value),
            _ => self.rest.get_mut(key),
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match &self.first {
            Some((first, _)) if first == key => self.pop_first().map(|(_, value)| value),
            _ => self.rest.remove(key),
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<(K, V)> {
        let next = self.rest.pop_first();
        std::mem::replace(&mut self.first, next)
    }

    pub(super) fn first(&self) -> Option<&K> {
        self.first.as_ref().map(|(key, _)| key)
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// All of them, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first.iter().map(|(key, value)| (key, value)).chain(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is done to it, it is a `BTreeMap`.
        #[test]
        fn it_is_an_ordered_map(deeds in proptest::collection::vec((0u8..5, 0u8..8, any::<u16>()), 0..200)) {
            let (mut few, mut model) = (Few::default(), BTreeMap::new());
            for (deed, key, value) in deeds {
                match deed {
                    0 | 1 => {
                        few.insert(key, value);
                        model.insert(key, value);
                    }
                    2 => prop_assert_eq!(few.remove(&key), model.remove(&key)),
                    3 => prop_assert_eq!(few.pop_first(), model.pop_first()),
                    _ => {
                        few.get_mut(&key).into_iter().for_each(|there| *there = value);
                        model.get_mut(&key).into_iter().for_each(|there| *there = value);
                    }
                }
                prop_assert!(few.iter().eq(model.iter()));
                prop_assert_eq!(few.get(&key), model.get(&key));
                prop_assert_eq!(few.first(), model.first_key_value().map(|(key, _)| key));
                prop_assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
