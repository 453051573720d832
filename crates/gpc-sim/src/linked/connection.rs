//! A connection of a process: its link, and the end of the simulated connection that carries its bytes.

use super::step::Place;
use chained_gpc::link::{HasLink, Link};

/// A connection of a process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) place: Place,
    /// Whether bytes wait for the peer to read those before them.
    pub(super) blocked: bool,
    /// Whether there was nothing to write since long data last left.
    pub(super) rested: bool,
}

impl HasLink for Connection {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}
