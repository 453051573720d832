//! A map keyed by call. A world has one or few calls, and looks them up at every event.

use chained_gpc::wire::CallId;

/// A sorted map by call. Its size is bounded by the calls of a world.
#[derive(Debug)]
pub(super) struct ByCall<V>(Vec<(CallId, V)>);

impl<V> Default for ByCall<V> {
    fn default() -> ByCall<V> {
        ByCall(Vec::new())
    }
}

/// Up to this many names, comparing for equality one by one is faster than a binary search.
const FEW: usize = 4;

impl<V> ByCall<V> {
    #[inline]
    fn place(&self, call: CallId) -> Result<usize, usize> {
        if self.0.len() <= FEW
            && let Some(place) = self.0.iter().position(|(name, _)| *name == call)
        {
            return Ok(place);
        }
        self.0.binary_search_by(|(name, _)| name.cmp(&call))
    }

    #[inline]
    pub(super) fn get(&self, call: &CallId) -> Option<&V> {
        Some(&self.0[self.place(*call).ok()?].1)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, call: &CallId) -> Option<&mut V> {
        let place = self.place(*call).ok()?;
        Some(&mut self.0[place].1)
    }

    /// Returns the previous value, if any.
    pub(super) fn insert(&mut self, call: CallId, what: V) -> Option<V> {
        match self.place(call) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, what)),
            Err(place) => {
                self.0.insert(place, (call, what));
                None
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&CallId, &V)> {
        self.0.iter().map(|(call, what)| (call, what))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &CallId> {
        self.0.iter().map(|(call, _)| call)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, what)| what)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&CallId, &mut V)> {
        self.0.iter_mut().map(|(call, what)| (&*call, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_their_names() {
        let call = |root, sequence| CallId { root, sequence };
        let mut by_call = ByCall::default();
        for (root, sequence) in [(3, 1), (0, 2), (3, 0)] {
            assert_eq!(by_call.insert(call(root, sequence), sequence), None);
        }
        assert_eq!(by_call.insert(call(0, 2), 7), Some(2));
        assert_eq!((by_call.get(&call(0, 2)), by_call.get(&call(0, 1)), by_call.len()), (Some(&7), None, 3));
        by_call.get_mut(&call(3, 0)).into_iter().for_each(|known| *known = 9);
        by_call.iter_mut().for_each(|(_, known)| *known += 1);
        assert_eq!(by_call.keys().copied().collect::<Vec<_>>(), [call(0, 2), call(3, 0), call(3, 1)]);
        assert_eq!(by_call.values().copied().collect::<Vec<_>>(), [8, 10, 2]);
    }
}
