//! How a node looks out for its peers: how long one may be silent, and how their messages are waited for.

use std::time::Duration;

use crate::chain::Heartbeat;
use crate::runtime::{Builder, Wait};

/// How a node looks out for its peers; by default as the library does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Watching {
    /// How long one may be silent; `None` leaves it to the library's default.
    pub dead_after: Option<Duration>,
    /// How it waits for their messages.
    pub wait: Wait,
}

impl Watching {
    /// A node that looks out so.
    pub fn apply(self, builder: Builder) -> Builder {
        let builder = builder.wait(self.wait);
        match self.dead_after {
            Some(dead_after) => builder.heartbeat(Some(Heartbeat::dead_after(dead_after))),
            None => builder,
        }
    }
}
