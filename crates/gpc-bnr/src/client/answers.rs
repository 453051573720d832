//! Conversion of answers to the return values of methods.

use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Rank};
use crate::request::{Answer, GroupStatus, Identity, Pair};
use crate::roster::Roster;
use crate::spec::LEFT_OUT;

/// The result of a spawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spawned {
    /// The number of the group.
    pub group: GroupId,
    /// For each requested process 0, or the system's error number if it was not started. If one is above 0, the started
    /// processes were killed. [`LEFT_OUT`] marks a process that `soft` left out; it has no rank.
    pub errors: Vec<i32>,
    /// Whether the group is in the caller's domain: always true at present.
    pub same_domain: bool,
}

impl Spawned {
    /// Whether all processes of the group were started.
    pub fn is_whole(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The ranks that were not started, with the system's error numbers.
    pub fn failed(&self) -> impl Iterator<Item = (Rank, i32)> + '_ {
        let started = self.errors.iter().copied().filter(|error| *error != LEFT_OUT);
        (0..).zip(started).filter(|(_, error)| *error != 0)
    }
}

fn strange(answer: &Answer) -> Fault {
    // The name of the variant suffices.
    let text: String = format!("{answer:?}").chars().take_while(|c| c.is_alphanumeric()).collect();
    Fault::new(
        FaultKind::Link,
        format!(
            "the node answers something else than it was asked for: {text}; run the same version everywhere"
        ),
    )
}

/// Defines functions that extract the value of an answer.
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
    rosters: Answer::Rosters(rosters) => rosters, Vec<Roster>;
}

/// The group of a member of a split; `None` for a member without a color.
pub(super) fn group_if_any(answer: Answer) -> Result<Option<GroupId>, Fault> {
    match answer {
        Answer::Done => Ok(None),
        answer => group(answer).map(Some),
    }
}

/// The only element of an answer with the processes of one group.
pub(super) fn one_roster(answer: Answer) -> Result<Roster, Fault> {
    let mut rosters = rosters(answer)?;
    match (rosters.pop(), rosters.is_empty()) {
        (Some(roster), true) => Ok(roster),
        _ => Err(strange(&Answer::Rosters(rosters))),
    }
}

/// The only element of an answer about one group.
pub(super) fn one_group(answer: Answer) -> Result<GroupStatus, Fault> {
    let mut groups = groups(answer)?;
    match (groups.pop(), groups.is_empty()) {
        (Some(group), true) => Ok(group),
        _ => Err(strange(&Answer::Groups(groups))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that `soft` left out have no rank, and are no failure.
    #[test]
    fn ranks_count_those_that_were_not_left_out() {
        let spawned =
            |errors: &[i32]| Spawned { group: GroupId(1), errors: errors.to_vec(), same_domain: true };
        let some = spawned(&[0, LEFT_OUT, LEFT_OUT, 5, 0, LEFT_OUT, 7]);
        assert!(some.failed().eq([(1, 5), (3, 7)]) && !some.is_whole());
        assert!(spawned(&[0, LEFT_OUT, 0]).is_whole() && spawned(&[]).is_whole());
    }

    #[test]
    fn an_answer_about_one_group_has_one() {
        let status = |group| GroupStatus {
            group: GroupId(group),
            parent: None,
            state: crate::request::GroupState::Open,
            database: String::new(),
            program: Vec::new(),
            age: std::time::Duration::ZERO,
            members: Vec::new(),
        };
        assert_eq!(one_group(Answer::Groups(vec![status(1)])), Ok(status(1)));
        for groups in [vec![], vec![status(1), status(2)]] {
            assert_eq!(one_group(Answer::Groups(groups)).unwrap_err().kind, FaultKind::Link);
        }
    }
}
