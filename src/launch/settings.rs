//! What every node of a launch is told about its links: how long a peer may be silent, how messages are waited for, what links are made of.

use std::time::Duration;

use crate::chain::Heartbeat;
use crate::runtime::{Builder, LinkKind, Wait};

/// Settings that all nodes of a launch share, the one of the starting process as well if it [applies](Self::apply) them; by default those of the library.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct NodeSettings {
    /// How long a peer may be silent before it is given up; `None` leaves the heartbeat as it is by default. See [`Heartbeat::dead_after`].
    pub dead_after: Option<Duration>,
    /// How nodes wait for messages: [`Builder::wait`].
    pub wait: Wait,
    /// What links between processes of this machine are made of: [`Builder::link`].
    pub link: LinkKind,
}

impl NodeSettings {
    /// These settings.
    pub fn new(dead_after: Option<Duration>, wait: Wait, link: LinkKind) -> NodeSettings {
        NodeSettings { dead_after, wait, link }
    }

    /// A node with these settings.
    pub fn apply(self, builder: Builder) -> Builder {
        let builder = builder.wait(self.wait).link(self.link);
        match self.dead_after {
            Some(dead_after) => builder.heartbeat(Some(Heartbeat::dead_after(dead_after))),
            None => builder,
        }
    }
}
