//! A map by pairs of ids: what one id knows of another. Most ids know few others, and a million ids have millions of
//! pairs. Each id's pairs lie together, while a single map would scatter them in memory.

use std::collections::BTreeMap;

use gpc_trees::Id;
use smallvec::SmallVec;

/// A map by two ids, bounded by the pairs that have communicated. `INLINE` pairs of an id are stored inline, enough for
/// most ids.
#[derive(Debug)]
pub(crate) struct ById<V, const INLINE: usize> {
    /// Indexed by the first id; sorted by the second.
    all: Vec<SmallVec<[(Id, V); INLINE]>>,
    /// Ids that know many others, added out of order: all their pairs are here, and none in `all`.
    many: BTreeMap<Id, BTreeMap<Id, V>>,
}

/// Up to this size, the list of an id grows by one.
const FEW: usize = 4;

/// From this size on, an insertion in the middle moves the list to a map of its own, instead of shifting the rest.
const MANY: usize = 1024;

impl<V, const INLINE: usize> Default for ById<V, INLINE> {
    fn default() -> ById<V, INLINE> {
        ById { all: Vec::new(), many: BTreeMap::new() }
    }
}

impl<V, const INLINE: usize> ById<V, INLINE> {
    /// Ids that an id knows, in ascending order.
    pub(crate) fn of(&self, id: Id) -> impl Iterator<Item = (Id, &V)> {
        let few = self.all.get(id as usize).into_iter().flatten().map(|(other, what)| (*other, what));
        let many = self.many.get(&id).into_iter().flatten().map(|(id, known)| (*id, known));
        few.chain(many)
    }

    pub(crate) fn of_mut(&mut self, id: Id) -> impl Iterator<Item = &mut V> {
        let few = self.all.get_mut(id as usize).into_iter().flatten().map(|(_, what)| what);
        few.chain(self.many.get_mut(&id).into_iter().flat_map(BTreeMap::values_mut))
    }

    pub(crate) fn get(&self, id: Id, other: Id) -> Option<&V> {
        let known = self.all.get(id as usize)?;
        match known.binary_search_by_key(&other, |(other, _)| *other) {
            Ok(place) => Some(&known[place].1),
            Err(_) => self.many.get(&id)?.get(&other),
        }
    }

    pub(crate) fn get_mut(&mut self, id: Id, other: Id) -> Option<&mut V> {
        let known = self.all.get_mut(id as usize)?;
        match known.binary_search_by_key(&other, |(other, _)| *other) {
            Ok(place) => Some(&mut known[place].1),
            Err(_) => self.many.get_mut(&id)?.get_mut(&other),
        }
    }

    /// The entry of a pair; inserts `new` if there is none.
    pub(crate) fn or_insert(&mut self, id: Id, other: Id, new: V) -> &mut V {
        if self.all.len() <= id as usize {
            self.all.resize_with(id as usize + 1, SmallVec::new);
        }
        let known = &mut self.all[id as usize];
        let place = known.binary_search_by_key(&other, |(other, _)| *other);
        if place.is_err_and(|place| place < known.len()) && known.len() >= MANY {
            self.many.insert(id, std::mem::take(known).into_iter().collect());
        }
        if let Some(many) = self.many.get_mut(&id) {
            return many.entry(other).or_insert(new);
        }
        let place = place.unwrap_or_else(|place| {
            if (INLINE..FEW).contains(&known.len()) {
                known.reserve_exact(1);
            }
            known.insert(place, (other, new));
            place
        });
        &mut known[place].1
    }

    pub(crate) fn remove(&mut self, id: Id, other: Id) {
        let Some(known) = self.all.get_mut(id as usize) else { return };
        if let Ok(place) = known.binary_search_by_key(&other, |(other, _)| *other) {
            known.remove(place);
            if known.is_empty() && known.spilled() {
                // A million empty lists would keep their memory.
                *known = SmallVec::new();
            }
        } else if let Some(many) = self.many.get_mut(&id) {
            many.remove(&other);
        }
    }

    /// Removes all entries of an id.
    pub(crate) fn forget(&mut self, id: Id) {
        self.all.get_mut(id as usize).into_iter().for_each(|known| *known = SmallVec::new());
        self.many.remove(&id);
    }

    /// All pairs, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ((Id, Id), &V)> {
        let ids = (0..).zip(&self.all).map(|(id, _)| id);
        ids.flat_map(|id| self.of(id).map(move |(other, what)| ((id, other), what)))
    }
}

#[cfg(test)]
mod tests {
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
                prop_assert_eq!(by_id.of(id).count(), map.range((id, 0)..=(id, Id::MAX)).count());
                let pairs: Vec<_> = map.iter().map(|(pair, what)| (*pair, what)).collect();
                prop_assert_eq!(by_id.iter().collect::<Vec<_>>(), pairs);
            }
        }
    }

    /// The root of a flat tree asked a hundred thousand ids out of order. Three quarters of the run went into shifting
    /// entries.
    #[test]
    fn many_are_known_in_any_order() {
        let (mut by_id, mut map) = (ById::<_, 1>::default(), BTreeMap::new());
        let others = (0..4 * MANY as Id).map(|step| step * 977 % 4099);
        for other in others.clone() {
            assert_eq!(by_id.or_insert(7, other, other), map.entry(other).or_insert(other));
        }
        assert!(by_id.all[7].is_empty() && by_id.many.len() == 1);
        for other in others.step_by(3) {
            by_id.remove(7, other);
            map.remove(&other);
            assert_eq!(by_id.get(7, other), None);
        }
        by_id.of_mut(7).for_each(|what| *what += 1);
        map.values_mut().for_each(|what| *what += 1);
        by_id.get_mut(7, 2).into_iter().for_each(|what| *what = 0);
        map.get_mut(&2).into_iter().for_each(|what| *what = 0);
        assert!(by_id.iter().eq(map.iter().map(|(other, what)| ((7, *other), what))));
        by_id.forget(7);
        assert_eq!(by_id.iter().count(), 0);
    }
}
