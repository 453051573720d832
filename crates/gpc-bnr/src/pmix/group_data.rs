//! Data of the fence that constructs a group of PMIx, and the reply to its members. No I/O.
//!
//! Each node contributes a proposed identifier (u64, little-endian), the length of its members' data (u32), and these
//! data. The fence gives all nodes the same contributions in the same order. The first identifier is the group's.

use gpc_pmix::server::{Info, Process, Value};

use super::directives::{GROUP_DATA, GROUP_ID, GROUP_MEMBERS, find};

/// Bytes of a long name at its beginning and at its end that a tag contains. Tags of fences have 256 bytes; names of
/// Open MPI have up to 1,024.
const NAME_PART: usize = 96;

/// Returns the name of a group as a part of a tag. A long name is shortened, with a hash of the whole name.
pub(super) fn short_name(name: &str) -> Vec<u8> {
    let bytes = name.as_bytes();
    if bytes.len() <= 2 * NAME_PART {
        return bytes.to_vec();
    }
    let (first, last) = (&bytes[..NAME_PART], &bytes[bytes.len() - NAME_PART..]);
    let hash = format!("{:016x}", chained_gpc::trees::name_hash(name));
    [first, last, hash.as_bytes()].concat()
}

/// Returns the contribution of this node.
pub(super) fn brought(proposal: u64, info: &[Info]) -> Vec<u8> {
    let data = find(info, GROUP_DATA).map(|value| value.bytes.as_slice()).unwrap_or_default();
    // Upcalls are shorter.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    [&proposal.to_le_bytes()[..], &length.to_le_bytes(), data].concat()
}

/// Returns the reply to the members, from the contributions of all nodes; `None` if these are invalid.
pub(super) fn infos(mut all: &[u8], members: &[Process], has_id: bool) -> Option<Vec<Info>> {
    let (mut id, mut data) = (None, Vec::new());
    // Terminates: each iteration takes 12 bytes at least.
    while !all.is_empty() {
        let (proposal, rest) = all.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (given, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        id = id.or(Some(u64::from_le_bytes(*proposal)));
        data.extend_from_slice(given);
        all = rest;
    }
    let id = id?;
    let mut facts = vec![Info::new(GROUP_MEMBERS, Value::processes(members))];
    facts.extend(has_id.then(|| Info::new(GROUP_ID, Value::size(id))));
    facts.extend((!data.is_empty()).then(|| Info::new(GROUP_DATA, Value::object(data))));
    Some(facts)
}
