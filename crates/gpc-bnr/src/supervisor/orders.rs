//! Orders of a node to its supervisor, and the supervisor's events.

use std::time::Duration;

use crate::exit::Exit;
use crate::names::{GroupId, Member};
use crate::start_error::StartError;

/// An order. Orders are carried out one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SupervisorOrder {
    /// Starts a process with four descriptors: standard input, output and error, and the socket to its node.
    /// `GPC_BNR_FD` tells the process the number of its socket, and so does `PMI_FD` unless `env` has `PMI_PORT`.
    /// Answered by [`SupervisorEvent::Started`] or [`SupervisorEvent::NotStarted`].
    Start {
        /// The process.
        member: Member,
        /// The program. A relative path begins at `wdir`. A name without a slash is looked up in the `PATH` of `env`,
        /// or else of the supervisor.
        program: Vec<u8>,
        /// Its arguments, without the program's name.
        args: Vec<Vec<u8>>,
        /// Variables added to those of the supervisor. If a name occurs twice, the last value wins.
        env: Vec<(Vec<u8>, Vec<u8>)>,
        /// The working directory; by default that of the supervisor.
        wdir: Option<Vec<u8>>,
        /// The processors that it may use; by default those that the supervisor may use.
        bind: Option<Binding>,
        /// The path of the file that is executed; by default that of `program`, which is then only the name that the
        /// process has.
        image: Option<Vec<u8>>,
    },
    /// Makes a process that is started after this join a process group of the supervisor's session, instead of leading
    /// a session of its own: that of a terminal, which it reads.
    Join {
        /// The process.
        member: Member,
        /// The process group.
        process_group: u32,
    },
    /// Sends a signal to the process groups of a group's running processes. A process that has joined another process
    /// group gets it alone.
    Signal {
        /// The group.
        group: GroupId,
        /// The signal's number. An unknown number is ignored.
        signal: u8,
        /// The processes that get it.
        to: Recipients,
    },
    /// Kills a group and all that it has left behind: SIGTERM, then SIGKILL after the grace period. Answered by
    /// [`SupervisorEvent::Emptied`]; two of these orders may share one answer.
    Kill {
        /// The group.
        group: GroupId,
        /// Time between SIGTERM and SIGKILL; `None`: SIGKILL at once.
        grace: Option<Duration>,
    },
}

/// Processes that get a signal.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Recipients {
    /// All processes of the group.
    #[default]
    All,
    /// Those that have not joined another process group: the terminal has sent it to these.
    NotJoined,
}

/// Processors for a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// What it may use alone.
    pub to: BindTo,
    /// The order in which consecutive processes get it.
    pub order: BindOrder,
    /// Its place in this order; after the last place, the first follows.
    pub index: usize,
    /// Whether a line about its processors begins its standard error.
    pub report: bool,
}

/// What a process may use alone, as far as the supervisor may use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BindTo {
    /// Nothing: it uses what the supervisor may use.
    Nothing,
    /// A core, with all of its hardware threads.
    Core,
    /// A socket.
    Socket,
    /// A NUMA node.
    Numa,
    /// These processors, such as `0-3,8`.
    Cpus(String),
}

/// The order in which consecutive processes are bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindOrder {
    /// One of the objects after the other.
    Object,
    /// The object of one core after the other.
    Core,
    /// The object of a core of another socket each time.
    Socket,
}

/// An event at the supervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SupervisorEvent {
    /// A process was started. The number is its process id, which is also that of its process group unless it joined
    /// another.
    Started(Member, u32),
    /// A process cannot be started.
    NotStarted(Member, StartError),
    /// A process has ended.
    Ended(Member, Exit),
    /// A killed group has left nothing here. [`SupervisorEvent::Ended`] has been sent before for all its processes.
    Emptied(GroupId),
}
