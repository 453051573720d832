//! Requests that wait for global names, at the head.

use std::collections::BTreeMap;

use super::pending::Requester;
use super::timers::TimerKey;
use crate::request::Client;

/// Most requests of a domain that wait for global names: many times more than its processes have in use.
pub(super) const AWAITED_MAX: usize = 1 << 16;

/// A name, and the number of a request that waits for it.
type Key = (Vec<u8>, u64);

/// All requests that wait.
#[derive(Default, Debug)]
pub(super) struct AwaitedNames {
    waiting: BTreeMap<Key, Awaiting>,
    next: u64,
}

/// A request that waits for a global name.
#[derive(Debug)]
pub(super) struct Awaiting {
    pub(super) requester: Requester,
    pub(super) client: Client,
    /// The timer of its limit.
    pub(super) limit: TimerKey,
}

impl AwaitedNames {
    /// A number that is never used again.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn insert(&mut self, key: Key, awaiting: Awaiting) {
        self.waiting.insert(key, awaiting);
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Awaiting> {
        self.waiting.remove(key)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the requests that are like this.
    pub(super) fn take(&mut self, mut is_it: impl FnMut(&Awaiting) -> bool) -> Vec<Awaiting> {
        self.waiting.extract_if(.., |_, awaiting| is_it(awaiting)).map(|(_, awaiting)| awaiting).collect()
    }

    /// Takes those that wait for a name.
    pub(super) fn take_for(&mut self, name: &[u8]) -> Vec<Awaiting> {
        let range = (name.to_vec(), 0)..=(name.to_vec(), u64::MAX);
        self.waiting.extract_if(range, |_, _| true).map(|(_, awaiting)| awaiting).collect()
    }
}
