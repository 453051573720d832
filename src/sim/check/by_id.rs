//! What is known of pairs of ids: what the first knows of the second. Of most ids there are a few such, of a million ids millions: each id has its own, side by side, where a map of all would be searched through memory that is far apart.

use gpc_trees::Id;

/// A map by two ids. Bounded by the pairs that have talked.
pub(super) struct ById<V> {
    /// By the first id: in the order of the second.
    all: Vec<Vec<(Id, V)>>,
}

/// An id that knows so few gets room for one more at a time.
const FEW: usize = 4;

impl<V> Default for ById<V> {
    fn default() -> ById<V> {
        ById { all: Vec::new() }
    }
}

impl<V> ById<V> {
    /// Those that an id knows.
    pub(super) fn of(&self, id: Id) -> &[(Id, V)] {
        self.all.get(id as usize).map_or(&[], |known| known)
    }

    pub(super) fn of_mut(&mut self, id: Id) -> &mut [(Id, V)] {
        self.all.get_mut(id as usize).map_or(&mut [], |known| known)
    }

    pub(super) fn get(&self, id: Id, other: Id) -> Option<&V> {
        let known = self.of(id);
        let place = known.binary_search_by_key(&other, |(other, _)| *other).ok()?;
        Some(&known[place].1)
    }

    pub(super) fn get_mut(&mut self, id: Id, other: Id) -> Option<&mut V> {
        let known = self.of_mut(id);
        let place = known.binary_search_by_key(&other, |(other, _)| *other).ok()?;
        Some(&mut known[place].1)
    }

    /// What an id knows of another: `new` if it has known nothing.
    pub(super) fn or_insert(&mut self, id: Id, other: Id, new: V) -> &mut V {
        if self.all.len() <= id as usize {
            self.all.resize_with(id as usize + 1, Vec::new);
        }
        let known = &mut self.all[id as usize];
        let place = match known.binary_search_by_key(&other, |(other, _)| *other) {
            Ok(place) => place,
            Err(place) => {
                if known.len() < FEW {
                    known.reserve_exact(1);
                }
                known.insert(place, (other, new));
                place
            }
        };
        &mut known[place].1
    }

    pub(super) fn remove(&mut self, id: Id, other: Id) {
        if let Some(known) = self.all.get_mut(id as usize)
            && let Ok(place) = known.binary_search_by_key(&other, |(other, _)| *other)
        {
            known.remove(place);
            if known.is_empty() {
                // A million that are seldom used would keep room each.
                *known = Vec::new();
            }
        }
    }

    /// Forgets what an id knows.
    pub(super) fn forget(&mut self, id: Id) {
        self.all.get_mut(id as usize).into_iter().for_each(|known| *known = Vec::new());
    }

    /// All pairs, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ((Id, Id), &V)> {
        let all = (0..).zip(&self.all);
        all.flat_map(|(id, known)| known.iter().map(move |(other, what)| ((id, *other), what)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_map_knows(steps: Vec<(u8, u8, Option<u8>)>) {
            let (mut by_id, mut map) = (ById::default(), BTreeMap::new());
            for (id, other, what) in steps {
                let (id, other) = (Id::from(id % 8), Id::from(other % 16));
                match what {
                    Some(what) => {
                        prop_assert_eq!(by_id.or_insert(id, other, what), map.entry((id, other)).or_insert(what));
                        by_id.get_mut(id, other).into_iter().for_each(|known| *known ^= 1);
                        map.get_mut(&(id, other)).into_iter().for_each(|known| *known ^= 1);
                    }
                    None if other == 3 => {
                        by_id.forget(id);
                        map.retain(|(of, _), _| *of != id);
                    }
                    None => {
                        by_id.remove(id, other);
                        map.remove(&(id, other));
                    }
                }
                prop_assert_eq!(by_id.get(id, other), map.get(&(id, other)));
                prop_assert_eq!(by_id.of(id).len(), map.range((id, 0)..=(id, Id::MAX)).count());
                let pairs: Vec<_> = map.iter().map(|(pair, what)| (*pair, what)).collect();
                prop_assert_eq!(by_id.iter().collect::<Vec<_>>(), pairs);
            }
        }
    }
}
