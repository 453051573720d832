//! What each request is answered by.

use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Rank};
use crate::request::{Answer, GroupStatus, Identity, Pair};

/// A group that was to be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spawned {
    /// Its number.
    pub group: GroupId,
    /// For each rank 0, or the number of the system's error because of which it was not started. Where one is not 0, the others were killed.
    pub errors: Vec<i32>,
    /// Whether it is in the domain of who asked: always, as yet.
    pub same_domain: bool,
}

impl Spawned {
    /// Whether all its processes were started.
    pub fn is_whole(&self) -> bool {
        self.errors.iter().all(|error| *error == 0)
    }

    /// Who was not started, and the number of the system's error.
    pub fn failed(&self) -> impl Iterator<Item = (Rank, i32)> + '_ {
        let ranks = (0..).zip(self.errors.iter().copied());
        ranks.filter(|(_, error)| *error != 0)
    }
}

fn strange(answer: &Answer) -> Fault {
    // One word of it is enough.
    let text: String = format!("{answer:?}").chars().take_while(|c| c.is_alphanumeric()).collect();
    Fault::new(
        FaultKind::Link,
        format!(
            "the node answers something else than it was asked for: {text}; run the same version everywhere"
        ),
    )
}

/// How an answer becomes what a method returns.
macro_rules! answers {
    ($($name:ident: $pattern:pat => $value:expr, $type:ty;)+) => {
        $(pub(super) fn $name(answer: Answer) -> Result<$type, Fault> {
            match answer {
                $pattern => Ok($value),
                other => Err(strange(&other)),
            }
        })+
    };
}

answers! {
    done: Answer::Done => (), ();
    identity: Answer::Identity(identity) => identity, Identity;
    number: Answer::Number(number) => number, u64;
    group: Answer::Group(group) => group, GroupId;
    spawned: Answer::Spawned { group, errors, same_domain } => Spawned { group, errors, same_domain }, Spawned;
    name: Answer::Name(name) => name, String;
    names: Answer::Names(names) => names, Vec<String>;
    value: Answer::Value(value) => value, Vec<u8>;
    pairs: Answer::Pairs(pairs) => pairs, Vec<Pair>;
    groups: Answer::Groups(groups) => groups, Vec<GroupStatus>;
    limits: Answer::Limits(limits) => limits, Limits;
}

/// The one group that was asked for.
pub(super) fn one_group(answer: Answer) -> Result<GroupStatus, Fault> {
    let mut groups = groups(answer)?;
    match (groups.pop(), groups.is_empty()) {
        (Some(group), true) => Ok(group),
        _ => Err(strange(&Answer::Groups(groups))),
    }
}
