//! Name of a process in PMIx: its namespace and its rank.

/// The name of this process, from the launcher's variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProcessName {
    /// The job's name, 1 to 255 bytes.
    pub(crate) namespace: String,
    /// The rank in the job.
    pub(crate) rank: u32,
}
