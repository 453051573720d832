//! Half-open connections: accepted connections that are not links yet. Their number is bounded per source address and
//! in total. At a bound, the oldest is closed, first among those of the same address.

use std::collections::{BTreeMap, BTreeSet};

use super::greeting::Source;
use super::peer::LinkKey;

/// Maximum number of half-open connections: more than all nodes of a large machine open at once, few enough to leave
/// descriptors.
pub const HALF_OPEN_MAX: usize = 16_384;

/// Maximum number from one address: as many processes of a job as one host starts, and a quarter of the total.
pub const HALF_OPEN_PER_SOURCE: usize = HALF_OPEN_MAX / 4;

/// The half-open connections. Keys increase, so the lowest is the oldest.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    all: BTreeSet<LinkKey>,
    sources: BTreeMap<Source, BTreeSet<LinkKey>>,
}

impl HalfOpen {
    /// Returns the connection to close before another one from this source is accepted.
    pub(super) fn eviction(&self, source: Option<Source>) -> Option<LinkKey> {
        let of_source = source.and_then(|source| self.sources.get(&source));
        match of_source.filter(|keys| keys.len() >= HALF_OPEN_PER_SOURCE) {
            Some(keys) => keys.first().copied(),
            None if self.all.len() >= HALF_OPEN_MAX => self.all.first().copied(),
            None => None,
        }
    }

    pub(super) fn add(&mut self, key: LinkKey, source: Option<Source>) {
        self.all.insert(key);
        if let Some(source) = source {
            self.sources.entry(source).or_default().insert(key);
        }
    }

    pub(super) fn remove(&mut self, key: LinkKey, source: Option<Source>) {
        self.all.remove(&key);
        if let Some(source) = source
            && let Some(keys) = self.sources.get_mut(&source)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// The oldest connection.
    pub(super) fn oldest(&self) -> Option<LinkKey> {
        self.all.first().copied()
    }

    /// Number of addresses with an entry.
    pub(super) fn addresses(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = LinkKey> {
        self.all.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_evict_connections_of_others() {
        let mut open = HalfOpen::default();
        for key in 0..HALF_OPEN_PER_SOURCE {
            assert_eq!(open.eviction(Some(7)), None);
            open.add(LinkKey(key), Some(7));
        }
        assert_eq!(open.eviction(Some(7)), Some(LinkKey(0)));
        assert_eq!(open.eviction(Some(8)), None);
        for key in HALF_OPEN_PER_SOURCE..HALF_OPEN_MAX {
            open.add(LinkKey(key), None);
        }
        assert_eq!(open.eviction(Some(8)), Some(LinkKey(0)), "in all there are as many as there may be");
        open.remove(LinkKey(0), Some(7));
        assert_eq!((open.eviction(Some(8)), open.all.len()), (None, HALF_OPEN_MAX - 1));
        for key in 1..HALF_OPEN_MAX {
            open.remove(LinkKey(key), (key < HALF_OPEN_PER_SOURCE).then_some(7));
        }
        assert!(open.all.is_empty() && open.sources.is_empty());
    }
}
