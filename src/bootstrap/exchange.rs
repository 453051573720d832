//! The exchange through a launcher's space, without I/O: what each process puts, one fence, and what it gets.
//!
//! Id 0 draws the job and the secret and puts them; each process puts its entry. After the fence each process gets the
//! values of id 0, and only the entries of its neighbours in a tree. If a thousand processes each got a thousand
//! entries, a launcher's server would be busy for minutes. Calls through the tree exchange the rest.

use std::collections::{BTreeMap, VecDeque};
use std::str::FromStr;

use gpc_trees::{Id, Tree};
use zeroize::Zeroizing;

use super::entry::Entry;
use super::parts;
use crate::link::peering::Secret;
use crate::wire::Job;

/// The tree of the exchange: its depth is small, and no id has many children.
pub(super) const TREE: Tree = Tree::Binomial;

/// The key of the job and its secret, which id 0 puts.
const JOB_KEY: &str = "gpc.job";

/// The version of the text that id 0 puts.
const FORM: &str = "1";

/// The values that all processes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Common {
    pub(super) job: Job,
    pub(super) secret: Secret,
}

impl Common {
    /// Returns the text `1,JOB,SECRET`.
    pub(super) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{FORM},{},{}", self.job, self.secret.to_text().as_str()))
    }
}

impl FromStr for Common {
    type Err = &'static str;

    /// Parses the text. It contains a secret, so errors quote none of it.
    fn from_str(text: &str) -> Result<Common, &'static str> {
        let mut words = text.split(',');
        if words.next() != Some(FORM) {
            return Err("it is of another form: all processes run the same version");
        }
        let (Some(job), Some(secret), None) = (words.next(), words.next(), words.next()) else {
            return Err("it is no job and its secret");
        };
        let job = job.parse().map_err(|_| "it is no job")?;
        let secret = secret.parse().map_err(|_| "it is no secret")?;
        Ok(Common { job, secret })
    }
}

/// Returns the neighbours of an id in the tree over all ids: its parent and its children.
pub(super) fn neighbours(id: Id, count: u32) -> (Option<Id>, Vec<Id>) {
    let (mut start, mut len, mut parent) = (0, count, None);
    // Terminates: each iteration descends into a part of the slice.
    loop {
        let groups = TREE.split(len).unwrap_or_default();
        if start == id {
            return (parent, groups.iter().map(|group| start + group.start).collect());
        }
        let holds =
            |group: &&gpc_trees::Group| (start + group.start..start + group.start + group.len).contains(&id);
        // Every id below the count is in one of the groups.
        let Some(group) = groups.iter().find(holds) else { return (None, Vec::new()) };
        parent = Some(start);
        (start, len) = (start + group.start, group.len);
    }
}

/// The next operation on the space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SpaceOperation {
    /// Put a value.
    Put { key: String, value: Zeroizing<String> },
    /// Wait for all processes.
    Fence,
    /// Get a value, and pass it to [`give`](Exchange::give).
    Get { of: Id, key: String },
}

/// The result of the exchange at one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ExchangeResult {
    pub(super) common: Common,
    /// The entries of the neighbours, by id.
    pub(super) entries: BTreeMap<Id, Entry>,
}

/// An invalid value of another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InvalidValue {
    pub(super) of: Id,
    pub(super) why: String,
}

/// A value that is being read, part by part.
#[derive(Debug)]
struct Getting {
    of: Id,
    key: String,
    text: Zeroizing<String>,
    next: usize,
    /// Number of parts; `None` until the first part has been read.
    parts: Option<usize>,
}

/// The exchange of one process.
#[derive(Debug)]
pub(super) struct Exchange {
    wants: VecDeque<SpaceOperation>,
    getting: Option<Getting>,
    gets: VecDeque<(Id, String)>,
    common: Option<Common>,
    entries: BTreeMap<Id, Entry>,
}

impl Exchange {
    /// Creates the exchange of process `id` among `count`, whose entry is `entry`. Only id 0 passes `drawn`. `None` if
    /// `value_max` is too short.
    pub(super) fn new(
        id: Id,
        count: u32,
        entry: &str,
        drawn: Option<Common>,
        value_max: usize,
    ) -> Option<Exchange> {
        let mut exchange = Exchange {
            wants: VecDeque::new(),
            getting: None,
            gets: VecDeque::new(),
            common: drawn,
            entries: BTreeMap::new(),
        };
        if count == 1 {
            return Some(exchange);
        }
        if let Some(text) = exchange.common.as_ref().map(Common::to_text) {
            exchange.put(JOB_KEY, &text, value_max)?;
        } else {
            exchange.gets.push_back((0, JOB_KEY.into()));
        }
        exchange.put(&entry_key(id), entry, value_max)?;
        exchange.wants.push_back(SpaceOperation::Fence);
        let (parent, children) = neighbours(id, count);
        let neighbours = parent.into_iter().chain(children);
        exchange.gets.extend(neighbours.map(|id| (id, entry_key(id))));
        Some(exchange)
    }

    fn put(&mut self, key: &str, value: &str, value_max: usize) -> Option<()> {
        let parts = parts::cut(key, value, value_max)?;
        self.wants
            .extend(parts.into_iter().map(|(key, value)| SpaceOperation::Put { key, value: value.into() }));
        Some(())
    }

    /// Returns the next operation; `None` when the exchange is complete.
    pub(super) fn want(&mut self) -> Option<SpaceOperation> {
        if let Some(want) = self.wants.pop_front() {
            return Some(want);
        }
        if self.getting.is_none() {
            let (of, key) = self.gets.pop_front()?;
            self.getting = Some(Getting { of, key, text: String::new().into(), next: 0, parts: None });
        }
        let getting = self.getting.as_ref()?;
        let key = match getting.next {
            0 => getting.key.clone(),
            place => parts::part_key(&getting.key, place),
        };
        Some(SpaceOperation::Get { of: getting.of, key })
    }

    /// Accepts the value of the last [`SpaceOperation::Get`].
    ///
    /// # Errors
    /// If the value is invalid.
    pub(super) fn give(&mut self, value: &str) -> Result<(), InvalidValue> {
        let Some(mut getting) = self.getting.take() else { return Ok(()) };
        let of = getting.of;
        let useless = |why: String| InvalidValue { of, why };
        match getting.parts {
            None => {
                let (parts, rest) =
                    parts::first(value).ok_or_else(|| useless("it does not say how long it is".into()))?;
                getting.parts = Some(parts);
                getting.text.push_str(rest);
            }
            Some(_) => getting.text.push_str(value),
        }
        getting.next += 1;
        if Some(getting.next) < getting.parts {
            self.getting = Some(getting);
            return Ok(());
        }
        if getting.key == JOB_KEY {
            self.common = Some(getting.text.parse().map_err(|why: &str| useless(why.into()))?);
        } else {
            let entry: Result<Entry, _> = getting.text.parse();
            self.entries.insert(of, entry.map_err(|fault| useless(fault.to_string()))?);
        }
        Ok(())
    }

    /// Returns the result once [`want`](Self::want) has returned `None`.
    pub(super) fn found(self) -> Option<ExchangeResult> {
        Some(ExchangeResult { common: self.common?, entries: self.entries })
    }
}

fn entry_key(id: Id) -> String {
    format!("gpc.at.{id}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn common() -> Common {
        Common { job: Job([7; 16]), secret: Secret::new(&[9; 32]).unwrap() }
    }

    fn entry(id: Id) -> Entry {
        format!("1,host-{},0123456789abcdef,-,unix:@a-{id}", id % 3).parse().unwrap()
    }

    /// Runs all processes over one space. A process may get only values that were put before the fence.
    fn exchange_all(count: u32, value_max: usize) -> (Vec<ExchangeResult>, usize) {
        let (mut space, mut gets) = (BTreeMap::new(), 0);
        let mut all: Vec<Exchange> = (0..count)
            .map(|id| {
                let drawn = (id == 0).then(common);
                Exchange::new(id, count, &entry(id).to_string(), drawn, value_max).unwrap()
            })
            .collect();
        for exchange in &mut all {
            while let Some(SpaceOperation::Put { key, value }) = exchange.want() {
                assert!(value.len() <= value_max && key.len() <= 60);
                assert!(space.insert(key, value).is_none(), "each key is put once");
            }
        }
        for exchange in &mut all {
            while let Some(want) = exchange.want() {
                let SpaceOperation::Get { key, .. } = want else { panic!("one fence: {want:?}") };
                gets += 1;
                exchange.give(&space[&key]).unwrap();
            }
        }
        (all.into_iter().map(|exchange| exchange.found().unwrap()).collect(), gets)
    }

    #[test]
    fn each_process_gets_its_neighbours_and_what_id_0_says() {
        for count in [1, 2, 3, 8, 100] {
            let (all, gets) = exchange_all(count, 1023);
            for (id, found) in (0..).zip(&all) {
                assert_eq!(found.common, common());
                let (parent, children) = neighbours(id, count);
                let expected: BTreeMap<Id, Entry> =
                    parent.into_iter().chain(children).map(|id| (id, entry(id))).collect();
                assert_eq!(found.entries, expected);
            }
            assert_eq!(gets, if count == 1 { 0 } else { 3 * (count as usize - 1) });
        }
        let (in_parts, gets) = exchange_all(5, 20);
        assert_eq!(in_parts, exchange_all(5, 1023).0);
        assert!(gets > 24, "a secret has many parts");
        assert!(Exchange::new(1, 2, &"x".repeat(500), None, 20).is_none());
    }

    #[test]
    fn what_is_of_no_use_is_said_of_whom_it_came() {
        let begin = || {
            let mut exchange = Exchange::new(5, 8, &entry(5).to_string(), None, 1023).unwrap();
            while !matches!(exchange.want(), Some(SpaceOperation::Get { .. })) {}
            exchange
        };
        for bad in ["", "x", "1:", "1:1,", "1:2,00", "1:1,x,y", "9"] {
            let useless = begin().give(bad).unwrap_err();
            assert_eq!(useless.of, 0, "{bad}");
            assert!(!useless.why.is_empty());
        }
        let more = begin().give(&format!("1:{},x", common().to_text().as_str())).unwrap_err();
        assert_eq!((more.of, more.why.as_str()), (0, "it is no job and its secret"));
        let mut exchange = begin();
        exchange.give(&format!("1:{}", common().to_text().as_str())).unwrap();
        assert_eq!(exchange.want(), Some(SpaceOperation::Get { of: 4, key: "gpc.at.4".into() }));
        assert_eq!(exchange.give("1:2,nonsense").unwrap_err().of, 4);
    }

    proptest! {
        /// Neighbours form a tree: each id but the root has one parent, and is one of its children.
        #[test]
        fn neighbours_are_those_of_a_tree(count in 1u32..300) {
            prop_assert_eq!(neighbours(0, count).0, None);
            for id in 1..count {
                let parent = neighbours(id, count).0.unwrap();
                prop_assert!(parent < id);
                prop_assert!(neighbours(parent, count).1.contains(&id));
            }
            let children: usize = (0..count).map(|id| neighbours(id, count).1.len()).sum();
            prop_assert_eq!(children, count as usize - 1);
        }

        #[test]
        fn any_text_is_what_id_0_says_or_refused(text in "(1,)?[0-9a-f]{0,40},?[0-9a-f]{0,70}") {
            let _ = text.parse::<Common>();
        }

        #[test]
        fn any_values_are_taken_or_refused(values in prop::collection::vec("([1-9]:)?[ -~]{0,40}", 0..30)) {
            let mut exchange = Exchange::new(5, 8, "x", None, 1023).unwrap();
            for value in values {
                while matches!(exchange.want(), Some(SpaceOperation::Put { .. } | SpaceOperation::Fence)) {}
                if exchange.give(&value).is_err() { return Ok(()) }
            }
        }
    }
}
