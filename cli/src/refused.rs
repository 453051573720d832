//! Why a command does not begin, and whose fault that is: the exit status tells it.

/// Why a command does not begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// What the arguments say cannot be done, whatever is in files and whatever runs: exit status 2, as for arguments that cannot be read.
    #[error("{0}")]
    Usage(String),
    /// A file that they name cannot be read or written, has a fault, or does not fit: exit status 1.
    #[error("{0}")]
    File(String),
}

impl From<String> for Refused {
    fn from(text: String) -> Refused {
        Refused::Usage(text)
    }
}

impl From<&str> for Refused {
    fn from(text: &str) -> Refused {
        Refused::Usage(text.into())
    }
}
