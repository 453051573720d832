//! The supervisor: one process for each domain and host. It starts the domain's processes there and ends everything
//! that they leave behind.
//!
//! The node sends orders over a stream socket, which is the supervisor's standard input; descriptors travel with them.
//! The supervisor is the *child subreaper* of all that it starts. A process whose parent has ended becomes its child,
//! however the process has detached itself. So no descendant escapes, and the supervisor detects when none is left.
//!
//! If its socket closes, since the node has ended, even by SIGKILL, the supervisor kills all of its descendants and
//! ends.
//!
//! # What ends with a group
//! Each started process leads a session of its own, and so a process group. One that reads a terminal is in the process
//! group of the command instead; signals go to this process, not to that group. A kill sends SIGTERM to those process
//! groups. After the grace period it sends SIGKILL to them and to each descendant, repeatedly, until none is left.
//!
//! A descendant whose parent still runs belongs to its parent's group. The group of an adopted descendant is the first
//! of these that is known:
//!
//! - the group that it was last seen in,
//! - the group of its process group,
//! - the group that `GPC_BNR_GROUP` in its environment names.
//!
//! The group stays unknown if the process has detached itself and cleared its environment, and its parent ended before
//! the first search. Such a process ends with the last group, or with the supervisor.
//!
//! Processes that remain a second after their first SIGKILL, for any reason, are moved into a control group of their
//! own and killed with it. This needs cgroup v2, delegated to the supervisor's user.
//!
//! # Limits
//! - A program that has another service start something (`systemd-run`, `at`, a container's daemon): the result is not
//!   a descendant of the supervisor.
//! - Without a control group, a program that changes to another user (set-user-ID): it may not be signalled. The
//!   supervisor waits for it until [`EMPTY_LIMIT`], then reports the group as empty.
//! - Without a control group, a program that starts copies of itself faster than they are found. Its process groups die
//!   at once, but with a new session for each copy it may outlast [`EMPTY_LIMIT`].
//! - SIGKILL for the supervisor itself: its processes run on as children of another process. The node sees the socket
//!   close, and [`Supervisor::abandon`] kills those that it finds. If the node dies at the same moment, they stay.
//!
//! Source: BNR, "Spawning": processes are started and killed as a group.

mod cgroup;
mod codec;
mod connection;
mod cores;
mod elf;
mod groups;
mod handle;
mod inspect;
mod killing;
mod lookup;
mod need;
mod orders;
mod own_pmix;
mod passing;
mod process;
mod spawn;
#[cfg(test)]
pub(crate) mod stand_in;
mod start;
mod system;
mod topology;
mod tree;

use std::time::Duration;

pub use handle::Supervisor;
pub(crate) use handle::wait_for;
pub(crate) use need::ProgramFacts;
pub use orders::{BindOrder, BindTo, Binding, Recipients, SupervisorEvent, SupervisorOrder};
pub use process::{run, stdin_control};
pub(crate) use start::check;

/// Time after SIGKILL in which the processes of a group must end. A process that the system holds for longer executes
/// no more of its program, so the supervisor stops waiting.
pub const EMPTY_LIMIT: Duration = Duration::from_secs(10);

/// Variable that tells a process its group.
const GROUP: &[u8] = b"GPC_BNR_GROUP";

/// Variable that tells a process its node. One host may run several nodes of a domain, each with a supervisor.
const NODE: &[u8] = b"GPC_BNR_NODE";

/// The values of [`GROUP`] and [`NODE`] in a process's environment.
type Tag = (Vec<u8>, Vec<u8>);

/// The value of a variable in a process's environment.
pub(crate) fn env_value<'a>(env: &'a [(Vec<u8>, Vec<u8>)], wanted: &[u8]) -> Option<&'a [u8]> {
    env.iter().rfind(|(name, _)| name == wanted).map(|(_, value)| value.as_slice())
}
