//! The share of the tree that one agent starts: hosts, and the ids on each.
//!
//! A share is a slice of the list of hosts, in order; each host has consecutive ids. The first id of the first host is
//! the agent that has the share. The rest is split as a k-ary tree splits a list: the other ids of its own host, and
//! the other hosts. So if an agent is lost, another one splits its share exactly as the agent itself would have.

use std::num::NonZeroU32;

use gpc_trees::{Id, Tree};

/// Maximum number of processes of one launch over hosts: each receives the addresses of all.
pub const REMOTE_PROCESSES_MAX: u32 = 16384;

/// Maximum length of a host name, bytes: that of the domain name system, with a user name before it.
pub(super) const NAME_MAX: usize = 320;

/// Consecutive ids on one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HostIds {
    pub(super) first: Id,
    pub(super) count: u32,
    pub(super) name: String,
}

/// The hosts of an agent and of all agents below it, its own first; never empty.
pub(super) type Share = Vec<HostIds>;

/// Whether a text is a safe host name in a command: no option, no white space, no terminal control characters.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl HostIds {
    /// Parses the text after `host` in a line: `FIRST COUNT NAME`.
    pub(super) fn parse(text: &str) -> Option<HostIds> {
        let mut words = text.splitn(3, ' ');
        let (first, count, name) = (words.next()?, words.next()?, words.next()?);
        let (first, count) = (first.parse().ok()?, count.parse().ok()?);
        let ids = 1..=REMOTE_PROCESSES_MAX;
        let fits = ids.contains(&first) && ids.contains(&count) && first + count - 1 <= REMOTE_PROCESSES_MAX;
        (fits && is_name(name)).then(|| HostIds { first, count, name: name.into() })
    }

    /// The id after the last one.
    pub(super) fn end(&self) -> Id {
        self.first + self.count
    }
}

/// The first id of a share, and the number of its ids.
pub(super) fn extent(share: &[HostIds]) -> (Id, u32) {
    let first = share.first().map_or(0, |host| host.first);
    (first, share.last().map_or(0, |host| host.end() - first))
}

/// Whether the ids of a list of hosts are consecutive.
pub(super) fn is_share(share: &[HostIds]) -> bool {
    !share.is_empty() && share.windows(2).all(|pair| pair[0].end() == pair[1].first)
}

/// The shares of the agents on other hosts that the first host of a share starts.
pub(super) fn other_hosts(share: &[HostIds], fan_out: NonZeroU32) -> Vec<Share> {
    groups(share.len() as u32, fan_out).map(|(start, end)| share[start..end].to_vec()).collect()
}

/// The shares of the agents on its own host that the first id of a host starts.
pub(super) fn same_host(host: &HostIds, fan_out: NonZeroU32) -> Vec<Share> {
    let part = |(start, end): (usize, usize)| {
        vec![HostIds {
            first: host.first + start as Id,
            count: (end - start) as u32,
            name: host.name.clone(),
        }]
    };
    groups(host.count, fan_out).map(part).collect()
}

/// The groups of a list as index ranges, each with an exclusive end.
fn groups(len: u32, fan_out: NonZeroU32) -> impl Iterator<Item = (usize, usize)> {
    // The split fails only for an empty list: the maximum number of processes keeps the fan-out below its limit.
    let groups = Tree::Kary(fan_out).split(len).unwrap_or_default();
    groups.into_iter().map(|group| (group.start as usize, (group.start + group.len) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: u32, each: u32) -> Share {
        let host = |place| HostIds { first: 1 + place * each, count: each, name: format!("h{place}") };
        (0..count).map(host).collect()
    }

    #[test]
    fn every_id_is_in_one_share_whatever_the_fan_out() {
        for (count, each, fan_out) in [(1, 1, 1), (1, 9, 2), (17, 2, 3), (64, 1, 8), (5, 4, 100)] {
            let fan_out = NonZeroU32::new(fan_out).unwrap();
            let mut seen = Vec::new();
            let mut left = vec![hosts(count, each)];
            while let Some(share) = left.pop() {
                assert!(is_share(&share));
                seen.push(share[0].first);
                let (own, others) = (same_host(&share[0], fan_out), other_hosts(&share, fan_out));
                let most = fan_out.get() as usize;
                assert!(own.len() <= most && others.len() <= most);
                let below: u32 = own.iter().chain(&others).map(|share| extent(share).1).sum();
                assert_eq!(below + 1, extent(&share).1);
                left.extend(own.into_iter().chain(others));
            }
            seen.sort_unstable();
            assert_eq!(seen, (1..=count * each).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_line_of_a_host_is_checked() {
        let host = HostIds::parse("3 2 root@node-3.example").unwrap();
        assert_eq!((host.first, host.end(), host.name.as_str()), (3, 5, "root@node-3.example"));
        for line in [
            "",
            "1 2",
            "1 0 a",
            "0 1 a",
            "1 1 -oProxyCommand=x",
            "1 1 a b",
            "1 1 ",
            "x 1 a",
            "16384 2 a",
            "4294967295 1 a",
        ] {
            assert_eq!(HostIds::parse(line), None, "{line}");
        }
        assert!(!is_share(&[]) && !is_share(&[host.clone(), host]));
    }
}
