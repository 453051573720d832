//! The descriptors that the event loop of a node waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token as Key};

use crate::names::Rank;
use crate::request::Client;

/// The key of the mailbox's waker.
pub(super) const WAKER: Key = Key(0);
const FIRST: usize = 1;

/// The kind of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Source {
    Client(Client),
    /// A connection whose process is not yet identified.
    Unidentified(u64),
    Output(u64),
    /// The pipe of a rank that reads standard input.
    Input(Rank),
    Supervisor,
    /// The helper of the PMIx server.
    Pmix,
    Tools,
    Port,
}

/// The watched descriptors.
pub(super) struct Sources {
    poll: Poll,
    sources: BTreeMap<usize, Source>,
    keys: BTreeMap<Source, usize>,
    next_key: usize,
    /// Keys of descriptors that may have more to read or write.
    ready: BTreeSet<usize>,
    /// Numbers outputs and connections.
    pub(super) next_source: u64,
}

impl Sources {
    pub(super) fn new(poll: Poll) -> Sources {
        Sources {
            poll,
            sources: BTreeMap::new(),
            keys: BTreeMap::new(),
            next_key: FIRST,
            ready: BTreeSet::new(),
            next_source: 0,
        }
    }

    /// Waits for events, at most for `limit`.
    ///
    /// # Errors
    /// System errors.
    pub(super) fn wait(&mut self, events: &mut Events, limit: Option<Duration>) -> io::Result<()> {
        self.poll.poll(events, limit)
    }

    /// Marks the descriptor of an event as ready. Returns its source; `None` for the waker and for a descriptor that is
    /// no longer watched.
    pub(super) fn report(&mut self, key: Key) -> Option<Source> {
        if key.0 < FIRST {
            return None;
        }
        self.ready.insert(key.0);
        self.sources.get(&key.0).copied()
    }

    /// Whether a descriptor is ready that is not `blocked`.
    pub(super) fn has_ready(&self, blocked: impl Fn(Source) -> bool) -> bool {
        self.ready.iter().any(|key| self.sources.get(key).is_none_or(|source| !blocked(*source)))
    }

    /// The keys of all ready descriptors.
    pub(super) fn ready(&self) -> BTreeSet<usize> {
        self.ready.clone()
    }

    /// All watched sources.
    #[cfg(feature = "snapshot")]
    pub(super) fn all(&self) -> impl Iterator<Item = Source> {
        self.sources.values().copied()
    }

    pub(super) fn get(&self, key: usize) -> Option<Source> {
        self.sources.get(&key).copied()
    }

    /// A descriptor has no more to read or write.
    pub(super) fn exhausted(&mut self, key: usize) {
        self.ready.remove(&key);
    }

    /// Marks a descriptor as ready.
    pub(super) fn make_ready(&mut self, source: Source) {
        if let Some(key) = self.keys.get(&source) {
            self.ready.insert(*key);
        }
    }

    /// Watches a descriptor. If another one of this source is watched, its watch ends.
    ///
    /// # Errors
    /// System errors.
    pub(super) fn watch(&mut self, source: Source, descriptor: RawFd, interest: Interest) -> io::Result<()> {
        let key = self.next_key;
        self.poll.registry().register(&mut SourceFd(&descriptor), Key(key), interest)?;
        self.next_key += 1;
        self.forget(source, None);
        self.sources.insert(key, source);
        self.keys.insert(source, key);
        // Data that arrived earlier may not be reported.
        self.ready.insert(key);
        Ok(())
    }

    /// Changes the interest in a descriptor that is watched.
    ///
    /// # Errors
    /// System errors.
    pub(super) fn rewatch(
        &mut self,
        source: Source,
        descriptor: RawFd,
        interest: Interest,
    ) -> io::Result<()> {
        let Some(key) = self.keys.get(&source) else { return Ok(()) };
        self.poll.registry().reregister(&mut SourceFd(&descriptor), Key(*key), interest)
    }

    /// Ends the watch of a source, and of its descriptor.
    pub(super) fn forget(&mut self, source: Source, descriptor: Option<RawFd>) {
        if let Some(key) = self.keys.remove(&source) {
            self.sources.remove(&key);
            self.ready.remove(&key);
        }
        if let Some(descriptor) = descriptor {
            // The descriptor is about to be closed in any case.
            let _ = self.poll.registry().deregister(&mut SourceFd(&descriptor));
        }
    }
}
