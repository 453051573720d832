//! A node: one id in this process, with its event loop on a thread of its own or driven by the application.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpc_trees::{Id, Ids, Limits};
use mio::{Poll, Waker};
use tracing::error;

use super::call::Call;
use super::call_error::{CallError, Deadlock};
use super::caller::{self, CALL_BLOCKS_MAX, Caller};
use super::change::Change;
use super::clock;
use super::command::Command;
use super::connect_options::ConnectOptions;
use super::connections::Connections;
use super::event_loop::{EventLoop, Parts, WAKER};
use super::events::Events;
use super::executor::Executor;
use super::executor_names::{EXECUTORS_MAX, ExecutorNames};
use super::front::Front;
use super::functions::Functions;
use super::handle::CallHandle;
use super::mailbox::{COMMANDS, Mailbox, Unsent};
use super::meeting::Meeting;
use super::membership_error::{CHANGE_LIMIT, MembershipError};
use super::memory::Memory;
use super::polled::PolledNode;
use super::side::Side;
use super::spreading::call_of;
use super::trust::Trust;
use super::users::Users;
use super::waiting;
use super::{AbsentPeers, Address, LinkKind, Listener, Peer, Peers, Wait, near};
use crate::chain::{self, Heartbeat};
use crate::channel::channel;
use crate::link::HIWATER;
use crate::link::peering::{Identity, Peering, PrivateKey, Secret};
use crate::transport::Keepalive;
use crate::wire::Job;

/// Maximum number of workers of a node, and of an executor: each is a thread, more than any machine can run.
const WORKERS_MAX: usize = 4096;

/// Default silence of a peer that is given up. Heartbeats are cheap, and a machine may be busy for seconds.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Time limit of a dropped node's calls: its thread only sends a goodbye.
const DROP_LIMIT: Duration = Duration::ZERO;

/// Length of one wait for a place in the command queue when a node is shut down.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// Capacity of the command queue of a served node: only its own functions send commands. The whole queue is allocated
/// at the start, and there may be thousands of such processes.
const SERVED_COMMANDS: usize = 256;

/// The settings of a node to be started.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Functions, Heartbeat, Listener, LinkKind, Node, Peers, Wait};
///
/// let functions = Functions::new();
/// let node = Node::builder(3)
///     .functions(&functions)
///     .peers("0 127.0.0.1:7000".parse::<Peers>()?)
///     .listener(Listener::bind(&LinkKind::default().fresh_address(3))?)
///     .executor("io", 2) // two workers for functions that are placed there
///     .wait(Wait::Block)
///     .heartbeat(Some(Heartbeat::dead_after(Duration::from_secs(3))))
///     .memory_max(256 << 20)
///     .start()?;
/// assert_eq!(node.id(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    config: chain::Config,
    functions: Functions,
    peers: Peers,
    listener: Option<Listener>,
    wait: Wait,
    link: LinkKind,
    users: Vec<u32>,
    memory_max: Option<u64>,
    processes: NonZeroU32,
    executors: Vec<String>,
    job: Option<Job>,
    trust: Trust,
}

impl Builder {
    /// Sets the functions and trees of the node.
    pub fn functions(mut self, functions: &Functions) -> Builder {
        self.functions = functions.clone();
        self
    }

    /// Sets the addresses of the other ids; a [job that they name](Peers::job) is the default of [`job`](Self::job).
    pub fn peers(mut self, peers: Peers) -> Builder {
        self.peers = peers;
        self
    }

    /// Sets the listener of the node. Without one, others reach it only over links that it has opened itself.
    pub fn listener(mut self, listener: Listener) -> Builder {
        self.listener = Some(listener);
        self
    }

    /// Sets the job of the node: it links only with nodes of an equal job. The default is the job of its
    /// [peers](Self::peers); if they name none, it is [no job](Job).
    ///
    /// ```
    /// use chained_gpc::{Job, Node};
    ///
    /// // Drawn once, and passed to each start of a node of this job.
    /// let job = Job::random();
    /// let nodes = [0, 1].map(|id| Node::builder(id).job(job).start());
    /// # for node in nodes { node?; }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn job(mut self, job: Job) -> Builder {
        self.job = Some(job);
        self
    }

    /// Sets the secret of the job: over TCP the node links only with nodes that prove that they have it, and proves so
    /// itself; links between hosts are also encrypted. Not used over Unix sockets, where the system identifies the
    /// other side. Needs the feature `noise`.
    pub fn secret(mut self, secret: Secret) -> Builder {
        self.trust.secret = Some(secret);
        self
    }

    /// Sets the key of the node, by whose public half others [know it](Peers::set_key). By default each run draws one.
    pub fn key(mut self, key: PrivateKey) -> Builder {
        self.trust.key = Some(key);
        self
    }

    /// Turns encryption between hosts off, if both sides do: the [secret](Self::secret) still authenticates links. An
    /// attacker who can change bytes on the wire can then inject anything.
    pub fn no_encryption(mut self) -> Builder {
        self.trust.no_encryption = true;
        self
    }

    /// Encrypts links over TCP on this host as well, if both sides do and have a [secret](Self::secret). Unix sockets
    /// and shared memory are never encrypted: the system keeps other users from them.
    pub fn encrypt_loopback(mut self) -> Builder {
        self.trust.encrypt_loopback = true;
        self
    }

    /// Allows links beyond this host without a [secret](Self::secret): any process that reaches the node can call it.
    pub fn insecure(mut self) -> Builder {
        self.trust.insecure = true;
        self
    }

    /// Sets the number of functions that may run at once, 1 to 4,096, one by default; never two of the same call. More
    /// than one needs the feature `rayon`.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.config.workers = workers.clamp(1, WORKERS_MAX);
        self
    }

    /// Adds a named executor with 1 to 4,096 workers of its own, for the functions that are
    /// [placed](super::Placement::Executor) there. They never wait for functions placed elsewhere. A node has at most
    /// 63 executors; the last number for a name counts.
    pub fn executor(mut self, name: impl Into<String>, workers: usize) -> Builder {
        let (name, workers) = (name.into(), workers.clamp(1, WORKERS_MAX));
        match self.executors.iter().position(|known| *known == name) {
            Some(place) => self.config.executors[place] = workers,
            None => {
                self.executors.push(name);
                self.config.executors.push(workers);
            }
        }
        self
    }

    /// Sets the maximum number of calls in flight, as root or below: 65,536 by default. Further calls fail at once.
    pub fn calls_max(mut self, calls: usize) -> Builder {
        self.config.calls_max = calls;
        self
    }

    /// Sets the maximum length of the data of a request that the node accepts, bytes: 8 GiB by default.
    pub fn data_max(mut self, bytes: u64) -> Builder {
        self.config.data_max = bytes;
        self
    }

    /// Sets the maximum length of a subtree's reply that the node accepts or makes, bytes: 8 GiB by default.
    pub fn reply_max(mut self, bytes: u64) -> Builder {
        self.config.reply_max = bytes;
        self
    }

    /// Sets the number of processes of a launch on this machine, 1 by default: they share their control group's memory.
    pub fn processes(mut self, processes: NonZeroU32) -> Builder {
        self.processes = processes;
        self
    }

    /// Sets the maximum memory for messages of peers at the node, bytes: requests until they have been executed,
    /// replies until they have been forwarded, and messages for a peer that does not read. Beyond it a request is
    /// rejected, and a reply becomes a failure, both *by a limit*; nothing waits for memory. The default is half of
    /// what the process may have: its limit of address space (`ulimit -v`), its part of its control group's (see
    /// [`processes`](Self::processes)), or the machine's memory. One link has three eighths of it at most. Memory of
    /// functions and the application does not count.
    pub fn memory_max(mut self, bytes: u64) -> Builder {
        self.memory_max = Some(bytes);
        self
    }

    /// Sets the heartbeat of peers whose replies are awaited: how often a silent peer is asked, and when it is given
    /// up; every 2 s and after 10 s by default. With `None`, a peer that is silent on an open connection is waited for
    /// until the call's time limit.
    ///
    /// While no call is in flight, the system watches TCP links with the same times: a link that has died silently is
    /// closed after twice the silence and one probe, 22 s by default. A peer that reads nothing while bytes wait for it
    /// loses its link after twice the silence; a [pause](super::PolledNode::pause) is added to that.
    pub fn heartbeat(mut self, heartbeat: Option<Heartbeat>) -> Builder {
        self.config.heartbeat = heartbeat;
        self
    }

    /// Declares this the first run of its id: no other process has had the id in this job, as the program that starts
    /// the processes knows. Then the node takes part in any [partial call](Call::partial), however young it is. By
    /// default an earlier run may have executed the call, and [`restart_margin`](Self::restart_margin) decides.
    ///
    /// A process that may be the second of its id must not set it: it would execute calls again.
    pub fn first_run(mut self) -> Builder {
        self.config.first_run = true;
        self
    }

    /// Sets how much older than a [partial call](Call::partial) a node must be to accept the call from an adopter,
    /// unless it is the [first run](Self::first_run) of its id. The adopter may repeat a request that an earlier run
    /// has executed. The margin must exceed the time that a request may be in flight. One second by default.
    pub fn restart_margin(mut self, margin: Duration) -> Builder {
        self.config.restart_margin = margin;
        self
    }

    /// Sets how the node waits for messages: [`Wait::Adaptive`] by default.
    pub fn wait(mut self, wait: Wait) -> Builder {
        self.wait = wait;
        self
    }

    /// Sets how the node links with nodes of its own host: with [`LinkKind::Shm`], the default, through shared memory,
    /// if the system has it; with [`LinkKind::Unix`], over Unix sockets; both even if the addresses are TCP ones. With
    /// [`LinkKind::Tcp`], as the addresses say, without shared memory. Two nodes use the slower of their kinds.
    pub fn link(mut self, link: LinkKind) -> Builder {
        self.link = link;
        self
    }

    /// Adds users of this machine, by user id, whose processes the node links with over Unix sockets, beside those of
    /// its own user: none by default. Both the connecting and the listening side check it, at paths and at abstract
    /// names; the system (Linux) reports the user of a process. Over TCP a [secret](Self::secret) authenticates links.
    pub fn allow_users(mut self, users: impl IntoIterator<Item = u32>) -> Builder {
        self.users.extend(users);
        self
    }

    /// Sets the limits of trees: depth and fan-out.
    pub fn tree_limits(mut self, limits: Limits) -> Builder {
        self.config.trees = limits;
        self
    }

    /// Starts the node, with an event loop on a thread of its own.
    ///
    /// # Errors
    /// The system's: no descriptors, no threads, a listener that cannot be used.
    pub fn start(self) -> io::Result<Node> {
        let (front, mut event_loop) = self.build(false, COMMANDS)?;
        let me = front.side.id;
        let run = move || {
            if let Err(error) = event_loop.run() {
                error!(id = me, %error, "the event loop broke off");
            }
        };
        let thread = thread::Builder::new().name(format!("gpc-{me}")).spawn(run)?;
        Ok(Node { front, thread: Some(thread) })
    }

    /// Creates a node without a thread: [`PolledNode::progress`] drives it, and runs its functions.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn polled(self) -> io::Result<PolledNode> {
        let (front, event_loop) = self.build(true, COMMANDS)?;
        Ok(PolledNode::new(front, event_loop))
    }

    /// Runs the node on this thread until the other end of `control_link` is closed, as the system does when its
    /// process dies. Then the node ends at once, without a message to its peers. For a process that is nothing but a
    /// node, and must not outlive the process that started it. Bytes that arrive on `control_link` are not read.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and the system's, of the poll itself.
    pub fn serve(self, control_link: UnixStream) -> io::Result<()> {
        let (_, mut event_loop) = self.build(false, SERVED_COMMANDS)?;
        event_loop.end_with_control_link(control_link)?;
        event_loop.run()
    }

    fn build(self, polled: bool, commands: usize) -> io::Result<(Front, EventLoop)> {
        let Builder {
            mut config,
            functions,
            peers,
            listener,
            wait,
            link,
            users,
            memory_max,
            processes,
            executors,
            job,
            trust,
        } = self;
        if executors.len() > EXECUTORS_MAX {
            let message =
                format!("{} executors are too many: a node has at most {EXECUTORS_MAX}", executors.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (id, limits) = (config.me, config.trees);
        let memory = Memory::new(id, memory_max, processes);
        config.memory = memory.bodies.clone();
        let address = listener.as_ref().map(Listener::address).transpose()?;
        trust.permits(address.as_ref())?;
        let poll = Poll::new()?;
        let workers: Vec<usize> =
            std::iter::once(config.workers).chain(config.executors.iter().copied()).collect();
        let (mailbox, slots) = Mailbox::new(Waker::new(poll.registry(), WAKER)?, commands, workers.clone());
        let mailbox = Arc::new(mailbox);
        let (executors, begun) = (ExecutorNames(executors), clock::begin());
        let side = Arc::new_cyclic(|this| Side {
            this: this.clone(),
            id,
            limits,
            functions,
            executors,
            mailbox,
            begun,
        });
        let listeners = listener.map(Listener::into_accepting).transpose()?.into_iter();
        let near = address.as_ref().filter(|_| link != LinkKind::Tcp).and_then(near::listen);
        let keepalive = config.heartbeat.map(Keepalive::of);
        let local = ConnectOptions { kind: link, keepalive, mine: address.clone(), users: Users::new(users) };
        let registry = poll.registry().try_clone()?;
        let listeners = listeners.chain(near).collect();
        let job = job.or(peers.job()).unwrap_or_default();
        let identity = Identity { me: id, incarnation: config.incarnation, job, hiwater: HIWATER };
        let strictness = trust.strictness();
        let peering = Peering::new(identity, trust.crypto(job)?, strictness, peers);
        let connections = Connections::new(peering, registry, listeners, local, memory)?;
        let executor = Executor::new(&side, &workers, polled)?;
        let node = chain::Node::new(config);
        let front = Front { address, side: side.clone() };
        let parts = Parts { poll, node, connections, side, executor, slots, wait, trims: !polled };
        Ok((front, EventLoop::new(parts)?))
    }
}

/// A node with an event loop on a thread of its own. Any thread may make calls; its drop ends it with a goodbye.
///
/// A process of a job, which gets its id as argument and the addresses of the others from a peers file:
///
/// ```no_run
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, Listener, Node, Peers};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let me = std::env::args().nth(1).ok_or("which id am I?")?.parse()?;
/// let peers: Peers = std::fs::read_to_string("peers.txt")?.parse()?;
/// let functions = Functions::new();
/// let pid = functions.func("pid", |_, reply| {
///     reply.data = std::process::id().to_string().into_bytes();
///     Ok(())
/// })?;
/// let listener = Listener::bind(&peers.address(me).ok_or("I am not among the peers")?)?;
/// let node = Node::builder(me).functions(&functions).peers(peers.clone()).listener(listener).start()?;
/// if me == 0 {
///     let all: Vec<_> = peers.ids().collect();
///     node.wait_for_peers(&all, Duration::from_secs(30))?;
///     let outcome = node.call(Call::new(pid).ids(&all))?.wait()?;
///     println!("{} processes answered", outcome.replies()?.len());
/// }
/// std::io::stdin().read_line(&mut String::new())?; // serve until the user presses Enter
/// node.shutdown(Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
///
/// A node without a listener can call others:
///
/// ```
/// use chained_gpc::{Call, Functions, Listener, Node, Peers};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let listener = Listener::bind(&"127.0.0.1:0".parse()?)?;
/// let peers: Peers = [(1, listener.address()?)].into_iter().collect();
/// let _serves = Node::builder(1).functions(&functions).listener(listener).start()?;
/// let calls = Node::builder(0).functions(&functions).peers(peers).start()?;
/// assert!(calls.call(Call::new(hello).ids([0, 1]))?.wait()?.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Node {
    front: Front,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    /// Creates a builder with the defaults.
    pub fn builder(id: Id) -> Builder {
        let heartbeat = Some(Heartbeat::dead_after(DEAD_AFTER));
        let incarnation = clock::incarnation();
        // The seed of hash tables that strangers fill, from the system's randomness.
        let seed = RandomState::new().hash_one(incarnation);
        let config = chain::Config { heartbeat, seed, ..chain::Config::new(id, incarnation) };
        Builder {
            config,
            functions: Functions::new(),
            peers: Peers::new(),
            listener: None,
            wait: Wait::default(),
            link: LinkKind::DEFAULT,
            users: Vec::new(),
            memory_max: None,
            processes: NonZeroU32::MIN,
            executors: Vec::new(),
            job: None,
            trust: Trust::default(),
        }
    }

    /// The node's id.
    pub fn id(&self) -> Id {
        self.front.side.id
    }

    /// The address at which it listens, if it does.
    pub fn address(&self) -> Option<&Address> {
        self.front.address.as_ref()
    }

    /// The functions that it knows; more may be registered at any time.
    pub fn functions(&self) -> &Functions {
        &self.front.side.functions
    }

    /// Starts a call: see [`Caller::call`]. The handle waits for it.
    ///
    /// # Errors
    /// As for [`Caller::call`].
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        caller::start(&*self.front.side, call, None, CALL_BLOCKS_MAX)
    }

    /// Returns a handle that makes calls from other threads, and without a reference to the node.
    pub fn caller(&self) -> Caller {
        Caller::new(self.front.side.this.clone())
    }

    /// Sets the address of a peer, while the node runs: from now on calls reach the peer there. A call sees every
    /// change that precedes its start.
    ///
    /// If the peer is known already, the address replaces the former one. A link that is up stays, and the new address
    /// is used once the link is lost; to close it at once, [forget](Self::forget) the peer before. An attempt to
    /// connect to the former address restarts at this one, and calls that wait for it go on. Learned ids are treated
    /// like those of [`Builder::peers`]: if file descriptors are short, their links stay.
    ///
    /// # Errors
    /// See [`MembershipError`]; it waits up to five seconds for a place in the queue of commands.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chained_gpc::{Call, Functions, IdList, LinkKind, Listener, Node, Peer};
    ///
    /// let functions = Functions::new();
    /// let name = functions.func("name", |request, reply| {
    ///     reply.data = request.me().to_string().into_bytes();
    ///     Ok(())
    /// })?;
    /// let root = Node::builder(0).functions(&functions).start()?;
    /// let listener = Listener::bind(&LinkKind::default().fresh_address(5))?;
    /// let joins = Node::builder(5).functions(&functions).listener(listener).start()?;
    ///
    /// root.learn(Peer::new(5, joins.address().expect("it listens").clone()))?;
    /// root.wait_for_peers(5..6, Duration::from_secs(10))?;
    /// let outcome = root.call(Call::new(name).ids(IdList::from_ids([0, 5])?))?.wait()?;
    /// assert_eq!(outcome.replies()?.len(), 2);
    ///
    /// root.forget(5)?;
    /// assert!(root.call(Call::new(name).ids(IdList::from_ids([0, 5])?))?.wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn learn(&self, peer: Peer) -> Result<(), MembershipError> {
        let command = self.front.learns(peer)?;
        Ok(self.front.side.mailbox.command(command, CHANGE_LIMIT)?)
    }

    /// [Learns](Self::learn) many peers at once: all are known before any call that is started afterwards.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn); then no peer is learned.
    pub fn learn_all(&self, peers: impl IntoIterator<Item = Peer>) -> Result<(), MembershipError> {
        let peers: Vec<Peer> = peers.into_iter().collect();
        peers.iter().try_for_each(|peer| self.front.is_other(peer.id))?;
        Ok(self.front.side.mailbox.command(Command::LearnAll(peers), CHANGE_LIMIT)?)
    }

    /// Removes the address of a peer, and closes the link with it in order: the peer is notified, and keeps running.
    /// Calls in flight through that link fail as if it were lost. Later calls fail at once, until the peer is
    /// [learned](Self::learn) again. For an unknown id it does nothing.
    ///
    /// It is no ban: a forgotten peer that knows this node's address may connect again, like any stranger.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn).
    pub fn forget(&self, id: Id) -> Result<(), MembershipError> {
        let command = self.front.forgets(id)?;
        Ok(self.front.side.mailbox.command(command, CHANGE_LIMIT)?)
    }

    /// [Learns](Self::learn) a peer, and makes every id that this node knows learn it: by a partial call, whose handle
    /// this returns. Afterwards the peer is reached in every tree. The outcome names the ids that have not learned it,
    /// and why; announcing the peer again does no harm. A node may announce itself.
    ///
    /// An announcement never replaces a key that an application has listed, or that a link has proved: a node that
    /// claims an id must still prove it. An id accepts at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX) announced ids
    /// beside its own list.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, Listener, Node, Peer, Peers, Tree};
    ///
    /// let functions = Functions::new();
    /// let name = functions.func("name", |request, reply| {
    ///     reply.data = request.me().to_string().into_bytes();
    ///     Ok(())
    /// })?;
    /// let serve = |id| {
    ///     let listener = Listener::bind(&LinkKind::default().fresh_address(id))?;
    ///     Node::builder(id).functions(&functions).listener(listener).start()
    /// };
    /// let member = serve(1)?;
    /// let peers: Peers = [(1, member.address().expect("it listens").clone())].into_iter().collect();
    /// let root = Node::builder(0).functions(&functions).peers(peers).start()?;
    ///
    /// let joins = serve(2)?;
    /// let outcome = root.announce(Peer::new(2, joins.address().expect("it listens").clone()))?.wait()?;
    /// assert!(outcome.is_complete());
    /// // In a chain id 1 calls id 2.
    /// let outcome = root.call(Call::new(name).ids(0..3).tree(Tree::Chain))?.wait()?;
    /// assert_eq!(outcome.replies()?.len(), 3);
    ///
    /// assert!(root.withdraw(2)?.wait()?.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`call`](Self::call); [`CallError::Deadlock`] on the thread that drives the node.
    pub fn announce(&self, peer: Peer) -> Result<CallHandle, CallError> {
        self.spread(Change::Announce(peer))
    }

    /// [Forgets](Self::forget) an id, and makes every id that this node knows forget it, by a call as in
    /// [`announce`](Self::announce). The id itself is not notified. A key that an application has listed for it stays.
    ///
    /// # Errors
    /// As for [`announce`](Self::announce).
    pub fn withdraw(&self, id: Id) -> Result<CallHandle, CallError> {
        self.spread(Change::Withdraw(id))
    }

    fn spread(&self, change: Change) -> Result<CallHandle, CallError> {
        if waiting::is_driving() {
            return Err(CallError::Deadlock(Deadlock::Driver));
        }
        let (answer, members) = channel();
        self.front.side.mailbox.command(Command::Members { answer }, CHANGE_LIMIT).map_err(|unsent| {
            match unsent {
                Unsent::Full => CallError::Busy,
                Unsent::Ended => CallError::Ended,
            }
        })?;
        // If the node has ended, the sender is dropped, which ends the wait.
        let members = members.recv_timeout(CHANGE_LIMIT).map_err(|late| match late {
            RecvTimeoutError::Timeout => CallError::Busy,
            RecvTimeoutError::Disconnected => CallError::Ended,
        })?;
        self.call(call_of(self.id(), &change, members))
    }

    /// Subscribes to the events of peers whose links come up or are lost: see [`Events`]. Each subscription gets all.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], after five seconds, and [`MembershipError::Ended`].
    pub fn events(&self) -> Result<Events, MembershipError> {
        let (events, listener) = Events::new();
        self.front.side.mailbox.command(Command::Listen(listener), CHANGE_LIMIT)?;
        Ok(events)
    }

    /// Ends the node in order: it accepts no more calls, those in flight get `limit` to end, and peers are notified.
    /// Calls that are still in flight then end with [`CallError::Ended`].
    ///
    /// Peers get [`Loss::Left`](super::Loss::Left) among their [events](Self::events). Requests that arrive meanwhile
    /// are rejected, and later ones find no node: either fails the call at this id at once.
    pub fn shutdown(mut self, limit: Duration) {
        self.end(limit);
    }

    /// Waits until there is a link to each of these ids, up to `limit`: nodes of a job start in any order, and a call
    /// fails at a node that is not up yet. It retries with pauses that grow to a quarter of a second. Only a root needs
    /// to wait; its calls use these links.
    ///
    /// # Errors
    /// [`AbsentPeers`], with the ids that did not come up, and why the first of them did not.
    #[allow(clippy::disallowed_methods, reason = "the pause between two attempts is not a wait for anything")]
    pub fn wait_for_peers(&self, ids: impl Into<Ids>, limit: Duration) -> Result<(), AbsentPeers> {
        if waiting::is_driving() {
            return Err(AbsentPeers::Driver);
        }
        let mut meeting = Meeting::new(ids.into().list()?, limit);
        let begun = Instant::now();
        // Terminates: the time limit passes.
        while let Some(pause) =
            meeting.judge(meeting.ask(&self.front.side.mailbox, begun.elapsed()), begun.elapsed())?
        {
            thread::sleep(pause);
        }
        Ok(())
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn front(&self) -> &Front {
        &self.front
    }

    fn end(&mut self, limit: Duration) {
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() == thread::current().id() {
            // Dropped by a function or a continuation of its own: the node ends after this turn, unawaited.
            let side = self.front.side.clone();
            let ask = move |room| side.mailbox.command(Command::Shutdown { limit }, room);
            if ask(Duration::ZERO) == Err(Unsent::Full) {
                // Terminates: the loop frees a place, or ends by itself.
                let asking = move || while ask(COMMAND_LIMIT) == Err(Unsent::Full) {};
                if let Err(error) = thread::Builder::new().name("gpc-ends".into()).spawn(asking) {
                    error!(%error, "a node that was dropped cannot be told to end");
                }
            }
            return;
        }
        // A loop that frees no place cannot be joined. One that has ended accepts no command, and can be joined.
        while self.front.side.mailbox.command(Command::Shutdown { limit }, COMMAND_LIMIT) == Err(Unsent::Full)
        {
        }
        if thread.join().is_err() {
            error!(id = self.front.side.id, "the event loop's thread panicked");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end(DROP_LIMIT);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.front.side.id)
    }
}
