//! How a node looks out for its peers: how long one may be silent, how their messages are waited for, and what the links are made of.

use std::time::Duration;

use crate::chain::Heartbeat;
use crate::runtime::{Builder, LinkKind, Wait};

/// How a node looks out for its peers; by default as the library does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Watching {
    /// How long one may be silent; `None` leaves it to the library's default.
    pub dead_after: Option<Duration>,
    /// How it waits for their messages.
    pub wait: Wait,
    /// What its links over Unix sockets are made of.
    pub link: LinkKind,
}

impl Watching {
    /// A node that looks out so.
    pub fn apply(self, builder: Builder) -> Builder {
        let builder = builder.wait(self.wait).link(self.link);
        match self.dead_after {
            Some(dead_after) => builder.heartbeat(Some(Heartbeat::dead_after(dead_after))),
            None => builder,
        }
    }
}
