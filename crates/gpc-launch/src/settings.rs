//! The settings that all nodes of a launch share: how long a peer may be silent, how nodes wait for messages, the kind
//! of links.
//!
//! As text they are lines of a process's orders: `wait adaptive`, `link shm`, `dead-after 10000000000ns`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use super::OrdersError;
use super::quoted::quoted;
use chained_gpc::chain::Heartbeat;
use chained_gpc::runtime::{Builder, LinkKind, Wait};

/// Settings of all nodes of a launch, and of the starting process's node if it [applies](Self::apply) them. The
/// defaults are those of the library.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct NodeSettings {
    /// How long a peer may be silent before it is given up; `None` keeps the default heartbeat. See
    /// [`Heartbeat::dead_after`].
    pub dead_after: Option<Duration>,
    /// How nodes wait for messages: [`Builder::wait`].
    pub wait: Wait,
    /// The kind of links between processes of this machine: [`Builder::link`].
    pub link: LinkKind,
    /// Number of processes that share this machine; if `None`, the launcher sets it. See [`Builder::processes`].
    pub processes: Option<NonZeroU32>,
}

impl NodeSettings {
    /// Creates these settings.
    pub fn new(dead_after: Option<Duration>, wait: Wait, link: LinkKind) -> NodeSettings {
        NodeSettings { dead_after, wait, link, processes: None }
    }

    /// Applies the settings to the builder of a node.
    pub fn apply(self, builder: Builder) -> Builder {
        let builder = builder.wait(self.wait).link(self.link);
        let builder = self.processes.into_iter().fold(builder, Builder::processes);
        match self.dead_after {
            Some(dead_after) => builder.heartbeat(Some(Heartbeat::dead_after(dead_after))),
            None => builder,
        }
    }

    /// Parses a line if it is a setting; returns whether it is one.
    pub(super) fn read_line(&mut self, line: &str) -> Result<bool, OrdersError> {
        match line.split_once(' ') {
            Some(("wait", wait)) => {
                self.wait = match wait {
                    "block" => Wait::Block,
                    "adaptive" => Wait::Adaptive,
                    limit => Wait::Spin(limit.parse::<Nanos>()?.0),
                };
            }
            Some(("link", link)) => self.link = link.parse::<LinkKind>()?,
            Some(("processes", count)) => {
                self.processes = Some(count.parse().map_err(|_| OrdersError::Count(quoted(count)))?);
            }
            Some(("dead-after", span)) => self.dead_after = Some(span.parse::<Nanos>()?.0),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// One line for each setting.
impl fmt::Display for NodeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait {
            Wait::Block => writeln!(f, "wait block")?,
            Wait::Spin(limit) => writeln!(f, "wait {}", Nanos(limit))?,
            // The default of the library.
            _ => writeln!(f, "wait adaptive")?,
        }
        writeln!(f, "link {}", self.link)?;
        self.processes.iter().try_for_each(|count| writeln!(f, "processes {count}"))?;
        self.dead_after.iter().try_for_each(|&span| writeln!(f, "dead-after {}", Nanos(span)))
    }
}

/// A duration as orders write it: `1500ns`.
pub(super) struct Nanos(pub(super) Duration);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A duration of more than 584 years becomes the maximum.
        write!(f, "{}ns", u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Nanos {
    type Err = OrdersError;

    fn from_str(text: &str) -> Result<Nanos, OrdersError> {
        let nanos = text.strip_suffix("ns").and_then(|nanos| nanos.parse().ok());
        nanos.map(|nanos| Nanos(Duration::from_nanos(nanos))).ok_or_else(|| OrdersError::Time(quoted(text)))
    }
}
