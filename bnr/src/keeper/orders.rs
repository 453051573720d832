//! What a node tells its keeper, and what the keeper tells it.

use std::time::Duration;

use crate::exit::Exit;
use crate::names::{GroupId, Member};
use crate::start_error::StartError;

/// What the keeper is to do. Orders are carried out one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeeperOrder {
    /// Starts a process, with four descriptors: standard input, output and error, and the socket by which it asks its node. The last one's number is told to it in `GPC_BNR_FD`, and in `PMI_FD` unless `env` has `PMI_PORT`. Answered by [`KeeperEvent::Started`] or [`KeeperEvent::NotStarted`].
    Start {
        /// Which process.
        member: Member,
        /// The program: a path, of which a relative one begins at `wdir`; or a name without a slash, which is looked up in the `PATH` of `env`, or else of the keeper.
        program: Vec<u8>,
        /// Its arguments, without its name.
        args: Vec<Vec<u8>>,
        /// Variables beside those of the keeper; of equal names the last counts.
        env: Vec<(Vec<u8>, Vec<u8>)>,
        /// Where it runs; where the keeper runs, if it is not said.
        wdir: Option<Vec<u8>>,
        /// Which core it is bound to: an index into the cores that the keeper may use, which begin again after the last.
        bind: Option<usize>,
    },
    /// Sends a signal to the process groups of those processes of a group that run.
    Signal {
        /// The group.
        group: GroupId,
        /// The signal's number. One that the system does not have is sent to nobody.
        signal: u8,
    },
    /// Kills a group and all that it has left: SIGTERM, and SIGKILL after the grace. Answered by [`KeeperEvent::Emptied`]; two of these may have one answer.
    Kill {
        /// The group.
        group: GroupId,
        /// How long after SIGTERM follows SIGKILL; none: SIGKILL at once.
        grace: Option<Duration>,
    },
}

/// What has happened at the keeper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeeperEvent {
    /// A process was started; its process number, which is also that of its process group.
    Started(Member, u32),
    /// A process cannot be started.
    NotStarted(Member, StartError),
    /// A process has ended.
    Ended(Member, Exit),
    /// A group that was to be killed has nothing left here. All its processes have been said to have ended before.
    Emptied(GroupId),
}
