//! Reasons why a command does not begin; the exit status tells wrong arguments from bad files.

/// Why a command does not begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The arguments are impossible, whatever the files contain and whatever is running: exit status 2, as for
    /// arguments that cannot be parsed.
    #[error("{0}")]
    Usage(String),
    /// A file that the arguments name cannot be read or written, has a fault, or does not fit: exit status 1.
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
