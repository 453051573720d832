//! How the links of a world of calls are established.

use std::fmt;
use std::str::FromStr;

/// How the links of a world are established.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Linking {
    /// Each pair of ids has one link after another; each end learns of a loss at its own time.
    Modelled,
    /// Links are real: hellos and frames on connections.
    Peering,
    /// Real ones in one of twenty worlds of a swarm, modelled ones in the others.
    #[default]
    Some,
}

impl Linking {
    /// All variants.
    pub const ALL: [Linking; 3] = [Linking::Modelled, Linking::Peering, Linking::Some];

    /// Name of the variant.
    pub fn name(self) -> &'static str {
        match self {
            Linking::Modelled => "modelled",
            Linking::Peering => "peering",
            Linking::Some => "some",
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
#[error("`{0}` is no way in which links come about: write modelled, peering or some")]
pub struct LinkingError(String);

impl FromStr for Linking {
    type Err = LinkingError;

    fn from_str(text: &str) -> Result<Linking, LinkingError> {
        let named = Linking::ALL.into_iter().find(|linking| linking.name() == text);
        named.ok_or_else(|| LinkingError(text.chars().take(40).collect()))
    }
}
