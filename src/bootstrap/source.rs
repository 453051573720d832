//! A recognized launcher: the step between its variables and its bootstrap.

use std::time::Duration;

use super::{Bootstrap, BootstrapError};

/// A recognized launcher, with all that is needed to reach it.
pub(super) trait Source: std::fmt::Debug {
    /// Connects to the launcher, within `limit`.
    ///
    /// # Errors
    /// If the launcher cannot be reached, or its responses are invalid.
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError>;
}
