//! A process of a group.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use chained_gpc::Clock;
use gpc_launch::inherited_socket;

use super::link::Link;
use super::notices::Sink;
use super::{ClientError, Deaths, Snapshot, Spawned, TimeLimits, answers};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::request::{GroupStatus, Identity, Pair, Request};
use crate::roster::Roster;
use crate::spec::{OnDeath, Readers, Spec};

/// The variable with the number of the socket to the node.
const OWN: &str = "GPC_BNR_FD";

/// The variable by which PMI programs find the socket. Without `GPC_BNR_FD`, the socket belongs to another launcher,
/// which does not support this project's frames.
const PMI: &str = "PMI_FD";

/// This process, which a node has started as a member of a group.
///
/// Dropping it closes the link to the node without finalizing: a process that ends without [`finalize`](Self::finalize)
/// counts as failed.
///
/// All methods fail with a [`Fault`], whose [kind](crate::FaultKind) has a number. Any method can fail with
/// [`TimedOut`](crate::FaultKind::TimedOut) and [`Link`](crate::FaultKind::Link); their documentation lists only the
/// other kinds.
pub struct Process {
    link: Link,
    identity: Identity,
    time_limits: TimeLimits,
    /// The bounds of the domain, once requested.
    limits: OnceLock<Limits>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Identity, start and end.
impl Process {
    /// Registers this process as a member of the group that it was started in. Works once for each process.
    ///
    /// # Errors
    /// The process was not started by a node, or its node is gone. A process never assumes that it runs alone.
    pub fn init() -> Result<Process, ClientError> {
        Process::init_with(TimeLimits::default())
    }

    /// As [`init`](Self::init), with other time limits.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn init_with(time_limits: TimeLimits) -> Result<Process, ClientError> {
        let variable = |name| std::env::var_os(name);
        match inherited_socket(OWN) {
            Ok(Some(socket)) => Process::over(socket, time_limits),
            Ok(None) if variable(PMI).is_some() => Err(ClientError::OtherLauncher),
            Ok(None) => Err(ClientError::NotStarted),
            Err(error) => Err(ClientError::Socket { number: variable(OWN).unwrap_or_default(), error }),
        }
    }

    /// As [`init`](Self::init), over an existing socket.
    ///
    /// # Errors
    /// The node at the other end is gone, or does not know this process.
    pub fn over(socket: OwnedFd, time_limits: TimeLimits) -> Result<Process, ClientError> {
        let link = Link::begin(socket, time_limits.margin, Clock::system())?;
        let identity = link.ask(&Request::Init, time_limits.other).and_then(answers::identity)?;
        Ok(Process { link, identity, time_limits, limits: OnceLock::new() })
    }

    /// The group and the rank of this process.
    pub fn member(&self) -> Member {
        self.identity.member
    }

    /// The group that this process was started in. It never changes.
    pub fn group(&self) -> GroupId {
        self.identity.member.group
    }

    /// Its rank in its group.
    pub fn rank(&self) -> Rank {
        self.identity.member.rank
    }

    /// Number of processes of its group.
    pub fn size(&self) -> u32 {
        self.identity.size
    }

    /// The group of the process that spawned its group; `None` for groups that a tool spawned.
    pub fn parent(&self) -> Option<GroupId> {
        self.identity.parent
    }

    /// Index of the group's spec that started it, from 0.
    pub fn spec(&self) -> u32 {
        self.identity.spec
    }

    /// The ranks of its group on its node, in ascending order, including its own.
    pub fn neighbours(&self) -> &[Rank] {
        &self.identity.neighbours
    }

    /// The name of its group's own database.
    pub fn database(&self) -> &str {
        &self.identity.database
    }

    /// All processes of its group.
    pub fn everybody(&self) -> Set {
        Set::Group(self.group())
    }

    /// Some processes of its group.
    pub fn some(&self, ranks: impl IntoIterator<Item = Rank>) -> Set {
        let member = |rank| Member { group: self.group(), rank };
        Set::Members(ranks.into_iter().map(member).collect::<BTreeSet<_>>())
    }

    /// The bounds of the domain, as its head set them. Only the first call sends a request.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn limits(&self) -> Result<Limits, Fault> {
        if let Some(limits) = self.limits.get() {
            return Ok(*limits);
        }
        let limits = self.link.ask(&Request::Limits, self.time_limits.other).and_then(answers::limits)?;
        // If two threads request them at once, both get the same.
        Ok(*self.limits.get_or_init(|| limits))
    }

    /// Deregisters this process: its end is no failure from now on. All later requests fail.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn finalize(&self) -> Result<(), Fault> {
        let finalized = self.link.ask(&Request::Finalize, self.time_limits.other).and_then(answers::done);
        self.link.end("this process has finalized");
        finalized
    }

    /// Ends the job: kills all processes of the group, including this one, and ends `gpc run` with this status. Returns
    /// when the request is sent, before the processes end.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn abort(&self, code: u8, message: impl Into<String>) -> Result<(), Fault> {
        self.link.say(&Request::Abort { code, message: message.into() })
    }
}

/// Groups.
impl Process {
    /// Rank of this process in a group that it belongs to.
    ///
    /// # Errors
    /// [`NotMember`](crate::FaultKind::NotMember), [`NoGroup`](crate::FaultKind::NoGroup),
    /// [`GroupOpen`](crate::FaultKind::GroupOpen).
    pub fn rank_of(&self, group: GroupId) -> Result<Rank, Fault> {
        if group == self.group() {
            return Ok(self.rank());
        }
        let rank = self.roster_of(group)?.rank_of(self.member());
        rank.ok_or_else(|| {
            let message =
                format!("{} does not belong to group {group}, so it has no rank there", self.member());
            Fault::new(FaultKind::NotMember, message)
        })
    }

    /// The processes of a group, by rank. A process keeps the name by which it was started in all groups.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup), [`GroupOpen`](crate::FaultKind::GroupOpen).
    pub fn members_of(&self, group: GroupId) -> Result<Vec<Member>, Fault> {
        self.roster_of(group).map(|roster| roster.members().collect())
    }

    /// The name of a group's own database.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup), [`GroupOpen`](crate::FaultKind::GroupOpen).
    pub fn database_of(&self, group: GroupId) -> Result<String, Fault> {
        if group == self.group() {
            return Ok(self.database().to_owned());
        }
        self.roster_of(group).map(|roster| roster.database)
    }

    fn roster_of(&self, group: GroupId) -> Result<Roster, Fault> {
        self.link.ask(&Request::Members(group), self.time_limits.other).and_then(answers::one_roster)
    }

    /// Number of processes of a group. Waits until the group is closed.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn size_of(&self, group: GroupId) -> Result<u64, Fault> {
        self.link.ask(&Request::Size(group), self.time_limits.collective).and_then(answers::number)
    }

    /// Opens a group, which starts when it is closed. Collective over a set that includes this process; all members get
    /// the same group.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn open(&self, over: &Set, limit: Option<Duration>) -> Result<GroupId, Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Open { over: over.clone(), limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group)
    }

    /// Adds processes to an open group, with the next ranks. Not collective; may be called repeatedly. The processes
    /// start when the group is closed.
    ///
    /// # Errors
    /// [`GroupClosed`](crate::FaultKind::GroupClosed), [`NoGroup`](crate::FaultKind::NoGroup),
    /// [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn spawn(
        &self,
        group: GroupId,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: Option<OnDeath>,
    ) -> Result<(), Fault> {
        let request = Request::Spawn { group, specs, preputs, on_death };
        self.link.ask(&request, self.time_limits.other).and_then(answers::done)
    }

    /// Closes a group, which starts its processes. Collective over the set that opened it.
    ///
    /// # Errors
    /// As [`fence`](Self::fence). Processes that could not be started are not a fault; the result lists them.
    pub fn close(&self, over: &Set, group: GroupId, limit: Option<Duration>) -> Result<Spawned, Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Close { over: over.clone(), group, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::spawned)
    }

    /// Opens a group, spawns into it and closes it, without other members.
    ///
    /// # Errors
    /// [`BadRequest`](crate::FaultKind::BadRequest), [`TooLarge`](crate::FaultKind::TooLarge). Processes that could not
    /// be started are not a fault; the result lists them.
    pub fn spawn_multiple(
        &self,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: OnDeath,
    ) -> Result<Spawned, Fault> {
        let request = Request::SpawnMultiple { specs, preputs, on_death, input: Readers::None };
        self.link.ask(&request, self.time_limits.collective).and_then(answers::spawned)
    }

    /// Makes a group of all processes of two groups, with a database of its own. The caller belongs to `own`.
    /// Collective over both groups: each member passes its own group first. The processes of the group with the lower
    /// number come first, whichever group a caller belongs to; each group keeps its order.
    ///
    /// # Errors
    /// As [`fence`](Self::fence); [`BadRequest`](crate::FaultKind::BadRequest) if a process belongs to both groups,
    /// [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn merge(&self, own: GroupId, other: GroupId, limit: Option<Duration>) -> Result<GroupId, Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Merge { first: own, second: other, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group)
    }

    /// Makes a group of those members of a group that pass the same color, with a database of its own. Collective over
    /// the group, which the caller belongs to. Ranks are in the order of the keys; of equal keys, in that of the old
    /// ranks. A member without a color takes part, and belongs to no new group: it gets `None`.
    ///
    /// # Errors
    /// As [`fence`](Self::fence); [`TooLarge`](crate::FaultKind::TooLarge).
    ///
    /// Source: `MPI_Comm_split`.
    pub fn split(
        &self,
        group: GroupId,
        color: Option<u32>,
        key: i32,
        limit: Option<Duration>,
    ) -> Result<Option<GroupId>, Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Split { group, color, key, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group_if_any)
    }

    /// Makes a group of the same processes in the same order, with a database of its own. Collective over the group. It
    /// is a [split](Self::split) in which all members pass the same color and key.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn dup(&self, group: GroupId, limit: Option<Duration>) -> Result<GroupId, Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Split { group, color: Some(0), key: 0, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group)
    }

    /// Frees the number of a group. An open group is removed now, and so is one that was made by merge, split or dup,
    /// with its database: requests that wait for its members fail. Any other group is removed when its processes have
    /// ended.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn free(&self, group: GroupId) -> Result<(), Fault> {
        self.link.ask(&Request::Free(group), self.time_limits.other).and_then(answers::done)
    }

    /// Kills all processes of a group and their descendants, with SIGTERM and then SIGKILL; waits until none is left. A
    /// process that kills its own group does not receive the answer. Processes die with the group of their start: of a
    /// group made by merge, split or dup, the groups of all members are killed.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn kill(&self, group: GroupId) -> Result<(), Fault> {
        self.link.ask(&Request::Kill(group), self.time_limits.collective).and_then(answers::done)
    }

    /// The status of a group's processes.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn status(&self, group: GroupId) -> Result<GroupStatus, Fault> {
        self.link.ask(&Request::Status(group), self.time_limits.other).and_then(answers::one_group)
    }

    /// The status of all groups of the domain; at most the first 4,096 are returned.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn groups(&self) -> Result<Vec<GroupStatus>, Fault> {
        self.link.ask(&Request::Groups, self.time_limits.other).and_then(answers::groups)
    }

    /// Subscribes to the deaths of a group's processes: each once, including those that have already ended. A death
    /// names the process as it was started, whichever group the subscription is for. If a death makes a request fail,
    /// its notice arrives before that request returns.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn subscribe(&self, group: GroupId) -> Result<Deaths, Fault> {
        let (sender, receiver) = channel();
        self.link.subscribe(group, Sink::Queue(sender), self.time_limits.other)?;
        Ok(Deaths::new(receiver))
    }

    /// As [`subscribe`](Self::subscribe), with a callback. The reader thread runs it, so no answer arrives meanwhile.
    /// Requests made by the callback fail with [`BadRequest`](crate::FaultKind::BadRequest). If it panics, the link
    /// closes.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn subscribe_with(
        &self,
        group: GroupId,
        callback: impl FnMut(Death) + Send + 'static,
    ) -> Result<(), Fault> {
        self.link.subscribe(group, Sink::Call(Box::new(callback)), self.time_limits.other)
    }
}

/// Databases.
impl Process {
    /// Creates a database with this name, or with one that the domain chooses. It exists until it is destroyed, for
    /// every process that knows its name.
    ///
    /// # Errors
    /// [`DatabaseExists`](crate::FaultKind::DatabaseExists), [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn create(&self, name: Option<&str>) -> Result<String, Fault> {
        let request = Request::Create(name.map(str::to_owned));
        self.link.ask(&request, self.time_limits.other).and_then(answers::name)
    }

    /// Removes a database at all nodes.
    ///
    /// # Errors
    /// [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn destroy(&self, database: &str) -> Result<(), Fault> {
        self.link.ask(&Request::Destroy(database.into()), self.time_limits.other).and_then(answers::done)
    }

    /// The names of all databases.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn databases(&self) -> Result<Vec<String>, Fault> {
        self.link.ask(&Request::Databases, self.time_limits.other).and_then(answers::names)
    }

    /// Puts a value under a key. Returns without waiting for the answer, unless 1,024 requests of this process are
    /// unanswered; [`commit`](Self::commit) reports refused puts. `advice`, the rank that will read the value, is a
    /// hint without effect on results.
    ///
    /// # Errors
    /// [`TooLarge`](crate::FaultKind::TooLarge), and those of all methods.
    pub fn put(
        &self,
        database: &str,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        advice: Option<Rank>,
    ) -> Result<(), Fault> {
        let pair = Pair { key: key.into(), value: value.into() };
        let request = Request::Put { database: database.into(), pair, advice };
        self.link.put(database, &request, self.time_limits.other)
    }

    /// Waits until all puts of this process into a database, by any of its threads, are stored.
    ///
    /// # Errors
    /// Those of the first put refused since the last commit: [`TooLarge`](crate::FaultKind::TooLarge),
    /// [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn commit(&self, database: &str) -> Result<(), Fault> {
        self.link.commit(database, self.time_limits.other)
    }

    /// The value of a key, from the node's own copy or else from another node. After a fence, the puts of its members
    /// are in the copies of all their nodes.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound), [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn get(&self, database: &str, key: impl Into<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        let request = Request::Get { database: database.into(), key: key.into() };
        self.link.ask(&request, self.time_limits.other).and_then(answers::value)
    }

    /// All current pairs of a database at all nodes.
    ///
    /// # Errors
    /// [`NoDatabase`](crate::FaultKind::NoDatabase); [`TooLarge`](crate::FaultKind::TooLarge) if they exceed the size
    /// of an answer.
    pub fn iterate(&self, database: &str) -> Result<Snapshot, Fault> {
        let request = Request::Iterate(database.into());
        self.link.ask(&request, self.time_limits.collective).and_then(answers::pairs).map(Snapshot::from)
    }

    /// Publishes a global name in the domain, with immediate effect.
    ///
    /// # Errors
    /// [`NameExists`](crate::FaultKind::NameExists), [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn deposit(&self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Result<(), Fault> {
        let request = Request::Deposit(Pair { key: name.into(), value: value.into() });
        self.link.ask(&request, self.time_limits.other).and_then(answers::done)
    }

    /// Withdraws a global name.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound).
    pub fn withdraw(&self, name: impl Into<Vec<u8>>) -> Result<(), Fault> {
        self.link.ask(&Request::Withdraw(name.into()), self.time_limits.other).and_then(answers::done)
    }

    /// The value deposited under a global name.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound).
    pub fn lookup(&self, name: impl Into<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        self.link
            .ask(&Request::Lookup { name: name.into(), wait: None }, self.time_limits.other)
            .and_then(answers::value)
    }

    /// Waits for all members of a set that includes this process. Distributes their [committed](Self::commit) puts to
    /// the nodes of all members, which serve gets of them from then on.
    ///
    /// # Errors
    /// [`MemberDied`](crate::FaultKind::MemberDied), [`NodeLost`](crate::FaultKind::NodeLost),
    /// [`TimedOut`](crate::FaultKind::TimedOut), the same for all members; [`Mismatch`](crate::FaultKind::Mismatch),
    /// [`NotMember`](crate::FaultKind::NotMember), [`GroupOpen`](crate::FaultKind::GroupOpen).
    pub fn fence(&self, over: &Set, limit: Option<Duration>) -> Result<(), Fault> {
        self.fence_by(over, limit, b"")
    }

    /// A fence with a tag, which distinguishes concurrent fences of the same set in several threads. A tag has up to
    /// 256 bytes, and the first is not 0.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn fence_by(&self, over: &Set, limit: Option<Duration>, tag: &[u8]) -> Result<(), Fault> {
        let limit = limit.unwrap_or(self.time_limits.collective);
        let request = Request::Fence { over: over.clone(), limit: Some(limit), tag: tag.to_vec() };
        self.link.ask(&request, limit).and_then(answers::done)
    }

    /// Waits for all processes of the own group: a fence of the whole group.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn barrier(&self) -> Result<(), Fault> {
        self.fence(&self.everybody(), None)
    }
}

#[cfg(test)]
mod tests;
