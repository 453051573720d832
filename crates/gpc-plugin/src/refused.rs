//! Errors of registration.

use std::fmt;

/// Why a plug-in cannot be used, or a function cannot be registered. `gpc` prints the text, and ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub(crate) String);

impl<T: Into<String>> From<T> for Refused {
    fn from(text: T) -> Refused {
        Refused(text.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
