//! The supervisor of this host's processes, as a node of a domain sees it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::keeper::Keeper;

/// The supervisor's command: a program that calls [`keeper::run`](crate::keeper::run) on its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The supervisor.
pub(super) struct Supervisor {
    /// `None` until the first process is started, and after the supervisor is lost.
    pub(super) keeper: Option<Keeper>,
    pub(super) command: KeeperCommand,
    /// Whether this node runs processes for certain, so the supervisor is started at once.
    pub(super) keeps: bool,
}
