//! Starting and ending node processes on this machine: what `gpc call` does, for programs of your own.
//!
//! A [`Launch`] starts a process for each id, all of them the same program, and ends every one of them. A process that was started so finds
//! with [`own_id`] and [`Launched::take`] who it is, where it listens and where the others do.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use chained_gpc::launch::{Launch, Launched, Plan, own_id, this_program};
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
//!     // One of those that are started below: a node until its parent ends it, or dies.
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
//! For each id of the [`Plan`] one process, which runs `exe ARGUMENTS... ID` in a process group of its own, so that Ctrl-C at the terminal reaches the parent alone. Working directory, standard error and environment are the parent's, but for what the launcher of the parent, if it has one, says in its environment about the parent alone.
//!
//! - **Standard input** is the node's listening socket. The parent binds all of them before the first process is started, so every address is known, and can be connected to, before anybody runs: nobody waits for anybody.
//! - **Standard output** is the process's end of its *control link*, a pair of Unix sockets. In it lie the process's [`Orders`]: where all nodes listen, their [`NodeSettings`], and the secret of the job, some lines of text whatever the number of
//!   processes. A started program must not print to standard output.
//!
//! # Who may come in
//!
//! Each launch has a [secret](Launch::secret), drawn for it unless the [plan](Plan::secret) gives one: over TCP its nodes link with those alone that prove that they have it. It goes over the control links and nowhere else: no argument, no
//! environment, no file, no log. A node of the parent's own needs it as well, and [has it](Launch::node). Over Unix sockets and shared memory nothing is asked of it: there the system tells whose process it is.
//!
//! # How everything is ended
//!
//! [`Launch::end`] closes the parent's ends of all control links at once; a process whose link is closed ends ([`Launched::serve`] does so at once, without a word to its peers). The parent reaps them as they end, kills those that are left after a
//! limit, and reports both. Dropping a `Launch` does the same with a limit of 2 s. When the parent dies, however it dies, the system closes the links, and the processes end as well. A process keeps its end open as long as it
//! lives, so the parent reads there that one has ended: [`Launch::first_ended`], [`Launch::exit_of`]. No process, no socket file and nothing else is left behind.
//!
//! # Limits
//!
//! At most [`PROCESSES_MAX`] processes, and two file descriptors for each: the soft limit (`ulimit -n`) is raised to the hard one where it has to be ([`provide_files`]). Thousands of processes take seconds to start; [`Launch::start_observed`] says how far it is, and
//! can give up.

#![allow(
    clippy::disallowed_methods,
    reason = "processes are waited for by the clock, each wait with a limit"
)]

mod error;
mod files;
mod launched;
mod limits;
mod orders;
mod program;
#[cfg(feature = "noise")]
pub mod remote;
mod settings;
mod spawn;

pub use error::LaunchError;
pub use files::provide as provide_files;
pub use launched::{Launched, LaunchedError, own_id};
pub use limits::{PROCESSES_MAX, advice};
pub use orders::{Orders, OrdersError};
pub use program::{name_of, this_program};
pub use settings::NodeSettings;

pub use crate::launchers::inherited_socket;
pub use crate::runtime::control_group::memory_kills;

use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use gpc_trees::{Id, IdList};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use rustix::process::Signal;

use self::spawn::{Spawner, Started};
use crate::launchers;
use crate::peering::Secret;
use crate::runtime::Job;
use crate::runtime::{Builder, LinkKind, Node as AnyNode, Peers};

/// How long children have to end when a launch is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Ends of processes that are taken from the system at a time.
const EVENTS: usize = 256;

/// Longer than any launch lasts: where a caller's patience has no end that a clock can show.
const FAR: Duration = Duration::from_secs(1 << 30);

/// How many processes share the machine when so many are started: this one counts, too.
fn sharing(started: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(u32::try_from(started).unwrap_or(u32::MAX))
}

/// When so long a time is over.
fn far(limit: Duration) -> Instant {
    Instant::now() + limit.min(FAR)
}

/// What to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Ids of the nodes to start, a process for each; at most [`PROCESSES_MAX`].
    pub ids: Range<Id>,
    /// What their sockets are, TCP on loopback or Unix sockets; [`LinkKind::DEFAULT`] by default.
    pub link: LinkKind,
    /// The program that each process runs, usually [the one that runs](this_program).
    pub exe: PathBuf,
    /// Its arguments before the id, which is the last one: by them the program [knows](own_id) that it was started so.
    pub arguments: Vec<OsString>,
    /// Settings of all nodes.
    pub settings: NodeSettings,
    /// Other nodes that the started ones are told about, such as one of this process that listens; none by default. A node that only makes calls need not be among them. Where they name no job, one is drawn for the launch: its [peers](Launch::peers) name it.
    pub others: Peers,
    /// The secret of the job, where nodes that are not started here have it already; `None`, the default, draws one for the launch (with the feature `noise` of this crate, without which nothing can be proved).
    pub secret: Option<Secret>,
}

impl Plan {
    /// A plan with the defaults; its fields may be changed.
    pub fn new(ids: Range<Id>, exe: impl Into<PathBuf>, arguments: &[&str]) -> Plan {
        Plan {
            ids,
            link: LinkKind::DEFAULT,
            exe: exe.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            settings: NodeSettings::default(),
            others: Peers::new(),
            secret: None,
        }
    }

    /// Its secret, or one that is drawn, if nodes can prove that they have it.
    fn secret_or_drawn(&self) -> io::Result<Option<Secret>> {
        match &self.secret {
            Some(secret) => Ok(Some(secret.clone())),
            None if cfg!(feature = "noise") => Secret::random().map(Some),
            None => Ok(None),
        }
    }
}

/// Node processes that are running. Dropping it [ends](Self::end) them, those that do not end within 2 s by force.
///
/// ```no_run
/// use std::time::Duration;
///
/// use chained_gpc::launch::{Launch, Plan};
///
/// let mut launch = Launch::start(&Plan::new(1..64, "/usr/local/bin/my-nodes", &["--started-as"]))?;
/// println!("{} processes, the first has the pid {:?}", launch.peers().len(), launch.process_of(1));
/// let ended = launch.end(Duration::from_secs(5));
/// assert!(ended.killed.is_empty(), "{:?} had to be killed", ended.killed);
/// # Ok::<(), chained_gpc::launch::LaunchError>(())
/// ```
///
/// The [module](self) has a whole program, with the side of the processes that are started.
#[derive(Debug)]
pub struct Launch {
    /// By id, without gaps.
    nodes: Vec<Node>,
    first: Id,
    peers: Peers,
    secret: Option<Secret>,
    /// Tells which control links have been closed, each once: the token is the place of the node.
    poll: Poll,
    events: Events,
    /// Nodes that have not been seen to end.
    running: usize,
}

/// How the processes ended that [`Launch::end`] ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Ids that did not end in time and were killed.
    pub killed: Vec<Id>,
    /// Ids that ended otherwise than orderly, and how.
    pub failed: Vec<(Id, String)>,
}

#[derive(Debug)]
struct Node {
    id: Id,
    process: Child,
    /// Nothing is expected there, and whatever comes is not read.
    control: UnixStream,
    /// Once it is reaped.
    status: Option<ExitStatus>,
}

impl Launch {
    /// Starts a process per id, and tells each where all of them listen.
    ///
    /// # Errors
    /// When one cannot be started; those that have been started are ended then.
    pub fn start(plan: &Plan) -> Result<Launch, LaunchError> {
        Launch::start_observed(plan, |_| ControlFlow::Continue(()))
    }

    /// Like [`start`](Self::start), and asks before each process whether to go on: thousands of processes take seconds.
    /// `observe` is told how many have been started so far, by several threads at a time; at the first [`ControlFlow::Break`] the launch is given up.
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
        launchers::keep_socket().map_err(LaunchError::Watch)?;
        let poll = Poll::new().map_err(LaunchError::Watch)?;
        let (listeners, row) = plan
            .link
            .listen(plan.ids.clone())
            .map_err(|(id, error)| LaunchError::Start { id, count, doing: "listen for", error })?;
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
        let mut launch = Launch { nodes, first, peers: orders.peers(), secret, poll, events, running };
        launch.watch().map_err(LaunchError::Watch)?;
        // Dropping the launch ends those that were started.
        result.map(|()| launch)
    }

    /// Where all nodes listen, the others of the plan included.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The secret of the job, which all started nodes have: for others that are to link with them over TCP. `None` where the crate lacks the feature `noise`, and the plan names none.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// A node of this process that is to link with those that were started: a builder with their [peers](Self::peers) and their [secret](Self::secret).
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

    /// How an id's process ended, such as `killed by signal 9 (SIGKILL)` or `exit status 1`; `None` when it runs. What it says is for people.
    ///
    /// A process that dies loses its connections one by one, so who has just lost one of them waits a moment for the rest: `patience`.
    pub fn exit_of(&mut self, id: Id, patience: Duration) -> Option<String> {
        let place = self.place(id)?;
        let deadline = far(patience);
        self.look_until(deadline, |launch| launch.nodes.get(place).is_none_or(|node| node.status.is_some()));
        self.nodes.get(place)?.status.map(describe)
    }

    /// Of some ids, the lowest whose process has ended by itself.
    pub fn first_ended(&mut self, among: &IdList) -> Option<Id> {
        self.look(Duration::ZERO);
        if self.running == self.nodes.len() {
            return None;
        }
        let mut ended = self.nodes.iter().filter(|node| node.status.is_some());
        ended.find(|node| among.contains(node.id)).map(|node| node.id)
    }

    /// Ends all processes: closes every control link, reaps them as they end until the limit has passed, kills the stragglers, and reaps those.
    pub fn end(mut self, limit: Duration) -> Ended {
        self.end_all(limit)
    }

    fn end_all(&mut self, limit: Duration) -> Ended {
        for node in &self.nodes {
            // Fails when the child has gone already.
            let _ = node.control.shutdown(Shutdown::Write);
        }
        self.look_until(far(limit), |launch| launch.running == 0);
        let mut ended = Ended::default();
        for node in self.nodes.iter_mut().filter(|node| node.status.is_none()) {
            ended.killed.push(node.id);
            // All stragglers are dying before the first one is waited for.
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

    /// From now on the system tells of each control link that is closed.
    fn watch(&mut self) -> io::Result<()> {
        for (place, node) in self.nodes.iter_mut().enumerate() {
            self.poll.registry().register(&mut node.control, Token(place), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Reaps processes as they end, until that is enough or the deadline has passed.
    fn look_until(&mut self, deadline: Instant, enough: impl Fn(&Launch) -> bool) {
        // Ends: the deadline passes.
        while !enough(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            self.look(left);
            if left.is_zero() {
                return;
            }
        }
    }

    /// Waits at most so long for processes to end, and reaps those that have.
    fn look(&mut self, patience: Duration) {
        // Interrupted by a signal, it is asked again; nothing else can happen to it.
        let _ = self.poll.poll(&mut self.events, Some(patience));
        for event in self.events.iter().filter(|event| event.is_read_closed() || event.is_error()) {
            let Some(node) = self.nodes.get_mut(event.token().0) else { continue };
            if node.status.is_none() {
                // It closes its end by dying alone, so this only hastens one that is not the program it should be; a status is never changed by it.
                let _ = node.process.kill();
                self.running -= usize::from(node.reap().is_some());
            }
        }
    }

    /// Where a node stands in the list.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_described() {
        assert_eq!(describe(ExitStatus::from_raw(0)), "exit status 0");
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit status 1");
        assert_eq!(describe(ExitStatus::from_raw(9)), "killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        let plan = Plan { link: LinkKind::Tcp, ..Plan::new(1..3, "/nowhere/gpc", &[]) };
        let error = Launch::start(&plan).unwrap_err().to_string();
        assert!(error.starts_with("cannot start the process of id 1 (of 2): No such file"), "{error}");
        let error = Launch::start(&Plan { ids: 1..PROCESSES_MAX + 2, ..plan }).unwrap_err();
        assert!(matches!(error, LaunchError::TooMany { count: 4097 }));
    }
}
