//! The keeper: one process for each domain and host, which starts the domain's processes there and ends everything that they leave.
//!
//! A node gives it orders over a stream socket, which is its standard input; descriptors go along with them. It is the *child subreaper* of all that it starts: a process whose parent has ended becomes its child, however it has detached itself. So nothing that a program starts gets away from it, and it knows when nothing is left.
//!
//! When its socket closes, since the node has ended, even by SIGKILL, it kills all of its descendants and ends.
//!
//! # What ends with a group
//! Each process that is started leads a session, and with it a process group, of its own. A kill sends SIGTERM to those process groups, and after the grace SIGKILL to them and to each descendant, again and again, until none is left.
//!
//! A descendant whose parent is still there belongs to its parent's group. One that the keeper has adopted belongs to the group that it was seen in before, or to the one of its process group, or to the one that `GPC_BNR_GROUP` in its environment names. If none of these says anything, since the process has detached itself, has cleared its environment, and its parent ended before anybody looked, it ends when no other group is left, or with the keeper.
//!
//! What has not gone a second after its first SIGKILL, whatever the reason, is put into a control group of its own and killed with that, where the keeper may make one: cgroup v2, delegated to its user.
//!
//! # What remains possible
//! - A program that has another service start something (`systemd-run`, `at`, a container's daemon): that is nobody's descendant here.
//! - Without a control group, a program that becomes another user's (set-user-ID): it may not be signalled. The keeper waits for it as long as [`EMPTY_LIMIT`], then says that the group is empty.
//! - Without a control group, a program that starts copies of itself faster than they are found: its process groups die at once, but with a new session for each copy it may outlast [`EMPTY_LIMIT`].
//! - SIGKILL for the keeper itself: its processes run on as others' children. The node sees its socket close, and [`Keeper::abandon`] kills those that it can find. If the node dies in the same moment, they stay.
//!
//! Source: BNR, "Spawning": processes are started and killed as a group.

mod cgroup;
mod codec;
mod cores;
mod elf;
mod groups;
mod handle;
mod inspect;
mod killing;
mod lookup;
mod orders;
mod passing;
mod process;
mod spawn;
mod start;
mod tree;

use std::time::Duration;

pub use handle::Keeper;
pub use orders::{KeeperEvent, KeeperOrder};
pub use process::{run, stdin_control};
pub(crate) use start::check;

/// How long after SIGKILL processes of a group may take to go. What hangs in the system for longer runs no more of its program, and is no longer waited for.
pub const EMPTY_LIMIT: Duration = Duration::from_secs(10);

/// The variable by which a process knows its group.
const GROUP: &[u8] = b"GPC_BNR_GROUP";

/// The variable by which it knows its node: several nodes of a domain may be on one host, each with a keeper.
const NODE: &[u8] = b"GPC_BNR_NODE";

/// What a process is told about its group, and about its node.
type Tag = (Vec<u8>, Vec<u8>);

/// The value of a variable that a process is told.
pub(crate) fn told<'a>(env: &'a [(Vec<u8>, Vec<u8>)], wanted: &[u8]) -> Option<&'a [u8]> {
    env.iter().rfind(|(name, _)| name == wanted).map(|(_, value)| value.as_slice())
}
