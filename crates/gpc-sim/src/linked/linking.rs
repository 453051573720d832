//! How the links of a world of calls are established.

use std::fmt;
use std::str::FromStr;

/// How the links of a world are established.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Linking {
    /// Each pair of ids has one link after another; each end learns of a loss at its own time.
    #[default]
    Modelled,
    /// The peering machine makes links from connections.
    Peering,
}

impl Linking {
    /// All variants.
    pub const ALL: [Linking; 2] = [Linking::Modelled, Linking::Peering];

    /// Name of the variant.
    pub fn name(self) -> &'static str {
        match self {
            Linking::Modelled => "modelled",
            Linking::Peering => "peering",
        }
    }
}

impl fmt::Display for Linking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a [`Linking`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no way in which links come about: write modelled or peering")]
pub struct LinkingError(String);

impl FromStr for Linking {
    type Err = LinkingError;

    fn from_str(text: &str) -> Result<Linking, LinkingError> {
        let named = Linking::ALL.into_iter().find(|linking| linking.name() == text);
        named.ok_or_else(|| LinkingError(text.chars().take(40).collect()))
    }
}
