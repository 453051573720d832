//! Starts the node processes of a call on this machine, and ends every one of them.
//!
//! The parent binds each node's listening socket and hands it over as the child's standard input, so every address is known, and can be
//! connected to, before the first child runs. The child's standard output is its end of a *control link*, a pair of Unix sockets: in it stand
//! the child's [`Orders`], and the parent closes it to end the child. When the parent dies, however it dies, the system closes the link,
//! and the children end as well. A child keeps its end open as long as it lives, so the parent reads there that a child has ended.
//!
//! Never leaves a process or a file behind: dropping a [`Launch`] ends what it started.

mod error;
mod files;
mod orders;
mod spawn;

pub use error::LaunchError;
pub(super) use files::provide as provide_files;
pub(super) use orders::END as ORDERS_END;
pub use orders::{Orders, OrdersError};

use std::io;
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gpc_trees::{Id, IdList};
use indicatif::{ProgressBar, ProgressStyle};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};

use self::spawn::{Spawner, Started};
use super::args::PROCESSES_MAX;
use super::watching::Watching;
use crate::runtime::{LinkKind, Peers};
use crate::wire::Job;

/// How long children have to end when a launch is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// From how many processes on a terminal sees how many have been started; fewer take no noticeable time.
const PROGRESS_MIN: usize = 128;

/// Ends of processes that are taken from the system at a time.
const EVENTS: usize = 256;

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ids of the nodes to start, at most [`PROCESSES_MAX`].
    pub ids: Range<Id>,
    /// How they listen.
    pub link: LinkKind,
    /// The program: `gpc` itself.
    pub exe: PathBuf,
    /// How they look out for each other.
    pub watching: Watching,
    /// Other nodes that the started ones are told about, such as the one of this process. Where they name no job, one is drawn for the launch: its [peers](Launch::peers) name it.
    pub others: Peers,
}

/// Node processes that are running.
#[derive(Debug)]
pub struct Launch {
    /// By id, without gaps.
    nodes: Vec<Node>,
    first: Id,
    peers: Peers,
    /// Tells which control links have been closed, each once: the token is the place of the node.
    poll: Poll,
    events: Events,
    /// Nodes that have not been seen to end.
    running: usize,
}

/// How the processes ended that [`Launch::end`] ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
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
        Launch::start_unless(plan, || false)
    }

    /// Like [`start`](Self::start), and gives up as soon as it is to `stop`: thousands of processes take seconds.
    ///
    /// # Errors
    /// The same, and [`LaunchError::Stopped`].
    pub fn start_unless(plan: &Plan, stop: impl Fn() -> bool + Sync) -> Result<Launch, LaunchError> {
        let count = plan.ids.len();
        if count > PROCESSES_MAX as usize {
            return Err(LaunchError::TooMany { count });
        }
        files::provide(count)?;
        let poll = Poll::new().map_err(LaunchError::Watch)?;
        let (listeners, row) = plan
            .link
            .listen(plan.ids.clone())
            .map_err(|(id, error)| LaunchError::Start { id, count, doing: "listen for", error })?;
        let mut others = plan.others.clone();
        others.set_job(others.job().unwrap_or_else(Job::random));
        let orders = Orders { row, others, watching: plan.watching };
        let text = orders.to_string();
        let progress = progress_bar(count);
        let spawner = Spawner {
            plan,
            orders: text.as_bytes(),
            progress: &progress,
            stop: &stop,
            failed: AtomicBool::new(false),
        };
        let (started, result) = spawner.start_all(listeners);
        progress.finish_and_clear();
        let nodes: Vec<Node> = started.into_iter().map(Node::from).collect();
        let (first, running) = (plan.ids.start, nodes.len());
        let events = Events::with_capacity(EVENTS);
        let mut launch = Launch { nodes, first, peers: orders.peers(), poll, events, running };
        launch.watch().map_err(LaunchError::Watch)?;
        // Dropping the launch ends those that were started.
        result.map(|()| launch)
    }

    /// Where all nodes listen, the others of the plan included.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The number of an id's process.
    pub fn process_of(&self, id: Id) -> Option<u32> {
        let node = self.nodes.get(self.place(id)?)?;
        Some(node.process.id())
    }

    /// The numbers of all processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.process.id())
    }

    /// How an id's process ended, such as `killed by signal 9 (SIGKILL)` or `exit status 1`; `None` when it runs. What it says is for people.
    ///
    /// A process that dies loses its connections one by one, so who has just lost one of them waits a moment for the rest: `patience`.
    pub fn exit_of(&mut self, id: Id, patience: Duration) -> Option<String> {
        let place = self.place(id)?;
        let deadline = Instant::now() + patience;
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
        self.look_until(Instant::now() + limit, |launch| launch.running == 0);
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

fn progress_bar(count: usize) -> ProgressBar {
    if count < PROGRESS_MIN {
        return ProgressBar::hidden();
    }
    // Draws on standard error, and only where that is a terminal.
    let style = ProgressStyle::with_template("starting processes {wide_bar} {pos}/{len}");
    ProgressBar::new(count as u64).with_style(style.expect("the template is well formed"))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
            format!("killed by signal {signal} ({name})")
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
        let plan = Plan {
            ids: 1..3,
            link: LinkKind::Tcp,
            exe: "/nowhere/gpc".into(),
            watching: Watching::default(),
            others: Peers::new(),
        };
        let error = Launch::start(&plan).unwrap_err().to_string();
        assert!(error.starts_with("cannot start the process of id 1 (of 2): No such file"), "{error}");
        let error = Launch::start(&Plan { ids: 1..PROCESSES_MAX + 2, ..plan }).unwrap_err();
        assert!(matches!(error, LaunchError::TooMany { count: 4097 }));
    }
}
