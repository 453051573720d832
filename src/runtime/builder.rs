//! The settings of a node, and how its parts are put together.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::{Costs, Hosts, Id, Limits};
use mio::{Poll, Waker};

use super::auto_tree::AutoTree;
use super::clock::{self, ClockStart};
use super::connect_options::ConnectOptions;
use super::connections::Connections;
use super::event_loop::{EventLoop, Parts, WAKER};
use super::executor::Executor;
use super::executor_names::{EXECUTORS_MAX, ExecutorNames};
use super::front::Front;
use super::functions::Functions;
use super::mailbox::Mailbox;
use super::memory::Memory;
use super::shared_state::SharedState;
use super::trust::Trust;
use super::users::Users;
use super::{LinkKind, Listener, Peers, Wait, same_host};
use crate::chain::{self, Heartbeat};
use crate::link::HIWATER;
use crate::link::peering::{Identity, Peering, PrivateKey, Secret};
use crate::transport::{HostNetwork, Inbound, Keepalive, MemoryNetwork, Network};
use crate::wire::Job;

/// Maximum number of workers of a node, and of an executor: each is a thread, more than any machine can run.
const WORKERS_MAX: usize = 4096;

/// Default silence of a peer that is given up. Heartbeats are cheap, and a machine may be busy for seconds.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Calls that the flight recorder keeps by default: the last moments of a busy node, and hours of a calm one.
const RECORDED: usize = 2_048;

/// Maximum number of calls that a flight recorder keeps: 96 MiB.
const RECORDED_MAX: usize = 1 << 20;

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
    host: Option<Network>,
    hosts: Option<Hosts>,
    costs: Option<Costs>,
}

impl Builder {
    pub(super) fn new(id: Id) -> Builder {
        let heartbeat = Some(Heartbeat::dead_after(DEAD_AFTER));
        let incarnation = clock::incarnation();
        // The seed of hash tables that strangers fill, from the system's randomness.
        let seed = RandomState::new().hash_one(incarnation);
        let recorded = RECORDED;
        let config = chain::Config { heartbeat, seed, recorded, ..chain::Config::new(id, incarnation) };
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
            host: None,
            hosts: None,
            costs: None,
        }
    }

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

    /// Sets the number of functions that may run at once, 1 to 4,096, one by default; never two of the same call. The
    /// thread that drives the node counts as one: it runs a function if no other one runs. More than one needs the
    /// feature `rayon`.
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
    /// the processes knows. Then the node takes part in any [partial call](crate::Call::partial), however young it is.
    /// By default an earlier run may have executed the call, and [`restart_margin`](Self::restart_margin) decides.
    ///
    /// A process that may be the second of its id must not set it: it would execute calls again.
    pub fn first_run(mut self) -> Builder {
        self.config.first_run = true;
        self
    }

    /// Sets how much older than a [partial call](crate::Call::partial) a node must be to accept the call from an
    /// adopter, unless it is the [first run](Self::first_run) of its id. The adopter may repeat a request that an
    /// earlier run has executed. The margin must exceed the time that a request may be in flight. One second by
    /// default.
    pub fn restart_margin(mut self, margin: Duration) -> Builder {
        self.config.restart_margin = margin;
        self
    }

    /// Sets the number of ended calls that the [flight recorder](super::Node::recorder) keeps: 2,048 by default, at
    /// most 1,048,576. With 0 it records nothing, and [`Metrics`](super::Metrics) count no calls and durations. It
    /// reserves 96 bytes for each: 64 for the call, and 32 for two answers of children.
    pub fn recorder(mut self, calls: usize) -> Builder {
        self.config.recorded = calls.min(RECORDED_MAX);
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

    /// Sets a network that the program has: messages for peers with the address
    /// [`Address::Host`](crate::Address::Host) go over it. It needs no listener. See [`HostNetwork`].
    pub fn host(mut self, network: Arc<dyn HostNetwork>) -> Builder {
        self.host = Some(Network(network));
        self
    }

    /// Puts the node on a network between nodes of this process: messages for peers with the address
    /// [`Address::Host`](crate::Address::Host) go over it. See [`MemoryNetwork`].
    pub fn memory(self, network: &MemoryNetwork) -> Builder {
        let place = network.place(self.config.me);
        self.host(Arc::new(place))
    }

    /// Sets the hosts of the ids, from which the tree of a call [is chosen](super::CallTree::Auto). By default ids are
    /// on the hosts of their TCP addresses, and on this one if they have other addresses.
    pub fn hosts(mut self, hosts: Hosts) -> Builder {
        self.hosts = Some(hosts);
        self
    }

    /// Sets the costs of messages, from which the tree of a call [is chosen](super::CallTree::Auto): those between
    /// hosts, or within the host if all ids are on one. The defaults are [`Costs::of_network`] and [`Costs::of_host`].
    pub fn costs(mut self, costs: Costs) -> Builder {
        self.costs = Some(costs);
        self
    }

    /// Sets the limits of trees: depth and fan-out.
    pub fn tree_limits(mut self, limits: Limits) -> Builder {
        self.config.trees = limits;
        self
    }

    /// Puts the parts of the node together: what the application uses, and the event loop.
    pub(super) fn build(self, polled: bool, commands: usize) -> io::Result<(Front, EventLoop)> {
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
            host,
            hosts,
            costs,
        } = self;
        check_executors(executors.len())?;
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
        let (executors, begun) = (ExecutorNames(executors), ClockStart::now());
        let auto_tree = Arc::new(AutoTree::new((costs, hosts), id, address.as_ref(), &peers));
        let shared = Arc::new_cyclic(|this| SharedState {
            this: this.clone(),
            id,
            limits,
            functions,
            executors,
            auto_tree: auto_tree.clone(),
            mailbox,
            begun,
            memory: AssertUnwindSafe(memory.clone()),
            calls: config.metrics.clone(),
            metrics: Arc::default(),
        });
        let listeners = listener.map(Listener::into_accepting).transpose()?.into_iter();
        let unix = address.as_ref().filter(|_| link != LinkKind::Tcp).and_then(same_host::listen);
        let keepalive = config.heartbeat.map(Keepalive::of);
        let (mine, users) = (address.clone(), Users::new(users));
        let local = ConnectOptions { kind: link, keepalive, mine, users, auto_tree };
        let registry = poll.registry().try_clone()?;
        let listeners = listeners.chain(unix).collect();
        let job = job.or(peers.job()).unwrap_or_default();
        let identity = Identity { me: id, incarnation: config.incarnation, job, hiwater: HIWATER };
        let strictness = trust.strictness();
        let peering = Peering::new(identity, trust.crypto(job)?, strictness, peers);
        let mut connections = Connections::new(peering, registry, listeners, local, memory)?;
        connections.traffic.metrics = shared.metrics.clone();
        if let Some(network) = host {
            let wake = shared.mailbox.clone();
            let wake = Box::new(move || wake.notify());
            connections.accepting.host = Some(Inbound::start(id, network, config.incarnation, wake)?);
        }
        let executor = Executor::new(&shared, &workers, polled)?;
        // The class of the recorder's function, which runs on the event loop.
        config.executors.push(1);
        let node = chain::Node::new(config);
        let front = Front { address, shared: shared.clone() };
        let parts = Parts { poll, node, connections, shared, executor, slots, wait, trims: !polled };
        Ok((front, EventLoop::new(parts)?))
    }
}

fn check_executors(count: usize) -> io::Result<()> {
    if count <= EXECUTORS_MAX {
        return Ok(());
    }
    let message = format!("{count} executors are too many: a node has at most {EXECUTORS_MAX}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}
