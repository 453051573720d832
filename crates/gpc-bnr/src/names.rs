//! Names of groups, processes and sets of processes.
//!
//! Source: BNR, "Process groups": a process is identified by its group and its rank within it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Number of a process in its group, from 0.
pub type Rank = u32;

/// Prefix of the keys that only the domain writes into a group's own database, such as `PMI_process_mapping`. The
/// domain writes them before the group's first process runs.
pub const RESERVED: &[u8] = b"PMI_";

/// A group. The head assigns each number once. Displayed as `g3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A process: the group that it was started in, and its rank there. Displayed as `g3.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// Its group.
    pub group: GroupId,
    /// Its rank.
    pub rank: Rank,
}

/// The participants of a fence or another collective request. Two sets of the same members are equal, in whatever order
/// they were listed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Set {
    /// All processes of a group.
    Group(GroupId),
    /// These processes, of one group or of several.
    Members(BTreeSet<Member>),
}

/// Whether a domain may have this name: 1 to 64 letters and digits.
pub(crate) fn is_domain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether another node may have this host name, which becomes part of messages and of the names of files: 1 to 255
/// graphic ASCII characters, no slash, and no dot at the begin.
pub(crate) fn is_host(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    (1..=255).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_part)
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// Error: the text is not a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a group is written g and its number, such as g1")]
pub struct GroupIdError;

impl FromStr for GroupId {
    type Err = GroupIdError;

    fn from_str(text: &str) -> Result<GroupId, GroupIdError> {
        let digits = text.strip_prefix('g').unwrap_or(text);
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain).map(GroupId).ok_or(GroupIdError)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.rank)
    }
}
