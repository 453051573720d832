//! The job and the secret of a process, with which its node authenticates links.

use super::exchange::Common;
use crate::link::peering::Secret;
use crate::wire::Job;

/// The values that authenticate the links of a node as links of the same job.
pub(super) struct Trust {
    pub(super) job: Job,
    /// `None` if all processes are on one host, where the system reports the user of the other process.
    pub(super) secret: Option<Secret>,
    /// Whether no earlier run had this id.
    pub(super) first_run: bool,
}

impl Trust {
    /// These values are drawn anew at each start, and no id is restarted with them: it is the first run of the id.
    pub(super) fn of(common: Common) -> Trust {
        Trust { job: common.job, secret: Some(common.secret), first_run: true }
    }
}
