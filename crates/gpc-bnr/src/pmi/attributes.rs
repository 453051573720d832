//! PMI-2 node attributes: values that processes of one group share on their node. A process may wait for a value that
//! is not yet put.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::Serial;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member};
use crate::request::{Answer, Pair};

/// Most bytes of the keys and values of one group on one node.
const BYTES_MAX: usize = 16 << 20;

/// A request among the processes of a group on one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRequest {
    /// Puts a value under a key.
    Put(Pair),
    /// Requests the value of a key.
    Get {
        /// The key.
        key: Vec<u8>,
        /// Whether to wait until the key is put.
        wait: bool,
    },
}

/// The answer to a request of a process.
pub type NodeAnswer = (Member, Serial, Result<Answer, Fault>);

/// The attributes of all groups on one node. The answers are those to [`Get`](crate::request::Request::Get) and
/// [`Put`](crate::request::Request::Put).
#[derive(Clone, Default, Debug)]
pub struct Attributes {
    groups: BTreeMap<GroupId, Group>,
}

#[derive(Clone, Default, Debug)]
struct Group {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// Processes that wait for a key. Bounded, since each connection has a bounded number of requests.
    waits: BTreeMap<Vec<u8>, BTreeSet<(Member, Serial)>>,
}

impl Attributes {
    /// An empty set of attributes.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// Handles a request of a process, and returns the answers that are ready now.
    pub fn ask(&mut self, member: Member, serial: Serial, ask: NodeRequest) -> Vec<NodeAnswer> {
        let group = self.groups.entry(member.group).or_default();
        match ask {
            NodeRequest::Put(pair) => group.put(member, serial, pair),
            NodeRequest::Get { key, wait } => match group.values.get(&key) {
                Some(value) => vec![(member, serial, Ok(Answer::Value(value.clone())))],
                None if wait => {
                    group.waits.entry(key).or_default().insert((member, serial));
                    Vec::new()
                }
                None => {
                    let fault = Fault::new(FaultKind::NotFound, "no process of this node has put this key");
                    vec![(member, serial, Err(fault))]
                }
            },
        }
    }

    /// Drops the waits of a process whose connection has closed.
    pub fn gone(&mut self, member: Member) {
        let Some(group) = self.groups.get_mut(&member.group) else { return };
        group.waits.retain(|_, waits| {
            waits.retain(|(waiting, _)| *waiting != member);
            !waits.is_empty()
        });
    }

    /// Drops the attributes of a group without processes here.
    pub fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }
}

impl Group {
    fn put(&mut self, member: Member, serial: Serial, Pair { key, value }: Pair) -> Vec<NodeAnswer> {
        let before = self.values.get(&key).map_or(0, |value| key.len() + value.len());
        let bytes = self.bytes - before + key.len() + value.len();
        if bytes > BYTES_MAX {
            let message = format!("the processes of a node put at most {BYTES_MAX} bytes for each other");
            return vec![(member, serial, Err(Fault::new(FaultKind::TooLarge, message)))];
        }
        self.bytes = bytes;
        let mut answers = vec![(member, serial, Ok(Answer::Done))];
        let waits = self.waits.remove(&key).unwrap_or_default();
        answers.extend(
            waits.into_iter().map(|(member, serial)| (member, serial, Ok(Answer::Value(value.clone())))),
        );
        self.values.insert(key, value);
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(group: u32, rank: u32) -> Member {
        Member { group: GroupId(group), rank }
    }

    fn put(key: &str, value: &str) -> NodeRequest {
        NodeRequest::Put(Pair { key: key.into(), value: value.into() })
    }

    fn get(key: &str, wait: bool) -> NodeRequest {
        NodeRequest::Get { key: key.into(), wait }
    }

    #[test]
    fn who_waits_is_answered_when_it_is_put() {
        let mut attributes = Attributes::new();
        assert_eq!(attributes.ask(member(1, 0), 1, get("k", true)), []);
        assert_eq!(attributes.ask(member(1, 1), 5, get("k", true)), []);
        assert_eq!(attributes.ask(member(1, 2), 3, get("k", true)), []);
        assert!(
            matches!(&attributes.ask(member(1, 1), 6, get("k", false))[..], [(_, 6, Err(fault))] if fault.kind == FaultKind::NotFound)
        );
        // The key of another group is independent.
        assert_eq!(attributes.ask(member(2, 0), 9, put("k", "other")), [(member(2, 0), 9, Ok(Answer::Done))]);
        attributes.gone(member(1, 2));
        let value = |member, serial| (member, serial, Ok(Answer::Value(b"v".to_vec())));
        let answers = attributes.ask(member(1, 3), 7, put("k", "v"));
        assert_eq!(
            answers,
            [(member(1, 3), 7, Ok(Answer::Done)), value(member(1, 0), 1), value(member(1, 1), 5)]
        );
        assert_eq!(attributes.ask(member(1, 2), 8, get("k", true)), [value(member(1, 2), 8)]);
        // Each wait is answered once.
        assert_eq!(attributes.ask(member(1, 3), 9, put("k", "v")), [(member(1, 3), 9, Ok(Answer::Done))]);
        attributes.forget(GroupId(1));
        assert_eq!(attributes.ask(member(1, 2), 9, get("k", true)), []);
    }

    #[test]
    fn what_is_put_has_a_bound_and_what_is_put_again_counts_once() {
        let mut attributes = Attributes::new();
        let half = "x".repeat(BYTES_MAX / 2);
        for serial in 0..5 {
            assert!(attributes.ask(member(1, 0), serial, put("k", &half))[0].2.is_ok());
        }
        let refused = attributes.ask(member(1, 0), 5, put("l", &half));
        assert!(matches!(&refused[..], [(_, 5, Err(fault))] if fault.kind == FaultKind::TooLarge));
        assert!(attributes.ask(member(1, 0), 6, put("l", "v"))[0].2.is_ok());
    }
}
