//! How PMIx names a process: by its namespace and its rank.

/// The launcher's variables of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProcessName {
    /// The job's name, 1 to 255 bytes.
    pub(crate) namespace: String,
    /// The rank of this process.
    pub(crate) rank: u32,
}
