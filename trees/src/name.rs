//! Names of trees: `binary`, `kary:8`, `file:PATH`, or the name or number of a registered split.
//!
//! A name is parsed and printed; the file that it names is never opened here. Source: *Trees* in the design.

use crate::decimal::{self, DecimalFault, excerpt};
use crate::postal::Lag;
use crate::split_name::{NameError, SplitName};
use crate::tree::{Radix, Tree};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A tree by name, as users write it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TreeName {
    /// `binary` or `0`, the default.
    #[default]
    Binary,
    /// `binomial` or `1`.
    Binomial,
    /// `kary:K`, K at least 1.
    Kary(NonZeroU32),
    /// `knomial:K`, K at least 2.
    Knomial(Radix),
    /// `chain`.
    Chain,
    /// `flat`.
    Flat,
    /// `loggp:LAG`, a decimal of at least 1; or `loggp:L,o,g,G`, costs in one unit of time that determine the lag.
    Loggp(Lag),
    /// `file:PATH`: a tree file, see [`Layout::parse`](crate::Layout::parse). The path is not empty.
    File(String),
    /// `hosts:PATH+TREE`: a hosts file, see [`Hosts`](crate::Hosts), and the built-in tree over its groups of hosts and
    /// within each group.
    Hosts {
        /// The path, not empty.
        path: String,
        /// The tree.
        tree: Tree,
    },
    /// `hosts+TREE`: the same, if the launcher of the processes knows the hosts.
    KnownHosts(Tree),
    /// Any other name, or a number of at least 2: a registered split.
    Registered(SplitName),
}

impl TreeName {
    /// Returns the tree of a number, as the source counts trees: 0 is binary, 1 is binomial, and a higher number names
    /// the split that is registered under it.
    ///
    /// ```
    /// use gpc_trees::{Group, Registered, Registry, Tree, TreeName};
    ///
    /// let star = Registered::new("2", |n, groups| groups.extend((1..n).map(|start| Group { start, len: 1 })))?;
    /// let mut trees = Registry::new();
    /// trees.register(star.clone())?;
    /// assert_eq!(trees.named(&TreeName::numbered(1))?, Tree::Binomial);
    /// assert_eq!(trees.named(&TreeName::numbered(2))?, Tree::Registered(star));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn numbered(number: u32) -> TreeName {
        // The number of every other tree is a name.
        number.to_string().parse().unwrap_or_default()
    }

    /// The tree, if the name is that of a built-in one.
    pub fn built_in(&self) -> Option<Tree> {
        match self {
            TreeName::Binary => Some(Tree::Binary),
            TreeName::Binomial => Some(Tree::Binomial),
            TreeName::Kary(k) => Some(Tree::Kary(*k)),
            TreeName::Knomial(k) => Some(Tree::Knomial(*k)),
            TreeName::Chain => Some(Tree::Chain),
            TreeName::Flat => Some(Tree::Flat),
            TreeName::Loggp(lag) => Some(Tree::Loggp(*lag)),
            TreeName::File(_)
            | TreeName::Hosts { .. }
            | TreeName::KnownHosts(_)
            | TreeName::Registered(_) => None,
        }
    }
}

impl FromStr for TreeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<TreeName, NameError> {
        if let Some(tree) = text.strip_prefix("hosts+") {
            let tree = tree.parse::<TreeName>().ok().and_then(|tree| tree.built_in());
            let tree = tree.ok_or_else(|| NameError::Hosts { text: excerpt(text) })?;
            return Ok(TreeName::KnownHosts(tree));
        }
        let (word, parameter) = match text.split_once(':') {
            Some((word, parameter)) => (word, Some(parameter)),
            None => (text, None),
        };
        let plain = match word {
            "kary" => return Ok(TreeName::Kary(number(text, parameter, 1, NonZeroU32::new)?)),
            "knomial" => return Ok(TreeName::Knomial(number(text, parameter, 2, Radix::new)?)),
            "loggp" => return Ok(TreeName::Loggp(lag(text, parameter)?)),
            "file" => {
                let path = parameter.filter(|path| !path.is_empty()).ok_or(NameError::NoPath)?;
                return Ok(TreeName::File(path.to_owned()));
            }
            "hosts" => return hosts(text, parameter),
            "binary" | "0" => TreeName::Binary,
            "binomial" | "1" => TreeName::Binomial,
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

/// Parses the path and the tree of `hosts:PATH+TREE`; a path may contain a `+`, the name of a tree does not.
fn hosts(text: &str, parameter: Option<&str>) -> Result<TreeName, NameError> {
    let parts = parameter.and_then(|parameter| parameter.rsplit_once('+'));
    let tree = parts.and_then(|(_, tree)| tree.parse::<TreeName>().ok()?.built_in());
    match (parts, tree) {
        (Some((path, _)), Some(tree)) if !path.is_empty() => {
            Ok(TreeName::Hosts { path: path.to_owned(), tree })
        }
        _ => Err(NameError::Hosts { text: excerpt(text) }),
    }
}

/// Parses the lag, written as a number or as the costs of a message of one byte.
fn lag(text: &str, parameter: Option<&str>) -> Result<Lag, NameError> {
    let words: Vec<&str> = parameter.unwrap_or_default().split(',').collect();
    let whole = |word: &str| word.trim().parse::<u64>().ok();
    let lag = match words[..] {
        [lag] => decimal::billionths(lag.trim()).filter(|lag| *lag >= BILLION).and_then(from_ratio),
        [latency, overhead, gap, per_byte] => {
            let per_byte = decimal::billionths(per_byte.trim()).map(|cost| cost as f64 / BILLION as f64);
            let costs = (whole(latency), whole(overhead), whole(gap), per_byte);
            let (Some(latency), Some(overhead), Some(gap), Some(per_byte)) = costs else {
                return Err(NameError::Lag { text: excerpt(text) });
            };
            Lag::of_costs(latency, overhead, gap, per_byte, 1)
        }
        _ => None,
    };
    lag.ok_or_else(|| NameError::Lag { text: excerpt(text) })
}

/// The billionths of one.
const BILLION: u64 = 1_000_000_000;

fn from_ratio(billionths: u64) -> Option<Lag> {
    let parts = (u128::from(billionths) * 1024 + u128::from(BILLION) / 2) / u128::from(BILLION);
    Lag::from_1024ths(u32::try_from(parts).ok()?)
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
            (TreeName::Hosts { path, tree }, _) => write!(f, "hosts:{path}+{tree}"),
            (TreeName::KnownHosts(tree), _) => write!(f, "hosts+{tree}"),
            (TreeName::Registered(name), _) => name.fmt(f),
            (_, None) => unreachable!("every other name is that of a built-in tree"),
        }
    }
}
