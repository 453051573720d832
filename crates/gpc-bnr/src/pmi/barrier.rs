//! The group of a PMI 1.2 barrier: `WORLD`, `NODE`, or ranks separated by commas. A tag after a colon distinguishes
//! barriers of the same processes.

use std::collections::BTreeSet;

use super::text::{self, number};
use crate::names::{Member, Rank, Set};
use crate::request::Identity;

/// Longest tag in bytes. MPICH's tags are 31-bit numbers.
const TAG_MAX: usize = 64;

/// The tag of a barrier without one.
pub(super) const UNTAGGED: &[u8] = b"0";

/// The members and the tag. The answer repeats the tag.
///
/// # Errors
/// A short message, if the text is not a group or a rank does not exist.
pub(super) fn group(said: &[u8], me: &Identity) -> Result<(Set, Vec<u8>), String> {
    let colon = said.iter().position(|byte| *byte == b':').unwrap_or(said.len());
    let (who, tag) = said.split_at(colon);
    let tag = tag.strip_prefix(b":").filter(|tag| !tag.is_empty()).unwrap_or(UNTAGGED);
    if tag.len() > TAG_MAX || !text::is_word(tag) {
        return Err(format!("its tag is longer than {TAG_MAX} bytes, or no word"));
    }
    let member = |rank| Member { group: me.member.group, rank };
    let set = match who {
        b"WORLD" => Set::Group(me.member.group),
        b"NODE" => Set::Members(me.neighbours.iter().copied().map(member).collect()),
        ranks => {
            let ranks = ranks.split(|byte| *byte == b',').map(|rank| {
                let rank = number::<Rank>(rank).filter(|rank| *rank < me.size);
                rank.map(member).ok_or_else(|| format!("its group has no such rank below {}", me.size))
            });
            Set::Members(ranks.collect::<Result<BTreeSet<Member>, String>>()?)
        }
    };
    Ok((set, tag.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi::tests::identity;

    #[test]
    fn groups_are_said_in_three_ways() {
        let me = Identity { neighbours: vec![2, 3], ..identity(2, 5) };
        let members = |ranks: &[Rank]| {
            Set::Members(ranks.iter().map(|rank| Member { group: me.member.group, rank: *rank }).collect())
        };
        for (said, set, tag) in [
            ("WORLD", Set::Group(me.member.group), "0"),
            ("WORLD:0", Set::Group(me.member.group), "0"),
            ("WORLD:", Set::Group(me.member.group), "0"),
            ("WORLD:77", Set::Group(me.member.group), "77"),
            ("NODE:5", members(&[2, 3]), "5"),
            ("0,4,2:9", members(&[0, 2, 4]), "9"),
            ("2:1", members(&[2]), "1"),
            ("2,2", members(&[2]), "0"),
        ] {
            assert_eq!(group(said.as_bytes(), &me), Ok((set, tag.as_bytes().to_vec())), "{said}");
        }
        let long = format!("WORLD:{}", "1".repeat(65));
        for said in ["", ":1", "5", "0,5:1", "0,:1", "world:1", "-1:2", "0,1,x", &long, "WORLD:\u{1b}"] {
            assert!(group(said.as_bytes(), &me).is_err(), "{said}");
        }
    }
}
