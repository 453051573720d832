//! Placement: the thread on which a function runs.

use std::borrow::Cow;

/// Where a function runs at the nodes that have registered it. Each process sets it for itself; it is not sent over the
/// wire.
///
/// ```
/// use chained_gpc::{Functions, Placement};
///
/// let functions = Functions::new();
/// // On a thread of the node, one function at a time by default.
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
    /// On threads of the node, [one](super::Builder::workers) function at a time by default; on a polled node, in the
    /// call of `progress`.
    ///
    /// A function that is short runs on the thread that drives the node, which wakes no other thread. If it takes
    /// longer than three milliseconds, or waits for a call, another thread drives the node meanwhile. So a function
    /// need not care how long it takes, and its thread may be another one each time: a function that needs the same
    /// thread each time has an executor with one worker.
    #[default]
    Default,
    /// On the thread that drives the node, inside the event loop, for a short function that never blocks. While it
    /// runs, the node does nothing else. It takes turns with the functions of the default workers.
    Inline,
    /// On the workers of a [named executor](super::Builder::executor), which no other function can occupy. A node
    /// without an executor of this name rejects the call.
    Executor(Cow<'static, str>),
}
