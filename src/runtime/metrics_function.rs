//! The built-in function that replies with the metrics of its node, in their text form.
//!
//! Source: docs/wire.md, "The built-in functions". It runs on the event loop, in the class of the recorder's function.

use gpc_trees::Tree;
use gpc_trees::sorting::sort_by_key;

use super::call::Call;
use super::handles::{FuncHandle, number};
use super::metrics::Metrics;
use super::request::{Deferred, Request};
use crate::chain::Reply;

/// The name of the function; applications cannot register this name.
pub(super) const NAME: &str = "gpc:metrics";

/// The number of that name.
pub(super) const NUMBER: u64 = number(NAME);

/// Maximum number of functions in a reply, those that have taken the most time: about 30 KiB.
const FUNCTIONS_MAX: usize = 16;

/// The built-in function.
pub(super) fn report(request: &Request<'_>, answer: Deferred) {
    let mut metrics = request.metrics();
    sort_by_key(&mut metrics.functions, |function| std::cmp::Reverse(function.total));
    metrics.functions.truncate(FUNCTIONS_MAX);
    answer.reply(Reply { data: metrics.prometheus().into_bytes(), ..Reply::default() });
}

impl Metrics {
    /// Returns a call that collects the metrics of other nodes, by a function that each node has. The caller adds the
    /// ids, and reads each reply with [`parse`](Self::parse). It is partial, and its tree is flat: ids that do not
    /// answer hold no other id up. A reply has at most 16 functions, those that have taken the most time.
    ///
    /// ```
    /// use chained_gpc::{Functions, LinkKind, LocalNodes, Metrics};
    ///
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &Functions::new())?;
    /// let outcome = nodes.root().call(Metrics::call().ids(0..3))?.wait()?;
    /// for reply in outcome.replies()? {
    ///     let metrics = Metrics::parse(std::str::from_utf8(&reply.data)?)?;
    ///     assert_eq!(metrics.id, reply.id);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call() -> Call {
        Call::new(FuncHandle::named(NAME)).partial().tree(Tree::Flat).forward_first()
    }
}
