//! A process of a group.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use chained_gpc::launch::inherited_socket;

use super::link::Link;
use super::notices::Sink;
use super::{ClientError, Deaths, Snapshot, Spawned, Waits, answers};
use crate::exit::Death;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member, Rank, Set};
use crate::request::{GroupStatus, Identity, Pair, Request};
use crate::spec::{OnDeath, Spec};

/// The variable with the number of the socket to the node.
const OWN: &str = "GPC_BNR_FD";

/// The one by which programs find it that speak PMI. Alone, it is another launcher's, which does not know this project's frames.
const PMI: &str = "PMI_FD";

/// This process, which a node has started as one of a group.
///
/// When it is dropped the link to the node ends; that is no goodbye: a process that ends without [`finalize`](Self::finalize) counts as one that has failed.
///
/// All methods fail with a [`Fault`], whose [kind](crate::FaultKind) has a number; those that are not named are [`TimedOut`](crate::FaultKind::TimedOut) and [`Link`](crate::FaultKind::Link), with which any can fail.
pub struct Process {
    link: Link,
    identity: Identity,
    waits: Waits,
    /// Those of the domain, once they were asked for.
    limits: OnceLock<Limits>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Who takes part.
impl Process {
    /// Takes part in the group that this process was started in, once for each process.
    ///
    /// # Errors
    /// When it was started by something else than a node, or its node is gone. A process never takes itself for the only one.
    pub fn init() -> Result<Process, ClientError> {
        Process::init_with(Waits::default())
    }

    /// The same, with other time limits.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn init_with(waits: Waits) -> Result<Process, ClientError> {
        let variable = |name| std::env::var_os(name);
        match inherited_socket(OWN) {
            Ok(Some(socket)) => Process::over(socket, waits),
            Ok(None) if variable(PMI).is_some() => Err(ClientError::OtherLauncher),
            Ok(None) => Err(ClientError::NotStarted),
            Err(error) => Err(ClientError::Socket { number: variable(OWN).unwrap_or_default(), error }),
        }
    }

    /// The same, over a socket that is there.
    ///
    /// # Errors
    /// When the node at its other end is gone, or takes this process for none of its own.
    pub fn over(socket: OwnedFd, waits: Waits) -> Result<Process, ClientError> {
        let link = Link::begin(socket, waits.margin)?;
        let identity = link.ask(&Request::Init, waits.other).and_then(answers::identity)?;
        Ok(Process { link, identity, waits, limits: OnceLock::new() })
    }

    /// The group and the rank: which process of the domain this is.
    pub fn member(&self) -> Member {
        self.identity.member
    }

    /// The group that this process was started in. It has no other one, as long as it lives.
    pub fn group(&self) -> GroupId {
        self.identity.member.group
    }

    /// Its rank in its group.
    pub fn rank(&self) -> Rank {
        self.identity.member.rank
    }

    /// How many processes its group has.
    pub fn size(&self) -> u32 {
        self.identity.size
    }

    /// The group of the process that has spawned its group; none of the groups that the domain began with.
    pub fn parent(&self) -> Option<GroupId> {
        self.identity.parent
    }

    /// By which of its group's specs it was started, from 0.
    pub fn spec(&self) -> u32 {
        self.identity.spec
    }

    /// The ranks of its group on its node, in order; its own is one of them.
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

    /// The lengths of keys, values and names, and how much of everything there may be in the domain: its head says it. The node is asked once.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn limits(&self) -> Result<Limits, Fault> {
        if let Some(limits) = self.limits.get() {
            return Ok(*limits);
        }
        let limits = self.link.ask(&Request::Limits, self.waits.other).and_then(answers::limits)?;
        // Of two threads that ask at a time both are told the same.
        Ok(*self.limits.get_or_init(|| limits))
    }

    /// Takes part no longer: if the process ends now, that harms nobody. All requests fail from then on.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn finalize(&self) -> Result<(), Fault> {
        let finalized = self.link.ask(&Request::Finalize, self.waits.other).and_then(answers::done);
        self.link.end("this process has finalized");
        finalized
    }

    /// Ends the job: all processes of the group are killed, this one too, and `gpc run` ends with this status. Returns when that is said, which is before the end.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn abort(&self, code: u8, message: impl Into<String>) -> Result<(), Fault> {
        self.link.say(&Request::Abort { code, message: message.into() })
    }
}

/// Groups.
impl Process {
    /// How many processes a group has. Waits until it is closed.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn size_of(&self, group: GroupId) -> Result<u64, Fault> {
        self.link.ask(&Request::Size(group), self.waits.collective).and_then(answers::number)
    }

    /// Opens a group, of which nothing runs before it is closed. Collective over a set that this process is in; all get the same group.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn open(&self, over: &Set, limit: Option<Duration>) -> Result<GroupId, Fault> {
        let limit = limit.unwrap_or(self.waits.collective);
        let request = Request::Open { over: over.clone(), limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group)
    }

    /// Adds processes to an open group, as the next ranks, as often as wanted; not collective. They are started when the group is closed.
    ///
    /// # Errors
    /// [`GroupClosed`](crate::FaultKind::GroupClosed), [`NoGroup`](crate::FaultKind::NoGroup), [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn spawn(
        &self,
        group: GroupId,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: Option<OnDeath>,
    ) -> Result<(), Fault> {
        let request = Request::Spawn { group, specs, preputs, on_death };
        self.link.ask(&request, self.waits.other).and_then(answers::done)
    }

    /// Closes a group: its processes are started. Collective over the set that has opened it.
    ///
    /// # Errors
    /// As [`fence`](Self::fence). That processes could not be started is no fault, and told for each of them.
    pub fn close(&self, over: &Set, group: GroupId, limit: Option<Duration>) -> Result<Spawned, Fault> {
        let limit = limit.unwrap_or(self.waits.collective);
        let request = Request::Close { over: over.clone(), group, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::spawned)
    }

    /// Opens a group, spawns into it and closes it, for this process alone.
    ///
    /// # Errors
    /// [`BadRequest`](crate::FaultKind::BadRequest), [`TooLarge`](crate::FaultKind::TooLarge). That processes could not be started is no fault, and told for each of them.
    pub fn spawn_multiple(
        &self,
        specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: OnDeath,
    ) -> Result<Spawned, Fault> {
        let request = Request::SpawnMultiple { specs, preputs, on_death, input: false };
        self.link.ask(&request, self.waits.collective).and_then(answers::spawned)
    }

    /// Makes a group of all processes of two groups, of which the first is the caller's own. Collective over both: each names its own first. The ranks of the group with the lower number come first.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn merge(&self, own: GroupId, other: GroupId, limit: Option<Duration>) -> Result<GroupId, Fault> {
        let limit = limit.unwrap_or(self.waits.collective);
        let request = Request::Merge { first: own, second: other, limit: Some(limit) };
        self.link.ask(&request, limit).and_then(answers::group)
    }

    /// Needs the number of a group no longer. One that is open or merged is gone; one that runs goes when its processes have ended.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn free(&self, group: GroupId) -> Result<(), Fault> {
        self.link.ask(&Request::Free(group), self.waits.other).and_then(answers::done)
    }

    /// Kills all processes of a group, and what they have started, with SIGTERM and then SIGKILL; waits until none is left. Of its own group, this process does not see the answer.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn kill(&self, group: GroupId) -> Result<(), Fault> {
        self.link.ask(&Request::Kill(group), self.waits.collective).and_then(answers::done)
    }

    /// What became of the processes of a group.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn status(&self, group: GroupId) -> Result<GroupStatus, Fault> {
        self.link.ask(&Request::Status(group), self.waits.other).and_then(answers::one_group)
    }

    /// All groups of the domain, of which the first 4,096 are told.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn groups(&self) -> Result<Vec<GroupStatus>, Fault> {
        self.link.ask(&Request::Groups, self.waits.other).and_then(answers::groups)
    }

    /// Tells of each process of a group that ends, also of those that have ended already: each once. Of a merged group these are the processes of the groups that it is made of, by their own names. A death because of which a request has failed is told of before that request returns.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn subscribe(&self, group: GroupId) -> Result<Deaths, Fault> {
        let (sender, receiver) = channel();
        self.link.subscribe(group, Sink::Queue(sender), self.waits.other)?;
        Ok(Deaths::new(receiver))
    }

    /// The same by a callback. The thread that reads runs it, so that no answer comes while it runs, and it must not ask for anything itself: that is [`BadRequest`](crate::FaultKind::BadRequest). One that panics ends the link.
    ///
    /// # Errors
    /// [`NoGroup`](crate::FaultKind::NoGroup).
    pub fn subscribe_with(
        &self,
        group: GroupId,
        callback: impl FnMut(Death) + Send + 'static,
    ) -> Result<(), Fault> {
        self.link.subscribe(group, Sink::Call(Box::new(callback)), self.waits.other)
    }
}

/// Databases.
impl Process {
    /// Makes a database by this name, or by one that the domain gives. It is there until it is destroyed, for all who know its name.
    ///
    /// # Errors
    /// [`DatabaseExists`](crate::FaultKind::DatabaseExists), [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn create(&self, name: Option<&str>) -> Result<String, Fault> {
        let request = Request::Create(name.map(str::to_owned));
        self.link.ask(&request, self.waits.other).and_then(answers::name)
    }

    /// Removes a database, everywhere.
    ///
    /// # Errors
    /// [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn destroy(&self, database: &str) -> Result<(), Fault> {
        self.link.ask(&Request::Destroy(database.into()), self.waits.other).and_then(answers::done)
    }

    /// The names of all databases.
    ///
    /// # Errors
    /// Only those of all methods.
    pub fn databases(&self) -> Result<Vec<String>, Fault> {
        self.link.ask(&Request::Databases, self.waits.other).and_then(answers::names)
    }

    /// Puts a value under a key. Does not wait for the answer, unless 1,024 requests of this process are unanswered: [`commit`](Self::commit) tells what was refused. Which rank will read it is advice, on which nothing depends.
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
        self.link.put(database, &request, self.waits.other)
    }

    /// Waits until what this process, by whichever of its threads, has put into a database is in it.
    ///
    /// # Errors
    /// Those of the first put that was refused since the last commit: [`TooLarge`](crate::FaultKind::TooLarge), [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn commit(&self, database: &str) -> Result<(), Fault> {
        self.link.commit(database, self.waits.other)
    }

    /// The value of a key: of the node's own copy, or else of another node's. What members have put is everywhere after their fence.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound), [`NoDatabase`](crate::FaultKind::NoDatabase).
    pub fn get(&self, database: &str, key: impl Into<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        let request = Request::Get { database: database.into(), key: key.into() };
        self.link.ask(&request, self.waits.other).and_then(answers::value)
    }

    /// All that is in a database now, on whatever node.
    ///
    /// # Errors
    /// [`NoDatabase`](crate::FaultKind::NoDatabase); [`TooLarge`](crate::FaultKind::TooLarge) when it is more than an answer may be.
    pub fn iterate(&self, database: &str) -> Result<Snapshot, Fault> {
        let request = Request::Iterate(database.into());
        self.link.ask(&request, self.waits.collective).and_then(answers::pairs).map(Snapshot::from)
    }

    /// Makes a global name known in the domain, at once.
    ///
    /// # Errors
    /// [`NameExists`](crate::FaultKind::NameExists), [`TooLarge`](crate::FaultKind::TooLarge).
    pub fn deposit(&self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Result<(), Fault> {
        let request = Request::Deposit(Pair { key: name.into(), value: value.into() });
        self.link.ask(&request, self.waits.other).and_then(answers::done)
    }

    /// Takes a global name back.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound).
    pub fn withdraw(&self, name: impl Into<Vec<u8>>) -> Result<(), Fault> {
        self.link.ask(&Request::Withdraw(name.into()), self.waits.other).and_then(answers::done)
    }

    /// What was deposited under a global name.
    ///
    /// # Errors
    /// [`NotFound`](crate::FaultKind::NotFound).
    pub fn lookup(&self, name: impl Into<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        self.link.ask(&Request::Lookup(name.into()), self.waits.other).and_then(answers::value)
    }

    /// Waits for all members of a set that this process is in, and brings what they have put and [committed](Self::commit) to the nodes of all: gets of it are answered there from then on.
    ///
    /// # Errors
    /// [`MemberDied`](crate::FaultKind::MemberDied), [`NodeLost`](crate::FaultKind::NodeLost), [`TimedOut`](crate::FaultKind::TimedOut), the same at all; [`Mismatch`](crate::FaultKind::Mismatch), [`NotMember`](crate::FaultKind::NotMember), [`GroupOpen`](crate::FaultKind::GroupOpen).
    pub fn fence(&self, over: &Set, limit: Option<Duration>) -> Result<(), Fault> {
        self.fence_by(over, limit, b"")
    }

    /// A fence with a tag: threads that fence with the same set at a time tell theirs apart by it. It has up to 256 bytes, of which the first is not 0.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn fence_by(&self, over: &Set, limit: Option<Duration>, tag: &[u8]) -> Result<(), Fault> {
        let limit = limit.unwrap_or(self.waits.collective);
        let request = Request::Fence { over: over.clone(), limit: Some(limit), tag: tag.to_vec() };
        self.link.ask(&request, limit).and_then(answers::done)
    }

    /// Waits for all processes of the own group: a fence of all of them.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn barrier(&self) -> Result<(), Fault> {
        self.fence(&self.everybody(), None)
    }
}
