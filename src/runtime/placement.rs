//! Placement: the thread on which a function runs.

use std::borrow::Cow;

/// Where a function runs at the nodes that have registered it. Each process sets it for itself; it is not sent over the
/// wire.
///
/// ```
/// use chained_gpc::{Functions, Placement};
///
/// let functions = Functions::new();
/// // On a worker of the node, one function at a time by default.
/// functions.func("solve", |_request, _reply| Ok(()))?;
/// // On the event loop itself: for short functions that never block.
/// functions.at(Placement::Inline).func("ping", |_request, _reply| Ok(()))?;
/// // On the workers that `Builder::executor("io", 4)` gives a node, independent of other functions.
/// functions.at(Placement::Executor("io".into())).func("read", |_request, _reply| Ok(()))?;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum Placement {
    /// On the node's own workers, [one](super::Builder::workers) by default; on a polled node, in the call of
    /// `progress`.
    #[default]
    Default,
    /// On the thread that drives the node, without a hand-off: for a short function that never blocks. While it runs,
    /// the node does nothing else. It takes turns with the functions of the default workers.
    Inline,
    /// On the workers of a [named executor](super::Builder::executor), which no other function can occupy. A node
    /// without an executor of this name rejects the call.
    Executor(Cow<'static, str>),
}
