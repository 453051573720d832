//! Trees by name: `binary`, `kary:8`, `file:PATH`, or the name of a registered split.
//!
//! A name parses and prints; it never opens the file that it names. Source: *Trees* in the design.

use crate::decimal::{self, DecimalFault, excerpt};
use crate::tree::{Radix, Tree};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The longest name of a registered split, in bytes: it fits a line of any report.
const MAX_NAME_BYTES: usize = 64;

/// Words that have a meaning of their own and so cannot name a registered split.
const RESERVED: [&str; 8] = ["binary", "binomial", "kary", "knomial", "chain", "flat", "file", "explicit"];

/// The name of a registered split: a lower-case letter, then lower-case letters, digits, `_` and `-`, 64
/// bytes at most, and none of the words of the built-in trees.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SplitName(Box<str>);

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

/// Why a text names no tree. The text is cut short where it is long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// Not a name: empty, too long, or with characters that a name does not have.
    NotAName {
        /// The text.
        text: String,
    },
    /// A registered split cannot have the name of a built-in tree.
    Reserved {
        /// The name.
        name: String,
    },
    /// `kary` and `knomial` need a number after a colon.
    Parameter {
        /// The text.
        text: String,
        /// The least number that is allowed.
        least: u32,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A tree that takes no parameter was given one.
    Unexpected {
        /// The text.
        text: String,
    },
    /// `file:` without a path.
    NoPath,
}

impl SplitName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SplitName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<SplitName, NameError> {
        let tail =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
        let well_formed = text.len() <= MAX_NAME_BYTES
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(tail);
        if !well_formed {
            return Err(NameError::NotAName { text: excerpt(text) });
        }
        if RESERVED.contains(&text) {
            return Err(NameError::Reserved { name: text.to_owned() });
        }
        Ok(SplitName(text.into()))
    }
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

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::NotAName { text } => write!(
                f,
                "{text:?} names no tree: allowed are binary, binomial, kary:K, knomial:K, chain, flat, \
                 file:PATH and the name of a registered split (a lower-case letter, then a-z, 0-9, _ and -, \
                 {MAX_NAME_BYTES} at most)"
            ),
            NameError::Reserved { name } => {
                write!(f, "{name} is a word of the built-in trees and cannot name a registered split")
            }
            NameError::Parameter { text, least, fault } => write!(
                f,
                "{text:?}: {fault}; write a number from {least} to {} after the colon, as in kary:8 or knomial:4",
                u32::MAX
            ),
            NameError::Unexpected { text } => {
                write!(f, "{text:?}: only kary, knomial and file take something after a colon")
            }
            NameError::NoPath => write!(f, "a tree file needs a path, as in file:my.tree"),
        }
    }
}

impl std::error::Error for NameError {}
