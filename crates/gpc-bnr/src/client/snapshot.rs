//! The contents of a database at one time.

use std::vec;

use crate::request::Pair;

/// All pairs of a database at the time of the request, in key order. Later puts are not visible.
///
/// ```
/// # use gpc_bnr::client::Snapshot;
/// # let pair = |key: &str| gpc_bnr::request::Pair { key: key.into(), value: Vec::new() };
/// let mut snapshot = Snapshot::from(vec![pair("a"), pair("b")]);
/// assert_eq!(snapshot.first().unwrap().key, b"a");
/// assert_eq!(snapshot.next().unwrap().key, b"b");
/// assert!(snapshot.next().is_none());
/// assert_eq!(snapshot.into_iter().count(), 2);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pairs: Vec<Pair>,
    /// Number of pairs returned since `first`.
    position: usize,
}

impl From<Vec<Pair>> for Snapshot {
    fn from(pairs: Vec<Pair>) -> Snapshot {
        Snapshot { pairs, position: 0 }
    }
}

impl Snapshot {
    /// The first pair; [`next`](Self::next) continues after it.
    pub fn first(&mut self) -> Option<&Pair> {
        self.position = 0;
        self.next()
    }

    /// The pair after the one returned last; at the beginning, the first one.
    #[expect(
        clippy::should_implement_trait,
        reason = "the pair is lent: those who want all of it take `into_iter`"
    )]
    pub fn next(&mut self) -> Option<&Pair> {
        let pair = self.pairs.get(self.position)?;
        self.position += 1;
        Some(pair)
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether the database was empty.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All pairs.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
}

/// All pairs in key order.
impl IntoIterator for Snapshot {
    type Item = Pair;
    type IntoIter = vec::IntoIter<Pair>;

    fn into_iter(self) -> vec::IntoIter<Pair> {
        self.pairs.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_ends_and_begins_anew_with_first() {
        let pair = |key: &str| Pair { key: key.into(), value: Vec::new() };
        let mut snapshot = Snapshot::from(vec![pair("a"), pair("b")]);
        let mut keys = |first: bool| {
            let pair = if first { snapshot.first() } else { snapshot.next() };
            pair.map(|pair| String::from_utf8(pair.key.clone()).unwrap()).unwrap_or_default()
        };
        assert_eq!([false, false, false, false].map(&mut keys), ["a", "b", "", ""]);
        assert_eq!([true, true, false, false].map(&mut keys), ["a", "a", "b", ""]);
        assert_eq!((snapshot.len(), snapshot.is_empty(), snapshot.pairs().len()), (2, false, 2));
        assert_eq!(Snapshot::from(Vec::new()).first(), None);
    }
}
