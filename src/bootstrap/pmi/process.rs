//! The facts that a PMI client knows about its process, from the variables and from the server.

use gpc_trees::Id;

/// Maximum length of a value that is put, bytes, even if the server allows more. Longer values are put in parts.
pub(super) const VALUE_MAX: usize = 4096;

/// Minimum value limit of a server, bytes, below which it is rejected: a shorter value has no space for data.
const VALUE_MIN: usize = 17;

/// A client's facts about this process and about the processes that were started with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Process {
    pub(super) id: Id,
    /// Number of processes; 0 until a server in port mode has reported it.
    pub(super) count: u32,
    /// The launcher's name for the set of processes.
    pub(super) name: String,
    /// Slurm's name of the job, which Slurm's server requires.
    pub(super) job: Option<String>,
    /// Maximum length of a value, bytes.
    pub(super) value_max: usize,
    /// Whether all processes are on one host.
    pub(super) one_host: Option<bool>,
}

impl Process {
    /// Stores the server's value limit, which includes the terminator; `None` if the limit is too small.
    pub(super) fn set_value_max(&mut self, max: usize) -> Option<()> {
        self.value_max = (max >= VALUE_MIN).then(|| (max - 1).min(VALUE_MAX))?;
        Some(())
    }
}
