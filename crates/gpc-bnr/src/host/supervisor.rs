//! The supervisor of this host's processes, as a node of a domain sees it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::supervisor::Supervisor;

/// The supervisor's command: a program that calls [`supervisor::run`](crate::supervisor::run) on its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SupervisorCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The supervisor.
pub(super) struct SupervisorState {
    /// `None` until the first process is started, and after the supervisor is lost.
    pub(super) process: Option<Supervisor>,
    pub(super) command: SupervisorCommand,
    /// Whether this node runs processes for certain, so the supervisor is started at once.
    pub(super) starts_at_once: bool,
    /// Why the last one was lost. The next one may be lost for the same reason, which is then not repeated.
    pub(super) lost: Option<String>,
}
