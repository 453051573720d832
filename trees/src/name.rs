//! Trees by name: `binary`, `kary:8`, `file:PATH`, or the name of a registered split.
//!
//! A name parses and prints; it never opens the file that it names. Source: *Trees* in the design.

use crate::decimal::{self, DecimalFault, excerpt};
use crate::split_name::{NameError, SplitName};
use crate::tree::{Radix, Tree};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A tree as a person names it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum TreeName {
    /// `binary`, the default.
    #[default]
    Binary,
    /// `binomial`.
    Binomial,
    /// `kary:K`, K at least 1.
    Kary(NonZeroU32),
    /// `knomial:K`, K at least 2.
    Knomial(Radix),
    /// `chain`.
    Chain,
    /// `flat`.
    Flat,
    /// `file:PATH`: a tree file, see [`Layout::parse`](crate::Layout::parse). The path is not empty.
    File(String),
    /// Any other name: a registered split.
    Registered(SplitName),
}

impl TreeName {
    /// The tree itself, where the name is that of a built-in one.
    pub fn built_in(&self) -> Option<Tree> {
        match self {
            TreeName::Binary => Some(Tree::Binary),
            TreeName::Binomial => Some(Tree::Binomial),
            TreeName::Kary(k) => Some(Tree::Kary(*k)),
            TreeName::Knomial(k) => Some(Tree::Knomial(*k)),
            TreeName::Chain => Some(Tree::Chain),
            TreeName::Flat => Some(Tree::Flat),
            TreeName::File(_) | TreeName::Registered(_) => None,
        }
    }
}

impl FromStr for TreeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<TreeName, NameError> {
        let (word, parameter) = match text.split_once(':') {
            Some((word, parameter)) => (word, Some(parameter)),
            None => (text, None),
        };
        let plain = match word {
            "kary" => return Ok(TreeName::Kary(number(text, parameter, 1, NonZeroU32::new)?)),
            "knomial" => return Ok(TreeName::Knomial(number(text, parameter, 2, Radix::new)?)),
            "file" => {
                let path = parameter.filter(|path| !path.is_empty()).ok_or(NameError::NoPath)?;
                return Ok(TreeName::File(path.to_owned()));
            }
            "binary" => TreeName::Binary,
            "binomial" => TreeName::Binomial,
            "chain" => TreeName::Chain,
            "flat" => TreeName::Flat,
            other => TreeName::Registered(other.parse()?),
        };
        match parameter {
            None => Ok(plain),
            Some(_) => Err(NameError::Unexpected { text: excerpt(text) }),
        }
    }
}

fn number<T>(
    text: &str,
    digits: Option<&str>,
    least: u32,
    make: impl Fn(u32) -> Option<T>,
) -> Result<T, NameError> {
    let error = |fault| NameError::Parameter { text: excerpt(text), least, fault };
    let number = decimal::parse(digits.unwrap_or_default()).map_err(|fault| {
        error(match fault {
            DecimalFault::Missing => "the number is missing",
            DecimalFault::NotDigits => "not a decimal number",
            DecimalFault::TooLarge => "the number is too large",
        })
    })?;
    make(number).ok_or_else(|| error("the number is too small"))
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.built_in()) {
            (_, Some(tree)) => tree.fmt(f),
            (TreeName::File(path), _) => write!(f, "file:{path}"),
            (TreeName::Registered(name), _) => name.fmt(f),
            (_, None) => unreachable!("every other name is that of a built-in tree"),
        }
    }
}
