//! A node: one id in this process, with its event loop on a thread of its own or driven by the application.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpc_trees::{Id, Ids, Limits};
use mio::{Poll, Waker};
use tracing::error;

use super::call::Call;
use super::call_error::{CallError, Deadlock};
use super::caller::{self, CALL_BLOCKS_MAX, Caller};
use super::clock;
use super::command::Command;
use super::event_loop::{EventLoop, Parts, WAKER};
use super::events::Events;
use super::executor::{EXECUTORS_MAX, Executor, Names};
use super::functions::Functions;
use super::handle::CallHandle;
use super::keepalive::Keepalive;
use super::link::HIWATER;
use super::links::Links;
use super::mailbox::{COMMANDS, Mailbox, Unsent};
use super::meeting::{AbsentPeers, Meeting};
use super::membership::{CHANGE_LIMIT, MembershipError, Peer};
use super::memory::Memory;
use super::opening::Local;
use super::polled::PolledNode;
use super::side::Side;
use super::spreading::Change;
use super::trust::Trust;
use super::users::Users;
use super::waiting;
use super::{Address, LinkKind, Listener, Peers, Wait, near};
use crate::chain::{self, Heartbeat};
use crate::peering::{Identity, Peering, PrivateKey, Secret};
use crate::wire::Job;

/// Most workers of a node's own, and of an executor: each is a thread, and no machine runs more functions at a time.
const WORKERS_MAX: usize = 4096;

/// Rare enough to cost nothing beside a call; a machine that is busy for some seconds is not taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How long a dropped node waits for its thread: it has nothing to do but to say goodbye.
const DROP_LIMIT: Duration = Duration::ZERO;

/// Room in the command queue is waited for so long at a time when a node is shut down.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// Room for the commands of a node that is served: only its functions give it any. All of the room is memory from the start, and there may be thousands of such processes.
const SERVED_COMMANDS: usize = 256;

/// The settings of a node that is to be started.
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
    /// The functions and trees that the node knows.
    pub fn functions(mut self, functions: &Functions) -> Builder {
        self.functions = functions.clone();
        self
    }

    /// Where the other ids listen. If the peers [name a job](Peers::job), the node is of that job, unless [`job`](Self::job) says another.
    pub fn peers(mut self, peers: Peers) -> Builder {
        self.peers = peers;
        self
    }

    /// Where the node itself listens. A node without a listener can call; others can reach it only over links that it has opened itself.
    pub fn listener(mut self, listener: Listener) -> Builder {
        self.listener = Some(listener);
        self
    }

    /// The job that the node belongs to: it links with nodes of an equal one alone. By default the one that its [peers](Self::peers) name, and where they name none, [no job](Job).
    ///
    /// ```
    /// use chained_gpc::{Job, Node};
    ///
    /// // Drawn once, and told to whoever starts a node of this job.
    /// let job = Job::random();
    /// let nodes = [0, 1].map(|id| Node::builder(id).job(job).start());
    /// # for node in nodes { node?; }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn job(mut self, job: Job) -> Builder {
        self.job = Some(job);
        self
    }

    /// The secret of the job: over TCP the node links with those alone that prove that they have it, and proves so itself. Unix sockets do not need it: there the system tells who the other side is. Between hosts links are
    /// encrypted then, too. Needs the feature `noise`.
    pub fn secret(mut self, secret: Secret) -> Builder {
        self.trust.secret = Some(secret);
        self
    }

    /// The key of the node: its public half is what others may [know it by](Peers::set_key). Without one, a fresh one is drawn for this run.
    pub fn key(mut self, key: PrivateKey) -> Builder {
        self.trust.key = Some(key);
        self
    }

    /// Links between hosts are proved by the [secret](Self::secret), and not encrypted after that, where both sides say so: who can change what is on the wire can inject anything then.
    pub fn no_encryption(mut self) -> Builder {
        self.trust.no_encryption = true;
        self
    }

    /// Links over TCP that stay on this host are encrypted as well, as those between hosts are: with a [secret](Self::secret), where both sides say so. Unix sockets and shared memory never are, for the system keeps others from them.
    pub fn encrypt_loopback(mut self) -> Builder {
        self.trust.encrypt_loopback = true;
        self
    }

    /// Listens, and connects, beyond this host without a [secret](Self::secret): whoever reaches the node can call its functions. Refused otherwise.
    pub fn insecure(mut self) -> Builder {
        self.trust.insecure = true;
        self
    }

    /// Functions that may run at once, one by default, at least one and at most 4,096; still never two of the same call. More than one needs the feature `rayon`.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.config.workers = workers.clamp(1, WORKERS_MAX);
        self
    }

    /// An executor with a name and this number of workers of its own, at least one and at most 4,096, for the functions that are [placed](super::Placement::Executor) there. They never wait for functions placed elsewhere. A node has at most 63; the last
    /// number given for a name counts.
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

    /// Calls in flight at the node, as root or below: 65,536 by default. Above it, calls are refused with a failure.
    pub fn calls_max(mut self, calls: usize) -> Builder {
        self.config.calls_max = calls;
        self
    }

    /// Longest data of a request that the node takes, bytes: 8 GiB by default.
    pub fn data_max(mut self, bytes: u64) -> Builder {
        self.config.data_max = bytes;
        self
    }

    /// Longest reply of a subtree that the node takes or makes, bytes: 8 GiB by default.
    pub fn reply_max(mut self, bytes: u64) -> Builder {
        self.config.reply_max = bytes;
        self
    }

    /// How many processes of one launch run on this machine, this one included: each has its part of the memory that their control group may have. One by default.
    pub fn processes(mut self, processes: NonZeroU32) -> Builder {
        self.processes = processes;
        self
    }

    /// Most memory that what peers send may take at the node, bytes: their requests while they arrive and while they are executed, replies until they have been passed on, and what waits for a peer that
    /// does not read. Beyond it a request is refused, and a reply becomes a failure, both *by a limit*; nothing waits for memory. By default half of what the process may have: its limit of
    /// addresses (`ulimit -v`), its part of its control group's (see [`processes`](Self::processes)), or the machine's memory. One link has three eighths of it at most. What functions and the application hold is not counted.
    pub fn memory_max(mut self, bytes: u64) -> Builder {
        self.memory_max = Some(bytes);
        self
    }

    /// Heartbeats of the peers whose answers are awaited: when each is asked, and when a silent one is given up. By default every 2 s and after 10 s. With `None`, a peer that is silent on a connection that stands is
    /// waited for until the call's time limit.
    ///
    /// While no call is in flight the system watches TCP links by the same times: one that has died without a word is closed after twice the silence and one question, 22 s by default. A peer that reads nothing while bytes wait for it
    /// loses its link after twice the silence; a [pause](super::PolledNode::pause) comes on top.
    pub fn heartbeat(mut self, heartbeat: Option<Heartbeat>) -> Builder {
        self.config.heartbeat = heartbeat;
        self
    }

    /// This is the first run of its id: no other process has had it in this job, as whoever starts the processes knows. Then the node takes part in a [partial call](Call::partial) whoever asks it, however
    /// young it is. Otherwise, which is the default, an earlier run may have executed the call, and [`restart_margin`](Self::restart_margin) decides.
    ///
    /// Say it of no process that may be a second one of its id: it would execute calls that the first one has executed.
    pub fn first_run(mut self) -> Builder {
        self.config.first_run = true;
        self
    }

    /// How much older than a [partial call](Call::partial) a node that is not the [first run](Self::first_run) of its id must be to take the call from an adopter, who may ask again for what an earlier run has
    /// executed: longer than a request may be under way. One second by default.
    pub fn restart_margin(mut self, margin: Duration) -> Builder {
        self.config.restart_margin = margin;
        self
    }

    /// How the node waits for what comes next: [`Wait::Adaptive`] by default.
    pub fn wait(mut self, wait: Wait) -> Builder {
        self.wait = wait;
        self
    }

    /// How the node links with nodes of its own host: with [`LinkKind::Shm`], the default, through shared memory, where the system has it; with [`LinkKind::Unix`], over Unix sockets; both even where addresses are TCP ones.
    /// With [`LinkKind::Tcp`], as the addresses say, and without shared memory. Where two nodes differ, the slower kind is used.
    pub fn link(mut self, link: LinkKind) -> Builder {
        self.link = link;
        self
    }

    /// Users of this machine, by their numbers, whose processes the node links with over Unix sockets in addition to those of its own user: by default none. It is checked by the side that connects and by the side that listens, at paths and
    /// at abstract names; the system (Linux) tells the user of a process. Over TCP links are proved by a [secret](Self::secret).
    pub fn allow_users(mut self, users: impl IntoIterator<Item = u32>) -> Builder {
        self.users.extend(users);
        self
    }

    /// Limits of trees: depth and fan-out.
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

    /// Makes a node without any thread: the application drives it with [`PolledNode::progress`], and its functions run in there.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn polled(self) -> io::Result<PolledNode> {
        let (front, event_loop) = self.build(true, COMMANDS)?;
        Ok(PolledNode::new(front, event_loop))
    }

    /// Makes this thread the node's, until the other end of `keeper` is closed, as the system does when its process dies: then the node ends at once, without a word to its peers. For a process that
    /// is nothing but a node, and must not outlive who started it. Whatever comes on `keeper` is left there.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and the system's, of the poll itself.
    pub fn serve(self, keeper: UnixStream) -> io::Result<()> {
        let (_, mut event_loop) = self.build(false, SERVED_COMMANDS)?;
        event_loop.end_with(keeper)?;
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
        let (executors, begun) = (Names(executors), clock::begin());
        let side = Arc::new(Side { id, limits, functions, executors, mailbox, begun });
        let listeners = listener.map(Listener::into_accepting).transpose()?.into_iter();
        let near = address.as_ref().filter(|_| link != LinkKind::Tcp).and_then(near::listen);
        let keepalive = config.heartbeat.map(Keepalive::of);
        let local = Local { kind: link, keepalive, mine: address.clone(), users: Users::new(users) };
        let registry = poll.registry().try_clone()?;
        let listeners = listeners.chain(near).collect();
        let job = job.or(peers.job()).unwrap_or_default();
        let identity = Identity { me: id, incarnation: config.incarnation, job, hiwater: HIWATER };
        let strictness = trust.strictness();
        let peering = Peering::new(identity, trust.crypto(job)?, strictness, peers);
        let links = Links::new(peering, registry, listeners, local, memory)?;
        let executor = Executor::new(&side, &workers, polled)?;
        let node = chain::Node::new(config);
        let front = Front { address, side: side.clone() };
        let parts = Parts { poll, node, links, side, executor, slots, wait, trims: !polled };
        Ok((front, EventLoop::new(parts)?))
    }
}

/// What both kinds of node offer to the application.
pub(super) struct Front {
    pub(super) address: Option<Address>,
    pub(super) side: Arc<Side>,
}

impl Front {
    pub(super) fn learns(&self, peer: Peer) -> Result<Command, MembershipError> {
        self.is_other(peer.id).map(|()| Command::Learn(peer))
    }

    pub(super) fn forgets(&self, id: Id) -> Result<Command, MembershipError> {
        self.is_other(id).map(|()| Command::Forget(id))
    }

    fn is_other(&self, id: Id) -> Result<(), MembershipError> {
        if id == self.side.id { Err(MembershipError::Own(id)) } else { Ok(()) }
    }
}

/// A node whose event loop runs on a thread of its own. Any thread may call; dropping it says goodbye to its peers and ends its thread.
///
/// A process of a job, which takes its id as argument and finds the others in a peers file:
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
/// std::io::stdin().read_line(&mut String::new())?; // serve until somebody presses Enter
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
    /// Begins to describe a node.
    pub fn builder(id: Id) -> Builder {
        let heartbeat = Some(Heartbeat::dead_after(DEAD_AFTER));
        let incarnation = clock::incarnation();
        // What the system gives for tables that strangers fill.
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

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<&Address> {
        self.front.address.as_ref()
    }

    /// The functions that it knows; more may be registered at any time.
    pub fn functions(&self) -> &Functions {
        &self.front.side.functions
    }

    /// Starts a call: see [`Caller::call`]. The handle waits.
    ///
    /// # Errors
    /// What is wrong with the call, before anything is sent.
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        caller::start(&self.front.side, call, None, CALL_BLOCKS_MAX)
    }

    /// Makes calls from other threads, and where the node itself is out of reach.
    pub fn caller(&self) -> Caller {
        Caller::new(&self.front.side)
    }

    /// Says where a peer listens, while the node runs: from now on calls reach it there. What is learned before a call is started holds for that call.
    ///
    /// A peer that is known already has this address from now on. A link that stands stays, and the address counts when it is lost; to have it closed at once, [forget](Self::forget) the peer before. An attempt to connect
    /// to the former address begins anew at this one, and calls that wait for it go on. Ids that were learned are treated as those of [`Builder::peers`]: where file descriptors are short, their links stay.
    ///
    /// # Errors
    /// See [`MembershipError`]; it waits at most five seconds for room in the queue of commands.
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

    /// [Learns](Self::learn) many peers at once: all of them are known before any call that is started behind it.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn); then none is learned.
    pub fn learn_all(&self, peers: impl IntoIterator<Item = Peer>) -> Result<(), MembershipError> {
        let peers: Vec<Peer> = peers.into_iter().collect();
        peers.iter().try_for_each(|peer| self.front.is_other(peer.id))?;
        Ok(self.front.side.mailbox.command(Command::LearnAll(peers), CHANGE_LIMIT)?)
    }

    /// Forgets where a peer listens, and closes the link with it in order: the peer is told, and goes on. Calls in flight through that link fail as if it were lost, and later ones at once, until the peer is
    /// [learned](Self::learn) again. Of an id that is not known it does nothing.
    ///
    /// It is no ban: a forgotten peer that knows where this node listens may connect again, as any stranger may.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn).
    pub fn forget(&self, id: Id) -> Result<(), MembershipError> {
        let command = self.front.forgets(id)?;
        Ok(self.front.side.mailbox.command(command, CHANGE_LIMIT)?)
    }

    /// [Learns](Self::learn) a peer, and has every id that this node knows learn it: by a partial call, whose handle this returns. Afterwards the peer is reached in every tree. Its outcome names the ids that were not told, and why; to
    /// announce the peer again does no harm. A node may announce itself.
    ///
    /// No announcement replaces a key that an application has listed, or that a link has proved: whoever claims an id still has to prove it. An id takes at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX) announced ids beside its own list.
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
    /// let told = root.announce(Peer::new(2, joins.address().expect("it listens").clone()))?.wait()?;
    /// assert!(told.is_complete());
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

    /// [Forgets](Self::forget) an id, and has every id that this node knows forget it, as [`announce`](Self::announce) spreads the contrary. The id itself is not told. A key that an application has listed for it stays listed.
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
        // Whoever asks hears that the node has ended from the sender that is dropped.
        let members = members.recv_timeout(CHANGE_LIMIT).map_err(|late| match late {
            RecvTimeoutError::Timeout => CallError::Busy,
            RecvTimeoutError::Disconnected => CallError::Ended,
        })?;
        self.call(change.call(members))
    }

    /// Tells of peers whose links come up and are lost, from now on: see [`Events`]. Each has the events for itself.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], after five seconds, and [`MembershipError::Ended`].
    pub fn events(&self) -> Result<Events, MembershipError> {
        let (events, listener) = Events::new();
        self.front.side.mailbox.command(Command::Listen(listener), CHANGE_LIMIT)?;
        Ok(events)
    }

    /// Ends the node in order: no more calls are taken, those in flight get `limit` to end, and peers are told. Calls that are still in flight then end with [`CallError::Ended`].
    ///
    /// Peers hear that it has left, as [`Loss::Left`](super::Loss::Left) among their [events](Self::events). Requests that reach it meanwhile are refused, and later ones find no node: either fails the call at this id at once.
    pub fn shutdown(mut self, limit: Duration) {
        self.end(limit);
    }

    /// Waits until there is a link to each of these ids, at most `limit`: nodes of a job start in any order, and a call fails at one that is not there yet. It tries again and again, with pauses that
    /// grow to a quarter of a second. Only a root need wait; the links are those that its calls use.
    ///
    /// # Errors
    /// [`AbsentPeers`], which names those that did not come up, and why the first of them did not.
    #[allow(clippy::disallowed_methods, reason = "the pause between two attempts is not a wait for anything")]
    pub fn wait_for_peers(&self, ids: impl Into<Ids>, limit: Duration) -> Result<(), AbsentPeers> {
        if waiting::is_driving() {
            return Err(AbsentPeers::Driver);
        }
        let mut meeting = Meeting::new(ids.into().list()?, limit);
        let begun = Instant::now();
        // Ends: the time passes.
        while let Some(pause) =
            meeting.judge(meeting.ask(&self.front.side.mailbox, begun.elapsed()), begun.elapsed())?
        {
            thread::sleep(pause);
        }
        Ok(())
    }

    fn end(&mut self, limit: Duration) {
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() == thread::current().id() {
            // Dropped by a function or a continuation of its own: the node ends when this turn has, and nobody can wait for that here.
            let side = self.front.side.clone();
            let ask = move |room| side.mailbox.command(Command::Shutdown { limit }, room);
            if ask(Duration::ZERO) == Err(Unsent::Full) {
                // Ends: the loop makes room, or ends by itself.
                let asking = move || while ask(COMMAND_LIMIT) == Err(Unsent::Full) {};
                if let Err(error) = thread::Builder::new().name("gpc-ends".into()).spawn(asking) {
                    error!(%error, "a node that was dropped cannot be told to end");
                }
            }
            return;
        }
        // A loop that makes no room cannot be joined either. One that has ended by itself takes no command, and its thread is there to be joined.
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
