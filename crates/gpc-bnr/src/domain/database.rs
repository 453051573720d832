//! A node's copies of databases, and the puts of its processes since their last fence.
//!
//! Source: BNR, "Database manipulation", "Thoughts about BNR Domains".

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::Shown;

use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member, Set};
use crate::order::{Entry, Meeting, Stamp};
use crate::request::Pair;

/// The copies at this node.
#[derive(Default, Debug)]
pub(super) struct Databases {
    copies: BTreeMap<String, Copy>,
    /// Greater than the clock of all entries that were distributed to this node.
    clock: u64,
    /// The number of the next put.
    next: u64,
}

/// The copy of one database.
#[derive(Default, Debug)]
pub(super) struct Copy {
    values: BTreeMap<Vec<u8>, Value>,
    /// Total size of its keys and values.
    bytes: usize,
}

/// A value with its stamp.
#[derive(Debug)]
struct Value {
    value: Vec<u8>,
    stamp: Stamp,
}

/// The member in stamps of puts that no process made.
const NOBODY: Member = Member { group: GroupId(0), rank: 0 };

impl Copy {
    pub(super) fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.values.get(key).map(|value| &value.value)
    }

    pub(super) fn pairs(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.values.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect()
    }

    /// Size of the copy with this pair in it.
    fn bytes_with(&self, key: &[u8], value: &[u8]) -> usize {
        let before = self.get(key).map_or(0, |before| key.len() + before.len());
        self.bytes - before + key.len() + value.len()
    }

    /// Puts a pair without checking limits.
    fn put(&mut self, pair: Pair, stamp: Stamp) {
        self.bytes = self.bytes_with(&pair.key, &pair.value);
        self.values.insert(pair.key, Value { value: pair.value, stamp });
    }
}

impl Databases {
    pub(super) fn get(&self, name: &str) -> Option<&Copy> {
        self.copies.get(name)
    }

    /// The names of the databases with a copy here.
    #[cfg(any(feature = "sim", feature = "snapshot"))]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.copies.keys().map(String::as_str)
    }

    /// Creates an empty copy of a database that has no copy here.
    pub(super) fn create(&mut self, name: &str) {
        if !self.copies.contains_key(name) {
            self.copies.insert(name.into(), Copy::default());
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.copies.remove(name);
    }

    /// Puts a pair for a process, or for none, and overwrites the key's value. Creates the copy if needed.
    ///
    /// # Errors
    /// The database would exceed its limit.
    pub(super) fn put(
        &mut self,
        name: &str,
        pair: Pair,
        member: Option<Member>,
        limits: &Limits,
    ) -> Result<Stamp, Fault> {
        self.create(name);
        let stamp = Stamp { clock: self.clock, member: member.unwrap_or(NOBODY), number: self.next };
        if let Some(copy) = self.copies.get_mut(name) {
            if copy.bytes_with(&pair.key, &pair.value) > limits.database {
                return Err(full(name, limits));
            }
            copy.put(pair, stamp);
            self.next += 1;
        }
        Ok(stamp)
    }

    /// Stores the entries that a fence distributed, where their stamps are greater than the stored ones. The fence's
    /// coordinator has checked the limits.
    ///
    /// Fences of different sets may arrive in another order than they completed; an older value has a smaller stamp and
    /// loses.
    pub(super) fn bring(&mut self, entries: Vec<Entry>) {
        for Entry { database, pair, stamp } in entries {
            self.clock = self.clock.max(stamp.clock.saturating_add(1));
            self.create(&database);
            let Some(copy) = self.copies.get_mut(&database) else { continue };
            if copy.values.get(&pair.key).is_none_or(|before| before.stamp <= stamp) {
                copy.put(pair, stamp);
            }
        }
    }

    /// Checks that a fence's entries fit.
    ///
    /// # Errors
    /// A database would exceed its limit.
    pub(super) fn has_room(&self, entries: &[Entry], limits: &Limits) -> Result<(), Fault> {
        let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
        for Entry { database, pair, .. } in entries {
            // An overwritten value is counted twice. That matters only near the limit, where the exact count follows.
            let before = self.copies.get(database).map_or(0, |copy| copy.bytes);
            *bytes.entry(database).or_insert(before) += pair.key.len() + pair.value.len();
        }
        match bytes
            .iter()
            .find(|(name, bytes)| **bytes > limits.database && !self.fits(name, entries, limits))
        {
            Some((name, _)) => Err(full(name, limits)),
            None => Ok(()),
        }
    }

    /// Counts exactly.
    fn fits(&self, name: &str, entries: &[Entry], limits: &Limits) -> bool {
        let mut sizes: BTreeMap<&[u8], usize> = BTreeMap::new();
        if let Some(copy) = self.copies.get(name) {
            sizes.extend(copy.values.iter().map(|(key, value)| (key.as_slice(), value.value.len())));
        }
        let of_it = entries.iter().filter(|entry| entry.database == name);
        sizes.extend(of_it.map(|entry| (entry.pair.key.as_slice(), entry.pair.value.len())));
        sizes.iter().map(|(key, value)| key.len() + value).sum::<usize>() <= limits.database
    }
}

/// Bytes of others as text: escaped and shortened to a line.
pub(super) fn shown(bytes: &[u8]) -> String {
    // Longer than the shortened text.
    let start = &bytes[..bytes.len().min(1024)];
    Shown(&String::from_utf8_lossy(start)).to_string()
}

fn full(name: &str, limits: &Limits) -> Fault {
    let message = format!(
        "the database {} would have more than {} bytes of keys and values, the most of one database",
        shown(name.as_bytes()),
        limits.database
    );
    Fault::new(FaultKind::TooLarge, message)
}

/// Checks a key of a database, or a global name.
///
/// # Errors
/// The key is empty or exceeds the limit.
pub(super) fn check_key(key: &[u8], limits: &Limits) -> Result<(), Fault> {
    if key.is_empty() {
        return Err(Fault::new(FaultKind::BadRequest, "a key has one byte at least"));
    }
    check_length("the key", key, limits.key)
}

/// Checks a value.
///
/// # Errors
/// The value exceeds the limit.
pub(super) fn check_value(key: &[u8], value: &[u8], limits: &Limits) -> Result<(), Fault> {
    if value.len() <= limits.value {
        return Ok(());
    }
    let message =
        format!("the value of {} has {} bytes, the most are {}", shown(key), value.len(), limits.value);
    Err(Fault::new(FaultKind::TooLarge, message))
}

/// Checks the length of something that the fault quotes.
///
/// # Errors
/// The length exceeds the limit.
pub(super) fn check_length(what: &str, bytes: &[u8], most: usize) -> Result<(), Fault> {
    if bytes.len() <= most {
        return Ok(());
    }
    let message = format!("{what} {} has {} bytes, the most are {most}", shown(bytes), bytes.len());
    Err(Fault::new(FaultKind::TooLarge, message))
}

/// Most requests of removed groups that later ones of a process name: groups that are freed while a release is in
/// transit.
const REMOVED_MAX: usize = 16;

/// Puts of a process that some set has not received yet; of each key only the last one.
///
/// A put is retained until the process's whole group has received it, and each other set that the process has fenced
/// with. A node of such a set may have a copy with an older value.
#[derive(Default, Debug)]
pub(super) struct Log {
    /// The number of the next put.
    next: u64,
    puts: BTreeMap<u64, Entry>,
    /// The number of the last put, by database and key.
    last: BTreeMap<String, BTreeMap<Vec<u8>, u64>>,
    /// For each set: the number up to which it has received all puts.
    marks: BTreeMap<Set, u64>,
    /// Collective requests that distributed puts and may not have reached all their nodes: the latest of each set and
    /// tag that no other has superseded. A fence of the whole group replaces them all. A process that fences only in
    /// subsets has one for each subset; `Epochs` bounds their number.
    after: BTreeSet<Meeting>,
}

impl Log {
    pub(super) fn put(&mut self, database: &str, pair: Pair, stamp: Stamp) {
        let number = self.next;
        self.next += 1;
        if !self.last.contains_key(database) {
            self.last.insert(database.into(), BTreeMap::new());
        }
        let before = self.last.get_mut(database).and_then(|keys| keys.insert(pair.key.clone(), number));
        if let Some(before) = before {
            self.puts.remove(&before);
        }
        self.puts.insert(number, Entry { database: database.into(), pair, stamp });
    }

    /// The number of the next put. Puts before it belong to the fence that is entered now.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// Puts before a mark that a set has not received.
    pub(super) fn since(&self, set: &Set, mark: u64) -> impl Iterator<Item = &Entry> {
        let from = self.marks.get(set).copied().unwrap_or_default().min(mark);
        self.puts.range(from..mark).map(|(_, entry)| entry)
    }

    /// Earlier requests that distributed puts which this one omits. Requests of one set and tag are ordered in any
    /// case.
    pub(super) fn after(&self, meeting: &Meeting) -> impl Iterator<Item = &Meeting> {
        self.after.iter().filter(|before| before.set != meeting.set || before.tag != meeting.tag)
    }

    /// A collective request has distributed all puts before a mark. `own` is the process's group: what all nodes of the
    /// group have received, the nodes of the sets `within` it have received.
    pub(super) fn brought(
        &mut self,
        meeting: &Meeting,
        mark: u64,
        own: GroupId,
        within: impl Fn(&Set) -> bool,
    ) {
        let (set, own) = (&meeting.set, &Set::Group(own));
        if !self.after.is_empty() || self.since(set, mark).next().is_some() {
            let covered = |of: &Set| of == set || set == own && within(of);
            self.after.retain(|before| !covered(&before.set));
            self.after.insert(meeting.clone());
        }
        self.marks.entry(own.clone()).or_default();
        self.marks.entry(set.clone()).or_default();
        let to_all = set == own;
        for (of, known) in &mut self.marks {
            if of == set || to_all && within(of) {
                *known = (*known).max(mark);
            }
        }
        self.drop_brought();
    }

    /// Drops the puts that all sets have received.
    fn drop_brought(&mut self) {
        let all_have = self.marks.values().copied().min().unwrap_or_default();
        let kept = self.puts.split_off(&all_have);
        for entry in std::mem::replace(&mut self.puts, kept).into_values() {
            self.forget_key(&entry);
        }
    }

    /// A group was removed: it fences no more. Its last request stays in `after` for a while, since its release may be
    /// in transit.
    pub(super) fn forget(&mut self, group: GroupId, is_removed: impl Fn(GroupId) -> bool) {
        self.marks.remove(&Set::Group(group));
        self.drop_brought();
        let removed = |meeting: &&Meeting| matches!(meeting.set, Set::Group(group) if is_removed(group));
        let removed: Vec<Meeting> = self.after.iter().filter(removed).cloned().collect();
        for before in removed.iter().rev().skip(REMOVED_MAX) {
            self.after.remove(before);
        }
    }

    fn forget_key(&mut self, entry: &Entry) {
        if let Some(keys) = self.last.get_mut(&entry.database) {
            keys.remove(&entry.pair.key);
            if keys.is_empty() {
                self.last.remove(&entry.database);
            }
        }
    }

    /// Whether nothing of the process waits for others.
    #[cfg(any(feature = "sim", feature = "snapshot"))]
    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.last.is_empty() && self.after.is_empty()
    }

    /// A database was removed.
    pub(super) fn destroyed(&mut self, database: &str) {
        for number in self.last.remove(database).unwrap_or_default().into_values() {
            self.puts.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pair(key: &str, value: &str) -> Pair {
        Pair { key: key.into(), value: value.into() }
    }

    fn stamp(clock: u64, rank: u32, number: u64) -> Stamp {
        Stamp { clock, member: Member { group: GroupId(1), rank }, number }
    }

    fn keys<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
        entries.map(|entry| String::from_utf8_lossy(&entry.pair.key).into_owned()).collect()
    }

    const GROUP: GroupId = GroupId(1);
    const OWN: Set = Set::Group(GROUP);

    fn is_within(set: &Set) -> bool {
        match set {
            Set::Members(members) => members.iter().all(|member| member.group == GROUP),
            Set::Group(group) => *group == GROUP,
        }
    }

    fn meeting(set: &Set) -> Meeting {
        Meeting { set: set.clone(), tag: Vec::new(), epoch: 0 }
    }

    fn some(ranks: &[u32]) -> Set {
        Set::Members(ranks.iter().map(|&rank| Member { group: GroupId(1), rank }).collect::<BTreeSet<_>>())
    }

    #[test]
    fn what_a_subset_has_got_still_goes_to_the_group() {
        let mut log = Log::default();
        log.put("d", pair("a", "1"), stamp(0, 0, 0));
        let few = some(&[0, 1]);
        log.brought(&meeting(&few), log.mark(), GROUP, is_within);
        log.put("d", pair("b", "1"), stamp(0, 0, 0));
        assert_eq!(keys(log.since(&few, log.mark())), ["b"]);
        assert_eq!(keys(log.since(&OWN, log.mark())), ["a", "b"]);
        log.brought(&meeting(&OWN), log.mark(), GROUP, is_within);
        assert_eq!(keys(log.since(&OWN, log.mark())), Vec::<String>::new());
        assert_eq!(keys(log.since(&few, log.mark())), Vec::<String>::new());
        assert!(log.puts.is_empty() && log.last.is_empty());
    }

    #[test]
    fn what_others_have_an_older_value_of_stays_for_them() {
        let other = Set::Members(
            [Member { group: GroupId(1), rank: 0 }, Member { group: GroupId(2), rank: 0 }].into(),
        );
        let mut log = Log::default();
        log.put("d", pair("a", "1"), stamp(0, 0, 0));
        log.brought(&meeting(&other), log.mark(), GROUP, is_within);
        log.put("d", pair("a", "2"), stamp(0, 0, 0));
        log.brought(&meeting(&OWN), log.mark(), GROUP, is_within);
        assert_eq!(keys(log.since(&other, log.mark())), ["a"]);
        log.brought(&meeting(&other), log.mark(), GROUP, is_within);
        assert!(log.puts.is_empty() && log.last.is_empty());
    }

    #[test]
    fn a_put_after_entering_goes_with_the_next_fence() {
        let mut log = Log::default();
        log.put("d", pair("a", "1"), stamp(0, 0, 0));
        let mark = log.mark();
        log.put("d", pair("b", "1"), stamp(0, 0, 0));
        assert_eq!(keys(log.since(&OWN, mark)), ["a"]);
        log.brought(&meeting(&OWN), mark, GROUP, is_within);
        assert_eq!(keys(log.since(&OWN, log.mark())), ["b"]);
    }

    #[test]
    fn a_database_that_is_gone_leaves_nothing() {
        let mut log = Log::default();
        log.put("d", pair("a", "1"), stamp(0, 0, 0));
        log.put("e", pair("a", "1"), stamp(0, 0, 0));
        log.destroyed("d");
        assert_eq!(
            log.since(&OWN, log.mark()).map(|entry| entry.database.as_str()).collect::<Vec<_>>(),
            ["e"]
        );
    }

    /// The fences of two sets with a common member arrived at a node in the wrong order. Afterwards the older value of
    /// a key was read there.
    #[test]
    fn what_comes_late_does_not_overwrite_what_is_newer() {
        let mut databases = Databases::default();
        let entry = |value: &str, stamp| Entry { database: "d".into(), pair: pair("a", value), stamp };
        databases.bring(vec![entry("new", stamp(0, 2, 9))]);
        databases.bring(vec![entry("old", stamp(0, 2, 8))]);
        assert_eq!(databases.get("d").unwrap().get(b"a").unwrap(), b"new");
        // A put that has seen the value has a greater stamp, whichever member makes it; a concurrent put is ordered by
        // its rank.
        let own = databases.put(
            "d",
            pair("a", "own"),
            Some(Member { group: GroupId(1), rank: 0 }),
            &Limits::default(),
        );
        assert!(own.unwrap() > stamp(0, 2, 9));
        databases.bring(vec![entry("other", stamp(0, 7, 0))]);
        assert_eq!(databases.get("d").unwrap().get(b"a").unwrap(), b"own");
        databases.bring(vec![entry("beside", stamp(1, 7, 0))]);
        assert_eq!(databases.get("d").unwrap().get(b"a").unwrap(), b"beside");
    }

    proptest! {
        #[test]
        fn bytes_are_counted_as_they_are(puts in prop::collection::vec(("[a-c]{1,2}", "[a-z]{0,9}"), 0..40), most in 0usize..40) {
            let limits = Limits { database: most, ..Limits::default() };
            let mut databases = Databases::default();
            databases.create("d");
            for (key, value) in puts {
                let mut after = databases.get("d").unwrap().pairs();
                after.insert(key.clone().into(), value.clone().into());
                let bytes: usize = after.iter().map(|(key, value)| key.len() + value.len()).sum();
                let entry = Entry { database: "d".into(), pair: pair(&key, &value), stamp: stamp(0, 0, 0) };
                let room = databases.has_room(&[entry], &limits);
                let put = databases.put("d", pair(&key, &value), None, &limits);
                prop_assert_eq!(put.is_ok(), bytes <= most);
                prop_assert_eq!(room.is_ok(), bytes <= most);
                if put.is_ok() {
                    prop_assert_eq!(&databases.get("d").unwrap().pairs(), &after);
                }
            }
        }
    }
}
