//! Contexts of processes that were started together, by a launcher or by an exchange of the application's own.

use std::sync::Mutex;
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, BootstrapError};
use chained_gpc::runtime::Builder;

use crate::context::{Context, Driven, Running, Started};
use crate::error::Result;

/// What drives the node of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A thread of its own.
    Thread,
    /// The application.
    Polled,
}

/// The launcher of this process; `None` if the environment names no launcher.
///
/// # Errors
/// If the environment of a launcher is incomplete, or its server does not answer.
pub(crate) fn launcher(limit: Duration) -> std::result::Result<Option<Bootstrap>, BootstrapError> {
    #[cfg(feature = "pmix")]
    return gpc_pmix::from_env_within(limit);
    #[cfg(not(feature = "pmix"))]
    chained_gpc::bootstrap::from_env_within(limit)
}

/// Starts the node of a member of a context, and waits until all members know each other.
///
/// # Errors
/// Those of [`Bootstrap::start`].
pub(crate) fn start(
    bootstrap: Bootstrap,
    context: &Context,
    mode: Mode,
    build: Box<dyn FnOnce(Builder) -> Builder + '_>,
) -> Result<Started> {
    let functions = context.registry.functions();
    if let (Some(id), Some(count)) = (bootstrap.id(), bootstrap.count()) {
        context.set_place(id, count);
    }
    Ok(match mode {
        Mode::Thread => {
            let mut member = bootstrap.start(functions, build)?;
            let (count, serving) = (member.count(), Mutex::new(Some(member.serving())));
            Started::running(Running::Member(Box::new(member), serving), count)
        }
        Mode::Polled => {
            let member = bootstrap.start_polled(functions, build)?;
            let count = member.count();
            Started::polled(Driven::Member(Box::new(member)), count)
        }
    })
}
