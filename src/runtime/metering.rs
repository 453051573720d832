//! Gathers the metrics of a node, on any thread, without stopping the node.

use super::caller::Caller;
use super::front::Front;
use super::metrics::Metrics;
use super::node::Node;
use super::polled::PolledNode;

impl Front {
    pub(super) fn metrics(&self) -> Metrics {
        self.shared.gathered()
    }
}

impl Node {
    /// Returns what the node has done since its start, and what it holds. Never waits for the node, and costs it
    /// nothing.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let hello = functions.func("hello", |_, _| Ok(()))?;
    /// let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
    /// nodes.root().call(Call::new(hello).ids(0..4))?.wait()?;
    /// let metrics = nodes.root().metrics();
    /// println!("{} calls, {} failed, {} links", metrics.calls_succeeded, metrics.calls_failed, metrics.links);
    /// print!("{}", metrics.prometheus());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.front.metrics()
    }
}

impl PolledNode {
    /// Returns what the node has done since its start, and what it holds: see [`Node::metrics`].
    pub fn metrics(&self) -> Metrics {
        self.front.metrics()
    }
}

impl Caller {
    /// Returns what the node has done since its start, and what it holds: see [`Node::metrics`]. `None` if it has gone.
    pub fn metrics(&self) -> Option<Metrics> {
        self.host().map(|host| host.metrics())
    }
}
