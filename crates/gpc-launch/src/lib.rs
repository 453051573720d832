//! Starts and ends node processes on this machine, as `gpc call` does, for programs of your own.
//!
//! A [`Launch`] starts a process for each id, all of them the same program, and ends all of them. A started process
//! gets its id from [`own_id`], and its socket and the addresses of the others from [`Launched::take`].
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use gpc_launch::{Launch, Launched, Plan, own_id, this_program};
//! use chained_gpc::{Call, Functions};
//!
//! /// The arguments of a started process, before its id.
//! const STARTED: [&str; 1] = ["--started-as"];
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let functions = Functions::new();
//!     let pid = functions.func("pid", |_, reply| {
//!         reply.data = std::process::id().to_le_bytes().to_vec();
//!         Ok(())
//!     })?;
//!     // A process started below: a node until its parent ends it, or dies.
//!     if let Some(id) = own_id(std::env::args_os(), &STARTED) {
//!         return Ok(Launched::take(id)?.serve(&functions)?);
//!     }
//!     let launch = Launch::start(&Plan::new(1..8, this_program()?, &STARTED))?;
//!     let node = launch.node(0).functions(&functions).start()?;
//!     let outcome = node.call(Call::new(pid).ids(0..8))?.wait()?;
//!     println!("{} processes", outcome.replies()?.len());
//!     let ended = launch.end(Duration::from_secs(5));
//!     assert!(ended.killed.is_empty() && ended.failed.is_empty());
//!     Ok(())
//! }
//! ```
//!
//! [`remote`] does the same for processes on other hosts.
//!
//! # What is started
//!
//! For each id of the [`Plan`] one process, which runs `exe ARGUMENTS... ID` in a process group of its own, so that
//! Ctrl-C at the terminal reaches only the parent. Working directory, standard error and environment are the parent's.
//! Variables by which a launcher identifies the parent are removed.
//!
//! - **Standard input** is the node's listening socket. The parent binds all sockets before it starts the first
//!   process. So every address is known, and accepts connections, before any process runs, and no process waits for
//!   another.
//! - **Standard output** is the process's end of its *control link*, a pair of Unix sockets. It carries the process's
//!   [`Orders`]: the addresses of all nodes, their [`NodeSettings`], and the secret of the job, some lines of text for
//!   any number of processes. A started program must not print to standard output.
//!
//! # Which nodes may link
//!
//! Each launch has a [secret](Launch::secret), drawn for it unless the [plan](Plan::secret) has one: over TCP its nodes
//! link only with nodes that prove that they have it. The secret is sent over the control links alone: no argument, no
//! environment, no file, no log contains it. A node of the parent itself needs it as well, and [has it](Launch::node).
//! Over Unix sockets and shared memory the secret is not used: there the system reports the user of the other process.
//!
//! # How everything is ended
//!
//! [`Launch::end`] closes the parent's ends of all control links at once. A process whose link is closed ends
//! ([`Launched::serve`] does so at once, without a message to its peers). The parent reaps processes as they end, kills
//! those that are left after a time limit, and reports both. Dropping a `Launch` does the same with a limit of 2 s. If
//! the parent dies in any way, the system closes the links, and the processes end as well. A process keeps its end open
//! as long as it lives, so the closed link shows the parent that the process has ended: [`Launch::first_ended`],
//! [`Launch::exit_of`]. No process, socket file or other resource is left behind.
//!
//! # Limits
//!
//! At most [`PROCESSES_MAX`] processes, and two file descriptors for each: the soft limit (`ulimit -n`) is raised to
//! the hard one if needed ([`provide_files`]). Thousands of processes take seconds to start; [`Launch::start_observed`]
//! reports the progress, and can give up.
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | file | for |
//! |---|---|
//! | `spawn`, `files`, `limits` | starts processes in parallel; raises the limit of descriptors; maximum of processes |
//! | `plan` | the ids, the program and the settings of a launch |
//! | `program`, `orders`, `settings` | this program, to start it again; orders of a process; settings of all nodes |
//! | `launched` | the started process's side |
//! | `error`, `orders_error`, `quoted` | errors of a launch; of a process's orders; quoted text |
//! | [`remote`] | the same on other hosts, through a tree of agents |
//! | `remote/starting`, `share` | what one agent starts, without I/O; its part of the tree |
//! | `remote/task`, `answer`, `words`, `lines` | orders of an agent; its reports; words in a line; bytes to lines |
//! | `remote/driver`, `process` | drives `starting`; an agent's process and its pipes |
//! | `remote/agent`, `root` | the two sides |
//! | `remote/session` | an agent's session with the agent above, without I/O |
//! | `remote/network`, `error`, `agent_error` | addresses to listen at; errors |

mod error;
mod files;
mod launched;
mod limits;
mod orders;
mod orders_error;
mod plan;
mod program;
mod quoted;
#[cfg(feature = "noise")]
pub mod remote;
mod settings;
mod spawn;

pub use error::LaunchError;
pub use files::provide as provide_files;
pub use launched::{Launched, LaunchedError, own_id};
pub use limits::{PROCESSES_MAX, advice};
pub use orders::Orders;
pub use orders_error::OrdersError;
pub use plan::Plan;
pub use program::{name_of, program_file, this_program};
pub use settings::NodeSettings;

pub use chained_gpc::bootstrap::inherited_socket;
pub use chained_gpc::runtime::control_group::memory_kills;

use std::io;
use std::net::Shutdown;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use gpc_trees::{Id, IdList};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use rustix::process::Signal;

use self::spawn::{Spawner, Started};
use chained_gpc::link::peering::Secret;
use chained_gpc::runtime::Job;
use chained_gpc::runtime::{Builder, Node as AnyNode, Peers};
use chained_gpc::{Clock, bootstrap};

/// Time limit for children to end when a launch is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Maximum time of one poll: the system counts milliseconds in 32 bits.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Maximum number of process ends that one poll returns.
const EVENTS: usize = 256;

/// Number of processes that share the machine if `started` are started: this process counts, too.
fn sharing(started: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(u32::try_from(started).unwrap_or(u32::MAX))
}

/// Node processes that are running. Dropping it [ends](Self::end) them; those that do not end within 2 s are killed.
///
/// ```no_run
/// use std::time::Duration;
///
/// use gpc_launch::{Launch, Plan};
///
/// let mut launch = Launch::start(&Plan::new(1..64, "/usr/local/bin/my-nodes", &["--started-as"]))?;
/// println!("{} processes, the first has the pid {:?}", launch.peers().len(), launch.process_of(1));
/// let ended = launch.end(Duration::from_secs(5));
/// assert!(ended.killed.is_empty(), "{:?} had to be killed", ended.killed);
/// # Ok::<(), gpc_launch::LaunchError>(())
/// ```
///
/// The [module](self) has a complete program, with the side of the started processes.
#[derive(Debug)]
pub struct Launch {
    /// By id, without gaps.
    nodes: Vec<Node>,
    first: Id,
    peers: Peers,
    secret: Option<Secret>,
    /// Reports each control link that has been closed, once. The token is the index of the node.
    poll: Poll,
    events: Events,
    /// Number of nodes that have not been seen to end.
    running: usize,
    clock: Clock,
}

/// How the processes ended that [`Launch::end`] has ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Ids that did not end in time and were killed.
    pub killed: Vec<Id>,
    /// Ids that did not end normally, with their status.
    pub failed: Vec<(Id, String)>,
}

#[derive(Debug)]
struct Node {
    id: Id,
    process: Child,
    /// The child sends nothing here; bytes that arrive are not read.
    control: UnixStream,
    /// Set once the process is reaped.
    status: Option<ExitStatus>,
}

impl Launch {
    /// Starts a process for each id, and passes the addresses of all to each.
    ///
    /// # Errors
    /// If a process cannot be started; those that have been started are ended then.
    pub fn start(plan: &Plan) -> Result<Launch, LaunchError> {
        Launch::start_observed(plan, |_| ControlFlow::Continue(()))
    }

    /// Like [`start`](Self::start), with a check before each process: thousands of processes take seconds. Several
    /// threads call `observe` with the number of processes started so far; at the first [`ControlFlow::Break`] the
    /// launch is given up.
    ///
    /// # Errors
    /// The same, and [`LaunchError::Stopped`].
    pub fn start_observed(
        plan: &Plan,
        observe: impl Fn(usize) -> ControlFlow<()> + Sync,
    ) -> Result<Launch, LaunchError> {
        let count = plan.ids.len();
        if count > PROCESSES_MAX as usize {
            return Err(LaunchError::TooMany { count });
        }
        files::provide(count)?;
        bootstrap::keep_socket().map_err(LaunchError::Watch)?;
        let poll = Poll::new().map_err(LaunchError::Watch)?;
        let (listeners, row) = plan
            .link
            .listen(plan.ids.clone())
            .map_err(|(id, error)| LaunchError::start(id, count, "listen for", error))?;
        let mut others = plan.others.clone();
        others.set_job(others.job().unwrap_or_else(Job::random));
        let secret = plan.secret_or_drawn().map_err(LaunchError::Secret)?;
        let mut settings = plan.settings;
        settings.processes = settings.processes.or(Some(sharing(count)));
        let orders = Orders { row, others, settings, secret: secret.clone() };
        let text = orders.to_text();
        let spawner = Spawner {
            plan,
            orders: text.as_bytes(),
            started: AtomicUsize::new(0),
            observe: &observe,
            failed: AtomicBool::new(false),
        };
        let (started, result) = spawner.start_all(listeners);
        let nodes: Vec<Node> = started.into_iter().map(Node::from).collect();
        let (first, running) = (plan.ids.start, nodes.len());
        let events = Events::with_capacity(EVENTS);
        let (peers, clock) = (orders.peers(), Clock::system());
        let mut launch = Launch { nodes, first, peers, secret, poll, events, running, clock };
        launch.watch().map_err(LaunchError::Watch)?;
        // If the start has failed, dropping the launch ends the processes that were started.
        result.map(|()| launch)
    }

    /// The addresses of all nodes, the others of the plan included.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The secret of the job, which all started nodes have, for other nodes that link with them over TCP. `None` if the
    /// crate lacks the feature `noise`, and the plan has no secret.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Returns a builder of a node of this process that links with the started ones: it has their [peers](Self::peers)
    /// and their [secret](Self::secret).
    pub fn node(&self, id: Id) -> Builder {
        let builder = AnyNode::builder(id).peers(self.peers.clone()).processes(sharing(self.nodes.len()));
        self.secret.clone().into_iter().fold(builder, Builder::secret)
    }

    /// The process id (`pid`) of an id's process; `None` for an id that was not started here.
    pub fn process_of(&self, id: Id) -> Option<u32> {
        let node = self.nodes.get(self.place(id)?)?;
        Some(node.process.id())
    }

    /// The process ids (`pid`) of all processes, in the order of their ids.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.process.id())
    }

    /// How an id's process ended, as text for people, such as `killed by signal 9 (SIGKILL)` or `exit status 1`; `None`
    /// while it runs.
    ///
    /// A process that dies loses its connections one by one. So a caller that has just lost a link with it waits up to
    /// `patience` for the rest.
    pub fn exit_of(&mut self, id: Id, patience: Duration) -> Option<String> {
        let place = self.place(id)?;
        self.reap_within(patience, |launch| launch.nodes.get(place).is_none_or(|node| node.status.is_some()));
        self.nodes.get(place)?.status.map(describe)
    }

    /// Returns the lowest id of `among` whose process has ended by itself.
    pub fn first_ended(&mut self, among: &IdList) -> Option<Id> {
        self.reap(Duration::ZERO);
        if self.running == self.nodes.len() {
            return None;
        }
        let mut ended = self.nodes.iter().filter(|node| node.status.is_some());
        ended.find(|node| among.contains(node.id)).map(|node| node.id)
    }

    /// Ends all processes: closes every control link, reaps processes until the limit has passed, then kills and reaps
    /// the rest.
    pub fn end(mut self, limit: Duration) -> Ended {
        self.end_all(limit)
    }

    fn end_all(&mut self, limit: Duration) -> Ended {
        for node in &self.nodes {
            // Fails if the child has gone already.
            let _ = node.control.shutdown(Shutdown::Write);
        }
        self.reap_within(limit, |launch| launch.running == 0);
        let mut ended = Ended::default();
        for node in self.nodes.iter_mut().filter(|node| node.status.is_none()) {
            ended.killed.push(node.id);
            // All remaining processes are killed before the first one is waited for.
            let _ = node.process.kill();
        }
        for node in &mut self.nodes {
            let killed = node.status.is_none();
            match node.reap() {
                Some(status) if !status.success() && !killed => {
                    ended.failed.push((node.id, describe(status)));
                }
                _ => {}
            }
        }
        self.nodes.clear();
        self.running = 0;
        ended
    }

    /// Registers every control link for the event of its closing.
    fn watch(&mut self) -> io::Result<()> {
        for (place, node) in self.nodes.iter_mut().enumerate() {
            self.poll.registry().register(&mut node.control, Token(place), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Reaps processes as they end, until `enough` returns true or the limit has passed.
    fn reap_within(&mut self, limit: Duration, enough: impl Fn(&Launch) -> bool) {
        let limit = self.clock.limit(limit);
        // Terminates: the limit passes.
        while !enough(self) {
            let left = limit.left();
            self.reap(left.unwrap_or_default());
            if left.is_none() {
                return;
            }
        }
    }

    /// Waits up to `patience` for processes to end, and reaps those that have ended.
    fn reap(&mut self, patience: Duration) {
        // The poll fails only if a signal interrupts it; the caller's loop polls again.
        let _ = self.poll.poll(&mut self.events, Some(patience.min(WAIT_MAX)));
        for event in self.events.iter().filter(|event| event.is_read_closed() || event.is_error()) {
            let Some(node) = self.nodes.get_mut(event.token().0) else { continue };
            if node.status.is_none() {
                // A correct process closes its end only by dying, so the signal affects only a program that is not the
                // right one. It never changes the status of a dead process.
                let _ = node.process.kill();
                self.running -= usize::from(node.reap().is_some());
            }
        }
    }

    /// The index of a node in the list.
    fn place(&self, id: Id) -> Option<usize> {
        id.checked_sub(self.first).map(|place| place as usize)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        self.end_all(DROP_LIMIT);
    }
}

impl From<Started> for Node {
    fn from(started: Started) -> Node {
        let Started { id, process, control } = started;
        Node { id, process, control: UnixStream::from_std(control), status: None }
    }
}

impl Node {
    /// Waits for a process that is dying.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.status = self.status.or_else(|| self.process.wait().ok());
        self.status
    }
}

/// The signals that end processes, by name.
const SIGNALS: [(Signal, &str); 18] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::ILL, "SIGILL"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::KILL, "SIGKILL"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::TERM, "SIGTERM"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
    (Signal::SYS, "SIGSYS"),
];

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let name = SIGNALS.iter().find(|(known, _)| known.as_raw() == signal).map(|(_, name)| *name);
            format!("killed by signal {signal} ({})", name.unwrap_or("unknown"))
        }
        (None, None) => status.to_string(),
    }
}

/// The program of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(test)]
mod tests;
