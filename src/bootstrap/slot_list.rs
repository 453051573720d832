//! Lists of hosts with slots, as a user writes them: `a:2,b[01-64]`.
//!
//! A *slot* is room for one process on a host. `HOST:K` has K slots, and a host without a number has one. The text
//! before the colon has the syntax of a [`HostList`]. A name with several colons is an IPv6 address, without slots.
//!
//! Duplicates are merged here, not in [`HostList`], because the list of a launcher may name a host once for each task.
//! Slots of separate items add up: `a,a` is `a:2`, and `a:2,a:3` is `a:5`. Ranges of one item that overlap name a host
//! once: `n[1-3,2-4]` is `n[1-4]`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::host_list::{HOSTS_MAX, HostList, HostListError, SLOTS_MAX, TEXT_MAX, folded, items, shown};

/// Maximum number of names that the items of a list stand for in all, duplicates included: a file with a line for each
/// slot of the largest systems has fewer. It bounds the time for a list such as `a[0-65535],a[0-65535],...`.
const MENTIONS_MAX: usize = 1 << 20;

/// A host, and the number of processes that it may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSlots {
    /// The name or address of the host.
    pub name: String,
    /// Number of slots, at least 1.
    pub slots: u32,
}

/// Distinct hosts with their slots, at least one, in the order of their first mention.
///
/// ```
/// use chained_gpc::bootstrap::SlotList;
///
/// let hosts: SlotList = "a:2,b[1-3,2-4],a".parse()?;
/// let slots: Vec<(&str, u32)> = hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
/// assert_eq!(slots, [("a", 3), ("b1", 1), ("b2", 1), ("b3", 1), ("b4", 1)]);
/// assert_eq!(hosts.to_string(), "a:3,b[1-4]");
/// # Ok::<(), chained_gpc::bootstrap::HostListError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotList {
    hosts: Vec<HostSlots>,
}

impl SlotList {
    /// Number of hosts, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The hosts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &HostSlots> {
        self.hosts.iter()
    }

    /// Number of slots of all hosts.
    pub fn slots(&self) -> u64 {
        self.hosts.iter().map(|host| u64::from(host.slots)).sum()
    }

    /// Gives every host this number of slots, at least 1.
    #[must_use]
    pub fn with_slots(mut self, slots: u32) -> SlotList {
        self.hosts.iter_mut().for_each(|host| host.slots = slots.clamp(1, SLOTS_MAX));
        self
    }
}

impl From<String> for HostSlots {
    /// A host with one slot.
    fn from(name: String) -> HostSlots {
        HostSlots { name, slots: 1 }
    }
}

impl From<&str> for HostSlots {
    /// A host with one slot.
    fn from(name: &str) -> HostSlots {
        HostSlots::from(name.to_owned())
    }
}

impl FromStr for SlotList {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<SlotList, HostListError> {
        if text.len() > TEXT_MAX {
            return Err(HostListError::Text);
        }
        let mut adding = SlotAdder::default();
        for item in items(text)? {
            let (names, slots) = parse_item(item)?;
            adding.add(&names, slots.unwrap_or(1))?;
        }
        adding.finish()
    }
}

/// Parses an item: the hosts that it stands for, and the slots of each, if it has them.
pub(super) fn parse_item(item: &str) -> Result<(HostList, Option<u32>), HostListError> {
    let several = item.bytes().filter(|&byte| byte == b':').count() > 1;
    let Some((names, slots)) = item.split_once(':').filter(|_| !several) else {
        return Ok((item.parse()?, None));
    };
    let slots = parse_slots(slots).ok_or_else(|| HostListError::Slots(shown(item)))?;
    Ok((names.parse()?, Some(slots)))
}

/// Parses a number of slots; `None` if the text is not one.
pub(super) fn parse_slots(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|slots| is_plain && (1..=SLOTS_MAX).contains(slots))
}

/// Whether a name is an IPv6 address, with or without a user before it and a zone after it.
fn is_address(name: &str) -> bool {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

/// Adds up the slots of hosts.
#[derive(Debug, Default)]
pub(super) struct SlotAdder {
    hosts: Vec<HostSlots>,
    /// For each host, the number of the item that last named it.
    last_items: Vec<usize>,
    /// The index of a host, by its name.
    places: BTreeMap<String, usize>,
    items: usize,
    mentions: usize,
}

impl SlotAdder {
    /// Adds slots to each host of an item, once even if the item names it twice.
    pub(super) fn add(&mut self, names: &HostList, slots: u32) -> Result<(), HostListError> {
        self.items += 1;
        names.iter().try_for_each(|name| self.add_host(name, slots))
    }

    /// Adds slots to a host.
    pub(super) fn add_one(&mut self, name: &str, slots: u32) -> Result<(), HostListError> {
        self.items += 1;
        self.add_host(name, slots)
    }

    fn add_host(&mut self, name: &str, slots: u32) -> Result<(), HostListError> {
        self.mentions += 1;
        if self.mentions > MENTIONS_MAX {
            return Err(HostListError::Many);
        }
        let many = || HostListError::ManySlots(shown(name));
        if slots > SLOTS_MAX {
            return Err(many());
        }
        let Some(&place) = self.places.get(name) else {
            if self.hosts.len() == HOSTS_MAX {
                return Err(HostListError::Many);
            }
            if name.contains(':') && !is_address(name) {
                return Err(HostListError::Address(shown(name)));
            }
            self.places.insert(name.to_owned(), self.hosts.len());
            self.last_items.push(self.items);
            self.hosts.push(HostSlots { name: name.to_owned(), slots });
            return Ok(());
        };
        if std::mem::replace(&mut self.last_items[place], self.items) == self.items {
            return Ok(());
        }
        let host = &mut self.hosts[place];
        host.slots += slots;
        match host.slots > SLOTS_MAX {
            true => Err(many()),
            false => Ok(()),
        }
    }

    /// Returns the list.
    ///
    /// # Errors
    /// If no host was added.
    pub(super) fn finish(self) -> Result<SlotList, HostListError> {
        match self.hosts.is_empty() {
            true => Err(HostListError::Empty),
            false => Ok(SlotList { hosts: self.hosts }),
        }
    }
}

impl fmt::Display for SlotList {
    /// Writes the compressed form: neighbours with the same number of slots share a bracket, as in a [`HostList`]. The
    /// text parses again unless it exceeds 128 KiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for run in self.hosts.chunk_by(|host, next| host.slots == next.slots) {
            let names: Vec<&str> = run.iter().map(|host| host.name.as_str()).collect();
            let slots = run.first().map_or(1, |host| host.slots);
            for item in folded(&names) {
                // An address has no slots in a list: it stands there once for each.
                let (times, is_named) = if item.contains(':') { (slots, false) } else { (1, slots > 1) };
                for _ in 0..times {
                    write!(f, "{comma}{item}")?;
                    comma = ",";
                }
                if is_named {
                    write!(f, ":{slots}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        match text.parse::<SlotList>() {
            Ok(hosts) => hosts.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_item_may_have_slots() {
        let hosts: SlotList = "a:2,b[1-2],you@c+_d:65536".parse().unwrap();
        let all: Vec<(&str, u32)> = hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
        assert_eq!(all, [("a", 2), ("b1", 1), ("b2", 1), ("you@c+_d", SLOTS_MAX)]);
        assert_eq!((hosts.len(), hosts.slots()), (4, 65_540));
        assert_eq!(hosts.with_slots(3).to_string(), "a:3,b[1-2]:3,you@c+_d:3");
        assert_eq!(read("r[0-1]n[3,5-6]:4,x"), "r0n[3,5-6]:4,r1n[3,5-6]:4,x");
        for text in ["a:", "a:0", "a:x", "a:+1", "a:65537", "a:1[2-3]", "a:[1-2]"] {
            assert_eq!(
                read(&format!("b,{text}")),
                format!(
                    "`{text}` has no number of slots after its colon: write HOST:K with K from 1 to 65536"
                )
            );
        }
        assert_eq!(read(":2"), read(""));
        assert!(read("b,a;c:2").starts_with("`a;c` is no name of a host"));
        assert!(read("b,a[2-1]:2").starts_with("`2-1` of `a[2-1]` is no range"));
    }

    #[test]
    fn duplicates_add_their_slots_in_the_order_of_the_first_mention() {
        assert_eq!(read("b,a,b"), "b:2,a");
        assert_eq!(read("a:2,b,a:3"), "a:5,b");
        assert_eq!(read("n[1-3,2-4]"), "n[1-4]");
        assert_eq!(read("n[1-3,2-4]:2"), "n[1-4]:2");
        assert_eq!(read("n[1-3],n[2-4]"), "n1,n[2-3]:2,n4");
        assert_eq!(read("n1:65536,m,n1"), "host n1 has too many slots: 65536 are the most");
        assert_eq!(read("n1:65535,n1"), "n1:65536");
    }

    /// `SLURM_TASKS_PER_NODE=100000` made a list that did not parse again.
    #[test]
    fn the_first_mention_of_a_host_has_no_more_slots_than_its_sum() {
        for slots in [SLOTS_MAX + 1, u32::MAX] {
            let error = SlotAdder::default().add_one("n1", slots).unwrap_err().to_string();
            assert_eq!(error, "host n1 has too many slots: 65536 are the most");
        }
        assert!(SlotAdder::default().add_one("n1", SLOTS_MAX).is_ok());
    }

    #[test]
    fn a_name_with_several_colons_is_an_address() {
        for text in
            ["fe80::1%eth0", "::1", "you@2001:db8::[1-3]", "::ffff:10.0.0.1", "1:2:3:4:5:6:7:8", "a,::1,::1"]
        {
            assert_eq!(read(text), text);
        }
        for text in ["a:2:3", "fe80::1::2", "1:2:3:4:5:6:7:8:9", "::g"] {
            assert!(read(text).starts_with(&format!("`{text}` has colons and is no IPv6")), "{text}");
        }
    }

    #[test]
    fn a_list_is_bounded() {
        let many = "there are too many hosts: 65536 are the most";
        assert_eq!(read("a[0-65535],a[0-65535]"), "a[0-65535]:2");
        assert_eq!(read("a[0-65535],b"), many);
        assert_eq!(read("b,a[0-65535]"), many);
        let times = |count: usize| read(&vec!["a[0-65535]"; count].join(","));
        assert_eq!((times(16), times(17)), ("a[0-65535]:16".into(), many.into()));
        assert!(read(&"a,".repeat(TEXT_MAX)).starts_with("the list of hosts is too long"));
    }

    proptest! {
        #[test]
        fn a_list_reads_back_as_it_was_compressed(
            items in prop::collection::vec(
                ("[ab]{0,2}n?[0-9]{0,2}|n\\[[0-2],[1-3]\\]|fe80::[1-3]", 0u32..4), 1..30
            )
        ) {
            let item = |(name, slots): &(String, u32)| match slots {
                0 => name.clone(),
                _ if name.contains(':') => name.clone(),
                slots => format!("{name}:{slots}"),
            };
            let text = items.iter().map(item).collect::<Vec<_>>().join(",");
            if let Ok(hosts) = text.parse::<SlotList>() {
                prop_assert_eq!(hosts.to_string().parse(), Ok(hosts));
            }
        }

        #[test]
        fn any_text_is_a_list_or_refused(text in "[ab0-9,:\\[\\]\\-. é]{0,40}|\\PC{0,40}") {
            if let Ok(hosts) = text.parse::<SlotList>() {
                prop_assert!((1..=HOSTS_MAX).contains(&hosts.len()));
                prop_assert!(hosts.iter().all(|host| (1..=SLOTS_MAX).contains(&host.slots)));
                prop_assert_eq!(hosts.to_string().parse(), Ok(hosts));
            }
        }
    }
}
