//! The links of a node by their keys. A key contains the place of its link, so that a message finds its links quickly.
//!
//! A key is never reused. A reused place gets a key with another number in front, so that a late event finds no link.

use super::link::Link;
use crate::peering::LinkKey;

/// Bits of a key that say where its link lies; the others count the links. A process has far fewer descriptors.
const PLACE_BITS: u32 = 24;

/// The first place: below are the keys of what is no link.
pub(super) const FIRST: usize = 16;

/// Places that are looked through for the only link.
const FEW: usize = 8;

/// Links at their places.
#[derive(Debug, Default)]
pub(super) struct LinkTable {
    places: Vec<Option<(LinkKey, Link)>>,
    free: Vec<usize>,
    /// Links that there have been.
    count: usize,
}

fn place(key: LinkKey) -> usize {
    (key.0 & ((1 << PLACE_BITS) - 1)).wrapping_sub(FIRST)
}

impl LinkTable {
    /// The key of the next link that is [put](Self::put) here.
    pub(super) fn next_key(&self) -> LinkKey {
        let place = self.free.last().copied().unwrap_or(self.places.len());
        LinkKey(self.count << PLACE_BITS | (place + FIRST))
    }

    /// Puts a link where its key says.
    pub(super) fn put(&mut self, link: Link) -> LinkKey {
        let key = self.next_key();
        self.count += 1;
        match self.free.pop() {
            Some(place) => self.places[place] = Some((key, link)),
            None => self.places.push(Some((key, link))),
        }
        key
    }

    /// Puts another link in a link's place, made of it.
    pub(super) fn change(&mut self, key: LinkKey, change: impl FnOnce(Link) -> Link) {
        if let Some(found) = self.places.get_mut(place(key))
            && let Some((there, link)) = found.take()
        {
            *found = Some((there, if there == key { change(link) } else { link }));
        }
    }

    pub(super) fn get(&self, key: LinkKey) -> Option<&Link> {
        match self.places.get(place(key)) {
            Some(Some((there, link))) if *there == key => Some(link),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: LinkKey) -> Option<&mut Link> {
        match self.places.get_mut(place(key)) {
            Some(Some((there, link))) if *there == key => Some(link),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, key: LinkKey) -> Option<Link> {
        self.get(key)?;
        let (_, link) = self.places.get_mut(place(key))?.take()?;
        self.free.push(place(key));
        Some(link)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkKey, &Link)> {
        self.places.iter().flatten().map(|(key, link)| (*key, link))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The link, where there is but one and it is soon found.
    pub(super) fn only(&self) -> Option<(LinkKey, &Link)> {
        let one = self.places.len() <= FEW && self.len() == 1;
        if one { self.iter().next() } else { None }
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.places.iter_mut().flatten().map(|(_, link)| link)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Link> {
        self.iter().map(|(_, link)| link)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::runtime::link::Phase;
    use crate::runtime::shm::Extents;
    use crate::runtime::socket::Socket;

    fn link(id: u32) -> Link {
        let (socket, _) = mio::net::UnixStream::pair().unwrap();
        Link::new(Socket::Unix(socket), Phase::Up(id), Extents::default())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever comes and goes, a key finds its own link or none.
        #[test]
        fn it_is_a_map_whose_keys_are_never_used_twice(deeds in proptest::collection::vec((any::<bool>(), 0usize..8), 0..60)) {
            let (mut table, mut model, mut gone) = (LinkTable::default(), BTreeMap::new(), Vec::new());
            for (at, (comes, which)) in (0u32..).zip(deeds) {
                if comes {
                    let (key, next) = (table.next_key(), table.put(link(at)));
                    prop_assert_eq!(key, next);
                    prop_assert!(key.0 >= FIRST && model.insert(key, at).is_none() && !gone.contains(&key));
                } else if let Some(&key) = model.keys().nth(which) {
                    prop_assert!(table.remove(key).is_some() && table.remove(key).is_none());
                    model.remove(&key);
                    gone.push(key);
                }
                for (&key, &id) in &model {
                    prop_assert!(table.get(key).is_some_and(|link| link.phase == Phase::Up(id)));
                    prop_assert!(table.get_mut(key).is_some());
                }
                prop_assert!(gone.iter().all(|key| table.get(*key).is_none()));
                prop_assert_eq!((table.values().count(), table.len()), (model.len(), model.len()));
            }
            prop_assert!([0, 1, 2, 15, usize::MAX].iter().all(|key| table.get(LinkKey(*key)).is_none()));
        }
    }
}
