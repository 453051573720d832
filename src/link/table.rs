//! Table of connections by key. A key contains the index of its connection, so a lookup costs one access.
//!
//! A key is never reused. A reused slot gets a key with another number in front, so a late event finds nothing.

use super::peering::LinkKey;
use super::state::Link;

/// Bits of a key for the slot; the others number the connections. A process has far fewer descriptors.
const PLACE_BITS: u32 = 24;

/// The lowest slot in a key. Lower keys are free for other purposes of the driver.
pub const FIRST: usize = 16;

/// Maximum number of slots in which the only connection is searched.
const FEW: usize = 8;

/// A connection of the driver, with its link.
pub trait HasLink {
    /// The link.
    fn link(&self) -> &Link;
    /// The link, mutably.
    fn link_mut(&mut self) -> &mut Link;
}

/// Connections in numbered slots.
#[derive(Debug)]
pub struct Table<T> {
    places: Vec<Option<(LinkKey, T)>>,
    free: Vec<usize>,
    /// Number of connections that were ever added.
    count: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { places: Vec::new(), free: Vec::new(), count: 0 }
    }
}

fn place(key: LinkKey) -> usize {
    (key.0 & ((1 << PLACE_BITS) - 1)).wrapping_sub(FIRST)
}

impl<T> Table<T> {
    /// The key of the next connection that is [put](Self::put) here.
    pub fn next_key(&self) -> LinkKey {
        let place = self.free.last().copied().unwrap_or(self.places.len());
        LinkKey(self.count << PLACE_BITS | (place + FIRST))
    }

    /// Adds a connection under the next key.
    pub fn put(&mut self, connection: T) -> LinkKey {
        let key = self.next_key();
        self.count += 1;
        match self.free.pop() {
            Some(place) => self.places[place] = Some((key, connection)),
            None => self.places.push(Some((key, connection))),
        }
        key
    }

    /// Replaces a connection by the result of `change`.
    pub fn change(&mut self, key: LinkKey, change: impl FnOnce(T) -> T) {
        if let Some(found) = self.places.get_mut(place(key))
            && let Some((there, connection)) = found.take()
        {
            *found = Some((there, if there == key { change(connection) } else { connection }));
        }
    }

    /// The connection with this key.
    #[inline]
    pub fn get(&self, key: LinkKey) -> Option<&T> {
        match self.places.get(place(key)) {
            Some(Some((there, connection))) if *there == key => Some(connection),
            _ => None,
        }
    }

    /// The connection with this key, mutably.
    #[inline]
    pub fn get_mut(&mut self, key: LinkKey) -> Option<&mut T> {
        match self.places.get_mut(place(key)) {
            Some(Some((there, connection))) if *there == key => Some(connection),
            _ => None,
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, key: LinkKey) -> Option<T> {
        self.get(key)?;
        let (_, connection) = self.places.get_mut(place(key))?.take()?;
        self.free.push(place(key));
        Some(connection)
    }

    /// All connections, with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (LinkKey, &T)> {
        self.places.iter().flatten().map(|(key, connection)| (*key, connection))
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The only connection, if there is one and its search is short.
    pub fn only(&self) -> Option<(LinkKey, &T)> {
        let one = self.places.len() <= FEW && self.len() == 1;
        if one { self.iter().next() } else { None }
    }

    /// All connections, mutably.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten().map(|(_, connection)| connection)
    }

    /// All connections.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, connection)| connection)
    }
}

impl<T: HasLink> Table<T> {
    /// The link with this key.
    #[inline]
    pub fn link(&self, key: LinkKey) -> Option<&Link> {
        self.get(key).map(HasLink::link)
    }

    /// The link with this key, mutably.
    #[inline]
    pub fn link_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.get_mut(key).map(HasLink::link_mut)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Each key finds its own connection or none, whatever is added and removed.
        #[test]
        fn a_table_is_a_map_whose_keys_are_never_reused(deeds in proptest::collection::vec((any::<bool>(), 0usize..8), 0..60)) {
            let (mut table, mut model, mut gone) = (Table::default(), BTreeMap::new(), Vec::new());
            for (at, (comes, which)) in (0u32..).zip(deeds) {
                if comes {
                    let (key, next) = (table.next_key(), table.put(at));
                    prop_assert_eq!(key, next);
                    prop_assert!(key.0 >= FIRST && model.insert(key, at).is_none() && !gone.contains(&key));
                } else if let Some(&key) = model.keys().nth(which) {
                    prop_assert!(table.remove(key).is_some() && table.remove(key).is_none());
                    model.remove(&key);
                    gone.push(key);
                }
                for (&key, id) in &model {
                    prop_assert_eq!(table.get(key), Some(id));
                    prop_assert!(table.get_mut(key).is_some());
                }
                prop_assert!(gone.iter().all(|key| table.get(*key).is_none()));
                prop_assert_eq!((table.values().count(), table.len()), (model.len(), model.len()));
            }
            prop_assert!([0, 1, 2, 15, usize::MAX].iter().all(|key| table.get(LinkKey(*key)).is_none()));
        }
    }
}
