//! Names of registered splits, and the errors for invalid names.

use crate::decimal::excerpt;
use std::fmt;
use std::str::FromStr;

/// Maximum length of the name of a registered split, in bytes: it fits a line of any report.
const MAX_NAME_BYTES: usize = 64;

/// Reserved words, which cannot name a registered split.
const RESERVED: [&str; 10] =
    ["binary", "binomial", "kary", "knomial", "chain", "flat", "loggp", "file", "hosts", "explicit"];

/// The name of a registered split: a lower-case letter, then lower-case letters, digits, `_` and `-`, 64
/// bytes at most, and none of the words of the built-in trees. Or a number, as in the source: a decimal number of 32
/// bits, at least 2, without leading zeros. 0 and 1 are built-in trees.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SplitName(Box<str>);

/// Why a text does not name a tree. The text is shortened if it is long.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NameError {
    /// Not a name: empty, too long, or with invalid characters.
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
        /// Minimum of the number.
        least: u32,
        /// The error in the number.
        fault: &'static str,
    },
    /// A parameter for a tree that takes none.
    Unexpected {
        /// The text.
        text: String,
    },
    /// `loggp` needs a lag or four costs after a colon.
    Lag {
        /// The text.
        text: String,
    },
    /// `hosts` needs a path and a built-in tree after a colon.
    Hosts {
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
        // Not `02`, which would be another name of the same number.
        if let Some(number) = text.parse::<u32>().ok().filter(|number| number.to_string() == text) {
            return match number {
                0 | 1 => Err(NameError::Reserved { name: text.to_owned() }),
                _ => Ok(SplitName(text.into())),
            };
        }
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

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A shortened text is not a path.
            NameError::NotAName { text } if text.contains(['.', '/']) && !text.ends_with("...") => {
                write!(f, "{text:?} names no tree: the tree of a file is written file:{text}")
            }
            NameError::NotAName { text } => write!(
                f,
                "{text:?} names no tree: allowed are binary, binomial, kary:K, knomial:K, chain, flat, loggp:LAG, \
                 file:PATH, hosts:PATH+TREE and the name of a registered split (a lower-case letter, then a-z, 0-9, _ and -, \
                 {MAX_NAME_BYTES} at most, or a number: 0 is binary, 1 binomial)"
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
                write!(f, "{text:?}: only kary, knomial, loggp, file and hosts take something after a colon")
            }
            NameError::Lag { text } => write!(
                f,
                "{text:?}: write a lag of at least 1 as in loggp:2.5, or latency, overhead, gap and gap per byte as in \
                 loggp:5000,1000,2000,0.5"
            ),
            NameError::Hosts { text } => write!(
                f,
                "{text:?}: write the path of a hosts file and a built-in tree, as in hosts:cluster.txt+binomial, or hosts+binomial where the hosts are known"
            ),
            NameError::NoPath => write!(f, "a tree file needs a path, as in file:my.tree"),
        }
    }
}

impl std::error::Error for NameError {}
