//! Derives the members from the level-n data of the top: their ids, their groups, and whether their entries are
//! consistent.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use chained_gpc::bootstrap::{Entry, Farewell, Meeting};
use chained_gpc::wire::level::{Limits, Token, Tokens};
use chained_gpc::{Address, Id};

use super::origin::dotted;
use super::{JoinError, Origin};
use crate::machine::Completion;

/// Most bytes of a malformed entry that an error retains: more than are shown.
const SHOWN: usize = 1024;

/// The processes in the order of their ids: by subjob, then by rank.
fn members(level: u16, data: &Bytes) -> Result<Vec<(Origin, Bytes)>, JoinError> {
    let mut members = Vec::new();
    // The next rank in each open unit. The limit of levels bounds the depth.
    let mut next: Vec<u64> = Vec::new();
    for token in Tokens::new(level, data, Limits::default()) {
        match token.map_err(|error| JoinError::Level { level, error })? {
            Token::Open { .. } => next.push(0),
            Token::Leaf(leaf) => {
                let Some((rank, units)) = next.split_last() else { continue };
                members.push((Origin { units: units.to_vec(), rank: *rank }, data.slice_ref(leaf)));
                next.last_mut().into_iter().for_each(|rank| *rank += 1);
            }
            Token::Close => {
                next.pop();
                next.last_mut().into_iter().for_each(|rank| *rank += 1);
            }
        }
    }
    Ok(members)
}

/// A property that two processes may not share: a key, or an address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum UniqueProperty {
    Key(String),
    /// An address, unique everywhere; or, if it is local, unique among the processes with the same `reach`.
    Address(Option<u64>, String),
}

impl fmt::Display for UniqueProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UniqueProperty::Key(_) => f.write_str("the same public key"),
            UniqueProperty::Address(_, address) => write!(f, "the address {address}"),
        }
    }
}

/// The key and the addresses of a process.
fn own(entry: &Entry) -> impl Iterator<Item = UniqueProperty> + '_ {
    let address = |address: &Address| {
        UniqueProperty::Address(address.is_local().then_some(entry.reach), address.to_string())
    };
    entry
        .key
        .iter()
        .map(|key| UniqueProperty::Key(key.to_string()))
        .chain(entry.addresses.iter().map(address))
}

/// The result of the meeting for this process, which registered `mine`, from the completion of the top.
pub(super) fn meeting(completion: &Completion, mine: &str) -> Result<Meeting, JoinError> {
    let joint = completion.joint.clone().ok_or(JoinError::NoJoint)?;
    let members = members(completion.level, &completion.data)?;
    let mut owners = BTreeMap::new();
    let mut id = None;
    let (mut entries, mut groups) = (Vec::with_capacity(members.len()), Vec::with_capacity(members.len()));
    for (at, (who, data)) in members.into_iter().enumerate() {
        let text = std::str::from_utf8(&data).ok();
        let Some(entry) = text.and_then(|text| text.parse::<Entry>().ok()) else {
            let text = String::from_utf8_lossy(&data[..data.len().min(SHOWN)]).into_owned();
            return Err(JoinError::Registrant { who, text });
        };
        for own in own(&entry) {
            let what = own.to_string();
            if let Some(one) = owners.insert(own, who.clone()).filter(|one| *one != who) {
                return Err(JoinError::Twice { one, other: who, what });
            }
        }
        if text == Some(mine) {
            id = Some(Id::try_from(at).map_err(|_| JoinError::TooMany)?);
        }
        entries.push(data.to_vec());
        groups.push(group(&who.units));
    }
    let id = id.ok_or(JoinError::NotThere)?;
    let (job, secret, farewell) = (joint.job, joint.secret, Farewell::default());
    Ok(Meeting { id, entries, groups, job, secret, farewell })
}

/// Name of a level-1 unit.
fn group(units: &[u64]) -> String {
    match units {
        [] => "job".into(),
        units => format!("subjob-{}", dotted(units)),
    }
}

#[cfg(test)]
mod tests {
    use chained_gpc::{Job, Secret};
    use proptest::prelude::*;

    use super::*;
    use crate::machine::{Joint, join_data};

    fn entry(name: &str) -> String {
        format!("1,host,0123456789abcdef,-,unix:@{name}")
    }

    fn completion(level: u16, data: Bytes) -> Completion {
        let joint = Joint { job: Job([1; 16]), secret: Secret::new(&[2; 32]).unwrap() };
        Completion { level, data, joint: Some(joint) }
    }

    /// Subjobs of subjobs: 2 of 1 and 2 processes.
    fn three_levels(names: [&str; 3]) -> Completion {
        let leaves = names.map(|name| Bytes::from(entry(name)));
        let one = join_data(1, [&leaves[0]].into_iter()).0;
        let two = join_data(1, leaves[1..].iter()).0;
        let first = join_data(2, [&one].into_iter()).0;
        let second = join_data(2, [&two].into_iter()).0;
        completion(3, join_data(3, [&first, &second].into_iter()).0)
    }

    #[test]
    fn ids_go_by_subjob_then_by_rank_at_any_level() {
        let met = meeting(&three_levels(["a", "b", "c"]), &entry("b")).unwrap();
        assert_eq!((met.id, met.job), (1, Job([1; 16])));
        assert_eq!(met.entries, [entry("a"), entry("b"), entry("c")].map(String::into_bytes));
        assert_eq!(met.groups, ["subjob-0.0", "subjob-1.0", "subjob-1.0"]);
    }

    #[test]
    fn liars_are_named() {
        let error = |completion: &Completion, mine: &str| meeting(completion, mine).unwrap_err().to_string();
        let copied = error(&three_levels(["a", "b", "a"]), &entry("a"));
        assert!(copied.starts_with("subjob 0.0, rank 0 and subjob 1.0, rank 1 have both"), "{copied}");
        assert!(copied.contains("the address unix:@a"), "{copied}");
        let nonsense = error(&three_levels(["a", "b c", "d"]), &entry("a"));
        let expected = "subjob 1.0, rank 0 has registered what no process of this version says of itself, `1,host,0123456789abcdef,-,unix:@b c`: have all";
        assert!(nonsense.starts_with(expected), "{nonsense}");
        let flat = completion(1, join_data(1, [&Bytes::from_static(&[0xff])].into_iter()).0);
        assert!(error(&flat, "x").starts_with("rank 0 has registered"), "{}", error(&flat, "x"));
        let absent = three_levels(["a", "b", "c"]);
        assert!(matches!(meeting(&absent, &entry("z")), Err(JoinError::NotThere)));
        let bare = Completion { joint: None, ..absent.clone() };
        assert!(error(&bare, &entry("a")).contains("--joint"));
        let cut = Completion { data: absent.data.slice(1..), ..absent };
        assert!(matches!(meeting(&cut, &entry("a")), Err(JoinError::Level { level: 3, .. })));
    }

    /// On two hosts, loopback addresses may be the same; a key may not.
    #[test]
    fn what_may_be_the_same_on_two_hosts_is_let_in() {
        let key = "7".repeat(64);
        let on = |reach: &str, key: &str| Bytes::from(format!("1,h,{reach},{key},127.0.0.1:7,unix:@x"));
        let two = |one: Bytes, other: Bytes| completion(1, join_data(1, [&one, &other].into_iter()).0);
        let (one, other) = (on("0123456789abcdef", "-"), on("0123456789abcde0", "-"));
        let mine = std::str::from_utf8(&one).unwrap().to_owned();
        assert_eq!(meeting(&two(one, other), &mine).unwrap().id, 0);
        let (one, other) = (on("0123456789abcdef", &key), on("0123456789abcde0", &key));
        let copied = meeting(&two(one, other), &mine).unwrap_err();
        assert!(copied.to_string().contains("the same public key"), "{copied}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_members_or_refused(level in 0..5_u16, bytes in "[0-3 a]{0,40}") {
            let bytes = Bytes::from(bytes);
            if let Ok(members) = members(level, &bytes) {
                prop_assert!(members.iter().all(|(who, _)| who.units.len() + 1 == usize::from(level)));
                prop_assert!(members.is_sorted_by(|(one, _), (other, _)| one < other));
            }
        }
    }
}
