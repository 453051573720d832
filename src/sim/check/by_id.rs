//! What is known of pairs of ids: what the first knows of the second. Of most ids there are a few such, of a million ids millions: each id has its own, side by side, where a map of all would be searched through memory that is far apart.

use gpc_trees::Id;
use smallvec::SmallVec;

use crate::sim::ahead::soon;

/// A map by two ids. Bounded by the pairs that have talked. Of each id so many lie here that most know no more.
pub(super) struct ById<V, const HERE: usize> {
    /// By the first id: in the order of the second.
    all: Vec<SmallVec<[(Id, V); HERE]>>,
}

/// An id that knows so few gets room for one more at a time.
const FEW: usize = 4;

impl<V, const HERE: usize> Default for ById<V, HERE> {
    fn default() -> ById<V, HERE> {
        ById { all: Vec::new() }
    }
}

impl<V, const HERE: usize> ById<V, HERE> {
    /// What an id knows is to be looked at soon.
    pub(super) fn expect(&self, id: Id) {
        if let Some(known) = self.all.get(id as usize) {
            soon(known);
        }
    }

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
            self.all.resize_with(id as usize + 1, SmallVec::new);
        }
        let known = &mut self.all[id as usize];
        let place = match known.binary_search_by_key(&other, |(other, _)| *other) {
            Ok(place) => place,
            Err(place) => {
                if (HERE..FEW).contains(&known.len()) {
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
            if known.is_empty() && known.spilled() {
                // A million that are seldom used would keep room each.
                *known = SmallVec::new();
            }
        }
    }

    /// Forgets what an id knows.
    pub(super) fn forget(&mut self, id: Id) {
        self.all.get_mut(id as usize).into_iter().for_each(|known| *known = SmallVec::new());
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
            let (mut by_id, mut map) = (ById::<_, 1>::default(), BTreeMap::new());
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
