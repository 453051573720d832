//! Types and constants of `bnr.h`.
//!
//! Source: BNR, the prototypes of "Thoughts from David and Brian"; the facts' interface has the lengths of attributes.

use std::ffi::c_int;

/// A group: its number in the domain, which is never used again. All processes of the domain may use it.
pub type BNR_Group = c_int;
/// No group.
pub const BNR_GROUP_NULL: c_int = 0;
/// A color of BNR_Group_Split, as any negative one: the caller is in no new group.
pub const BNR_UNDEFINED: c_int = -1;

/// A truth value of the source: 0 or 1.
pub type bool_t = c_int;

/// Behind a BNR_Info.
pub enum BNR_Info_s {}
/// Hints for a spawn: keys and values. A handle.
pub type BNR_Info = *mut BNR_Info_s;

/// Receives the death of a process: its group, its rank there, and its exit status, which is 128 and the signal if a
/// signal has killed it. 1 stands for a process that was lost with its node, or never started. The result has no
/// effect.
pub type BNR_Notify_fn =
    Option<unsafe extern "C" fn(group: BNR_Group, rank: c_int, exit_code: c_int) -> c_int>;

/// Room for a key of a database, with its final zero.
pub const BNR_MAX_KEY_LEN: usize = 257;
/// Room for a value of a database, with its final zero.
pub const BNR_MAX_VALUE_LEN: usize = 65537;
/// Room for an attribute of a group or a global name, with its final zero.
pub const BNR_MAXATTRLEN: usize = 64;
/// Room for the value of an attribute or a global name, with its final zero.
pub const BNR_MAXVALLEN: usize = 3072;

/// Success.
pub const BNR_SUCCESS: c_int = 0;
/// An error: an argument is null or wrong, or the request is invalid.
pub const BNR_ERR_BAD_REQUEST: c_int = 1;
/// An error: there is no such group, or it was freed.
pub const BNR_ERR_NO_GROUP: c_int = 2;
/// An error: there is no such process.
pub const BNR_ERR_NO_MEMBER: c_int = 3;
/// An error: the group is not closed yet.
pub const BNR_ERR_GROUP_OPEN: c_int = 4;
/// An error: the group is closed, and takes no more processes.
pub const BNR_ERR_GROUP_CLOSED: c_int = 5;
/// An error: there is no database of this name.
pub const BNR_ERR_NO_DATABASE: c_int = 6;
/// An error: the database exists already.
pub const BNR_ERR_DATABASE_EXISTS: c_int = 7;
/// An error: there is no such key or global name. Also the end of an iteration.
pub const BNR_ERR_NOT_FOUND: c_int = 8;
/// An error: the global name exists already.
pub const BNR_ERR_NAME_EXISTS: c_int = 9;
/// An error: a limit is exceeded, or a text does not fit its room.
pub const BNR_ERR_TOO_LARGE: c_int = 10;
/// An error: the caller is not in the group.
pub const BNR_ERR_NOT_MEMBER: c_int = 11;
/// An error: other members request something else.
pub const BNR_ERR_MISMATCH: c_int = 12;
/// An error: a member has died.
pub const BNR_ERR_MEMBER_DIED: c_int = 13;
/// An error: a node was lost.
pub const BNR_ERR_NODE_LOST: c_int = 14;
/// An error: a time limit has passed.
pub const BNR_ERR_TIMED_OUT: c_int = 15;
/// An error: processes could not be started.
pub const BNR_ERR_NOT_STARTED: c_int = 16;
/// An error: the group is being killed.
pub const BNR_ERR_KILLED: c_int = 17;
/// An error: the domain has ended, or ends.
pub const BNR_ERR_DOMAIN_ENDED: c_int = 18;
/// An error: not supported here. From BNR_Init: `gpc run` has not started this process.
pub const BNR_ERR_UNSUPPORTED: c_int = 19;
/// An error: the process has no link to its node. It has not called BNR_Init, or has called BNR_Finalize, or is a
/// forked child, or the node is gone.
pub const BNR_ERR_LINK: c_int = 20;
/// An error: the system, or a call between nodes, has failed.
pub const BNR_ERR_SYSTEM: c_int = 21;

/// In place of the errors of a spawn: the process was left out by `soft`, and has no rank.
pub const BNR_LEFT_OUT: c_int = -1;

#[cfg(test)]
mod tests {
    use gpc_bnr::{FaultKind, LEFT_OUT, Limits};

    use super::*;

    #[test]
    fn errors_have_the_numbers_and_names_of_the_faults() {
        let source = include_str!("bnr_types.rs");
        for kind in FaultKind::ALL {
            let mut name = String::new();
            for letter in format!("{kind:?}").chars() {
                let dash = if letter.is_uppercase() { "_" } else { "" };
                name += &format!("{dash}{}", letter.to_uppercase());
            }
            let line = format!("pub const BNR_ERR{name}: c_int = {};", kind.number());
            assert!(source.contains(&line), "{line}");
        }
        assert_eq!(LEFT_OUT, BNR_LEFT_OUT);
    }

    /// A key or value that a domain stores fits the arrays of the source.
    #[test]
    fn databases_have_room_for_what_a_domain_stores() {
        let limits = Limits::default();
        assert_eq!((limits.key + 1, limits.value + 1), (BNR_MAX_KEY_LEN, BNR_MAX_VALUE_LEN));
    }
}
